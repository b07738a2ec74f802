"""Where is the file we had read up to here? And which one was written next?

A path leads to another file after a rotation, and the file itself then stands beside it under another name, perhaps
compressed, perhaps as a copy. It is known again by inode and content (``identity``), and what was written after it is
told by the names (``rotation``).
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Generator, Sequence
from pathlib import Path

import msgspec

from sleepwatch.errors import SourceError
from sleepwatch.lognames import COMPRESSED
from sleepwatch.sources.disk import Disk, Entry, Stat
from sleepwatch.sources.held import HeldFile, PackedFile, Place, PlainFile, open_plain_file
from sleepwatch.sources.identity import EVIDENCE_BYTES, HEAD_BYTES, WRITTEN_SLACK_NS, FileCheckpoint
from sleepwatch.sources.rotation import Rotated, rotated

MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
REFUSED = frozenset({errno.EACCES, errno.EPERM})
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

SECOND_NS = 1_000_000_000

Known = tuple[int, int]
"""Device and inode."""
Version = tuple[int, int]
"""Inode and last change."""


class Found(msgspec.Struct, frozen=True):
    """The answer of :func:`search`."""

    held: HeldFile | None
    """Open, at the checkpoint's offset; None where the file is gone."""
    in_place: bool
    """It was truncated in place: the path still leads to the same inode with another content, or what was found is a
    copy. What was lost then nobody can know."""


class Next(msgspec.Struct, frozen=True):
    """What was written after a file."""

    path: Path | None
    """None: nothing but what the followed path itself leads to."""
    inode: int = 0
    size: int = 0
    written_ns: int = 0
    written: bool = False
    """There are bytes in it, or in one after it."""
    missing: int = 0
    """Rotated files that must have stood between, by their numbers."""


def search(disk: Disk, path: Path, checkpoint: FileCheckpoint) -> Generator[None, None, Found]:
    """Find the file of a checkpoint: at the path, where the path led then, and among the rotated files beside it.

    Works in steps of at most one block. Raises OSError where the path itself cannot be looked at or read: then nothing
    can be said yet.
    """
    in_place = False
    target = Path(checkpoint.target or path)
    place = Place(path, target, checkpoint.file)
    for where in dict.fromkeys((path, target)):
        try:
            stat = disk.stat(where)
        except OSError as error:
            if where is path and error.errno not in MISSING:
                raise
            continue
        if stat.inode == checkpoint.inode and stat.regular:
            in_place = True
            if checkpoint.evidence == 0 and _any_newer(disk, place, checkpoint):
                continue  # it was empty then; what became of it since may be in those
            held = open_plain_file(disk, where, place)
            if (yield from _is_it(held, checkpoint, strict=True)):
                return Found(held, False)
    now = disk.resolve(path)
    directories = list(dict.fromkeys((target.parent, now.parent)))
    for directory in directories:
        for entry in files_in(disk, directory):
            if entry.inode == checkpoint.inode and directory / entry.name not in (path, target, now):
                same = _open(disk, directory / entry.name, place)
                if same is not None and (yield from _is_it(same, checkpoint)):
                    return Found(same, False)
    for directory in directories:
        copy = yield from copies(disk, directory, place, checkpoint, packed=True)
        if copy is not None:
            return Found(copy, in_place or not copy.packed)
    return Found(None, in_place)


def _any_newer(disk: Disk, place: Place, checkpoint: FileCheckpoint) -> bool:
    """Was a rotated file written to after this checkpoint?"""
    directory = place.target.parent
    stats = (_stat(disk, directory / piece.name) for piece in rotated(files_in(disk, directory), place.target.name))
    return any(stat is not None and stat.written_ns > checkpoint.written_ns for stat in stats)


def copies(
    disk: Disk,
    directory: Path,
    place: Place,
    checkpoint: FileCheckpoint,
    *,
    packed: bool,
    passed: Collection[Known] = (),
) -> Generator[None, None, HeldFile | None]:
    """Find a copy of the file among its rotated names: made by copytruncate or by a compressor, so of another inode.

    The oldest that fits: were it the wrong one of two, bytes would be read twice, but none left out.
    """
    if checkpoint.evidence < EVIDENCE_BYTES:
        return None
    for piece in rotated(files_in(disk, directory), place.target.name):
        where = directory / piece.name
        if piece.compressed and not packed:
            continue
        stat = _stat(disk, where)
        if stat is None or stat.written_ns < checkpoint.written_ns - WRITTEN_SLACK_NS:
            continue
        if _known(stat) in passed:
            continue
        held = _open(disk, where, place)
        if held is not None and (yield from _is_it(held, checkpoint)):
            return held
    return None


