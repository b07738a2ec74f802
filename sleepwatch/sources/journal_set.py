"""Following the units' journals: this machine's own, and directories of journals collected from others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from sleepwatch.errors import SourceError
from sleepwatch.sources.journal import Place, Way, Which
from sleepwatch.sources.journal_follow import JournalFollower, JournalPiece, machines
from sleepwatch.sources.journal_units import Units

REFRESH_US = 60_000_000
"""Directories are looked at for further machines after this long."""
ENTRIES = 20_000
"""Read of one journal before the next source has its turn."""


class JournalSet:
    """One :class:`JournalFollower` per machine and journal, for all units watched there.

    ``units``: names or patterns, each with the directory of its journal, or None for this machine's own.
    """

    def __init__(
        self, units: Iterable[tuple[str, str | None]], places: Mapping[str, Place], *, way: Way = "auto"
    ) -> None:
        self.followers: dict[str, JournalFollower] = {}
        """By name."""
        self.vanished: list[str] = []
        """Names that the last poll forgot."""
        self._places = places
        self._way: Way = way
        self._refreshed_us: int | None = None
        names: dict[Which, list[str]] = {}
        for name, directory in units:
            names.setdefault(Which(directory=directory), []).append(name)
        self._units = {which: Units(of_it) for which, of_it in names.items()}
        self._refresh()

    def poll(self, now_us: int, now_wall_us: int) -> list[tuple[JournalFollower, list[JournalPiece]]]:
        """Poll every follower; those that had something, with their pieces."""
        self.vanished = []
        if self._refreshed_us is None or now_us - self._refreshed_us >= REFRESH_US:
            self._refreshed_us = now_us
            self._refresh()
        found = []
        for follower in self.followers.values():
            pieces = follower.poll(now_us, now_wall_us, ENTRIES)
            if pieces:
                found.append((follower, pieces))
        return found

    @property
    def full(self) -> bool:
        """One of them has more to read at once."""
        return any(follower.full for follower in self.followers.values())

    def filenos(self) -> list[int]:
        """Descriptors that become readable when there may be more."""
        fds = (follower.fileno() for follower in self.followers.values())
        return [fd for fd in fds if fd is not None]

    def close(self) -> None:
        """Give everything back."""
        for follower in self.followers.values():
            follower.close()

    def _refresh(self) -> None:
        for which, units in self._units.items():
            found: dict[str | None, str] = {None: which.name}
            if which.directory is not None:
                with contextlib.suppress(SourceError):  # its follower tells why
                    found = machines(which, way=self._way) or found
                known = [one for one in self.followers.values() if one.which == which]
                if any(one.machine is not None for one in known):
                    found.pop(None, None)
                elif None not in found:
                    self._forget(which.name)
            for machine, name in found.items():
                if name not in self.followers:
                    self.followers[name] = JournalFollower(
                        which, units, self._places.get(name), machine=machine, name=name, way=self._way
                    )

    def _forget(self, name: str) -> None:
        """Nothing could be read there yet, so nobody's part it was."""
        follower = self.followers.pop(name, None)
        if follower is not None:
            follower.close()
            self.vanished.append(name)
