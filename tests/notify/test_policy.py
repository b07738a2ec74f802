"""The table of what follows, cell by cell."""

from __future__ import annotations

import msgspec
import pytest

from sleepwatch.config import Target
from sleepwatch.engine.verdicts import NOT_FREED
from sleepwatch.model import OPEN_STATES, STATES
from sleepwatch.notify.policy import NEWS, NOT_FREED_HANG, TABLE, Event, State, Step, What, event, is_open, wants
from tests.support.results import HANG

HANGS_OPEN = msgspec.structs.replace(HANG, state="open", severity="critical", server="llama.service")
EVERYTHING = Target(name="all", severity="info")

CELLS = """
            opens               stays       worsens             ends                withdrawn
new         opened/told         -/new       opened/told         passed/over         -/new
told        -/told              -/told      escalated/told      recovered/over      withdrawn/new
silenced    -/silenced          -/silenced  -/silenced          -/over              -/new
held        -/held              -/held      -/held              -/held              -/new
listed      -/listed            -/listed    escalated/told      -/changed           -/changed
changed     -/listed            -/changed   escalated/told      -/changed           -/changed
over        -/over              -/over      escalated/told      -/over              -/new
"""


def _cells() -> list[tuple[State, Event, Step]]:
    head, *rows = CELLS.strip().splitlines()
    events = [Event(name) for name in head.split()]
    cells = []
    for row in rows:
        name, *steps = row.split()
        for happened, step in zip(events, steps, strict=True):
            what, _, state = step.partition("/")
            cells.append((State(name), happened, Step(None if what == "-" else What(what), State(state))))
    return cells


@pytest.mark.parametrize(("state", "happened", "step"), _cells())
def test_a_cell(state: State, happened: Event, step: Step) -> None:
    assert TABLE[state, happened] == step


def test_there_is_a_cell_for_everything_that_can_happen() -> None:
    assert set(TABLE) == {(state, happened) for state in State for happened in Event}
    assert len(_cells()) == len(TABLE)


def test_who_was_told_of_a_beginning_is_told_of_the_end() -> None:
    for (state, _), step in TABLE.items():
        if state is State.TOLD and step.state is not State.TOLD:
            assert step.what is not None and step.what not in NEWS


@pytest.mark.parametrize(
    ("target", "changes", "wanted"),
    [
        ({}, {}, True),
        ({}, {"confidence": "possible"}, False),
        ({"severity": "info", "confidence": "probable"}, {"confidence": "possible"}, False),
        ({"severity": "critical"}, {"severity": "warning"}, False),
        ({"severity": "warning"}, {"severity": "critical"}, True),
        ({"confidence": "confirmed"}, {"confidence": "probable"}, False),
        ({"kinds": ("crash",)}, {}, False),
        ({"kinds": ("crash", "hung-request")}, {}, True),
        ({"servers": ("other*",)}, {}, False),
        ({"servers": ("other*", "llama*.service")}, {}, True),
    ],
)
def test_who_wants_what(target: dict[str, object], changes: dict[str, object], wanted: bool) -> None:
    incident = msgspec.structs.replace(HANGS_OPEN, **changes)
    assert wants(msgspec.convert({"name": "x", **target}, Target), incident) is wanted


@pytest.mark.parametrize("state", STATES)
def test_open_or_over(state: str) -> None:
    incident = msgspec.structs.replace(HANGS_OPEN, state=state)
    assert is_open(incident) is (state in OPEN_STATES)
    told = ("hung-request", "critical")
    first = event(incident, withdrawn=False, wanted=True, state=State.NEW, told=None)
    later = event(incident, withdrawn=False, wanted=True, state=State.TOLD, told=told)
    assert (first, later) == ((Event.OPENS, Event.STAYS) if state in OPEN_STATES else (Event.ENDS, Event.ENDS))


def test_what_is_not_wanted_does_not_begin_but_ends() -> None:
    assert event(HANGS_OPEN, withdrawn=False, wanted=False, state=State.NEW, told=None) is None
    told = ("crash", "warning")
    worse = msgspec.structs.replace(HANGS_OPEN, kind="crash-loop")
    assert event(worse, withdrawn=False, wanted=False, state=State.TOLD, told=told) is Event.STAYS
    over = msgspec.structs.replace(worse, state="restarted")
    assert event(over, withdrawn=False, wanted=False, state=State.TOLD, told=told) is Event.ENDS


@pytest.mark.parametrize(
    ("told", "changes", "happened"),
    [
        (("crash", "warning"), {"kind": "crash-loop", "severity": "critical"}, Event.WORSENS),
        (("crash", "warning"), {"kind": "sleep-crash", "severity": "critical"}, Event.WORSENS),
        (("sleep-crash", "critical"), {"kind": "wake-failure", "severity": "critical"}, Event.WORSENS),
        (("sleep-crash", "critical"), {"kind": "crash", "severity": "warning"}, Event.STAYS),
        (("sleep-crash", "critical"), {"kind": "crash-in-flight", "severity": "critical"}, Event.STAYS),
        (("crash-loop", "critical"), {"kind": "crash-loop", "severity": "critical", "count": 1400}, Event.STAYS),
        (("hung-request", "critical"), {"summary": f"It waits, and {NOT_FREED} (timeout)."}, Event.WORSENS),
        ((NOT_FREED_HANG, "critical"), {"summary": f"It waits, and {NOT_FREED} (refused)."}, Event.STAYS),
    ],
)
def test_what_is_worse(told: tuple[str, str], changes: dict[str, object], happened: Event) -> None:
    incident = msgspec.structs.replace(HANGS_OPEN, **changes)
    assert event(incident, withdrawn=False, wanted=True, state=State.TOLD, told=told) is happened
