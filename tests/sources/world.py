"""A log and everything that can befall it, on a real file system, beside an exact account of every byte written.

A :class:`Content` is what was written to a file between two truncations; files are its carriers (a copy made by
copytruncate or a compressor carries the same content). :class:`Account` takes what a follower delivers and checks it
against the contents: every byte once and in order, or in a recorded gap.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

from sleepwatch.sources.follow import Piece
from tests.sources.fakes import FakeDisk
from tests.support import zstd

MARK = 8
"""Every write begins with so many bytes that no other has."""


class Content:
    """The bytes written to one file since it was made or truncated."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.data = bytearray()
        self.untold: int | None = None
        """What was lost behind this place by copytruncate may go unnoticed: its copy was compressed, as if renamed."""
        self.truncated = False

    def __repr__(self) -> str:
        return f"Content({self.number}, {len(self.data)} bytes)"


class File:
    """An inode, as far as the account goes."""

    def __init__(self, content: Content, copied: int | None = None, *, by_copytruncate: bool = False) -> None:
        self.content = content
        self.copied = copied
        """Of a copy: how many bytes there were to copy."""
        self.by_copytruncate = by_copytruncate

    @property
    def whole(self) -> bool:
        """Does it hold all of its content?"""
        return self.copied is None or self.copied == len(self.content.data)


