"""A file that is open and being read: where in it we are, and whether it is still the file it was."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

import msgspec

from sleepwatch.errors import SourceError
from sleepwatch.sources.archives import decompressed, read_block
from sleepwatch.sources.disk import Disk, Stat
from sleepwatch.sources.identity import ANCHOR_BYTES, HEAD_BYTES, Digest, FileCheckpoint
from sleepwatch.sources.piece import REWRITTEN, TRUNCATED

BLOCK = 1 << 20
"""Bytes read at once."""

Steps = Generator[None, None, bool]
"""Work done in steps of at most one block, with an answer at the end."""


class Place(msgspec.Struct, frozen=True):
    """Which file this is among those read under one path."""

    path: Path
    """The followed path."""
    target: Path
    """Where it led when the file was opened: the name its rotated names derive from."""
    file: str
    """Its token."""


class PlainFile:
    """An open file that is read as it is written."""

    packed = False

    def __init__(self, disk: Disk, fd: int, place: Place) -> None:
        self._disk = disk
        self.fd = fd
        self.place = place
        stat = disk.fstat(fd)
        self.device, self.inode = stat.device, stat.inode
        self.offset = 0
        self.size = 0
        """As last seen."""
        self.head = b""
        self.tail = b""
        """The last bytes before the offset: the anchor."""
        self._end = b""
        """The last bytes that were seen to be there and are not read yet."""
        self._end_at = 0
        self.written_ns = stat.written_ns
        self.since_ns = stat.written_ns
        """When it had been changed last as it was opened: what was written after it was changed later."""
        self.links = stat.links
        self.hole = 0
        """How many bytes nobody ever wrote were passed over at its beginning."""
        self.broken = ""
        """It is a copy made by copytruncate: the cause of the gap that follows at its end."""
        self.passing = False
        """When its turn came a later file was written to: if it is empty, nobody writes to it."""

    def look(self) -> str | None:
        """Has its content been replaced since the last look? The cause, or None. Also learns its size and its head."""
        stat = self._disk.fstat(self.fd)
        if stat.size < max(self.offset, self.size):
            return TRUNCATED
        if stat.size == self.size == 0 and stat.written_ns != self.written_ns:
            return TRUNCATED  # bytes came and went
        head = self._disk.pread(self.fd, HEAD_BYTES, 0)
        if not head.startswith(self.head):
            return REWRITTEN
        if self._end and self._disk.pread(self.fd, len(self._end), self._end_at) != self._end:
            return REWRITTEN
        self.head = head
        self.size = stat.size
        self._end_at = max(self.offset, stat.size - ANCHOR_BYTES)
        self._end = (
            self._disk.pread(self.fd, stat.size - self._end_at, self._end_at) if stat.size > self.offset else b""
        )
        self.written_ns = stat.written_ns
        self.links = stat.links
        return None

    def read(self, limit: int) -> bytes | None:
        """The next bytes, none at the end as of the last look; None if the bytes before them are not those we read."""
        want = min(limit, BLOCK, self.size - self.offset)
        anchor = len(self.tail)
        if not (want or anchor):
            return b""
        # One call for the anchor and what follows it: nothing can change between looking and reading.
        data = self._disk.pread(self.fd, anchor + want, self.offset - anchor)
        if not data.startswith(self.tail):
            return None
        if len(data) > anchor:
            self.offset += len(data) - anchor
            self.tail = data[-ANCHOR_BYTES:]
        data = data[anchor:]
        if self.hole == self.offset - len(data) and data.startswith(b"\0"):
            return self._past_hole(data)
        return data

    def _past_hole(self, data: bytes) -> bytes:
        """What lies before the place at which a writer goes on that does not append and was truncated: nothing."""
        text = data.lstrip(b"\0")
        self.hole += len(data) - len(text)
        if not text:
            self.offset = self.hole = max(self.hole, self._disk.data_from(self.fd, self.offset))
            start = max(0, self.offset - ANCHOR_BYTES)
            self.tail = self._disk.pread(self.fd, self.offset - start, start)
        return text

    def at_end(self) -> bool:
        """Has all been read that the last look saw?"""
        return self.offset >= self.size

    def start_at(self, offset: int) -> None:
        """Begin in the middle."""
        start = max(0, offset - ANCHOR_BYTES)
        self.tail = self._disk.pread(self.fd, offset - start, start)
        self.offset = offset

    def fits(self, checkpoint: FileCheckpoint) -> Steps:
        """Is it the file of this checkpoint? If so, stands at its offset then."""
        yield from ()
        return self.fits_now(checkpoint)

    def fits_now(self, checkpoint: FileCheckpoint) -> bool:
        """The same at once."""
        if self._disk.fstat(self.fd).size < max(checkpoint.offset, checkpoint.head.count):
            return False
        if not checkpoint.head.fits(self._disk.pread(self.fd, checkpoint.head.count, 0)):
            return False
        self.start_at(checkpoint.offset)
        self.head = self._disk.pread(self.fd, checkpoint.head.count, 0)
        return Digest.of(self.tail) == checkpoint.anchor

    def is_copied_in(self, other: PlainFile) -> bool:
        """Does another file hold all that was seen of this one?"""
        if not other.fits_now(self.checkpoint()):
            return False
        return self._disk.pread(other.fd, len(self._end), self._end_at) == self._end

    def checkpoint(self) -> FileCheckpoint:
        """How far it was read."""
        return _checkpoint(self, self.tail)

    def anew(self, place: Place) -> PlainFile:
        """The same open file from its first byte, as another file: its content was replaced."""
        return PlainFile(self._disk, self.fd, place)

    def is_at(self, stat: Stat) -> bool:
        """Is this where a path leads, whose stat this is? The inode number of a deleted file may be another's."""
        return (stat.device, stat.inode) == (self.device, self.inode) and (self.links > 0 or stat.links == 0)

    def fstat(self) -> Stat:
        """What is known of it now, whatever its name is."""
        return self._disk.fstat(self.fd)

    def close(self) -> None:
        """Give the descriptor back."""
        self._disk.close(self.fd)


