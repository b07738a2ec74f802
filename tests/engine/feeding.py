"""The engine fed live: a script's lines through the real rules, and time in between."""

from __future__ import annotations

from collections.abc import Iterable

from sleepwatch.engine import Ask, Engine, Now, Output, Transition
from sleepwatch.model import Event, Incident
from sleepwatch.reader import Reader
from sleepwatch.rules import load_incidents
from sleepwatch.scan import engine_words
from tests.cases.made import Era, log
from tests.reader.reading import gate, rules


def events(data: bytes, *, line_by_line: bool = False) -> list[Event]:
    """What the reader makes of these bytes; ``line_by_line``: of each line before it knows the next."""
    found: list[Event] = []
    reader = Reader(rules(), found.append, gate=gate())
    reader.open("server.log")
    if line_by_line:
        for line in data.splitlines(keepends=True):
            reader.feed(line)
            reader.settle()
    else:
        reader.feed(data)
    reader.close()
    reader.finish()
    return found


class Live:
    """A live engine over a script that is fed bit by bit."""

    def __init__(self, script: str, *, era: Era = "C", line_by_line: bool = False) -> None:
        self.engine = Engine(engine_words(load_incidents()), live=True)
        self._events = events(log(script, era=era), line_by_line=line_by_line)
        self.transitions: list[Transition] = []
        self.asks: list[str] = []
        self.last_asks: list[Ask] = []
        """Not answered yet."""

    def until(self, second: float | None = None) -> list[Transition]:
        """Feed the lines up to this second of the log's clock (all: None); the transitions they caused."""
        taken: list[Transition] = []
        while self._events:
            clock = self._events[0].clock_us
            if second is not None and clock is not None and clock > second * 1_000_000:
                break
            taken += self._take(self.engine.feed(self._events.pop(0)))
        return taken

    def tick(self, second: float, *, wall: float | None = None) -> list[Transition]:
        """The time is now this second of the monotonic clock (and of the wall, unless that was set)."""
        us = round(second * 1_000_000)
        return self._take(self.engine.tick(Now(us, us if wall is None else round(wall * 1_000_000))))

    def finish(self) -> list[Transition]:
        """The sources have ended."""
        return self._take(self.engine.finish())

    def _take(self, output: Output) -> list[Transition]:
        self.transitions += output.transitions
        self.asks += [ask.what for ask in output.asks]
        self.last_asks += output.asks
        return list(output.transitions)


def incidents(transitions: Iterable[Transition]) -> dict[str, Incident]:
    """What stands after these transitions."""
    standing: dict[str, Incident] = {}
    for one in transitions:
        if one.withdrawn:
            standing.pop(one.incident.id, None)
        else:
            standing[one.incident.id] = one.incident
    return standing
