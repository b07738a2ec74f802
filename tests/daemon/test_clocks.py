"""When a process ended, on its own log clock: whether the idle timer had fired is told by that (made, no process)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleepwatch.daemon.watching import SourceWatch
from sleepwatch.engine.lives import LifeState
from sleepwatch.witness.exits import End
from sleepwatch.witness.observing import Server, _ended
from tests.cases.made import joined, journal, log
from tests.daemon.driving import SECOND, Driven, FakeClock, Write, feed, new_database, paced, stored

SERVED = "0 start\n1 serve 0\n4.05 sleep\n5 wake\n5.4 ready\n5.5 launch 4\n5.6 release 4\n"
"""Its idle timer is three seconds by what it did, so the next time it fires is 8.6; two seconds before count, too."""
IDLE = ("sleep-crash", "probable")
BUSY = ("crash", "confirmed")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    new_database(tmp_path / "x.db")
    (tmp_path / "server.log").touch()
    return tmp_path


def dies(driven: Driven, at: int = 0) -> LifeState:
    """The kernel tells that the process of this life has ended on signal 11, now."""
    (watch,) = driven.service._watches.values()
    assert isinstance(watch, SourceWatch)
    life = sorted(watch.servers(), key=lambda one: one.server.name)[at]
    now = driven.clock.now()
    server = Server(life=life.key, name=life.server.name, port=None, pid=1377)
    watch.witnessed(_ended(life, server, End(signal=11), watch.log_clock_us(life, now), now))
    driven.run_for(SECOND)
    return life


def deaths(place: Path) -> list[tuple[str, str]]:
    return [(one["kind"], one["confidence"]) for one in stored(place / "x.db").values()]


@pytest.mark.parametrize(("after_us", "kind"), [(500_000, BUSY), (2_500_000, IDLE), (12_000_000, BUSY)])
def test_by_when_its_last_line_came(place: Path, after_us: int, kind: tuple[str, str]) -> None:
    with Driven(place / "x.db", [place / "server.log"]) as driven:
        driven.run_for(SECOND)
        feed(driven, place / "server.log", paced(log(SERVED)), after_us=after_us)
        dies(driven)
    assert deaths(place) == [kind]


def test_what_another_server_writes_meanwhile_tells_nothing_of_it(place: Path) -> None:
    """One log of two servers: the other's line comes 1.9 s after its last."""
    two = [
        Write(write.at_us, name + b"  | " + write.data)
        for name, script in ((b"llama-a", SERVED), (b"llama-b", "0 start\n1 serve 0\n7.5 serve 2\n"))
        for write in paced(log(script))
    ]
    with Driven(place / "x.db", [place / "server.log"]) as driven:
        driven.run_for(SECOND)
        feed(driven, place / "server.log", sorted(two, key=lambda one: one.at_us), after_us=600_000)
        assert dies(driven).server.name == "llama-a"
    assert deaths(place) == [IDLE]


def test_lines_that_were_there_before_anybody_looked_have_no_time_here(place: Path) -> None:
    """Nobody knows how long ago it was idle, so its end may have been where the timer fired."""
    with Driven(place / "x.db", [place / "server.log"]) as driven:
        (place / "server.log").write_bytes(log(SERVED))
        driven.run_for(300_000)
        dies(driven)
    assert deaths(place) == [IDLE]


@pytest.mark.parametrize(("ago_us", "kind"), [(500_000, BUSY), (2_500_000, IDLE), (20_000_000, BUSY)])
def test_the_wall_time_of_such_lines_tells(place: Path, ago_us: int, kind: tuple[str, str]) -> None:
    lines = joined(journal(SERVED))
    written_us = paced(lines)[-1].at_us
    clock = FakeClock(wall_us=1_796_025_600 * SECOND + written_us + ago_us)  # 2026-11-30T08:00:00Z
    with Driven(place / "x.db", [place / "server.log"], clock) as driven:
        (place / "server.log").write_bytes(lines)
        driven.step()
        while not driven.service._watches or not next(iter(driven.service._watches.values())).caught_up:
            driven.clock.advance(1_000)
            driven.step()
        dies(driven)
    assert deaths(place) == [kind]
