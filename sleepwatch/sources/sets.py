"""Which files belong together: rotated pieces of one log, in the order they were written.

Names tell which files are of one log (``server.log``, ``server.log.1``, ``server.log.2.gz``, ``server.log-20261130``).
Wall times tell their order where the carrier writes them, else the rotation's own names; whether each really goes on
where the one before ended is seen when they are read, by the server's own clock.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from sleepwatch.envelopes import detect
from sleepwatch.errors import SourceError
from sleepwatch.sources.archives import open_plain, read_block
from sleepwatch.sources.rotation import age_of, base_of, number_of
from sleepwatch.times import LocalTimes

_LOOK = 64 << 10


class Piece(msgspec.Struct, frozen=True):
    """One file of a log."""

    path: Path
    missing: str | None = None
    """Why lines are missing between the piece before and this one; None where they join."""


class LogSet(msgspec.Struct, frozen=True):
    """The files of one log, oldest first."""

    name: str
    pieces: tuple[Piece, ...]


class _Ends(msgspec.Struct):
    """What a file's name and beginning say of its place among others."""

    path: Path
    age: tuple[int, str]
    number: int | None
    digest: bytes
    wall_us: int | None
    """Its earliest wall time among the first records."""


def log_sets(paths: Sequence[str]) -> tuple[list[LogSet], list[tuple[str, str]]]:
    """Group paths into logs; also the paths that cannot be used, with a sentence why.

    A directory stands for the log files in it (not below it), a pattern for what it matches. ``-`` is a set of its own.
    """
    failed: list[tuple[str, str]] = []
    groups: dict[str, list[Path]] = {}
    for path in _files(paths, failed):
        groups.setdefault(_base(path), []).append(path)
    sets = []
    for base, files in groups.items():
        unique = list(dict.fromkeys(files))
        try:
            pieces = _ordered(unique) if len(unique) > 1 else (Piece(unique[0]),)
        except SourceError:
            pieces = tuple(Piece(path) for path in unique)  # the one that cannot be read is named when it is read
        sets.append(LogSet(base, pieces))
    return sets, failed


def beside(path: Path) -> list[Path]:
    """The other files of the same log, by their names: what rotation has made of it. Empty where none can be read."""
    try:
        files = [one for one in path.parent.iterdir() if one.is_file()]
    except OSError:
        return []
    return sorted(one for one in files if one != path and base_of(one.name) == base_of(path.name))


def _files(paths: Iterable[str], failed: list[tuple[str, str]]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if name == "-" or os.path.isfile(path) or not (os.path.exists(path) or glob.has_magic(name)):
            yield path
        elif os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK):
            failed.append((name, f"{name}: permission denied"))
        elif os.path.isdir(path):
            inside = sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith("."))
            if not inside:
                failed.append((name, f"{name}: no file in this directory (name the log files themselves)"))
            yield from inside
        elif os.path.exists(path):
            yield path
        else:
            found = sorted(glob.glob(name))
            if not found:
                failed.append((name, f"{name}: matches no file"))
            yield from (Path(one) for one in found if Path(one).is_file())


def _base(path: Path) -> str:
    return str(path) if str(path) == "-" else str(path.parent / base_of(path.name))


def _ordered(files: list[Path]) -> tuple[Piece, ...]:
    """Oldest first; copies of one piece (compressed beside plain) once; a break in the order is a gap."""
    ends: dict[bytes, _Ends] = {}
    for path in files:
        end = _ends(path)
        if end is not None:
            ends.setdefault(end.digest, end)
    pieces = list(ends.values())
    if all(piece.wall_us is not None for piece in pieces):
        pieces.sort(key=lambda piece: piece.wall_us or 0)
    else:
        pieces.sort(key=lambda piece: piece.age)
    out: list[Piece] = []
    for before, piece in zip([None, *pieces], pieces, strict=False):
        out.append(Piece(piece.path, _break(before, piece)))
    return tuple(out)


def _break(before: _Ends | None, piece: _Ends) -> str | None:
    """Do the names say that a piece is missing before this one? (What the clocks say is seen when it is read.)"""
    if before is None or before.number is None or piece.number is None:
        return None
    skipped = before.number - piece.number - 1
    if skipped <= 0:
        return None
    return f"rotated away: {skipped} file{'s' * (skipped > 1)} between {before.path.name} and {piece.path.name}"


def _ends(path: Path) -> _Ends | None:
    """None for an empty file."""
    with open_plain(path) as stream:
        head = read_block(stream, _LOOK, str(path))
    if not head:
        return None
    envelope = detect(head, local=LocalTimes(reference_us=path.stat().st_mtime_ns // 1000))
    wall = None
    if envelope.name != "bare":
        records = envelope.feed(head[: head.rfind(b"\n") + 1], 0)
        walls = [record.wall_us for record in records if record.wall_us is not None]
        wall = min(walls, default=None)
    name = path.name
    digest = hashlib.sha256(head).digest()
    return _Ends(path=path, age=age_of(name), number=number_of(name), digest=digest, wall_us=wall)
