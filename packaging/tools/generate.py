"""Writes the manual pages and the shells' completions from the commands themselves, so that they cannot disagree.

    python packaging/tools/generate.py DIRECTORY [--date YYYY-MM-DD]

makes DIRECTORY/man/sleepwatch.1, a page for each command, and DIRECTORY/completions/sleepwatch.{bash,zsh,fish}.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from sleepwatch import __version__
from sleepwatch.cli import main as sleepwatch

PROGRAM = "sleepwatch"
SHELLS = ("bash", "zsh", "fish")
_VERBATIM = "\b"
"""The mark by which click leaves a paragraph's lines as they stand."""


def pages(command: click.Command = sleepwatch, name: str = PROGRAM) -> Iterator[tuple[str, click.Context]]:
    """Each command by the name of its page (``sleepwatch-incidents-list``), groups before what is in them."""
    context = click.Context(command, info_name=name.replace("-", " "), **command.context_settings)
    yield name, context
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            member = command.get_command(context, part)
            assert member is not None
            yield from pages(member, f"{name}-{part}")


def page(name: str, context: click.Context, date: str) -> str:
    """The manual page of one command, in man(7)."""
    command = context.command
    lines = [
        f'.TH {name.upper()} 1 "{date}" "{PROGRAM} {__version__}" "{PROGRAM}"',
        ".SH NAME",
        rf"{_escaped(name)} \- {_escaped(_first_sentence(command))}",
        ".SH SYNOPSIS",
        rf".B {_escaped(context.command_path)}",
        _escaped(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_prose(command.help or ""),
        ".SH OPTIONS",
        *_options(context),
    ]
    if isinstance(command, click.Group):
        lines += [".SH COMMANDS", *_members(name, context)]
    lines += _sections(command.help or "")
    if name == PROGRAM:
        lines += [".SH FILES", *_FILES]
    lines += [".SH SEE ALSO", *_others(name)]
    return "\n".join(lines) + "\n"


_FILES = (
    ".TP",
    ".I /etc/sleepwatch/sleepwatch.toml",
    "The configuration; every key stands there with its default.",
    ".TP",
    ".I /etc/sleepwatch/credentials/",
    "Secrets of the service, one file each.",
    ".TP",
    ".I /var/lib/sleepwatch/sleepwatch.db",
    "The incidents, and how far each log was read.",
)


def _first_sentence(command: click.Command) -> str:
    text = " ".join((command.help or "").partition("\n\n")[0].split())
    return text.removesuffix(".")


def _escaped(text: str) -> str:
    """Text as roff takes it: backslashes and hyphens literal, no line that begins a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _prose(text: str) -> list[str]:
    """The paragraphs of a help text, without its sections."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        first, *rest = paragraph.strip("\n").splitlines() or [""]
        if first.strip() != _VERBATIM:
            flowing = _escaped(" ".join(line.strip() for line in (first, *rest)))
            lines += [".PP", re.sub(r"`([^`]+)`", r"\\fB\1\\fR", flowing)]
        elif rest and not rest[0].endswith(":"):
            lines += [".PP", *_as_they_stand(rest)]
    return lines[1:]


def _sections(text: str) -> list[str]:
    """Verbatim paragraphs that begin with a heading: ``Exit codes:``."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        first, *rest = paragraph.strip("\n").splitlines() or [""]
        if first.strip() == _VERBATIM and rest and rest[0].endswith(":"):
            lines += [f".SH {_escaped(rest[0].strip().removesuffix(':').upper())}", *_as_they_stand(rest[1:])]
    return lines


def _as_they_stand(lines: list[str]) -> list[str]:
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [".nf", *(_escaped(line[indent:]) for line in lines), ".fi"]


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:  # not hidden
            yield from (".TP", rf".B {_escaped(record[0])}", _escaped(record[1]))


def _members(name: str, context: click.Context) -> Iterator[str]:
    assert isinstance(context.command, click.Group)
    for part in context.command.list_commands(context):
        member = context.command.get_command(context, part)
        assert member is not None
        yield from (".TP", rf".BR {_escaped(f'{name}-{part}')} (1)", f"{_escaped(_first_sentence(member))}.")


def _others(name: str) -> Iterator[str]:
    around = [other for other, _ in pages() if other != name and (name == PROGRAM or other.count("-") <= 1)]
    for at, other in enumerate(around):
        yield rf".BR {_escaped(other)} (1){',' if at + 1 < len(around) else ''}"


def completion(shell: str) -> str:
    """The completion of one shell: it asks the program, so it knows what the program knows."""
    kind = get_completion_class(shell)
    assert kind is not None
    # Not the source() of the class: for bash it also looks which bash is installed where this runs.
    made = kind(sleepwatch, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    return made.source_template % made.source_vars()


def write(directory: Path, date: str) -> None:
    """Write all of it below ``directory``."""
    man, completions = directory / "man", directory / "completions"
    man.mkdir(parents=True, exist_ok=True)
    completions.mkdir(parents=True, exist_ok=True)
    for name, context in pages():
        (man / f"{name}.1").write_text(page(name, context, date))
    for shell in SHELLS:
        (completions / f"{PROGRAM}.{shell}").write_text(completion(shell))


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--date", default="", metavar="YYYY-MM-DD", help="the date at the foot of the pages")
    given = parser.parse_args()
    write(given.directory, given.date)


if __name__ == "__main__":
    main()
