"""``journalctl -o json`` (one object a line) and ``-o json-pretty``.

A value is a string; an array of bytes where it is no UTF-8 or holds control characters (colours do); an array of such
values where the entry has the field more than once; null where it is longer than 4,096 bytes and ``--all`` was not
given (systemd ``src/shared/logs-show.c``, update_json_data).
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any

import msgspec

from sleepwatch.envelopes.base import HEAD_LIMIT
from sleepwatch.envelopes.journal_fields import FIELDS, JournalEntries, realtime_us
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes

_ATTRIBUTES = {f"f{index}": field for index, field in enumerate(FIELDS)}
_RENAMED = {
    "message": "MESSAGE",
    "received": "__REALTIME_TIMESTAMP",
    "source": "_SOURCE_REALTIME_TIMESTAMP",
    **_ATTRIBUTES,
}
_Entry = msgspec.defstruct(
    "_Entry",
    [
        ("received", str),
        ("message", Any, msgspec.UNSET),
        ("source", str | None, None),
        *((attribute, str | None, None) for attribute in _ATTRIBUTES),
    ],
    rename=_RENAMED,
    gc=False,
)
_decode_entry = msgspec.json.Decoder(_Entry).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
_values_of = attrgetter(*_ATTRIBUTES)

# A quote inside a string is escaped, so this can only be the key. The value is a string, an array or null.
_MESSAGE = re.compile(rb'"MESSAGE"\s*:\s*(?:"|\[\s*)?')
_ESCAPE = re.compile(rb"\\(?:u[0-9A-Fa-f]{4}|.)")
_LINE_FEEDS = (rb"\n", rb"\u000a", rb"\u000A")
_NUMBER = re.compile(rb"\d+")
_PRETTY_LIMIT = 16 << 20


class JournalJson(JournalEntries):
    """``-o json``."""

    name = "journal-json"
    begins = b"{"

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """See Framed."""
        at = 0
        for line in block.split(b"\n"):
            start = at
            at += len(line) + 1
            if not line:
                if at <= len(block):
                    self.blank(offset + start)
                continue
            if self.object(line, offset + start, out):
                continue
            if self.between(block, start, min(at, len(block)), offset, out):
                return

    def object(self, raw: bytes, offset: int, out: list[Record]) -> bool:
        """Append the records of one JSON object, which begins at ``offset``. False: it is no journal entry."""
        try:
            entry: Any = _decode_entry(raw)
        except (msgspec.DecodeError, RecursionError):
            return self._unusual(raw, offset, out)
        value = entry.message
        if value.__class__ is str:
            at = raw.find(b'"MESSAGE":"') + 11
            if at == 10:
                at = _message_at(raw)
            message: bytes | None = value.encode("utf-8", "replace")
        else:
            message, at = _message(value), _message_at(raw)
        self.entry(
            _values_of(entry),
            message,
            offset + at,
            realtime_us(entry.source, entry.received),
            lambda: _line_starts(raw, at, message, offset),
            out,
        )
        return True

    def _unusual(self, raw: bytes, offset: int, out: list[Record]) -> bool:
        """The same for an entry with a repeated or binary field besides its message, or bytes that are no UTF-8."""
        try:
            entry = _decode_any(raw if raw.isascii() else raw.decode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError):
            return False
        received = _text(entry.get("__REALTIME_TIMESTAMP"))
        if received is None:
            return False
        at = _message_at(raw)
        message = _message(entry.get("MESSAGE", msgspec.UNSET))
        self.entry(
            tuple(_text(entry.get(field)) for field in FIELDS),
            message,
            offset + at,
            realtime_us(_text(entry.get("_SOURCE_REALTIME_TIMESTAMP")), received),
            lambda: _line_starts(raw, at, message, offset),
            out,
        )
        return True

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed."""
        probe = cls()
        scratch: list[Record] = []
        return sum(line.startswith(b"{") and probe.object(line, 0, scratch) for line in head.split(b"\n"))


class JournalJsonPretty(JournalJson):
    """``-o json-pretty``: an object over several lines, from ``{`` to ``}`` at a line's start."""

    name = "journal-json-pretty"
    begins = b"{}\t "

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._lines: list[bytes] = []
        self._lines_at = 0
        self._size = 0

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """See Framed."""
        at = 0
        while at < len(block):
            feed = block.find(b"\n", at)
            stop = len(block) if feed < 0 else feed + 1
            line = block[at:stop]
            start, at = at, stop
            if not self._lines:
                if line.rstrip() == b"{":
                    self._lines, self._lines_at, self._size = [line], offset + start, len(line)
                elif self.between(block, start, stop, offset, out):
                    return
                continue
            self._lines.append(line)
            self._size += len(line)
            if (line.rstrip() == b"}" or self._size > _PRETTY_LIMIT) and self._close(out):
                out += self.feed(block[at:], offset + at)
                return

    def _close(self, out: list[Record]) -> bool:
        """The object is complete. True: it was none, and another envelope took over."""
        raw = b"".join(self._lines)
        at = self._lines_at
        self._lines.clear()
        return not self.object(raw, at, out) and self.between(raw, 0, len(raw), at, out)

    def flush(self, out: list[Record]) -> None:
        """See Framed."""
        super().flush(out)
        if self._lines:
            self._close(out)
            self.release(out)

    def starts(self, data: bytes) -> list[int]:
        """See Framed."""
        return [match.start() for match in re.finditer(rb"^\{\r?$", data, re.MULTILINE)]

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed."""
        probe = cls()
        scratch: list[Record] = []
        return sum(
            found.count(b"\n") + 1
            for found in re.findall(rb"^\{\r?\n(?:[ \t].*\n)*\}", head[:HEAD_LIMIT], re.MULTILINE)
            if probe.object(found, 0, scratch)
        )


def _message(value: Any) -> bytes | None:
    """The message's bytes; None where journalctl wrote null. An entry without a message has an empty one."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if not isinstance(value, list):
        return b""
    if _is_bytes(value):
        return bytes(value)
    several = (
        item.encode("utf-8", "replace") if isinstance(item, str) else bytes(item) for item in value if _is_value(item)
    )
    return b"\n".join(several)


def _is_value(item: Any) -> bool:
    return isinstance(item, str) or (isinstance(item, list) and _is_bytes(item))


def _is_bytes(items: list[Any]) -> bool:
    return all(isinstance(item, int) and 0 <= item < 256 for item in items)


def _text(value: Any) -> str | None:
    """A field's value as text: the first where there are several."""
    if value is None or isinstance(value, str):
        return value
    message = _message(value)
    return message.partition(b"\n")[0].decode("utf-8", "replace") if message else None


def _message_at(raw: bytes) -> int:
    found = _MESSAGE.search(raw)
    return found.end() if found else 0


def _line_starts(raw: bytes, at: int, message: bytes | None, offset: int) -> list[int]:
    """Where each line of the message begins in the source."""
    starts = [offset + at]
    if raw[at - 1 : at] == b'"':
        wanted = (message or b"").count(b"\n")
        for escape in _ESCAPE.finditer(raw, at):
            if len(starts) > wanted:
                break
            if escape.group() in _LINE_FEEDS:
                starts.append(offset + escape.end())
    elif raw[at : at + 1].isdigit():
        follows = False
        for byte, number in zip(message or b"", _NUMBER.finditer(raw, at), strict=False):
            if follows:
                starts.append(offset + number.start())
            follows = byte == 10
    return starts
