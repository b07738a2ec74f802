"""Where a life begins, by its clock and its start markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.engine.lives import server_name
from sleepwatch.engine.streams import fell
from tests.cases.made import Era, log
from tests.engine.feeding import events

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("last", "clock", "restart"),
    [
        (400, 3, True),
        (61, 0.002, True),
        (61, 59, False),  # across the minute by two seconds: a stepped clock
        (70, 59, True),
        (4000, 2200, False),  # a new process's first lines are below a minute
        (30, 0.4, True),
        (30, 20, False),
        (30, 14, True),
        (1.5, 0.9, False),  # less than a second back
        (0.9, 0.002, False),
        (2.1, 0.002, True),
    ],
)
def test_a_fall_without_a_start_marker(last: float, clock: float, restart: bool) -> None:
    assert fell(round(last * SECOND), round(clock * SECOND)) is restart


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_clock_that_goes_on_never_fell(one: int, other: int) -> None:
    assert not fell(min(one, other), max(one, other))
    assert not (fell(one, other) and fell(other, one))


@pytest.mark.parametrize("era", ["A", "B", "C"])
def test_one_start_is_one_life(era: Era) -> None:
    """The markers of one start, the loads of its wakes and its router's lines begin no other life."""
    script = "0 start\n1 serve 0\n2.1 sleep\n20 wake\n20.4 ready\n20.41 serve 2\n21.5 sleep\n"
    for times in (1, 2, 3):
        begun = [event for event in events(log((script + "30 cleanup\n") * times, era=era)) if event.new_life]
        assert len(begun) == times
    assert {event.type for event in begun} == {"process.start"}


def test_a_log_without_start_lines_begins_one_life() -> None:
    lines = events(log("5 serve 0\n6.1 sleep\n20 wake\n20.4 ready\n20.41 serve 2\n"))
    assert [event.type for event in lines if event.new_life] == ["request.launched"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/var/log/llama-server.log", "llama-server"),
        ("/var/log/llama-server.log.1", "llama-server"),
        ("/var/log/llama-server.log.2.gz", "llama-server"),
        ("/var/log/llama-server.log-20261130.xz", "llama-server"),
        ("/var/log/llama-server.2026-11-30.log", "llama-server"),
        ("server", "server"),
        (".log", ".log"),
        ("-", "stdin"),
    ],
)
def test_a_servers_name_is_its_files_stem(source: str, name: str) -> None:
    assert server_name(source) == name
