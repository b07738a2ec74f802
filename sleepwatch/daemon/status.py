"""What ``status`` tells: is the daemon alive, what does it watch and how far, what could not be read, what is open.

Read from the database alone, which is never written, and from the lock beside it. No server is asked anything.
"""

from __future__ import annotations

import os
from enum import IntEnum
from pathlib import Path

import msgspec

from sleepwatch.daemon.lock import is_locked
from sleepwatch.model import Gap, Incident
from sleepwatch.notify.outbox import Undelivered, undelivered
from sleepwatch.printable import printable
from sleepwatch.report.times import duration_words
from sleepwatch.sources.journal import NAME as JOURNAL
from sleepwatch.store import default_path, open_store
from sleepwatch.store.actions import Action, actions
from sleepwatch.store.daemon import Pulse, WatchRow, gaps_since, pulse, watches
from sleepwatch.store.database import SERVICE_PATH, explained
from sleepwatch.store.witness import WitnessRow, witnesses

STUCK_US = 120_000_000
"""The daemon writes its pulse every 30 s; silent for this long it does not work."""
BLIND_US = 60_000_000
"""A source that cannot be read for less is being rotated, or restarted."""
GAPS_US = 86_400_000_000
"""Gaps, wakes and messages that were given up are told for this long: a day."""
LATE_US = 600_000_000
"""A message that has waited for longer than this does not get through."""
_NAMED = 2


class Level(IntEnum):
    """The monitoring plug-ins' exit codes (monitoring-plugins.org, plug-in development guidelines)."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands at one moment."""

    database: str
    now_us: int
    running: bool | None
    """Whether a ``run`` holds the database's lock; None where this user cannot tell."""
    pulse: Pulse | None
    """The daemon's last sign of life; None where none ever ran."""
    sources: tuple[WatchRow, ...]
    gaps: tuple[Gap, ...]
    """Of the last day, oldest first."""
    open: tuple[Incident, ...]
    """Incidents above ``possible`` that are going on."""
    wakes: tuple[Action, ...] = ()
    """What was sent, or would have been, to free hung requests, of the last day, oldest first."""
    servers: tuple[WitnessRow, ...] = ()
    """What can be seen of each server beside its log."""
    messages: tuple[Undelivered, ...] = ()
    """What waits to be delivered, and what was given up within the last day, oldest first."""

    @property
    def given_up(self) -> int:
        """Messages that could not be delivered."""
        return sum(one.state == "undeliverable" for one in self.messages)

    @property
    def late(self) -> list[Undelivered]:
        """Messages that wait for longer than they should."""
        waiting = (one for one in self.messages if one.state != "undeliverable")
        return [one for one in waiting if self.now_us - one.queued_us >= LATE_US]

    @property
    def silent_us(self) -> int | None:
        """How long ago the daemon last gave a sign of life."""
        return None if self.pulse is None else max(0, self.now_us - self.pulse.beat_us)

    @property
    def starting(self) -> bool:
        """A ``run`` has the lock and has stored nothing yet."""
        return bool(self.running) and (self.pulse is None or self.pulse.stopped_us is not None)

    @property
    def unread(self) -> int:
        """Bytes of files that are known to be there and not read yet."""
        return sum(source.unread for source in self.sources if not is_journal(source))

    @property
    def alive(self) -> bool:
        """A ``run`` is there, and makes progress."""
        if self.running is False or self.pulse is None or self.pulse.stopped_us is not None:
            return self.starting
        return self.silent_us is not None and self.silent_us < STUCK_US


class Reason(msgspec.Struct, frozen=True):
    """One thing that is not as it should be."""

    level: Level
    words: str


def database_path() -> Path:
    """The database of this host's daemon: where the configuration says, else one's own, else the service's.

    Raises ConfigError where the configuration is wrong.
    """
    from sleepwatch.config import DEFAULT_PATH, load_settings

    if os.access(DEFAULT_PATH, os.R_OK):
        configured = load_settings(DEFAULT_PATH).database.path
        if configured is not None:
            return Path(configured)
    own = default_path()
    # The service's directory may be closed to this user; then that is what must be told, and not that there is none.
    return own if os.path.exists(own) or not os.path.exists(SERVICE_PATH.parent) else SERVICE_PATH


