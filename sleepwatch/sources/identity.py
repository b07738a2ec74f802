"""What a file is known by when its name, its place or its compression has changed.

An inode number alone is given to another file once the first is deleted; first lines alone are the same in every run of
a server that prints no times. So a file is known by its inode together with its content: the hash of its head, taken
over more bytes as the file grows, and of the last bytes before the place up to which it was read (the anchor).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from sleepwatch.printable import restored, storable

HEAD_BYTES = 1024
"""The head's hash is grown up to this many bytes."""
ANCHOR_BYTES = 256
"""How many bytes before the offset are compared before anything behind it is read."""
EVIDENCE_BYTES = 64
"""Content alone, without the inode, makes two files one only from this many bytes on: about one stamped line."""
WRITTEN_SLACK_NS = 2_000_000_000
"""Copies and compressors keep the time of the last change, some only in whole seconds."""


class Digest(msgspec.Struct, frozen=True):
    """The SHA-256 of some bytes, and how many they were."""

    count: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Digest:
        """Of these bytes."""
        return cls(len(data), hashlib.sha256(data).hexdigest())

    def fits(self, data: bytes) -> bool:
        """Do these bytes begin with those that were hashed?"""
        return len(data) >= self.count and Digest.of(data[: self.count]) == self


NOTHING = Digest.of(b"")


class Seen(msgspec.Struct, frozen=True):
    """A file that was seen at the path and not yet read."""

    inode: int
    head: Digest


class FileCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far one path was read: stored, it is where reading goes on after a restart."""

    path: str
    """The followed path, as the person gave it."""
    target: str = ""
    """Where it led when this file was opened: its rotated names are looked for beside that."""
    file: str = ""
    """The file's token, kept for as long as it is the same file, whatever its name is."""
    ordinal: int = 0
    """How many files have been opened under this path; the next token."""
    device: int = 0
    inode: int = 0
    """0: the path was watched and had led to no file yet, so all that appears there is new."""
    head: Digest = NOTHING
    anchor: Digest = NOTHING
    offset: int = 0
    """All bytes before it were delivered; in a compressed file counted in plain bytes."""
    written_ns: int = 0
    """The file's last change, as then seen."""
    waiting: tuple[Seen, ...] = ()
    """What was to be read after this one: if it is never found again, or with another content, that is a gap."""
    broken: str = ""
    """The file is a copy made by copytruncate: this is the cause of the gap that follows at its end."""

    def dump(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self._with_paths(storable))

    @classmethod
    def restore(cls, data: bytes) -> FileCheckpoint:
        """What :meth:`dump` gave. Raises msgspec.DecodeError."""
        return msgspec.json.decode(data, type=cls)._with_paths(restored)

    def _with_paths(self, change: Callable[[str], str]) -> FileCheckpoint:
        return msgspec.structs.replace(self, path=change(self.path), target=change(self.target), file=change(self.file))

    @property
    def evidence(self) -> int:
        """How many bytes of content it is known by."""
        return max(self.head.count, self.anchor.count)
