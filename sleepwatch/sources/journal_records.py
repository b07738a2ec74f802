"""From a journal's entries to records, as the envelopes of journalctl's outputs make them, for both ways of reading."""

from __future__ import annotations

from collections.abc import Mapping

from sleepwatch.envelopes.base import name_of
from sleepwatch.envelopes.journal_export import JournalExport
from sleepwatch.envelopes.journal_fields import FIELDS, JournalEntries, Places, Values, Writer, realtime_us
from sleepwatch.model import Record
from sleepwatch.sources.journal import Place
from sleepwatch.sources.journal_units import Units

OUTPUT_FIELDS = (*FIELDS, "MESSAGE", "_SOURCE_REALTIME_TIMESTAMP")
"""All that is looked at of an entry."""
THRESHOLD = 64 << 10
"""libsystemd unpacks no more than this of a compressed value; the reader looks at no more of a line."""
_MANY = 4_096


class Wanted(JournalEntries):
    """Gives out what belongs to the units asked for. A record's offset is when journald received its entry, in µs."""

    def __init__(self, units: Units) -> None:
        super().__init__()
        self._units = units
        self._wants: dict[Values, bool] = {}

    def entry(
        self, values: Values, message: bytes | None, offset: int, wall_us: int | None, places: Places, out: list[Record]
    ) -> None:
        """See JournalEntries."""
        if self.wants(values):
            super().entry(values, message, offset, wall_us, _nowhere, out)

    def wants(self, values: Values) -> bool:
        """Does an entry with these fields belong to the units asked for?"""
        if not self._units.names:
            return True
        wanted = self._wants.get(values)
        return self._want(values) if wanted is None else wanted

    @property
    def holds(self) -> bool:
        """Pieces of a line have come whose end has not."""
        return bool(self._pieces.open)

    def pieces(self) -> list[Record]:
        """What came of lines whose ends have not come."""
        out: list[Record] = []
        self._pieces.flush(out)
        return out

    def _want(self, values: Values) -> bool:
        fields = {
            field: name_of(value) if isinstance(value, bytes) else value
            for field, value in zip(FIELDS, values, strict=True)
            if value is not None
        }
        if len(self._wants) >= _MANY:
            self._wants.clear()
        wanted = self._wants[values] = self._units.wants(fields)
        return wanted


class Entries(Wanted):
    """Takes entries as libsystemd hands them out."""

    name = "journal"

    def __init__(self, units: Units) -> None:
        super().__init__(units)
        self._streams: dict[tuple[object, ...], Writer | None] = {}
        """The writers of services' output streams; None where it is not wanted."""

    def take(self, pairs: Mapping[str, bytes | list[bytes]], received_us: int, out: list[Record]) -> None:
        """Append the records of an entry."""
        get = pairs.get
        stream = get("_STREAM_ID")
        wall_us: int | None = received_us
        if "_SOURCE_REALTIME_TIMESTAMP" in pairs:
            wall_us = realtime_us(_single(pairs["_SOURCE_REALTIME_TIMESTAMP"]), b"%d" % received_us)
        message = _single(get("MESSAGE")) or b""
        if stream.__class__ is not bytes:
            self.entry(_values(pairs), message, received_us, wall_us, _nowhere, out)
            return
        # A service's output: what can differ within one stream is here, all else repeats from line to line.
        key = (stream, get("_PID"), get("_SYSTEMD_UNIT"), get("_SYSTEMD_INVOCATION_ID"), get("_LINE_BREAK"),
               get("_CMDLINE"))  # fmt: skip
        try:
            writer = self._streams[key]
        except KeyError:
            writer = self._stream(key, pairs)
        if writer is not None:
            self.put(writer, message, received_us, wall_us, _nowhere, out)

    def _stream(self, key: tuple[object, ...], pairs: Mapping[str, bytes | list[bytes]]) -> Writer | None:
        if len(self._streams) >= _MANY:
            self._streams.clear()
        values = _values(pairs)
        wanted = self.wants(values)
        writer = self._streams[key] = self.writer(values) if wanted else None
        return writer


class ExportEntries(Wanted, JournalExport):
    """Takes entries as ``journalctl -o export`` prints them."""

    def __init__(self, units: Units) -> None:
        super().__init__(units)
        self.cursor: bytes | None = None
        """Of the last entry."""
        self.entries = 0
        """How many came."""
        self.skip: Place | None = None
        """An entry that has been read before and may stand first."""

    def _entry(self, pairs: dict[bytes, bytes], place: int, out: list[Record]) -> None:
        self.cursor = pairs.get(b"__CURSOR")
        self.entries += 1
        skip, self.skip = self.skip, None
        if skip is None or self.cursor is None or not Place.of(self.cursor.decode()).is_same(skip):
            super()._entry(pairs, int(pairs[b"__REALTIME_TIMESTAMP"]), out)


def _nowhere() -> tuple[int, ...]:
    """The lines of an entry have no places of their own in a journal."""
    return ()


def _values(pairs: Mapping[str, bytes | list[bytes]]) -> tuple[bytes | None, ...]:
    get = pairs.get
    return tuple([_single(get(field)) for field in FIELDS])


def _single(value: bytes | list[bytes] | None) -> bytes | None:
    """A field that stands in an entry several times counts as its last value, as in journalctl's export."""
    return value[-1] if isinstance(value, list) else value
