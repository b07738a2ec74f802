"""Options several commands share, so that they are spelled and explained the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sleepwatch.client.target import Target
    from sleepwatch.scan import Options

_Command = TypeVar("_Command", bound=Callable[..., Any])


def format_options(command: _Command) -> _Command:
    """``--table`` (the default), ``--json``, ``--jsonl`` as parameter ``output``."""
    for name, words in (
        ("jsonl", "One incident a line, as JSON."),
        ("json", "One JSON document (schema: docs/scan-schema.json)."),
        ("table", "Plain text for people.  [default]"),
    ):
        option = click.option(f"--{name}", "output", flag_value=name, default="table", help=words)
        command = option(command)
    return command


def possible_option(command: _Command) -> _Command:
    """``--possible`` as parameter ``possible``."""
    return click.option("--possible", is_flag=True, help="Show also what is only possible.")(command)


def raw_option(command: _Command) -> _Command:
    """``--raw`` as parameter ``raw``."""
    return click.option(
        "--raw", is_flag=True, help="Show evidence lines whole. They can hold prompts; without it, only what matched."
    )(command)


def db_option(command: _Command) -> _Command:
    """``--db FILE`` as parameter ``db``: a path, or None."""
    return click.option(
        "--db", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The incident database."
    )(command)


def database_of(db: Path | None) -> Path:
    """The database to look into: ``--db``, else that of this host's daemon. Raises ConfigError."""
    from sleepwatch.daemon.status import database_path

    return db or database_path()


def json_option(command: _Command) -> _Command:
    """``--json`` as parameter ``as_json``, for commands that print plain text without it."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document instead of plain text.")(command)


def config_option(command: _Command) -> _Command:
    """``-c``, ``--config`` as parameter ``path``: the daemon's configuration, or None."""
    return click.option(
        "-c",
        "--config",
        "path",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Configuration.  [default: /etc/sleepwatch/sleepwatch.toml]",
    )(command)


def reading_options(command: _Command) -> _Command:
    """How to read the lines of a log, as parameters ``tz``, ``year`` and ``envelope``: see :func:`reading`."""
    for option in (
        click.option("--envelope", metavar="NAME", help="Force the lines' carrier instead of telling it from them."),
        click.option("--year", type=int, metavar="YYYY", help="Year of the first stamp that has none."),
        click.option(
            "--tz", metavar="ZONE", help="Zone of stamps that name none: Europe/Berlin, +02:00, local.  [default: UTC]"
        ),
    ):
        command = option(command)
    return command


def journal_options(command: _Command) -> _Command:
    """Which journal, and what of it: ``journal``, ``directories``, ``journal_files``, ``units``, ``boot``."""
    for option in (
        click.option("--journal-way", type=click.Choice(["auto", "native", "command"]), default="auto", hidden=True),
        click.option("-b", "--boot", metavar="BOOT", help="Only this boot: an id, or 0, -1, … back from the last."),
        click.option(
            "-u", "--unit", "units", multiple=True, metavar="UNIT", help="Only this unit, or units of this pattern."
        ),
        click.option(
            "--file", "--journal-file", "journal_files", multiple=True, metavar="FILE", help="Read this journal file."
        ),
        click.option(
            "-D", "--directory", "directories", multiple=True, metavar="DIR", help="Read the journal in this directory."
        ),
        click.option("--journal", is_flag=True, help="Read this machine's systemd journal."),
    ):
        command = option(command)
    return command


def target_options(command: _Command) -> _Command:
    """What a server is asked with: ``model``, ``kind``, ``key_file``, ``ca_file``, ``insecure``, ``timeout``."""
    path = click.Path(dir_okay=False, path_type=Path)
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(1),
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="How long an answer may take: the model is loaded first.",
        ),
        click.option("--insecure", is_flag=True, help="Take any TLS certificate."),
        click.option("--cacert", "ca_file", type=path, metavar="FILE", help="Trust the certificates in this PEM file."),
        click.option(
            "--api-key-file", "key_file", type=path, metavar="FILE", help="The API key: the file's first line."
        ),
        click.option(
            "--kind",
            type=click.Choice(["auto", "completion", "chat", "embedding"]),
            default="auto",
            show_default=True,
            help="What it serves. auto goes on where the server says that it is of another kind; for one that serves "
            "embeddings or reranks only, say embedding.",
        ),
        click.option("--model", metavar="NAME", help="Of a router: the model to wake."),
    ):
        command = option(command)
    return command


def target_of(
    url: str, model: str | None, kind: str, key_file: Path | None, ca_file: Path | None, insecure: bool
) -> Target:
    """The server these options name. Raises TargetError for a wrong URL."""
    from sleepwatch.client.target import parse_target

    known = None if kind == "auto" else kind
    return parse_target(url, model=model, kind=known, key_file=key_file, ca_file=ca_file, insecure=insecure)


def reading(tz: str | None, year: int | None, envelope: str | None) -> Options:
    """These options as ``scan`` takes them. Raises SleepwatchError for a zone or carrier that there is not."""
    from datetime import UTC

    from sleepwatch import clock
    from sleepwatch.envelopes import by_name
    from sleepwatch.scan import Options
    from sleepwatch.times import parse_zone

    if envelope is not None:
        by_name(envelope)  # a wrong name is told before anything is read
    zone = UTC if tz is None else clock.local_zone() if tz == "local" else parse_zone(tz)
    return Options(envelope=envelope, zone=zone, year=year)


def output_options(command: _Command) -> _Command:
    """All of them, for commands that report incidents."""
    return format_options(possible_option(raw_option(db_option(command))))
