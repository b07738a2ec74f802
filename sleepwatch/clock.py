"""The only place that reads the time, and the time zone, of this machine."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sleepwatch.engine.lives import Now


def wall_us() -> int:
    """Wall time now, in microseconds since the Unix epoch, UTC."""
    return time.time_ns() // 1000


class Clock(Protocol):
    """Both clocks of a machine, injected."""

    def now(self) -> Now:
        """Monotonic (stands still while the machine is suspended) and wall time, at one moment."""


class SystemClock:
    """The machine's own clocks."""

    @staticmethod
    def now() -> Now:
        """See Clock."""
        return Now(time.monotonic_ns() // 1000, wall_us())


def local_zone() -> tzinfo:
    """This machine's time zone: ``$TZ`` where it names one, else ``/etc/localtime``, else its offset at present."""
    try:
        name = os.environ.get("TZ", "").removeprefix(":")
        if name:
            return ZoneInfo(name)
        with open("/etc/localtime", "rb") as file:
            return ZoneInfo.from_file(file, key="localtime")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC
