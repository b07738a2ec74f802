"""Following a journal: its entries in order, each once, or a gap with its cause.

A place in the journal outlives rotation and the move from /run to /var; where its entry was vacuumed away, or the
journal is another one, what is missing becomes a gap. What is guaranteed and what cannot be: docs/journal.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from sleepwatch.errors import SourceError
from sleepwatch.model import Record
from sleepwatch.sources.follow import State
from sleepwatch.sources.journal import Journal, Place, Start, Terms, Way, Which
from sleepwatch.sources.journal_open import open_journal
from sleepwatch.sources.journal_parts import TORN, place_of, run_start, units_here
from sleepwatch.sources.journal_units import Units

READ = 500
"""Entries asked for at once."""
SETTLE_US = 250_000
"""Whatever is done to a journal's files is done after this time."""
RETRY_US = (250_000, 1_000_000, 5_000_000, 30_000_000)
"""A journal that cannot be read is tried again after these times, one after the other."""
QUIET_US = 1_000_000
"""An end counts as the journal's when nothing has come for this long: where journalctl reads, it may be its pipe's."""
CALM_US = 10_000_000
"""After a failure it counts as read again when entries came, or when nothing failed for this long: a journalctl that
cannot work ends a moment after it was started."""
VACUUMED = "vacuumed away before it was read"
REPLACED = "the journal is another one than before"

Open = Callable[..., Journal]


