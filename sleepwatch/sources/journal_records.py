"""From a journal's entries to records, as the envelopes of journalctl's outputs make them, for both ways of reading."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from sleepwatch.envelopes.base import name_of
from sleepwatch.envelopes.journal_export import JournalExport
from sleepwatch.envelopes.journal_fields import FIELDS, JournalEntries, Places, Values, Writer, copied, realtime_us
from sleepwatch.model import Record
from sleepwatch.sources.journal import Place
from sleepwatch.sources.journal_units import Units

THRESHOLD = 64 << 10
"""libsystemd unpacks no more than this of a compressed value; the reader looks at no more of a line."""
_MANY = 4_096
_WHOSE = itemgetter("_STREAM_ID", "_PID", "_SYSTEMD_UNIT", "_SYSTEMD_INVOCATION_ID", "_CMDLINE")
"""What can differ within the output of one service; all else repeats from line to line."""
_UNUSUAL = ("_LINE_BREAK", "_SOURCE_REALTIME_TIMESTAMP", "MESSAGE_ID")
"""Fields that say more than that a line was printed."""


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
        self._whose: tuple[object, ...] = ()
        """The stream of the last entry,"""
        self._line: Record | None = None
        """and a line of its writer's, to be copied; None where it is not wanted."""

    def take(self, pairs: Mapping[str, bytes | list[bytes]], received_us: int, out: list[Record]) -> None:
        """Append the records of an entry."""
        try:
            whose, message = _WHOSE(pairs), pairs["MESSAGE"]
        except KeyError:  # no service's output
            self._take_any(pairs, received_us, out)
            return
        if (
            message.__class__ is not bytes
            or b"\n" in message
            or message[-1:] == b"\r"
            or self._pieces.open
            or not pairs.keys().isdisjoint(_UNUSUAL)
        ):
            self._take_any(pairs, received_us, out)
            return
        if whose != self._whose:
            writer = self._writer(whose, pairs)
            self._whose, self._line = whose, writer.line if writer is not None else None
        if self._line is not None:
            record = copied(self._line)
            record.text, record.offset, record.wall_us = message, received_us, received_us
            out.append(record)

    def _take_any(self, pairs: Mapping[str, bytes | list[bytes]], received_us: int, out: list[Record]) -> None:
        """The same for whatever may stand in a journal."""
        wall_us: int | None = received_us
        if "_SOURCE_REALTIME_TIMESTAMP" in pairs:
            wall_us = realtime_us(_single(pairs["_SOURCE_REALTIME_TIMESTAMP"]), b"%d" % received_us)
        self.entry(_values(pairs), _single(pairs.get("MESSAGE")) or b"", received_us, wall_us, _nowhere, out)

    def _writer(self, whose: tuple[object, ...], pairs: Mapping[str, bytes | list[bytes]]) -> Writer | None:
        """The writer of a service's output, if it is wanted."""
        if whose in self._streams:
            return self._streams[whose]
        if len(self._streams) >= _MANY:
            self._streams.clear()
        values = _values(pairs)
        writer = self._streams[whose] = self.writer(values) if self.wants(values) else None
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

    def _again(
        self, writer: Writer, cursor: bytes, received_us: int, message: bytes, place: int, out: list[Record]
    ) -> None:
        self.cursor = cursor
        self.entries += 1
        self.put(writer, message, received_us, received_us, _nowhere, out)


def _nowhere() -> tuple[int, ...]:
    """The lines of an entry have no places of their own in a journal."""
    return ()


def _values(pairs: Mapping[str, bytes | list[bytes]]) -> tuple[bytes | None, ...]:
    get = pairs.get
    return tuple([_single(get(field)) for field in FIELDS])


def _single(value: bytes | list[bytes] | None) -> bytes | None:
    """A field that stands in an entry several times counts as its last value, as in journalctl's export."""
    return value[-1] if isinstance(value, list) else value
