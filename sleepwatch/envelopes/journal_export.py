"""``journalctl -o export``, the Journal Export Format (systemd, JOURNAL_EXPORT_FORMATS).

``FIELD=value`` a line, entries parted by an empty line. A value that is no plain text of one line is written as the
field's name alone on a line, its length in eight bytes (little-endian), the bytes themselves and a line feed: so the
lengths must be followed, or a message could forge entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, cast

import msgspec

from sleepwatch.envelopes.journal_fields import FIELDS, JournalEntries, Writer, realtime_us
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes

_FIELDS = tuple(field.encode() for field in FIELDS)
_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_START = re.compile(rb"[A-Z0-9_]{1,64}[=\n]")
_STAMPS = re.compile(
    rb"__CURSOR=([^\n]*)\n__REALTIME_TIMESTAMP=(\d{1,17})\n__MONOTONIC_TIMESTAMP=\d*\n(?:__SEQNUM(?:_ID)?=[^\n]*\n)*"
)
"""What journalctl itself writes before an entry's fields: it differs from entry to entry."""
_NEXT = b"\n\n__CURSOR="
_LIMIT = 16 << 20
"""The largest binary value that is read; a core file kept in a field is larger, and its entry is passed over."""

_pairs = cast(Callable[[list[list[bytes]]], dict[bytes, bytes]], dict)


class _Fields(msgspec.Struct):
    """As much of an entry as could be read."""

    pairs: dict[bytes, bytes]
    message_at: int
    end: int
    """Where the next entry begins, or the first line that belongs to none."""
    state: str
    """``whole``; ``open`` (its end has not come); ``broken`` (by the line at ``end``); ``unreadable`` from there on."""


class _Repeat(NamedTuple):
    """What entries of one writer have in common, word for word; all of it is lines of text."""

    before: bytes
    """From behind the stamps to the message,"""
    behind: bytes
    """and from behind it to the entry's end."""
    writer: Writer
    fields: int


