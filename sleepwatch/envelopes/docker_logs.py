"""Lines behind a stamp, as ``docker logs -t``, ``kubectl logs --timestamps`` and ``podman logs -t`` print them.

Docker Desktop's log view copies lines behind the local time instead, in no strict order.
"""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import DIGITS, LineFramed, chomp, name_of
from sleepwatch.envelopes.ollama import own_time_us
from sleepwatch.model import Record
from sleepwatch.times import rfc3339_us

STAMP = rb"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)"


class DockerLogs(LineFramed):
    """``2026-11-30T05:46:44.659026123Z text``."""

    name = "docker-logs"
    begins = DIGITS
    time_from = "the container runtime's stamps"
    pattern = re.compile(rb"^" + STAMP + rb"(?: (.*))?(?:\n|\Z)", re.MULTILINE)

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, east, text = match.groups()
        wall = rfc3339_us(day, clock, fraction, east)
        if wall is None:
            return False
        if text is None:
            at, text = match.end(4), b""
        else:
            at = match.start(5)
            if text[-1:] == b"\r":
                text = text[:-1]
        out.append(Record(text=text, offset=offset + at, wall_us=wall))
        return True


class KubectlPrefix(LineFramed):
    """``[pod/llama-0/llama] [STAMP ]text``: ``kubectl logs --prefix``."""

    name = "kubectl-prefix"
    begins = b"["
    time_from = "the container runtime's stamps, where the lines have them"
    pattern = re.compile(rb"^\[pod/([^/\]\s]+/[^/\]\s]+)\] ?(?:" + STAMP + rb" ?)?(.*)(?:\n|\Z)", re.MULTILINE)

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        pod, day, clock, fraction, east, text = match.groups()
        wall = rfc3339_us(day, clock, fraction, east) if day is not None else None
        out.append(Record(text=chomp(text), offset=offset + match.start(6), wall_us=wall, container=name_of(pod)))
        return True


class DockerDesktop(LineFramed):
    """``2026-11-30 05:46:44 text``: the local time of the machine that showed it."""

    name = "docker-desktop"
    begins = DIGITS
    time_from = "Docker Desktop's local times"
    pattern = re.compile(rb"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?: (.*))?(?:\n|\Z)", re.MULTILINE)

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, text = match.groups()
        wall = self.calendar.dated_us(day, clock)
        if wall is None:
            return False
        text = chomp(text or b"")
        own = own_time_us(text) if text.startswith(b"time=") else None
        at = match.start(3) if match.start(3) >= 0 else match.end(2)
        out.append(Record(text=text, offset=offset + at, wall_us=wall if own is None else own))
        return True
