"""Why a line became no event."""

from __future__ import annotations

import msgspec

from sleepwatch.reader import Look
from sleepwatch.reader.nearest import Fit, nearest
from sleepwatch.rules import RuleSet


class WhyNot(msgspec.Struct, frozen=True):
    """Why a line became no event."""

    reason: str
    fit: Fit | None = None
    """The pattern that came nearest."""


def why_not(look: Look, rules: RuleSet) -> WhyNot | None:
    """Why this line became no event; None where it became one."""
    if look.refused is not None:
        return WhyNot(f"recognised, and not taken for a record of its stream: {look.refused}")
    if look.event is not None:
        return None
    fit = nearest(look.candidates, look.head.body)
    if fit is not None and fit.wanted:
        return WhyNot("it has the text of a pattern and does not fit it", fit)
    if fit is not None:
        writer = look.record.ident if look.record is not None else None
        return WhyNot(f"it fits a pattern for lines of {' or '.join(fit.pattern.idents)}, and {writer} wrote it", fit)
    if any(literal in look.line for literal in rules.literals):
        return WhyNot("the text of a pattern stands far inside it: text that was printed, no message of its own")
    fit = nearest(rules.patterns, look.head.body)
    return WhyNot("no pattern's text is in it", fit if fit is not None and fit.inside_its_text else None)
