"""RFC 3339 stamps as they come out of a carrier's JSON, fast."""

from __future__ import annotations

from sleepwatch.times import rfc3339_us

_LIMIT = 4096
_seconds: dict[str, int] = {}  # "2026-11-30T05:46:44" -> microseconds UTC


def rfc3339_text_us(stamp: str) -> int | None:
    """``2026-11-30T05:46:44.659026123Z`` as microseconds UTC (what is finer is cut off); None if it is no moment."""
    second = stamp[:19]
    us = _seconds.get(second)
    if us is None:
        if not second.isascii():
            return None
        start = rfc3339_us(second[:10].encode(), second[11:].encode(), None, b"Z")
        if start is None or len(second) != 19 or second[10] not in "Tt ":
            return None
        if len(_seconds) >= _LIMIT:
            _seconds.clear()
        us = _seconds[second] = start
    rest = stamp[19:]
    if rest == "Z":
        return us
    if rest[:1] == ".":
        if rest[-1] == "Z" and rest[1:-1].isdecimal():
            return us + int((rest[1:-1] + "00000")[:6])
        for sign in "+-":
            fraction, found, offset = rest[1:].partition(sign)
            if found and fraction.isdecimal():
                return rfc3339_us(
                    second[:10].encode(), second[11:].encode(), fraction.encode(), (sign + offset).encode()
                )
        return None
    return rfc3339_us(second[:10].encode(), second[11:].encode(), None, rest.encode())
