"""Following one path: its bytes in order, each once, or a gap with its cause.

Rotation, truncation and deletion are told by looking, on every poll, at the open file and at what the path leads to;
notices from the kernel only make the next poll come sooner (``watch``). What is guaranteed and what cannot be:
docs/following.md.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from pathlib import Path
from typing import Literal

import msgspec

from sleepwatch.errors import SourceError
from sleepwatch.prefix import Head
from sleepwatch.sources.disk import Disk, Stat
from sleepwatch.sources.held import BLOCK, REWRITTEN, HeldFile, PackedFile, Place, PlainFile, open_plain_file
from sleepwatch.sources.identity import NOTHING, FileCheckpoint
from sleepwatch.sources.search import (
    MISSING,
    REFUSED,
    Found,
    Known,
    Next,
    copies,
    next_after,
    open_piece,
    same_head,
    search,
)
from sleepwatch.sources.tail import Bare, IsStart, search_start

LIMIT = 8 << 20
"""Bytes delivered in one poll, by default."""
GRACE_US = 2_000_000
"""A file that is no longer at the path is left when nothing was added to it for this long."""
DRAIN_LIMIT_US = 60_000_000
"""It is left after this long although it still grows or cannot be read, if the new one has bytes."""
LATE_US = 60_000_000
"""For this long after a file was left, what is still added to it is noticed."""
LATE_FILES = 8
WAITING_FILES = 16

ROTATED_AWAY = "rotated away while not watched"
TRUNCATED_AWAY = "truncated while not watched"
CUT = "its end was cut off"
PASSED_OVER = "replaced before it was read"
LATE = "added to a rotated file after it was left"
HOLE = "never written: the writer went on at its old place after a truncation"

_Name = Literal["following", "absent", "denied", "error"]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll found."""

    kind: Literal["bytes", "rotated", "gap", "idle"]
    """``bytes``: the next bytes. ``rotated``: the file is finished, what follows comes from the first byte of another.
    ``gap``: bytes are lost. ``idle``: nothing is new, and all that is there was read."""
    file: str
    """The token of the file it is about; of ``rotated``, of the file that follows. A file keeps its token for as long
    as it is known to be the same, whatever its name, and over a restart."""
    offset: int = 0
    """Of the first byte; of a gap, where it begins; of ``idle``, the end."""
    data: bytes = b""
    cause: str = ""
    length: int | None = None
    """How many bytes are lost in a gap; None where nobody can know."""


class State(msgspec.Struct, frozen=True):
    """How it stands with the path."""

    name: _Name
    since_us: int
    reason: str = ""


