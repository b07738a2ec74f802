"""journald as text, and the syslog files that look the same.

``STAMP [HOST] IDENT[PID]: text`` with the stamp of ``journalctl -o short``, ``short-precise``, ``short-iso``,
``short-iso-precise``, ``short-full``, ``with-unit``, ``short-unix`` or ``short-monotonic`` (systemd
``src/shared/logs-show.c``, output_short); months and weekdays in the language of whoever ran it. rsyslog's traditional
and high-precision files have the first and third shape, with control characters escaped as ``#ooo``.
"""

from __future__ import annotations

import re
from typing import ClassVar

from sleepwatch.envelopes.base import DIGITS, LineFramed, Pieces, name_of
from sleepwatch.envelopes.journal_fields import UNIT_SUFFIXES
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes, fraction_us, month_number, rfc3339_us, seconds_of_day

INVALID = -1
"""No moment."""

Groups = tuple[bytes | None, ...]
_Writer = tuple[str | None, str | None, str | None, int | None]
"""Host, unit, identifier, pid."""

# Who wrote it: an optional host, the identifier, the pid. A host never ends in a colon, so `kernel: foo: bar` has none.
_WHO = rb"((?:[^\s\[\]]*[^\s\[\]:] )?[^\s:\[]+(?::[^\s:\[]+)*(?:\[\d{1,10}\])?)"
_WHO_PARTS = re.compile(rb"(?:(\S+) )?(.+?)(?:\[(\d+)\])?")
_TEXT = rb":(?: (.*))?(?:\n|\Z)"

# journalctl's own lines and its pager's (less): no entries of the journal.
_OWN = re.compile(
    rb"-- (?:Boot (?P<boot>[0-9a-f]{32})|(?P<reboot>Reboot)|No entries|(?:Logs|Journal) (?:begin|end)s? at .*) --"
    rb"|lines \d+-\d+(?:/\d+)?(?: \(END\))?|\(END\)|~|\.\.\.skipping\.\.\."
    rb"|Hint: You are currently not seeing messages.*| {6}Users in groups .*| {6}Pass -q to turn off this notice\."
)
_BLOB = re.compile(rb"\[[\d.]+[BKMG] blob data\]")
_JOURNALD_LINE_MAX = 48 << 10  # journald.conf LineMax=: a longer line of standard output goes on in the next entry
_LEAST_INDENT = len("Nov 30 05:46:44 a: ")
_SERVERS = re.compile(rb"(?:\[ *\d{1,5}\] ?)*(?:\d{1,9}\.[0-5]\d\.\d{3}\.\d{3} |(?:srv|slot|que|res|cmn|spec) )")


