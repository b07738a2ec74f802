"""The real journald, rotating, vacuuming and dropping lines, read from outside while it does."""

from __future__ import annotations

import itertools
import select
import time

import pytest

from sleepwatch.scan import Scan
from sleepwatch.sources.journal import Place, Way, Which
from sleepwatch.sources.journal_follow import VACUUMED, JournalFollower
from sleepwatch.sources.journal_parts import Selection
from sleepwatch.sources.journal_units import Units
from tests.support.needs import need_module
from tests.system.machine import Machine

pytestmark = pytest.mark.system

DEADLINE_S = 20.0
_numbers = itertools.count(1)


class Writing:
    """A unit that writes numbered lines, and a follower of it."""

    def __init__(self, machine: Machine, way: Way) -> None:
        self.machine = machine
        self.unit = f"llama-echo-{next(_numbers)}"
        self.way = way
        self.written: list[bytes] = []
        self.read: list[bytes] = []
        self.gaps: list[str] = []
        self.follow()

    def follow(self, place: Place | None = None) -> None:
        which = Which(directory=str(self.machine.journal))
        self.follower = JournalFollower(which, Units([self.unit + "*"]), place, way=self.way)
        self._poll()

    def write(self, count: int) -> None:
        first = len(self.written)
        self.written += [b"line %d" % number for number in range(first, first + count)]
        self.machine.run(
            "systemd-run", "--quiet", "--collect", "--wait", f"--unit={self.unit}",
            "sh", "-c", f"i={first}; while [ $i -lt {first + count} ]; do echo line $i; i=$((i+1)); done",
        )  # fmt: skip

    def catch_up(self, lines: int | None = None) -> None:
        deadline = time.monotonic() + DEADLINE_S
        wanted = len(self.written) if lines is None else lines
        while len(self.read) < wanted:
            assert time.monotonic() < deadline, f"{len(self.read)} of {wanted} lines: {self.follower.state}"
            fd = self.follower.fileno()
            select.select([fd] if fd is not None else [], [], [], 0.2)
            self._poll()

    def read_all(self) -> None:
        """Read what others wrote, too: what is vacuumed unread is a gap, whoever wrote it."""
        self.machine.run("journalctl", "--sync")
        deadline = time.monotonic() + DEADLINE_S
        while self.machine.run("journalctl", "--quiet", "--lines=1", "--output=export").find(self._cursor()) < 0:
            assert time.monotonic() < deadline
            self._poll()

    def _cursor(self) -> str:
        place = self.follower.checkpoint()
        return place.cursor if place is not None else "nowhere"

    def _poll(self) -> None:
        now_us = time.monotonic_ns() // 1000
        for piece in self.follower.poll(now_us, time.time_ns() // 1000, 10_000):
            self.read += [record.text for record in piece.records if record.text.startswith(b"line ")]
            if piece.kind == "gap":
                self.gaps.append(piece.cause)


@pytest.fixture(params=["native", "command"])
def writing(machine: Machine, request: pytest.FixtureRequest) -> Writing:
    if request.param == "native":
        need_module("systemd", "systemd-python")
    return Writing(machine, request.param)


def test_rotated_and_vacuumed_while_it_is_read(writing: Writing) -> None:
    for _ in range(3):
        writing.write(100)
        writing.catch_up()
        writing.read_all()
        writing.machine.run("journalctl", "--rotate", "--vacuum-time=1us")
        writing.write(100)
    writing.catch_up()
    assert writing.read == writing.written
    assert all(cause.endswith(VACUUMED) for cause in writing.gaps), writing.gaps  # entries of the machine's others
    writing.follower.close()


def test_vacuumed_while_nobody_read(writing: Writing) -> None:
    writing.write(20)
    writing.catch_up()
    place = writing.follower.checkpoint()
    assert place is not None
    writing.follower.close()
    writing.write(50)
    writing.machine.run("journalctl", "--rotate", "--vacuum-time=1us")
    writing.write(30)
    writing.follow(place)
    writing.catch_up(20 + 30)
    assert writing.read == writing.written[:20] + writing.written[70:]
    (cause,) = writing.gaps
    assert cause.endswith("entries of the journal were vacuumed away before it was read")
    writing.follower.close()


def test_what_journald_dropped_is_a_gap(machine: Machine) -> None:
    unit = f"llama-burst-{next(_numbers)}"
    machine.run(
        "systemd-run", "--quiet", "--collect", "--wait", f"--unit={unit}", "--property=LogRateLimitIntervalSec=1s",
        "--property=LogRateLimitBurst=20", "sh", "-c",
        "i=0; while [ $i -lt 500 ]; do echo 0.00.00$((i/100)).000 I srv load: $i; i=$((i+1)); done; sleep 1.2; echo e",
    )  # fmt: skip
    machine.run("journalctl", "--sync")
    work = Scan()
    work.read_journal(Which(directory=str(machine.journal)), Selection(units=Units([unit])))
    gaps = [gap.cause for gap in work.result().gaps]
    assert len(gaps) == 1, gaps
