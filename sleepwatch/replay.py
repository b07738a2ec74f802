"""A live run read again: the same bytes, with what was seen beside them at its place among the lines. Pure of clocks.

A scan of the log alone finds what its lines prove. With the observations of a run (:mod:`sleepwatch.store.witness`) it
finds what the run found.
"""

from __future__ import annotations

from collections.abc import Iterable

from sleepwatch.engine import Engine, Output
from sleepwatch.engine.lives import LifeState
from sleepwatch.model import Event, Observation, Origin
from sleepwatch.reader import Trace


class Replay:
    """Looks on while a log is read (:class:`sleepwatch.scan.Watch`), and puts in what was observed."""

    trace: Trace | None = None

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._of: dict[str, list[Observation]] = {}
        for one in observations:
            self._of.setdefault(one.life, []).append(one)

    def opened(self, source: str) -> None:
        """See Watch."""

    def feed(self, engine: Engine, event: Event) -> Output:
        """See Watch. Before a new life begins, the end of the last one is told."""
        outputs = []
        if event.new_life:
            outputs += [
                out for life in list(engine.lives) if life.origin is event.origin for out in self._end(engine, life)
            ]
        outputs.append(engine.feed(event))
        if not event.type.startswith("line."):
            for life in list(engine.lives):
                if life.origin is event.origin:
                    outputs += self._due(engine, life)
        return _together(outputs)

    def finish(self, engine: Engine) -> Output:
        """See Watch."""
        outputs = [out for life in list(engine.lives) for out in self._end(engine, life)]
        return _together([*outputs, engine.finish()])

    def _due(self, engine: Engine, life: LifeState) -> list[Output]:
        """What was seen behind the line that was read last."""
        sleep, waiting = life.ledger.sleep, self._of.get(life.key)
        if sleep is None or not waiting or all(one.sleep != sleep.key for one in waiting):
            return []
        while waiting[0].sleep != sleep.key:  # of a sleep that is over
            waiting.pop(0)
        outputs = []
        while waiting and waiting[0].sleep == sleep.key and waiting[0].place <= sleep.events:
            outputs.append(engine.feed(event_of(waiting.pop(0), life.origin)))
        return outputs

    def _end(self, engine: Engine, life: LifeState) -> list[Output]:
        """What is left of a life: its end, which stands behind its lines."""
        left = [one for one in self._of.pop(life.key, []) if one.sleep is None]
        return [engine.feed(event_of(one, life.origin)) for one in left]


def event_of(observation: Observation, origin: Origin) -> Event:
    """The event an observation was made of."""
    return Event(
        type=observation.type,
        origin=origin,
        offset=0,
        text=observation.text.encode(),
        fields=dict(observation.fields),
        clock_us=observation.clock_us,
        wall_us=observation.wall_us,
        source=observation.seen_in,
    )


def _together(outputs: Iterable[Output]) -> Output:
    outputs = list(outputs)
    return Output([one for out in outputs for one in out.transitions], [one for out in outputs for one in out.asks])
