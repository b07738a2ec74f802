"""The search for the offsets at which a request is lost: coarse first, then fine. Pure: offsets in, offsets out.

Offsets are microseconds relative to the moment of the sleep; negative is before it.
"""

from __future__ import annotations

import bisect
import itertools

FINE_US = 1000
"""Edges are narrowed down to this; below it the jitter of a busy machine decides."""

_COARSE_SHARE = 3
"""One trial in so many is spent on the coarse look."""

_FEWEST_COARSE = 5


class Search:
    """Says where to send next, given what came of the sends so far.

    The coarse look spreads over the whole range. The fine one narrows the edges between different outcomes, widest gap
    first, then fills what lies between the first and the last bad one. Where the earliest offset is still bad, the
    range grows downwards, as far as ``lowest_us``.
    """

    def __init__(
        self, lo_us: int, hi_us: int, trials: int, *, lowest_us: int | None = None, even: bool = False
    ) -> None:
        """Search ``lo_us`` to ``hi_us`` with so many trials.

        ``lowest_us`` allows the range to grow down to there. ``even`` spreads all trials and searches nothing: their
        outcomes are then a measure of how often a request is lost.
        """
        self.lo_us = lo_us
        self.hi_us = hi_us
        self._lowest_us = lo_us if lowest_us is None else lowest_us
        self._left = trials
        coarse = trials if even else min(trials, max(_FEWEST_COARSE, trials // _COARSE_SHARE))
        self._waiting = _spread(lo_us, hi_us, coarse)
        self._seen: list[tuple[int, str, bool]] = []

    def next(self) -> int | None:
        """The offset to try next; None when the trials are used up."""
        if self._left <= 0:
            return None
        self._left -= 1
        if not self._waiting and self._must_grow():
            width = self.hi_us - self.lo_us
            below = max(self._lowest_us, self.lo_us - width)
            self._waiting = _spread(below, self.lo_us, _FEWEST_COARSE)[:-1]
            self.lo_us = below
        if self._waiting:
            return self._waiting.pop(0)
        return min(max(self._finer(), self.lo_us), self.hi_us)  # jitter can have carried a send out of the range

    def record(self, offset_us: int, outcome: str, *, bad: bool) -> None:
        """What came of a send that really went out at ``offset_us``."""
        bisect.insort(self._seen, (offset_us, outcome, bad))

    def _must_grow(self) -> bool:
        return bool(self._seen) and self._seen[0][2] and self.lo_us > self._lowest_us

    def _finer(self) -> int:
        steps = itertools.pairwise(self._seen)
        edges = [(b[0] - a[0], a[0]) for a, b in steps if a[1] != b[1] and b[0] - a[0] > FINE_US]
        if edges:
            gap, at = max(edges)
            return at + gap // 2
        marks = sorted({self.lo_us, self.hi_us, *(seen[0] for seen in self._seen)})
        bad = [offset for offset, _, is_bad in self._seen if is_bad]
        if bad:  # one good neighbour on each side stays in
            marks = marks[max(0, bisect.bisect_left(marks, bad[0]) - 1) : bisect.bisect_right(marks, bad[-1]) + 1]
        gap, at = max(((b - a, a) for a, b in itertools.pairwise(marks)), default=(0, marks[0]))
        return at + gap // 2


def _spread(lo_us: int, hi_us: int, count: int) -> list[int]:
    """``count`` evenly spaced offsets, ends included, in an order whose every beginning is spread out too."""
    if count == 1:
        return [hi_us]
    step = (hi_us - lo_us) / (count - 1)
    even = [round(lo_us + step * place) for place in range(count)]
    order: list[int] = []
    ranges = [(0, count - 1)]
    order.extend((0, count - 1))
    while ranges:
        lower, upper = ranges.pop(0)
        middle = (lower + upper) // 2
        if middle in (lower, upper):
            continue
        order.append(middle)
        ranges += [(lower, middle), (middle, upper)]
    return [even[place] for place in order]
