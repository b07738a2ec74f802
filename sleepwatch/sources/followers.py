"""Everything that is followed, files and journals, as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from sleepwatch.sources.follow import FileFollower, Piece
from sleepwatch.sources.follow_set import FollowSet, Watched
from sleepwatch.sources.journal_follow import JournalFollower, JournalPiece
from sleepwatch.sources.journal_set import JournalSet

Follower: TypeAlias = FileFollower | JournalFollower
Pieces: TypeAlias = Sequence[Piece] | Sequence[JournalPiece]


class Followers:
    """Files and journals, by their names."""

    def __init__(self, files: FollowSet, journals: JournalSet) -> None:
        self._files = files
        self._journals = journals
        self.full = False
        """At the last poll there was more than it took, or it is still being looked for where to begin."""

    @property
    def followers(self) -> Mapping[str, Follower]:
        """By path, or the journal's name."""
        return {**self._files.followers, **self._journals.followers}

    @property
    def vanished(self) -> Collection[str]:
        """Names that the last poll forgot."""
        return [*self._files.vanished, *self._journals.vanished]

    def poll(self, now_us: int, now_wall_us: int, limit: int) -> list[tuple[Follower, Pieces]]:
        """Poll them all, each with this limit in bytes; those that had something, with their pieces."""
        files = self._files.poll(now_us, limit)
        journals = self._journals.poll(now_us, now_wall_us)
        self.full = (
            self._journals.full
            or any(sum(len(piece.data) for piece in pieces) >= limit // 2 for _, pieces in files)
            or any(map(_searches, self._files.followers.values()))
        )
        return [*files, *journals]

    def watched(self) -> Watched:
        """Where something can happen that makes a poll worth while."""
        return self._files.watched()

    def filenos(self) -> list[int]:
        """Descriptors that become readable when a poll is worth while."""
        return self._journals.filenos()

    def close(self) -> None:
        """Give all descriptors back."""
        self._files.close()
        self._journals.close()


def _searches(follower: FileFollower) -> bool:
    """Is there a file, and not yet known from where on to read it? Each poll brings that nearer."""
    return not follower.reading and bool(follower.unread) and follower.state.name == "following"
