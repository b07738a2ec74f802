"""Windows over a source: bounded stretches in which a line and its neighbours can be looked at.

Whether a line is a record depends only on what stands within :data:`REACH` bytes (bare logs) or :data:`RECORDS`
records (carriers) around it, so the same bytes give the same events however they are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from sleepwatch.model import Record
from sleepwatch.prefix import Head, split
from sleepwatch.reader.genuine import Around

REACH = 64 << 10
"""How far around a line its neighbours are looked for; also how much of a line is read at all."""
RECORDS = 64
"""The same in records, where a carrier frames each line."""


class LinesAround(Around):
    """Neighbours of a line in a buffer of a bare log: lines with the same ``[port]`` in front."""

    __slots__ = ("_buffer", "_end", "_ports", "_start")

    def __init__(self, buffer: bytes, start: int, ports: str | None) -> None:
        self._buffer = buffer
        self._start = start
        self._end = buffer.find(b"\n", start, start + REACH)
        self._ports = ports

    def before(self) -> Iterator[Head]:
        buffer, floor = self._buffer, max(0, self._start - REACH)
        end = self._start - 1
        while end > floor:
            start = buffer.rfind(b"\n", floor, end) + 1
            if start == 0 and floor > 0:
                return  # its beginning is out of reach
            head = split(buffer[start : min(end, start + REACH)])
            if head.ports == self._ports and (head.body or head.clock_us is not None):
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
            if head.ports == self._ports and (head.body or head.clock_us is not None):
                yield head
            if end < 0:
                return
            start = end + 1


class RecordsAround(Around):
    """Neighbours of a record among records of a carrier: those of the same writer, with the same ``[port]``."""

    __slots__ = ("_at", "_ports", "_records", "_writer")

    def __init__(self, records: list[Record], at: int, ports: str | None) -> None:
        self._records = records
        self._at = at
        self._ports = ports
        self._writer = writer(records[at])

    def before(self) -> Iterator[Head]:
        for at in range(self._at - 1, max(-1, self._at - 1 - RECORDS), -1):
            yield from self._head(at)

    def after(self) -> Iterator[Head]:
        for at in range(self._at + 1, min(len(self._records), self._at + 1 + RECORDS)):
            yield from self._head(at)

    def _head(self, at: int) -> Iterator[Head]:
        record = self._records[at]
        if writer(record) == self._writer:
            head = split(record.text[:REACH])
            if head.ports == self._ports and (head.body or head.clock_us is not None):
                yield head


def writer(record: Record) -> tuple[str | int | None, ...]:
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
