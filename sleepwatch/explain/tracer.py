"""Looks on while a log is read, and makes a step of each line the reader looks at."""

from __future__ import annotations

from collections.abc import Callable

from sleepwatch.engine import Engine, Output
from sleepwatch.engine.describe import Change, View, changes, remark, request_words, view
from sleepwatch.engine.ledger import Sleep
from sleepwatch.engine.lives import LifeState
from sleepwatch.explain.steps import Cycle, Dismissed, Step
from sleepwatch.model import Event, Incident
from sleepwatch.reader import Look, Trace

DISMISSED = 100
"""Requests without an incident that are kept; more are only counted."""
_OF_OTHERS = ("process.exit", "process.signal", "process.frame", "unit.stopping", "unit.ended", "unit.failed")
_ENDS_A_SLEEP = ("sleep.enter", "sleep.entered", "sleep.exit", "sleep.exited")


class Listener:
    """Hears the verdicts and does not want to know of lines; what was withdrawn in the end is remembered."""

    trace: Trace | None = None

    def __init__(self) -> None:
        self.withdrawn: dict[str, Incident] = {}

    def opened(self, source: str) -> None:
        """See Watch."""

    def feed(self, engine: Engine, event: Event) -> Output:
        """See Watch."""
        return self._heard(engine.feed(event))

    def finish(self, engine: Engine) -> Output:
        """See Watch."""
        return self._heard(engine.finish())

    def _heard(self, output: Output) -> Output:
        for transition in output.transitions:
            if transition.withdrawn:
                self.withdrawn[transition.incident.id] = transition.incident
            else:
                self.withdrawn.pop(transition.incident.id, None)
        return output


class Tracer(Listener):
    """Makes a step of each line; ``keep`` is given every finished one, in the order of reading."""

    def __init__(self, keep: Callable[[Step], None]) -> None:
        super().__init__()
        self.trace = self._look
        self._keep = keep
        self._source = ""
        self._step: Step | None = None
        self._views: dict[LifeState, View] = {}
        self._cycles: dict[LifeState, Cycle] = {}
        self.dismissed: list[Dismissed] = []
        self.dismissed_count = 0
        self.quiet_sleeps = 0
        """Sleeps that nothing met."""

    def opened(self, source: str) -> None:
        """See Watch."""
        self._source = source

    def feed(self, engine: Engine, event: Event) -> Output:
        """See Watch."""
        if event.type.startswith("line."):  # the lines a life is known by; a verdict may have waited for them
            output = self._heard(engine.feed(event))
            if self._step is not None:
                self._step.transitions += output.transitions
            return output
        step = self._step
        if step is None or step.event is not event:
            step = self._begin(Step(source=self._source, look=None, event=event))
        asleep = _asleep(engine, event)
        output = self._heard(engine.feed(event))
        self._note(step, engine, output, event)
        if event.type in _OF_OTHERS and not step.changes:
            step.remark = "it says nothing new of a server that is known here"
        for life, sleep, requests in asleep:
            if life.ledger.sleep is not sleep:
                self._dismiss(life, sleep, requests)
        return output

    def finish(self, engine: Engine) -> Output:
        """See Watch."""
        step = self._begin(Step(source=self._source, look=None))
        output = self._heard(engine.finish())
        self._note(step, engine, output, None)
        self._close()
        return output

    def _look(self, look: Look) -> None:
        self._begin(Step(source=self._source, look=look, event=look.event))

    def _begin(self, step: Step) -> Step:
        self._close()
        self._step = step
        return step

    def _close(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            if step.transitions and step.cycle is not None:
                step.cycle.telling = True
            self._keep(step)

    def _note(self, step: Step, engine: Engine, output: Output, event: Event | None) -> None:
        """What is different now, in each life."""
        step.transitions += output.transitions
        open_now = set(engine.lives)
        for life in [*self._views, *(life for life in engine.lives if life not in self._views)]:
            before, after = self._views.get(life), view(life)
            found = changes(before, after)
            step.changes += [(life, change) for change in found]
            if event is not None and life.origin is event.origin and life in open_now:
                step.life = life
                step.remark = remark(before, after, event)
            elif found and step.life is None:
                step.life = life
            self._turn(step, life, before, after, found)
            if life in open_now:
                self._views[life] = after
                if found and after.pendings:
                    step.dismissed += _requests(engine, life)
                continue
            self._views.pop(life, None)
            self._over(life)
            if life.ledger.sleep is not None:
                self._dismiss(life, life.ledger.sleep, _requests(engine, life))

    def _turn(self, step: Step, life: LifeState, before: View | None, after: View, found: list[Change]) -> None:
        """Which sleep cycle of the life the step belongs to."""
        if before is None or after.sleeps != before.sleeps:
            self._over(life)
            self._cycles[life] = Cycle()
        cycle = self._cycles[life]
        cycle.telling = cycle.telling or any(change.decides and change.what != "phase" for change in found)
        if found:
            step.cycle = cycle

    def _over(self, life: LifeState) -> None:
        cycle = self._cycles.pop(life, None)
        if cycle is not None:
            cycle.over = True
            self.quiet_sleeps += not cycle.telling

    def _dismiss(self, life: LifeState, sleep: Sleep, requests: list[tuple[str, str]]) -> None:
        self.dismissed_count += len(requests)
        room = max(0, DISMISSED - len(self.dismissed))
        self.dismissed += [Dismissed(sleep.enter, life, which, why) for which, why in requests[:room]]


def _asleep(engine: Engine, event: Event) -> list[tuple[LifeState, Sleep, list[tuple[str, str]]]]:
    """The sleeps that another one may take the place of with this event, and what is pending in them."""
    if event.type not in _ENDS_A_SLEEP:
        return []
    found = []
    for life in engine.lives:
        sleep = life.ledger.sleep
        if life.origin is event.origin and sleep is not None:
            found.append((life, sleep, _requests(engine, life)))
    return found


def _requests(engine: Engine, life: LifeState) -> list[tuple[str, str]]:
    """The requests in the life's sleep that are no incident, and why."""
    sleep = life.ledger.sleep
    if sleep is None:
        return []
    return [(request_words(pending, sleep), outcome.reason) for pending, outcome in engine.dismissed(life)]
