"""lemonade's log: ``2026-06-18 23:58:06.948 [Info] (Process) 0.11.102.312 I …``.

``(Process)`` marks what the server it drives wrote.
"""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import DIGITS, LineFramed, chomp
from sleepwatch.model import Record
from sleepwatch.times import fraction_us


class Lemonade(LineFramed):
    """Local time, level, component. What is not the server's own has the identifier ``lemonade``."""

    name = "lemonade"
    begins = DIGITS
    time_from = "lemonade's local times"
    pattern = re.compile(
        rb"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.(\d{3,6}) \[[A-Za-z]{1,12}\] \(([^)\n]{1,64})\)(?: (.*))?(?:\n|\Z)",
        re.MULTILINE,
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, component, text = match.groups()
        wall = self.calendar.dated_us(day, clock)
        if wall is None:
            return False
        out.append(
            Record(
                text=chomp(text or b""),
                offset=offset + (match.start(5) if text is not None else match.end(4) + 1),
                wall_us=wall + fraction_us(fraction),
                ident=None if component == b"Process" else "lemonade",
            )
        )
        return True
