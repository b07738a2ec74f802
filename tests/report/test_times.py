from __future__ import annotations

import pytest

from sleepwatch.report.times import clock_words, duration_words, rfc3339, seconds, wall_words


def test_wall_times() -> None:
    assert rfc3339(1_759_464_001_123_456) == "2025-10-03T04:00:01.123456Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000000Z"
    assert rfc3339(None) is rfc3339(10**18) is rfc3339(-(10**18)) is None
    assert wall_words(1_759_464_001_123_999) == "2025-10-03 04:00:01.123 UTC"
    assert wall_words(None) is None


def test_the_servers_clock_is_written_as_in_its_lines() -> None:
    assert clock_words(4_377_001) == "0.04.377"
    assert clock_words(431 * 60_000_000 + 37_755_194) == "431.37.755"


@pytest.mark.parametrize(
    ("duration_us", "words"),
    [
        (0, "0 ms"),
        (999_999, "999 ms"),
        (1_000_000, "1.000 s"),
        (59_999_999, "59.999 s"),
        (60_000_000, "1 min 00 s"),
        (125_000_000, "2 min 05 s"),
        (3_600_000_000, "1 h 00 min"),
        (11_520_000_000, "3 h 12 min"),
        (86_400_000_000, "1 d 00 h"),
        (187_200_000_000, "2 d 04 h"),
    ],
)
def test_durations(duration_us: int, words: str) -> None:
    assert duration_words(duration_us) == words


def test_seconds() -> None:
    assert seconds(3_324_771) == 3.324771
    assert seconds(None) is None
