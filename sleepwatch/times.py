"""Wall times: reading carriers' stamps, the person's ``--since``, ``--until``, ``--tz`` and ``--year``, and printing.

Everything here is pure: the present moment, the time zone and the reference for missing years come from the caller.
Wall times are microseconds since the Unix epoch, UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from sleepwatch.errors import SleepwatchError

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
_EPOCH = datetime(1970, 1, 1)
_FORMS = (
    "write it as journalctl does: '2026-10-03 04:00', '04:00', 'today', 'yesterday', 'now', '-2h', '2 hours ago', "
    "'+5min', '@1696300000' or RFC 3339 ('2026-10-03T04:00:00Z')"
)


def iso(us: int) -> str:
    """RFC 3339 in UTC with six decimals, so that texts sort as times do."""
    return (_EPOCH + timedelta(microseconds=us)).isoformat(timespec="microseconds") + "Z"


# --- zones ------------------------------------------------------------------------------------------------------------

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)


def parse_zone(text: str) -> tzinfo:
    """A time zone from its name (``Europe/Berlin``, ``UTC``) or its offset (``+02:00``, ``-0530``, ``UTC+2``).

    Raises SleepwatchError for anything else.
    """
    text = text.strip()
    if text.upper() in ("Z", "UTC"):
        return UTC
    match = _OFFSET.fullmatch(text)
    if match:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if offset < timedelta(hours=24):
            return timezone(-offset if match[1] == "-" else offset)
    else:
        try:
            return ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a directory of the zone database
            pass
    raise SleepwatchError(
        f"'{text}' is not a time zone", hint="give a name such as Europe/Berlin or an offset such as +02:00"
    )


# --- --since and --until ----------------------------------------------------------------------------------------------

# systemd.time(7), "Parsing Time Spans": a month is 30.44 days, a year 365.25 days.
_UNITS = {
    name: us
    for names, us in (
        ("usec us µs μs", 1),
        ("msec ms", 1_000),
        ("seconds second sec s", SECOND_US),
        ("minutes minute min m", 60 * SECOND_US),
        ("hours hour hr h", 3_600 * SECOND_US),
        ("days day d", DAY_US),
        ("weeks week w", 7 * DAY_US),
        ("months month M", 2_629_800 * SECOND_US),
        ("years year y", 31_557_600 * SECOND_US),
    )
    for name in names.split()
}
_SPAN = re.compile(r"(?:\s*\d+(?:\.\d+)?\s*[A-Za-zµμ]*)+\s*")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµμ]*)")
_MOMENT = re.compile(
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?"
    r"(?:(?P<date>\d{4}-\d{2}-\d{2})(?:[T\s]\s*(?P<time1>\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?))?"
    r"|(?P<time2>\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?))"
    r"\s*(?P<zone>Z|[+-]\d{2}(?::?\d{2})?|[A-Za-z][A-Za-z_]*(?:/[A-Za-z0-9_+-]+)*)?",
    re.IGNORECASE,
)


def parse_when(text: str, *, now_us: int, zone: tzinfo) -> int:
    """The moment that ``--since`` or ``--until`` means, in microseconds UTC: the forms of systemd.time(7).

    ``zone`` is where dates and times without a zone of their own are read. A local time that a change of clocks
    skipped or doubled means its first reading. Raises SleepwatchError with the accepted forms.
    """
    word = text.strip()
    lower = word.lower()
    if lower == "now":
        return now_us
    if lower in ("today", "yesterday", "tomorrow"):
        return _midnight(now_us, zone, {"today": 0, "yesterday": -1, "tomorrow": 1}[lower])
    if re.fullmatch(r"@-?\d{1,12}(?:\.\d{1,6})?", word):
        whole, _, fraction = word[1:].partition(".")
        part = int((fraction + "000000")[:6])
        return int(whole) * SECOND_US + (-part if whole.startswith("-") else part)
    us = _relative(word, lower, now_us)
    if us is None:
        us = _absolute(word, now_us, zone)
    if us is None:
        raise SleepwatchError(f"'{text}' is not a time", hint=_FORMS)
    return us


def _midnight(now_us: int, zone: tzinfo, days: int) -> int:
    day = _local(now_us, zone).date() + timedelta(days=days)
    return _utc_us(datetime.combine(day, time()), zone)


def _relative(word: str, lower: str, now_us: int) -> int | None:
    if word[:1] in ("+", "-"):
        sign, span = (-1 if word[0] == "-" else 1), word[1:]
    elif lower.endswith(" ago"):
        sign, span = -1, word[:-4]
    elif lower.endswith(" left"):
        sign, span = 1, word[:-5]
    else:
        return None
    if not _SPAN.fullmatch(span):
        return None
    total = 0.0
    for number, unit in _SPAN_PART.findall(span):
        us = SECOND_US if not unit else _UNITS.get(unit) or _UNITS.get(unit.lower())
        if us is None:
            return None
        total += float(number) * us
    moment = now_us + sign * round(total) if total < 1e18 else None
    return moment if moment is not None and _printable(moment) else None


def _absolute(word: str, now_us: int, zone: tzinfo) -> int | None:
    match = _MOMENT.fullmatch(word)
    if not match:
        return None
    if match["zone"]:
        try:
            zone = parse_zone(match["zone"])
        except SleepwatchError:
            return None
    try:
        day = date.fromisoformat(match["date"]) if match["date"] else _local(now_us, zone).date()
        clock = (match["time1"] or match["time2"] or "00:00").replace(",", ".")
        whole, _, fraction = clock.partition(".")
        hours, minutes, seconds = (int(part) for part in f"{whole}:00".split(":")[:3])
        us = _utc_us(datetime.combine(day, time(hours, minutes, seconds)), zone)
    except (ValueError, OverflowError):
        return None
    return us + int((fraction + "000000")[:6])


def _printable(us: int) -> bool:
    return -62_135_596_800 * SECOND_US <= us < 253_402_300_800 * SECOND_US  # years 1 to 9999


def _local(us: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=us)).replace(tzinfo=UTC).astimezone(zone)


def _utc_us(local: datetime, zone: tzinfo) -> int:
    """A local time without zone as microseconds UTC. ``local.fold`` chooses between the readings of a doubled hour."""
    offset = local.replace(tzinfo=zone).utcoffset() or timedelta()
    return (local - _EPOCH - offset) // timedelta(microseconds=1)


# --- carriers' stamps -------------------------------------------------------------------------------------------------

_SECONDS: dict[bytes, int | None] = {}  # "05:46:44" -> second of the day; at most 86,400 valid ones
_DAYS: dict[bytes, int | None] = {}  # "2026-11-30" -> microseconds of its midnight, as if UTC
_OFFSETS: dict[bytes, int | None] = {b"Z": 0}  # "+02:00", "+0200", "+02" -> microseconds east of UTC
_CACHE = 100_000


def seconds_of_day(clock: bytes) -> int | None:
    """``05:46:44`` as seconds since midnight (a leap second 60 counts as 59); None if it is no time of day."""
    try:
        return _SECONDS[clock]
    except KeyError:
        pass
    try:
        hours, minutes, seconds = int(clock[:2]), int(clock[3:5]), int(clock[6:])
    except ValueError:
        return None
    value = None
    if hours < 24 and minutes < 60 and seconds <= 60:
        value = hours * 3600 + minutes * 60 + min(seconds, 59)
    _remember(_SECONDS, clock, value)
    return value


def fraction_us(digits: bytes) -> int:
    """The digits behind a decimal point as microseconds; what is finer is cut off."""
    return int(digits) if len(digits) == 6 else int((digits + b"000000")[:6])


def rfc3339_us(day: bytes, clock: bytes, fraction: bytes | None, offset: bytes) -> int | None:
    """``2026-11-30``, ``05:46:44``, ``659026123``, ``+02:00`` as microseconds UTC; None if it is no moment."""
    start = _DAYS[day] if day in _DAYS else _day_start(day)
    seconds = _SECONDS[clock] if clock in _SECONDS else seconds_of_day(clock)
    east = _OFFSETS[offset] if offset in _OFFSETS else offset_us(offset)
    if start is None or seconds is None or east is None:
        return None
    us = start + seconds * 1_000_000 - east
    return us + fraction_us(fraction) if fraction else us


def offset_us(offset: bytes) -> int | None:
    """``+02:00``, ``+0200``, ``+02`` or ``Z`` as microseconds east of UTC; None if it is no offset."""
    if offset in _OFFSETS:
        return _OFFSETS[offset]
    match = re.fullmatch(rb"([+-])(\d\d):?(\d\d)?", offset)
    value = None
    if match:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        if minutes < 24 * 60:
            value = minutes * 60 * (-SECOND_US if match[1] == b"-" else SECOND_US)
    _remember(_OFFSETS, offset, value)
    return value


def _day_start(day: bytes) -> int | None:
    try:
        value: int | None = _days_us(date(int(day[:4]), int(day[5:7]), int(day[8:])))
    except ValueError:
        value = None
    _remember(_DAYS, day, value)
    return value


def _days_us(day: date) -> int:
    return (day.toordinal() - 719_163) * DAY_US  # 719163 = date(1970, 1, 1).toordinal()


def _remember(cache: dict[bytes, int | None], key: bytes, value: int | None) -> None:
    if len(cache) >= _CACHE:
        cache.clear()
        _OFFSETS[b"Z"] = 0
    cache[key] = value


# --- local stamps, with or without a year -----------------------------------------------------------------------------

# Abbreviated months as glibc's locales write them (localedata, LC_TIME abmon), which is what `date`, journalctl and the
# C library's strftime print. Croatian is left out: its "lip", "srp" and "lis" are other months in Polish and Czech.
_MONTHS_BY_LANGUAGE = (
    "jan feb mar apr may jun jul aug sep oct nov dec",  # English
    "jän feb mär apr mai jun jul aug sep okt nov dez",  # German
    "janv févr mars avril mai juin juil août sept oct nov déc",  # French
    "jan fév mar avr mai jun jui aoû sep oct nov déc",  # French in Belgium, Canada, Switzerland
    "ene feb mar abr may jun jul ago sep oct nov dic",  # Spanish
    "gen feb mar apr mag giu lug ago set ott nov dic",  # Italian
    "jan fev mar abr mai jun jul ago set out nov dez",  # Portuguese
    "jan feb mrt apr mei jun jul aug sep okt nov dec",  # Dutch
    "jan feb mar apr maj jun jul aug sep okt nov dec",  # Danish, Swedish
    "jan feb mars april mai juni juli aug sep okt nov des",  # Norwegian
    "tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu",  # Finnish
    "sty lut mar kwi maj cze lip sie wrz paź lis gru",  # Polish
    "led úno bře dub kvě čen čec srp zář říj lis pro",  # Czech
    "jan feb mar apr máj jún júl aug sep okt nov dec",  # Slovak
    "jan febr márc ápr máj jún júl aug szept okt nov dec",  # Hungarian
    "ian feb mar apr mai iun iul aug sep oct nov dec",  # Romanian
    "oca şub mar nis may haz tem ağu eyl eki kas ara",  # Turkish
    "ιαν φεβ μαρ απρ μαΐ ιουν ιουλ αυγ σεπ οκτ νοε δεκ",  # Greek
    "янв фев мар апр мая июн июл авг сен окт ноя дек",  # Russian
    "яну фев мар апр май юни юли авг сеп окт ное дек",  # Bulgarian, Russian "май"
    "січ лют бер кві тра чер лип сер вер жов лис гру",  # Ukrainian
    "jan feb mar apr mei jun jul agu sep okt nov des",  # Indonesian
    "ינו פבר מרץ אפר מאי יונ יול אוג ספט אוק נוב דצמ",  # Hebrew
    "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月",  # Chinese in Singapore
    "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月",  # Chinese, Japanese
    "1월 2월 3월 4월 5월 6월 7월 8월 9월 10월 11월 12월",  # Korean
)
_MONTHS = {name: number for language in _MONTHS_BY_LANGUAGE for number, name in enumerate(language.split(), start=1)}


def month_number(name: bytes) -> int | None:
    """The month an abbreviation means in any of the languages above (``Nov``, ``févr.``, ``7月``); else None."""
    return _MONTHS.get(name.decode("utf-8", "replace").strip().rstrip(".").lower())


# Abbreviations as `date` prints them. CST and IST mean several zones: those are read in the person's zone instead.
_ZONE_HOURS = {
    b"UTC": 0.0, b"GMT": 0.0, b"WET": 0.0, b"WEST": 1.0, b"BST": 1.0, b"CET": 1.0, b"CEST": 2.0, b"EET": 2.0,
    b"EEST": 3.0, b"MSK": 3.0, b"JST": 9.0, b"KST": 9.0, b"AWST": 8.0, b"ACST": 9.5, b"ACDT": 10.5, b"AEST": 10.0,
    b"AEDT": 11.0, b"NZST": 12.0, b"NZDT": 13.0, b"EST": -5.0, b"EDT": -4.0, b"CDT": -5.0, b"MST": -7.0,
    b"MDT": -6.0, b"PST": -8.0, b"PDT": -7.0, b"AKST": -9.0, b"AKDT": -8.0, b"HST": -10.0,
}  # fmt: skip


class LocalTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How to read stamps that lack a zone or a year."""

    zone: tzinfo = UTC
    """The zone of stamps that name none (``--tz``)."""
    year: int | None = None
    """The year of the first stamp that has none (``--year``)."""
    reference_us: int | None = None
    """When the source was last written (a file's mtime): no stamp can be later. Used where ``year`` is None."""


