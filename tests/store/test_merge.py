"""Two readings of one incident or life: what is kept of each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch import model
from sleepwatch.model import Incident, Life
from sleepwatch.store.merge import merge_incident, merge_life, reaches_as_far, reaches_further
from tests.support.results import DEATH_STATES, HANG, HANG_STATES, KINDS, LIFE, incidents

DEATHS = ("crash", "crash-in-flight", "wake-failure", "sleep-crash", "crash-loop")


def _readings(kinds: tuple[str, ...], states: tuple[str, ...]) -> st.SearchStrategy[Incident]:
    """Readings of one incident: evidence apart, everything may differ but its id, life and server."""

    def one(incident: Incident, kind: str, state: str, count: int) -> Incident:
        return msgspec.structs.replace(
            incident,
            id="1",
            kind=kind,
            state=state,
            evidence=(),
            count=count if kind == "crash-loop" else 1,
        )

    return st.builds(one, incidents(LIFE), st.sampled_from(kinds), st.sampled_from(states), st.integers(5, 9))


READINGS = st.one_of(
    st.tuples(*[_readings(("hung-request", "stalled-request"), HANG_STATES)] * 2),
    st.tuples(*[_readings(DEATHS, DEATH_STATES)] * 2),
)


@given(READINGS)
def test_the_same_reading_twice_adds_nothing(readings: tuple[Incident, Incident]) -> None:
    old, new = readings
    assert merge_incident(old, old) == old
    once = merge_incident(old, new)
    assert merge_incident(once, new) == once
    assert merge_incident(once, old) == once


@given(READINGS)
def test_nothing_known_is_lost(readings: tuple[Incident, Incident]) -> None:
    old, new = readings
    both = merge_incident(old, new)
    assert model.CONFIDENCES.index(both.confidence) >= min(model.CONFIDENCES.index(one.confidence) for one in readings)
    if old.kind != "crash-loop" and new.kind != "crash-loop":
        assert both.confidence == max(old.confidence, new.confidence, key=model.CONFIDENCES.index)
    assert "crash-loop" not in (old.kind, new.kind) or both.kind == "crash-loop"
    assert both.count == max(old.count, new.count)
    for fact in ("task", "signal", "in_flight", "opened_us", "closed_us", "log_opened_us", "log_closed_us"):
        known = [value for one in readings if (value := getattr(one, fact)) is not None]
        assert (getattr(both, fact) in known) if known else (getattr(both, fact) is None)
    if old.state not in model.OPEN_STATES:
        assert both.state == old.state  # an end, once seen, stays
    elif new.state not in model.OPEN_STATES:
        assert both.state == new.state


def _hang(**changes: Any) -> Incident:
    return msgspec.structs.replace(HANG, evidence=(), **changes)


def _death(**changes: Any) -> Incident:
    return msgspec.structs.replace(
        HANG, **{"id": "death", "kind": "crash", "state": "open", "task": None, "evidence": (), **changes}
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("open", "abandoned", "abandoned"),
        ("unresolved", "recovered", "recovered"),
        ("unresolved", "lost", "lost"),
        ("abandoned", "unresolved", "abandoned"),
        ("open", "unresolved", "open"),
        ("unstuck", "recovered", "unstuck"),
        ("open", "down", "down"),
        ("down", "restarted", "restarted"),
        ("restarted", "down", "restarted"),
    ],
)
def test_a_state_only_moves_forward(old: str, new: str, expected: str) -> None:
    assert merge_incident(_hang(state=old), _hang(state=new)).state == expected


def test_a_longer_log_brings_the_end_and_its_words() -> None:
    old = _hang(state="unresolved", log_closed_us=None, summary="still waiting where the log ends", severity="critical")
    both = merge_incident(old, _hang())
    assert both == _hang()
    assert merge_incident(both, old) == both


def test_a_state_from_a_less_sure_reading_moves_the_state_only() -> None:
    old = _hang(state="unresolved", log_closed_us=None, reason="H1")
    both = merge_incident(old, _hang(confidence="probable", reason="H5"))
    assert (both.state, both.confidence, both.reason, both.log_closed_us) == (
        "abandoned",
        "confirmed",
        "H1",
        HANG.log_closed_us,
    )


def test_a_surer_verdict_replaces_a_less_sure_one_whole() -> None:
    old = _death(kind="sleep-crash", confidence="probable", severity="critical", reason="5 s after the sleep")
    new = _death(kind="crash", confidence="confirmed", signal=6, severity="warning", reason="signal 6")
    both = merge_incident(old, new)
    assert (both.kind, both.confidence, both.signal, both.severity, both.reason) == (
        "crash",
        "confirmed",
        6,
        "warning",
        "signal 6",
    )
    assert merge_incident(new, old) == new


def test_the_more_telling_kind_wins_among_equally_sure_ones() -> None:
    old, new = _death(kind="crash-in-flight", signal=11), _death(kind="sleep-crash", signal=11)
    assert merge_incident(old, new).kind == merge_incident(new, old).kind == "sleep-crash"


def test_the_first_crash_becomes_the_loop_and_the_loop_grows() -> None:
    single = _death(confidence="confirmed", signal=4)
    loop = _death(kind="crash-loop", confidence="probable", count=5)
    longer = _death(kind="crash-loop", confidence="probable", count=212, closed_us=99, state="restarted")
    assert (merge_incident(single, loop).kind, merge_incident(single, loop).signal) == ("crash-loop", 4)
    grown = merge_incident(merge_incident(single, loop), longer)
    assert (grown.count, grown.state, grown.closed_us) == (212, "restarted", 99)
    for shorter in (single, loop):
        assert merge_incident(grown, shorter) == grown


def test_the_reason_for_not_knowing_goes_when_it_is_known() -> None:
    old = _death(in_flight_reason="the last lines never left the process")
    assert merge_incident(old, old).in_flight_reason == "the last lines never left the process"
    both = merge_incident(old, _death(in_flight=2))
    assert (both.in_flight, both.in_flight_reason) == (2, None)


def _life(**changes: Any) -> Life:
    return msgspec.structs.replace(LIFE, **changes)


def test_a_longer_reading_of_a_life() -> None:
    short = _life(last_clock_us=10, sleeps=1, requests=2, pid=77)
    long = _life(last_clock_us=20, sleeps=1, requests=5, exit="signal 11", ended_us=30)
    assert reaches_further(long, short)
    assert not reaches_further(short, long)
    both = merge_life(short, long)
    assert both == msgspec.structs.replace(long, pid=77)
    assert merge_life(both, short) == both
    assert merge_life(both, long) == both


def test_two_readings_that_each_know_something_else_do_not_outreach_each_other() -> None:
    one, other = _life(last_clock_us=10, requests=9), _life(last_clock_us=20, requests=8)
    assert not reaches_as_far(one, other)
    assert not reaches_as_far(other, one)
    both = merge_life(one, other)
    assert (both.last_clock_us, both.requests) == (20, 9)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, "unknown", "unknown"),
        ("unknown", "status 1", "status 1"),
        ("status 1", "signal 11", "signal 11"),
        ("signal 11", "unknown", "signal 11"),
        ("planned", None, "planned"),
    ],
)
def test_an_exit_only_becomes_better_known(old: str | None, new: str | None, expected: str) -> None:
    assert merge_life(_life(exit=old), _life(exit=new)).exit == expected


def test_every_kind_confidence_and_state_has_its_place() -> None:
    assert set(model.KINDS) == set(KINDS)
    assert set(model.STATES) == {*HANG_STATES, *DEATH_STATES}
    assert set(model.OPEN_STATES) < set(model.STATES)