class JournalText(LineFramed):
    """The part that all these shapes share. ``pattern`` captures the stamp's parts, then who wrote, then the text."""

    escapes: ClassVar[bool] = False
    """Whether ``#012`` surely stands for a line feed (rsyslog), in every program's lines."""

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self.boot: str | None = None
        self.cut_width: int | None = None
        """Width in characters of a terminal that cut the longer lines (a paste); None where none did."""
        self._writers: dict[bytes, _Writer] = {}
        self._last: Record | None = None
        self._last_prefix = 0
        self._pieces = Pieces()

    def moment_us(self, stamp: Groups) -> int | None:
        """The wall time of a stamp; None where it carries none, INVALID where it is none."""
        raise NotImplementedError

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        groups = match.groups()
        wall_us = self.moment_us(groups)
        if wall_us == INVALID:
            return False
        who, text = groups[-2:]
        assert who is not None
        host, unit, ident, pid = self._writers.get(who) or self._writer(who)
        start, end = match.span()
        if text is None:
            text = b""
            at = match.end(len(groups) - 1) + 1
        else:
            at = match.start(len(groups))
            if text[-1:] == b"\r":
                text = text[:-1]
        self._last = record = Record(
            text=text,
            offset=offset + at,
            wall_us=wall_us,
            host=host,
            unit=unit,
            ident=ident,
            pid=pid,
            boot=self.boot,
        )
        self._last_prefix = at - start
        if self.cut_width is not None and _shows_cut(match.string[start:end], self.cut_width):
            record.cut = True
        if text[:1] == b"[" and _BLOB.fullmatch(text):
            record.cut = True
        if len(text) == _JOURNALD_LINE_MAX or self._pieces.open:
            self._pieces.add((ident, pid), record, out, more=len(text) == _JOURNALD_LINE_MAX)
        elif b"#0" in text:
            out += unescaped(record, several=self.escapes or ident == "systemd-coredump")
        else:
            out.append(record)
        return True

    def writer(self, host: str | None, ident: str, pid: int | None) -> _Writer:
        """What the names at the line's head say about its writer."""
        return host, None, ident, pid

    def _writer(self, who: bytes) -> _Writer:
        parts = _WHO_PARTS.fullmatch(who)
        assert parts is not None  # `pattern` matched it
        writer = self.writer(
            name_of(parts[1]) if parts[1] else None,
            name_of(parts[2]),
            int(parts[3]) if parts[3] else None,
        )
        if len(self._writers) >= 4096:
            self._writers.clear()
        self._writers[who] = writer
        return writer

    def flush(self, out: list[Record]) -> None:
        """See Framed."""
        self._pieces.flush(out)

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed. A message's further lines count too, or a core dump's stack would hide its journal."""
        entries = super().explains(head)
        return entries + head.count(b"\n" + b" " * _LEAST_INDENT) if entries else 0

    def foreign(self, line: bytes, at: int) -> bool:
        """See Framed: the lines journalctl and its pager add."""
        own = _OWN.fullmatch(line)
        if own and (own["boot"] or own["reboot"]):
            self.boot = own["boot"].decode() if own["boot"] else None
        return own is not None

    def continuation(self, line: bytes, at: int, out: list[Record]) -> bool:
        """See Framed: journalctl indents a message's further lines to stand below its first."""
        if self._last is None or not line.startswith(b" " * self._last_prefix):
            return False
        text = line[self._last_prefix :]
        if text:
            out.append(_like(self._last, text, at + self._last_prefix))
        return True


def unescaped(record: Record, *, several: bool) -> list[Record]:
    """Undo rsyslog's escapes: ``#033[`` is a colour and, where ``several`` lines are sure, ``#012`` a line feed.

    It is not where a server's line would follow: each of those is a record of its own in every carrier, so what looks
    like one inside another is a prompt's.
    """
    pieces = record.text.split(b"#012") if several else [record.text]
    if len(pieces) == 1 or any(_SERVERS.match(piece) for piece in pieces[1:]):
        record.text = record.text.replace(b"#033[", b"\x1b[")
        return [record]
    lines = []
    at = record.offset
    for piece in pieces:
        if piece:
            lines.append(_like(record, piece.replace(b"#033[", b"\x1b[").replace(b"#011", b"\t"), at))
        at += len(piece) + len(b"#012")
    return lines


def _like(record: Record, text: bytes, offset: int) -> Record:
    """A further line of the same message."""
    return Record(
        text=text,
        offset=offset,
        wall_us=record.wall_us,
        host=record.host,
        unit=record.unit,
        ident=record.ident,
        pid=record.pid,
        boot=record.boot,
    )


def _shows_cut(line: bytes, width: int) -> bool:
    """Whether a terminal of that width cut the line: `less -S` ends it in ``>``, journalctl puts ``…`` into it."""
    text = line.rstrip(b"\r\n")
    if len(text) < width:
        return False
    characters = text.decode("utf-8", "replace")
    return len(characters) == width and (characters[-1] in ">…" or "…" in characters)


_PAGER_SHARE = 5


def cut_width(head: bytes) -> int | None:
    """The terminal width at which a pasted journal was cut, where the head shows one: else None.

    Conservative: at least three lines, and a fifth of all, end in ``>`` or hold ``…`` at one same width, and no line
    is longer.
    """
    if b">" not in head and "…".encode() not in head:
        return None
    lines = [line.decode("utf-8", "replace").rstrip("\r") for line in head.split(b"\n") if line.strip()]
    widest = max((len(line) for line in lines), default=0)
    cut = sum(len(line) == widest and (line[-1] in ">…" or "…" in line) for line in lines)
    return widest if cut >= 3 and cut * _PAGER_SHARE >= len(lines) else None


