from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from sleepwatch import clock


def test_wall_time_is_microseconds_since_the_epoch() -> None:
    before = time.time()
    now = clock.wall_us()
    assert before - 1 <= now / 1_000_000 <= time.time() + 1


@pytest.mark.parametrize(
    ("tz", "winter"),
    [("Europe/Berlin", 1), (":America/New_York", -5), ("UTC", 0)],
)
def test_the_local_zone_is_the_named_one(monkeypatch: pytest.MonkeyPatch, tz: str, winter: int) -> None:
    monkeypatch.setenv("TZ", tz)
    assert datetime(2026, 1, 15, tzinfo=clock.local_zone()).utcoffset() == timedelta(hours=winter)


@pytest.mark.parametrize("tz", ["Nowhere/Atall", "CET-1CEST,M3.5.0,M10.5.0/3", "../../etc/passwd"])
def test_a_zone_without_a_name_gives_the_present_offset(monkeypatch: pytest.MonkeyPatch, tz: str) -> None:
    monkeypatch.setenv("TZ", tz)
    assert datetime.now(clock.local_zone()).utcoffset() == datetime.now(UTC).astimezone().utcoffset()
