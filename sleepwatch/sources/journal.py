"""The systemd journal as a source: which journal, where in it, and what each way of reading it offers.

There are two ways: libsystemd in this process (``journal_native``, the package systemd-python) and the program
journalctl (``journal_command``). Both give the same records; ``journal_open`` takes the first that is there.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from sleepwatch.model import Record

NAME = "journal:"
"""What every journal's name begins with, so that none is taken for a file's."""
MAGIC = b"LPKSHHRH"
"""The first bytes of a journal file (systemd, JOURNAL_FILE_FORMAT)."""
LOCAL = ("/var/log/journal", "/run/log/journal")
"""Where journald keeps this machine's own."""

Terms = Sequence[Sequence[str]]
"""Entries to read: those that have all of a group's ``FIELD=value`` (any of them, where a field stands there several
times), for any of the groups. Empty: all entries."""

Way = Literal["auto", "native", "command"]


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which journal."""

    directory: str | None = None
    files: tuple[str, ...] = ()
    """Journal files. Neither: this machine's own journal."""

    @property
    def name(self) -> str:
        """How reports, checkpoints and the person call it."""
        if self.directory is not None:
            return NAME + self.directory
        return NAME + ("system" if not self.files else ",".join(self.files))

    @classmethod
    def named(cls, name: str) -> Which:
        """The journal of this name, or of this name and a machine's behind an ``@``."""
        place = name.removeprefix(NAME)
        if place == "system":
            return cls()
        for directory in (place, place.rpartition("@")[0]):
            if os.path.isdir(directory):
                return cls(directory=directory)
        return cls(files=tuple(place.split(",")))


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an entry stands in a journal: what a checkpoint keeps, as JSON."""

    cursor: str
    """journald's own; it names the entry whatever file it is kept in."""
    realtime_us: int
    """When journald received it."""
    boot: str
    monotonic_us: int
    """The same on the clock of its boot."""
    seqnum_id: str
    seqnum: int
    """Its number among all entries with this ``seqnum_id``."""
    read_us: int | None = None
    """When (wall time) the journal was last read to its end; it can hold nothing wanted for long."""

    @classmethod
    def of(cls, cursor: str) -> Place:
        """The place a cursor names (systemd, sd-journal.c, sd_journal_get_cursor). Raises ValueError."""
        parts = dict(part.partition("=")[::2] for part in cursor.split(";"))
        try:
            return cls(
                cursor=cursor,
                realtime_us=int(parts["t"], 16),
                boot=parts["b"],
                monotonic_us=int(parts["m"], 16),
                seqnum_id=parts["s"],
                seqnum=int(parts["i"], 16),
            )
        except KeyError as error:
            raise ValueError(f"{cursor!r} is no cursor of a journal") from error

    def dump(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def restore(cls, data: bytes) -> Place:
        """What :meth:`dump` gave. Raises msgspec.DecodeError."""
        return msgspec.json.decode(data, type=cls)

    def is_same(self, other: Place) -> bool:
        """Do both name one entry? journald numbers it anew when it moves it from /run to /var."""
        if self.seqnum_id == other.seqnum_id:
            return self.seqnum == other.seqnum
        return (self.boot, self.monotonic_us, self.realtime_us) == (other.boot, other.monotonic_us, other.realtime_us)


Start = Place | int | Literal["head", "tail"]
"""Where to begin: at an entry (or the first behind its place), at a time (µs since the epoch, as journald received it),
at the first entry, or behind the last."""

Entry = Mapping[str, bytes]
"""The fields of one entry, ``__CURSOR`` and ``__REALTIME_TIMESTAMP`` among them."""


class Journal(Protocol):
    """An open journal. All calls come from the thread that opened it, and raise SourceError."""

    way: str
    """In words, what reads it."""
    place: Place | None
    """The last entry read; None before the first."""
    at_end: bool
    """The last read came to the end, as it was then."""

    @property
    def entries(self) -> int:
        """Read so far, wanted or not."""

    def unique(self, field: str) -> set[str]:
        """All values of a field."""

    def first(self, terms: Terms, start: Start = "head") -> Entry | None:
        """The first of these entries from ``start`` on."""

    def last(self, terms: Terms, before_us: int | None = None) -> Entry | None:
        """The last of these entries, received before this time."""

    def begin(self, terms: Terms, start: Start, *, after: bool = False) -> None:
        """Read these entries from ``start`` on; ``after``: but not the entry ``start`` itself."""

    def read(self, limit: int) -> list[Record]:
        """The lines of up to about ``limit`` further entries, in order; ``offset`` is the time of receipt in µs."""

    def flush(self) -> list[Record]:
        """The pieces of lines whose ends have not come."""

    def changed(self) -> bool:
        """Have files come or gone since the last call? Then it has to be opened again. Never waits."""

    def fileno(self) -> int | None:
        """A descriptor that becomes readable when there may be more; None where there is none."""

    def close(self) -> None:
        """Give everything back."""


def journal_files(which: Which) -> list[Path]:
    """The files a journal is kept in, as far as they can be listed: those journald would look at."""
    if which.files:
        return [Path(name) for name in which.files]
    roots = LOCAL if which.directory is None else (which.directory,)
    return [Path(name) for root in roots for form in ("*.journal*", "*/*.journal*")
            for name in sorted(glob.glob(os.path.join(glob.escape(root), form)))]  # fmt: skip


def is_journal_file(path: Path) -> bool:
    """Is this a file of journald's?"""
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def holds_journals(directory: str) -> bool:
    """Is this a directory of journal files, or of machines' directories of such files?"""
    return os.path.isdir(directory) and any(map(is_journal_file, journal_files(Which(directory=directory))))