class JournalShort(JournalText):
    """``Nov 30 05:46:44[.659026] host ident[pid]: text``."""

    name = "journal-short"
    time_from = "journald's stamps, without year and zone"
    pattern = re.compile(
        rb"^ ?([^\s\[\]<>{}:=|\"'()]{2,16} {1,2}\d{1,2}) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? " + _WHO + _TEXT, re.MULTILINE
    )

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._token: bytes | None = None
        self._token_valid = False

    def moment_us(self, stamp: Groups) -> int | None:
        """See JournalText."""
        token, clock, fraction = stamp[:3]
        assert token is not None
        assert clock is not None
        if token != self._token:
            name, _, day = token.rpartition(b" ")
            self._token = token
            self._token_valid = month_number(name) is not None and 0 < int(day) <= 31
        if not self._token_valid or seconds_of_day(clock) is None:
            return INVALID
        us = self.calendar.undated_us(token, clock)
        return us + fraction_us(fraction) if fraction is not None and us is not None else us


class JournalShortIso(JournalText):
    """``2026-11-30T05:46:44[.659026]+0000 host ident[pid]: text``."""

    name = "journal-short-iso"
    begins = DIGITS
    time_from = "journald's stamps"
    # `Z` is rsyslog's; behind it a pid is asked for, since `docker logs -t` also writes Z and then any text.
    pattern = re.compile(
        rb"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?"
        rb"([+-]\d\d(?::?\d\d)?|Z(?= (?:\S+ )?[^\s:\[]+\[\d+\]: )) " + _WHO + _TEXT,
        re.MULTILINE,
    )

    def moment_us(self, stamp: Groups) -> int | None:
        """See JournalText."""
        day, clock, fraction, east = stamp[:4]
        assert day is not None
        assert clock is not None
        assert east is not None
        us = rfc3339_us(day, clock, fraction, east)
        return INVALID if us is None else us


class JournalShortFull(JournalText):
    """``Mon 2026-11-30 05:46:44 UTC host ident[pid]: text``; ``-o with-unit`` has the unit as the identifier."""

    name = "journal-short-full"
    time_from = "journald's stamps"
    pattern = re.compile(
        rb"^[^\s\[\]<>{}:=|\"'()]{1,16} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) ([A-Z]{1,6}|[+-]\d\d(?::?\d\d)?) "
        + _WHO
        + _TEXT,
        re.MULTILINE,
    )

    def moment_us(self, stamp: Groups) -> int | None:
        """See JournalText."""
        day, clock, zone = stamp[:3]
        assert day is not None
        assert clock is not None
        assert zone is not None
        us = self.calendar.zoned_us(day, clock, zone)
        return INVALID if us is None else us

    def writer(self, host: str | None, ident: str, pid: int | None) -> _Writer:
        """See JournalText. ``with-unit`` shows ``user@1000.service/llama.service`` for a unit of a user's manager."""
        unit = ident.rpartition("/")[2]
        if not unit.endswith(UNIT_SUFFIXES):
            return host, None, ident, pid
        return host, unit, "systemd" if unit == "init.scope" else None, pid


class JournalShortUnix(JournalText):
    """``1796017604.659026 host ident[pid]: text``."""

    name = "journal-short-unix"
    begins = DIGITS
    time_from = "journald's stamps"
    pattern = re.compile(rb"^(\d{9,11}\.\d{6}) " + _WHO + _TEXT, re.MULTILINE)

    def moment_us(self, stamp: Groups) -> int | None:
        """See JournalText."""
        assert stamp[0] is not None
        return int(stamp[0].replace(b".", b""))


class JournalShortMonotonic(JournalText):
    """``[ 3933.875116] host ident[pid]: text``: seconds since the host started, no wall time."""

    name = "journal-short-monotonic"
    begins = b"["
    # A host, and a pid or the kernel: else it is `dmesg`, where `llama-server[41]: segfault at` is the kernel's text.
    pattern = re.compile(
        rb"^\[ *\d{1,9}\.\d{6}\] (?=[^\s\[\]]*[^\s\[\]:] (?:kernel|[^\s:\[]+\[\d+\]):)" + _WHO + _TEXT, re.MULTILINE
    )

    def moment_us(self, stamp: Groups) -> int | None:
        """See JournalText."""
        return None


class SyslogFile(JournalShort):
    """rsyslog's traditional file: journald's short form, control characters escaped."""

    name = "syslog"
    time_from = "syslog's stamps, without year and zone"
    escapes = True


class SyslogFileIso(JournalShortIso):
    """rsyslog's high-precision file: journald's short-iso-precise form, control characters escaped."""

    name = "syslog-iso"
    time_from = "syslog's stamps"
    escapes = True
