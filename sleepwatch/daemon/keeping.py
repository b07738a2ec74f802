"""Stores what the watches found, with how far each source was read and the engine's state there, in one transaction.

So a kill at any moment changes nothing: the next start reads on from there and finds the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from sleepwatch import __version__
from sleepwatch.daemon.blindness import NO_LONGER
from sleepwatch.daemon.printing import Complaints
from sleepwatch.daemon.watching import Found, SourceWatch
from sleepwatch.engine import Now
from sleepwatch.errors import StoreError
from sleepwatch.model import Incident, ScanResult
from sleepwatch.sources.followers import Follower
from sleepwatch.sources.identity import FileCheckpoint
from sleepwatch.sources.journal import NAME as JOURNAL
from sleepwatch.sources.journal import Place
from sleepwatch.store import Store, Transaction
from sleepwatch.store.daemon import (
    Checkpoint,
    Pulse,
    WatchRow,
    checkpoints,
    forget_lives,
    known_incident,
    pulse,
    save_checkpoint,
    save_pulse,
    save_watches,
    watches_seen,
)
from sleepwatch.store.witness import WitnessRow, forget_observations, save_observations, save_witnesses

if TYPE_CHECKING:
    from sleepwatch.notify.desk import Desk

BEAT_US = 30_000_000
"""The pulse is written at least this often."""
FORGET_EVERY_US = 3_600_000_000
TRY_AGAIN_US = 5_000_000
"""The database could not be written: the next try."""
LEFT = "its log is not followed any more, so what becomes of it will not be seen"


class Kept(NamedTuple):
    """What was stored of one source."""

    found: Found
    new: list[str]
    """Ids of the incidents that were not known before, above ``possible``."""


class Keeper:
    """The one who writes to the daemon's database, but for messages and wakes. Raises StoreError when it is made."""

    def __init__(self, store: Store, rules_digest: str, complain: Complaints, now: Now) -> None:
        self.store = store
        self.desk: Desk | None = None
        """Notes what an incident means for people, in the transaction that stores it."""
        self.checkpoints: dict[str, Checkpoint] = {}
        """How far each source had been read when :meth:`look_up` was called last."""
        self.look_up()
        self.before = pulse(store)
        """The sign of life of the run before; None where none ever ran."""
        self.pulse = Pulse(pid=os.getpid(), version=__version__, started_us=now.wall_us, beat_us=now.wall_us)
        self._rules_digest = rules_digest
        self._complain = complain
        self._rows: dict[str, WatchRow] = {}
        """What was last told of the sources, by path."""
        self._seen: list[WitnessRow] | None = None
        """What was last told of what can be seen of each server beside its log."""
        self._saved_us: int | None = None
        self._try_again_us = 0
        self._forgot_us = 0

    def look_up(self) -> None:
        """Read how far each source was read. Raises StoreError."""
        self.checkpoints = checkpoints(self.store)

    def places(self) -> dict[str, FileCheckpoint | Place | None]:
        """How far each source was read, as its follower knows it; None where that cannot be read."""
        return {source: _place(saved) for source, saved in self.checkpoints.items()}

    def is_due(self, watches: Mapping[str, SourceWatch], now: Now, every_us: int) -> bool:
        """Whether it is time to save: at once for what is urgent, else this often."""
        if self._saved_us is None:
            return now.monotonic_us >= self._try_again_us
        unsaved_us = now.monotonic_us - self._saved_us
        due = unsaved_us >= BEAT_US or any(watch.urgent for watch in watches.values())
        if not due and unsaved_us >= every_us:
            due = any(watch.dirty for watch in watches.values())
        return due and now.monotonic_us >= self._try_again_us

    def is_well(self, now: Now) -> bool:
        """Whether what is found is being stored."""
        return self._saved_us is not None and now.monotonic_us - self._saved_us < 2 * BEAT_US

    def hurry(self) -> None:
        """The next save is due at once: the sources are others now."""
        self._saved_us = None

    def save(
        self,
        watches: Mapping[str, SourceWatch],
        followers: Mapping[str, Follower],
        now: Now,
        *,
        over: Collection[str],
        others: Mapping[str, WatchRow],
        witnesses: list[WitnessRow],
        hold: Mapping[str, str],
        keep_us: int,
    ) -> list[Kept] | None:
        """Store everything; None where that cannot be done now.

        ``over``: sources that are told of no more. ``others``: what is told of those that no follower has.
        ``witnesses``: what can be seen of each server beside its log. ``hold``: sources of which nobody is told one by
        one yet, with why (:meth:`Desk.note`). ``keep_us``: what is older is forgotten, incidents excepted.
        """
        found = {path: watch.found() for path, watch in watches.items() if watch.dirty or watch.urgent}
        self.pulse = msgspec.structs.replace(self.pulse, beat_us=now.wall_us)
        kept = []
        try:
            with self.store.transaction() as transaction:
                for path, one in found.items():
                    kept.append(Kept(one, self._save_found(transaction, watches[path], one)))
                    if self.desk is not None:
                        self.desk.note(transaction, [*one.incidents, *one.withdrawn], now, hold=hold.get(path))
                rows = self._save_places(transaction, watches, followers, now)
                rows = {path: row for path, row in rows.items() if path not in over}
                rows.update(others)
                self._save_rows(transaction, rows)
                if witnesses != self._seen:
                    save_witnesses(transaction, witnesses)
                save_pulse(transaction, self.pulse)
                forgets = now.monotonic_us - self._forgot_us >= FORGET_EVERY_US
                if forgets:
                    self._forget(transaction, now.wall_us - keep_us)
        except StoreError as error:  # locked, or the disk is full: that passes
            self._try_again_us = now.monotonic_us + TRY_AGAIN_US
            self._complain.say(f"nothing can be stored now; what is found is kept, and tried again: {error}", now)
            return None
        self._saved_us, self._rows, self._seen = now.monotonic_us, rows, witnesses
        if forgets:
            self._forgot_us = now.monotonic_us
        for path in found:
            watches[path].stored()
        return kept

    def end(self, now: Now) -> None:
        """What is saved next is the last of this run."""
        self.pulse = msgspec.structs.replace(self.pulse, stopped_us=now.wall_us)

    def end_blindness(self, blind: Iterable[Incident], now: Now) -> None:
        """What an earlier run could not see, and this one does not look at. Raises StoreError."""
        self._record(
            [msgspec.structs.replace(one, state="recovered", closed_us=now.wall_us, reason=NO_LONGER) for one in blind],
            now,
        )

    def leave_unresolved(self, followed: Collection[str], now: Now) -> list[Incident] | None:
        """End the open incidents that are not among the ``followed``: nobody will see what becomes of them.

        So it is when a log is watched no longer, and when the state of its reading could not be taken over. Returns
        them; None where they cannot be stored now.
        """
        left = [
            one
            for one in self.store.incidents(states=("open",), possible=True)
            if one.kind != "blind" and one.id not in followed
        ]
        ended = [
            msgspec.structs.replace(one, state="unresolved" if one.kind == "hung-request" else "down", reason=LEFT)
            for one in left
        ]
        try:
            self._record(ended, now, told={one.id: one for one in left})
        except StoreError as error:
            self._complain.say(f"nothing can be stored now; it is tried again: {error}", now)
            return None
        return ended

    def _record(self, incidents: list[Incident], now: Now, told: Mapping[str, Incident] | None = None) -> None:
        if not incidents:
            return
        with self.store.transaction() as transaction:
            reading = ScanResult(sources=(), lives=(), incidents=tuple(incidents), gaps=(), whole=False)
            transaction.record(reading, self._rules_digest, told=told)
            if self.desk is not None:
                self.desk.note(transaction, [one.id for one in incidents], now)

    def _save_found(self, transaction: Transaction, watch: SourceWatch, found: Found) -> list[str]:
        """Store what a watch found; returns the ids of incidents that were not known before, above ``possible``."""
        certain = [one.id for one in found.incidents.values() if one.confidence != "possible"]
        new = [one for one in certain if not known_incident(transaction, one)]
        transaction.record(
            ScanResult(
                sources=(watch.info(),),
                lives=tuple(found.lives),
                incidents=tuple(found.incidents.values()),
                gaps=tuple(found.gaps),
                whole=False,
            ),
            self._rules_digest,
            told=found.told,
        )
        for incident, reason in found.withdrawn.values():
            transaction.withdraw(incident, reason, self._rules_digest)
        save_observations(transaction, found.observations)
        return new

    def _save_places(
        self, transaction: Transaction, watches: Mapping[str, SourceWatch], followers: Mapping[str, Follower], now: Now
    ) -> dict[str, WatchRow]:
        """Store how far everything was read; returns what is told of each source."""
        rows: dict[str, WatchRow] = {}
        for path, follower in followers.items():
            watch, row = watches.get(path), self._rows.get(path)
            if row is None or watch is None or watch.dirty or not _still(row, follower):
                place = follower.checkpoint()
                if watch is not None and place is not None and watch.dirty:
                    save_checkpoint(
                        transaction,
                        Checkpoint(
                            source=path, file=place.dump(), state=watch.state(), rules_digest=self._rules_digest
                        ),
                    )
                row = _row(follower, watch, place, now)
            rows[path] = row
        return rows

    def _save_rows(self, transaction: Transaction, rows: dict[str, WatchRow]) -> None:
        if rows == self._rows:
            watches_seen(transaction)
        else:
            save_watches(transaction, list(rows.values()))

    def _forget(self, transaction: Transaction, before_us: int) -> None:
        forget_observations(transaction, before_us)
        forget_lives(transaction, before_us)
        if self.desk is not None:
            self.desk.forget(transaction, before_us)


def _place(saved: Checkpoint) -> FileCheckpoint | Place | None:
    try:
        if saved.source.startswith(JOURNAL):
            return Place.restore(saved.file)
        return FileCheckpoint.restore(saved.file)
    except msgspec.DecodeError:
        return None


def _still(row: WatchRow, follower: Follower) -> bool:
    """Is it as it was told of?"""
    state = follower.state
    return (row.state, row.reason, row.unread) == (state.name, state.reason or None, follower.unread)


def _row(follower: Follower, watch: SourceWatch | None, place: FileCheckpoint | Place | None, now: Now) -> WatchRow:
    return WatchRow(
        source=str(follower.path),
        state=follower.state.name,
        reason=follower.state.reason or None,
        since_us=now.wall_us - (now.monotonic_us - follower.state.since_us),
        offset=place.offset if isinstance(place, FileCheckpoint) else 0,
        unread=follower.unread,
        envelope=watch.info().envelope if watch is not None else None,
        lives=watch.busy_lives if watch is not None else 0,
    )
