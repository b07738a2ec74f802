"""Options several commands share, so that they are spelled and explained the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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


def output_options(command: _Command) -> _Command:
    """All of them, for commands that report incidents."""
    return format_options(possible_option(raw_option(db_option(command))))
