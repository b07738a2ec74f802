"""Live equals replay: a log followed as it grows gives what a scan of the whole gives (recorded, made).

The same ids, kinds, confidences, tasks, states, times and lines of evidence, at the log's own pace by an injected
clock, with writes torn and buffered, through rotations and restarts. What a scan says of a log's end (``unresolved``,
``down``) is ``open`` in a log that goes on. What else differs on purpose is in :data:`EXCEPTIONS`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sleepwatch.store import open_store
from tests.cases import texts
from tests.cases.case import Case
from tests.cases.test_cases import CASES
from tests.daemon.driving import (
    SECOND,
    Driven,
    Write,
    blocks,
    difference,
    feed,
    new_database,
    paced,
    scan_of,
    stored,
    torn,
)
from tests.reader.reading import RECORDINGS, recording

LARGE = {"b11368-lv5-rescue", "b11368-traffic-lv4", "b8672-dies-at-load"}
"""Recordings of ten thousand lines, or hundreds of lives."""
FEW = [
    "b11368-colors",
    "b11368-default-gaveup",
    "b11368-lv4-abandon",
    "b11368-router-abandon",
    "journal-two-units-export",
    "journal-two-units-short",
    "journal-two-units-verbose",
    "x11549-crash-default",
    "x2026.5.9093-default-abandon",
    "x2026.8.10229-tokencount-asleep",
]
"""One of each sort."""

EXCEPTIONS = {
    "h5-arrival-just-before-log-ends": "live it is seen to wait, and so probable; a log that ends there shows nothing",
    "h5-then-planned-stop": "live it is lost when its process is seen to have ended, and this log ends before",
    "restart-without-a-start-marker": "its second life has six lines, and eight identify one: live, they are awaited",
    "two-servers-in-one-file": "only later lines show whose clock goes on, where two write one file without a carrier",
    "two-servers-far-apart-in-one-file": "the same",
}
"""Made logs in which live and scan differ, and why."""

FIRST_LINES = 20
"""Writes that hold the first lines of a log for sure, whatever they are torn into."""


def _slow(names: Sequence[str], slow: set[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else []) for name in names]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that nothing was written to."""
    new_database(tmp_path / "live.db")
    path = tmp_path / "server.log"
    path.touch()
    return path


def follow(log: Path, writes: Sequence[Write]) -> None:
    """Follow a log as it is written."""
    with Driven(log.with_name("live.db"), [log]) as driven:
        driven.step()
        feed(driven, log, writes)
    assert driven.complained == []


def same(log: Path, data: bytes) -> None:
    """What was found live is what a scan finds in these bytes."""
    assert difference(stored(log.with_name("live.db")), scan_of(data)) == []


# -- at its own pace ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _slow(RECORDINGS, LARGE))
def test_a_recording(name: str, log: Path) -> None:
    data = recording(name)
    follow(log, paced(data))
    assert log.read_bytes() == data
    same(log, data)


@pytest.mark.parametrize("case", [case for case in CASES if case.log.strip()], ids=lambda case: case.name)
def test_a_made_log(case: Case, log: Path) -> None:
    follow(log, paced(case.log, pasted=case in texts.CASES))
    if case.name in EXCEPTIONS:
        assert difference(stored(log.with_name("live.db")), scan_of(case.log)), "no exception any more"
    else:
        same(log, case.log)


def test_observations_replayed_give_the_same_again(log: Path, tmp_path: Path) -> None:
    """Two daemons, with other looks at other moments, on the same writes."""
    data = recording("b11368-lv4-abandon")
    follow(log, paced(data))
    first = stored(log.with_name("live.db"))
    again = tmp_path / "again"
    again.mkdir()
    other = again / "server.log"
    other.touch()
    with Driven(new_database(again / "live.db"), [other]) as driven:
        feed(driven, other, torn(paced(data), random.Random(5), share=0.5, longest_us=40_000))
    assert stored(again / "live.db") == first


# -- as writers write --------------------------------------------------------------------------------------------------

WAYS = ("torn", "with pauses in lines", "with long pauses in lines", "in blocks")


