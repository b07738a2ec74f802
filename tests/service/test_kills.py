"""Killed at any statement the database runs, or at any moment, and started again: the same incidents, none twice."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from sleepwatch.scan import scan
from tests.reader.reading import recording
from tests.service.driving import SECOND, Driven, FakeClock, Write, new_database, paced, scanned, stored

RECORDED = ["b11368-default-gaveup", "b11368-lv4-abandon", "x11549-crash-default", "x2026.5.9093-default-abandon"]
KILLS = 15
"""Of each recording; ten times as many in the slow run."""


def _live_once(database: Path, log: Path, writes: Sequence[Write], first: int, progress: int, kill_at: int) -> None:
    """Follow the log as it is written from ``first`` on; die at the ``kill_at``-th statement. Runs in a child."""
    at = writes[first].at_us if first < len(writes) else writes[-1].at_us
    clock = FakeClock()
    clock.advance(at)
    driven = Driven(database, [log], clock)
    driven.service.start()
    left = kill_at

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if kill_at:
        store = driven.service._store
        assert store is not None
        store.connection.set_trace_callback(count)
    driven.step()
    for write in writes[first:]:
        if write.at_us > at:
            driven.run_for(write.at_us - at)
            at = write.at_us
        with log.open("ab") as file:
            file.write(write.data)
        os.write(progress, b".")
        driven.step()
    driven.run_for(10 * SECOND)
    driven.service.stop()


def _in_a_child(database: Path, log: Path, writes: Sequence[Write], first: int, kill_at: int) -> tuple[int, int]:
    """How many writes it made, and how it ended: 0, or minus the signal."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read_end)
            _live_once(database, log, writes, first, write_end, kill_at)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    made = 0
    while chunk := os.read(read_end, 65536):
        made += len(chunk)
    os.close(read_end)
    return made, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_killed_at_statements_many_times(name: str, tmp_path: Path) -> None:
    _kill(name, tmp_path, 10 * KILLS)


@pytest.mark.parametrize("name", RECORDED)
def test_killed_at_statements(name: str, tmp_path: Path) -> None:
    _kill(name, tmp_path, KILLS)


def _kill(name: str, tmp_path: Path, wanted: int) -> None:
    data = recording(name)
    writes = paced(data)
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "server.log").write_bytes(data)
    expected = scanned(scan([str(whole / "server.log")]))
    choose = random.Random(name)
    kills = round_ = 0
    while kills < wanted:
        round_ += 1
        place = tmp_path / f"round{round_}"
        place.mkdir()
        log = place / "server.log"
        log.touch()
        database = new_database(place / "live.db")
        with Driven(database, [log]) as driven:
            driven.step()  # a first start begins at the current life; what is tested is all that comes after it
        first = 0
        while True:
            kill_at = choose.randrange(1, 60) if kills < wanted else 0
            made, ended = _in_a_child(database, log, writes, first, kill_at)
            first += made
            if ended == 0:
                break
            assert ended == -signal.SIGKILL
            kills += 1
        assert log.read_bytes() == data
        assert stored(database) == expected
    assert kills >= wanted
