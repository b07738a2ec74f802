"""Lines of a source by their numbers: counted only when a person is to be shown one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from sleepwatch.errors import SourceError
from sleepwatch.sources.archives import read_block

LONGEST_LINE = 64 << 10
"""So many bytes of a line are shown."""


class Line(msgspec.Struct, frozen=True):
    """One line of a source."""

    number: int
    """The first is 1."""
    offset: int
    text: bytes
    """Without its line feed; at most 64 KiB of it."""


def lines_between(stream: BinaryIO, first: int, last: int) -> list[Line]:
    """Lines ``first`` to ``last`` of a stream read from its beginning, as far as they are there."""
    found: list[Line] = []
    offset, number = 0, 1
    while number <= last and (text := stream.readline(LONGEST_LINE)):
        if number >= first:
            found.append(Line(number, offset, text.rstrip(b"\n")))
        offset += len(text)
        while not text.endswith(b"\n") and (text := stream.readline(LONGEST_LINE)):
            offset += len(text)
        number += 1
    return found


def count_lines(stream: BinaryIO, offsets: list[int], block_bytes: int = 1 << 20) -> Iterator[tuple[int, int]]:
    """(offset, line number) for the sorted ``offsets``; those behind the end of the stream are left out."""
    line, begin, block = 1, 0, b""
    for offset in offsets:
        while begin + len(block) <= offset:
            line += block.count(b"\n")
            begin += len(block)
            try:
                block = read_block(stream, block_bytes, "")
            except SourceError:  # damaged behind what was read
                return
            if not block:
                return
        within = offset - begin
        line += block.count(b"\n", 0, within)
        block = block[within:]
        begin = offset
        yield offset, line
