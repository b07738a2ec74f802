"""Following a real journal: every entry once, or a gap with its cause, whatever becomes of its files."""

from __future__ import annotations

import select
import shutil
import time
from pathlib import Path

import pytest

from sleepwatch.model import Record
from sleepwatch.sources.journal import Place, Way, Which
from sleepwatch.sources.journal_follow import REPLACED, VACUUMED, JournalFollower, JournalPiece, Open, machines
from sleepwatch.sources.journal_open import open_journal
from sleepwatch.sources.journal_parts import TORN
from sleepwatch.sources.journal_units import Units
from tests.sources.journal.conftest import Make
from tests.sources.journal.making import FIRST_US, Entries, Entry, Vacuumed, entry

DEADLINE_S = 20.0
NOW_US = FIRST_US + 3_600_000_000
"""Wall time: an hour after the first entry."""
OLD_BOOT, NEW_BOOT = b"7" * 32, b"8" * 32


class Following:
    """A follower and what it delivered."""

    def __init__(
        self, directory: Path, way: Way, *units: str, place: Place | None = None, open_: Open = open_journal
    ) -> None:
        self.follower = JournalFollower(Which(directory=str(directory)), Units(units), place, way=way, open_=open_)
        self.records: list[Record] = []
        self.gaps: list[JournalPiece] = []
        self.now_us = 0

    def poll(self, *, limit: int = 10_000) -> None:
        self.now_us += 1_000_000
        for piece in self.follower.poll(self.now_us, NOW_US, limit):
            self.records += piece.records
            if piece.kind == "gap":
                self.gaps.append(piece)

    def until(self, count: int, *, limit: int = 10_000) -> list[bytes]:
        """Poll until so many lines have come, and once more: no more may come."""
        deadline = time.monotonic() + DEADLINE_S
        while len(self.records) < count:
            assert time.monotonic() < deadline, f"{len(self.records)} of {count}: {self.follower.state}"
            self.poll(limit=limit)
            fd = self.follower.fileno()
            if len(self.records) < count and not self.follower.full and fd is not None:
                select.select([fd], [], [], 0.5)
        self.poll()
        return self.texts

    @property
    def texts(self) -> list[bytes]:
        return [record.text for record in self.records]

    def again(self) -> Place:
        """Stop; where to go on."""
        place = self.follower.checkpoint()
        assert place is not None
        self.follower.close()
        return place


@pytest.fixture
def room(tmp_path: Path) -> Path:
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


def lines(first: int, last: int, **fields: bytes) -> Entries:
    return [entry(b"0.00.%03d.000 I srv  load_model: line %d" % (n, n), n, **fields) for n in range(first, last)]


def texts(entries: list[Entry]) -> list[bytes]:
    return [one["MESSAGE"] for one in entries]


def rotate(path: Path, number: int) -> Path:
    """What journald does with a full file: it gets a name of its own, and a new one begins."""
    rotated = path.with_name(f"{path.stem}@{number:032x}-{1:016x}-{number:016x}.journal")
    path.rename(rotated)
    return rotated