class FileFollower:
    """Follows one path. Never waits; what is wrong with the file shows in :attr:`state` and is no exception.

    ``checkpoint`` is where an earlier run had read to. Without one, a file that is there at the first poll is read
    from the start of its current life if ``backfill`` is set, else from its first byte; ``is_start`` tells a start
    marker, ``bare`` takes a carrier's wrapping off a line (see ``tail``). A file that appears later is always read from
    its first byte. Times are microseconds of a clock that never goes back.
    """

    def __init__(
        self,
        path: Path,
        checkpoint: FileCheckpoint | None,
        *,
        backfill: bool,
        is_start: IsStart | None = None,
        bare: Bare = bytes,
        disk: Disk | None = None,
    ) -> None:
        self.path = path
        self.state = State("absent", 0, "not looked at yet")
        """As of the last poll."""
        self.unread = 0
        """Bytes known to be there and not delivered, as of the last poll. What a compressed file still holds is not
        known."""
        self.caught_up = False
        """All that was there has been delivered once: what comes from now on is new."""
        self.grown_us: int | None = None
        """When bytes were last found."""
        self._disk = disk or Disk()
        self._backfill = backfill and checkpoint is None
        self._is_start = is_start or _never
        self._bare = bare
        self._now_us = 0
        self._polled = False
        self._status: tuple[_Name, str] = ("following", "")
        self._ordinal = checkpoint.ordinal if checkpoint is not None else 0
        self._last = checkpoint
        self._was_absent = checkpoint is not None
        self._resume = checkpoint if checkpoint is not None and checkpoint.inode else None
        self._search: Generator[None, None, Found] | None = None
        self._opening: tuple[PlainFile, Generator[None, None, int]] | None = None
        self._held: HeldFile | None = None
        self._waiting: list[PlainFile] = []
        """Files to be read after it, opened when they were first seen: what was seen can be lost no more by a name."""
        self._owed = set(checkpoint.waiting) if checkpoint is not None else set()
        """Inodes of files an earlier run saw at the path and had not come to."""
        self._unreadable: set[int] = set()
        """Inodes of rotated files that were given up."""
        self._late: list[tuple[PlainFile, int]] = []
        self._ahead = 0
        self._ended_us = 0
        """Since when nothing was added to the file being read."""
        self._elsewhere: tuple[Known, bool] | None = None
        """Where else the path leads while the open file is at its end, and whether anything is there."""
        self._elsewhere_us = 0
        """Since when."""

    # For the consumer.

    def poll(self, now_us: int, limit: int = LIMIT) -> list[Piece]:
        """What is new, at most ``limit`` bytes of it, in order."""
        self._now_us = now_us
        self._status = ("following", "")
        self._ahead = 0
        out: list[Piece] = []
        self._notice_late(out)
        try:
            at_end = self._advance(out, limit)
        except OSError as error:
            self._trouble(error)
            at_end = False
        name, reason = self._status
        since_us = self.state.since_us if self._polled and name == self.state.name else now_us
        self.state = State(name, since_us, reason)
        self._polled = True
        held = self._held
        self.unread = self._ahead + (held.size - held.offset if isinstance(held, PlainFile) else 0)
        self.caught_up = self.caught_up or at_end
        if at_end and not out and held is not None:
            out.append(Piece(kind="idle", file=held.place.file, offset=held.offset))
        return out

    def checkpoint(self, at: int | None = None) -> FileCheckpoint | None:
        """Where to go on after a restart: behind all that was delivered, or at ``at`` in the file last delivered from,
        if the consumer has dealt with less of it.

        None while nothing is known of the path. Where the bytes before ``at`` cannot be identified any more, an earlier
        place: then some bytes come twice.
        """
        held = self._held
        if held is None:
            if self._resume is None and self._was_absent:
                self._last = FileCheckpoint(path=str(self.path), ordinal=self._ordinal)
            return self._last
        try:
            now = held.checkpoint(at)
        except OSError:
            now = None
        if now is None and (self._last is None or self._last.file != held.place.file):
            whole = held.checkpoint()
            assert whole is not None
            now = msgspec.structs.replace(whole, anchor=NOTHING, offset=0)
        if now is not None:
            waiting = self._owed | {file.inode for file in self._waiting if file.size}
            self._last = msgspec.structs.replace(now, ordinal=self._ordinal, waiting=tuple(sorted(waiting)))
        return self._last

    def identities(self) -> set[Known]:
        """Device and inode of every file read under this path that is still known."""
        files: list[HeldFile | FileCheckpoint | None] = [self._held, self._resume, *self._waiting]
        files.extend(file for file, _ in self._late)
        return {(file.device, file.inode) for file in files if file is not None}

    @property
    def reading(self) -> bool:
        """A file is open; that can be so although the path leads to none (deleted, but still written to)."""
        return self._held is not None

    def close(self) -> None:
        """Give all descriptors back."""
        if self._search is not None:
            self._search.close()
        files = [self._held, self._opening[0] if self._opening else None, *self._waiting]
        for file in (*files, *(late for late, _ in self._late)):
            if file is not None:
                file.close()
        self._held = self._opening = self._search = None
        self._waiting, self._late = [], []

    # One poll.

    def _advance(self, out: list[Piece], limit: int) -> bool:
        """Read on, through as many files as there are. Has all been read?"""
        while limit > 0:
            if self._held is None and not self._begin(out, limit):
                return self._resume is None and self._status[0] == "absent"
            failure: OSError | None = None
            try:
                limit = self._read(out, limit)
            except OSError as error:
                failure = error
                self._trouble(error)
                if error.errno == errno.ESTALE:
                    self._lose()
                    return False
            held = self._held
            assert held is not None
            if failure is None and not held.at_end():
                self._look_ahead(held, out)
                return False
            if not self._go_on(out, failure):
                return failure is None and self._ahead == 0 and self._status[0] in ("following", "absent")
        return False

    def _read(self, out: list[Piece], limit: int) -> int:
        """Read the open file to its end as it is now; what is left of the limit."""
        while limit > 0:
            held = self._held
            assert held is not None
            cause = held.look()
            if isinstance(held, PlainFile) and held.cut:
                out.append(self._gap(CUT, offset=held.size, length=held.cut))
            before = held.offset
            try:
                data = held.read(limit) if cause is None else None
            except SourceError as error:
                assert isinstance(held, PackedFile)
                out.append(self._gap(str(error)))
                held.give_up()
                break
            if data is None:
                assert isinstance(held, PlainFile)
                self._replaced(held, cause or REWRITTEN, out)
                continue
            if data:
                offset = held.offset - len(data)
                if isinstance(held, PlainFile) and 0 < held.hole == offset:
                    out.append(self._gap(HOLE, offset=0, length=held.hole))
                out.append(Piece(kind="bytes", file=held.place.file, offset=offset, data=data))
                self.grown_us = self._now_us
            if held.offset > before:
                self._ended_us = self._now_us
                limit = max(0, limit - (held.offset - before))
            if held.offset == before or held.at_end():
                break
        return limit

    def _go_on(self, out: list[Piece], failure: OSError | None) -> bool:
        """At the end of the open file, or where it cannot be read: turn to the next, if there is one and it is time."""
        held = self._held
        assert held is not None
        stat = self._look_ahead(held, out)
        if stat is not None and _is_at_path(held, stat):
            self._elsewhere = None
            return False
        elsewhere = ((stat.device, stat.inode), stat.size > 0) if stat is not None else ((0, 0), False)
        if elsewhere != self._elsewhere:
            self._elsewhere, self._elsewhere_us = elsewhere, self._now_us
        drained = self._now_us - self._elsewhere_us >= DRAIN_LIMIT_US
        settled = self._now_us - max(self._elsewhere_us, self._ended_us) >= GRACE_US
        finished = isinstance(held, PackedFile) or bool(held.broken) or (held.passing and held.size == 0)
        read = [file for file, _ in self._late] + ([held] if isinstance(held, PlainFile) else [])
        passed = {elsewhere[0], *(_identity(file) for file in read if file.links)}
        following = next_after(self._disk, held, passed, self._unreadable, empty=finished)
        written = following.written or any(file.size for file in self._waiting)
        there = stat.size if stat is not None else 0
        self._ahead = max(following.size, there, sum(file.size for file in self._waiting))
        if following.path is not None:
            if failure is not None and not drained:
                return False
            new = self._open_rotated(following, out)
            if new is None:
                self._ahead = max(1, self._ahead)
                return False
        else:
            if not self._waiting or not (written or finished):
                return False  # nobody writes to another file yet
            if not finished and not drained and not (settled and failure is None):
                return False
            new = self._waiting[0]
        if failure is not None:
            length = held.size - held.offset if isinstance(held, PlainFile) else None
            out.append(self._gap(f"could not be read: {_words(failure)}", length=length))
        if held.broken:
            out.append(self._gap(held.broken))
            if new not in self._waiting:
                new.broken = held.broken
        if following.missing:
            out.append(self._gap(f"rotated away: {following.missing} file{'s' * (following.missing > 1)} missing"))
        self._owed -= {new.inode, *(file.inode for file in self._waiting)}
        if following.path is None and self._owed:
            out.append(self._gap(ROTATED_AWAY))
            self._owed.clear()
        if isinstance(new, PlainFile):
            new.passing = written
        self._turn_to(new, out)
        return True

    def _look_ahead(self, held: HeldFile, out: list[Piece]) -> Stat | None:
        """Open what the path leads to now, if it is another file, and look at the others that wait."""
        stat = self._look_at_path()
        if stat is not None and _is_at_path(held, stat):
            self._pass_over(out)
            return stat
        for at, file in enumerate(self._waiting):
            cause = file.look()
            if cause is not None:
                out.append(Piece(kind="gap", file=file.place.file, cause=cause))
                self._waiting[at] = file.anew(self._place(file.place.target))
                self._waiting[at].look()
        known = any(_is_at_path(file, stat) for file in self._waiting) if stat is not None else True
        if not known and len(self._waiting) < WAITING_FILES:
            try:
                new = open_plain_file(self._disk, self.path, self._place())
            except OSError as error:
                self._trouble(error)
                return stat
            new.look()
            self._waiting.append(new)
        return stat

    def _pass_over(self, out: list[Piece]) -> None:
        """The path leads to the open file again: those seen there meanwhile are not read."""
        for file in self._waiting:
            if file.size:
                out.append(Piece(kind="gap", file=file.place.file, cause=PASSED_OVER, length=file.size))
            file.close()
        self._waiting = []

    def _turn_to(self, new: HeldFile, out: list[Piece]) -> None:
        """Leave the open file for another."""
        old = self._held
        if isinstance(old, PlainFile) and not old.broken:
            self._late.append((old, self._now_us))
            if len(self._late) > LATE_FILES:
                self._late.pop(0)[0].close()
        elif old is not None:
            old.close()
        if new in self._waiting:
            assert isinstance(new, PlainFile)
            self._waiting.remove(new)
        self._held = new
        self._elsewhere = None
        self._ended_us = self._now_us
        self._ahead = 0
        out.append(Piece(kind="rotated", file=new.place.file))

    def _replaced(self, held: PlainFile, cause: str, out: list[Piece]) -> None:
        """Other bytes stand where we were: what was not yet read is in a copy, if copytruncate made one, or lost."""
        if held.broken and self._waiting:  # the copy itself
            out.append(self._gap(cause))
            self._turn_to(self._waiting[0], out)
            return
        new = held.anew(self._place(held.place.target))
        new.look()
        checkpoint = held.checkpoint()
        assert checkpoint is not None
        passed = self.identities()
        copy = _at_once(
            copies(self._disk, held.place.target.parent, held.place, checkpoint, packed=False, passed=passed)
        )
        if copy is not None:
            copy.broken = cause
            self._held = copy
            self._waiting.insert(0, new)
            return
        out.append(self._gap(cause))
        self._held = new
        self._ended_us = self._now_us
        out.append(Piece(kind="rotated", file=new.place.file))

    def _open_rotated(self, following: Next, out: list[Piece]) -> HeldFile | None:
        """Open the next rotated file; None where that must be tried again, or it was given up."""
        held, path = self._held, following.path
        assert held is not None
        assert path is not None
        for file in self._waiting:
            if file.inode == following.inode or (
                file.links == 0
                and (file.written_ns < following.written_ns or (file.head and same_head(self._disk, path, file)))
            ):
                return self._waiting[0]  # it waits itself (perhaps compressed meanwhile), or an older one does
        try:
            return open_piece(self._disk, path, self._place(held.place.target))
        except (OSError, SourceError) as error:
            if isinstance(error, OSError):
                if error.errno in MISSING:
                    return None  # renamed meanwhile
                if error.errno not in REFUSED:
                    raise
            self._unreadable.add(following.inode)
            out.append(self._gap(f"{path.name} could not be read: {_words(error)}"))
            return None

    # The first file.

    def _begin(self, out: list[Piece], limit: int) -> bool:
        """Open the first file, at the place to begin at. Is it open?"""
        if self._opening is None and self._resume is not None:
            return self._find(self._resume, out, limit)
        stat = self._look_at_path()
        if stat is None and self._opening is None:
            if self._status[0] == "absent":
                self._was_absent, self._backfill = True, False
            return False
        if self._opening is None:
            assert stat is not None
            self._ahead = stat.size
            file = open_plain_file(self._disk, self.path, self._place())
            if not self._backfill:
                self._held = file
                self._ahead = 0
                return True
            self._opening = file, search_start(self._disk, file.fd, stat.size, self._is_start, bare=self._bare)
        file, steps = self._opening
        try:
            for _ in range(max(1, limit // BLOCK)):
                next(steps)
        except StopIteration as done:
            file.start_at(done.value)
            self._opening, self._held = None, file
            self._ahead = 0
        except OSError:
            file.close()
            self._opening = None
            raise
        return self._held is not None

    def _find(self, wanted: FileCheckpoint, out: list[Piece], limit: int) -> bool:
        """Look for the file an earlier run was in. Is it, or what follows it, open?"""
        stat = self._look_at_path()
        self._ahead = stat.size if stat is not None else 0
        if self._search is None:
            self._search = search(self._disk, self.path, wanted)
        try:
            for _ in range(max(1, limit // BLOCK)):
                next(self._search)
            return False
        except StopIteration as done:
            found: Found = done.value
            self._search = None
        except OSError:
            self._search = None
            raise
        if found.held is not None:
            self._held = found.held
            if found.in_place and not found.held.broken:
                found.held.broken = TRUNCATED_AWAY
        elif stat is None:
            return False  # it may come back with the path: a file system that is mounted late
        else:
            self._held = open_plain_file(self._disk, self.path, self._place())
            cause = TRUNCATED_AWAY if found.in_place else ROTATED_AWAY
            out.append(Piece(kind="gap", file=wanted.file, offset=wanted.offset, cause=cause))
            out.append(Piece(kind="rotated", file=self._held.place.file))
            self._owed.clear()
        self._resume = None
        self._ahead = 0
        self._ended_us = self._now_us
        return True

    def _lose(self) -> None:
        """The descriptor is of no use any more (a network file system forgot the file): look for the file again."""
        assert self._held is not None
        self._resume = self.checkpoint()
        for file in (self._held, *self._waiting):
            file.close()
        self._held, self._waiting = None, []

    # Small things.

    def _look_at_path(self) -> Stat | None:
        """What the path leads to; None where it leads to nothing that can be followed."""
        try:
            stat = self._disk.stat(self.path)
        except OSError as error:
            self._trouble(error)
            return None
        if not stat.regular:
            self._status = ("error", "not a regular file")
            return None
        return stat

    def _trouble(self, error: OSError) -> None:
        name: _Name = "absent" if error.errno in MISSING else "denied" if error.errno in REFUSED else "error"
        self._status = (name, _words(error))

    def _place(self, target: Path | None = None) -> Place:
        """For a file not read before."""
        self._ordinal += 1
        return Place(self.path, target or self._disk.resolve(self.path), str(self._ordinal))

    def _gap(self, cause: str, *, offset: int | None = None, length: int | None = None) -> Piece:
        held = self._held
        assert held is not None
        at = held.offset if offset is None else offset
        return Piece(kind="gap", file=held.place.file, offset=at, cause=cause, length=length)

    def _notice_late(self, out: list[Piece]) -> None:
        """What is added to files that were left is lost, but not silently."""
        kept = []
        for file, left_us in self._late:
            try:
                stat = file.fstat()
            except OSError:
                file.close()
                continue
            if stat.size > file.size:
                added = stat.size - file.size
                out.append(Piece(kind="gap", file=file.place.file, offset=file.size, cause=LATE, length=added))
            file.size, file.links = stat.size, stat.links
            if self._now_us - left_us < LATE_US:
                kept.append((file, left_us))
            else:
                file.close()
        self._late = kept


def _is_at_path(held: HeldFile, stat: Stat) -> bool:
    """Does the path lead to the open file? A deleted one's inode is not, though a file system may use it again."""
    if isinstance(held, PackedFile) or _identity(held) != (stat.device, stat.inode):
        return False
    return held.links > 0 or stat.links == 0


def _identity(file: HeldFile) -> Known:
    return file.device, file.inode


def _at_once(steps: Generator[None, None, HeldFile | None]) -> HeldFile | None:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: HeldFile | None = done.value
            return found


def _words(error: Exception) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def _never(head: Head) -> bool:
    return False
