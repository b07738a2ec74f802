"""Envelopes: what carriers put around a server's lines, one small module per carrier.

``detect`` decides from a source's first lines which one it has; ``by_name`` makes the one a person asked for.
``reversed_order`` recognises a newest-first source and ``turned`` reads it oldest first.
"""

from __future__ import annotations

from sleepwatch.envelopes.bare import Bare
from sleepwatch.envelopes.base import Envelope, saved
from sleepwatch.envelopes.detection import by_name, detect, names, restored
from sleepwatch.envelopes.order import TURN_LIMIT, direction, reversed_order, turned

__all__ = [
    "TURN_LIMIT",
    "Bare",
    "Envelope",
    "by_name",
    "detect",
    "direction",
    "names",
    "restored",
    "reversed_order",
    "saved",
    "turned",
]
