"""Syslog messages with their priority: RFC 3164 (``<30>Nov 30 05:46:44 host ident[pid]: text``) and RFC 5424."""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import DIGITS, LineFramed, chomp, name_of
from sleepwatch.envelopes.journal_text import JournalShort, unescaped
from sleepwatch.model import Record
from sleepwatch.times import rfc3339_us


class Syslog3164(JournalShort):
    """``<PRI>Nov 30 05:46:44 host ident[pid]: text``, as collectors write messages to a file with their priority."""

    name = "syslog-3164"
    begins = b"<"
    time_from = "syslog's stamps, without year and zone"
    escapes = True
    pattern = re.compile(JournalShort.pattern.pattern.replace(b"^ ?", rb"^<\d{1,3}>", 1), re.MULTILINE)


class Syslog5424(LineFramed):
    """``<PRI>1 STAMP host app procid msgid [data] text``; a length may stand before it (RFC 6587)."""

    name = "syslog-5424"
    begins = b"<" + DIGITS
    time_from = "syslog's stamps"
    pattern = re.compile(
        rb"^(?:\d{1,7} )?<\d{1,3}>1 (?:(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)|-)"
        rb" ([^ \n]+) ([^ \n]+) ([^ \n]+) [^ \n]+ (?:-|(?:\[(?:[^\]\"\n]|\"(?:[^\"\\\n]|\\.)*\")*\])+)"
        rb"(?: (?:\xef\xbb\xbf)?(.*))?(?:\n|\Z)",
        re.MULTILINE,
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, east, host, app, process, text = match.groups()
        wall = rfc3339_us(day, clock, fraction, east) if day is not None else None
        if wall is None and day is not None:
            return False
        record = Record(
            text=chomp(text or b""),
            offset=offset + (match.start(8) if text is not None else match.end(7)),
            wall_us=wall,
            host=None if host == b"-" else name_of(host),
            ident=None if app == b"-" else name_of(app),
            pid=int(process) if process.isdigit() and len(process) < 11 else None,
        )
        if b"#0" in record.text:
            out += unescaped(record, several=True)
        else:
            out.append(record)
        return True
