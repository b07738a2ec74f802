"""Killed anywhere and started again: the same incidents, none twice, nothing left of what was taken back (made).

A child process follows a log while it writes it, and ends by SIGKILL at a failpoint: before a statement of the database
or in the middle of one, before or after any step of the daemon's own. The next child goes on with the writes where that
one was.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sleepwatch.daemon import keeping, watching
from sleepwatch.daemon import service as daemon
from sleepwatch.daemon.keeping import Keeper
from sleepwatch.daemon.printing import Printer
from sleepwatch.daemon.service import Service
from sleepwatch.errors import StoreError
from sleepwatch.sources.follow import FileFollower
from sleepwatch.store import open_store
from sleepwatch.store.daemon import checkpoints
from sleepwatch.store.transaction import Transaction
from tests.cases.deaths import SEGV
from tests.cases.hangs import woken
from tests.cases.made import log
from tests.daemon.driving import (
    SECOND,
    Driven,
    FakeClock,
    difference,
    new_database,
    paced,
    scan_of,
    stored,
)
from tests.reader.reading import recording

SAMPLE = 50
"""Kills in the short run."""
MANY = 600
INSTRUCTIONS = 400
"""Of SQLite's virtual machine, between two failpoints in the middle of a statement."""

PARTS: tuple[tuple[Any, str], ...] = (
    (Service, "start"),
    (Service, "_follow"),
    (Service, "_save"),
    (Service, "stop"),
    (Keeper, "save"),
    (Keeper, "_save_found"),
    (Keeper, "_save_places"),
    (Printer, "tell"),
    (keeping, "save_checkpoint"),
    (keeping, "save_pulse"),
    (keeping, "save_watches"),
    (Transaction, "record"),
    (Transaction, "withdraw"),
    (FileFollower, "poll"),
    (FileFollower, "checkpoint"),
    (watching.LogWatch, "take"),
    (watching.LogWatch, "tick"),
    (watching.LogWatch, "state"),
    (watching.LogWatch, "resume"),
    (watching.LogWatch, "stored"),
)
"""The daemon's own steps."""

SCRIPT = (
    "0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.1 sleep\n9 cancel 2\n" + woken(20, 4)
    # its client never gives up: it opens live, and a second request frees it
    + "20.6 arrive\n20.65 serve 5\n21.7 arrive\n21.72 sleep\n"
    + "40 wake\n40.4 ready\n40.41 arrive\n40.42 serve 7\n40.5 serve 8\n"
    # it arrives just before a sleep, opens live, and turns out to be nothing
    + "41.4 arrive\n41.45 sleep\n50 wake\n50.4 ready\n50.405 arrive\n50.41 serve 11\n"
    # a wake that takes so long that it is told of, and comes after all
    + "51.5 sleep\n60 wake\n75 ready\n75.01 arrive\n75.02 serve 13\n76 launch 14\n" + SEGV
)  # fmt: skip
KINDS = {"hung-request": 4, "crash-in-flight": 1, "crash-loop": 1}
DYING = "0.002 init\n0.005 verbosity 4\n0.008 load\n"


def written() -> bytes:
    """A life whose hangs open, change and are taken back, and its crash; deaths that become a loop; one more life."""
    loop = SEGV.join([DYING] * 6) + SEGV
    return log(SCRIPT + loop + "0 start\n1 serve 0\n2.1 sleep\n9 cancel 2\n" + woken(20, 4) + "21.5 sleep\n")


class Do(NamedTuple):
    """Bytes are written at a moment; with ``rotate``, the log is renamed before."""

    at_us: int
    data: bytes
    rotate: bool = False

    def __call__(self, path: Path) -> None:
        if self.rotate:
            path.rename(path.with_name(f"{path.name}.1"))
        with path.open("ab") as file:
            file.write(self.data)


def deeds() -> list[Do]:
    """The log as it is written, a line a time, rotated in the middle."""
    writes = paced(written())
    middle = len(writes) // 2
    return [Do(write.at_us, write.data, at == middle) for at, write in enumerate(writes)]


