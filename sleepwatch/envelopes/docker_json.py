"""docker's json-file driver: ``{"log":"text\\n","stream":"stderr","time":"2026-11-30T05:46:44.659026123Z"}`` a line.

The daemon cuts a line of more than 16 KiB into entries; only the last of them has the line feed (moby
``daemon/logger/copier.go``). Each standard stream is cut on its own.
"""

from __future__ import annotations

import re

import msgspec

from sleepwatch.envelopes.base import Framed, Pieces
from sleepwatch.envelopes.stamps import rfc3339_text_us
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes


class _Entry(msgspec.Struct, gc=False):
    log: str
    time: str
    stream: str = ""
    attrs: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_Entry).decode
_LOG = re.compile(rb'"log"\s*:\s*"')
_HEAD = b'{"log":"'


class DockerJson(Framed):
    """One JSON object a line."""

    name = "docker-json"
    begins = b"{"
    time_from = "docker's stamps"

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._pieces = Pieces()

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
            entry = _entry(line)
            wall = rfc3339_text_us(entry.time) if entry is not None else None
            if entry is None or wall is None:
                if self.between(block, start, min(at, len(block)), offset, out):
                    return
                continue
            if self._held:
                self.release(out)
            text = entry.log.encode("utf-8", "replace")
            ended = text.endswith(b"\n")
            if ended:
                text = text[:-2] if text.endswith(b"\r\n") else text[:-1]
            place = offset + start + (len(_HEAD) if line.startswith(_HEAD) else _text_at(line))
            record = Record(
                text=text,
                offset=place,
                wall_us=wall,
                container=_container(entry.attrs) if entry.attrs else None,
            )
            if ended and not self._pieces.open:
                out.append(record)
            else:
                self._pieces.add(entry.stream, record, out, more=not ended)

    def flush(self, out: list[Record]) -> None:
        """See Framed."""
        self._pieces.flush(out)

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed."""
        return sum(_entry(line) is not None for line in head.split(b"\n") if line.startswith(b"{"))


def _entry(line: bytes) -> _Entry | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, RecursionError):
        if line.isascii():
            return None
    try:
        return _decode(line.decode("utf-8", "replace"))  # the daemon writes UTF-8, but files get damaged
    except (msgspec.DecodeError, RecursionError):
        return None


def _text_at(line: bytes) -> int:
    """Where the text begins in an entry that something other than the daemon wrote out again."""
    found = _LOG.search(line)
    return found.end() if found else 0


def _container(attrs: dict[str, str]) -> str | None:
    """The name a log option put into the entry: ``--log-opt tag=…`` or ``labels=com.docker.compose.service``."""
    return attrs.get("com.docker.compose.service") or attrs.get("tag")
