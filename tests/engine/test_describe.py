"""The words for what an event changed. Logs: made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sleepwatch.engine.describe import SURER
from sleepwatch.engine.verdicts import CONFIRMED
from sleepwatch.model import KINDS
from tests.cases.made import log
from tests.explain.asking import traced


def _told(directory: Path, text: bytes) -> Iterator[tuple[str, str, str]]:
    _, steps, _ = traced(directory, text)
    for step in steps:
        for _life, change in step.changes:
            yield (step.event.type if step.event is not None else "end", change.what, change.words)


PASSED = "has passed the wake check: it will be queued into a sleeping server"
SERVED = "0 start lv=5\n1 arrive\n1.01 post 0\n1.02 serve 0\n"


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (SERVED, ("process.start", "life", "a new life of server begins")),
        (SERVED, ("process.verbosity", "fact", "verbosity: 5")),
        (SERVED, ("server.listening", "fact", "listens on: http://127.0.0.1:8080")),
        (SERVED, ("request.arrived", "traffic", "arrived and not launched: 1")),
        (SERVED, ("request.posted", "traffic", "queued: 0")),
        (SERVED, ("request.launched", "traffic", "busy: 0")),
        (SERVED, ("request.released", "traffic", "busy: none")),
        (SERVED + "3 sleep\n", ("sleep.enter", "phase", "awake -> asleep (sleep 1, mark 0, nothing pending)")),
        (SERVED + "3 sleep\n", ("sleep.enter", "fact", "falls asleep when idle for: about 2 s")),
        (
            SERVED + "2.95 arrive\n3 sleep\n",
            (
                "sleep.enter",
                "pending",
                "a request that came before the sleep (0.050 s before) may lie in the queue: it was not launched",
            ),
        ),
        (
            SERVED + "3 sleep\n3.1 post 1\n",
            ("request.posted", "pending", "task 1 was posted into the queue of a sleeping server"),
        ),
        (
            SERVED + "3 sleep\n3.1 arrive\n",
            ("request.arrived", "pending", f"a request that came during the sleep {PASSED}"),
        ),
        (
            SERVED + "3 sleep\n6 cancel 1\n",
            (
                "request.cancelled",
                "pending",
                "task 1: its client gave up while the loop holds the queue; its id is above the mark 0",
            ),
        ),
        (
            SERVED + "3 sleep\n3.5 wake\n",
            ("sleep.exit", "phase", "asleep -> reloading after 0.500 s of sleep (within the grace)"),
        ),
        (SERVED + "3 sleep\n6 wake\n", ("sleep.exit", "phase", "asleep -> reloading after 3.000 s of sleep")),
        (SERVED + "3 sleep\n6 wake\n6.4 ready\n", ("load.ready", "fact", "longest reload: 0.400 s")),
        (SERVED + "9 cleanup\n", ("process.stopping", "end", "asked to stop")),
        (
            SERVED + "3 sleep\n| /opt/run.sh: line 3: 7 Segmentation fault      (core dumped) llama-server\n",
            ("process.exit", "end", "it has ended (signal 11), said by: shell"),
        ),
        (
            SERVED + "3 cleanup\n| /opt/run.sh: line 3: 7 Terminated      llama-server\n",
            ("process.exit", "end", "it has ended (signal 15), said by: shell; planned: a stop had been asked for"),
        ),
        (
            SERVED + "0 start\n",
            ("process.start", "end", "a new start shows that it has ended; nothing tells how"),
        ),
    ],
)
def test_words(tmp_path: Path, text: str, change: tuple[str, str, str]) -> None:
    assert change in list(_told(tmp_path, log(text)))


def test_a_launch_that_had_waited(tmp_path: Path) -> None:
    asleep = "0 start lv=4\n1 arrive\n1.01 serve 0\n2.99 arrive\n3 sleep\n"
    awake = "9 wake\n9.01 arrive\n9.4 ready\n9.41 launch 1\n9.42 launch 2\n"
    words = [words for _, what, words in _told(tmp_path, log(asleep + awake)) if what == "pending"]
    assert words[1:] == [
        "task 1 is one launch more than requests have come since the sleep: it had waited",
        "task 1 is launched now",
    ]


def test_two_launches_behind_one_wake(tmp_path: Path) -> None:
    text = "0 start\n1 serve 0\n2 sleep\n{0} wake\n{0}.4 ready\n{0}.41 launch 1\n{0}.411 launch 2\n"
    late = [words for _, what, words in _told(tmp_path, log(text.format(9))) if what == "pending"]
    assert late == ["two launches right behind one wake: the first may have waited"]
    soon = list(_told(tmp_path, log(text.format(3))))
    assert ("request.launched", "fact", "two launches right behind one wake, within the grace") in soon


def test_every_kind_that_can_be_less_than_confirmed_says_what_would_make_it_sure() -> None:
    assert set(SURER) == set(KINDS) - {"blind"}
    assert all(CONFIRMED in words or "never more" in words for words in SURER.values())
