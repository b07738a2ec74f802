"""Following many paths: names, and patterns whose matches come and go."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

import msgspec

from sleepwatch.lognames import COMPRESSED
from sleepwatch.sources.disk import Disk, Stat
from sleepwatch.sources.follow import LIMIT, FileFollower, Piece
from sleepwatch.sources.identity import FileCheckpoint
from sleepwatch.sources.rotation import is_rotated_name, possible_bases
from sleepwatch.sources.tail import NO_MARKERS, StartMarkers

REFRESH_US = 1_000_000
"""Patterns are looked at again after this long."""
VANISHED_US = 600_000_000
"""A log that nobody named (a pattern's match, or found on this host) and that is gone is forgotten after this long."""


class Watched(msgspec.Struct, frozen=True):
    """Where something can happen that makes a poll worth while; absolute, without symbolic links."""

    files: frozenset[str]
    directories: frozenset[str]


class FollowSet:
    """One :class:`FileFollower` per path.

    A path given by name is followed always; of a pattern, every match that is there at first as ``backfill`` says, and
    later ones from their first byte. A pattern's matches that are only older pieces of a log followed here, by name or
    by inode, are not followed for themselves. ``checkpoints`` are those of an earlier run, by path.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        checkpoints: Mapping[str, FileCheckpoint],
        *,
        backfill: bool,
        starts: StartMarkers = NO_MARKERS,
        disk: Disk | None = None,
    ) -> None:
        self.followers: dict[str, FileFollower] = {}
        """By path."""
        self.vanished: list[str] = []
        """Paths that the last poll forgot; their checkpoints are of no use any more."""
        self._patterns = [pattern for pattern in patterns if glob.has_magic(pattern) and not os.path.lexists(pattern)]
        self._checkpoints = checkpoints
        self._backfill = backfill
        self._starts = starts
        self._disk = disk or Disk()
        self._named = [pattern for pattern in patterns if pattern not in self._patterns]
        self._not_own: dict[str, Stat] = {}
        """Matches that are older pieces of another path's log, as they were when its follower last knew them."""
        self._refreshed_us: int | None = None
        for name in self._named:
            self._follow(name, backfill=backfill)
        for name in checkpoints:
            if name not in self.followers and any(_fits(name, pattern) for pattern in self._patterns):
                self._follow(name, backfill=False)

    def poll(self, now_us: int, limit: int = LIMIT) -> list[tuple[FileFollower, list[Piece]]]:
        """Poll every follower, each with this limit; those that had something, with their pieces."""
        self._refresh(now_us)
        found = []
        for follower in self.followers.values():
            pieces = follower.poll(now_us, limit)
            if pieces:
                found.append((follower, pieces))
        self._forget(now_us)
        return found

    def watched(self) -> Watched:
        """What a :class:`~sleepwatch.sources.watch.Watch` should look at."""
        files, directories = set(), set()
        for name, follower in self.followers.items():
            target = self._disk.resolve(follower.path)
            parent = self._disk.resolve(follower.path.parent)
            files |= {str(parent / PurePath(name).name), str(target)}
            directories |= {str(parent), str(target.parent)}
        for pattern in self._patterns:
            directories.add(str(self._disk.resolve(_fixed_part(pattern))))
        return Watched(frozenset(files), frozenset(directories))

    def close(self) -> None:
        """Give all descriptors back."""
        for follower in self.followers.values():
            follower.close()

    def _refresh(self, now_us: int) -> None:
        """Look for new matches of the patterns."""
        first = self._refreshed_us is None
        if self._refreshed_us is not None and now_us - self._refreshed_us < REFRESH_US:
            return
        self._refreshed_us = now_us
        matches = [match for pattern in self._patterns for match in sorted(glob.glob(pattern, recursive=True))]
        known = set(matches) | set(self.followers)
        for match in matches:
            if match not in self.followers and self._is_own(match, known):
                self._follow(match, backfill=self._backfill and first)

    def _is_own(self, match: str, known: set[str]) -> bool:
        """Is this a log of its own, and not an older piece of another?"""
        path = PurePath(match)
        if path.name.endswith(COMPRESSED):
            return False
        if any(
            is_rotated_name(path.name, base) and str(path.with_name(base)) in known
            for base in possible_bases(path.name)
        ):
            return False
        try:
            stat = self._disk.stat(Path(match))
        except OSError:
            return False  # gone again, or a link that leads nowhere yet
        if not stat.regular:
            return False
        identity = stat.device, stat.inode
        if any(identity in follower.identities() for follower in self.followers.values()):
            self._not_own[match] = stat
            return False
        # If it changed since, it is written to again, or is another file under a freed inode number.
        return self._not_own.get(match) != stat

    def _follow(self, name: str, *, backfill: bool) -> None:
        self.followers[name] = FileFollower(
            Path(name),
            self._checkpoints.get(name),
            backfill=backfill,
            starts=self._starts,
            disk=self._disk,
        )

    def _forget(self, now_us: int) -> None:
        self.vanished = []
        for name, follower in list(self.followers.items()):
            quiet_since = max(follower.state.since_us, follower.grown_us or 0)
            if (
                name not in self._named
                and follower.state.name == "absent"
                and not follower.unread
                and now_us - quiet_since >= VANISHED_US
            ):
                follower.close()
                del self.followers[name]
                self.vanished.append(name)


def _fits(name: str, pattern: str) -> bool:
    """Could this path be a match of the pattern?"""
    if "**" in pattern:
        return fnmatchcase(name, pattern.replace("**/", "*"))
    parts, wanted = PurePath(name).parts, PurePath(pattern).parts
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _fixed_part(pattern: str) -> Path:
    """The directory in which a pattern begins to choose."""
    path = Path(pattern)
    while glob.has_magic(str(path)):
        path = path.parent
    return path
