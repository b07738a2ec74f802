"""What a follower delivers, and the causes of the gaps in it."""

from __future__ import annotations

from typing import Literal

import msgspec

TRUNCATED = "truncated"
REWRITTEN = "truncated and written again"
"""It is as long as it was, or longer, but other bytes stand where we were."""
TRUNCATED_AWAY = "truncated while not watched"
ROTATED_AWAY = "rotated away while not watched"
PASSED_OVER = "replaced before it was read"
LATE = "added to a rotated file after it was left"
HOLE = "never written: the writer went on at its old place after a truncation"


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll found."""

    kind: Literal["bytes", "rotated", "gap", "idle"]
    """``bytes``: the next bytes. ``rotated``: the file is finished, what follows comes from the first byte of another.
    ``gap``: bytes are lost. ``idle``: nothing is new, and all that is there was read."""
    file: str
    """The token of the file it is about; of ``rotated``, of the file that follows. A file keeps its token for as long
    as it is known to be the same, whatever its name, and over a restart. A gap can be in a file that was left, or in
    one whose turn has not come."""
    offset: int = 0
    """Of the first byte; of a gap, where it begins; of ``idle``, the end."""
    data: bytes = b""
    cause: str = ""
    length: int | None = None
    """How many bytes are lost in a gap; None where nobody can know."""


def gap(file: str, offset: int, cause: str, length: int | None = None) -> Piece:
    """Bytes of this file, from ``offset`` on, are lost."""
    return Piece(kind="gap", file=file, offset=offset, cause=cause, length=length)
