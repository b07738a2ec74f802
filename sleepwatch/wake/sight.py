"""Who waits on a server's connections, and who of them was answered: as the kernel tells, on this machine."""

from __future__ import annotations

import time

from sleepwatch.client.exchange import Own
from sleepwatch.client.target import Target
from sleepwatch.clock import Clock
from sleepwatch.witness.sockets import Connection, SocketsError, connections

_FOLLOW_US = 3_000_000
_LOOK_SECONDS = 0.02


class Sight:
    """The waiting connections of one target before and after its wake."""

    def __init__(self, target: Target, own: Own) -> None:
        self._port = target.port if target.is_here else None
        self._own = own
        self._before: dict[int, Connection] | None = None
        self.answered = 0
        """Of those that waited, how many were seen to be sent something after the wake."""
        self.still = 0
        """… and how many are there without having been sent anything."""

    @property
    def waiting(self) -> int | None:
        """How many waited before the wake; None where that cannot be seen from here."""
        return None if self._before is None else len(self._before)

    def remember(self) -> None:
        """Look who waits, before the wake."""
        found = self._look()
        self._before = None if found is None else {one.cookie: one for one in found if one.waits}

    def follow(self, clock: Clock) -> None:
        """Watch for a moment who of them is sent something."""
        begun_us = clock.now().monotonic_us
        left = dict(self._before or {})
        while left and clock.now().monotonic_us - begun_us < _FOLLOW_US:
            now = {one.cookie: one for one in self._look() or ()}
            for cookie, before in list(left.items()):
                if cookie not in now:
                    del left[cookie]  # it has ended; whether behind its answer, the kernel does not tell any more
                elif now[cookie].bytes_sent > before.bytes_sent:
                    del left[cookie]
                    self.answered += 1
            time.sleep(_LOOK_SECONDS)
        self.still = len(left)

    def words_before(self) -> str:
        """For the sentence that says what is done."""
        if self._before is None:
            return ""
        count = len(self._before)
        return f", and {count} connection{'s wait' if count != 1 else ' waits'} for an answer"

    def words_after(self) -> str:
        """For the sentence that says what came of it."""
        if not self._before:
            return ""
        if self.still:
            return f"; of {len(self._before)} waiting, {self.still} not answered yet"
        return f"; of {len(self._before)} waiting, none waits any longer"

    def _look(self) -> list[Connection] | None:
        if self._port is None:
            return None
        try:
            return [one for one in connections(self._port) if one.peer not in self._own]
        except SocketsError:
            return None
