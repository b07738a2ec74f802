"""Docker Model Runner: ``[2026-02-05T07:15:17.900894100Z][inference.inference-llama.cpp][W] text``."""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import LineFramed, chomp, name_of
from sleepwatch.envelopes.docker_logs import STAMP
from sleepwatch.model import Record
from sleepwatch.times import rfc3339_us


class ModelRunner(LineFramed):
    """Stamp, component and perhaps level, each in brackets. The component becomes the identifier."""

    name = "model-runner"
    begins = b"["
    time_from = "Docker Model Runner's stamps"
    pattern = re.compile(
        rb"^\[" + STAMP + rb"\]\[([^\]\s]{1,128})\](?:\[[A-Z]{1,8}\])?(?: (.*))?(?:\n|\Z)", re.MULTILINE
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, east, component, text = match.groups()
        wall = rfc3339_us(day, clock, fraction, east)
        if wall is None:
            return False
        at = match.start(6) if text is not None else match.end(5) + 1
        out.append(Record(text=chomp(text or b""), offset=offset + at, wall_us=wall, ident=name_of(component)))
        return True