def open_plain_file(disk: Disk, path: Path, place: Place) -> PlainFile:
    """Open a file that is written to. Raises OSError, also for what is no regular file."""
    fd = disk.open(path)
    try:
        if not disk.fstat(fd).regular:
            raise OSError(errno.EINVAL, "not a regular file")
        return PlainFile(disk, fd, place)
    except OSError:
        disk.close(fd)
        raise


class PackedFile:
    """A compressed older piece of a log, read from its beginning."""

    packed = True

    def __init__(self, disk: Disk, fd: int, place: Place, name: str) -> None:
        self.place = place
        self._name = name
        stat = disk.fstat(fd)
        self.device, self.inode = stat.device, stat.inode
        self.written_ns = self.since_ns = stat.written_ns
        self._file: BinaryIO = os.fdopen(fd, "rb")
        try:
            self._stream = decompressed(self._file)
        except SourceError:
            self._file.close()
            raise
        self.offset = 0
        self.head = b""
        self._tail = b""
        self._ended = False
        self.broken = ""

    def look(self) -> None:
        """A compressed file is not written to any more."""

    def read(self, limit: int) -> bytes:
        """The next plain bytes. Raises SourceError where the file is damaged or still being written."""
        data = b"" if self._ended else read_block(self._stream, min(limit, BLOCK), self._name)
        self._ended = not data
        self.offset += len(data)
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]
        self._tail = (self._tail + data)[-ANCHOR_BYTES:]
        return data

    def at_end(self) -> bool:
        """Has all of it been read?"""
        return self._ended

    def is_at(self, stat: Stat) -> bool:
        """A followed path never leads to a compressed file."""
        return False

    def give_up(self) -> None:
        """What is left of it cannot be read: this is its end."""
        self._ended = True

    def fits(self, checkpoint: FileCheckpoint) -> Steps:
        """Is it the file of this checkpoint? If so, stands at its offset then. One block a step."""
        self.read_head(checkpoint.head.count)
        if not checkpoint.head.fits(self.head):
            return False
        if self.offset > checkpoint.offset:  # the head reaches further than was read
            self._rewind()
        while self.offset < checkpoint.offset:
            if not self.read(checkpoint.offset - self.offset):
                return False
            yield
        return Digest.of(self._tail) == checkpoint.anchor

    def read_head(self, count: int) -> None:
        """Read the first ``count`` bytes, at most :data:`HEAD_BYTES`, into ``head``."""
        while len(self.head) < count and self.read(count - len(self.head)):
            pass

    def checkpoint(self) -> FileCheckpoint:
        """How far it was read, in plain bytes."""
        return _checkpoint(self, self._tail)

    def _rewind(self) -> None:
        self._file.seek(0)
        self._stream = decompressed(self._file)
        self.offset = 0
        self._tail = b""
        self._ended = False

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


HeldFile = PlainFile | PackedFile


def _checkpoint(held: HeldFile, anchor: bytes) -> FileCheckpoint:
    place = held.place
    return FileCheckpoint(
        path=str(place.path),
        target=str(place.target),
        file=place.file,
        device=held.device,
        inode=held.inode,
        head=Digest.of(held.head),
        anchor=Digest.of(anchor),
        offset=held.offset,
        written_ns=held.written_ns,
        broken=held.broken,
    )
