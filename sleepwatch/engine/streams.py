"""Streams and lives: when does a new process begin to write, and which lines are records at all.

Pure. One :class:`Stream` per writer in a source. It knows the stream's own prefix (stamped or not) and its clock, and
says of each recognised line whether a new life begins with it. The log clock restarts at zero with each process
(llama.cpp ``common/log.cpp``: wall time minus the logger's construction), so a fall means a restart; it is taken from
the system clock, so a small backward step is only noise (thread order, a stepped clock).
"""

from __future__ import annotations

import sys

from sleepwatch.model import Event, Origin

MINUTE_US = 60_000_000
CLOCK_NOISE_US = 1_000_000
"""Backward steps up to this are thread order or clock adjustment, never a restart without a start marker."""
HEAD_LINES = 8
"""Stamped lines whose hash is the life key."""

STARTUP = frozenset({"process.start", "process.verbosity", "load.begin", "load.ready", "load.done"})
_LOAD = "load.begin"
_SLEEP = frozenset({"sleep.enter", "sleep.entered", "sleep.exit", "sleep.exited"})
_COUNTED = frozenset({"request.arrived", "request.formatted", "request.posted"})


class Stream:
    """What is known of one writer: its prefix, its clock, and whether the life it is in has come past its start."""

    __slots__ = (
        "clock_us", "head_wanted", "is_router", "is_server", "markers", "origin", "stamped", "started", "steady",
        "woke",
    )  # fmt: skip

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.stamped: bool | None = None
        """Whether this writer's lines carry stamps; None until the first recognised line."""
        self.clock_us: int | None = None
        self.started = False
        """Any recognised line of the current life has been seen."""
        self.markers: set[str] = set()
        """Start patterns seen while the life is still starting; empty once it has come past its start."""
        self.woke = False
        """A sleep or wake was seen in this life: a load is then a reload."""
        self.head_wanted = HEAD_LINES
        self.steady = 0
        """Launches since the last wake (or start) in a log that prints no arrivals; below zero in one that does."""
        self.is_router = False
        self.is_server = False
        """Has printed lines only a process with a model prints (a router never does)."""

    def begins_life(self, event: Event) -> bool:
        """Does a new life begin with this line? Updates the stream's state either way."""
        clock, last = event.clock_us, self.clock_us
        new = not self.started or self._restarted(event, clock, last)
        if new:
            self.markers = set()
            self.woke = False
            self.steady = 0
            self.is_router = False
            self.is_server = False
            self.head_wanted = HEAD_LINES
            self.stamped = clock is not None
        self.started = True
        if clock is not None and (new or last is None or clock > last):
            self.clock_us = clock
        if event.type in STARTUP and (new or self.markers):
            self.markers.add(event.pattern)
        else:
            self.markers = set()
        if event.type in _SLEEP:
            self.woke = True
            self.steady = min(self.steady, 0)
        elif event.type == "request.launched":
            self.steady += 1
        elif event.type in _COUNTED:
            self.steady = -sys.maxsize
        return new

    def _restarted(self, event: Event, clock: int | None, last: int | None) -> bool:
        if event.type == "process.start":
            if clock is not None and last is not None and clock < last:
                return True
            return not self.markers or event.pattern in self.markers
        if clock is not None and last is not None:
            return fell(last, clock)
        if event.type == _LOAD and clock is None:
            # Without stamps and without a start marker, a load is a start only where no wake explains it.
            return not self.woke and not self.markers
        return False


def fell(last_us: int, clock_us: int) -> bool:
    """Has the log clock fallen as only a restart makes it fall?

    Below a minute after having been well above it; or, inside the first minute, to less than half.
    """
    back = last_us - clock_us
    if back <= CLOCK_NOISE_US or clock_us >= MINUTE_US:
        return False
    return back > 5 * CLOCK_NOISE_US if last_us >= MINUTE_US else clock_us < last_us // 2
