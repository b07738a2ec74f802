"""The gate: where in a block of bytes do the rules' literals stand.

It only chooses candidate lines; every candidate is then parsed by the rules. hyperscan (or vectorscan, its port) finds
all literals in one pass at memory speed; where it cannot load, one alternation does the same work more slowly, and
finds the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Hits = list[tuple[int, int]]
"""(end of the hit in the block, index of the literal), in the order of their ends."""


class Gate:
    """Finds the literals of a rule set in blocks of bytes."""

    def __init__(self, literals: Sequence[bytes], *, vectorised: bool = True) -> None:
        self._literals = tuple(literals)
        self._scan: Callable[[bytes | memoryview, Hits], None] = self._alternation()
        self.vectorised = False
        if vectorised and (scan := _hyperscan(self._literals)) is not None:
            self._scan = scan
            self.vectorised = True

    def hits(self, block: bytes | memoryview) -> Hits:
        """Every literal in the block (at least one hit per line and literal), in order."""
        found: Hits = []
        self._scan(block, found)
        return found

    def _alternation(self) -> Callable[[bytes | memoryview, Hits], None]:
        expression = re.compile(b"|".join(re.escape(one) for one in sorted(self._literals, key=len, reverse=True)))

        def scan(block: bytes | memoryview, found: Hits) -> None:
            data = bytes(block)
            at = 0
            while (match := expression.search(data, at)) is not None:
                start = data.rfind(b"\n", 0, match.start()) + 1
                end = data.find(b"\n", match.end())
                line = data[start : end if end >= 0 else len(data)]
                places = [(start + place + len(one), index) for index, one in enumerate(self._literals)
                          if (place := line.find(one)) >= 0]  # fmt: skip
                found.extend(sorted(places))
                at = start + len(line)

        return scan


def _hyperscan(literals: Sequence[bytes]) -> Callable[[bytes | memoryview, Hits], None] | None:
    """A scanner over all literals at once, or None where the library cannot be loaded on this machine."""
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database()
    try:
        database.compile(
            expressions=[re.escape(one) for one in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=hyperscan.HS_FLAG_DOTALL,
        )
    except hyperscan.error:
        return None

    def scan(block: bytes | memoryview, found: Hits) -> None:
        append = found.append

        def hit(index: int, start: int, end: int, flags: int, context: Any) -> None:
            append((end, index))

        database.scan(block, match_event_handler=hit)  # type: ignore[type-var]

    return scan