def _as_written(data: bytes, way: str, choose: random.Random) -> list[Write]:
    writes = paced(data)
    if way == "torn":
        return torn(writes, choose, share=0.3, longest_us=5_000)
    if way == "with pauses in lines":
        return torn(writes, choose, share=0.1, longest_us=900_000)
    if way == "with long pauses in lines":
        return torn(writes, choose, share=0.03, longest_us=20 * SECOND)
    return blocks(writes, choose.choice([300, 1_000, 4_096]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", _slow([name for name in RECORDINGS if name not in LARGE], set(RECORDINGS) - set(FEW)))
def test_any_way_of_writing(name: str, way: str, log: Path) -> None:
    data = recording(name)
    follow(log, _as_written(data, way, random.Random(name + way)))
    assert log.read_bytes() == data
    same(log, data)


# -- through rotations and restarts ------------------------------------------------------------------------------------


def _rotate(log: Path) -> None:
    """As logrotate does by renaming; whoever writes next makes the file anew."""
    for old in sorted(log.parent.glob("server.log.*"), key=lambda path: -int(path.suffix[1:])):
        old.rename(old.with_suffix(f".{int(old.suffix[1:]) + 1}"))
    log.rename(log.with_name("server.log.1"))
    log.touch()


def _broken(log: Path, writes: Sequence[Write], choose: random.Random, *, restarts: bool, rotations: bool) -> None:
    """Follow it with the daemon stopped, killed and started again, and the log rotated, at random places."""
    database = log.with_name("live.db")
    driven = Driven(database, [log])
    driven.service.start()
    driven.step()
    places = set(choose.sample(range(len(writes)), min(len(writes), 10)))
    start = driven.clock.monotonic_us
    for at, write in enumerate(writes):
        ahead = start + write.at_us - driven.clock.monotonic_us
        if ahead > 0:
            driven.run_for(ahead)
        with log.open("ab") as file:
            file.write(write.data)
        if choose.random() < 0.9:
            driven.step()
        if at in places and restarts:
            if choose.random() < 0.5:
                driven.kill()
            else:
                driven.service.stop()
            driven = Driven(database, [log], driven.clock)
            driven.service.start()
        # A log without stamps is known by its first lines; where the first file holds fewer, it is another log.
        if at in places and rotations and at >= FIRST_LINES and write.data.endswith(b"\n"):
            _rotate(log)
    driven.run_for(10 * SECOND)
    driven.service.stop()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("what", ["restarts", "rotations", "both"])
@pytest.mark.parametrize("name", _slow([name for name in RECORDINGS if name not in LARGE], set(RECORDINGS) - set(FEW)))
def test_broken_off_anywhere(name: str, what: str, seed: int, log: Path) -> None:
    data = recording(name)
    choose = random.Random(f"{name} {what} {seed}")
    writes = torn(paced(data), choose, share=0.2, longest_us=100_000)
    _broken(log, writes, choose, restarts=what != "rotations", rotations=what != "restarts")
    same(log, data)
    with open_store(log.with_name("live.db"), read_only=True) as store:
        assert store.connection.execute("SELECT cause FROM gap").fetchall() == []


@pytest.mark.parametrize("lost", [0, 7])
@pytest.mark.parametrize("name", ["b11368-default-gaveup", "b11368-lv4-abandon", "b11368-default-rescue"])
def test_copied_and_truncated(name: str, lost: int, log: Path) -> None:
    """What was written between the copy and the truncation is lost: a gap, and nothing is concluded from it.

    All that was over before, and all that begins after it, is found as ever.
    """
    data = recording(name)
    writes = paced(data)
    middle = len(writes) // 2
    before = b"".join(write.data for write in writes[:middle])
    start = writes[middle + lost].at_us
    with Driven(log.with_name("live.db"), [log]) as driven:
        driven.step()
        feed(driven, log, writes[:middle], after_us=0)
        log.with_name("server.log.1").write_bytes(log.read_bytes())
        log.write_bytes(b"")
        feed(driven, log, [Write(max(0, one.at_us - start), one.data) for one in writes[middle + lost :]])
    live, whole = stored(log.with_name("live.db")), scan_of(data)
    with open_store(log.with_name("live.db"), read_only=True) as store:
        [cause] = [row[0] for row in store.connection.execute("SELECT cause FROM gap")]
    assert cause.startswith("truncated")
    sure = {key for key, one in whole.items() if one["confidence"] != "possible"}
    assert {key for key, one in live.items() if one["confidence"] != "possible"} <= sure
    over = {key for key, one in whole.items() if all(text.encode() in before for _, _, text in one["evidence"])}
    after = data[len(before) + sum(len(write.data) for write in writes[middle : middle + lost]) :]
    begun = {key for key, one in whole.items() if all(text.encode() in after for _, _, text in one["evidence"])}
    assert over and begun
    for key in over | begun:
        assert live[key] == whole[key]
