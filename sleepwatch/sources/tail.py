"""Where the current life begins in a log that was not followed before: searched backwards from its end, in blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path

from sleepwatch.engine.streams import CLOCK_NOISE_US, fell
from sleepwatch.prefix import Head, split
from sleepwatch.sources.disk import Disk

BOUND = 64 << 20
"""How far back from the end is looked, in bytes."""
BLOCK = 1 << 20
LINE = 4 << 10
"""A line's prefix and message lie within this; the rest of a longer one is not looked at."""
_REORDER_US = 1_000
_RETURN_US = 2 * CLOCK_NOISE_US
_LOOK_AHEAD = 64
_TOGETHER = 64
"""Start markers of one unstamped start stand within this many lines."""

IsStart = Callable[[Head], bool]
"""Does a start marker stand in this line, split at its prefix?"""
Bare = Callable[[bytes], bytes]
"""Takes off what the carrier put around a line."""


def tail_start(
    path: Path, is_start: IsStart, *, bare: Bare = bytes, bound: int = BOUND, disk: Disk | None = None
) -> int:
    """The offset at which the current life begins in this file; see :func:`search_start`. Raises OSError."""
    disk = disk or Disk()
    fd = disk.open(path)
    try:
        steps = search_start(disk, fd, disk.fstat(fd).size, is_start, bare=bare, bound=bound)
        while True:
            next(steps)
    except StopIteration as done:
        return int(done.value)
    finally:
        disk.close(fd)


def search_start(
    disk: Disk, fd: int, size: int, is_start: IsStart, *, bare: Bare = bytes, bound: int = BOUND
) -> Generator[None, None, int]:
    """The offset at which the current life begins, in steps of one block. Raises OSError.

    In a stamped log that is the last line before which the log clock was higher as only a restart makes it, in an
    unstamped one the first of the last start markers that stand together. A router's children begin no life here, and
    neither does text copied into the log. If no start is found within ``bound`` bytes, it is the beginning of the first
    whole line within them.
    """
    floor = max(0, size - bound)
    starts = _Starts(is_start, bare)
    first = size
    end, rest = size, b""
    while end > floor:
        begin = max(floor, end - BLOCK)
        block = disk.pread(fd, end - begin, begin)
        if len(block) < end - begin:
            return 0  # truncated meanwhile
        data = block + rest
        stop, at = len(data), len(block)
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

    def __init__(self, is_start: IsStart, bare: Bare) -> None:
        self._is_start = is_start
        self._bare = bare
        self._after: deque[int] = deque(maxlen=_LOOK_AHEAD)
        """The clocks of the stamped lines behind, nearest first."""
        self._next: tuple[int, bytes] | None = None
        """The nearest stamped line behind: where it begins, and itself."""
        self.marker: int | None = None
        """The first of the unstamped start markers seen so far."""
        self._since_marker = 0

    def before(self, at: int, line: bytes) -> int | None:
        """The line before those already seen. The place where the life began, once that is known."""
        line = self._bare(line)
        head = split(line)
        if head.ports is not None:
            return None
        if head.clock_us is None:
            return self._unstamped(at, head)
        if self._next is not None and self._restarts(head.clock_us):
            return self._next[0]
        self._after.appendleft(head.clock_us)
        self._next = at, line
        return None

    def _unstamped(self, at: int, head: Head) -> int | None:
        if self._next is not None:
            return None  # a stamped log: what has no stamp is text
        if self._is_start(head):
            self.marker = at
            self._since_marker = 0
        elif self.marker is not None:
            self._since_marker += 1
            if self._since_marker >= _TOGETHER:
                return self.marker
        return None

    def _restarts(self, before_us: int) -> bool:
        """Between a line with this clock and the ones behind: a restart, and no copied text?"""
        assert self._next is not None
        at = self._after[0]
        if at >= before_us or not (fell(before_us, at) or self._is_start(split(self._next[1]))):
            return False
        for now in self._after:
            if now > at + CLOCK_NOISE_US:
                return not before_us - _REORDER_US <= now <= before_us + _RETURN_US
            at = now
        return True
