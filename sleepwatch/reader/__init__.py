"""From bytes to events: the gate, the window, the checks that a line is a record of its own. Pure."""

from sleepwatch.reader.gate import Gate
from sleepwatch.reader.reader import Reader
from sleepwatch.reader.trace import Look, Trace

__all__ = ["Gate", "Look", "Reader", "Trace"]
