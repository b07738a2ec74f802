"""From bytes to events: the gate, the window, the checks that a line is a record of its own. Pure."""

from sleepwatch.reader.gate import Gate
from sleepwatch.reader.reader import Reader

__all__ = ["Gate", "Reader"]
