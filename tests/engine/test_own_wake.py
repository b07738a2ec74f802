"""A wake of our own: the engine is told of it, and tells it from another's."""

from __future__ import annotations

from sleepwatch.engine import Engine, Transition
from sleepwatch.engine.state import dump, restore
from sleepwatch.model import Event, Incident
from tests.engine.feeding import Live, incidents

HANG = "0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n20 wake\n20.4 ready\n20.41 launch 1\n20.42 launch 2\n"


class Told(Live):
    """Live, and told of wakes."""

    def hangs(self, second: float = 5) -> Incident:
        self.tick(100)
        self.until(second)
        self.tick(100 + second)
        return self.incident()

    def own(self, type_: str, words: str = "") -> list[Transition]:
        (life,) = self.engine.lives
        event = Event(type=type_, origin=life.origin, offset=0, text=b"", fields={"words": words})
        return self._take(self.engine.feed(event))

    def incident(self) -> Incident:
        (incident,) = incidents(self.transitions).values()
        return incident


def test_what_is_launched_behind_our_wake_is_unstuck() -> None:
    live = Told(HANG)
    before = live.hangs()
    live.own("wake.sent")
    live.until()
    after = live.incident()
    assert (after.id, after.state) == (before.id, "unstuck")
    assert after.summary.endswith("a wake completion freed it after 18.3 s in all.")
    assert "our wake was sent while it slept" in after.reason
    assert after.duration_us == 18_310_000


def test_another_wake_came_first() -> None:
    live = Told(HANG)
    live.hangs()
    live.until(20.3)
    live.own("wake.sent")
    live.until()
    assert live.incident().state == "recovered"


def test_our_wake_failed_and_another_one_freed_it() -> None:
    live = Told(HANG)
    live.hangs()
    live.own("wake.sent")
    [change] = live.own("wake.failed", "no answer within 60 s")
    assert change.incident.state == "open"
    assert "and waking the server did not free it (no answer within 60 s)" in change.incident.summary
    live.until()
    assert live.incident().state == "recovered"


def test_it_woke_and_the_request_was_not_launched() -> None:
    live = Told(HANG.replace("20.41 launch 1\n", ""))
    live.hangs()
    live.own("wake.sent")
    live.until()
    live.own("wake.failed", "its log shows no launch")
    assert live.incident().state == "open"
    assert "did not free it (its log shows no launch)" in live.incident().summary


def test_it_is_told_of_the_sleep_it_was_sent_in_and_of_no_other() -> None:
    live = Told(HANG + "20.5 release 1\n20.6 release 2\n22 sleep\n22.05 post 3\n40 wake\n40.4 ready\n40.41 launch 3\n")
    live.hangs()
    live.own("wake.sent")
    live.until(25)
    live.tick(130)
    live.until()
    assert sorted(one.state for one in incidents(live.transitions).values()) == ["recovered", "unstuck"]


def test_over_a_restart() -> None:
    live = Told(HANG)
    live.hangs()
    live.own("wake.sent")
    state = restore(dump(live.engine.state()))
    resumed = Engine(live.engine._words, live=True)
    resumed.resume(state)
    (live_life,), (life,) = live.engine.lives, resumed.lives
    for event in live._events:
        event.origin = life.origin if event.origin is live_life.origin else event.origin
    live.engine = resumed
    live.until()
    assert live.incident().state == "unstuck"


def test_it_tells_nothing_of_a_life_that_is_not_known() -> None:
    live = Told(HANG)
    live.until(1)
    live.own("wake.sent")
    live.own("wake.failed", "x")
    assert live.transitions == []
