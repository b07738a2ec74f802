"""Windows over a source: bounded stretches in which a line and its neighbours can be looked at.

Whether a line is a record depends only on what stands within :data:`REACH` bytes (bare logs) or :data:`RECORDS`
records (carriers) around it, so the same bytes give the same events however they are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from sleepwatch.model import Record
from sleepwatch.prefix import Head, clock_at, split
from sleepwatch.reader.genuine import Around

REACH = 64 << 10
"""How far around a line its neighbours are looked for; also how much of a line is read at all."""
RECORDS = 64
"""The same in records, where a carrier frames each line."""

_BEFORE_STAMPS = (b"[", b"\x1b")
"""What begins a line whose stamp stands behind more: a port, a colour."""

Writer = tuple[str | int | None, ...] | None
"""What tells one writer's records from another's in one source; None in a bare log."""


class LinesAround(Around):
    """Neighbours of a line in a buffer of a bare log: lines with the same ``[port]`` in front."""

    __slots__ = ("_buffer", "_end", "_start")

    def __init__(self, buffer: bytes, start: int) -> None:
        super().__init__()
        self._buffer = buffer
        self._start = start
        self._end = buffer.find(b"\n", start, start + REACH)

    def next_clock(self) -> int | None:
        if self.ports is not None or self._end < 0 or self._buffer[self._end + 1 : self._end + 2] == b"[":
            return None  # a router's child has a clock of its own
        return clock_at(self._buffer, self._end + 1)

    def before(self) -> Iterator[Head]:
        buffer, floor = self._buffer, max(0, self._start - REACH)
        end = self._start - 1
        while end > floor:
            start = buffer.rfind(b"\n", floor, end) + 1
            if start == 0 and floor > 0:
                return  # its beginning is out of reach
            head = split(buffer[start : min(end, start + REACH)])
            if head.ports == self.ports and (head.body or head.clock_us is not None):
                yield head
            end = start - 1

    def after(self) -> Iterator[Head]:
        if self._end < 0:
            return
        buffer, ceiling = self._buffer, self._start + REACH
        start = self._end + 1
        while start < len(buffer) and start < ceiling:
            end = buffer.find(b"\n", start, ceiling)
            head = split(buffer[start : end if end >= 0 else min(ceiling, len(buffer))])
            if head.ports == self.ports and (head.body or head.clock_us is not None):
                yield head
            if end < 0:
                return
            start = end + 1

    def clocks_after(self) -> Iterator[int]:
        buffer, ceiling = self._buffer, self._start + REACH
        if self.ports is not None or b"\x1b" in buffer[self._start : self._start + 8]:
            yield from super().clocks_after()
            return
        start = self._end + 1
        while 0 < start < ceiling:
            clock = clock_at(buffer, start) if buffer[start : start + 1] != b"[" else None
            if clock is not None:
                yield clock
            start = buffer.find(b"\n", start, ceiling) + 1


class RecordsAround(Around):
    """Neighbours of a record among records of a carrier: those of the same writer, with the same ``[port]``."""

    __slots__ = ("_at", "_records", "_writer")

    def __init__(self, records: list[Record], at: int) -> None:
        super().__init__()
        self._records = records
        self._at = at
        self._writer = writer_of(records[at])

    def next_clock(self) -> int | None:
        at = self._at + 1
        if self.ports is not None or at >= len(self._records):
            return None
        record = self._records[at]
        if record.text.startswith(b"[") or writer_of(record) != self._writer:
            return None  # a router's child has a clock of its own
        return clock_at(record.text, 0)

    def clocks_after(self) -> Iterator[int]:
        if self.ports is not None:
            yield from super().clocks_after()
            return
        for at in range(self._at + 1, min(len(self._records), self._at + 1 + RECORDS)):
            record = self._records[at]
            if record.text[:1] in _BEFORE_STAMPS:
                yield from (head.clock_us for head in self._head(at) if head.clock_us is not None)
            elif (clock := clock_at(record.text, 0)) is not None and writer_of(record) == self._writer:
                yield clock

    def before(self) -> Iterator[Head]:
        for at in range(self._at - 1, max(-1, self._at - 1 - RECORDS), -1):
            yield from self._head(at)

    def after(self) -> Iterator[Head]:
        for at in range(self._at + 1, min(len(self._records), self._at + 1 + RECORDS)):
            yield from self._head(at)

    def _head(self, at: int) -> Iterator[Head]:
        record = self._records[at]
        if writer_of(record) == self._writer:
            head = split(record.text[:REACH])
            if head.ports == self.ports and (head.body or head.clock_us is not None):
                yield head


def writer_of(record: Record) -> tuple[str | int | None, ...]:
    """What tells one writer's records from another's in one source."""
    return (
        record.host,
        record.boot,
        record.unit,
        record.container,
        record.invocation,
        record.pid,
        record.ident if record.pid is None and record.unit is None else None,
    )
