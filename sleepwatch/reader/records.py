"""Sources with a carrier: its envelope's records, through the same gate and recogniser as bare lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any

from sleepwatch.envelopes import Envelope, saved
from sleepwatch.model import Record
from sleepwatch.prefix import split
from sleepwatch.reader.gate import Gate
from sleepwatch.reader.recogniser import Recogniser
from sleepwatch.reader.steady import ShortWay
from sleepwatch.reader.window import REACH, RECORDS, RecordsAround, writer_of

LINE_LIMIT = 16 << 20
"""Bytes without a line end after which waiting for one stops."""
SET_BACK_US = 2_000_000
"""Records of several writers can stand this much out of order without a clock having been set."""
SHORT = 8
"""Fewer records of one writer in a row are not worth being put together."""
_NO_HITS: Sequence[int] = ()
_WHOSE = attrgetter("host", "boot", "unit", "container", "invocation", "pid", "ident", "message_id")
"""Records that have all of these in common, the last one None, are one writer's."""


class FramedLog:
    """Reads the bytes of a log in a carrier's framing, in pieces of any size."""

    def __init__(self, recogniser: Recogniser, gate: Gate, envelope: Envelope, offset: int = 0) -> None:
        self._recogniser = recogniser
        self._gate = gate
        self._envelope = envelope
        self._rest = b""
        """The beginning of a line whose end has not come yet."""
        self._offset = offset
        self._records: list[Record] = []
        self._hits: list[Sequence[int]] = []
        """For each record, the literals in its text."""
        self._short_way = ShortWay(recogniser)
        self._done = 0
        self.first_wall_us: int | None = None
        self.last_wall_us: int | None = None
        self.set_backs = 0
        """How often its wall times went back: the clock was set, or the source was put together wrongly."""

    def feed(self, data: bytes, *, final: bool) -> None:
        """The next bytes; ``final`` with the last of them."""
        data = self._rest + data
        cut = len(data) if final else data.rfind(b"\n") + 1
        if not cut and len(data) > LINE_LIMIT:
            cut = len(data)  # no carrier writes such lines: whatever this is, it must not fill the memory
        self._rest = data[cut:]
        if cut:
            self.add(self._envelope.feed(data[:cut], self._offset))
            self._offset += cut
        if final:
            self.add(self._envelope.finish())
        self.read(final=final)

    def settle(self, *, partial: bool, newest: int = 0) -> None:
        """Nothing more came for a while: read what is there, but for the ``newest`` bytes.

        ``partial``: what the carrier holds back, too.

        A line of the carrier's own whose end has not come is never read: without it, it means nothing.
        """
        if partial and not self._rest:
            self.add(self._envelope.pause())
        end = self._offset + len(self._rest) - newest
        fresh = 0
        while newest and fresh < len(self._records) and self._records[-1 - fresh].offset >= end:
            fresh += 1
        self.read_all_but(fresh)

    def state(self) -> dict[str, object]:
        """What a restart needs to go on from here."""
        return {
            "envelope": saved(self._envelope),
            "rest": self._rest,
            "offset": self._offset,
            "records": self._records,
            "done": self._done,
            "walls": (self.first_wall_us, self.last_wall_us, self.set_backs),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that :meth:`state` gave."""
        self._rest, self._offset = state["rest"], state["offset"]
        self.add(state["records"])  # which lines hit is told by the rules, and those may be others by now
        self._done = state["done"]
        self.first_wall_us, self.last_wall_us, self.set_backs = state["walls"]

    def add(self, records: list[Record]) -> None:
        """Further records of the source; the gate looks through all their texts in one go."""
        if not records:
            return
        texts = [record.text[:REACH] for record in records]
        ends = list(accumulate([len(text) + 1 for text in texts]))
        hits: list[Sequence[int]] = [_NO_HITS] * len(records)
        index = 0
        for place, literal in self._gate.hits(b"\n".join(texts)):
            if place >= ends[index]:
                index = bisect_right(ends, place, index)
            hits[index] = [*hits[index], literal]
        self._records += records
        self._hits += hits
        self._look_at_walls(records)

    def _look_at_walls(self, records: list[Record]) -> None:
        """Their first and last wall time, and whether it goes back."""
        last = self.last_wall_us
        for record in records:
            wall = record.wall_us
            if wall is not None:
                if last is None:
                    self.first_wall_us = wall
                elif last - wall > SET_BACK_US:
                    self.set_backs += 1
                last = wall
        self.last_wall_us = last

    def read(self, *, final: bool) -> None:
        """Read the records whose neighbours are all there."""
        self.read_all_but(0 if final else RECORDS)

    def read_all_but(self, last: int) -> None:
        """Read the records but for so many of the last, which are only looked at as neighbours."""
        limit = len(self._records) - last
        if limit <= self._done:
            return
        recogniser = self._recogniser
        at = self._done
        while at < limit:
            if self._hits[at] and recogniser.trace is None and not recogniser.wanting:
                at = self._one_writer(at, limit)
            else:
                self._record(at)
                at += 1
        keep = max(0, limit - RECORDS)
        del self._records[:keep], self._hits[:keep]
        self._done = limit - keep

    def _one_writer(self, at: int, limit: int) -> int:
        """Read the records of one writer from here on, or this one; where the next one is.

        They are put together as a bare log of the writer's, through which there is a short way.
        """
        records, hits = self._records, self._hits
        end = self._end_of_writer(at)
        if end - at < SHORT:
            self._record(at)
            return at + 1
        texts = [record.text[:REACH] for record in records[at:end]]
        starts = [0, *accumulate([len(text) + 1 for text in texts])]
        stop = min(limit, end)
        writer = writer_of(records[at])

        def whence(place: int) -> tuple[int, int | None]:
            line = bisect_right(starts, place) - 1
            record = records[at + line]
            return record.offset + place - starts[line], record.wall_us

        short_way, wanting = self._short_way, self._recogniser.wanting
        short_way.look_at(b"\n".join(texts), starts[stop - at], whence, writer)
        line = 0
        while at + line < stop and not wanting:
            if hits[at + line]:
                taken = short_way.take(starts[line], starts[line + 1] - 1, hits[at + line][0])
                if taken >= 0:
                    line = bisect_right(starts, taken, line)
                    continue
                short_way.end_run()
                self._record(at + line)
            line += 1
        short_way.end_run()
        return at + line

    def _end_of_writer(self, at: int) -> int:
        """Where the plain lines that one writer wrote from here on, one after the other, end."""
        records = self._records
        fields, whose = records[at].fields, _WHOSE(records[at])
        if whose[-1] is not None:
            return at + 1  # its message id says more than its text
        end, count = at + 1, len(records)
        if fields is None:
            while end < count and _WHOSE(records[end]) == whose and records[end].fields is None:
                end += 1
        else:  # a journal's: each writer has its own
            while end < count and records[end].fields is fields:
                end += 1
        return end

    def _goes_on(self, at: int) -> bool:
        """Is this a further line of the message before it? An entry of several lines has one meaning, and frames."""
        if at == 0:
            return False
        record, before = self._records[at], self._records[at - 1]
        return (
            record.fields is before.fields
            and record.wall_us == before.wall_us
            and record.message_id == before.message_id
            and record.pid == before.pid
        )

    def _record(self, at: int) -> None:
        record, recogniser = self._records[at], self._recogniser
        first = record.message_id is not None and not self._goes_on(at)
        if first and recogniser.structured(record, writer_of(record)):
            return
        if self._hits[at]:
            around = RecordsAround(self._records, at)
            recogniser.line(record.text[:REACH], record.offset, self._hits[at], around, writer_of(record), record)
            return
        if recogniser.trace is not None:
            recogniser.passed_over(record, record.text[:REACH])
        if recogniser.wanting:
            recogniser.show(split(record.text[:REACH]), writer_of(record))
