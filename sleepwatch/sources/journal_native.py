"""A journal read by libsystemd in this process, through systemd-python's own getters.

``systemd.journal.Reader`` converts every field of every entry, which takes most of the time; the class beneath it hands
out bytes. A reader must stay in the thread that made it (systemd/python-systemd#143).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from systemd import _reader

from sleepwatch.errors import SourceError
from sleepwatch.model import Record
from sleepwatch.sources.journal import Entry, Place, Start, Terms, Which
from sleepwatch.sources.journal_records import THRESHOLD, Entries
from sleepwatch.sources.journal_units import Units

_LOCAL_ONLY = 1
"""SD_JOURNAL_LOCAL_ONLY (systemd/sd-journal.h)."""
_INVALIDATE = 2
"""SD_JOURNAL_INVALIDATE: files were added or removed."""


class NativeJournal:
    """See :class:`sleepwatch.sources.journal.Journal`."""

    way = "libsystemd"

    def __init__(self, which: Which, units: Units) -> None:
        self.place: Place | None = None
        self.at_end = False
        self.entries = 0
        self._which = which
        self._entries = Entries(units)
        self._skip: Place | None = None
        with self._trouble():
            if which.files:
                self._reader = _reader._Reader(0, None, list(which.files))
            elif which.directory is not None:
                self._reader = _reader._Reader(0, which.directory, None)
            else:
                self._reader = _reader._Reader(_LOCAL_ONLY, None, None)
            self._reader.data_threshold = THRESHOLD
            self._fd: int = self._reader.fileno()

    def unique(self, field: str) -> set[str]:
        """See Journal."""
        with self._trouble():
            return {value.decode("utf-8", "replace") for value in self._reader.query_unique(field)}

    def first(self, terms: Terms, start: Start = "head") -> Entry | None:
        """See Journal."""
        self._position(terms, start)
        with self._trouble():
            return self._here() if self._reader._next(1) else None

    def last(self, terms: Terms, before_us: int | None = None) -> Entry | None:
        """See Journal."""
        self._position(terms, "tail" if before_us is None else before_us)
        with self._trouble():
            return self._here() if self._reader._previous(1) else None

    def begin(self, terms: Terms, start: Start, *, after: bool = False) -> None:
        """See Journal."""
        self._skip = start if after and isinstance(start, Place) else None
        self.place = None
        self.at_end = False
        self._position(terms, start)
        if start == "tail":
            with self._trouble():
                if not self._reader._previous(1):  # only from an entry does it go on to what comes then
                    self._reader.seek_head()

    def read(self, limit: int) -> list[Record]:
        """See Journal."""
        out: list[Record] = []
        take, reader = self._entries.take, self._reader
        step, fields, received_us = reader._next, reader._get_all, reader._get_realtime
        self.at_end = False
        with self._trouble():
            if not step(1):
                self.at_end = True
                return out
            skip, self._skip = self._skip, None
            if skip is None or not Place.of(reader._get_cursor()).is_same(skip):
                take(fields(), received_us(), out)
            count = 1
            while count < limit:
                if not step(1):
                    self.at_end = True
                    break
                take(fields(), received_us(), out)
                count += 1
            self.entries += count
            self.place = Place.of(reader._get_cursor())
        return out

    def flush(self) -> list[Record]:
        """See Journal."""
        return self._entries.pieces()

    def changed(self) -> bool:
        """See Journal."""
        with self._trouble():
            return bool(self._reader.process() == _INVALIDATE)

    def fileno(self) -> int | None:
        """See Journal."""
        return self._fd

    def close(self) -> None:
        """See Journal."""
        self._reader.close()

    def _position(self, terms: Terms, start: Start) -> None:
        reader = self._reader
        with self._trouble():
            reader.flush_matches()
            for number, group in enumerate(terms):
                if number:
                    reader.add_disjunction()
                for term in group:
                    reader.add_match(term)
            if start == "head":
                reader.seek_head()
            elif start == "tail":
                reader.seek_tail()
            elif isinstance(start, int):
                reader.seek_realtime(start)
            elif isinstance(start, Place):
                reader.seek_cursor(start.cursor)

    def _here(self) -> Entry:
        reader = self._reader
        found = {name: value[-1] if isinstance(value, list) else value for name, value in reader._get_all().items()}
        found["__CURSOR"] = reader._get_cursor().encode()
        found["__REALTIME_TIMESTAMP"] = b"%d" % reader._get_realtime()
        return found

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """libsystemd's errors as SourceError."""
        try:
            yield
        except OSError as error:
            hint = None
            if error.errno in (errno.EBADMSG, errno.EADDRNOTAVAIL, errno.ENODATA):
                hint = "a file was removed or damaged; check with journalctl --verify"
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise SourceError(f"{self._which.name}: {why}", hint=hint) from error
