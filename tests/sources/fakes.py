"""Disks that do what a real one cannot be made to do in a test. Each is a fake and says so in its name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from sleepwatch.sources.disk import Disk, Entry, Stat


class FakeDisk(Disk):
    """The real disk, but files can be refused, reads can fail, and inode numbers can be lent out a second time.

    Root may read everything and file systems choose inode numbers by themselves: hence a fake.
    """

    def __init__(self) -> None:
        self.refused: set[str] | bool = False
        """Names that cannot be opened; True: none can."""
        self.hidden = False
        """What the path leads to cannot be seen either: the directory is closed."""
        self.read_errno: int | None = None
        self.pread_fails_for: int | None = None
        """The real inode of a file that lies on a bad block."""
        self.stat_errno: int | None = None
        self.open_errno: int | None = None
        self.same_inode: dict[int, int] = {}
        """Real inode number to the one that is shown."""

    def stat(self, path: Path) -> Stat:
        if self.hidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if self.stat_errno is not None:
            raise OSError(self.stat_errno, os.strerror(self.stat_errno))
        return self._shown(super().stat(path))

    def open(self, path: Path) -> int:
        if self.hidden or self.refused is True or (self.refused and path.name in self.refused):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if self.open_errno is not None:
            raise OSError(self.open_errno, os.strerror(self.open_errno))
        return super().open(path)

    def fstat(self, fd: int) -> Stat:
        return self._shown(super().fstat(fd))

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        if self.read_errno is not None:
            raise OSError(self.read_errno, os.strerror(self.read_errno))
        if self.pread_fails_for is not None and self.pread_fails_for == os.fstat(fd).st_ino:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pread(fd, size, offset)

    def listing(self, directory: Path) -> list[Entry]:
        if self.hidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return [
            Entry(entry.name, self.same_inode.get(entry.inode, entry.inode)) for entry in super().listing(directory)
        ]

    def _shown(self, stat: Stat) -> Stat:
        return msgspec.structs.replace(stat, inode=self.same_inode.get(stat.inode, stat.inode))
