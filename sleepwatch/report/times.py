"""How times are written: RFC 3339 and seconds for machines, plain words for people."""

from __future__ import annotations

from sleepwatch.times import iso


def rfc3339(wall_us: int | None) -> str | None:
    """``2026-10-03T04:00:01.000000Z``; None for an unknown time and for one outside the years 1 to 9999."""
    try:
        return None if wall_us is None else iso(wall_us)
    except OverflowError:
        return None


def seconds(microseconds: int | None) -> float | None:
    """Microseconds as seconds, for the ``_s`` fields."""
    return None if microseconds is None else microseconds / 1_000_000


def wall_words(wall_us: int | None) -> str | None:
    """``2026-10-03 04:00:01.000 UTC``."""
    text = rfc3339(wall_us)
    return None if text is None else f"{text[:10]} {text[11:23]} UTC"


def clock_words(clock_us: int, *, micro: bool = False) -> str:
    """The server's own log clock, as its lines show it: ``0.04.377`` (minutes, seconds, ms), or with microseconds."""
    millis = clock_us // 1000
    words = f"{millis // 60_000}.{millis // 1000 % 60:02d}.{millis % 1000:03d}"
    return f"{words}.{clock_us % 1000:03d}" if micro else words


def duration_words(duration_us: int) -> str:
    """``350 ms``, ``3.040 s``, ``2 min 05 s``, ``3 h 12 min``, ``2 d 04 h``."""
    millis = duration_us // 1000
    if millis < 1000:
        return f"{millis} ms"
    if millis < 60_000:
        return f"{millis // 1000}.{millis % 1000:03d} s"
    minutes, hours, days = millis // 60_000, millis // 3_600_000, millis // 86_400_000
    if not hours:
        return f"{minutes} min {millis // 1000 % 60:02d} s"
    if not days:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{days} d {hours % 24:02d} h"
