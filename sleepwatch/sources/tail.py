"""Where the current life begins in a log that was not followed before: searched backwards from its end, in blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

import msgspec

from sleepwatch.engine.streams import CLOCK_NOISE_US, MINUTE_US, fell
from sleepwatch.prefix import Head, clock_at, split
from sleepwatch.rules import RuleSet
from sleepwatch.sources.disk import Disk

BOUND = 64 << 20
"""How far back from the end is looked, in bytes."""
BLOCK = 1 << 20
LINE = 4 << 10
"""A line's prefix and message lie within this; the rest of a longer one is not looked at."""
_REORDER_US = 1_000
_RETURN_US = 2 * CLOCK_NOISE_US
_PRINTED = 2_000
"""A text printed into the log holds at most so many copied lines; should it hold more, an older life is taken along."""
_FIRST_LINES = 1_000
"""Among so many lines of a block a stamped one is looked for."""
_TOGETHER = 64
"""Start markers of one unstamped start stand within this many lines."""


class StartMarkers(msgspec.Struct, frozen=True):
    """How a line is told that a server prints when it starts."""

    literals: tuple[bytes, ...]
    """One of these stands in every such line."""
    matches: Callable[[Head], bool]
    """Is it one, split at its prefix?"""

    @classmethod
    def of(cls, rules: RuleSet) -> StartMarkers:
        """As the rules say."""
        patterns = [pattern for pattern in rules.patterns if pattern.event == "process.start" and pattern.literals]
        return cls(
            tuple(literal for pattern in patterns for literal in pattern.literals),
            lambda head: any(pattern.match(head.body) is not None for pattern in patterns),
        )


NO_MARKERS = StartMarkers((), lambda head: False)
"""A life begins only where the clock falls."""


def search_start(
    disk: Disk, fd: int, size: int, markers: StartMarkers, *, bound: int = BOUND
) -> Generator[None, None, int]:
    """The offset at which the current life begins, in steps of one block. Raises OSError.

    In a stamped log that is the last line before which the log clock was higher as only a restart makes it, in an
    unstamped one the first of the last start markers that stand together. A router's children begin no life here, and
    neither does a log that was printed into this one. If no start is found within ``bound`` bytes, it is the beginning
    of the first whole line within them.
    """
    floor = max(0, size - bound)
    starts = _Starts(markers)
    first = size
    end, rest = size, b""
    while end > floor:
        begin = max(floor, end - BLOCK)
        block = disk.pread(fd, end - begin, begin)
        if len(block) < end - begin:
            return 0  # truncated meanwhile
        data = block + rest
        stop, at = len(data), len(block)
        if starts.may_skip(begin, block):
            at = stop = block.find(b"\n")
            first = begin + stop + 1
        while (newline := block.rfind(b"\n", 0, at)) >= 0:
            if newline + 1 < stop:
                first = begin + newline + 1
                found = starts.before(first, data[newline + 1 : min(stop, newline + 1 + LINE)])
                if found is not None:
                    return found
            stop = at = newline
        rest = data[: min(stop, LINE)]
        end = begin
        yield
    if floor == 0 and rest:
        first = 0
        found = starts.before(0, rest)
        if found is not None:
            return found
    return first if starts.marker is None else starts.marker


class _Starts:
    """Is shown a log's lines from the last to the first, and says when it has seen where the last life began."""

    def __init__(self, markers: StartMarkers) -> None:
        self._markers = markers
        self._jumps: deque[tuple[int, int]] = deque()
        """Where the clock jumped ahead: which stamped line, counted from the last, and to what."""
        self._stamped = 0
        self._next: tuple[int, int, bytes] | None = None
        """The nearest stamped line behind: where it begins, its clock, and itself."""
        self.marker: int | None = None
        """The first of the unstamped start markers seen so far."""
        self._since_marker = 0

    def may_skip(self, begin: int, block: bytes) -> bool:
        """Is it plain, without reading it line by line, that no life begins in this block or right behind it?

        A life that begins has a clock below one minute or, where there are no stamps, a marker. If so, the block's
        first stamped line stands for all of it.
        """
        if self.marker is not None or b"\x1b" in block or b"\n0." in block:
            return False
        if b" D " in block or any(literal in block for literal in self._markers.literals):
            return False
        if self._next is not None and self._next[1] < MINUTE_US:
            return False
        at = block.find(b"\n") + 1
        for _ in range(_FIRST_LINES):
            end = block.find(b"\n", at)
            if at == 0 or end < 0:
                return False
            clock_us = clock_at(block, at)
            if clock_us is not None and block[at : at + 1] != b"[":
                self._next = begin + at, clock_us, block[at:end]
                self._stamped += _PRINTED
                return True
            at = end + 1
        return self._next is None

    def before(self, at: int, line: bytes) -> int | None:
        """The line before those already seen. The place where the life began, once that is known."""
        clock_us = None if line.startswith(b"[") else clock_at(line, 0)
        if clock_us is None:  # coloured, of a router's child, or without a stamp
            head = split(line)
            if head.ports is not None:
                return None
            if head.clock_us is None:
                return self._unstamped(at, head)
            clock_us = head.clock_us
        if self._next is not None:
            at_next, next_us, next_line = self._next
            if next_us > clock_us + CLOCK_NOISE_US:
                self._jumps.append((self._stamped, next_us))
            elif next_us < clock_us and self._restarts(line, clock_us, next_us, next_line):
                return at_next
        self._stamped += 1
        self._next = at, clock_us, line
        return None

    def _unstamped(self, at: int, head: Head) -> int | None:
        if self._next is not None:
            return None  # a stamped log: what has no stamp is text
        if self._markers.matches(head):
            self.marker = at
            self._since_marker = 0
        elif self.marker is not None:
            self._since_marker += 1
            if self._since_marker >= _TOGETHER:
                return self.marker
        return None

    def _restarts(self, before: bytes, before_us: int, after_us: int, after: bytes) -> bool:
        """Between these lines, where the clock falls: a restart?

        Or does a debug record begin here that prints a log? Behind that the clock jumps back to where it was.
        """
        if not (fell(before_us, after_us) or self._markers.matches(split(after))):
            return False
        if split(before).level != "D":
            return True
        while self._jumps and self._jumps[0][0] < self._stamped - _PRINTED:
            self._jumps.popleft()
        return not any(before_us - _REORDER_US <= landed <= before_us + _RETURN_US for _, landed in self._jumps)
