"""Envelopes: what carriers put around a server's lines, one small module per carrier.

``detect`` decides from a source's first lines which one it has; ``by_name`` makes the one a person asked for.
"""

from __future__ import annotations

from sleepwatch.envelopes.bare import Bare
from sleepwatch.envelopes.base import Envelope
from sleepwatch.envelopes.detection import by_name, detect, names

__all__ = ["Bare", "Envelope", "by_name", "detect", "names"]
