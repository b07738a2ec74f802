"""systemd's ways to write lengths of time and sizes (systemd.time(7), systemd-system.conf(5))."""

from __future__ import annotations

import re

INFINITY = -1
"""What ``infinity`` becomes."""

_SECOND = 1_000_000
_UNITS_US = {
    "us": 1, "usec": 1, "µs": 1, "μs": 1, "ms": 1_000, "msec": 1_000,
    "": _SECOND, "s": _SECOND, "sec": _SECOND, "second": _SECOND, "seconds": _SECOND,
    "m": 60 * _SECOND, "min": 60 * _SECOND, "minute": 60 * _SECOND, "minutes": 60 * _SECOND,
    "h": 3600 * _SECOND, "hr": 3600 * _SECOND, "hour": 3600 * _SECOND, "hours": 3600 * _SECOND,
    "d": 86_400 * _SECOND, "day": 86_400 * _SECOND, "days": 86_400 * _SECOND,
    "w": 604_800 * _SECOND, "week": 604_800 * _SECOND, "weeks": 604_800 * _SECOND,
    "M": 2_629_800 * _SECOND, "month": 2_629_800 * _SECOND, "months": 2_629_800 * _SECOND,
    "y": 31_557_600 * _SECOND, "year": 31_557_600 * _SECOND, "years": 31_557_600 * _SECOND,
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([^\d\s.]*)")
_SIZES = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}


def parse_span_us(text: str) -> int | None:
    """``1min 30s``, ``100ms``, ``5`` (seconds) in microseconds; INFINITY; None where it is no length of time."""
    text = text.strip()
    if text == "infinity":
        return INFINITY
    total, at = 0.0, 0
    while at < len(text):
        found = _PART.match(text, at)
        if not found or found.group(2) not in _UNITS_US:
            return None
        total += float(found.group(1)) * _UNITS_US[found.group(2)]
        at = found.end()
    return round(total) if text else None


def parse_size(text: str) -> int | None:
    """``32G`` in bytes; INFINITY; None where it is no size."""
    text = text.strip()
    if text == "infinity":
        return INFINITY
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([BKMGTPE]?)B?", text)
    return int(float(found.group(1)) * _SIZES[found.group(2)]) if found else None


def span_words(us: int) -> str:
    """A length of time as systemd prints it: ``1min 30s``, ``100ms``, ``infinity``."""
    if us == INFINITY:
        return "infinity"
    parts = []
    for name, size in (
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
    ):
        if us >= size:
            parts.append(f"{us // size}{name}")
            us %= size
    return " ".join(parts) or "0"
