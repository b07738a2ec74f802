"""How times are written: RFC 3339 for machines, plain words for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def rfc3339(wall_us: int | None) -> str | None:
    """``2026-10-03T04:00:01.000000Z``; None for an unknown time and for one outside the years 1 to 9999."""
    if wall_us is None or not _FIRST_US <= wall_us <= _LAST_US:
        return None
    return (_EPOCH + timedelta(microseconds=wall_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def seconds(microseconds: int | None) -> float | None:
    """Microseconds as seconds, for the ``_s`` fields."""
    return None if microseconds is None else microseconds / 1_000_000


def wall_words(wall_us: int | None) -> str | None:
    """``2026-10-03 04:00:01.000 UTC``."""
    text = rfc3339(wall_us)
    return None if text is None else f"{text[:10]} {text[11:23]} UTC"


def clock_words(clock_us: int) -> str:
    """The server's own log clock to the millisecond, as its lines show it: ``0.04.377`` (minutes, seconds, ms)."""
    millis = clock_us // 1000
    return f"{millis // 60_000}.{millis // 1000 % 60:02d}.{millis % 1000:03d}"


def duration_words(duration_us: int) -> str:
    """``350 ms``, ``3.040 s``, ``2 min 05 s``, ``3 h 12 min``, ``2 d 04 h``."""
    if duration_us < 1_000_000:
        return f"{duration_us / 1000:.0f} ms"
    if duration_us < 60_000_000:
        return f"{duration_us / 1_000_000:.3f} s"
    whole = duration_us // 1_000_000
    for unit, size, smaller, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02d} {smaller}"
    raise AssertionError("below a minute is handled above")
