"""The story of one incident as a database keeps it: lines, looks beside them, transitions and wakes, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sleepwatch.model import LIVE, Evidence, Incident, Observation
from sleepwatch.printable import printable
from sleepwatch.report.table import Style, field
from sleepwatch.report.times import clock_words, duration_words, wall_words
from sleepwatch.store.actions import Action
from sleepwatch.store.store import Transition, open_store


class Moment(NamedTuple):
    """One thing that happened; in order of wall time, and of the order in which it became known."""

    at_us: int | None
    clock_us: int | None
    what: str
    words: str


class Story(NamedTuple):
    """What is kept about one incident."""

    incident: Incident
    timeline: Sequence[Transition]
    observations: Sequence[Observation]
    actions: Sequence[Action]

    def moments(self) -> list[Moment]:
        """Everything that happened, oldest first."""
        incident, offset_us = self.incident, self._offset_us()
        told = {(one.clock_us, one.text) for one in incident.evidence}
        found = [self._line(one, offset_us) for one in incident.evidence]
        sleep = next((str(one.clock_us) for one in incident.evidence if one.role == "sleep"), None)
        last = None
        for one in self.observations:
            if one.sleep not in (None, sleep) or (one.clock_us, one.text) in told or one.text == last:
                continue  # of another sleep, or nothing new
            last = one.text
            found.append(Moment(one.wall_us, one.clock_us, "looked", f"{one.text} ({one.seen_in.removeprefix(LIVE)})"))
        before = None
        for step in self.timeline:
            state = step.to_state if before is None or step.from_state == step.to_state else f"now {step.to_state}"
            words = f"{step.kind}, {step.confidence}, {state}: {step.reason}"
            found.append(Moment(step.recorded_us, None, "verdict", words))
            before = step
        for action in self.actions:
            words = f"{action.mode}: {action.outcome or 'under way'}" + (f", {action.words}" if action.words else "")
            found.append(Moment(action.begun_us, None, "wake", words))
        return sorted(found, key=lambda one: (one.at_us is not None, one.at_us or one.clock_us or 0))

    def _line(self, one: Evidence, offset_us: int | None) -> Moment:
        at_us = one.wall_us
        if at_us is None and one.clock_us is not None and offset_us is not None:
            at_us = one.clock_us + offset_us
        return Moment(at_us, one.clock_us, one.role, one.text)

    def _offset_us(self) -> int | None:
        """From the server's log clock to wall time, where something tells both."""
        both: list[Observation | Evidence] = [*self.observations, *self.incident.evidence]
        return next((o.wall_us - o.clock_us for o in both if o.wall_us is not None and o.clock_us is not None), None)


def story_text(story: Story, style: Style) -> Iterator[str]:
    """The story, line by line, without line feeds."""
    incident = story.incident
    yield f"{incident.kind} {incident.id}  {incident.confidence}, {incident.state}  {printable(incident.server)}"
    yield from field("what", incident.summary, style)
    before = None
    for moment in story.moments():
        when = wall_words(moment.at_us) or (clock_words(moment.clock_us) if moment.clock_us is not None else "unknown")
        ago = moment.at_us - before if moment.at_us is not None and before is not None else 0
        later = f" (+{duration_words(ago)})" if ago >= 1_000 else ""
        before = moment.at_us if moment.at_us is not None else before
        yield from field("", f"{when}{later}  {moment.what}: {moment.words}", style)
    yield from field("why", incident.reason, style)
    if incident.in_flight is not None or incident.in_flight_reason is not None:
        known = f"{incident.in_flight}" if incident.in_flight is not None else f"unknown: {incident.in_flight_reason}"
        yield from field("in flight", known, style)
    if incident.confidence != "confirmed":
        from sleepwatch.engine.describe import SURER

        yield from field("surer", SURER.get(incident.kind, ""), style)


def read_story(database: str, id_prefix: str) -> Story:
    """The story of the incident whose id begins so. Raises StoreError."""
    from sleepwatch.store.actions import actions
    from sleepwatch.store.witness import observations

    with open_store(database, read_only=True) as store:
        incident = store.incident(id_prefix)
        return Story(
            incident,
            store.timeline(incident.id),
            observations(store, {incident.life}),
            actions(store, incident=incident.id),
        )
