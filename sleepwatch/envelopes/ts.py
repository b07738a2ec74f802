"""A stamp in front of each line, put there by a filter the output is piped through: moreutils' ``ts``, pm2's log files.

``ts`` writes ``Nov 30 05:46:44 text``, or what its format says: ``2026-11-30T05:46:44``, ``05:46:44.659026``,
``1796017604.659026``, in brackets or not. pm2 writes ``2026-11-30T05:46:44: text``.
"""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import LineFramed, chomp
from sleepwatch.model import Record
from sleepwatch.times import fraction_us, month_number, rfc3339_us, seconds_of_day

# What the server itself writes stands right behind the stamp. In the journal's and syslog's text a host or a program
# does; a host can be called `srv`, but no two spaces follow it.
_SERVERS = re.compile(
    rb"(?:\x1b\[[\d;]*m|\[ *\d{1,5}\] ?)*(?:\d{1,9}\.[0-5]\d\.\d{3}\.\d{3}[ \x1b]"
    rb"|(?:[IWED] )?(?:srv|slot|que|res|cmn|spec) {2,}\w"
    rb"|(?:main|build|build_info|system_info|print_info|init|load_\w+|llama_\w+|ggml_\w+|common_\w+): )"
)
_NOT_DOCKERS = rb"^(?!\d{4}-\d\d-\d\d(?:T\S+(?:Z|[+-]\d\d:?\d\d)| \d\d:\d\d:\d\d(?! [+-]\d\d:?\d\d:? )) )"
"""Not ``docker logs -t`` nor Docker Desktop's view (docker_logs.py)."""

_SERVERS_SHARE = 10
"""One line of so many must be the server's."""


class Ts(LineFramed):
    """``STAMP text``, around a llama-server's lines."""

    name = "ts"
    time_from = "the stamps of what the output was piped through, where they have a day"
    pattern = re.compile(
        _NOT_DOCKERS
        + rb"\[?(?:(?:([A-Z][a-z]{2} [ \d]\d)|(\d{4}-\d\d-\d\d)[T ])? ?(\d\d:\d\d:\d\d)|(\d{10}))(?:\.(\d{1,9}))?"
        rb"(?: ?(Z|[+-]\d\d:?\d\d))?\]?:?(?: (.*))?(?:\n|\Z)",
        re.MULTILINE,
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        month, day, clock, epoch, fraction, east, text = match.groups()
        wall: int | None = None
        if epoch is not None:
            wall = int(epoch) * 1_000_000
        elif seconds_of_day(clock) is None:
            return False
        elif day is not None:
            wall = self.calendar.dated_us(day, clock) if east is None else rfc3339_us(day, clock, None, east)
            if wall is None:
                return False
        elif month is not None:
            if month_number(month[:3]) is None or not 0 < int(month[4:]) <= 31:
                return False
            wall = self.calendar.undated_us(month, clock)
        if wall is not None and fraction is not None:
            wall += fraction_us(fraction)
        at = match.start(7) if text is not None else match.end()
        out.append(Record(text=chomp(text or b""), offset=offset + at, wall_us=wall))
        return True

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed. Many programs write such stamps themselves; behind these the server's own lines stand."""
        matches = list(cls.pattern.finditer(head))
        servers = sum(_SERVERS.match(match[7] or b"") is not None for match in matches)
        return super().explains(head) if servers and servers * _SERVERS_SHARE >= len(matches) else 0
