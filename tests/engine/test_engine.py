"""The engine: what it says when, and what it takes back. The verdicts themselves are tested over tests/cases."""

from __future__ import annotations

import pytest

from sleepwatch.engine import Engine
from sleepwatch.rules import load_incidents
from sleepwatch.scan import engine_words
from tests.cases import deaths, hangs, routers
from tests.cases.case import Case
from tests.cases.made import joined, journal, log
from tests.engine.feeding import Live, events, incidents
from tests.reader.reading import RECORDINGS, read, recording

HANG = "0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n20 wake\n20.4 ready\n20.41 serve 1\n21.5 sleep\n"


def test_a_hang_opens_after_the_grace_and_closes_with_the_wake() -> None:
    live = Live(HANG)
    live.tick(100)
    assert live.until(2.2) == []
    assert live.tick(101.9) == []
    [opened] = live.tick(102)
    assert opened.before is None
    assert (opened.incident.kind, opened.incident.confidence) == ("hung-request", "confirmed")
    assert opened.incident.state == "open"
    assert live.until(19) == []
    closed = live.until()
    assert {one.incident.id for one in closed} == {opened.incident.id}
    assert not any(one.withdrawn for one in closed)
    assert closed[-1].incident.state == "recovered"


def test_what_the_wake_frees_within_the_grace_is_never_told() -> None:
    live = Live("0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n3 wake\n3.4 ready\n3.41 serve 1\n9 cleanup\n")
    live.tick(100)
    live.until(2.9)
    live.tick(100.9)
    assert live.until() == []
    assert live.finish() == []
    [life] = live.engine.drain_lives()
    assert life.freed_in_grace == 1


def test_a_client_that_gives_up_asleep_is_told_at_once() -> None:
    live = Live("0 start\n1 serve 0\n2.1 sleep\n3.2 cancel 2\n")
    live.tick(100)
    [told] = live.until()
    assert (told.incident.confidence, told.incident.state) == ("confirmed", "abandoned")


def test_an_arrival_before_the_sleep_becomes_probable_when_the_grace_is_over() -> None:
    live = Live("0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.1 sleep\n9 cancel 2\n")
    live.tick(100)
    assert live.until(3) == []
    assert live.tick(101.9) == []
    [opened] = live.tick(102.1)
    assert (opened.incident.confidence, opened.incident.state) == ("probable", "open")
    [sure] = live.until()
    assert sure.before == opened.incident
    assert (sure.incident.confidence, sure.incident.state) == ("confirmed", "abandoned")


def test_absence_is_measured_by_the_monotonic_clock_alone() -> None:
    """A wall clock that was set forward, or a machine that was suspended, has waited for nobody; nor does one that was
    set back hide that something waits."""
    live = Live("0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.1 sleep\n")
    live.tick(100)
    live.until()
    assert live.tick(101, wall=5_000) == []
    [opened] = live.tick(103, wall=100.5)
    assert opened.incident.state == "open"


def test_a_wake_is_overdue_after_several_times_the_reload() -> None:
    first = "0 start\n1 serve 0\n2.1 sleep\n20 wake\n23 ready\n23.1 serve 2\n24.2 sleep\n"
    live = Live(first + "40 wake\n70 ready\n70.1 serve 4\n")
    live.tick(0)
    live.until(30)
    live.tick(100)
    live.until(41)
    assert live.tick(110) == []
    overdue = [one for one in live.tick(132) if one.incident.kind == "wake-failure"]
    assert [(one.incident.confidence, one.incident.state) for one in overdue] == [("probable", "open")]
    assert [one.incident.kind for one in live.until() if one.withdrawn] == ["wake-failure"]


def test_a_wake_after_a_long_sleep_is_not_overdue() -> None:
    """What it slept is not what it takes to wake."""
    first = "0 start\n1 serve 0\n2.1 sleep\n20 wake\n23 ready\n23.1 serve 2\n24.2 sleep\n"
    live = Live(first + "9000 wake\n9003 ready\n9003.1 serve 4\n")
    live.tick(0)
    live.until(30)
    live.tick(8_900)
    live.until(9_001)
    assert live.tick(8_902) == []
    assert live.until() == []


def test_no_wake_is_overdue_where_no_reload_was_seen() -> None:
    live = Live("0 start\n1 serve 0\n2.1 sleep\n20 wake\n")
    live.until()
    assert live.tick(0) == []
    assert live.tick(100_000) == []


