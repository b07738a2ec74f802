"""The only place that reads the time."""

from __future__ import annotations

import time


def wall_us() -> int:
    """Wall time now, in microseconds since the Unix epoch, UTC."""
    return time.time_ns() // 1000
