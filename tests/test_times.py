"""Wall times: the person's forms, missing years and zones, changes of clocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.errors import SleepwatchError
from sleepwatch.times import (
    Calendar,
    LocalTimes,
    iso,
    month_number,
    offset_us,
    parse_when,
    parse_zone,
    rfc3339_us,
    seconds_of_day,
)

BERLIN = parse_zone("Europe/Berlin")
NOW = 1_796_017_604_659_026  # Monday 2026-11-30 05:46:44.659026 UTC, 06:46:44 in Berlin


def us(text: str) -> int:
    return parse_when(text, now_us=NOW, zone=parse_zone("UTC"))


def test_iso() -> None:
    assert iso(NOW) == "2026-11-30T05:46:44.659026Z"
    assert iso(0) == "1970-01-01T00:00:00.000000Z"
    assert iso(-1) == "1969-12-31T23:59:59.999999Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-30T05:46:44.659026Z"),
        ("today", "2026-11-29T23:00:00.000000Z"),
        ("Yesterday", "2026-11-28T23:00:00.000000Z"),
        ("tomorrow", "2026-11-30T23:00:00.000000Z"),
        ("-2h", "2026-11-30T03:46:44.659026Z"),
        ("2 hours ago", "2026-11-30T03:46:44.659026Z"),
        ("-1h 30min", "2026-11-30T04:16:44.659026Z"),
        ("1h30m ago", "2026-11-30T04:16:44.659026Z"),
        ("-1.5h", "2026-11-30T04:16:44.659026Z"),
        ("+5min", "2026-11-30T05:51:44.659026Z"),
        ("3 days left", "2026-12-03T05:46:44.659026Z"),
        ("-90", "2026-11-30T05:45:14.659026Z"),
        ("-1w", "2026-11-23T05:46:44.659026Z"),
        ("-1M", "2026-10-30T19:16:44.659026Z"),
        ("-500ms", "2026-11-30T05:46:44.159026Z"),
        ("2026-10-03 04:00", "2026-10-03T02:00:00.000000Z"),
        ("2026-10-03", "2026-10-02T22:00:00.000000Z"),
        ("2026-10-03 04:00:05.25", "2026-10-03T02:00:05.250000Z"),
        ("Sat 2026-10-03 04:00 UTC", "2026-10-03T04:00:00.000000Z"),
        ("2026-10-03 04:00 America/New_York", "2026-10-03T08:00:00.000000Z"),
        ("04:00", "2026-11-30T03:00:00.000000Z"),
        ("04:00:30", "2026-11-30T03:00:30.000000Z"),
        ("@1696300000", "2023-10-03T02:26:40.000000Z"),
        ("@1696300000.5", "2023-10-03T02:26:40.500000Z"),
        ("2026-10-03T04:00:00Z", "2026-10-03T04:00:00.000000Z"),
        ("2026-10-03T04:00:00.123456789+02:00", "2026-10-03T02:00:00.123456Z"),
        ("2026-10-03T04:00:00-0530", "2026-10-03T09:30:00.000000Z"),
        (" 2026-10-03T04:00 ", "2026-10-03T02:00:00.000000Z"),
        ("2026-10-25 02:30", "2026-10-25T00:30:00.000000Z"),  # doubled: the first
        ("2026-03-29 02:30", "2026-03-29T01:30:00.000000Z"),  # skipped: the offset before
    ],
)
def test_since_and_until(text: str, expected: str) -> None:
    assert iso(parse_when(text, now_us=NOW, zone=BERLIN)) == expected


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-13-01", "2026-02-30", "25:00", "04", "-", "-2 fortnights", "ago", "2h", "@", "@x", "+1e99",
     "2026-10-03 04:00 Mars/Olympus", "-999999999999999999y", "2026-10-03 04:00:61", "@99999999999999"],
)  # fmt: skip
def test_other_times_are_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(
        SleepwatchError, match=r"is not a time .*'2026-10-03 04:00'.*2 hours ago.*@1696300000.*RFC 3339"
    ):
        parse_when(text, now_us=NOW, zone=BERLIN)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        moment = parse_when(text, now_us=NOW, zone=BERLIN)
    except SleepwatchError:
        return
    assert iso(moment)


@pytest.mark.parametrize(
    ("text", "hours"), [("UTC", 0), ("Z", 0), ("+02:00", 2), ("-0530", -5.5), ("UTC+2", 2), ("+9", 9)]
)
def test_zones(text: str, hours: float) -> None:
    offset = parse_zone(text).utcoffset(None)
    assert offset is not None
    assert offset.total_seconds() == hours * 3600


@pytest.mark.parametrize("text", ["", "Nowhere/City", "+25:00", "../etc/passwd", "/etc/localtime", "Europe", "\0"])
def test_other_zones_are_refused(text: str) -> None:
    with pytest.raises(SleepwatchError, match=r"not a time zone .*Europe/Berlin.*\+02:00"):
        parse_zone(text)


# --- stamps -------------------------------------------------------------------------------------------------------


def test_rfc3339() -> None:
    assert rfc3339_us(b"2026-11-30", b"05:46:44", b"659026123", b"Z") == NOW
    assert rfc3339_us(b"2026-11-30", b"06:46:44", b"659026", b"+01:00") == NOW
    assert rfc3339_us(b"2026-11-30", b"05:46:44", b"6", b"+0000") == NOW - 59026
    assert rfc3339_us(b"2026-02-30", b"05:46:44", None, b"Z") is None
    assert rfc3339_us(b"2026-11-30", b"25:46:44", None, b"Z") is None
    assert rfc3339_us(b"2026-11-30", b"05:46:44", None, b"+99:99") is None
    assert seconds_of_day(b"23:59:60") == 86_399
    assert offset_us(b"-0330") == -12_600_000_000


def test_months_mean_one_thing_in_all_languages() -> None:
    assert [month_number(name.encode()) for name in ("Nov", "nov.", "févr.", "Dez", "7月", "12월", "ΔΕΚ", "лис")] == [
        11, 11, 2, 12, 7, 12, 12, 11,
    ]  # fmt: skip
    assert month_number(b"foo") is None
    assert month_number(b"\xff\xfe") is None


# --- years --------------------------------------------------------------------------------------------------------


def walls(stamps: list[tuple[str, str]], local: LocalTimes) -> list[str | None]:
    calendar = Calendar(local)
    found = [calendar.undated_us(day.encode(), clock.encode()) for day, clock in stamps]
    return [None if wall is None else iso(wall)[:19] for wall in found]


def test_without_a_year_or_reference_there_is_no_wall_time() -> None:
    assert walls([("Nov 30", "05:46:44")], LocalTimes()) == [None]


def test_no_stamp_lies_in_the_future() -> None:
    local = LocalTimes(reference_us=us("2027-01-02 12:00"))
    assert walls([("Jan  2", "11:00:00")], local) == ["2027-01-02T11:00:00"]
    assert walls([("Jan  3", "11:00:00")], local) == ["2027-01-03T11:00:00"]  # clocks and zones may differ by a day
    assert walls([("Jan  4", "11:00:00")], local) == ["2026-01-04T11:00:00"]
    assert walls([("Dec 31", "23:59:59")], local) == ["2026-12-31T23:59:59"]


def test_new_year_inside_a_file() -> None:
    stamps = [("Dec 31", "23:59:59"), ("Jan  1", "00:00:00"), ("Jan  1", "00:00:01"), ("Feb  3", "00:00:00")]
    expected = ["2026-12-31T23:59:59", "2027-01-01T00:00:00", "2027-01-01T00:00:01", "2027-02-03T00:00:00"]
    assert walls(stamps, LocalTimes(reference_us=us("2027-02-04"))) == expected
    assert walls(stamps, LocalTimes(year=2026)) == expected


def test_lines_out_of_order_around_new_year() -> None:
    stamps = [("Dec 31", "23:59:59"), ("Jan  1", "00:00:00"), ("Dec 31", "23:59:59"), ("Jan  1", "00:00:02")]
    assert walls(stamps, LocalTimes(year=2026)) == [
        "2026-12-31T23:59:59", "2027-01-01T00:00:00", "2026-12-31T23:59:59", "2027-01-01T00:00:02",
    ]  # fmt: skip


def test_months_of_silence_and_a_step_over_a_months_end_keep_the_year() -> None:
    stamps = [("Jan  5", "00:00:00"), ("Nov  1", "00:00:00"), ("Oct 31", "23:59:59"), ("Nov  1", "00:00:01")]
    assert [wall[:4] for wall in walls(stamps, LocalTimes(year=2026)) if wall] == ["2026"] * 4


def test_several_years_in_one_file() -> None:
    stamps = [(day, "00:00:00") for day in ("Mar  1", "Dec  1", "Feb  1", "Dec  1", "Jan  1")]
    assert [wall[:7] for wall in walls(stamps, LocalTimes(year=2024)) if wall] == [
        "2024-03", "2024-12", "2025-02", "2025-12", "2026-01",
    ]  # fmt: skip


def test_leap_day() -> None:
    assert walls([("Feb 29", "01:00:00")], LocalTimes(reference_us=us("2028-03-01"))) == ["2028-02-29T01:00:00"]
    assert walls([("Feb 29", "01:00:00")], LocalTimes(reference_us=us("2027-03-01"))) == ["2024-02-29T01:00:00"]
    assert walls([("Feb 29", "01:00:00"), ("Mar  1", "00:00:00")], LocalTimes(year=2024))[1] == "2024-03-01T00:00:00"
    assert walls([("Feb 29", "01:00:00")], LocalTimes(year=2026)) == [None]
    assert walls([("Dec 31", "00:00:00"), ("Feb 29", "01:00:00")], LocalTimes(year=2027))[1] == "2028-02-29T01:00:00"


def test_no_days_and_times() -> None:
    local = LocalTimes(year=2026)
    assert walls([("Nov 31", "05:46:44"), ("Foo 30", "05:46:44"), ("Nov 30", "24:46:44")], local) == [None] * 3


# --- changes of clocks --------------------------------------------------------------------------------------------


def dated(stamps: list[str], local: LocalTimes) -> list[str]:
    calendar = Calendar(local)
    found = [calendar.dated_us(stamp[:10].encode(), stamp[11:].encode()) for stamp in stamps]
    return [iso(wall)[11:19] for wall in found if wall is not None]


def test_a_doubled_hour_is_told_apart_by_order() -> None:
    stamps = [
        f"2026-10-25 {clock}"
        for clock in ("01:59:00", "02:10:00", "02:50:00", "02:49:30", "02:05:00", "02:55:00", "03:01:00")
    ]
    assert dated(stamps, LocalTimes(zone=BERLIN)) == [
        "23:59:00", "00:10:00", "00:50:00", "00:49:30", "01:05:00", "01:55:00", "02:01:00",
    ]  # fmt: skip


def test_a_skipped_hour_is_read_with_the_offset_before() -> None:
    stamps = ["2026-03-29 01:59:59", "2026-03-29 02:30:00", "2026-03-29 03:00:00"]
    assert dated(stamps, LocalTimes(zone=BERLIN)) == ["00:59:59", "01:30:00", "01:00:00"]


def test_an_ordinary_day_in_a_zone() -> None:
    assert dated(["2026-07-01 12:00:00", "2026-12-01 12:00:00"], LocalTimes(zone=BERLIN)) == ["10:00:00", "11:00:00"]


def test_zone_abbreviations() -> None:
    calendar = Calendar(LocalTimes(zone=parse_zone("Asia/Shanghai")))
    for zone, hour in ((b"UTC", "12"), (b"CEST", "10"), (b"EDT", "16"), (b"+0530", "06"), (b"CST", "04")):
        wall = calendar.zoned_us(b"2026-07-01", b"12:00:00", zone)
        assert wall is not None
        assert iso(wall)[11:13] == hour
