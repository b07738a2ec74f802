"""The prefix llama-server puts before its messages, and the splitting of a bare line at it.

Grammar (llama.cpp ``common/log.cpp``): ``[M.SS.mmm.uuu SP] [L SP] message`` where the stamp is the time since the
process's logger was made (minutes unpadded and unbounded) and L is one of I W E D. Stamp and level come together;
eras before b9151 print neither by default. A router prints its children's lines behind ``[port] `` (padded to five),
nested routers behind several. With ``--log-colors`` each part is wrapped in escapes, and the reset of a W, E or D line
stands at the start of the next line.
"""

from __future__ import annotations

import re

import msgspec

ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
"""One terminal escape (CSI sequence)."""

_PORT_TEXT = rb"\[(?: \d{4}|  \d{3}|   \d\d|    \d|\d{4,5})\]"  # "%5d", or a paste that lost the padding
_STAMP = rb"(\d{1,9})\.([0-5]\d)\.(\d{3})\.(\d{3}) "
_HEAD = re.compile(
    rb"((?:" + _PORT_TEXT + rb" ?)*)"  # `[port]` alone forwards an empty line
    rb"(?:" + _STAMP + rb"(?:([IWED]) )?((?:" + _PORT_TEXT + rb" )*)|([IWED]) )?"
)
_PORT = re.compile(rb"\d+")


class Head(msgspec.Struct):
    """A bare line, split at its prefix."""

    ports: str | None
    """Router child: its port, ``outer/inner`` where routers are nested."""
    clock_us: int | None
    level: str | None
    body: bytes
    """From the tag (or the untagged message) to the end of the line, without a trailing carriage return."""
    body_at: int
    """Where ``body`` begins in the line as it was written, escapes included."""
    stamp_at: int | None
    """Where the stamp begins in the line as written; None where there is none."""


def split(line: bytes) -> Head:
    """Split a bare line (no carrier, no line feed) at its prefix. Never raises; what has no prefix is all body."""
    if line.endswith(b"\r"):
        line = line[:-1]
    if b"\x1b" in line[:256]:
        return _split_coloured(line)
    match = _HEAD.match(line)
    assert match is not None  # every part of the expression is optional
    stamp_at = match.start(2)
    return _head(match, line, match.end(), stamp_at if stamp_at >= 0 else None)


_CLOCK = re.compile(rb"(?:" + _PORT_TEXT + rb" )*" + _STAMP)


def clock_at(buffer: bytes, start: int) -> int | None:
    """The clock of the line that begins here, in microseconds; None where it has no stamp, or colours before it."""
    match = _CLOCK.match(buffer, start)
    if match is None:
        return None
    minutes, seconds, millis, micros = match.groups()
    return ((int(minutes) * 60 + int(seconds)) * 1000 + int(millis)) * 1000 + int(micros)


def _head(match: re.Match[bytes], text: bytes, body_at: int, stamp_at: int | None) -> Head:
    port, minutes, seconds, millis, micros, stamped_level, inner_port, bare_level = match.groups()
    clock = None
    if minutes is not None:
        clock = ((int(minutes) * 60 + int(seconds)) * 1000 + int(millis)) * 1000 + int(micros)
    ports = port + inner_port if inner_port else port
    level = stamped_level or bare_level
    return Head(
        "/".join(p.decode() for p in _PORT.findall(ports)) if ports else None,
        clock,
        level.decode() if level else None,
        text[match.end() :],
        body_at,
        stamp_at,
    )


def _split_coloured(line: bytes) -> Head:
    """The same for a line with escapes: split what remains without them, then find the places in what was written."""
    plain = ANSI.sub(b"", line)
    match = _HEAD.match(plain)
    assert match is not None
    stamp = match.start(2) if match.group(2) is not None else None
    return _head(
        match, plain, _written_place(line, match.end()), None if stamp is None else _written_place(line, stamp)
    )


def _written_place(line: bytes, plain_place: int) -> int:
    """Where byte ``plain_place`` of the line without escapes stands in the line as written."""
    at = seen = 0
    while at < len(line):
        escape = ANSI.match(line, at)
        if escape:
            at = escape.end()
            continue
        if seen == plain_place:
            break
        seen += 1
        at += 1
    return at
