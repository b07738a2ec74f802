"""A journal's records, through the same gate and recogniser as every other source's lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleepwatch.envelopes.journal_fields import JournalEntries
from sleepwatch.model import Record
from sleepwatch.reader.gate import Gate
from sleepwatch.reader.recogniser import Recogniser, Sink
from sleepwatch.reader.records import FramedLog
from sleepwatch.reader.trace import Trace
from sleepwatch.rules import RuleSet
from sleepwatch.times import LocalTimes


class _Unwrapped(JournalEntries):
    """Holds nothing back: what comes are records already."""

    name = "journal"


class JournalLog:
    """Reads the records of one journal, as they come out of it. Events go to ``sink`` in order."""

    envelope = None
    """Nothing has to be unwrapped."""

    def __init__(
        self, rules: RuleSet, sink: Sink, source: str, *, gate: Gate | None = None, trace: Trace | None = None
    ) -> None:
        self._recogniser = Recogniser(rules, source, sink, trace=trace)
        self._log = FramedLog(self._recogniser, gate or Gate(rules.literals), _Unwrapped())
        self.bytes = 0
        """Of the lines read."""

    @property
    def server_lines(self) -> int:
        """Recognised lines of the server itself."""
        return self._recogniser.server_lines

    @property
    def wall_us(self) -> tuple[int | None, int | None]:
        """Wall times of the first and the last record."""
        return self._log.first_wall_us, self._log.last_wall_us

    @property
    def time_from(self) -> str | None:
        """Where the wall times come from, in words, and what is wrong with them."""
        backs = self._log.set_backs
        words = JournalEntries.time_from
        return words if not backs else f"{words}; they go back {backs} time{'s' * (backs > 1)}: the clock was set"

    def feed(self, records: list[Record]) -> None:
        """The next records."""
        self.bytes += sum([len(record.text) for record in records])
        self._log.add(records)
        self._log.read(final=False)

    def settle(self, *, partial: bool = False, newest: int = 0) -> None:
        """Live: nothing more came for a while, so read what is there without its later neighbours.

        The ``newest`` records, if any, have only just come: they are only looked at as neighbours.
        """
        self._log.read_all_but(newest)

    def gap(self, cause: str) -> None:
        """Entries are missing here."""
        self._recogniser.gap(cause)

    def finish(self) -> None:
        """Nothing more will come."""
        self._log.read(final=True)
        self._recogniser.finish()

    def state(self) -> dict[str, object]:
        """What a restart needs to go on from here: for :func:`sleepwatch.engine.state.dump`."""
        return {"recogniser": self._recogniser.state(), "log": self._log.state(), "bytes": self.bytes}

    def resume(self, state: Mapping[str, Any], *, local: LocalTimes | None = None) -> None:
        """Go on from a state that :meth:`state` gave."""
        self._recogniser.resume(state["recogniser"])
        self._log.resume(state["log"])
        self.bytes = state["bytes"]
