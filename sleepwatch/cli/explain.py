"""``sleepwatch explain``: what each line of a log became, and why an incident did or did not follow."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from sleepwatch.cli.options import database_of, db_option, json_option, raw_option, reading, reading_options

if TYPE_CHECKING:
    from sleepwatch.explain import Explanation

EXIT_FAILED = 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, metavar="[FILE[:LINE] | -]")
@click.option("--incident", metavar="ID", help="The story of this incident. The first characters of its ID are enough.")
@json_option
@raw_option
@db_option
@reading_options
def explain(
    paths: tuple[str, ...],
    incident: str | None,
    as_json: bool,
    raw: bool,
    db: Path | None,
    tz: str | None,
    year: int | None,
    envelope: str | None,
) -> None:
    """Show what each line of a log became, what it changed, and why an incident did or did not follow.

    With FILE:LINE all about that line, and what the lines around it became. With --incident the lines that made that
    incident, in order, and why it is as sure as it is. With neither the lines of the log that a verdict can turn on.
    The pieces of a rotated log may be named before the FILE: they are read as one.

    Without a FILE, --incident tells the story of an incident of the database: the lines, what was seen beside them,
    each verdict and each wake, in order.

    \b
    Examples:
      sleepwatch explain server.log
      sleepwatch explain server.log:4211
      sleepwatch explain server.log --incident 5c7afa
      sleepwatch explain --incident 5c7afa
      journalctl -u llama-server -o export | sleepwatch explain -

    \b
    Exit codes:
      0  done
      2  an error: a source that cannot be read, a line or an incident that is not there
    """
    from sleepwatch.explain import explain as answer

    if not paths:
        _tell_story(incident, db, as_json=as_json)
        return
    last, line = _line_of(paths[-1])
    if line is not None and incident is not None:
        raise click.UsageError("name either a line or --incident, not both")
    with _standard_input(wanted="-" in (*paths[:-1], last)) as stdin:
        explanation = answer(
            [*paths[:-1], last], line=line, incident=incident, options=reading(tz, year, envelope), stdin=stdin
        )
        _print(explanation, as_json=as_json, raw=raw)
    for name, why in explanation.result.failed:
        click.echo(f"sleepwatch: {why}" if name in why else f"sleepwatch: {name}: {why}", err=True)
    if explanation.result.failed:
        sys.exit(EXIT_FAILED)


def _tell_story(incident: str | None, db: Path | None, *, as_json: bool) -> None:
    if incident is None:
        raise click.UsageError("Missing argument: name a log, or an incident of the database with --incident")
    if as_json:
        raise click.UsageError("--json needs a log; `sleepwatch incidents show --json` tells what the database holds")
    from sleepwatch.report.story import read_story, story_text
    from sleepwatch.report.table import Style

    for line in story_text(read_story(str(database_of(db)), incident), Style.of(sys.stdout, dict(os.environ))):
        click.echo(line, color=True)


def _line_of(path: str) -> tuple[str, int | None]:
    """A path with ``:LINE`` behind it, taken apart; a file that has such a name is taken as it is."""
    name, colon, number = path.rpartition(":")
    if not colon or not number.isascii() or not number.isdigit() or os.path.exists(path):
        return path, None
    return name, int(number)


@contextmanager
def _standard_input(*, wanted: bool) -> Iterator[Callable[[], BinaryIO] | None]:
    """Standard input, to be read more than once; None where nobody asks for it."""
    if not wanted:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="sleepwatch-") as directory:
        kept = Path(directory) / "stdin"
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield lambda: kept.open("rb")


def _print(explanation: Explanation, *, as_json: bool, raw: bool) -> None:
    if as_json:
        from sleepwatch.report import json_text
        from sleepwatch.report.explanation_document import explanation_document

        click.echo(json_text(explanation_document(explanation, raw=raw)), nl=False)
        return
    from sleepwatch.report.explanation import explanation_text
    from sleepwatch.report.table import Style

    style = Style.of(sys.stdout, dict(os.environ))
    for line in explanation_text(explanation, raw=raw, style=style):
        click.echo(line, color=True)
