"""What a look at the connections makes of a life (made): H8 and its second facts, and what takes a verdict back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sleepwatch.engine import Ask, Now, Transition
from sleepwatch.engine.state import dump, restore
from sleepwatch.engine.witnesses import Witnessed
from sleepwatch.model import Event, Incident
from tests.engine.feeding import Live, incidents

SLEEP = "0 start\n1 serve 0\n2.1 sleep\n"
HUNG = Witnessed(cookie=7, peer="10.0.0.9:40000", pending=True, received=79_589, received_ms=40, sent=0, sent_ms=40)


def answer(ask: Ask, *connections: Witnessed, unseen: str | None = None) -> Event:
    """The answer a witness gives."""
    fields: dict[str, Any] = {
        "life": ask.life,
        "sleep": ask.sleep,
        "asleep_us": ask.asleep_us,
        "awake_us": ask.awake_us,
        "unseen": unseen,
        "connections": [msgspec.to_builtins(one) for one in connections],
    }
    return Event(
        type="witness.snapshot", origin=ask.origin, offset=0, text=b"seen", fields=fields, clock_us=ask.clock_us,
        source="live: connections to port 8080",
    )  # fmt: skip


class Seen(Live):
    """A live engine whose asks are answered by hand. Its lines come at the moment of their stamps."""

    def until(self, second: float | None = None) -> list[Transition]:
        """See Live."""
        if second is not None:
            self.engine.at(Now(round(second * 1e6), round(second * 1e6)))
        return super().until(second)

    def look(self, *connections: Witnessed, unseen: str | None = None) -> None:
        """Answer the ask that was made last."""
        ask = [one for one in self.last_asks if one.what == "snapshot"][-1]
        self.last_asks = [one for one in self.last_asks if one.what != "snapshot"]
        self._take(self.engine.feed(answer(ask, *connections, unseen=unseen)))

    def says(self, sleeping: bool) -> None:
        """``/props`` has answered."""
        ask = next(one for one in self.last_asks if one.what == "props")
        self.last_asks.remove(ask)
        fields = {"life": ask.life, "sleep": ask.sleep, "sleeping": sleeping}
        event = Event(type="witness.props", origin=ask.origin, offset=0, text=b"props", fields=fields)
        self._take(self.engine.feed(event))

    @property
    def standing(self) -> list[Incident]:
        """The incidents as they stand."""
        return list(incidents(self.transitions).values())

    def only(self) -> Incident:
        """The one incident."""
        (one,) = self.standing
        return one


def hung(script: str = SLEEP, *connections: Witnessed) -> Seen:
    """A server with a connection that waits, seen when it fell asleep at 2.1 s and when the grace was over."""
    live = Seen(script)
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look(*(connections or (HUNG,)))
    live.tick(3.2)
    assert live.standing == []
    live.tick(4.15)
    live.look(*(connections or (HUNG,)))
    return live


def later(one: Witnessed = HUNG, **fields: Any) -> Witnessed:
    """The connection at a later look."""
    return msgspec.structs.replace(one, **fields)


# -- H8 ---------------------------------------------------------------------------------------------------------------


def test_a_connection_that_waits_for_longer_than_the_grace_is_probably_hung() -> None:
    one = hung().only()
    assert (one.kind, one.confidence, one.state, one.log_opened_us) == ("hung-request", "probable", "open", 2_100_000)
    assert "H8" in one.reason
    assert "10.0.0.9:40000" in one.summary
    assert [e.role for e in one.evidence] == ["sleep", "connection", "connection"]
    assert {e.source for e in one.evidence if e.role == "connection"} == {"live: connections to port 8080"}


def test_within_the_grace_it_is_nothing() -> None:
    live = Seen(SLEEP + "3.5 wake\n3.6 ready\n3.7 serve 2\n")
    live.tick(0)
    live.until(2.1)
    live.look(HUNG)
    live.tick(3)
    live.until()
    live.tick(10)
    assert live.standing == []


def test_what_had_gone_when_the_grace_was_over_is_nothing() -> None:
    live = Seen(SLEEP)
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look(HUNG)
    live.tick(4.15)
    live.look()
    live.tick(60)
    assert live.standing == []


def test_nothing_is_looked_at_again_where_nothing_waits() -> None:
    live = Seen(SLEEP)
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look()
    for second in range(3, 600):
        live.tick(second)
    assert live.last_asks == []
    assert not live.engine.waits


def test_two_that_wait_are_two_hangs() -> None:
    other = later(cookie=8, peer="10.0.0.9:40001")
    live = hung(SLEEP, HUNG, other)
    assert sorted(one.summary.split()[4] for one in live.standing) == ["10.0.0.9:40000", "10.0.0.9:40001"]


def test_what_came_during_the_sleep_asks_for_the_wake_itself() -> None:
    live = Seen(SLEEP)
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look(later(pending=False))
    live.tick(60)
    assert live.standing == []


# -- second facts -----------------------------------------------------------------------------------------------------


def test_its_cancel_confirms_it_in_the_same_incident() -> None:
    live = hung(SLEEP + "6 cancel 2\n")
    before = live.only()
    live.until()
    after = live.only()
    assert (after.id, after.confidence, after.state, after.task) == (before.id, "confirmed", "abandoned", 2)
    assert "H2" in after.reason and "H8" in after.reason
    log_alone = Live(SLEEP + "6 cancel 2\n")
    log_alone.until()
    log_alone.finish()
    assert list(incidents(log_alone.transitions)) == [after.id]


def test_an_arrival_right_before_the_sleep_confirms_it() -> None:
    live = hung("0 start\n0.9 arrive\n1 serve 0\n2.08 arrive\n2.1 sleep\n")
    one = live.only()
    assert one.confidence == "confirmed"
    assert "H5" in one.reason
    assert [e.role for e in one.evidence] == ["arrival", "sleep", "connection", "connection"]


def test_its_answer_after_the_wake_confirms_it() -> None:
    live = hung(SLEEP + "20 wake\n20.1 ready\n20.2 launch 2\n")
    live.until(20.1)
    live.tick(20.2)
    live.look(later(sent=300, sent_ms=5))
    one = live.only()
    assert (one.confidence, one.state) == ("confirmed", "recovered")
    assert "answered after the wake" in one.reason


def test_the_first_launch_behind_the_wake_is_its_own() -> None:
    live = hung(SLEEP + "20 wake\n20.1 ready\n20.2 launch 2\n20.201 launch 3\n")
    live.until()
    one = live.only()
    assert (one.state, one.task, one.confidence) == ("recovered", 2, "confirmed")


@pytest.mark.parametrize(
    ("look", "confidence"),
    [
        (later(received_ms=2_300), "probable"),
        (later(received_ms=2_300, sent=300, sent_ms=5), "confirmed"),
        (later(received_ms=2_300, sent=300, sent_ms=1_900), None),
    ],
    ids=["waits still", "answered since the wake", "answered before it"],
)
def test_a_look_right_after_the_wake_stands_for_one_that_came_too_late(look: Witnessed, confidence: str | None) -> None:
    live = Seen(SLEEP + "4.3 wake\n4.35 ready\n4.36 launch 2\n")
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look(HUNG)
    for second in (4.3, 4.36):
        live.until(second)
    live.tick(4.37)
    live.look(look)
    assert [one.confidence for one in live.standing] == [confidence] * (confidence is not None)


def test_its_own_word_that_it_sleeps_is_evidence() -> None:
    live = Seen(SLEEP)
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look(HUNG)
    live.tick(3.2)
    live.says(sleeping=True)
    live.tick(4.2)
    live.look(HUNG)
    assert [e.role for e in live.only().evidence] == ["sleep", "connection", "props", "connection"]


def test_a_cancel_is_that_of_the_client_that_has_gone_and_the_other_hangs_on() -> None:
    stays, leaves = HUNG, later(cookie=8, peer="10.0.0.9:40001", received_ms=20)
    live = Seen(SLEEP + "3.5 cancel 3\n20 wake\n20.1 ready\n20.2 launch 2\n20.21 release 2\n20.22 launch 4\n")
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look(stays, leaves)
    live.until(3.5)
    live.tick(3.5)
    live.look(stays)
    live.tick(4.2)
    live.look(stays)
    assert sorted((one.state, one.summary.split()[4]) for one in live.standing) == [
        ("abandoned", "10.0.0.9:40001"),
        ("open", "10.0.0.9:40000"),
    ]
    live.until(20.2)
    live.tick(20.2)
    live.look(later(stays, sent=300, sent_ms=5))
    live.until()
    assert sorted((one.state, one.task, one.confidence) for one in live.standing) == [
        ("abandoned", 3, "confirmed"),
        ("recovered", 2, "confirmed"),
    ]


def test_whose_cancel_it_was_is_seen_in_the_reload_too() -> None:
    stays, leaves = HUNG, later(cookie=8, peer="10.0.0.9:40001", received_ms=20)
    live = hung(SLEEP + "20 wake\n20.01 cancel 3\n20.1 ready\n20.2 launch 2\n20.21 release 2\n", stays, leaves)
    live.until(20.01)
    live.tick(20.02)
    live.look(stays)
    live.until(20.2)
    live.tick(20.2)
    live.look(later(stays, sent=300, sent_ms=5))
    live.until()
    assert sorted((one.state, one.task, one.summary.split()[4]) for one in live.standing) == [
        ("abandoned", 3, "10.0.0.9:40001"),
        ("recovered", 2, "10.0.0.9:40000"),
    ]


@pytest.mark.parametrize("rest", ["9 cancel 3\n", "9 cancel 3\n9.5 cancel 2\n"])
@pytest.mark.parametrize("looked", [True, False], ids=["told by time before", "cancel and grace at once"])
def test_of_several_arrivals_the_first_that_is_proved_is_the_first_hang_live_as_in_the_log_alone(
    rest: str, looked: bool
) -> None:
    script = "0 start\n0.9 arrive\n1 serve 0\n2.08 arrive\n2.09 arrive\n2.1 sleep\n" + rest
    if looked:
        live = hung(script, HUNG, later(cookie=8, peer="10.0.0.9:40001"))
        assert len(live.standing) == 2
    else:
        live = Seen(script)
        live.tick(0)
        live.until(2.1)
    live.until(9)
    live.until(9.5)
    log_alone = Live(script)
    log_alone.until()
    log_alone.finish()
    told = {one.id: one.task for one in incidents(log_alone.transitions).values() if one.confidence == "confirmed"}
    assert told == {one.id: one.task for one in live.standing if one.task is not None}


# -- what takes it back -----------------------------------------------------------------------------------------------


def test_an_upload_that_goes_on_was_no_request() -> None:
    live = hung()
    live.tick(9.2)
    live.look(later(received=80_000, received_ms=100, pending=False))
    assert live.standing == []
    assert live.transitions[-1].withdrawn


def test_a_connection_that_waits_on_in_an_idle_server_was_no_request() -> None:
    live = hung(SLEEP + "20 wake\n20.1 ready\n20.2 serve 2\n")
    live.until(20.3)
    for second in (20.3, 20.6, 24):
        live.tick(second)
        live.look(later(received_ms=18_000))
    assert live.standing == []


def test_a_connection_that_ends_without_a_cancel_is_only_possible() -> None:
    live = hung()
    live.tick(9.2)
    live.look()
    assert live.only().confidence == "probable", "the cancel may be on its way"
    live.tick(9.5)
    live.look()
    one = live.only()
    assert (one.confidence, one.state) == ("possible", "abandoned")


WAKE = "20 wake\n20.1 ready\n"


def woken_by_us(rest: str, *connections: Witnessed) -> Seen:
    """As :func:`hung`, and woken by us at 20 s."""
    live = hung(SLEEP + WAKE + rest, *connections)
    (life,) = live.engine.lives
    sent = Event(
        type="wake.sent", origin=life.origin, offset=0, text=b"", fields={"life": life.key, "words": ""},
        clock_us=19_900_000, source="live: wake",
    )  # fmt: skip
    live._take(live.engine.feed(sent))
    return live


def test_our_own_launch_is_not_taken_for_the_one_of_an_upload() -> None:
    live = woken_by_us("20.2 serve 2\n")
    live.until(20.3)
    assert (live.only().state, live.only().task) == ("open", None)
    for second in (20.3, 20.6, 24):
        live.tick(second)
        live.look(later(received_ms=18_000))
    assert live.standing == []


def test_beside_a_request_that_hangs_an_upload_is_not_confirmed() -> None:
    upload, stuck = later(cookie=6, peer="10.0.0.8:1", received_ms=9_000), HUNG
    live = woken_by_us("20.2 launch 2\n20.201 release 2\n20.21 launch 3\n20.211 release 3\n", upload, stuck)
    live.until(20.211)
    live.tick(20.3)
    live.look(later(upload, received_ms=27_000), later(sent=300, sent_ms=5))
    found = {one.summary.split()[4]: one for one in live.standing}
    assert (found["10.0.0.8:1"].state, found["10.0.0.8:1"].confidence) == ("open", "probable")
    assert (found["10.0.0.9:40000"].state, found["10.0.0.9:40000"].task) == ("unstuck", 2)
    for second in (20.6, 24):
        live.tick(second)
        live.look(later(upload, received_ms=31_000))
    assert [one.state for one in live.standing] == ["unstuck"]


def test_a_stalled_upload_is_no_request_in_the_next_sleep_either() -> None:
    live = woken_by_us("20.2 serve 2\n30 sleep\n60 wake\n60.1 ready\n60.2 serve 4\n90 sleep\n")
    for second in (20.3, 20.6, 24):
        live.until(second)
        live.tick(second)
        live.look(later(received_ms=18_000))
    for second in (30, 90):
        live.until(second)
        live.tick(second)
        live.look(later(received_ms=(second - 2) * 1000))
        live.tick(second + 2.1)
        assert [ask for ask in live.last_asks if ask.what == "snapshot"] == []
    assert live.standing == []


def test_where_it_soon_falls_asleep_again_the_upload_is_known_by_that() -> None:
    live = woken_by_us("20.2 serve 2\n21.2 sleep\n")
    live.until(20.3)
    for second in (20.3, 20.6, 20.9):
        live.tick(second)
        live.look(later(received_ms=18_000))
    assert live.only().state == "open"
    live.until(21.2)
    assert live.standing == []
    live.tick(21.2)
    live.look(later(received_ms=19_140))
    live.tick(23.4)
    assert live.standing == []


def test_more_of_an_upload_makes_it_a_request_again() -> None:
    live = hung(SLEEP + WAKE + "20.2 serve 2\n30 sleep\n")
    live.until(30)
    live.tick(30)
    live.look(later(received=90_000, received_ms=40))
    live.tick(32.1)
    live.look(later(received=90_000, received_ms=2_140))
    assert [one.log_opened_us for one in live.standing][-1] == 30_000_000


def test_of_three_that_hang_the_launches_are_told_apart_from_ours_though_their_clients_leave_at_once() -> None:
    connections = [later(cookie=at, peer=f"10.0.0.9:{at}") for at in (7, 8, 9)]
    live = woken_by_us("20.2 launch 2\n20.21 release 2\n20.22 launch 3\n20.23 release 3\n"
                       "20.24 launch 4\n20.25 release 4\n20.26 launch 5\n20.27 release 5\n", *connections)  # fmt: skip
    live.until(20.215)
    for second in (20.215, 20.216):
        live.tick(second)
        live._take(live.engine.feed(msgspec.structs.replace(_gone(live), clock_us=round(second * 1e6))))
    live.until()
    assert [(one.state, one.task) for one in live.standing] == [("unstuck", 2), ("unstuck", 3), ("unstuck", 4)]


def test_of_many_that_hang_none_is_said_to_have_given_up_because_its_launch_was_only_counted() -> None:
    connections = [later(cookie=at, peer=f"10.0.0.9:{at}") for at in range(40)]
    launches = "".join(
        f"{20.2 + at / 1000:.3f} launch {at}\n{20.2005 + at / 1000:.4f} release {at}\n" for at in range(2, 43)
    )
    live = woken_by_us(launches + "23 launch 99\n", *connections)
    live.until(20.29)
    for second in (20.29, 20.6):
        live.tick(second)
        live._take(live.engine.feed(msgspec.structs.replace(_gone(live), clock_us=round(second * 1e6))))
    live.until()
    assert {one.state for one in live.standing} == {"unstuck"}
    assert len(live.standing) == 40


def _gone(live: Seen) -> Event:
    """A look after the wake that shows no connection."""
    (life,) = live.engine.lives
    assert life.ledger.sleep is not None
    fields = {"life": life.key, "sleep": life.ledger.sleep.key, "asleep_us": None, "awake_us": 0, "unseen": None}
    return Event(
        type="witness.snapshot", origin=life.origin, offset=0, text=b"seen", fields={**fields, "connections": []}
    )


def test_a_long_prompt_that_runs_behind_our_wake_is_not_ours() -> None:
    live = woken_by_us("20.2 launch 2\n")
    live.until(20.2)
    live.tick(23.5)
    live.look(later(received_ms=21_000))
    one = live.only()
    assert (one.state, one.task, one.confidence) == ("unstuck", 2, "probable")


def test_its_own_word_that_it_is_awake_takes_it_back() -> None:
    live = Seen(SLEEP)
    live.tick(0)
    live.until(2.1)
    live.tick(2.1)
    live.look(HUNG)
    live.tick(3.2)
    live.says(sleeping=False)
    live.tick(4.2)
    live.look(HUNG)
    assert live.standing == []


# -- deaths -----------------------------------------------------------------------------------------------------------

DEATH = "| /opt/run.sh: line 6: 1519 Segmentation fault      llama-server -m x.gguf --sleep-idle-seconds 1\n"
CRASH = SLEEP + DEATH


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_crash_says_how_many_were_in_flight(count: int) -> None:
    live = Seen(CRASH)
    live.tick(0)
    live.until(2.1)
    live.look(*[later(cookie=at, peer=f"10.0.0.9:{at}") for at in range(count)])
    live.until()
    one = live.only()
    assert (one.kind, one.in_flight, one.confidence) == ("sleep-crash", count, "confirmed" if count else "probable")
    assert "the kernel showed" in one.reason


def test_a_look_that_came_too_late_counts_nothing() -> None:
    live = Seen(CRASH)
    live.tick(0)
    live.until(2.1)
    live.look(unseen="its process had ended before its connections were looked at")
    live.until()
    one = live.only()
    assert (one.in_flight, one.in_flight_reason, one.confidence) == (
        None,
        "its process had ended before its connections were looked at",
        "probable",
    )


def test_a_known_hang_is_lost_with_the_process() -> None:
    live = hung(SLEEP + DEATH)
    live.until()
    found = {one.kind: one for one in live.standing}
    assert found["hung-request"].state == "lost"
    assert found["sleep-crash"].kind == "sleep-crash"


def ended(live: Seen, **fields: Any) -> None:
    """The kernel tells that the process has ended."""
    (life,) = live.engine.lives
    given = {"by": "kernel", "life": life.key, "pid": 4711, **fields}
    event = Event(
        type="process.exit", origin=life.origin, offset=0, text=b"ended", fields=given, clock_us=2_130_000, wall_us=1,
        source="live: process 4711",
    )  # fmt: skip
    live._take(live.engine.feed(event))


@pytest.mark.parametrize(
    ("fields", "kind", "confidence", "signal"),
    [
        ({"signal": 11}, "sleep-crash", "confirmed", 11),
        ({}, "sleep-crash", "probable", None),
        ({"signal": 9}, "crash", "confirmed", 9),
        ({"status": 1}, "sleep-crash", "probable", None),
    ],
    ids=["signal 11", "not told", "killed", "status 1"],
)
def test_an_end_that_only_the_kernel_tells(
    fields: dict[str, Any], kind: str, confidence: str, signal: int | None
) -> None:
    live = Seen(SLEEP)
    live.tick(0)
    live.until(2.1)
    live.look(HUNG)
    live.until()
    ended(live, **fields)
    one = live.only()
    assert (one.kind, one.confidence, one.signal) == (kind, confidence, signal)
    assert [e.source for e in one.evidence if e.role == "exit"] == ["live: process 4711"]


@pytest.mark.parametrize("fields", [{"status": 0}, {"signal": 15}, {"signal": 2}])
def test_a_wanted_end_is_no_incident(fields: dict[str, Any]) -> None:
    live = Seen(SLEEP)
    live.until()
    ended(live, **fields)
    assert live.standing == []


def test_others_say_how_it_ended_where_the_kernel_does_not() -> None:
    live = Seen(CRASH)
    live.tick(0)
    live.until(2.1)
    live.look()
    ended(live)
    before = live.only()
    live.until()
    after = live.only()
    assert (before.id, before.signal, before.confidence) == (after.id, None, "probable")
    assert after.signal == 11
    assert sorted(e.source for e in after.evidence if e.role == "exit") == ["live: process 4711", "server.log"]


# -- over a restart ---------------------------------------------------------------------------------------------------


def test_a_restart_of_the_daemon_forgets_nothing_and_takes_nothing_back() -> None:
    live = hung(SLEEP + "20 cancel 2\n")
    before = live.only()
    live.engine.resume(restore(dump(live.engine.state())))
    live.tick(1_000)
    assert live.only() == before, "not taken back because waiting is measured anew"
    live.look(later(received_ms=996_000))
    (origin,) = {life.origin for life in live.engine.lives}
    for event in live._events:
        event.origin = origin
    live.until()
    assert (live.only().id, live.only().state) == (before.id, "abandoned")
