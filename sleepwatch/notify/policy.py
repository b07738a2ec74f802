"""Who is told what: a table of how far a target has been told of an incident, and what happened to it. Pure.

Every cell of :data:`TABLE` is tested by itself (tests/notify/test_policy.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from sleepwatch.config import Target
from sleepwatch.engine.verdicts import NOT_FREED
from sleepwatch.model import CONFIDENCES, OPEN_STATES, SEVERITIES, Incident

HANGS = ("hung-request", "stalled-request")
NOT_FREED_HANG = "hung-request, not freed"
GRAVER = ("wake-failure", "crash-loop", NOT_FREED_HANG)
"""An incident that turns out to be one of these has become worse."""


class State(StrEnum):
    """How far one target has been told of one incident."""

    NEW = "new"
    """Not at all."""
    TOLD = "told"
    """In a message of its own, which waits or was delivered."""
    SILENCED = "silenced"
    """Not, because of a silence."""
    HELD = "held"
    """Not yet: it is to stand in the next digest."""
    LISTED = "listed"
    """In a digest."""
    CHANGED = "changed"
    """In a digest; what became of it is to stand in the next."""
    OVER = "over"
    """All there is to tell."""


class Event(StrEnum):
    """What happened to an incident that concerns the target."""

    OPENS = "opens"
    """It is open, first or again, and this target is to be told of such."""
    STAYS = "stays"
    """More evidence, a surer or less sure verdict, a higher count: no news."""
    WORSENS = "worsens"
    """A higher severity, or it turns out to be a failed wake or a crash loop, or a wake of ours did not free it."""
    ENDS = "ends"
    """It is over, maybe from the first sight of it on."""
    WITHDRAWN = "withdrawn"
    """It was none."""


class What(StrEnum):
    """What a message says."""

    OPENED = "opened"
    PASSED = "passed"
    """It happened and is over: the only message about it."""
    ESCALATED = "escalated"
    RECOVERED = "recovered"
    WITHDRAWN = "withdrawn"
    DIGEST = "digest"
    """Several incidents in one message, since they are many."""
    TEST = "test"
    SUMMARY = "summary"
    """Several incidents in one message, since they happened while nobody watched."""


class Step(NamedTuple):
    """What follows."""

    what: What | None
    """The message to send; None for none."""
    state: State


_QUIET = {
    State.NEW: Step(None, State.NEW),
    State.TOLD: Step(None, State.TOLD),
    State.SILENCED: Step(None, State.SILENCED),
    State.HELD: Step(None, State.HELD),
    State.LISTED: Step(None, State.LISTED),
    State.CHANGED: Step(None, State.CHANGED),
    State.OVER: Step(None, State.OVER),
}

TABLE: dict[tuple[State, Event], Step] = {
    (State.NEW, Event.OPENS): Step(What.OPENED, State.TOLD),
    (State.NEW, Event.STAYS): _QUIET[State.NEW],
    (State.NEW, Event.WORSENS): Step(What.OPENED, State.TOLD),
    (State.NEW, Event.ENDS): Step(What.PASSED, State.OVER),
    (State.NEW, Event.WITHDRAWN): _QUIET[State.NEW],
    #
    (State.TOLD, Event.OPENS): _QUIET[State.TOLD],
    (State.TOLD, Event.STAYS): _QUIET[State.TOLD],
    (State.TOLD, Event.WORSENS): Step(What.ESCALATED, State.TOLD),
    (State.TOLD, Event.ENDS): Step(What.RECOVERED, State.OVER),
    (State.TOLD, Event.WITHDRAWN): Step(What.WITHDRAWN, State.NEW),
    # A silence that ends makes it new again, if it is still open: desk.py.
    (State.SILENCED, Event.OPENS): _QUIET[State.SILENCED],
    (State.SILENCED, Event.STAYS): _QUIET[State.SILENCED],
    (State.SILENCED, Event.WORSENS): _QUIET[State.SILENCED],
    (State.SILENCED, Event.ENDS): Step(None, State.OVER),
    (State.SILENCED, Event.WITHDRAWN): Step(None, State.NEW),
    # A digest looks at its incidents when it is made.
    (State.HELD, Event.OPENS): _QUIET[State.HELD],
    (State.HELD, Event.STAYS): _QUIET[State.HELD],
    (State.HELD, Event.WORSENS): _QUIET[State.HELD],
    (State.HELD, Event.ENDS): _QUIET[State.HELD],
    (State.HELD, Event.WITHDRAWN): Step(None, State.NEW),
    #
    (State.LISTED, Event.OPENS): _QUIET[State.LISTED],
    (State.LISTED, Event.STAYS): _QUIET[State.LISTED],
    (State.LISTED, Event.WORSENS): Step(What.ESCALATED, State.TOLD),
    (State.LISTED, Event.ENDS): Step(None, State.CHANGED),
    (State.LISTED, Event.WITHDRAWN): Step(None, State.CHANGED),
    #
    (State.CHANGED, Event.OPENS): Step(None, State.LISTED),
    (State.CHANGED, Event.STAYS): _QUIET[State.CHANGED],
    (State.CHANGED, Event.WORSENS): Step(What.ESCALATED, State.TOLD),
    (State.CHANGED, Event.ENDS): _QUIET[State.CHANGED],
    (State.CHANGED, Event.WITHDRAWN): _QUIET[State.CHANGED],
    # A crash, over, can turn out to have been the first of a loop.
    (State.OVER, Event.OPENS): _QUIET[State.OVER],
    (State.OVER, Event.STAYS): _QUIET[State.OVER],
    (State.OVER, Event.WORSENS): Step(What.ESCALATED, State.TOLD),
    (State.OVER, Event.ENDS): _QUIET[State.OVER],
    (State.OVER, Event.WITHDRAWN): Step(None, State.NEW),
}

NEWS = (What.OPENED, What.PASSED)
"""What a silence keeps back and a storm collects. Who was told of a beginning is told of the end, whatever happens."""


def wants(target: Target, incident: Incident) -> bool:
    """Whether the target is to be told of such an incident. Of what is only possible nobody is told."""
    return (
        incident.confidence != "possible"
        and CONFIDENCES.index(incident.confidence) >= CONFIDENCES.index(target.confidence)
        and SEVERITIES.index(incident.severity) >= SEVERITIES.index(target.severity)
        and (not target.kinds or incident.kind in target.kinds)
        and matches(incident.server, target.servers)
    )


def matches(server: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits, or there is none."""
    patterns = tuple(patterns)
    return not patterns or any(fnmatchcase(server, one) for one in patterns)


def is_open(incident: Incident) -> bool:
    """Nobody has seen an end of it."""
    return incident.state in OPEN_STATES


def event(
    incident: Incident, *, withdrawn: bool, wanted: bool, state: State, told: tuple[str, str] | None
) -> Event | None:
    """What happened, as this target sees it; None where it does not concern it.

    ``told``: the kind and severity it was told of last; None where it was not.
    """
    if withdrawn:
        return Event.WITHDRAWN
    if state is State.NEW and not wanted:
        return None
    if told is not None and wanted and is_worse(incident, *told):
        return Event.WORSENS
    if not is_open(incident):
        return Event.ENDS
    return Event.OPENS if state in (State.NEW, State.CHANGED) else Event.STAYS


def is_worse(incident: Incident, kind: str, severity: str) -> bool:
    """Whether it has become worse than this."""
    now = told_kind(incident)
    graver = now != kind and now in GRAVER
    return graver or SEVERITIES.index(incident.severity) > SEVERITIES.index(severity)


def told_kind(incident: Incident) -> str:
    """What is remembered as told: its kind, and of a hang whether a wake of ours had no effect."""
    not_freed = incident.kind == "hung-request" and NOT_FREED in incident.summary
    return NOT_FREED_HANG if not_freed else incident.kind
