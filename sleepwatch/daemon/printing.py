"""What the daemon prints: on standard output what it finds, on standard error what stands in its way."""

from __future__ import annotations

from collections.abc import Callable

from sleepwatch.daemon.watching import Found
from sleepwatch.engine import Now
from sleepwatch.model import Incident
from sleepwatch.printable import printable

Say = Callable[[str], None]
"""Prints one line for the person."""


class Printer:
    """Prints each state of each incident once."""

    _MANY = 1_000

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told: dict[str, tuple[str, str, str, int]] = {}
        """What was printed last of the latest incidents."""

    def tell(self, found: Found) -> None:
        """Print what changed."""
        for incident in found.steps:
            told = (incident.kind, incident.confidence, incident.state, incident.count)
            if incident.confidence != "possible" and self._told.get(incident.id) != told:
                self._told[incident.id] = told
                while len(self._told) > self._MANY:
                    del self._told[next(iter(self._told))]
                self._say(_line(incident))
        for incident, reason in found.withdrawn.values():
            if self._told.pop(incident.id, None) is not None:
                self._say(f"withdrawn: {incident.kind} {incident.server} {incident.id} ({reason})")


class Complaints:
    """The daemon's own log on standard error: each sentence once, and again after an hour at the earliest."""

    _AGAIN_US = 3_600_000_000
    _MANY = 1_000

    def __init__(self, write: Say) -> None:
        self._write = write
        self._said: dict[str, tuple[int, int]] = {}
        """Sentence → (when it was written, how often it was left out since)."""

    def say(self, sentence: str, now: Now) -> None:
        """Write it, unless it was written within the hour."""
        at, left_out = self._said.get(sentence, (None, 0))
        if at is not None and now.monotonic_us - at < self._AGAIN_US:
            self._said[sentence] = (at, left_out + 1)
            return
        if len(self._said) >= self._MANY:
            self._said.clear()
        self._said[sentence] = (now.monotonic_us, 0)
        self._write(sentence + (f" ({left_out} more within the last hour)" if left_out else ""))


def _line(incident: Incident) -> str:
    what = "opened" if incident.state == "open" else incident.state
    return (
        f"{what}: {incident.severity.upper()} {incident.kind} ({incident.confidence}) {printable(incident.server)}: "
        f"{incident.summary} [{incident.id}]"
    )
