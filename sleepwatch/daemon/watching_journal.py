"""One watched journal: the records its follower delivers, through the reader and the engine, as it grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from sleepwatch.daemon.watching import SourceWatch, sleep_words
from sleepwatch.engine import Now, Words
from sleepwatch.model import Gap, SourceInfo
from sleepwatch.reader import Gate
from sleepwatch.reader.journal import JournalLog
from sleepwatch.rules import RuleSet
from sleepwatch.sources.follow import State
from sleepwatch.sources.journal_follow import JournalFollower, JournalPiece

if TYPE_CHECKING:
    from sleepwatch.witness.observing import Witnesses

SAVE_PLACE_US = 600_000_000
"""How far a journal was read is saved this often although nothing wanted came: what is vacuumed later was read."""


class JournalWatch(SourceWatch):
    """Reads one growing journal: all its servers, in one engine."""

    _reader: JournalLog
    _unread_unit = "milliseconds"

    def __init__(
        self,
        follower: JournalFollower,
        rules: RuleSet,
        gate: Gate,
        words: Mapping[str, Words],
        *,
        witnesses: Witnesses | None = None,
    ) -> None:
        super().__init__(follower.path, words, witnesses)
        self._sleep_words = sleep_words(rules)
        self._follower = follower
        self._reader = JournalLog(rules, self._sink, follower.path, gate=gate)
        self._placed_us = 0

    def take(self, piece: JournalPiece, now: Now) -> None:
        """What the follower delivered."""
        self._begins(now)
        if piece.kind == "records":
            if any(words in record.text for record in piece.records for words in self._sleep_words):
                self._falls_asleep(now)
            self._reader.feed(piece.records)
            size = sum(len(record.text) for record in piece.records)
            self._fed(size, len(piece.records), now, units=len(piece.records))
        else:
            self._missing(
                Gap(source=self.path, cause=piece.cause, from_us=piece.from_us, to_us=piece.to_us or now.wall_us)
            )

    def follow_with(self, follower: JournalFollower) -> None:
        """Another follower delivers from now on, for the same part of the journal."""
        self._follower = follower

    def tick(self, now: Now, *, partial_us: int, unread: int = 0) -> None:
        """See SourceWatch. Long lines come in several entries, so their pieces wait as unfinished lines do."""
        if self._unfinished and now.monotonic_us - self._fed_us >= partial_us:
            pieces = self._follower.flush()
            if pieces:
                self._reader.feed(pieces)
        super().tick(now, partial_us=partial_us, unread=unread)

    def wants_us(self) -> int | None:
        """See SourceWatch. A journal that is closed tells nobody that there is something to read."""
        wants = [us for us in (super().wants_us(), self._follower.again_us) if us is not None]
        return min(wants, default=None)

    def look_at_source(self, state: State, unread: int, now: Now, *, blind_us: int) -> None:
        """See SourceWatch."""
        super().look_at_source(state, unread, now, blind_us=blind_us)
        if now.monotonic_us - self._placed_us >= SAVE_PLACE_US:
            self._placed_us = now.monotonic_us
            self.dirty = True

    def info(self) -> SourceInfo:
        """See SourceWatch."""
        return msgspec.structs.replace(super().info(), envelope="journal")

    def state(self) -> bytes:
        """See SourceWatch. Pieces of lines are not kept: their beginnings stand before the place that is."""
        pieces = self._follower.flush()
        if pieces:
            self._reader.feed(pieces)
        return super().state()
