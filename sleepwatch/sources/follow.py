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

from sleepwatch.errors import SourceError, os_words
from sleepwatch.sources.disk import Disk, Stat
from sleepwatch.sources.held import BLOCK, HeldFile, PackedFile, Place, PlainFile, open_plain_file
from sleepwatch.sources.identity import FileCheckpoint
from sleepwatch.sources.neighbours import Coming, Left
from sleepwatch.sources.piece import HOLE, REWRITTEN, ROTATED_AWAY, TRUNCATED_AWAY, Piece, gap
from sleepwatch.sources.search import (
    MISSING,
    REFUSED,
    Found,
    Known,
    Next,
    Version,
    copies,
    next_after,
    open_piece,
    search,
)
from sleepwatch.sources.tail import NO_MARKERS, StartMarkers, search_start

__all__ = ["DRAIN_LIMIT_US", "GRACE_US", "LIMIT", "FileCheckpoint", "FileFollower", "Piece", "State"]

LIMIT = 8 << 20
"""Bytes delivered in one poll, by default."""
GRACE_US = 2_000_000
"""A file that is no longer at the path is left when nothing was added to it for this long."""
DRAIN_LIMIT_US = 60_000_000
"""It is left after this long although it still grows or cannot be read, if the new one has bytes."""

_Name = Literal["following", "absent", "denied", "error"]


class State(msgspec.Struct, frozen=True):
    """How it stands with the path."""

    name: _Name
    since_us: int
    reason: str = ""