class Calendar:
    """Turns the local stamps of one source, in their order, into wall times.

    A year is counted on when the months start anew (December to January), a doubled hour is told apart by the order of
    its stamps, a skipped one is read with the offset before the change. A clock that was set back is not corrected.
    """

    # Stamps of one source may be out of order by this much without meaning the second reading of a doubled hour.
    _JITTER_US = 60 * SECOND_US

    def __init__(self, local: LocalTimes) -> None:
        self._local = local
        self._token = b""
        self._day: date | None = None
        self._start_us: int | None = None  # midnight UTC of a day whose offset does not change
        self._last_us: int | None = None

    def state(self) -> tuple[bytes, int | None, int | None, int | None]:
        """What reading on in another process needs, as plain values: for :meth:`resume`."""
        return self._token, self._day.toordinal() if self._day is not None else None, self._start_us, self._last_us

    def resume(self, state: tuple[bytes, int | None, int | None, int | None]) -> None:
        """Go on from a state that :meth:`state` gave."""
        self._token, day, self._start_us, self._last_us = state
        self._day = date.fromordinal(day) if day is not None else None

    def undated_us(self, token: bytes, clock: bytes) -> int | None:
        """Wall time of ``Nov 30``, ``05:46:44``; None if that is no moment or its year cannot be known."""
        if token != self._token:
            self._turn(token, self._undated_day(token))
        return self._at(clock)

    def dated_us(self, token: bytes, clock: bytes) -> int | None:
        """Wall time of ``2026-11-30``, ``05:46:44``; None if that is no moment."""
        if token != self._token:
            try:
                day = date(int(token[:4]), int(token[5:7]), int(token[8:]))
            except ValueError:
                day = None
            self._turn(token, day)
        return self._at(clock)

    def zoned_us(self, token: bytes, clock: bytes, zone: bytes) -> int | None:
        """Wall time of a dated stamp followed by a zone: an offset, or an abbreviation such as ``CEST``."""
        hours = _ZONE_HOURS.get(zone)
        if hours is not None:
            us = rfc3339_us(token, clock, None, b"Z")
            return None if us is None else us - int(hours * 3600 * SECOND_US)
        if zone[:1] in (b"+", b"-"):
            return rfc3339_us(token, clock, None, zone)
        return self.dated_us(token, clock)

    def _turn(self, token: bytes, day: date | None) -> None:
        self._token = token
        self._start_us = None
        if day is None:
            self._day = None
            return
        self._day = day
        morning = datetime.combine(day, time())
        zone = self._local.zone
        try:
            offsets = {(morning + timedelta(hours=h)).replace(tzinfo=zone).utcoffset() for h in (-3, 0, 24, 27)}
            if len(offsets) == 1:
                self._start_us = _utc_us(morning, zone)
        except OverflowError:
            self._day = None

    def _at(self, clock: bytes) -> int | None:
        seconds = _SECONDS[clock] if clock in _SECONDS else seconds_of_day(clock)
        if seconds is None or self._day is None:
            return None
        if self._start_us is not None:
            us = self._start_us + seconds * 1_000_000
        else:
            us = self._by_order(datetime.combine(self._day, time()) + timedelta(seconds=seconds))
        self._last_us = us
        return us

    def _by_order(self, local: datetime) -> int:
        first = _utc_us(local, self._local.zone)
        second = _utc_us(local.replace(fold=1), self._local.zone)
        # In a skipped hour "second" is the earlier one and is never taken.
        if self._last_us is not None and first < second and first < self._last_us - self._JITTER_US:
            return second
        return first

    def _undated_day(self, token: bytes) -> date | None:
        name, _, number = token.strip().rpartition(b" ")
        month = month_number(name)
        if month is None or not number.isdigit():
            return None
        year = self._first_year(month, int(number)) if self._day is None else self._next_year(self._day, month)
        if year is None:
            return None
        return self._dated(year, month, int(number))

    def _first_year(self, month: int, day: int) -> int | None:
        if self._local.year is not None:
            return self._local.year
        latest = self._latest()
        if latest is None:
            return None
        return latest.year if (month, day) <= (latest.month, latest.day) else latest.year - 1

    def _next_year(self, last: date, month: int) -> int:
        if month - last.month <= -2:
            return last.year + 1
        if last.month == 1 and month == 12:  # lines out of order around New Year
            return last.year - 1
        return last.year

    def _dated(self, year: int, month: int, day: int) -> date | None:
        """The date in that year; where the year is a guess: not after the reference, 29 February in a leap year."""
        latest = self._latest() if self._local.year is None else None
        earliest = year - 8 if self._local.year is None else year  # leap years are at most 8 apart (1896, 1904)
        for candidate in range(year, earliest - 1, -1):
            try:
                found = date(candidate, month, day)
            except ValueError:
                continue
            if latest is None or found <= latest:
                return found
        return None

    def _latest(self) -> date | None:
        """The last day a stamp can have: the reference's, and one more for clocks that differ."""
        if self._local.reference_us is None:
            return None
        return _local(self._local.reference_us, self._local.zone).date() + timedelta(days=1)