class Failpoints:
    """Counts the places at which the process could end, and ends it at one of them."""

    def __init__(self, at: int | None, names: list[str] | None = None) -> None:
        self._left = at
        self._names = names

    def hit(self, name: str) -> None:
        if self._names is not None:
            self._names.append(name)
        if self._left is not None:
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1

    def install(self) -> None:
        """In every step; the database's when it is opened. Meant for a child process: nothing is put back."""
        for owner, name in PARTS:
            setattr(owner, name, self._around(getattr(owner, name), name))
        opened = daemon.open_store

        def open_watched(path: Path) -> Any:
            store = opened(path)
            store.connection.execute("PRAGMA synchronous = OFF")  # the kernel keeps what a killed process wrote
            store.connection.set_trace_callback(lambda sql: self.hit("sql " + " ".join(sql.split()[:3])))
            store.connection.set_progress_handler(lambda: self.hit("within a statement"), INSTRUCTIONS)
            return store

        setattr(daemon, "open_store", open_watched)  # noqa: B010

    def _around(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            self.hit(f"before {name}")
            result = real(*args, **options)
            self.hit(f"after {name}")
            return result

        return wrapped


def live(database: Path, path: Path, todo: Sequence[Do], done: mmap.mmap) -> None:
    """Follow the log while it is written, from where the last one was; ``done`` counts the deeds."""
    clock = FakeClock()
    first = int.from_bytes(done[:4], "little")
    clock.advance(todo[max(0, first - 1)].at_us)
    start = clock.monotonic_us - todo[max(0, first - 1)].at_us
    driven = Driven(database, [path], clock)
    driven.service.start()
    driven.step()
    for at, deed in enumerate(todo[first:], first):
        ahead = start + deed.at_us - clock.monotonic_us
        if ahead > 0:
            driven.run_for(ahead)
        deed(path)
        done[:4] = (at + 1).to_bytes(4, "little")
        driven.step()
    driven.run_for(15 * SECOND)
    driven.service.stop()


def in_a_child(work: Callable[[], None]) -> int:
    """How it ended: 0, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Round:
    """One log, written and followed to its end, however often that is broken off."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self.database = new_database(place / "live.db")
        self.log = place / "server.log"
        self.log.touch()
        self.done = mmap.mmap(-1, 8)
        self.kills = 0

    def run(self, todo: Sequence[Do], at: int | None) -> bool:
        """Go on until a kill at this failpoint, or to the end. Was there one?"""

        def work() -> None:
            if at is not None:
                Failpoints(at).install()
            live(self.database, self.log, todo, self.done)

        ended = in_a_child(work)
        assert ended in (0, -signal.SIGKILL)
        self.kills += ended != 0
        return ended != 0

    def gaps(self) -> list[tuple[Any, ...]]:
        with open_store(self.database, read_only=True) as store:
            return store.connection.execute("SELECT cause, from_offset, to_offset FROM gap").fetchall()


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every failpoint an uninterrupted run passes, in order."""
    place = tmp_path_factory.mktemp("counted")
    one = Round(place / "run")
    path = place / "names"

    def work() -> None:
        found: list[str] = []
        Failpoints(None, found).install()
        live(one.database, one.log, deeds(), one.done)
        path.write_text("\n".join(found))

    assert in_a_child(work) == 0
    assert stored(one.database) == scan_of(written())
    return path.read_text().splitlines()


def spread(names: Sequence[str], count: int, choose: random.Random) -> list[int]:
    """So many of the failpoints: each kind of them in turn, each time another one."""
    kinds: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        kinds.setdefault(name, []).append(at)
    for places in kinds.values():
        choose.shuffle(places)
    chosen: list[int] = []
    while len(chosen) < count:
        left = [places for places in kinds.values() if places]
        chosen += [places.pop() for places in left[: count - len(chosen)]]
    return chosen


def killed_at(places: Sequence[int], place: Path) -> None:
    """Each kill in a run of its own."""
    todo, expected = deeds(), scan_of(written())
    assert Counter(one["kind"] for one in expected.values()) == KINDS
    for number, at in enumerate(places):
        one = Round(place / str(number))
        assert one.run(todo, at), "no kill: the failpoints are not where they were counted"
        assert not one.run(todo, None)
        assert difference(stored(one.database), expected) == [], f"killed at failpoint {at}"
        assert one.gaps() == []


def test_killed_at_failpoints(names: list[str], tmp_path: Path) -> None:
    choose = random.Random(1)
    places = spread(names, SAMPLE * 2, choose)
    killed_at(choose.sample(places, SAMPLE), tmp_path)


@pytest.mark.slow
def test_killed_at_many_failpoints(names: list[str], tmp_path: Path) -> None:
    killed_at(spread(names, MANY, random.Random(2)), tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_killed_again_and_again(names: list[str], seed: int, tmp_path: Path) -> None:
    """One log, and no run of the daemon lives for long."""
    choose = random.Random(seed)
    todo = deeds()
    one = Round(tmp_path / "run")
    while one.run(todo, choose.randrange(len(names) // 4) if one.kills < 12 else None):
        pass
    assert one.kills >= 5
    assert stored(one.database) == scan_of(written())
    assert one.gaps() == []


# -- the program itself, under load ------------------------------------------------------------------------------------

WAIT_SECONDS = 60
MIXED = (
    "b11368-default-gaveup",
    "b11368-lv4-abandon",
    "x11549-crash-default",
    "b11368-default-rescue",
    "b11368-colors",
)
"""Recorded: two thousand lines and forty incidents, written one after the other within some seconds."""


def run_daemon(database: Path, path: Path, said: Path) -> subprocess.Popen[bytes]:
    """``sleepwatch run``, as people start it."""
    command = [sys.executable, "-m", "sleepwatch", "run", "--db", str(database), "--file", str(path)]
    with said.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out)


def wait_until(holds: Callable[[], bool], why_not: Callable[[], str]) -> None:
    """Wait for it, with a deadline."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, why_not()
        time.sleep(0.02)


def _is_fed(database: Path, path: Path) -> bool:
    try:
        with open_store(database, read_only=True) as store:
            place = checkpoints(store).get(str(path))
    except StoreError:  # not made yet
        return False
    return place is not None and json.loads(place.file)["offset"] == path.stat().st_size


@pytest.mark.live
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_kill_9_of_the_program_under_load(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    data = b"".join(recording(name) for name in MIXED)
    path, database, said = tmp_path / "server.log", tmp_path / "live.db", tmp_path / "said"
    path.touch()
    process = run_daemon(database, path, said)
    kills = written = told = 0
    try:
        # A first start begins at the current life: killed before it has stored a place, it begins at a later one.
        wait_until(lambda: database.exists() and _is_fed(database, path), lambda: said.read_text())
        while written < len(data) or kills < 4:
            size = choose.randrange(1, 6_000)
            with path.open("ab") as file:
                file.write(data[written : written + size])
            written += size
            wait = choose.uniform(0, 0.04)
            end = time.monotonic() + wait
            while time.monotonic() < end and process.poll() is None:
                time.sleep(0.002)
            if choose.random() < 0.04 or written >= len(data):
                process.kill()
                assert process.wait() == -signal.SIGKILL
                kills += 1
                told = said.stat().st_size
                process = run_daemon(database, path, said)
        expected = scan_of(data)
        wait_until(lambda: stored(database) == expected, lambda: f"{difference(stored(database), expected)}")
        # All may have been stored before this last one was up, and until it is, a signal just ends it.
        wait_until(lambda: b"watching " in said.read_bytes()[told:], said.read_text)
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    assert kills >= 4
    assert path.read_bytes() == data
    assert difference(stored(database), expected) == []
