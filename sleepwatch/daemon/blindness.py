"""What of a source cannot be seen: a log that is not read for too long, and a server that works and writes nothing.

Both are incidents of kind ``blind``: silence there proves nothing. Pure of clock and store, as the watch is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec

from sleepwatch.engine import Now, Words
from sleepwatch.engine.lives import digest
from sleepwatch.model import Incident
from sleepwatch.sources.follow import State

NO_LONGER = "it is no longer watched"


class Blindness:
    """Of one source, whose unread part is counted in ``unit``.

    ``changes`` is told of each incident as it is now and as it was before.
    """

    def __init__(
        self, path: str, words: Words, unit: str, changes: Callable[[Incident, Incident | None], None]
    ) -> None:
        self._path = path
        self._words = words
        self._unit = unit
        self._changes = changes
        self._blind: Incident | None = None
        """Open while it is not being read."""
        self._mute: Incident | None = None
        """Open while its server works and nothing is written."""
        self._behind: tuple[int, int] | None = None
        """Since when something has been unread all the time, and how much was then."""
        self.read_until_us: int | None = None
        """Wall time at which the log was last seen read to its end."""

    def lag_us(self, now: Now) -> int:
        """For how long something has been there unread."""
        return now.monotonic_us - self._behind[0] if self._behind is not None else 0

    def look(self, state: State, unread: int, now: Now, *, blind_us: int) -> None:
        """Is it being read? For longer than ``blind_us`` not, that is an incident, and ends when it is read again."""
        reason, since_us = _reason(state), state.since_us
        if not unread:
            self._behind = None
            if reason is None:
                self.read_until_us = now.wall_us
        elif self._behind is None:
            self._behind = now.monotonic_us, unread
        elif reason is None and unread >= self._behind[1]:
            since_us = self._behind[0]
            reason = f"it grows unread, {unread} {self._unit} by now"
        for_us = now.monotonic_us - since_us
        if reason is not None and self._blind is None and for_us >= blind_us:
            self._blind = self._begin("blind", reason, now.wall_us - for_us)
        elif reason is None and self._blind is not None and not unread:
            self._end(self._blind, "the source is read again", now)
            self._blind = None

    def mute(self, silent_us: int, now: Now) -> None:
        """Its server works, and has written nothing for this long, which is longer than it may."""
        if self._mute is None:
            words = f"its server is at work and has written nothing for {silent_us // 1_000_000} s"
            self._mute = self._begin("mute", words, now.wall_us - silent_us)

    def not_mute(self, reason: str, now: Now) -> None:
        """Its server writes, or there is none that could."""
        if self._mute is not None:
            self._end(self._mute, reason, now)
            self._mute = None

    def leave(self, now: Now) -> None:
        """It is not watched any more: what was open about watching it is over."""
        self.not_mute(NO_LONGER, now)
        if self._blind is not None:
            self._end(self._blind, NO_LONGER, now)
            self._blind = None

    def take_up(self, incidents: Iterable[Incident]) -> None:
        """An earlier run left these open: they go on, or end now, but are not opened again."""
        for incident in incidents:
            if incident.id == self._id("mute", incident.opened_us or 0):
                self._mute = incident
            else:
                self._blind = incident

    def _begin(self, subject: str, reason: str, since_us: int) -> Incident:
        incident = Incident(
            id=self._id(subject, since_us),
            kind="blind",
            confidence="confirmed",
            state="open",
            severity=self._words.severity,
            server=self._path,
            life="",
            summary=f"{self._path} cannot be watched: {reason}.",
            remedy=self._words.remedy,
            reason=reason,
            opened_us=since_us,
        )
        self._changes(incident, None)
        return incident

    def _end(self, incident: Incident, reason: str, now: Now) -> None:
        ended = msgspec.structs.replace(incident, state="recovered", closed_us=now.wall_us, reason=reason)
        self._changes(ended, incident)

    def _id(self, subject: str, since_us: int) -> str:
        return digest(subject.encode(), os.fsencode(self._path), str(since_us).encode())


def _reason(state: State) -> str | None:
    if state.name == "absent":
        return "there is no such file" + (f" ({state.reason})" if state.reason else "")
    if state.name == "denied":
        return "it may not be read" + (f" ({state.reason})" if state.reason else "")
    if state.name == "error":
        return f"reading it fails ({state.reason})"
    return None
