"""The operating system's files, as far as following them needs it: the only place of this part that does I/O by path.

Every method raises OSError as the system call does. Tests put a disk in its place that refuses, fails or reuses inode
numbers where a real one cannot be made to.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from pathlib import Path

import msgspec


class Stat(msgspec.Struct, frozen=True):
    """What is known of a file without reading it."""

    device: int
    inode: int
    size: int
    written_ns: int
    """Its last change (mtime)."""
    links: int
    """Names it has; 0 once it is deleted."""
    regular: bool


class Entry(msgspec.Struct, frozen=True):
    """A regular file in a directory."""

    name: str
    inode: int


class Disk:
    """The real one."""

    def stat(self, path: Path) -> Stat:
        """Of what the path leads to, through symbolic links."""
        return _stat(os.stat(path))

    def resolve(self, path: Path) -> Path:
        """Where the path leads, symbolic links followed as far as they go; never raises for a missing file."""
        return Path(os.path.realpath(path))

    def open(self, path: Path) -> int:
        """Open for reading. Never waits, not even for the writer of a pipe."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)

    def fstat(self, fd: int) -> Stat:
        """Of the open file, whatever its name is now."""
        return _stat(os.fstat(fd))

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes from ``offset``; fewer only at the end of the file."""
        return os.pread(fd, size, offset)

    def data_from(self, fd: int, offset: int) -> int:
        """Where, from ``offset`` on, bytes stand that were ever written; ``offset`` itself where that is not told."""
        if not hasattr(os, "SEEK_DATA"):
            return offset
        try:
            return os.lseek(fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return max(offset, self.fstat(fd).size)
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return offset
            raise

    def close(self, fd: int) -> None:
        """Give the descriptor back."""
        os.close(fd)

    def listing(self, directory: Path) -> list[Entry]:
        """The regular files in a directory, in no order."""
        with os.scandir(directory) as found:
            return [Entry(one.name, one.inode()) for one in found if one.is_file(follow_symlinks=False)]


def _stat(result: os.stat_result) -> Stat:
    return Stat(
        device=result.st_dev,
        inode=result.st_ino,
        size=result.st_size,
        written_ns=result.st_mtime_ns,
        links=result.st_nlink,
        regular=modes.S_ISREG(result.st_mode),
    )