class FileFollower:
    """Follows one path. Never waits; what is wrong with the file shows in :attr:`state` and is no exception.

    ``checkpoint`` is where an earlier run had read to. Without one, a file that is there at the first poll is read
    from the start of its current life if ``backfill`` is set, else from its first byte (``starts`` tells a line printed
    at a start: see ``tail``). A file that appears later is always read from its first byte. Times are microseconds of a
    clock that never goes back.
    """

    def __init__(
        self,
        path: Path,
        checkpoint: FileCheckpoint | None,
        *,
        backfill: bool,
        starts: StartMarkers = NO_MARKERS,
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
        self._starts = starts
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
        self._coming = Coming(checkpoint.waiting if checkpoint is not None else ())
        self._left = Left()
        self._unreadable: set[Version] = set()
        """Rotated files that were given up."""
        self._ahead = 0
        """Bytes known to wait in other files."""
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
        out = self._left.look(now_us)
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

    def checkpoint(self) -> FileCheckpoint | None:
        """Where to go on after a restart: behind all that was delivered. None while nothing is known of the path."""
        if self._held is not None:
            self._last = self._complete(self._held.checkpoint())
        elif self._resume is not None:
            self._last = self._resume
        elif self._was_absent:
            self._last = FileCheckpoint(path=str(self.path), ordinal=self._ordinal)
        return self._last

    def identities(self) -> set[Known]:
        """Device and inode of every file read under this path that is still known."""
        files: list[HeldFile | FileCheckpoint | None] = [self._held, self._resume, *self._left]
        return {_identity(file) for file in files if file is not None} | self._coming.identities()

    @property
    def reading(self) -> bool:
        """A file is open; that can be so although the path leads to none (deleted, but still written to)."""
        return self._held is not None

    def close(self) -> None:
        """Give all descriptors back."""
        if self._search is not None:
            self._search.close()
        for file in (self._held, self._opening[0] if self._opening else None):
            if file is not None:
                file.close()
        self._held = self._opening = self._search = None
        self._coming.close()
        self._left.close()

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
            held = self._held
            assert held is not None
            if failure is not None and failure.errno == errno.ESTALE:
                self._lose(held)
                return False
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
                    out.append(gap(held.place.file, 0, HOLE, held.hole))
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
        if stat is not None and held.is_at(stat):
            self._elsewhere = None
            return False
        elsewhere = ((stat.device, stat.inode), stat.size > 0) if stat is not None else ((0, 0), False)
        if elsewhere != self._elsewhere:
            self._elsewhere, self._elsewhere_us = elsewhere, self._now_us
        drained = self._now_us - self._elsewhere_us >= DRAIN_LIMIT_US
        settled = self._now_us - max(self._elsewhere_us, self._ended_us) >= GRACE_US
        finished = isinstance(held, PackedFile) or bool(held.broken) or (held.passing and held.size == 0)
        waiting = self._coming.bytes
        empty = finished or waiting > 0
        done = self._unreadable.union(self._left.forgotten)
        following = next_after(self._disk, held, elsewhere[0], list(self._left), done, empty=empty)
        written = following.written or waiting > 0
        self._ahead = max(following.size, waiting, stat.size if stat is not None else 0)
        if following.path is None and not self._coming.files:
            return False
        if finished or following.size:
            # Nobody writes to it any more; or its writer has gone on to a file that was renamed in its turn.
            if failure is not None and not drained:
                return False
        elif not written or not (drained or (settled and failure is None)):
            return False
        new = self._open_next(held, following, out)
        if new is None:
            self._ahead = max(1, self._ahead)
            return False
        self._account_for_losses(held, new, following, failure, out)
        if isinstance(new, PlainFile):
            new.passing = written
        self._turn_to(new, out)
        return True

    def _account_for_losses(
        self, held: HeldFile, new: HeldFile, following: Next, failure: OSError | None, out: list[Piece]
    ) -> None:
        """Record what is lost when this file is left for that one."""
        if failure is not None:
            length = held.size - held.offset if isinstance(held, PlainFile) else None
            out.append(self._gap(f"could not be read: {_words(failure)}", length=length))
        if held.broken:
            out.append(self._gap(held.broken))
            if new not in self._coming:
                new.broken = held.broken
        if following.missing:
            out.append(self._gap(f"rotated away: {following.missing} file{'s' * (following.missing > 1)} missing"))
        if not self._coming.settle(new, last=following.path is None):
            out.append(self._gap(ROTATED_AWAY))

    def _look_ahead(self, held: HeldFile, out: list[Piece]) -> Stat | None:
        """Open what the path leads to now, if it is another file, and look at the others that wait."""
        stat = self._look_at_path()
        if stat is not None and held.is_at(stat):
            out += self._coming.pass_over()
            return stat
        out += self._coming.look(self._place)
        if stat is not None and not self._coming.knows(stat) and not self._coming.full():
            try:
                new = open_plain_file(self._disk, self.path, self._place())
            except OSError as error:
                self._trouble(error)
                return stat
            new.look()
            self._coming.files.append(new)
        return stat

    def _turn_to(self, new: HeldFile, out: list[Piece]) -> None:
        """Leave the open file for another."""
        assert self._held is not None
        self._left.add(self._held, self._now_us)
        self._coming.remove(new)
        self._begin_with(new)
        out.append(Piece(kind="rotated", file=new.place.file))

    def _begin_with(self, new: HeldFile) -> None:
        self._held = new
        self._elsewhere = None
        self._ended_us = self._now_us
        self._ahead = 0

    def _replaced(self, held: PlainFile, cause: str, out: list[Piece]) -> None:
        """Other bytes stand where we were: what was not yet read is in a copy, if copytruncate made one, or lost."""
        if held.broken and self._coming.files:  # the copy itself
            out.append(self._gap(cause))
            self._turn_to(self._coming.files[0], out)
            return
        checkpoint = held.checkpoint()
        passed = self.identities()
        copy = _at_once(
            copies(self._disk, held.place.target.parent, held.place, checkpoint, packed=False, passed=passed)
        )
        new = held.anew(self._place(held.place.target))
        new.look()
        if copy is not None:
            copy.broken = cause
            self._held = copy
            self._coming.files.insert(0, new)
            return
        out.append(self._gap(cause))
        self._begin_with(new)
        out.append(Piece(kind="rotated", file=new.place.file))

    def _open_next(self, held: HeldFile, following: Next, out: list[Piece]) -> HeldFile | None:
        """Open the file that follows; None where that must be tried again, or it was given up."""
        path = following.path
        if path is None:
            return self._coming.files[0]
        waiting = self._coming.at_its_turn(self._disk, path, following)
        if waiting is not None:
            return waiting
        try:
            return open_piece(self._disk, path, self._place(held.place.target))
        except (OSError, SourceError) as error:
            if isinstance(error, OSError):
                if error.errno in MISSING:
                    return None  # renamed meanwhile
                if error.errno not in REFUSED:
                    raise
            self._unreadable.add((following.inode, following.written_ns))
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
        if stat is not None:
            self._ahead = stat.size
        if self._opening is None:
            assert stat is not None
            file = open_plain_file(self._disk, self.path, self._place())
            if not self._backfill:
                self._begin_with(file)
                return True
            self._opening = file, search_start(self._disk, file.fd, stat.size, self._starts)
        file, steps = self._opening
        try:
            for _ in range(max(1, limit // (4 * BLOCK))):
                next(steps)
        except StopIteration as done:
            file.start_at(done.value)
            self._opening = None
            self._begin_with(file)
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
            self._begin_with(found.held)
            if found.in_place and not found.held.broken:
                found.held.broken = TRUNCATED_AWAY
        elif stat is None:
            return False  # it may come back with the path: a file system that is mounted late
        else:
            new = open_plain_file(self._disk, self.path, self._place())
            self._begin_with(new)
            cause = TRUNCATED_AWAY if found.in_place else ROTATED_AWAY
            out.append(gap(wanted.file, wanted.offset, cause))
            out.append(Piece(kind="rotated", file=new.place.file))
            self._coming.forget_owed()
        self._resume = None
        return True

    def _lose(self, held: HeldFile) -> None:
        """The descriptor is of no use any more (a network file system forgot the file): look for the file again."""
        self._resume = self._complete(held.checkpoint())
        held.close()
        self._coming.close()
        self._coming = Coming(self._resume.waiting)
        self._held = None

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

    def _complete(self, checkpoint: FileCheckpoint) -> FileCheckpoint:
        return msgspec.structs.replace(checkpoint, ordinal=self._ordinal, waiting=self._coming.seen())

    def _gap(self, cause: str, *, length: int | None = None) -> Piece:
        """From where we are in the open file."""
        held = self._held
        assert held is not None
        return gap(held.place.file, held.offset, cause, length)


def _identity(file: HeldFile | FileCheckpoint) -> Known:
    return file.device, file.inode


def _at_once(steps: Generator[None, None, HeldFile | None]) -> HeldFile | None:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: HeldFile | None = done.value
            return found


def _words(error: Exception) -> str:
    return os_words(error) if isinstance(error, OSError) else str(error)
