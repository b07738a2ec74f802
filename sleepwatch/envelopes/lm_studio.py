"""LM Studio's developer log: stamp and level on one line, the message on the next ones, the first behind a blank."""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import Framed
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) +\[(?:DEBUG|INFO|WARN|ERROR|TRACE)\] *(.*)")
_STAMP_LINE = re.compile(rb"^" + _STAMP.pattern, re.MULTILINE)


class LmStudio(Framed):
    """``2026-05-11 21:48:42 [DEBUG]``, then `` slot update_slots: …``. A message has the time of the stamp above it."""

    name = "lm-studio"
    time_from = "LM Studio's local times"

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._wall_us: int | None = None

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """See Framed."""
        at = 0
        for line in block.split(b"\n"):
            start = at
            at += len(line) + 1
            text = line[:-1] if line.endswith(b"\r") else line
            if not text:
                if at <= len(block):
                    self.blank(offset + start)
                continue
            stamp = _STAMP.fullmatch(text)
            wall = self.calendar.dated_us(stamp[1], stamp[2]) if stamp else self._wall_us
            if wall is None:
                if self.between(block, start, min(at, len(block)), offset, out):
                    return
                continue
            if self._held:
                self.release(out)
            if stamp:
                self._wall_us = wall
                place, text = stamp.start(3), stamp[3]
            else:
                place = int(text.startswith(b" ") and not text.startswith(b"  "))
                text = text[place:]
            if text:
                out.append(Record(text=text, offset=offset + start + place, wall_us=wall))

    def starts(self, data: bytes) -> list[int]:
        """See Framed."""
        return [match.start() for match in _STAMP_LINE.finditer(data)]

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed. Bodies are printed over many lines, so stamps may be few; one at least must stand alone."""
        lines = [line.rstrip(b"\r") for line in head.split(b"\n") if line.strip()]
        stamps = [index for index, line in enumerate(lines) if _STAMP.fullmatch(line)]
        if not any(lines[index].endswith(b"]") for index in stamps) or len(stamps) * 8 < len(lines):
            return 0
        return len(lines) - stamps[0]
