"""``sleepwatch check``: is this host exposed, would a crash be restarted, would we see it?"""

from __future__ import annotations

import fnmatch
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleepwatch.cli.plugin import EXIT_UNKNOWN, PluginCommand

if TYPE_CHECKING:
    from sleepwatch.check import Report


@click.command(cls=PluginCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("presets", nargs=-1, metavar="[PRESET]...", type=click.Path(path_type=Path))
@click.option("--table", "output", flag_value="table", default="table", help="Plain text for people.  [default]")
@click.option("--json", "output", flag_value="json", help="One JSON document (schema: docs/check-schema.json).")
@click.option("--summary", "output", flag_value="summary", help="Only the first line, for a monitoring system.")
@click.option(
    "--server", "wanted", multiple=True, metavar="NAME", help="Only this server (or pattern). May be repeated."
)
def check(presets: tuple[Path, ...], output: str, wanted: tuple[str, ...]) -> None:
    """Look at every llama-server of this host: is it exposed, would a crash be restarted, would we see it?

    Finds running servers, systemd units that would start one, routers with their models and preset files, and
    containers, and says for each what is wrong and the exact change to make. Preset files of other places can be named.
    Never sends anything to a server: a probe of this race can crash it.

    \b
    Examples:
      sleepwatch check
      sleepwatch check --json | jq '.servers[] | {name, verdict}'
      sleepwatch check --summary --server 'llama*.service'
      sleepwatch check ./models.ini

    \b
    Exit codes, as monitoring plugins have them (so 2 is no error here):
      0  OK        no server can meet the race
      1  WARNING   a server is exposed; it would be restarted and seen
      2  CRITICAL  a server is exposed, and a crash would leave it down or nothing would be seen
      3  UNKNOWN   something could not be looked at, or a wrong option
    """
    import msgspec

    from sleepwatch.check import check as judge
    from sleepwatch.check.gather import gather

    report = judge(gather(presets))
    if wanted:
        chosen = tuple(one for one in report.servers if _chosen(one.server.name, wanted))
        if not chosen:
            names = ", ".join(one.server.name for one in report.servers) or "none"
            click.echo(f"SLEEPWATCH UNKNOWN - no server here is called {' or '.join(wanted)} (found: {names})")
            sys.exit(EXIT_UNKNOWN)
        report = msgspec.structs.replace(report, servers=chosen)
    _print(report, output)
    sys.stdout.flush()
    sys.exit(report.state)


def _chosen(name: str, wanted: tuple[str, ...]) -> bool:
    return any(name == one or fnmatch.fnmatchcase(name, one) or name == f"{one}.service" for one in wanted)


def _print(report: Report, output: str) -> None:
    if output == "json":
        from sleepwatch.check.document import json_text

        click.echo(json_text(report), nl=False)
        return
    from sleepwatch.check.text import text
    from sleepwatch.report.table import Style

    style = Style.of(sys.stdout, dict(os.environ))
    for line in text(report, style, only_summary=output == "summary"):
        click.echo(line, color=True)
