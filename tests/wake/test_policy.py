"""The policy: every condition by itself, and the bounds under any history."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.engine.lives import Now
from sleepwatch.wake.attempt import ABANDONED, CRASHED, NOT_RELEASED, RELEASED, TIMEOUT, WOULD_WAKE
from sleepwatch.wake.policy import HOUR_US, Decision, Hang, Past, decide, timeout_seconds
from sleepwatch.wake.settings import Mode, Wake, WakeServer

SECOND = 1_000_000
START = Now(monotonic_us=5 * HOUR_US, wall_us=1_000 * HOUR_US)
ACT = Wake(mode="act")
HANG = Hang(incident="i", server="llama.service", confidence="probable", state="open", caught_up=True, asleep=True)


def past(ago_s: float, outcome: str | None, *, incident: str = "i", sent: bool = True, mode: Mode = "act") -> Past:
    ago_us = round(ago_s * SECOND)
    return Past(
        incident=incident, server="llama.service", mode=mode, wall_us=START.wall_us - ago_us,
        monotonic_us=START.monotonic_us - ago_us, outcome=outcome, sent=sent,
    )  # fmt: skip


def decided(*history: Past, settings: Wake = ACT, **changes: object) -> Decision:
    return decide(msgspec.structs.replace(HANG, **changes), settings, history, START)


def test_a_request_that_hangs_is_worth_a_wake() -> None:
    assert decided().act
    assert decided(confidence="confirmed").act


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"confidence": "possible"}, "only possible"),
        ({"state": "abandoned"}, "it is abandoned"),
        ({"state": "recovered"}, "it is recovered"),
        ({"asleep": False}, "does not sleep"),
        ({"caught_up": False}, "not read to the end"),
    ],
)
def test_anything_less_is_not(changes: dict[str, object], why: str) -> None:
    decision = decided(**changes)
    assert not decision.act
    assert why in decision.reason


def test_it_is_off_unless_it_is_allowed() -> None:
    assert not decided(settings=Wake()).act
    only = Wake(server=(WakeServer(name="llama*", mode="act"),))
    assert decided(settings=only).act
    assert not decided(settings=only, server="other.service").act
    but = Wake(mode="act", server=(WakeServer(name="llama*", mode="off"),))
    assert not decided(settings=but).act


def test_to_observe_is_to_note_it_once() -> None:
    observe = Wake(mode="observe")
    decision = decided(settings=observe)
    assert (decision.act, decision.observe) == (False, True)
    decision = decided(past(5, WOULD_WAKE, mode="observe", sent=False), settings=observe)
    assert (decision.act, decision.observe) == (False, False)
    assert decided(past(5, WOULD_WAKE, mode="observe", sent=False)).act  # what was only observed cost nothing


def test_one_wake_of_a_server_at_a_time() -> None:
    assert "under way" in decided(past(1, None, incident="other")).reason


def test_the_back_off_doubles() -> None:
    assert decided(past(9, TIMEOUT)).again_us == SECOND
    assert decided(past(10, TIMEOUT)).act
    again = decided(past(40, ABANDONED, sent=False), past(19, TIMEOUT))
    assert (again.act, again.again_us) == (False, SECOND)
    assert decided(past(40, ABANDONED, sent=False), past(20, TIMEOUT)).act


def test_the_breaker_opens_after_two_failures_in_a_row_and_lets_one_through_later() -> None:
    failed = past(500, TIMEOUT, incident="a"), past(400, NOT_RELEASED, incident="b")
    decision = decided(*failed)
    assert (decision.act, decision.tell) == (False, True)
    assert decision.again_us == (3600 - 400) * SECOND
    assert decided(*failed, past(300, RELEASED, incident="c")).act
    assert decided(past(500, RELEASED, incident="a"), past(400, CRASHED, incident="b")).act
    old = past(4200, TIMEOUT, incident="a"), past(3600, NOT_RELEASED, incident="b")
    assert decided(*old).act
    assert not decided(*old, past(300, TIMEOUT, incident="c")).act


def test_the_budgets() -> None:
    spent = [past(3000 - 100 * n, RELEASED, incident=f"{n}") for n in range(20)]
    decision = decided(*spent)
    assert (decision.act, decision.tell, decision.again_us) == (False, True, 600 * SECOND)
    own = [past(9000 - 1000 * n, ABANDONED, sent=False) for n in range(3)]
    assert decided(*own).reason == "tried 3 times for it, which is all it gets"


def test_a_clock_that_is_set_buys_no_wake() -> None:
    ours = past(1, TIMEOUT)
    later = Now(START.monotonic_us, START.wall_us + 10 * HOUR_US)
    earlier = Now(START.monotonic_us, START.wall_us - 10 * HOUR_US)
    assert ours.age_us(later) == SECOND
    assert ours.age_us(earlier) == 0


def test_the_time_a_wake_may_take() -> None:
    assert timeout_seconds(ACT, 0) == 600
    assert timeout_seconds(ACT, 2 * SECOND) == 60
    assert timeout_seconds(ACT, 40 * SECOND) == 200
    assert timeout_seconds(Wake(timeout_seconds=7), 40 * SECOND) == 7


OUTCOMES = st.sampled_from([RELEASED, NOT_RELEASED, TIMEOUT, CRASHED, ABANDONED])


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3), OUTCOMES, st.integers(-5000, 5000)), max_size=120),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_never_more_than_the_budget(
    steps: list[tuple[int, int, str, int]], per_incident: int, per_hour: int, failures: int
) -> None:
    """Whatever hangs when, whatever comes of it, and however the wall clock is set meanwhile."""
    settings = Wake(mode="act", per_incident=per_incident, per_hour=per_hour, breaker_failures=failures)
    history: list[Past] = []
    now = START
    row = 0
    broke_us = None
    for seconds, incident, outcome, stepped in steps:
        now = Now(now.monotonic_us + seconds * SECOND, now.wall_us + (seconds + stepped) * SECOND)
        hang = msgspec.structs.replace(HANG, incident=str(incident))
        if not decide(hang, settings, history, now).act:
            continue
        if broke_us is not None:
            assert now.monotonic_us - broke_us >= settings.breaker_seconds * SECOND
        history.append(
            Past(
                incident=hang.incident, server=hang.server, mode="act", wall_us=now.wall_us,
                monotonic_us=now.monotonic_us, outcome=outcome, sent=outcome != ABANDONED,
            )
        )  # fmt: skip
        row = 0 if outcome == RELEASED else row + 1 if outcome != ABANDONED else row
        broke_us = now.monotonic_us if row >= failures else None
        mine = [one for one in history if one.incident == hang.incident]
        assert len(mine) <= per_incident
        sent = [one.monotonic_us for one in history if one.sent and one.monotonic_us is not None]
        assert sum(now.monotonic_us - at < HOUR_US for at in sent) <= per_hour
