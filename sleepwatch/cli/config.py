"""``sleepwatch config``: check a configuration, and show what is in force."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleepwatch.cli.options import config_option, json_option

if TYPE_CHECKING:
    from sleepwatch.config import Settings

EXIT_WRONG = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def config() -> None:
    """Check a configuration of `sleepwatch run`, or show what is in force.

    A configuration is taken or refused as a whole. A daemon that is told to read it again (SIGHUP) and finds it wrong
    keeps the one it has.
    """


@config.command("check")
@config_option
def check_config(path: Path | None) -> None:
    """Say what is wrong: the file, the key, its value, and what is allowed.

    \b
    Exit codes:
      0  it can be used, or there is none (then the defaults apply)
      2  it is wrong
    """
    from sleepwatch.config import ConfigError

    try:
        place, _, settings = _read(path)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        sys.exit(EXIT_WRONG)
    if place is None:
        click.echo("there is no configuration: the defaults apply")
        return
    _check_targets(place, settings)
    count = len(settings.file)
    click.echo(f"{place}: good; {count} {'log or pattern' if count == 1 else 'logs or patterns'} named")


def _check_targets(place: Path, settings: Settings) -> None:
    """Say which targets cannot be reached, as far as this user can see."""
    from sleepwatch.notify.targets import complaints, urls_place

    if urls_place(settings.notify) is None and os.geteuid() != 0 and "CREDENTIALS_DIRECTORY" not in os.environ:
        return  # a credential of the service, that this user cannot see
    for words in complaints(settings):
        click.echo(f"{place}: {words}", err=True)


@config.command("show")
@config_option
@json_option
def show_config(path: Path | None, as_json: bool) -> None:
    """Show every key: its value, whether that is set or the default, and what is allowed. Secrets are not shown."""
    from sleepwatch.config_keys import keys
    from sleepwatch.printable import printable

    place, data, settings = _read(path)
    rows = list(keys(settings, data))
    if as_json:
        from sleepwatch.report import json_text

        document = {
            "schema_version": 1,
            "file": None if place is None else printable(str(place)),
            "keys": [
                {
                    "key": one.key,
                    "value": printable(one.value),
                    "from": "set" if one.given else "default",
                    "allowed": one.allowed,
                }
                for one in rows
            ],
        }
        click.echo(json_text(document), nl=False)
        return
    table = [("KEY", "VALUE", "FROM", "ALLOWED")]
    table += [(one.key, printable(one.value), "set" if one.given else "default", one.allowed) for one in rows]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[3]]))
    where = "there is no configuration: the defaults apply" if place is None else f"read from {printable(str(place))}"
    click.echo(where, err=True)


def _read(path: Path | None) -> tuple[Path | None, dict[str, Any], Settings]:
    """Where the configuration is, what it says, and what that means. Raises ConfigError."""
    from sleepwatch.config import DEFAULT_PATH, Settings, is_configured, read_toml, settings_of

    if path is None and not is_configured():
        return None, {}, Settings()
    place = path or DEFAULT_PATH
    data = read_toml(place)
    return place, data, settings_of(place, data)