def test_a_growing_journal_is_read_once(room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", lines(0, 20))
    following = Following(room, way, "llama*")
    following.until(20)
    for part in range(3):
        make(path, lines(20 + part * 10, 30 + part * 10))
        following.until(30 + part * 10)
    assert following.texts == texts(lines(0, 50))
    assert following.follower.state.name == "following"
    assert not following.follower.unread
    assert not following.gaps
    following.follower.close()


@pytest.mark.parametrize("units", [("llama*",), ("llama-tiny",)])
def test_a_restart_goes_on_behind_what_was_read(units: tuple[str, ...], room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", lines(0, 20))
    got: list[bytes] = []
    place = None
    for part in range(3):
        following = Following(room, way, *units, place=place)
        got += following.until(20 if part == 0 else 10)
        assert not following.gaps
        place = following.again()
        make(path, lines(20 + part * 10, 30 + part * 10))
    assert got == texts(lines(0, 40))
    assert place is not None
    assert place.realtime_us == FIRST_US + 39 * 100_000
    assert place.boot == "3208311b25654aa8aeeab7b051db82e3"


def test_a_poll_reads_no_more_than_it_may(room: Path, make: Make, way: Way) -> None:
    make(room / "system.journal", lines(0, 3_000))
    following = Following(room, way, "llama*")
    deadline = time.monotonic() + DEADLINE_S
    while not following.records:
        assert time.monotonic() < deadline
        following.poll(limit=100)
    assert len(following.records) < 1_000
    if way == "native":  # journalctl may be slower than its reader
        assert following.follower.full
        assert following.follower.unread > 0
    assert following.until(3_000, limit=100) == texts(lines(0, 3_000))
    assert not following.follower.unread
    following.follower.close()


def test_rotation_loses_and_repeats_nothing(room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", lines(0, 20))
    following = Following(room, way, "llama*")
    following.until(20)
    rotate(path, 1)
    make(path, lines(20, 30))
    following.until(30)
    make(path, lines(30, 40))
    rotate(path, 2)
    make(path, lines(40, 50))
    assert following.until(50) == texts(lines(0, 50))
    assert not following.gaps
    following.follower.close()


def test_what_was_read_may_be_vacuumed(room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", lines(0, 20))
    following = Following(room, way, "llama*")
    following.until(20)
    old = rotate(path, 1)
    make(path, lines(20, 30))
    following.until(30)
    old.unlink()
    make(path, lines(30, 40))
    assert following.until(40) == texts(lines(0, 40))
    assert not following.gaps
    place = following.again()
    rotate(path, 2).unlink()
    make(path, lines(40, 50))
    later = Following(room, way, "llama*", place=place)
    assert later.until(10) == texts(lines(40, 50))
    assert not later.gaps
    later.follower.close()


def test_what_was_vacuumed_unread_is_a_gap(room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", lines(0, 20))
    following = Following(room, way, "llama*")
    following.until(20)
    place = following.again()
    place = Place.of(place.cursor)  # when it was read does not count here
    make(path, lines(20, 30))
    rotate(path, 1).unlink()
    make(path, lines(30, 40))
    later = Following(room, way, "llama*", place=place)
    assert later.until(10) == texts(lines(30, 40))
    (gap,) = later.gaps
    assert gap.cause == VACUUMED
    assert (gap.from_us, gap.to_us) == (FIRST_US + 1_900_000, FIRST_US + 3_000_000)
    later.follower.close()


@pytest.mark.parametrize("units", [("llama*",), ("llama-tiny",)])
def test_what_is_vacuumed_in_the_middle_of_reading_it_is_a_gap(
    units: tuple[str, ...], room: Path, make: Make, way: Way
) -> None:
    """libsystemd goes on with the next file without a word when the one it reads is emptied under its hands."""
    path = make(room / "system.journal", lines(0, 3_000))
    rotated = rotate(path, 1)
    make(path, lines(3_000, 3_020))
    following = Following(room, way, *units, open_=Vacuumed(rotated, after=700).open)
    count = 700
    while following.texts[-1:] != texts(lines(3_019, 3_020)):
        count = len(following.until(count)) + 1
    assert not rotated.exists()
    assert following.texts[:700] == texts(lines(0, 700))
    assert following.texts[-20:] == texts(lines(3_000, 3_020))
    assert len(set(following.texts)) == len(following.texts) < 3_020
    [gap] = following.gaps
    assert gap.cause == TORN or gap.cause.endswith(VACUUMED)
    following.follower.close()


def test_a_move_from_run_to_var_changes_nothing(room: Path, make: Make, way: Way, tmp_path: Path) -> None:
    """journald copies the entries into another file then, and numbers them anew."""
    path = make(room / "runtime.journal", lines(5, 20))
    following = Following(room, way, "llama*")
    following.until(15)
    place = following.again()
    path.unlink()
    make(room / "system.journal", lines(0, 30))
    later = Following(room, way, "llama*", place=place)
    assert later.until(10) == texts(lines(20, 30))
    assert not later.gaps
    later.follower.close()


def test_another_journal_with_older_entries_is_read_whole(room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", lines(1_000, 1_010, _BOOT_ID=NEW_BOOT))
    following = Following(room, way, "llama*")
    following.until(10)
    place = following.again()
    path.unlink()
    make(path, lines(0, 10, _BOOT_ID=OLD_BOOT))
    later = Following(room, way, "llama*", place=place)
    assert later.until(10) == texts(lines(0, 10))
    assert [gap.cause for gap in later.gaps] == [REPLACED]
    later.follower.close()


def test_it_begins_where_the_current_runs_began(room: Path, make: Make, way: Way) -> None:
    old = lines(0, 50, _SYSTEMD_INVOCATION_ID=b"1" * 32, _PID=b"30")
    now = lines(200, 210) + lines(210, 220, _SYSTEMD_UNIT=b"other.service", _SYSTEMD_INVOCATION_ID=b"2" * 32)
    make(room / "system.journal", old + now)
    following = Following(room, way, "llama*")
    assert following.until(10) == texts(now[:10])
    following.follower.close()


def test_where_no_unit_runs_it_begins_at_the_end(room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", lines(0, 20, _SYSTEMD_UNIT=b"other.service"))
    following = Following(room, way, "llama*")
    following.poll()
    make(path, lines(20, 30))
    assert following.until(10) == texts(lines(20, 30))
    following.follower.close()


def test_a_run_of_an_earlier_boot_is_not_current(room: Path, make: Make, way: Way) -> None:
    entries = lines(0, 10, _BOOT_ID=OLD_BOOT) + lines(100, 110, _SYSTEMD_UNIT=b"other.service", _BOOT_ID=NEW_BOOT)
    path = make(room / "system.journal", entries)
    following = Following(room, way, "llama-tiny")
    following.poll()
    make(path, lines(120, 130, _BOOT_ID=NEW_BOOT))
    assert following.until(10) == texts(lines(120, 130))
    following.follower.close()


def test_a_journal_that_comes_and_goes(room: Path, make: Make, way: Way) -> None:
    following = Following(room, way, "llama*")
    following.poll()
    assert following.follower.state.name == "error"
    assert "no journal files" in following.follower.state.reason
    make(room / "system.journal", lines(0, 10))
    following.until(10)
    assert following.follower.state.name == "following"
    place = following.again()
    shutil.rmtree(room)
    gone = Following(room, way, "llama*", place=place)
    gone.poll()
    assert (gone.follower.state.name, gone.follower.state.reason) == ("error", "no such directory")
    assert gone.follower.checkpoint() is not None


def test_the_first_part_of_a_line_is_not_lost_by_a_rotation(room: Path, make: Make, way: Way) -> None:
    path = make(room / "system.journal", [*lines(0, 2), entry(b"a" * 1000, 2, _LINE_BREAK=b"line-max")])
    following = Following(room, way, "llama*")
    following.until(2)
    assert [len(record.text) for record in following.follower.flush()] == [1000]
    make(path, [entry(b"b" * 10, 3, _LINE_BREAK=b"line-max"), entry(b"c" * 10, 4)])
    assert following.until(3)[2] == b"b" * 10 + b"c" * 10
    following.follower.close()


def test_machines_are_told_apart(room: Path, make: Make, way: Way) -> None:
    make(room / "remote-a.journal", lines(0, 5))
    which = Which(directory=str(room))
    assert machines(which, way=way) == {"3d1219c7c4c5404aaa1f6d2a48adfda4": f"journal:{room}@gpubox"}
    make(room / "remote-b.journal", lines(0, 7, _MACHINE_ID=b"5" * 32, _HOSTNAME=b"twin"))
    found = machines(which, way=way)
    assert found == {"3d1219c7c4c5404aaa1f6d2a48adfda4": f"journal:{room}@gpubox", "5" * 32: f"journal:{room}@twin"}
    for machine, count in (("5" * 32, 7), ("3d1219c7c4c5404aaa1f6d2a48adfda4", 5)):
        following = Following(room, way)
        following.follower = JournalFollower(which, Units(["llama*"]), None, machine=machine, way=way)
        following.until(count)
        assert len(following.records) == count
        following.follower.close()


def test_a_place_is_read_from_a_cursor() -> None:
    cursor = (
        "s=0125bdf7d1954ed78501c7564d0f670c;i=43;b=3208311b25654aa8aeeab7b051db82e3;m=ea7a3cf2;t=66177ef561cf1;x=a4"
    )
    place = Place.of(cursor)
    assert (place.seqnum, place.realtime_us, place.monotonic_us) == (0x43, 0x66177EF561CF1, 0xEA7A3CF2)
    renumbered = Place.of(cursor.replace("s=0", "s=1").replace("i=43", "i=1"))
    assert place.is_same(renumbered)
    assert not place.is_same(Place.of(cursor.replace("i=43", "i=44")))
    with pytest.raises(ValueError, match="no cursor"):
        Place.of("s=1;i=2")
