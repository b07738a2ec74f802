"""``sleepwatch status``: how it stands with the daemon, for a person and for a monitoring system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleepwatch import clock
from sleepwatch.cli.options import database_of, db_option, json_option
from sleepwatch.cli.plugin import EXIT_UNKNOWN, PluginCommand

if TYPE_CHECKING:
    from sleepwatch.daemon.status import Level, Reason, Status
    from sleepwatch.report.table import Style
    from sleepwatch.store.daemon import WatchRow

WAKES = 5
"""So many are shown to a person."""


@click.command(cls=PluginCommand, context_settings={"help_option_names": ["-h", "--help"]})
@db_option
@json_option
def status(db: Path | None, as_json: bool) -> None:
    """Say whether a `sleepwatch run` is alive, what it watches, what it missed, and what is open.

    The first line and the exit code are those of a monitoring plug-in (Nagios, Icinga, Checkmk …). It reads the
    database and the lock beside it, writes nothing, and asks no server anything; any user who may read the database can
    use it. Without --db it looks where the configuration says, else in your own database, else in the host's,
    /var/lib/sleepwatch/sleepwatch.db.

    \b
    Examples:
      sleepwatch status
      sleepwatch status --db /var/lib/sleepwatch/sleepwatch.db --json

    \b
    Exit codes:
      0  OK        a run is alive, every source is read, nothing is open
      1  WARNING   gaps in the last day, a source that cannot be read, a message that does not get through, or a
                   warning incident open
      2  CRITICAL  a critical incident open, or no run is alive, or it makes no progress
      3  UNKNOWN   no database that can be read, or a wrong option
    """
    from sleepwatch.daemon.status import level, read_status, reasons
    from sleepwatch.errors import SleepwatchError

    try:
        read = read_status(database_of(db), clock.wall_us())
    except SleepwatchError as error:
        if as_json:
            from sleepwatch.report import json_text

            click.echo(json_text({"schema_version": 1, "status": "UNKNOWN", "summary": str(error)}), nl=False)
        else:
            click.echo(f"SLEEPWATCH UNKNOWN: {error.message}")
            if error.hint:
                click.echo(error.hint)
        sys.exit(EXIT_UNKNOWN)
    found = reasons(read)
    at = level(found)
    if as_json:
        from sleepwatch.report import json_text

        click.echo(json_text(_document(read, found, at)), nl=False)
    else:
        from sleepwatch.report.table import Style

        click.echo(f"SLEEPWATCH {at.name}: {_summary(read, found)} | {_figures(read)}")
        for line in _lines(read, Style.of(sys.stdout, dict(os.environ))):
            click.echo(line, color=True)
    sys.exit(at)


def _summary(read: Status, found: list[Reason]) -> str:
    if found:
        return "; ".join(reason.words for reason in found)
    count = len(read.sources)
    return f"{count} source{'s' * (count != 1)} watched, no incident open"


def _figures(read: Status) -> str:
    """Performance data: ``label=value;warn;crit``."""
    from sleepwatch.daemon.status import STUCK_US

    opened = [incident.severity for incident in read.open]
    figures = [
        f"critical={opened.count('critical')};;0",
        f"warning={opened.count('warning')};0",
        f"gaps={len(read.gaps)};0",
        f"sources={len(read.sources)}",
        f"undeliverable={read.given_up};0",
        f"unread={read.unread}B",
    ]
    if read.silent_us is not None:
        figures.append(f"silent={read.silent_us / 1e6:.0f}s;;{STUCK_US // 1_000_000}")
    return " ".join(figures)


# -- for a person -----------------------------------------------------------------------------------------------------


def _lines(read: Status, style: Style) -> Iterator[str]:
    from sleepwatch.report.table import field
    from sleepwatch.report.times import wall_words

    yield from field("db", read.database, style)
    yield from field("run", _running(read), style)
    label = "watched"
    for source in read.sources:
        yield from field(label, source.source, style)
        yield from field("", _source_words(source, read.now_us), style)
        label = ""
    if not read.sources:
        yield from field(label, "nothing", style)
    label = "beside"
    for server in read.servers:
        port = f" port {server.port}" if server.port is not None else ""
        pid = f" (pid {server.pid})" if server.pid is not None else ""
        yield from field(label, f"{server.server}{port}{pid}", style)
        hidden = f"not seen: {server.hidden}" if server.hidden else "seen" if server.port else "its port is not known"
        ends = f"not told: {server.unwatched}" if server.unwatched else "told by the kernel"
        yield from field("", f"connections: {hidden}; end of its process: {ends}", style)
        label = ""
    label = "gaps"
    for gap in read.gaps:
        yield from field(label, f"{wall_words(gap.to_us or gap.from_us)}: {gap.source}: {gap.cause}", style)
        label = ""
    if not read.gaps:
        yield from field(label, "none in the last day", style)
    label = "wakes"
    if len(read.wakes) > WAKES:
        yield from field(label, f"{len(read.wakes)} in the last day, the latest:", style)
        label = ""
    for wake in read.wakes[-WAKES:]:
        when = wall_words(wake.sent_us or wake.begun_us)
        what = f"{wake.outcome or 'under way'} {wake.server}{f': {wake.words}' if wake.words else ''}"
        yield from field(label, f"{when}: {what} [{wake.incident}]", style)
        label = ""
    label = "open"
    for incident in read.open:
        opened = f" since {wall_words(incident.opened_us)}" if incident.opened_us is not None else ""
        words = f"{incident.severity.upper()} {incident.kind} ({incident.confidence}) {incident.server}{opened}"
        yield from field(label, f"{words} [{incident.id}]", style)
        label = ""
    if not read.open:
        yield from field(label, "no incident", style)
    label = "notify"
    for message in read.messages:
        words = f"{message.state}: {message.what} to {message.target}, queued {wall_words(message.queued_us)}"
        tries = f", {message.tries} {'try' if message.tries == 1 else 'tries'}: {message.last}" if message.last else ""
        yield from field(label, f"{words}{tries} ({message.title})", style)
        label = ""


def _running(read: Status) -> str:
    from sleepwatch import __version__
    from sleepwatch.report.times import duration_words, wall_words

    pulse = read.pulse
    if pulse is None:
        return "just starting" if read.running else "none has used this database"
    if read.starting:
        return "just starting"
    silent = duration_words(read.silent_us or 0)
    if pulse.stopped_us is not None:
        return f"stopped {wall_words(pulse.stopped_us)} (pid {pulse.pid}, version {pulse.version})"
    if read.running is False:
        return f"ended without stopping, last seen {silent} ago (pid {pulse.pid}, version {pulse.version})"
    up = duration_words(max(0, read.now_us - pulse.started_us))
    words = f"pid {pulse.pid}, version {pulse.version}, up {up}, last sign of life {silent} ago"
    if pulse.version != __version__:
        words += f"; this is version {__version__}: restart it to use that"
    return words


def _source_words(source: WatchRow, now_us: int) -> str:
    from sleepwatch.daemon.status import is_journal
    from sleepwatch.report.times import duration_words

    words = source.state
    if source.since_us is not None:
        words += f" for {duration_words(max(0, now_us - source.since_us))}"
    if source.reason:
        words += f" ({source.reason})"
    if source.state == "unwatched":
        return words
    if is_journal(source):
        words += f", {duration_words(source.unread * 1000)} behind" if source.unread else ", read to its end"
    else:
        words += f", at byte {source.offset}, {source.unread} bytes unread"
        if source.envelope is not None:
            words += f", lines: {source.envelope}"
    return words + f", {source.lives} server {'life' if source.lives == 1 else 'lives'} in progress"


# -- for a program ----------------------------------------------------------------------------------------------------


def _document(read: Status, found: list[Reason], at: Level) -> dict[str, Any]:
    from sleepwatch.daemon.status import is_journal
    from sleepwatch.printable import printable
    from sleepwatch.report import incident_entry
    from sleepwatch.report.times import rfc3339, seconds

    pulse = read.pulse
    return {
        "schema_version": 1,
        "status": at.name,
        "summary": _summary(read, found),
        "reasons": [{"status": reason.level.name, "words": reason.words} for reason in found],
        "time": rfc3339(read.now_us),
        "database": printable(read.database),
        "run": None
        if pulse is None
        else {
            "alive": read.alive,
            "locked": read.running,
            "pid": pulse.pid,
            "version": pulse.version,
            "started": rfc3339(pulse.started_us),
            "last_sign_of_life": rfc3339(pulse.beat_us),
            "silent_s": seconds(read.silent_us),
            "stopped": rfc3339(pulse.stopped_us),
        },
        "sources": [
            {
                "source": printable(source.source),
                "state": source.state,
                "reason": source.reason,
                "since": rfc3339(source.since_us),
                "offset": None if is_journal(source) else source.offset,
                "unread": None if is_journal(source) else source.unread,
                "behind_ms": source.unread if is_journal(source) else None,
                "envelope": source.envelope,
                "lives": source.lives,
                "seen": rfc3339(source.seen_us),
            }
            for source in read.sources
        ],
        "servers": [
            {
                "server": server.server,
                "port": server.port,
                "pid": server.pid,
                "connections_hidden": server.hidden,
                "end_unwatched": server.unwatched,
            }
            for server in read.servers
        ],
        "gaps": [
            {
                "source": printable(gap.source),
                "cause": printable(gap.cause),
                "from": rfc3339(gap.from_us),
                "to": rfc3339(gap.to_us),
                "from_offset": gap.from_offset,
                "to_offset": gap.to_offset,
            }
            for gap in read.gaps
        ],
        "wakes": [
            {
                "incident": wake.incident,
                "server": wake.server,
                "mode": wake.mode,
                "outcome": wake.outcome,
                "words": wake.words,
                "begun": rfc3339(wake.begun_us),
                "sent": rfc3339(wake.sent_us),
                "answered": rfc3339(wake.answered_us),
                "ended": rfc3339(wake.ended_us),
                "waited_s": seconds(wake.waited_us),
            }
            for wake in read.wakes
        ],
        "incidents": [incident_entry(incident) for incident in read.open],
        "messages": [
            {
                "state": message.state,
                "target": message.target,
                "what": message.what,
                "incident": message.incident,
                "title": message.title,
                "queued": rfc3339(message.queued_us),
                "tries": message.tries,
                "last_attempt": message.last,
            }
            for message in read.messages
        ],
    }
