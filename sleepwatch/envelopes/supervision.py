"""The loggers of service supervisors, which put a stamp before each line, and supervisors' own logs.

daemontools' multilog and s6-log write TAI64N labels, runit's svlogd those or UTC, s6-log local time in ISO 8601.
OpenRC, NSSM and launchd's StandardErrorPath write a server's lines as they are: those logs are bare.
"""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import DIGITS, LineFramed, chomp
from sleepwatch.model import Record
from sleepwatch.times import SECOND_US, fraction_us, rfc3339_us

_TAI64_UNIX_EPOCH = (1 << 62) + 10  # daemontools' and runit's label of 1970-01-01, whatever leap seconds came since
_TAI64_LATEST = 1 << 38


class Tai64n(LineFramed):
    """``@400000006a8f3c2a27481a2c text`` by multilog or ``svlogd -t``."""

    name = "tai64n"
    begins = b"@"
    time_from = "TAI64N labels"
    pattern = re.compile(rb"^@([0-9a-f]{16})([0-9a-f]{8})(?: (.*))?(?:\n|\Z)", re.MULTILINE)
    leap_seconds = 0
    """Leap seconds since 1970 that the writer counts."""

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        label, nanoseconds, text = match.groups()
        seconds = int(label, 16) - _TAI64_UNIX_EPOCH - self.leap_seconds
        if not 0 <= seconds < _TAI64_LATEST:
            return False
        at = match.start(3) if text is not None else match.end(2)
        wall = seconds * SECOND_US + int(nanoseconds, 16) // 1000
        out.append(Record(text=chomp(text or b""), offset=offset + at, wall_us=wall))
        return True


class S6Tai64n(Tai64n):
    """The same by s6-log, which counts leap seconds (skalibs' table). Nothing in a line tells it from the others."""

    name = "s6-tai64n"
    leap_seconds = 27


class Svlogd(LineFramed):
    """``2026-11-30_05:46:44.65902 text`` (``svlogd -tt``) or ``2026-11-30T05:46:44.65902 text`` (``-ttt``), in UTC."""

    name = "svlogd"
    begins = DIGITS
    time_from = "svlogd's stamps (UTC)"
    pattern = re.compile(rb"^(\d{4}-\d\d-\d\d)[_T](\d\d:\d\d:\d\d)\.(\d{5})(?: (.*))?(?:\n|\Z)", re.MULTILINE)

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, text = match.groups()
        wall = rfc3339_us(day, clock, fraction, b"Z")
        if wall is None:
            return False
        at = match.start(4) if text is not None else match.end(3)
        out.append(Record(text=chomp(text or b""), offset=offset + at, wall_us=wall))
        return True


class S6Log(LineFramed):
    """``2026-11-30 05:46:44.659026123  text`` (``s6-log T``), in local time."""

    name = "s6-log"
    begins = DIGITS
    time_from = "s6-log's local times"
    pattern = re.compile(rb"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.(\d{9})  (.*)(?:\n|\Z)", re.MULTILINE)

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, text = match.groups()
        wall = self.calendar.dated_us(day, clock)
        if wall is None:
            return False
        out.append(Record(text=chomp(text), offset=offset + match.start(4), wall_us=wall + fraction_us(fraction)))
        return True


class Supervisord(LineFramed):
    """``2026-11-30 05:46:44,659 INFO exited: llama (…)``; in a container its children's lines stand between."""

    name = "supervisord"
    time_from = "supervisord's local times, on its own lines"
    strict = False
    pattern = re.compile(
        rb"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3}) (?:CRIT|ERRO|WARN|INFO|DEBG|TRAC|BLAT) (.*)(?:\n|\Z)",
        re.MULTILINE,
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, text = match.groups()
        wall = self.calendar.dated_us(day, clock)
        if wall is None:
            return False
        out.append(
            Record(
                text=chomp(text),
                offset=offset + match.start(4),
                wall_us=wall + fraction_us(fraction),
                ident="supervisord",
            )
        )
        return True


class Launchd(LineFramed):
    """``2026-11-30 05:46:44.659026 (gui/501/local.llama [41]) <Notice>: exited due to SIGSEGV``: launchd's own log."""

    name = "launchd"
    begins = DIGITS
    time_from = "launchd's local times"
    pattern = re.compile(
        rb"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?"
        rb" (\([^()\n]*?(?: ?\[(\d{1,10})\])?\)[^<\n]{0,64}<[A-Za-z]+>: .*)(?:\n|\Z)",
        re.MULTILINE,
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, text, pid = match.groups()
        wall = self.calendar.dated_us(day, clock)
        if wall is None:
            return False
        out.append(
            Record(
                text=chomp(text),
                offset=offset + match.start(4),
                wall_us=wall + (fraction_us(fraction) if fraction else 0),
                ident="launchd",
                pid=int(pid) if pid else None,
            )
        )
        return True