def next_after(
    disk: Disk, held: HeldFile, at_path: Known, left: Sequence[PlainFile], done: Collection[Version], *, empty: bool
) -> Next:
    """Which file was written after this one, before the one the followed path leads to now (``at_path``)?

    ``left`` are files read before it, ``done`` others that are not to be read. If those that follow are all empty,
    nothing has been written after this one yet: then the first of them is the next only with ``empty``.
    """
    target = held.place.target
    base = _stat(disk, target)
    if base is not None and _has_name(held) and _known(base) == (held.device, held.inode):
        return Next(None)  # nothing was rotated: the path leads elsewhere
    pieces = rotated(files_in(disk, target.parent), target.name)
    here = _place_of(disk, held, pieces)
    missing = 0
    if here is not None:
        newer = [piece for piece in pieces if piece.form == here.form and piece.order > here.order]
        if here.number is not None:
            following = newer[0].number if newer else None
            missing = max(0, here.number - 1 if following is None else here.number - following - 1)
    else:
        # Its name tells nothing (deleted, moved away): what was changed since it was opened was written later.
        newer = [piece for piece in pieces if piece.form != "inner number" and _is_later(disk, held, piece, left)]
    found: list[tuple[Path, Stat | None]] = []
    for piece in newer:
        where = target.parent / piece.name
        found.append((where, _stat(disk, where)))
    if base is not None and _known(base) != at_path and not _is_read(held, left, base):
        found.append((target, base))
    found = [(path, stat) for path, stat in found if stat is None or (stat.inode, stat.written_ns) not in done]
    written = any(stat is None or stat.size for _, stat in found)
    if not found or not (written or empty):
        return Next(None, missing=missing)
    where, stat = found[0]
    if stat is None:
        return Next(where, written=written, missing=missing)
    return Next(where, stat.inode, stat.size, stat.written_ns, written, missing)


def _place_of(disk: Disk, held: HeldFile, pieces: Sequence[Rotated]) -> Rotated | None:
    """Which of the rotated files it is, perhaps compressed meanwhile."""
    if _has_name(held):
        for piece in pieces:
            if piece.inode == held.inode:
                return piece
    return next((piece for piece in pieces if is_copy(disk, held.place.target.parent / piece.name, held)), None)


def _has_name(held: HeldFile) -> bool:
    """Is it still in some directory? The inode number of a deleted file may be another's."""
    return isinstance(held, PackedFile) or held.links > 0


def _is_later(disk: Disk, held: HeldFile, piece: Rotated, left: Sequence[PlainFile]) -> bool:
    """Was this piece changed since the held file was opened, and not read before it?"""
    where = held.place.target.parent / piece.name
    stat = _stat(disk, where)
    if stat is None or stat.written_ns < held.since_ns or _is_read(held, left, stat):
        return False
    return not any(not file.links and is_copy(disk, where, file) for file in left)


def _is_read(held: HeldFile, left: Sequence[PlainFile], stat: Stat) -> bool:
    """Is this file the held one, or one of those read before it?"""
    return any(_has_name(file) and _known(stat) == (file.device, file.inode) for file in (held, *left))


def _known(stat: Stat) -> Known:
    return stat.device, stat.inode


def open_piece(disk: Disk, path: Path, place: Place) -> HeldFile:
    """Open a rotated file at its beginning. Raises OSError, or SourceError for a compression that is not read."""
    if path.name.endswith(COMPRESSED):
        return PackedFile(disk, disk.open(path), place, str(path))
    return open_plain_file(disk, path, place)


def files_in(disk: Disk, directory: Path) -> list[Entry]:
    """The regular files in a directory; none where it cannot be listed."""
    try:
        return disk.listing(directory)
    except OSError:
        return []


def _is_it(held: HeldFile, checkpoint: FileCheckpoint, *, strict: bool = False) -> Generator[None, None, bool]:
    """Does it fit? Closes it if not. A rotated file that cannot be read is not it; strictly, OSError is raised."""
    fits = False
    try:
        fits = yield from held.fits(checkpoint)
    except SourceError:
        pass
    except OSError:
        if strict:
            raise
    finally:
        if not fits:
            held.close()
    held.broken = checkpoint.broken
    return fits


def _open(disk: Disk, path: Path, place: Place) -> HeldFile | None:
    """None where it cannot be opened. Raises OSError where that says nothing about the file."""
    try:
        return open_piece(disk, path, place)
    except SourceError:
        return None
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return None


def _stat(disk: Disk, path: Path) -> Stat | None:
    try:
        return disk.stat(path)
    except OSError:
        return None


def is_copy(disk: Disk, path: Path, file: HeldFile) -> bool:
    """Does this path hold what an open file holds: compressed since, or copied?

    A compressor keeps the time of the last change, some in whole seconds: of those, the time and the head are compared.
    """
    if isinstance(file, PackedFile) or not file.head:
        return False
    stat = _stat(disk, path)
    if stat is None or stat.written_ns < file.written_ns - SECOND_NS:
        return False
    other = _open(disk, path, file.place)
    if other is None:
        return False
    try:
        if isinstance(other, PackedFile):
            other.read_head(HEAD_BYTES)
            return other.head == file.head and stat.written_ns <= file.written_ns
        return file.is_copied_in(other)
    except (OSError, SourceError):
        return False
    finally:
        other.close()