class World:
    """The log ``server.log`` and its rotated files.

    With ``linked``, behind a symbolic link that can be switched; with ``banner``, all begin with the same lines,
    more of them than the head's hash covers.
    """

    def __init__(self, directory: Path, disk: FakeDisk, *, linked: bool, banner: bool) -> None:
        self.banner = b"build: 7492 with cc for x86_64\n" * 40 if banner else b""
        self.directory = directory
        self.disk = disk
        self.contents: list[Content] = []
        self.files: dict[str, File] = {}
        self.base = "server.log"
        self.path = directory / "server.log"
        self.lossy = 0
        """How many things were done that may lose bytes."""
        self._marks = 0
        self._links = 0
        self._time_ns = 1_700_000_000_000_000_000
        self._writer: tuple[int, File] | None = None
        self._old_writer: tuple[int, File] | None = None
        self._late = self._deleted = False
        """A rotated file was written to after newer ones; the log was deleted. Never both: beside a deleted file the
        order of the others is told by their last changes alone."""
        self._freed: list[int] = []
        if linked:
            self.path = directory / "current"
            self.path.symlink_to(self.base)

    # The writer.

    def append(self, size: int, *, newline: bool = True) -> None:
        """Write a line, or the beginning of one, to whatever file the writer has open."""
        if self._writer is None:
            self.reopen()
        assert self._writer is not None
        self._write(self._writer, size, newline)

    def append_old(self, size: int) -> None:
        """The process before this one is still stopping, and writes to the file it had open."""
        if self._old_writer is not None and self._old_writer[1] is not self.files.get(self.base):
            if self._old_writer[1] in self.files.values():
                if self._deleted:
                    return
                self._late = True
            self.lossy += 1
            self._write(self._old_writer, size, True)

    def reopen(self, *, same_inode: bool = False) -> None:
        """A new process opens what the path leads to, making it if it is not there."""
        self._retire_writer()
        here = self.directory / self.base
        new = self.base not in self.files
        fd = os.open(here, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if new:
            self.files[self.base] = File(self._content())
            if same_inode and self._freed:
                self.disk.same_inode[os.fstat(fd).st_ino] = self._freed.pop()
            self._stamp(fd)
        self._writer = fd, self.files[self.base]

    def start_over(self, size: int) -> None:
        """A server started again with ``--log-file``: the file is truncated in place and written from its beginning."""
        self._retire_writer()
        self.lossy += 1
        here = self.directory / self.base
        fd = os.open(here, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        file = self.files.setdefault(self.base, File(self._content()))
        file.content.truncated = True
        file.content = self._content()
        self._writer = fd, file
        self._stamp(fd)
        if size:
            self.append(size)

    # The rotation.

    def rotate(self, *, create: bool) -> None:
        """logrotate by renaming; the writer goes on in the renamed file until it opens the path again."""
        if self.base not in self.files:
            return
        self._shift()
        self._rename(self.base, f"{self.base}.1")
        if create:
            (self.directory / self.base).touch(0o600)
            self.files[self.base] = File(self._content())
            self._stamp(self.directory / self.base)

    def copytruncate(self, lost: int) -> None:
        """logrotate with copytruncate; ``lost`` bytes are written between the copy and the truncation."""
        if self.base not in self.files:
            return
        self.lossy += 1
        self._shift()
        copy = f"{self.base}.1"
        shutil.copyfile(self.directory / self.base, self.directory / copy)
        file = self.files[self.base]
        self.files[copy] = File(file.content, len(file.content.data), by_copytruncate=True)
        self._stamp(self.directory / copy)
        if lost and self._writer is not None and self._writer[1] is file:
            self.append(lost)
        os.truncate(self.directory / self.base, 0)
        self._stamp(self.directory / self.base)
        file.content.truncated = True
        file.content = self._content()

    def compress(self, nth: int, kind: str) -> None:
        """A compressor replaces a rotated file, keeping the time of its last change."""
        plain = sorted(name for name in self.files if name[-1].isdigit())
        if not plain:
            return
        name = plain[nth % len(plain)]
        if any(writer is not None and writer[1] is self.files[name] for writer in (self._writer, self._old_writer)):
            return  # rotation tools wait until the writers have left it
        self.lossy += 1
        if self.files[name].by_copytruncate:
            self.files[name].content.untold = self.files[name].copied
        here, packed = self.directory / name, self.directory / (name + kind)
        data = here.read_bytes()
        stat = here.stat()
        pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress, ".bz2": bz2.compress}[kind]
        packed.write_bytes(pack(data))
        os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        old = self.files[name]
        self.files[name + kind] = File(old.content, len(data), by_copytruncate=old.by_copytruncate)
        self._unlink(name)

    def drop_oldest(self) -> None:
        """Retention deletes the oldest rotated file."""
        older = [name for name in self.files if name != self.base and self._number(name) is not None]
        if older:
            self.lossy += 1
            self._unlink(max(older, key=lambda name: self._number(name) or 0))

    def delete(self) -> None:
        """Delete the log; the writer goes on in it."""
        if self.base in self.files and not self._late:
            self.lossy += 1
            self._deleted = True
            self._unlink(self.base)

    def switch(self) -> None:
        """Switch the symbolic link to a new file, which the writer then opens."""
        if not self.path.is_symlink():
            return
        self.lossy += 1  # what was there between is not found again after a restart
        self._links += 1
        self.base = f"server-{'abcdefghijklmnopqrstuvwxyz'[self._links % 26]}{self._links}.log"
        new = self.directory / "new"
        new.symlink_to(self.base)
        new.replace(self.path)
        self.reopen()

    def close(self) -> None:
        self._retire_writer()
        self._retire_writer()

    # Inside.

    def _write(self, writer: tuple[int, File], size: int, newline: bool) -> None:
        fd, file = writer
        data = self._line(size, newline)
        if not file.content.data:
            data = self.banner + data
        os.write(fd, data)
        file.content.data += data
        self._stamp(fd)

    def _stamp(self, file: int | Path) -> None:
        """Changes lie 10 s apart, however fast the test is."""
        self._time_ns += 10_000_000_000
        os.utime(file, ns=(self._time_ns, self._time_ns))

    def _line(self, size: int, newline: bool) -> bytes:
        self._marks += 1
        mark = f"{self._marks:06}| ".encode()
        body = mark + bytes(97 + (self._marks * 7 + at) % 26 for at in range(max(0, size - MARK)))
        return body + b"\n" if newline else body

    def _content(self) -> Content:
        content = Content(len(self.contents))
        self.contents.append(content)
        return content

    def _number(self, name: str) -> int | None:
        for suffix in (".gz", ".xz", ".zst", ".bz2"):
            name = name.removesuffix(suffix)
        number = name.rsplit(".", 1)[-1]
        return int(number) if number.isdigit() and name.startswith(self.base) else None

    def _shift(self) -> None:
        numbered = [(self._number(name), name) for name in self.files]
        for number, name in sorted(((number, name) for number, name in numbered if number is not None), reverse=True):
            tail = name.removeprefix(f"{self.base}.{number}")
            self._rename(name, f"{self.base}.{number + 1}{tail}")

    def _rename(self, old: str, new: str) -> None:
        (self.directory / old).rename(self.directory / new)
        self.files[new] = self.files.pop(old)

    def _unlink(self, name: str) -> None:
        stat = self.disk.stat(self.directory / name) if not self.disk.hidden else None
        (self.directory / name).unlink()
        del self.files[name]
        if stat is not None:
            self._freed.append(stat.inode)

    def _retire_writer(self) -> None:
        if self._old_writer is not None:
            os.close(self._old_writer[0])
        self._old_writer, self._writer = self._writer, None


class Account:
    """What was delivered, byte by byte."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.content_of: dict[str, int] = {}
        """Token to content."""
        self._unknown: dict[str, bytes] = {}
        """Token to bytes that are too few to tell which content they are of."""
        self.read_to: dict[str, int] = {}
        """Token to the end of what was delivered of it; every token begins at 0."""
        self.current: str | None = None
        self.gaps: list[tuple[str, int, int]] = []
        """Token, offset, and how many contents there were when the gap was recorded."""
        self.seen: set[int] = set()
        """Contents that were there to be seen at a poll."""
        self.bases: dict[str, int] = {}
        """Where the path led to a file at an earlier poll, and the content there: older ones were never followed."""
        self.optional: dict[int, int] = {}
        """Content to the length at which it was left: what was added later may be missing."""

    def saved(self) -> Account:
        """As it is now; what a consumer stores in one transaction with the checkpoint."""
        copy = Account(self._world)
        for name in ("content_of", "_unknown", "read_to", "gaps", "seen", "bases", "optional"):
            setattr(copy, name, deepcopy(getattr(self, name)))
        copy.current = self.current
        return copy

    def there(self) -> None:
        """A poll is about to happen, and nothing hides the files."""
        world = self._world
        at_path = world.files.get(world.base)
        first = self.bases.get(world.base, len(world.contents))
        for name, file in world.files.items():
            older = name.startswith(world.base + ".") and file.content.number >= first and file.whole
            # What came and went under the same inode between two polls is not owed, although its copy may be read.
            if (file is at_path or (older and not file.by_copytruncate)) and file.content.data:
                self.seen.add(file.content.number)
        if at_path is not None:
            self.bases.setdefault(world.base, at_path.content.number)

    def take(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            getattr(self, f"_take_{piece.kind}")(piece)

    def _take_bytes(self, piece: Piece) -> None:
        assert piece.data
        assert self.current in (None, piece.file), "bytes of another file without a word"
        self.current = piece.file
        assert piece.offset == self.read_to.get(piece.file, 0), f"{piece.file}: not where the last bytes ended"
        so_far = self.read_to.get(piece.file, 0)
        self.read_to[piece.file] = so_far + len(piece.data)
        data = self._unknown.pop(piece.file, b"") + piece.data
        if piece.file not in self.content_of:
            if len(data) < MARK + len(self._world.banner):
                self._unknown[piece.file] = data
                return
            self._identify(piece.file, data)
        content = self._world.contents[self.content_of[piece.file]]
        end = self.read_to[piece.file]
        assert data == content.data[end - len(data) : end], f"{content}: other bytes than were written, up to {end}"

    def _identify(self, token: str, data: bytes) -> None:
        mark = data[: MARK + len(self._world.banner)]
        (content,) = [one for one in self._world.contents if one.data.startswith(mark)]
        assert content.number not in self.content_of.values(), f"{content} is delivered a second time"
        self.content_of[token] = content.number

    def _take_rotated(self, piece: Piece) -> None:
        left = self.content_of.get(self.current or "")
        if left is not None:
            self.optional[left] = len(self._world.contents[left].data)
        assert piece.file not in self.read_to, "a file comes back"
        self.current = piece.file

    def _take_gap(self, piece: Piece) -> None:
        assert piece.cause
        self.gaps.append((piece.file, piece.offset, len(self._world.contents)))

    def _take_idle(self, piece: Piece) -> None:
        assert piece.offset == self.read_to.get(piece.file, 0)

    def check(self) -> None:
        """At the end of everything: is any byte neither delivered nor in a gap?"""
        tokens = {number: token for token, number in self.content_of.items()}
        for content in self._world.contents:
            token = tokens.get(content.number)
            end = self.read_to[token] if token is not None else 0
            wanted = min(self.optional.get(content.number, len(content.data)), len(content.data))
            if content.untold is not None:
                wanted = min(wanted, content.untold)
            if content.number not in self.seen:
                continue
            if token is not None and content.truncated and content.untold is None and wanted == len(content.data):
                said = any(file == token or file not in self.content_of for file, _, _ in self.gaps)
                assert said, f"{content} was truncated, and no gap says so"
            if end >= wanted:
                continue
            # Of a file that was not read when the gap was recorded, it is not told which content was lost.
            excused = any(
                (contents > content.number and (token is None or file not in self.content_of))
                or (file == token and offset <= end)
                for file, offset, contents in self.gaps
            )
            assert excused, f"{content}: {wanted - end} bytes from {end} on are missing, and no gap says so"
        if not self._world.lossy:
            assert not self.gaps, "a gap although nothing was lost"
