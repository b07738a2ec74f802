"""A step: one line that was looked at while a log was read, and all that came of it."""

from __future__ import annotations

import msgspec

from sleepwatch.engine import Transition
from sleepwatch.engine.describe import Change
from sleepwatch.engine.lives import LifeState
from sleepwatch.model import Event
from sleepwatch.reader import Look


class Cycle:
    """From one sleep of a life to its next; most hold nothing worth telling."""

    __slots__ = ("over", "telling")

    def __init__(self) -> None:
        self.over = False
        self.telling = False
        """A request met the sleep, or the life began or ended in it, or a verdict followed."""


class Step(msgspec.Struct, kw_only=True, eq=False):
    """One line that was looked at, and all that came of it."""

    source: str
    look: Look | None
    """None for what no line says: that the log has ended, or that a file of it is missing."""
    event: Event | None = None
    """Also where it was refused."""
    line: int | None = None
    """Line number, counted only where it is shown."""
    life: LifeState | None = None
    """The life it speaks of."""
    changes: list[tuple[LifeState, Change]] = []
    remark: str | None = None
    """Why it means less than it seems to."""
    transitions: list[Transition] = []
    dismissed: list[tuple[str, str]] = []
    """Requests that may lie in the sleeping queue and are no incident as things stand: (which, why)."""
    cycle: Cycle | None = None

    @property
    def offset(self) -> int:
        """Where it stands in its source."""
        if self.event is not None:
            return self.event.offset
        return self.look.offset if self.look is not None else 0

    @property
    def refused(self) -> str | None:
        """Why it was recognised and not taken for a record."""
        return self.look.refused if self.look is not None else None

    @property
    def decides(self) -> bool:
        """Did something change that a verdict can turn on, or was that refused?"""
        return bool(self.transitions or self.refused) or any(change.decides for _, change in self.changes)

    @property
    def telling(self) -> bool:
        """Is it more than a part of a sleep that nothing met?"""
        return bool(self.refused) or self.cycle is None or self.cycle.telling


class Dismissed(msgspec.Struct, frozen=True):
    """A request that met a sleep and is no incident."""

    sleep: Event | None
    """Where the sleep began; None where the log begins inside it."""
    life: LifeState
    request: str
    reason: str
