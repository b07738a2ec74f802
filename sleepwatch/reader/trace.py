"""What the reader made of a line, told to whoever asks why (``explain``); nobody asks while a log is only scanned."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sleepwatch.model import Event, Record
from sleepwatch.prefix import Head
from sleepwatch.rules import Pattern


class Look(msgspec.Struct, kw_only=True, frozen=True):
    """One line the reader looked at, and what came of it."""

    offset: int
    """Where ``line`` begins in the source."""
    line: bytes
    """Without its carrier; at most as much of it as the reader reads."""
    head: Head
    record: Record | None
    """What its carrier says of it; None in a bare log."""
    candidates: tuple[Pattern, ...] = ()
    """The patterns whose text is in it."""
    event: Event | None = None
    """What a pattern recognised in it, also where that was refused."""
    refused: str | None = None
    """Why it was not taken for a record of its stream's own."""
    clock_before_us: int | None = None
    """The stream's clock before this line."""


Trace = Callable[[Look], None]
"""Called with each look, before its event is handed on."""