class JournalExport(JournalEntries):
    """``-o export``."""

    name = "journal-export"

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._tail = b""
        self._tail_at = 0
        self._passing = False  # looking for the next entry, after one that is unreadable
        self._explained = 0
        self._repeat: _Repeat | None = None
        """The last entry, where further ones can be told to be of the same writer without reading their fields."""

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """See Framed."""
        if self._tail:
            block, offset = self._tail + block, self._tail_at
        at: int | None = 0
        while at is not None and at < len(block):
            self._tail = b""
            at = self._next(block, at, offset, out)

    def _next(self, block: bytes, at: int, offset: int, out: list[Record]) -> int | None:
        """Read what stands at ``at``. Where to go on; None where the block's rest is waiting or was read by another."""
        if self._passing:
            found = block.find(_NEXT, at)
            if found < 0:
                self._wait(block, max(at, len(block) - len(_NEXT) + 1), offset)
                return None
            self._passing = False
            return found + 2
        if block[at] == 10:
            return at + 1
        if not _START.match(block, at):
            end = block.find(b"\n", at) + 1 or len(block)
            return None if self.between(block, at, end, offset, out) else end
        end = block.find(b"\n\n", at)
        if end >= 0:
            repeat, head = self._repeat, _STAMPS.match(block, at, end)
            message = block.find(b"\nMESSAGE=", head.end() - 1, end) + 1 if head is not None else 0
            stop = block.find(b"\n", message, end) if message else -1
            stop = end if stop < 0 else stop
            if (
                repeat is not None
                and head is not None
                and message
                and block[head.end() : message] == repeat.before
                and block[stop:end] == repeat.behind
                and not self._held
            ):
                self._explained += repeat.fields
                self._again(repeat.writer, head[1], int(head[2]), block[message + 8 : stop], offset + message + 8, out)
                return end + 2
            try:
                pairs = _pairs([line.split(b"=", 1) for line in block[at:end].split(b"\n")])
            except ValueError:  # a line without `=`: a binary value
                pairs = {}
            if pairs and not b"".join(pairs).translate(None, _NAME_BYTES):
                if b"__REALTIME_TIMESTAMP" not in pairs:
                    return None if self.between(block, at, end + 1, offset, out) else end + 2
                place = block.rfind(b"\nMESSAGE=", max(at - 1, 0), end)
                self._entry(pairs, offset + (place + 9 if place >= 0 else at), out)
                writer = self._writers.get(tuple(map(pairs.get, _FIELDS)))
                if writer is None or head is None or not message or b"_SOURCE_REALTIME_TIMESTAMP" in pairs:
                    self._repeat = None
                else:
                    self._repeat = _Repeat(block[head.end() : message], block[stop:end], writer, len(pairs))
                return end + 2
        return self._by_length(block, at, offset, out)

    def _by_length(self, block: bytes, at: int, offset: int, out: list[Record]) -> int | None:
        """The same for an entry with binary values, or one whose end is not in the block, or is no entry's."""
        fields = _read_fields(block, at)
        if fields.state == "open":
            self._wait(block, at, offset)
            return None
        if b"__REALTIME_TIMESTAMP" in fields.pairs and (fields.state == "whole" or b"MESSAGE" in fields.pairs):
            self._entry(fields.pairs, offset + fields.message_at, out)
        elif fields.state == "whole":
            return None if self.between(block, at, fields.end, offset, out) else fields.end
        else:
            out.append(Record(text=b"", offset=offset + at, cut=True))
        self._passing = fields.state == "unreadable"
        return fields.end

    def _wait(self, block: bytes, at: int, offset: int) -> None:
        self._tail, self._tail_at = block[at:], offset + at

    def _entry(self, pairs: dict[bytes, bytes], place: int, out: list[Record]) -> None:
        get = pairs.get
        self._explained += len(pairs)
        message = get(b"MESSAGE", b"")
        self.entry(
            tuple(map(get, _FIELDS)),
            message,
            place,
            realtime_us(get(b"_SOURCE_REALTIME_TIMESTAMP"), get(b"__REALTIME_TIMESTAMP")),
            lambda: _line_starts(message, place),
            out,
        )

    def _again(
        self, writer: Writer, cursor: bytes, received_us: int, message: bytes, place: int, out: list[Record]
    ) -> None:
        """Append the records of an entry that differs from the last one's only in its text and stamps."""
        self.put(writer, message, place, received_us, _one_line, out)

    def flush(self, out: list[Record]) -> None:
        """See Framed. The last entry may lack the empty line behind it, and more."""
        tail, at = self._tail, self._tail_at
        self._tail = b""
        if tail and not self._passing:
            torn = not tail.endswith(b"\n")
            fields = _read_fields(tail + b"\n\n" if torn else tail + b"\n", 0)
            if fields.state == "whole" and b"__REALTIME_TIMESTAMP" in fields.pairs:
                self._entry(fields.pairs, at + fields.message_at, out)
                if torn and tail.endswith(out[-1].text):
                    out[-1].partial = True
            else:
                out.append(Record(text=b"", offset=at, cut=True, partial=True))
        self._passing = False
        super().flush(out)

    def starts(self, data: bytes) -> list[int]:
        """See Framed."""
        starts = []
        at = 0
        while at < len(data):
            if data[at] == 10:
                at += 1
                continue
            starts.append(at)
            at = max(_read_fields(data, at).end, at + 1) if _START.match(data, at) else data.find(b"\n", at) + 1
            if not at:
                break
        return starts

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed."""
        if b"__REALTIME_TIMESTAMP=" not in head:
            return 0
        probe = cls()
        probe.read(head, 0, [])
        return probe._explained + probe._tail.count(b"\n") if probe._explained else 0


def first_entry(data: bytes) -> dict[bytes, bytes] | None:
    """The fields of the entry at the beginning of exported entries; None where its end is not there."""
    fields = _read_fields(data, 0)
    return fields.pairs if fields.state == "whole" and fields.pairs else None


def _read_fields(block: bytes, at: int) -> _Fields:
    """The fields of the entry at ``at``, line by line, following the lengths of binary values."""
    fields = _Fields(pairs={}, message_at=at, end=at, state="open")
    while True:
        fields.end = at
        feed = block.find(b"\n", at)
        if feed == at:
            fields.end, fields.state = feed + 1, "whole"
        if feed < 0 or feed == at:
            return fields
        name, equals, value = block[at:feed].partition(b"=")
        if not name or len(name) > 64 or name.translate(None, _NAME_BYTES):
            fields.state = "broken"
            return fields
        start = at + len(name) + 1
        at = feed + 1
        if not equals:
            start = feed + 9
            size = int.from_bytes(block[feed + 1 : start], "little")
            at = start + size + 1
            if len(block) >= start and (size > _LIMIT or (len(block) >= at and block[at - 1] != 10)):
                fields.state = "unreadable"
                return fields
            if len(block) < at:
                return fields
            value = block[start : start + size]
        fields.pairs[name] = value
        if name == b"MESSAGE":
            fields.message_at = start


def _line_starts(message: bytes, place: int) -> list[int]:
    starts = [place]
    for line in message.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _one_line() -> tuple[int, ...]:
    """Where further lines of a message of one line begin."""
    return ()
