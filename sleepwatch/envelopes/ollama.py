"""ollama's output: its own lines are logfmt, those of the llama-server it drives stand between them as they are."""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import LineFramed, chomp
from sleepwatch.model import Record
from sleepwatch.times import rfc3339_us

_STAMP = rb"time=\"?(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)\"? level="
_OWN = re.compile(_STAMP)


class Ollama(LineFramed):
    """``time=2026-07-21T11:33:06.751+08:00 level=INFO source=sched.go:651 msg="…"``; only such lines carry a time."""

    name = "ollama"
    time_from = "ollama's stamps, on its own lines"
    strict = False
    pattern = re.compile(rb"^" + _STAMP + rb".*(?:\n|\Z)", re.MULTILINE)

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        wall = rfc3339_us(*match.group(1, 2, 3, 4))
        if wall is None:
            return False
        out.append(Record(text=chomp(match.group()), offset=offset + match.start(), wall_us=wall, ident="ollama"))
        return True


def own_time_us(line: bytes) -> int | None:
    """The time in a logfmt line of ollama's; None where it is none."""
    match = _OWN.match(line)
    return rfc3339_us(*match.group(1, 2, 3, 4)) if match else None
