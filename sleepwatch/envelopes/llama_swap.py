"""llama-swap's output: its own lines, and those of the servers it drives between them as they are."""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import LineFramed, chomp
from sleepwatch.envelopes.docker_logs import STAMP
from sleepwatch.model import Record
from sleepwatch.times import rfc3339_us


class LlamaSwap(LineFramed):
    """``[INFO] Request …`` and ``[DEBUG] <model> …``, a stamp before it if so configured; before 2025-05
    ``[llama-swap] IP [2025-03-20 20:41:16] "GET …"``.

    Such lines get the identifier ``llama-swap`` and keep their whole text.
    """

    name = "llama-swap"
    time_from = "llama-swap's stamps, on its own lines where it writes them"
    strict = False
    pattern = re.compile(
        rb"^(?:(?:" + STAMP + rb" )?(\[(?:INFO|WARN|ERROR|DEBUG)\] .*)"
        rb"|(\[llama-swap\] .*?\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\] .*)|llama-swap listening on .*)(?:\n|\Z)",
        re.MULTILINE,
    )
    _sure = re.compile(
        rb"^(?:(?:" + STAMP + rb" )?\[(?:INFO|WARN|ERROR|DEBUG)\] (?:Request \S+ \"|<[^>\s]+> )"
        rb"|\[llama-swap\] |llama-swap listening on )",
        re.MULTILINE,
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, east, text, old, old_day, old_clock = match.groups()
        wall = rfc3339_us(day, clock, fraction, east) if day is not None else None
        at = match.start()
        if old is not None:
            wall = self.calendar.dated_us(old_day, old_clock)
        elif text is not None:
            at = match.start(5)
        line = chomp(match.group()[at - match.start() :])
        out.append(Record(text=line, offset=offset + at, wall_us=wall, ident="llama-swap"))
        return True

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed. Only lines that no other program writes are proof."""
        return len(cls._sure.findall(head))
