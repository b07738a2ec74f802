"""Which pattern a line comes nearest to, and where in the line it stops fitting."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from sleepwatch.rules import Pattern

_TELLING = 6
"""So many bytes of a pattern's own text, and a line is likely to be the same message in other words."""


class Fit(NamedTuple):
    """How far a line fits a pattern."""

    pattern: Pattern
    end: int
    """So many bytes of the line's body fit."""
    wanted: str
    """What the pattern has where the line stops fitting; empty where it fits to its end."""
    common: int = 0
    """How many bytes of the text it stops in the line still has."""

    @property
    def inside_its_text(self) -> bool:
        """Does the line stop fitting inside the text the pattern's lines are found by?"""
        return self.common >= _TELLING and any(literal in self.wanted.encode() for literal in self.pattern.literals)


def nearest(patterns: Iterable[Pattern], body: bytes) -> Fit | None:
    """Of these patterns the one that fits the longest stretch of the body; None where none reads lines."""
    fits = [how_far(pattern, body) for pattern in patterns if pattern.regex is not None]
    return max(fits, key=lambda fit: (not fit.wanted, fit.end), default=None)


def how_far(pattern: Pattern, body: bytes) -> Fit:
    """How far the body fits this pattern."""
    if pattern.match(body) is not None:
        return Fit(pattern, len(body), "")
    expression, end = b"", 0
    for words, step in pattern.steps:
        expression += step
        match = re.match(expression, body, re.DOTALL)
        if match is None:
            common = _common(words.encode(), body[end:])
            return Fit(pattern, end + common, words, common)
        end = match.end()
    return Fit(pattern, end, f"what the expression of {pattern.name} has")  # a raw regex has no parts


def _common(text: bytes, body: bytes) -> int:
    """How many bytes the body shares with the text, from the beginning of both."""
    pairs = zip(text, body, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(text), len(body)))