def read_status(database: Path, now_us: int) -> Status:
    """Look at the database and its lock. Raises StoreError where there is no database that can be read."""
    with open_store(database, read_only=True) as store, explained(database):
        running = is_locked(database)
        store.connection.execute("BEGIN")  # one state of it, while the daemon goes on writing
        return Status(
            database=str(database),
            now_us=now_us,
            running=running,
            pulse=pulse(store),
            sources=tuple(watches(store)),
            gaps=tuple(gaps_since(store, now_us - GAPS_US)),
            open=tuple(store.incidents(states=("open",))),
            wakes=tuple(actions(store, since_us=now_us - GAPS_US)),
            servers=tuple(witnesses(store)),
            messages=tuple(undelivered(store, now_us - GAPS_US)),
        )


def is_journal(source: WatchRow) -> bool:
    """It is a journal: its place is no offset, and what is unread are milliseconds."""
    return source.source.startswith(JOURNAL)


def is_blind(source: WatchRow, now_us: int) -> bool:
    """It has not been read for longer than a rotation takes."""
    since_us = source.since_us if source.since_us is not None else now_us
    return source.state == "unwatched" or (source.state != "following" and now_us - since_us >= BLIND_US)


def reasons(status: Status) -> list[Reason]:
    """What is not as it should be, the worst first."""
    found = [
        reason for reason in (_daemon(status), _sources(status), _gaps(status), _messages(status)) if reason is not None
    ]
    found.extend(_incidents(status))
    return sorted(found, key=lambda reason: -reason.level)


def level(found: list[Reason]) -> Level:
    """The worst of them."""
    return max((reason.level for reason in found), default=Level.OK)


def _daemon(status: Status) -> Reason | None:
    pulse = status.pulse
    if status.alive:
        return Reason(Level.WARNING, "just starting") if status.starting else None
    if pulse is None:
        return Reason(Level.CRITICAL, "nothing is running: no `sleepwatch run` has used this database")
    ago = f"{duration_words(status.silent_us or 0)} ago"
    if pulse.stopped_us is not None:
        ago = f"{duration_words(max(0, status.now_us - pulse.stopped_us))} ago"
        return Reason(Level.CRITICAL, f"nothing is running: stopped {ago}")
    if status.running is False:
        return Reason(Level.CRITICAL, f"nothing is running: pid {pulse.pid} ended without stopping, last seen {ago}")
    return Reason(Level.CRITICAL, f"no progress: the last sign of life of pid {pulse.pid} was {ago}")


def _sources(status: Status) -> Reason | None:
    if not status.alive or status.starting:
        return None  # what is told of them is of another time
    blind = [source for source in status.sources if is_blind(source, status.now_us)]
    if blind:
        count = f"{len(blind)} of {len(status.sources)}"
        return Reason(Level.WARNING, f"{count} cannot be watched ({_names([source.source for source in blind])})")
    return None if status.sources else Reason(Level.WARNING, "nothing is watched")


def _gaps(status: Status) -> Reason | None:
    count = len(status.gaps)
    return Reason(Level.WARNING, f"{count} gap{'s' * (count != 1)} in the last day") if count else None


def _messages(status: Status) -> Reason | None:
    words = []
    if status.given_up:
        words.append(f"{status.given_up} message{'s' * (status.given_up != 1)} undeliverable")
    if status.late:
        oldest = duration_words(status.now_us - status.late[0].queued_us)
        words.append(f"{len(status.late)} undelivered for up to {oldest}")
    names = _names(list(dict.fromkeys(one.target for one in status.messages)))
    return Reason(Level.WARNING, f"{', '.join(words)} ({names})") if words else None


def _incidents(status: Status) -> list[Reason]:
    found = []
    for severity, at in (("critical", Level.CRITICAL), ("warning", Level.WARNING)):
        these = [incident for incident in status.open if incident.severity == severity]
        if these:
            names = _names([f"{incident.kind} {incident.server}" for incident in these])
            found.append(Reason(at, f"{len(these)} {severity} incident{'s' * (len(these) != 1)} open ({names})"))
    return found


def _names(names: list[str]) -> str:
    more = len(names) - _NAMED
    # What follows the first bar on a plug-in's line are its figures.
    return printable(", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")).replace("|", "\\x7c")
