"""Bare logs: a sliding buffer over the bytes, in which only candidate lines are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleepwatch.prefix import split
from sleepwatch.reader.gate import Gate
from sleepwatch.reader.recogniser import Recogniser
from sleepwatch.reader.steady import ShortWay
from sleepwatch.reader.window import REACH, LinesAround

HIT_REACH = 8 << 10
"""No pattern has its literal further from the line's start than this; a later hit is text inside the line."""
NO_NEWLINE = b"No parser definition detected, assuming pure content parser."
"""The one text the server prints without a newline behind it (llama.cpp ``common/chat.cpp``, seen at ``-lv 5``)."""


class BareLog:
    """Reads the bytes of a bare log, in pieces of any size."""

    def __init__(self, recogniser: Recogniser, gate: Gate, offset: int = 0) -> None:
        self._recogniser = recogniser
        self._gate = gate
        self._short_way = ShortWay(recogniser)
        self._buffer = b""
        self._base = self._first = offset
        """Offset of the buffer's first byte in the source; of the first byte that was ever fed."""
        self._done = 0
        """Lines that begin before this place in the buffer have been read."""

    def feed(self, data: bytes, *, final: bool) -> None:
        """The next bytes; ``final`` with the last of them. A line is read when all within its reach is there."""
        buffer = self._buffer + data if self._buffer else data
        limit = len(buffer) if final else len(buffer) - REACH
        if limit <= self._done:
            self._buffer = buffer
            return
        self._read(buffer, self._done, limit)
        keep = max(0, limit - REACH)
        self._buffer = buffer[keep:]
        self._base += keep
        self._done = limit - keep

    def settle(self, *, partial: bool, newest: int = 0) -> None:
        """Nothing more came for a while: read what is there, but for the ``newest`` bytes.

        ``partial``: the last line may never be finished, so it is read as far as its end could not change it. Else it
        waits, since what stands at a block's end is often half a number.
        """
        buffer = self._buffer
        whole = buffer.rfind(b"\n") + 1  # half a line behind them says nothing about them
        limit = buffer.rfind(b"\n", 0, max(0, len(buffer) - newest)) + 1 if newest else whole
        if limit > self._done:
            self._read(buffer[:whole], self._done, limit)
            self._done = limit
        if partial and self._done == limit < len(buffer) and self._unfinished(buffer, limit):
            self._done = len(buffer)

    def state(self) -> dict[str, object]:
        """What a restart needs to go on from here."""
        return {"buffer": self._buffer, "base": self._base, "first": self._first, "done": self._done}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that :meth:`state` gave."""
        self._buffer, self._base, self._done = state["buffer"], state["base"], state["done"]
        self._first = state["first"]

    def _read(self, buffer: bytes, done: int, limit: int) -> None:
        """Read the lines that begin in ``buffer[done:limit]``."""
        short_way, wanting = self._short_way, self._recogniser.wanting
        base = self._base
        short_way.look_at(buffer, limit, lambda place: (base + place, None))
        take = short_way.take if self._recogniser.trace is None else _leave
        stop = min(len(buffer), limit + REACH)
        walked = done
        start = end = -1
        literals: list[int] = []
        for place, literal in self._gate.hits(memoryview(buffer)[done:stop]):
            place += done
            if place <= end:
                if literals and place - start <= HIT_REACH:
                    literals.append(literal)
                continue
            if literals:
                walked = self._candidate(buffer, start, literals, walked)
                literals = []
            start = buffer.rfind(b"\n", 0, place - 1) + 1
            end = buffer.find(b"\n", place)
            if end < 0:
                end = len(buffer)
            if start >= limit:
                break
            if start < done or (start == 0 and self._base != self._first) or place - start > HIT_REACH:
                continue
            taken = -1 if wanting or end - start > REACH else take(start, end, literal)
            if taken < 0:
                literals = [literal]
            else:
                end = taken
        if literals:
            walked = self._candidate(buffer, start, literals, walked)
        short_way.end_run()
        if wanting:
            self._walk(buffer, walked, limit)

    def _candidate(self, buffer: bytes, start: int, literals: list[int], walked: int) -> int:
        """Read one candidate line the long way; returns the place up to which lines have been shown."""
        self._short_way.end_run()
        self._walk(buffer, walked, start)
        end = buffer.find(b"\n", start, start + REACH)
        line = buffer[start : end if end >= 0 else start + REACH]
        offset = self._base + start
        glued = line.find(NO_NEWLINE, 0, 256)
        if glued >= 0:
            glued += len(NO_NEWLINE)
            self._recogniser.line(line[:glued], offset, literals, LinesAround(buffer, start), None, None)
            line, offset = line[glued:], offset + glued
        self._recogniser.line(line, offset, literals, LinesAround(buffer, start), None, None)
        return end + 1 if end >= 0 else len(buffer)

    def _unfinished(self, buffer: bytes, start: int) -> bool:
        """Read the last line, whose end has not come; was it a record?"""
        if self._recogniser.wanting or (start == 0 and self._base != self._first):
            return False  # a life's first lines identify it: they are shown whole or not at all
        literals = [literal for _, literal in self._gate.hits(memoryview(buffer)[start : start + HIT_REACH])]
        return bool(literals) and self._recogniser.line(
            buffer[start : start + REACH],
            self._base + start,
            literals,
            LinesAround(buffer, start),
            None,
            None,
            unfinished=True,
        )

    def _walk(self, buffer: bytes, start: int, stop: int) -> None:
        """Show every line that begins in this stretch, while a life still wants its first stamped lines."""
        if not self._recogniser.wanting:
            return
        if start > 0 and buffer[start - 1] != 0x0A:
            start = buffer.find(b"\n", start - 1, stop) + 1
            if start == 0:
                return
        while start < stop and self._recogniser.wanting:
            end = buffer.find(b"\n", start)
            if end < 0:
                end = len(buffer)
            self._recogniser.show(split(buffer[start : min(end, start + REACH)]), None)
            start = end + 1


def _leave(start: int, end: int, literal: int) -> int:
    """No line goes the short way while each is being explained."""
    return -1
