"""``journalctl -o verbose``: a head line with the entry's cursor, then its fields, indented by four blanks.

The weekday is in the language of whoever ran it and the zone an abbreviation, so the time is taken from the fields and
the cursor (systemd ``src/shared/logs-show.c``, output_verbose). A value's further lines stand below its first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sleepwatch.envelopes.base import TEXT_LIMIT, Envelope
from sleepwatch.envelopes.journal_fields import FIELDS, JournalEntries, realtime_us
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes, fraction_us

_FIELDS = tuple(field.encode() for field in FIELDS)
_HEAD = re.compile(
    rb"[^\s\[\]]{1,24} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? ([A-Z]{1,6}|[+-]\d{2,4})"
    rb" \[(s=[^\]]*)\]\r?"
)
_HEAD_LINE = re.compile(rb"^" + _HEAD.pattern + rb"$", re.MULTILINE)
_REALTIME = re.compile(rb"(?:^|;)t=([0-9a-f]{1,14})(?:;|$)")
_BLOB = re.compile(rb"\[[\d.]+[BKMG] blob data\]")
_MESSAGE_AT = len(b"    MESSAGE=")


class _Open(msgspec.Struct):
    """The entry being read."""

    head: re.Match[bytes]
    at: int
    pairs: dict[bytes, bytes]
    lines: list[bytes]
    """The message's."""
    starts: list[int]
    size: int = 0
    name: bytes = b""
    """The field read last."""


class JournalVerbose(JournalEntries):
    """``-o verbose``."""

    name = "journal-verbose"

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._entry: _Open | None = None  # only what follows shows that it is complete

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """See Framed."""
        at = 0
        entry = self._entry
        for line in block.split(b"\n"):
            start = at
            at += len(line) + 1
            if entry is not None and line[:4] == b"    ":
                if line[4:5] != b" ":
                    name, _, value = line[4:].partition(b"=")
                    entry.name = name
                    entry.pairs[name] = value
                    if name == b"MESSAGE":
                        entry.lines = [line[_MESSAGE_AT:]]
                        entry.starts = [offset + start + _MESSAGE_AT]
                elif entry.name == b"MESSAGE" and entry.size < TEXT_LIMIT:
                    entry.size += len(line)
                    entry.lines.append(line[_MESSAGE_AT:])
                    entry.starts.append(offset + start + _MESSAGE_AT)
                continue
            if not line:
                if at <= len(block):
                    self.blank(offset + start)
                continue
            if entry is not None:
                self._close(entry, out)
            head = _HEAD.fullmatch(line)
            entry = self._entry = _Open(head, offset + start, {}, [], []) if head else None
            if head is None and self.between(block, start, min(at, len(block)), offset, out):
                return

    def _close(self, entry: _Open, out: list[Record]) -> None:
        self._entry = None
        message = b"\n".join(entry.lines)
        self.entry(
            tuple(map(entry.pairs.get, _FIELDS)),
            message,
            entry.starts[0] if entry.starts else entry.at,
            self._wall_us(entry.head, entry.pairs),
            lambda: entry.starts,
            out,
        )
        if out and (entry.size >= TEXT_LIMIT or (message[:1] == b"[" and _BLOB.fullmatch(message))):
            out[-1].cut = True

    def _wall_us(self, head: re.Match[bytes], pairs: dict[bytes, bytes]) -> int | None:
        us = realtime_us(pairs.get(b"_SOURCE_REALTIME_TIMESTAMP"), None)
        if us is not None:
            return us
        cursor = _REALTIME.search(head[5])
        if cursor:
            return int(cursor[1], 16)
        us = self.calendar.zoned_us(head[1], head[2], head[4])
        return us + fraction_us(head[3]) if us is not None and head[3] else us

    def settle(self, out: list[Record]) -> None:
        """See Framed. Nothing ends an entry but the next one, so silence must do."""
        self.flush(out)

    def state(self) -> dict[str, Any]:
        """See Framed."""
        state = super().state()
        entry = state["kept"].pop("_entry")
        fields = None if entry is None else {**msgspec.structs.asdict(entry), "head": entry.head.group()}
        return {**state, "entry": fields}

    def resume(self, state: Mapping[str, Any], restore: Callable[[Mapping[str, Any]], Envelope]) -> None:
        """See Framed."""
        super().resume(state, restore)
        fields = state["entry"]
        head = _HEAD.fullmatch(fields["head"]) if fields is not None else None
        self._entry = None if head is None else _Open(**{**fields, "head": head})

    def flush(self, out: list[Record]) -> None:
        """See Framed."""
        if self._entry is not None:
            self._close(self._entry, out)
        super().flush(out)

    def starts(self, data: bytes) -> list[int]:
        """See Framed."""
        return [match.start() for match in _HEAD_LINE.finditer(data)]

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed."""
        lines = head.split(b"\n")
        heads = sum(b" [s=" in line and _HEAD.fullmatch(line) is not None for line in lines)
        return heads + sum(line.startswith(b"    ") for line in lines) if heads else 0