class JournalPiece(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll found."""

    kind: Literal["records", "gap"]
    records: list[Record] = []
    cause: str = ""
    from_us: int | None = None
    to_us: int | None = None


class _Doubted(msgspec.Struct, frozen=True):
    """What was read while files came or went: libsystemd passes over what it cannot read any more, without a word."""

    after: Place | None
    """The last entry before it,"""
    last: Place
    """and its own last."""
    entries: int
    records: list[Record]


class JournalFollower:
    """Follows one machine's part of a journal. Never waits for entries; all calls come from one thread.

    What is wrong with the journal shows in :attr:`state` and is no exception. ``place`` is how far an earlier run had
    read; without one, reading begins where the current runs of the units began. Times are microseconds of a clock that
    never goes back.
    """

    def __init__(
        self,
        which: Which,
        units: Units,
        place: Place | None,
        *,
        machine: str | None = None,
        name: str | None = None,
        way: Way = "auto",
        open_: Open = open_journal,
    ) -> None:
        self.path = name or which.name
        self.state = State("absent", 0, "not looked at yet")
        """As of the last poll."""
        self.unread = 0
        """Nothing, or by how many milliseconds what was read last lies back."""
        self.grown_us: int | None = None
        """When entries were last found."""
        self.full = False
        """The last poll stopped at its limit."""
        self.machine = machine
        self.which = which
        self._units = units
        self._place = place
        self._way: Way = way
        self._open_journal = open_
        self._journal: Journal | None = None
        self._doubted: _Doubted | None = None
        self._terms: Terms = self._wanted_terms()
        self._failures = 0
        self._retry_us = 0
        self._begun_us = 0
        self._read_us = place.read_us if place is not None else None
        """Wall time at which it was last read to its end."""

    @property
    def way(self) -> str | None:
        """In words, what reads it; None while nothing does."""
        return self._journal.way if self._journal is not None else None

    def poll(self, now_us: int, now_wall_us: int, limit: int) -> list[JournalPiece]:
        """What is new, at most about ``limit`` entries of it, in order."""
        out: list[JournalPiece] = []
        self.full = False
        if self._journal is None and now_us < self._retry_us:
            return out
        if self._journal is None:
            self._begun_us = now_us
        try:
            journal = self._journal or self._open(out)
            self._read(journal, out, limit)
            if self._journal is None:
                self._retry_us = now_us + SETTLE_US
                return out
        except SourceError as error:
            self._leave(out)
            self._failed(error, now_us)
            return out
        if not self._failures or out or now_us - self._begun_us >= CALM_US:
            self._failures = 0
            self._stand("following", "", now_us)
        self.full = not journal.at_end
        if journal.at_end and not out and now_us - max(self._begun_us, self.grown_us or 0) >= QUIET_US:
            self._read_us = now_wall_us
        if any(piece.kind == "records" for piece in out):
            self.grown_us = now_us
        behind_us = now_wall_us - self._place.realtime_us if self._place is not None else 0
        self.unread = max(1, behind_us // 1000) if self.full else 0
        return out

    @property
    def again_us(self) -> int | None:
        """How soon it should be polled again whatever is readable; None where :meth:`fileno` tells."""
        if self._journal is not None:
            return None
        return RETRY_US[min(self._failures, len(RETRY_US)) - 1] if self._failures else SETTLE_US

    def flush(self) -> list[Record]:
        """The pieces of lines whose ends have not come, as if they never would."""
        return self._journal.flush() if self._journal is not None else []

    def checkpoint(self) -> Place | None:
        """Where to go on after a restart; None while nothing was read."""
        return msgspec.structs.replace(self._place, read_us=self._read_us) if self._place is not None else None

    def fileno(self) -> int | None:
        """A descriptor that becomes readable when there may be more."""
        return self._journal.fileno() if self._journal is not None else None

    def close(self) -> None:
        """Give the journal back."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _read(self, journal: Journal, out: list[JournalPiece], limit: int) -> None:
        """Read to the journal's end, to the limit, or until files come or go: then it is closed, to be opened again.

        A file that journald was still archiving when it was vacuumed is cut to nothing; a process that has it in its
        memory dies of reading there. So the journal is closed before anything else is done when it has changed.
        """
        before = journal.entries
        if journal.changed():
            self._leave(out)
            return
        while (done := journal.entries - before) < limit:
            records = journal.read(min(READ, limit - done))
            if journal.changed():
                if journal.place is not None:
                    count = journal.entries - before - done
                    self._doubted = _Doubted(self._place, journal.place, count, records + journal.flush())
                self.close()
                return
            self._place = journal.place or self._place
            if records:
                out.append(JournalPiece(kind="records", records=records))
            if journal.at_end:
                return

    def _open(self, out: list[JournalPiece]) -> Journal:
        journal = self._open_journal(self.which, self._units, follow=True, way=self._way)
        try:
            if self._doubted is not None:
                self._take_doubted(journal, self._doubted, out)
            start = self._resume(journal, self._place, out) if self._place is not None else self._fresh(journal)
            journal.begin(self._terms, start, after=start is self._place)
        except SourceError:
            journal.close()
            raise
        self._journal = journal
        return journal

    def _take_doubted(self, journal: Journal, doubted: _Doubted, out: list[JournalPiece]) -> None:
        """Hand on what was read while files came or went; behind a gap, where something may have gone with them."""
        if doubted.after is not None and self._may_lack(journal, doubted.after, doubted):
            gap_us = doubted.after.realtime_us, doubted.last.realtime_us
            out.append(JournalPiece(kind="gap", cause=TORN, from_us=gap_us[0], to_us=gap_us[1]))
        if doubted.records:
            out.append(JournalPiece(kind="records", records=doubted.records))
        self._place, self._doubted = doubted.last, None

    def _may_lack(self, journal: Journal, after: Place, doubted: _Doubted) -> bool:
        own = self._of_machine()
        same_numbers = after.seqnum_id == doubted.last.seqnum_id
        if same_numbers and not self._terms and doubted.last.seqnum - after.seqnum == doubted.entries:
            return False  # every entry was read, and none lacks
        found = journal.first([own] if own else (), after)
        if found is None:
            return False  # all of it went
        first = place_of(found)
        if first.is_same(after) or first.realtime_us > doubted.last.realtime_us:
            return False  # nothing went; or all of it did, and what is missing behind it will be told
        return first.seqnum_id != after.seqnum_id or first.seqnum != after.seqnum + 1

    def _leave(self, out: list[JournalPiece]) -> None:
        """Close the journal, which will be opened again; it would not know the beginnings of lines any more."""
        pieces = self.flush()
        if pieces:
            out.append(JournalPiece(kind="records", records=pieces))
        self.close()

    def _fresh(self, journal: Journal) -> Start:
        """Where the current runs of the units began; the end, where none of them runs."""
        own = self._of_machine()
        newest = journal.last([own] if own else ())
        if newest is None:
            return "head"  # whatever comes is new
        boot = newest["_BOOT_ID"].decode("ascii", "replace")
        starts = []
        for unit in units_here(journal, self._units):
            terms = [[f"{field}={unit}", f"_BOOT_ID={boot}", *own] for field in ("_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT")]
            last = journal.last(terms)
            start = run_start(journal, last, own) if last is not None else None
            if start is not None:
                starts.append(start)
        if starts:
            return min(starts)
        self._place = place_of(newest)
        return self._place

    def _resume(self, journal: Journal, place: Place, out: list[JournalPiece]) -> Start:
        """Where to go on after ``place``, and a gap where something that was not read is gone."""
        own = self._of_machine()
        terms: Terms = [own] if own else ()
        found = journal.first(terms, place)
        if found is None:
            newest = journal.last(terms)
            if newest is None or place_of(newest).seqnum_id == place.seqnum_id or place_of(newest).boot == place.boot:
                return place  # nothing came since; what is at that place is gone
            return self._replaced(place, out)
        first = place_of(found)
        if first.is_same(place):
            return place
        lost = first.seqnum - place.seqnum - 1 if first.seqnum_id == place.seqnum_id else None
        read_us = max(self._read_us or 0, place.read_us or 0)
        if lost != 0 and first.realtime_us > read_us:  # what was received earlier was read
            count = f"{lost} entries of the journal were " if lost is not None else ""
            cause = count + VACUUMED
            out.append(JournalPiece(kind="gap", cause=cause, from_us=place.realtime_us, to_us=first.realtime_us))
        return first

    def _replaced(self, place: Place, out: list[JournalPiece]) -> Start:
        """All that is there was received before what was read last: the clock was set back, and the files are new."""
        out.append(JournalPiece(kind="gap", cause=REPLACED, from_us=place.realtime_us))
        self._place = None
        return "head"

    def _wanted_terms(self) -> Terms:
        """Units by name are looked up; for patterns all is read, since units that are new today may match."""
        own = self._of_machine()
        if self._units.patterns or not self._units.names:
            return [own] if own else ()
        return [[*group, *own] for group in self._units.terms(self._units.names)]

    def _of_machine(self) -> list[str]:
        return [f"_MACHINE_ID={self.machine}"] if self.machine is not None else []

    def _failed(self, error: SourceError, now_us: int) -> None:
        self.close()
        self._retry_us = now_us + RETRY_US[min(self._failures, len(RETRY_US) - 1)]
        self._failures += 1
        words = error.message.removeprefix(f"{self.which.name}: ")
        self._stand("denied" if "permission denied" in words else "error", words, now_us)

    def _stand(self, name: Literal["following", "denied", "error"], reason: str, now_us: int) -> None:
        if self.state.name != name or self.state.reason == "not looked at yet":
            self.state = State(name, now_us, reason)
        elif self.state.reason != reason:
            self.state = State(name, self.state.since_us, reason)


def machines(which: Which, *, way: Way = "auto") -> dict[str | None, str]:
    """The machines whose entries lie in a journal, by id, each with the name of its part. Raises SourceError."""
    journal = open_journal(which, Units(), way=way)
    try:
        found: dict[str | None, str] = {}
        for one in sorted(journal.unique("_MACHINE_ID")):
            entry = journal.first([[f"_MACHINE_ID={one}"]])
            host = entry.get("_HOSTNAME", b"") if entry is not None else b""
            found[one] = f"{which.name}@{host.decode('utf-8', 'replace') or one}"
        return found
    finally:
        journal.close()
