"""``sleepwatch incidents``: look at what a database holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleepwatch import clock
from sleepwatch.cli.options import database_of, db_option, json_option, possible_option
from sleepwatch.model import KINDS, STATES

if TYPE_CHECKING:
    from sleepwatch.model import Incident
    from sleepwatch.report.table import Style
    from sleepwatch.report.verify import Check
    from sleepwatch.store import Store, Transition

EXIT_CHANGED = 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def incidents() -> None:
    """Look at incidents kept in a database.

    `sleepwatch run` puts them there, and `sleepwatch scan --db FILE LOG`. Without --db the database is that of this
    host's daemon, as for `sleepwatch status`: where the configuration says, else your own
    (~/.local/state/sleepwatch/sleepwatch.db; $XDG_STATE_HOME is respected), else /var/lib/sleepwatch/sleepwatch.db.
    """


@incidents.command("list")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this kind. May be given again.")
@click.option("--server", "servers", multiple=True, metavar="NAME", help="Only this server. May be given again.")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES), help="Only this state. May be given again."
)
@click.option(
    "-S", "--since", metavar="TIME", help="Opened at this time or later: -2h, yesterday, '2026-10-03 04:00' …"
)
@possible_option
@json_option
@db_option
def list_incidents(
    kinds: tuple[str, ...],
    servers: tuple[str, ...],
    states: tuple[str, ...],
    since: str | None,
    possible: bool,
    as_json: bool,
    db: Path | None,
) -> None:
    """List incidents, oldest first.

    \b
    Examples:
      sleepwatch incidents list --db sleepwatch.db
      sleepwatch incidents list --kind hung-request --state open --since -24h
    """
    since_us = None
    if since is not None:
        from sleepwatch.times import parse_when

        since_us = parse_when(since, now_us=clock.wall_us(), zone=clock.local_zone())
    with _open(db) as store:
        everything = store.incidents(kinds=kinds, servers=servers, states=states, possible=True, since_us=since_us)
    found = [incident for incident in everything if possible or incident.confidence != "possible"]
    if as_json:
        from sleepwatch.report import SCHEMA_VERSION, incident_entry, json_text

        document = {"schema_version": SCHEMA_VERSION, "incidents": [incident_entry(incident) for incident in found]}
        click.echo(json_text(document), nl=False)
        return
    for line in _listing(found, _style()):
        click.echo(line, color=True)
    hidden = len(everything) - len(found)
    if hidden:
        click.echo(f"{hidden} possible {'one' if hidden == 1 else 'ones'} not shown; --possible shows them", err=True)
    if not found:
        click.echo(
            "No incident fits." if kinds or servers or states or since else "No incident is kept here.", err=True
        )
    elif sys.stdout.isatty():
        click.echo(f"sleepwatch incidents show {found[-1].id}  shows the evidence and what to do", err=True)


@incidents.command("show")
@click.argument("incident_id", metavar="ID")
@click.option("--verify", is_flag=True, help="Read the evidence again at its place: does it still stand?")
@json_option
@db_option
def show_incident(incident_id: str, verify: bool, as_json: bool, db: Path | None) -> None:
    """Show one incident with its evidence and its timeline. The first characters of its ID are enough.

    With --verify each piece of evidence is read again where it was found, also in what rotation has made of that file
    since, compressed or not: the same text, and by its hash the same rest of the line. Exits 1 where one does not.
    """
    with _open(db) as store:
        incident = store.incident(incident_id)
        timeline = store.timeline(incident.id)
    checks: list[Check] = []
    if verify:
        from sleepwatch.report.verify import verify as check_again

        checks = check_again(incident)
    if as_json:
        from sleepwatch.report import incident_entry, json_text

        document = {**incident_entry(incident), "timeline": [_transition_entry(one) for one in timeline]}
        for entry, check in zip(document["evidence"], checks, strict=False):
            entry["verified"] = {"state": check.state, "why": check.why, "found_in": check.found_in}
        click.echo(json_text(document), nl=False)
    else:
        from sleepwatch.report import block

        style = _style()
        for line in [*block(incident, style=style), *_history(timeline, style), *_verified(checks, style)]:
            click.echo(line, color=True)
    if any(check.state not in ("stands", "seen live") for check in checks):
        sys.exit(EXIT_CHANGED)


def _open(db: Path | None) -> Store:
    from sleepwatch.store import open_store

    return open_store(database_of(db), read_only=True)


def _style() -> Style:
    from sleepwatch.report.table import Style

    return Style.of(sys.stdout, dict(os.environ))


def _listing(found: list[Incident], style: Style) -> list[str]:
    """Columns as wide as their widest cell; the last one ragged."""
    from sleepwatch.printable import printable
    from sleepwatch.report.times import clock_words, wall_words

    if not found:
        return []
    rows = [("ID", "OPENED", "KIND", "CONFIDENCE", "STATE", "SERVER")]
    for incident in found:
        opened = wall_words(incident.opened_us)
        if opened is None and incident.log_opened_us is not None:
            opened = f"{clock_words(incident.log_opened_us)} (server's clock)"
        kind = incident.kind if incident.count == 1 else f"{incident.kind} x{incident.count}"
        rows.append(
            (incident.id, opened or "unknown", kind, incident.confidence, incident.state, printable(incident.server))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [style.paint(lines[0], "2"), *lines[1:]]


def _history(timeline: list[Transition], style: Style) -> Iterator[str]:
    from sleepwatch.report.table import field
    from sleepwatch.report.times import wall_words

    label = "history"
    for one in timeline:
        when = wall_words(one.at_us) or f"stored {wall_words(one.recorded_us)}"
        state = one.to_state if one.from_state in (None, one.to_state) else f"{one.from_state} -> {one.to_state}"
        kind = one.kind if one.count == 1 else f"{one.kind} ({one.count} deaths)"
        yield from field(label, f"{when}: {kind}, {one.confidence}, {state}: {one.reason}", style)
        label = ""


def _verified(checks: list[Check], style: Style) -> Iterator[str]:
    from sleepwatch.report.table import field

    label = "verify"
    for check in checks:
        where = f" (now in {check.found_in})" if check.found_in is not None else ""
        why = f": {check.why}" if check.why is not None else ""
        yield from field(label, f"{check.evidence.role}: {check.state}{where}{why}", style)
        label = ""


def _transition_entry(one: Transition) -> dict[str, Any]:
    from sleepwatch.report.times import rfc3339

    return {
        "from_state": one.from_state,
        "to_state": one.to_state,
        "kind": one.kind,
        "confidence": one.confidence,
        "count": one.count,
        "reason": one.reason,
        "rules_digest": one.rules_digest,
        "at": rfc3339(one.at_us),
        "recorded": rfc3339(one.recorded_us),
    }
