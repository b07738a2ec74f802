"""The files before and after the one that is being read: those that were left, and those whose turn will come."""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sleepwatch.sources.disk import Disk, Stat
from sleepwatch.sources.held import HeldFile, PackedFile, Place, PlainFile
from sleepwatch.sources.identity import Digest, Seen
from sleepwatch.sources.piece import LATE, PASSED_OVER, Piece, gap
from sleepwatch.sources.search import Known, Next, Version, is_copy

LATE_US = 60_000_000
"""For this long after a file was left, what is still added to it is noticed."""
_LEFT_FILES = 8
_FORGOTTEN_FILES = 64
_COMING_FILES = 16


class Left:
    """Files that were left. Bytes added to them later are lost, but not silently."""

    def __init__(self) -> None:
        self._files: list[tuple[PlainFile, int]] = []
        self.forgotten: deque[Version] = deque(maxlen=_FORGOTTEN_FILES)
        """Those that are no longer watched."""

    def __iter__(self) -> Iterator[PlainFile]:
        return (file for file, _ in self._files)

    def add(self, file: HeldFile, now_us: int) -> None:
        """It was read to its end and is left now."""
        if isinstance(file, PackedFile) or file.broken:
            self._forget(file)
            return
        self._files.append((file, now_us))
        if len(self._files) > _LEFT_FILES:
            self._forget(self._files.pop(0)[0])

    def look(self, now_us: int) -> list[Piece]:
        """A gap for each that has grown."""
        gaps, kept = [], []
        for file, left_us in self._files:
            try:
                stat = file.fstat()
            except OSError:
                file.close()
                continue
            if stat.size > file.size:
                gaps.append(gap(file.place.file, file.size, LATE, stat.size - file.size))
            file.size, file.links, file.written_ns = stat.size, stat.links, stat.written_ns
            if now_us - left_us < LATE_US:
                kept.append((file, left_us))
            else:
                self._forget(file)
        self._files = kept
        return gaps

    def _forget(self, file: HeldFile) -> None:
        self.forgotten.append((file.inode, file.written_ns))
        file.close()

    def close(self) -> None:
        """Give all descriptors back."""
        for file in self:
            file.close()
        self._files = []


class Coming:
    """Files to be read later, in the order in which they were seen at the path.

    Each is opened when it is first seen, so that no renaming or deletion can take it away again. ``owed`` are those an
    earlier run had seen.
    """

    def __init__(self, owed: Sequence[Seen]) -> None:
        self.files: list[PlainFile] = []
        self._owed = {one.inode: one.head for one in owed}

    def __contains__(self, file: HeldFile) -> bool:
        return any(file is one for one in self.files)

    @property
    def bytes(self) -> int:
        """How many bytes wait in them."""
        return sum(file.size for file in self.files)

    def look(self, place: Callable[[Path], Place]) -> list[Piece]:
        """Look whether each is still what it was; a gap for each that was replaced."""
        gaps, kept = [], []
        for file in self.files:
            try:
                cause = file.look()
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                file.close()  # if it is still there, it is found again by its name
                continue
            if cause is not None:
                gaps.append(gap(file.place.file, 0, cause))
                file = file.anew(place(file.place.target))
                file.look()
            kept.append(file)
        self.files = kept
        return gaps

    def knows(self, stat: Stat) -> bool:
        """Is the file that the path leads to among them?"""
        return any(file.is_at(stat) for file in self.files)

    def full(self) -> bool:
        """No more can be held open."""
        return len(self.files) >= _COMING_FILES

    def at_its_turn(self, disk: Disk, path: Path, following: Next) -> PlainFile | None:
        """The file to be read now, if the one that follows by name waits here itself, or one older than it."""
        for file in self.files:
            deleted = file.links == 0
            older = deleted and file.written_ns < following.written_ns
            if older or (file.inode == following.inode and not deleted):
                return self.files[0]
            if deleted and is_copy(disk, path, file):
                return self.files[0]
        return None

    def settle(self, new: HeldFile, *, last: bool) -> bool:
        """Of the files an earlier run saw, is none lost now that this one is turned to?

        ``last``: nothing comes any more but what waits here.
        """
        kept = True
        for file in (new, *self.files) if last else (new,):
            head = self._owed.pop(file.inode, None)
            if isinstance(file, PlainFile) and head is not None:
                with contextlib.suppress(OSError):  # it shows when it is read
                    file.look()
                    kept = kept and head.fits(file.head)
        if last and self._owed:
            kept = False
            self._owed.clear()
        return kept

    def seen(self) -> tuple[Seen, ...]:
        """For the checkpoint."""
        here = {file.inode: Digest.of(file.head) for file in self.files}
        return tuple(Seen(inode, head) for inode, head in (self._owed | here).items())

    def forget_owed(self) -> None:
        """A gap says that they are lost."""
        self._owed.clear()

    def remove(self, file: HeldFile) -> None:
        """Its turn has come."""
        self.files = [one for one in self.files if one is not file]

    def pass_over(self) -> list[Piece]:
        """The path leads to the file being read again: these are not read. A gap for each with bytes in it."""
        gaps = [gap(file.place.file, 0, PASSED_OVER, file.size) for file in self.files if file.size]
        self.close()
        return gaps

    def identities(self) -> set[Known]:
        """Of all that wait."""
        return {(file.device, file.inode) for file in self.files}

    def close(self) -> None:
        """Give all descriptors back."""
        for file in self.files:
            file.close()
        self.files = []