def test_a_snapshot_is_asked_for_at_each_sleep_and_only_live() -> None:
    live = Live(HANG)
    live.until(2)
    assert live.asks == []
    live.until(2.2)
    assert live.asks == ["snapshot"]
    live.until()
    assert live.asks == ["snapshot", "snapshot"]
    replay = Engine(engine_words(load_incidents()))
    assert not any(replay.feed(event).asks for event in events(log(HANG)))


def test_a_death_that_is_refuted_is_taken_back() -> None:
    segfault = "| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
    live = Live("0 start\n1 serve 0\n2 launch 2\n" + segfault + "2.5 release 2\n", line_by_line=True)
    reported = live.until(2.1)
    assert [one.incident.kind for one in reported] == ["crash-in-flight"]
    assert [one.withdrawn for one in live.until()] == [True]


def test_a_death_told_before_the_life_is_identified_is_told_again_under_its_own_name() -> None:
    """A life's identity is its first eight lines; a death in the first seven that is refuted leaves nothing behind."""
    segfault = "| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
    live = Live("0.302 start\n1 launch 0\n" + segfault + "1.1 release 0\n1.2 serve 2\n", line_by_line=True)
    live.until()
    assert live.transitions
    assert incidents(live.transitions) == {}


def test_a_crash_becomes_the_loop() -> None:
    """One incident from the first death on; its id does not change when the fifth makes it a loop."""
    live = Live(deaths.SEGV.join(["0.002 init\n0.008 load\n"] * 7) + deaths.SEGV)
    first = live.until(1)
    live.finish()
    standing = incidents(live.transitions)
    assert [(i.kind, i.count) for i in standing.values()] == [("crash-loop", 7)]
    assert first[0].incident.id in standing


@pytest.mark.parametrize("case", [c for m in (hangs, deaths, routers) for c in m.CASES], ids=lambda case: case.name)
def test_live_and_replay_end_in_the_same_incidents(case: Case) -> None:
    """Fed live, without any time passing, the same lines end in the same incidents as from a file."""
    engine = Engine(engine_words(load_incidents()), live=True)
    transitions = [one for event in events(case.log) for one in engine.feed(event).transitions]
    transitions += engine.finish().transitions
    live, replayed = incidents(transitions), read([case.log]).incidents
    assert live == replayed


@pytest.mark.parametrize("name", RECORDINGS)
def test_transitions_tell_a_story_without_gaps(name: str) -> None:
    """Each begins with what the last left, and nothing changes without a difference."""
    engine = Engine(engine_words(load_incidents()))
    standing: dict[str, object] = {}
    outputs = [engine.feed(event) for event in events(recording(name))] + [engine.finish()]
    for one in (transition for output in outputs for transition in output.transitions):
        assert standing.get(one.incident.id) == one.before
        if one.withdrawn:
            del standing[one.incident.id]
        else:
            assert one.incident != one.before
            standing[one.incident.id] = one.incident


def test_one_servers_lines_do_not_speak_of_another() -> None:
    """Two servers' journals, mixed line by line: the same incidents as each alone."""
    hangs = "0 start\n1 serve 0\n2.1 sleep\n9 cancel 2\n20 wake\n20.4 ready\n20.41 serve 4\n"
    works = "0.0001 start lv=5\n1 post 0\n1.01 launch 0\n5 post 9\n5.1 cancel 9\n"
    one = journal(hangs, pid=70, unit="llama-a")
    other = journal(works, pid=80, unit="llama-b", started=1)
    apart = read([joined(one)]).sure + read([joined(other)]).sure
    assert {i.id for i in read([joined(one, other)]).sure} == {i.id for i in apart}


def test_memory_stays_small_over_many_sleeps() -> None:
    """A life of ten thousand sleeps leaves no more behind than one of ten."""
    script = "".join(
        f"{at} arrive\n{at + 0.01} serve {2 * n}\n{at + 1.1} sleep\n{at + 20} wake\n{at + 20.4} ready\n"
        for n in range(400) for at in [10 + 30 * n]
    )  # fmt: skip
    live = Live("0 start lv=4\n" + script)
    live.until()
    [life] = live.engine.lives
    ledger = life.ledger
    assert ledger.sleeps == 400
    assert len(ledger.busy) + len(ledger.queued) + len(ledger.arrivals) + len(life.reported) <= 2
    assert ledger.sleep is not None
    assert len(ledger.sleep.pendings) == 0
