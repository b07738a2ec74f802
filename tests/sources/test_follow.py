"""Following one path: one test for each thing that can befall it (made)."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from sleepwatch.sources.follow import DRAIN_LIMIT_US, GRACE_US, FileFollower
from sleepwatch.sources.identity import FileCheckpoint
from sleepwatch.sources.neighbours import LATE_US
from sleepwatch.sources.piece import HOLE, LATE, REWRITTEN, ROTATED_AWAY, TRUNCATED, TRUNCATED_AWAY, Piece
from tests.sources.fakes import FakeDisk
from tests.support import zstd

SECOND = 1_000_000
LINES = b"".join(b"0.%02d.%03d.000 I srv  update_slots: all slots are idle\n" % (at // 10, at) for at in range(20))
OTHER = b"".join(b"0.%02d.%03d.777 I slot launch_slot_: processing task\n" % (at // 10, at) for at in range(40))


class Watcher:
    """A follower with a clock of its own, and what it delivered."""

    def __init__(
        self,
        path: Path,
        checkpoint: FileCheckpoint | None = None,
        *,
        disk: FakeDisk | None = None,
        backfill: bool = False,
    ) -> None:
        self.disk = disk or FakeDisk()
        self.follower = FileFollower(path, checkpoint, backfill=backfill, disk=self.disk)
        self.now_us = 0
        self.pieces: list[Piece] = []

    def poll(self, step_us: int = SECOND, **limit: int) -> list[Piece]:
        self.now_us += step_us
        pieces = self.follower.poll(self.now_us, **limit)
        self.pieces += pieces
        return pieces

    def settle(self) -> None:
        """Poll until the grace is over and nothing is new."""
        for _ in range(8):
            self.poll()

    def checkpoint(self) -> FileCheckpoint:
        found = self.follower.checkpoint()
        assert found is not None
        return found

    def again(self) -> Watcher:
        """Kill it and start it from its last checkpoint, which was stored meanwhile."""
        stored = msgspec.json.encode(self.checkpoint())
        self.follower.close()
        return Watcher(self.follower.path, msgspec.json.decode(stored, type=FileCheckpoint), disk=self.disk)

    @property
    def data(self) -> bytes:
        return joined(self.pieces)

    @property
    def kinds(self) -> list[str]:
        """The pieces by kind, without idle ones."""
        return [piece.kind for piece in self.pieces if piece.kind != "idle"]

    @property
    def gaps(self) -> list[tuple[str, int | None]]:
        return [(piece.cause, piece.length) for piece in self.pieces if piece.kind == "gap"]

    @property
    def state(self) -> str:
        return self.follower.state.name


def joined(pieces: Iterable[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


# Reading on.


def test_a_log_that_grows_is_read_once(log: Path) -> None:
    log.write_bytes(LINES[:100])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[100:150])
    watcher.poll()
    assert [piece.kind for piece in watcher.poll()] == ["idle"]
    append(log, LINES[150:])
    watcher.poll()
    assert watcher.data == LINES
    assert watcher.kinds == ["bytes"] * 3
    assert [piece.offset for piece in watcher.pieces if piece.data] == [0, 100, 150]
    assert len({piece.file for piece in watcher.pieces}) == 1
    assert watcher.state == "following"


def test_an_unfinished_last_line_is_delivered_and_then_idle_says_that_nothing_follows(log: Path) -> None:
    log.write_bytes(LINES + b"0.09.000.000 I srv  operator(): torn")
    watcher = Watcher(log)
    watcher.poll()
    (idle,) = watcher.poll()
    assert watcher.data.endswith(b"torn")
    assert (idle.kind, idle.offset) == ("idle", log.stat().st_size)


def test_a_poll_delivers_no_more_than_its_limit(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    assert len(joined(watcher.poll(limit=100))) == 100
    assert watcher.follower.unread == len(LINES) - 100
    assert not watcher.follower.caught_up
    while not watcher.follower.caught_up:
        assert len(joined(watcher.poll(limit=100))) <= 100
    assert watcher.data == LINES
    assert watcher.follower.unread == 0


def test_a_large_log_comes_in_blocks(log: Path) -> None:
    content = LINES * 3000
    log.write_bytes(content)
    watcher = Watcher(log)
    watcher.poll()
    assert watcher.data == content
    assert max(len(piece.data) for piece in watcher.pieces) <= 1 << 20


# Renaming.


def test_what_was_written_before_and_after_a_renaming_comes_before_the_new_file(log: Path) -> None:
    log.write_bytes(LINES[:100])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[100:300])
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    watcher.poll(0)
    append(log.with_name("server.log.1"), LINES[300:])  # its writer has not noticed yet
    watcher.settle()
    assert watcher.data == LINES + OTHER
    assert watcher.kinds == ["bytes", "bytes", "bytes", "rotated", "bytes"]
    assert watcher.gaps == []


def test_the_new_file_is_begun_when_nothing_was_added_to_the_old_one_for_the_grace(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    watcher.poll(10 * SECOND)  # first seen now: the grace begins here, however long the old one was quiet
    watcher.poll(GRACE_US - 1)
    assert watcher.data == LINES
    assert watcher.follower.unread == len(OTHER)
    watcher.poll(1)
    assert watcher.data == LINES + OTHER


def test_a_writer_that_keeps_the_renamed_file_is_followed_in_it(log: Path) -> None:
    log.write_bytes(LINES[:100])
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.touch()  # logrotate's `create`
    watcher.poll(DRAIN_LIMIT_US)
    append(log.with_name("server.log.1"), LINES[100:200])
    watcher.poll(DRAIN_LIMIT_US)
    again = watcher.again()
    append(log.with_name("server.log.1"), LINES[200:])
    again.poll()
    append(log, OTHER)
    again.settle()
    assert watcher.data + again.data == LINES + OTHER
    assert watcher.gaps + again.gaps == []


def test_an_old_file_that_never_stops_growing_is_left_at_last(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    for _ in range(DRAIN_LIMIT_US // SECOND + 1):
        append(log.with_name("server.log.1"), b"x")
        watcher.poll(SECOND)
    assert OTHER in watcher.data


def test_what_is_added_to_a_file_after_it_was_left_is_a_gap_of_known_length(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    watcher.settle()
    append(log.with_name("server.log.1"), b"late")
    watcher.poll()
    append(log.with_name("server.log.1"), b"later")
    watcher.poll(LATE_US)
    assert watcher.gaps == [(LATE, 4), (LATE, 5)]
    append(log.with_name("server.log.1"), b"too late to be seen")
    watcher.poll()
    assert len(watcher.gaps) == 2


def test_two_rotations_between_two_polls_lose_nothing(log: Path) -> None:
    log.write_bytes(LINES[:200])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[200:])
    log.rename(log.with_name("server.log.2"))
    log.with_name("server.log.1").write_bytes(b"between\n")
    log.write_bytes(OTHER)
    watcher.settle()
    assert watcher.data == LINES + b"between\n" + OTHER
    assert watcher.gaps == []


def test_files_that_come_and_go_while_an_old_one_is_drained_are_not_lost(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.unlink()
    log.write_bytes(b"second\n")
    watcher.poll(0)
    log.unlink()
    log.write_bytes(b"third\n")
    watcher.poll(0)
    for _ in range(4):
        watcher.settle()
    assert watcher.data == LINES + b"second\nthird\n"


def test_a_symbolic_link_that_is_switched_is_a_rotation(log: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_bytes(LINES[:100])
    second.write_bytes(OTHER)
    log.symlink_to("a.log")
    watcher = Watcher(log)
    watcher.poll()
    append(first, LINES[100:])
    (tmp_path / "new").symlink_to("b.log")
    (tmp_path / "new").replace(log)
    watcher.settle()
    assert watcher.data == LINES + OTHER
    assert watcher.kinds == ["bytes", "bytes", "rotated", "bytes"]


def test_a_link_switched_while_down(log: Path, tmp_path: Path) -> None:
    (tmp_path / "monday").mkdir()
    first = tmp_path / "monday" / "a.log"
    first.write_bytes(LINES[:100])
    log.symlink_to(first)
    watcher = Watcher(log)
    watcher.poll()
    append(first, LINES[100:])
    log.unlink()
    (tmp_path / "b.log").write_bytes(OTHER)
    log.symlink_to("b.log")
    again = watcher.again()
    again.settle()
    assert watcher.data + again.data == LINES + OTHER
    assert again.gaps == []


def test_a_deleted_file_is_followed_as_long_as_it_is_written_to(log: Path) -> None:
    with log.open("ab", buffering=0) as writer:
        writer.write(LINES[:100])
        watcher = Watcher(log)
        watcher.poll()
        log.unlink()
        watcher.poll()
        assert watcher.state == "absent"
        assert watcher.follower.reading
        writer.write(LINES[100:])
        watcher.poll(DRAIN_LIMIT_US)
    log.write_bytes(OTHER)
    watcher.settle()
    assert watcher.data == LINES + OTHER
    assert watcher.state == "following"


def test_a_file_that_appears_later_is_read_from_its_first_byte(log: Path) -> None:
    watcher = Watcher(log, backfill=True)
    watcher.poll()
    watcher.poll()
    assert watcher.state == "absent"
    assert watcher.follower.state.since_us == SECOND
    log.write_bytes(LINES)
    watcher.poll()
    assert watcher.data == LINES
    assert watcher.state == "following"


def test_a_file_that_appears_while_down_is_read_from_its_first_byte(log: Path) -> None:
    watcher = Watcher(log)
    watcher.poll()
    again = watcher.again()
    log.write_bytes(LINES)
    again.poll()
    assert again.data == LINES
    assert again.gaps == []


# Truncation.


def test_a_truncated_file_is_a_gap_of_unknown_length(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.write_bytes(b"")
    watcher.poll()
    append(log, OTHER[:50])
    watcher.poll()
    assert watcher.data == LINES + OTHER[:50]
    assert watcher.kinds == ["bytes", "gap", "rotated", "bytes"]
    assert watcher.gaps == [(TRUNCATED, None)]


@pytest.mark.parametrize("size", [len(LINES) - 100, len(LINES), len(LINES) + 1000])
def test_a_file_truncated_and_written_again_to_any_length(log: Path, size: int) -> None:
    """As llama-server's own ``--log-file`` is at each start."""
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.write_bytes(OTHER[:size])
    watcher.poll()
    assert watcher.data == LINES + OTHER[:size]
    assert watcher.kinds == ["bytes", "gap", "rotated", "bytes"]
    assert watcher.gaps == [(TRUNCATED if size < len(LINES) else REWRITTEN, None)]


def test_a_file_written_again_with_the_same_head_is_told_by_the_bytes_before_the_offset(log: Path) -> None:
    banner = b"build: 7492 with cc for x86_64\n" * 100
    log.write_bytes(banner + LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.write_bytes(banner + OTHER)
    watcher.poll()
    assert watcher.data == banner + LINES + banner + OTHER
    assert watcher.gaps == [(REWRITTEN, None)]


def test_an_empty_file_that_was_written_to_and_is_empty_again(log: Path) -> None:
    log.touch()
    watcher = Watcher(log)
    watcher.poll()
    log.write_bytes(LINES)
    log.write_bytes(b"")
    os.utime(log, ns=(5, 5))
    watcher.poll()
    assert watcher.gaps == [(TRUNCATED, None)]


def test_a_file_that_is_shorter_than_it_was_begins_anew_although_less_had_been_read(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    os.truncate(log, 500)
    watcher.poll()
    assert watcher.data == LINES[:100] + LINES[:500]
    assert watcher.gaps == [(TRUNCATED, None)]


def test_copytruncate_what_was_unread_is_read_from_the_copy_and_the_rest_is_a_gap(log: Path) -> None:
    log.write_bytes(LINES[:300])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[300:])
    shutil.copyfile(log, log.with_name("server.log.1"))
    append(log, b"between copy and truncation\n")
    os.truncate(log, 0)
    append(log, OTHER)
    watcher.poll()
    assert watcher.data == LINES + OTHER
    assert watcher.kinds == ["bytes", "bytes", "gap", "rotated", "bytes"]
    assert watcher.gaps == [(TRUNCATED if len(OTHER) < 300 else REWRITTEN, None)]
    assert watcher.pieces[1].file == watcher.pieces[0].file


def test_a_restart_while_the_copy_is_read_still_ends_in_the_gap(log: Path) -> None:
    log.write_bytes(LINES[:300])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[300:])
    shutil.copyfile(log, log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    watcher.poll(limit=100)
    again = watcher.again()
    again.settle()
    assert watcher.data + again.data == LINES + OTHER
    assert watcher.gaps == []
    assert again.gaps == [(REWRITTEN, None)]


def test_copytruncate_under_a_writer_that_does_not_append_leaves_a_hole(log: Path) -> None:
    with log.open("wb", buffering=0) as writer:
        writer.write(LINES * 200)
        watcher = Watcher(log)
        watcher.poll()
        os.truncate(log, 0)
        writer.write(OTHER)
        watcher.poll()
        writer.write(b"end\n")
        watcher.poll()
    assert watcher.data == LINES * 200 + OTHER + b"end\n"
    assert watcher.gaps == [(REWRITTEN, None), (HOLE, 200 * len(LINES))]
    assert watcher.pieces[-1].offset == log.stat().st_size - 4


# Starting again.


def test_after_a_restart_reading_goes_on_where_it_was(log: Path) -> None:
    log.write_bytes(LINES[:100])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[100:])
    again = watcher.again()
    again.poll()
    assert again.data == LINES[100:]
    assert again.pieces[0].offset == 100
    assert again.pieces[0].file == watcher.pieces[0].file


def test_the_device_may_have_another_number_after_a_boot(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    checkpoint = msgspec.structs.replace(watcher.checkpoint(), device=12345)
    again = Watcher(log, checkpoint)
    again.poll()
    assert again.data == LINES[100:]


PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
    ".bz2": bz2.compress,
}


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", ["server.log.3", "server.3.log", "server.log-20261130", "server-20261130.log"])
def test_the_unread_part_is_found_in_a_rotated_file_and_newer_ones_follow_in_order(
    log: Path, suffix: str, name: str
) -> None:
    newer = {
        "server.log.3": ["server.log.2", "server.log.1"],
        "server.3.log": ["server.2.log", "server.1.log"],
        "server.log-20261130": ["server.log-20261201", "server.log-20261202"],
        "server-20261130.log": ["server-20261201.log", "server-20261202.log"],
    }[name]
    log.write_bytes(LINES[:300])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[300:])
    if suffix:
        stat = log.stat()
        packed = log.with_name(name + suffix)
        packed.write_bytes(PACK[suffix](log.read_bytes()))
        os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        log.unlink()
    else:
        log.rename(log.with_name(name))
    log.with_name(newer[0] + suffix).write_bytes(PACK[suffix](b"second\n"))
    log.with_name(newer[1]).write_bytes(b"third\n")
    log.write_bytes(OTHER)
    again = watcher.again()
    again.settle()
    assert watcher.data + again.data == LINES + b"second\nthird\n" + OTHER
    assert again.kinds == ["bytes", "rotated", "bytes", "rotated", "bytes", "rotated", "bytes"]
    assert again.gaps == []


def test_a_restart_inside_a_compressed_file(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    stat = log.stat()
    packed = log.with_name("server.log.1.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    log.unlink()
    log.write_bytes(OTHER)
    second = watcher.again()
    second.poll(limit=200)
    second.poll(limit=200)
    third = second.again()
    third.settle()
    assert watcher.data + second.data + third.data == LINES + OTHER
    assert {piece.file for piece in second.pieces} == {"1"}


def test_a_damaged_compressed_file_is_a_gap_and_reading_goes_on(log: Path) -> None:
    content = os.urandom(400_000)
    log.write_bytes(content)
    watcher = Watcher(log)
    watcher.poll(limit=1000)
    stat = log.stat()
    packed = log.with_name("server.log.1.gz")
    packed.write_bytes(gzip.compress(content)[:200_000])
    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    log.unlink()
    log.write_bytes(OTHER)
    again = watcher.again()
    for _ in range(100):
        again.poll(limit=10_000)
    read = again.data
    assert read.endswith(OTHER)
    assert content[1000:].startswith(read[: -len(OTHER)])
    assert len(read) > 100_000
    ((cause, length),) = again.gaps
    assert "damaged" in cause
    assert length is None


def test_a_file_that_is_gone_is_a_gap_once(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    spare = log.with_name("spare")
    spare.write_bytes(OTHER)
    spare.replace(log)
    again = watcher.again()
    again.settle()
    assert again.kinds == ["gap", "rotated", "bytes"]
    assert again.data == OTHER
    assert again.gaps == [(ROTATED_AWAY, None)]
    third = again.again()
    third.settle()
    assert third.kinds == []


def test_a_rotated_file_missing_between_others_is_a_gap(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.4"))
    log.with_name("server.log.1").write_bytes(b"last\n")
    log.write_bytes(OTHER)
    again = watcher.again()
    again.settle()
    assert again.data == b"last\n" + OTHER
    assert again.gaps == [("rotated away: 2 files missing", None)]


def test_a_file_truncated_while_down(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.write_bytes(OTHER)
    again = watcher.again()
    again.settle()
    assert again.data == OTHER
    assert again.gaps == [(TRUNCATED_AWAY, None)]


def test_copytruncate_while_down_twice(log: Path) -> None:
    log.write_bytes(LINES[:300])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[300:])
    shutil.copyfile(log, log.with_name("server.log.2"))
    log.write_bytes(b"second\n")
    shutil.copyfile(log, log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    again = watcher.again()
    again.settle()
    assert watcher.data + again.data == LINES + b"second\n" + OTHER
    assert again.gaps == [(TRUNCATED_AWAY, None)] * 2


def test_a_reused_inode_is_told_by_the_content(log: Path) -> None:
    """Made with a fake disk: a real one gives out a freed number when it likes."""
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    old = log.stat().st_ino
    spare = log.with_name("spare")
    spare.write_bytes(OTHER)
    spare.replace(log)
    watcher.disk.same_inode[log.stat().st_ino] = old
    again = watcher.again()
    again.settle()
    assert again.data == OTHER
    assert len(again.gaps) == 1


def test_an_inode_lent_out_again_while_the_deleted_file_is_still_open(log: Path) -> None:
    """Made with a fake disk: some network file systems do that."""
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    old = log.stat().st_ino
    log.unlink()
    log.write_bytes(OTHER)
    watcher.disk.same_inode[log.stat().st_ino] = old
    watcher.settle()
    assert watcher.data == LINES + OTHER
    assert watcher.gaps == []


def test_an_older_file_with_the_same_banner_is_not_taken_for_the_one_that_was_read(log: Path) -> None:
    banner = b"build: 7492 with cc for x86_64\n" * 50
    old = log.with_name("server.log.2.gz")
    old.write_bytes(gzip.compress(banner + OTHER))
    os.utime(old, ns=(10**18, 10**18))
    log.write_bytes(banner + LINES)
    watcher = Watcher(log)
    watcher.poll(limit=len(banner))
    stat = log.stat()
    packed = log.with_name("server.log.1.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    log.unlink()
    log.write_bytes(b"new\n")
    again = watcher.again()
    again.settle()
    assert again.data == LINES + b"new\n"


def test_a_file_system_that_comes_later_is_no_gap(log: Path) -> None:
    log.parent.joinpath("mount").mkdir()
    inside = log.parent / "mount" / "server.log"
    inside.write_bytes(LINES)
    watcher = Watcher(inside)
    watcher.poll(limit=100)
    (log.parent / "mount").rename(log.parent / "elsewhere")
    again = watcher.again()
    again.settle()
    assert again.state == "absent"
    assert again.kinds == []
    assert not again.follower.caught_up
    third = again.again()  # nothing is forgotten
    (log.parent / "elsewhere").rename(log.parent / "mount")
    third.settle()
    assert watcher.data + third.data == LINES
    assert third.gaps == []


def test_a_file_seen_at_the_path_and_gone_after_a_restart_is_a_gap(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(b"seen, not read\n")
    watcher.poll(0)
    spare = log.with_name("spare")
    spare.write_bytes(OTHER)
    again = watcher.again()
    spare.replace(log)
    again.settle()
    assert again.data == OTHER
    assert again.gaps == [(ROTATED_AWAY, None)]


def test_a_file_seen_at_the_path_and_truncated_while_down_is_a_gap(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(b"seen, not read\n")
    watcher.poll(0)
    again = watcher.again()
    log.write_bytes(OTHER)
    again.settle()
    assert again.data == OTHER
    assert again.gaps == [(ROTATED_AWAY, None)]


def test_a_copy_found_after_the_log_itself_was_replaced_still_ends_in_a_gap(log: Path) -> None:
    log.write_bytes(LINES[:300])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[300:])
    shutil.copyfile(log, log.with_name("server.log.1"))
    spare = log.with_name("spare")
    spare.write_bytes(OTHER)
    spare.replace(log)
    again = watcher.again()
    again.settle()
    assert watcher.data + again.data == LINES + OTHER
    assert again.gaps == [(TRUNCATED_AWAY, None)]


# What random histories found.


def packed(log: Path, name: str) -> None:
    """Compress the log to this name, as rotation does."""
    stat = log.stat()
    new = log.with_name(name)
    new.write_bytes(gzip.compress(log.read_bytes()))
    os.utime(new, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    log.unlink()


def at(path: Path, second: int) -> None:
    """Say when it was last changed."""
    os.utime(path, (second, second))


def test_a_file_compressed_while_it_is_read_is_not_read_again(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    packed(log, "server.log.1.gz")
    log.write_bytes(b"")  # seen, empty, and gone again: nothing tells its place but time
    watcher.poll(0, limit=100)
    log.unlink()
    log.write_bytes(OTHER)
    for _ in range(3):
        watcher.settle()
    assert watcher.data == LINES + OTHER
    assert watcher.gaps == []


def test_a_file_that_waits_and_is_compressed_meanwhile_is_read_once(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    log.unlink()
    log.write_bytes(b"second, of more than sixty-four bytes, so that it can be recognised\n")
    watcher.poll(0, limit=100)
    second = log.read_bytes()
    packed(log, "server.log.1.gz")
    log.write_bytes(OTHER)
    for _ in range(3):
        watcher.settle()
    assert watcher.data == LINES + second + OTHER


def test_a_file_that_waits_and_is_written_again_behind_the_same_banner_is_a_gap(log: Path) -> None:
    banner = b"build: 7492 with cc for x86_64\n" * 50
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(banner + b"lost\n")
    watcher.poll(0)
    log.write_bytes(banner + OTHER)
    watcher.settle()
    assert watcher.data == LINES + banner + OTHER
    assert watcher.gaps == [(REWRITTEN, None)]


def test_a_file_with_the_banner_of_a_deleted_one_is_not_taken_for_it(log: Path) -> None:
    banner = b"build: 7492 with cc for x86_64\n" * 50
    log.write_bytes(banner + b"first\n")
    at(log, 1000)
    watcher = Watcher(log)
    watcher.poll()
    log.unlink()
    log.write_bytes(banner + b"second\n")
    at(log, 2000)
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    watcher.settle()
    assert watcher.data == banner + b"first\n" + banner + b"second\n" + OTHER


def test_empty_files_rotated_under_a_writer_that_stays_do_not_end_its_file(log: Path) -> None:
    with log.open("ab", buffering=0) as writer:
        writer.write(LINES[:100])
        watcher = Watcher(log)
        watcher.poll()
        log.rename(log.with_name("server.log.2"))
        log.with_name("server.log.1").touch()
        log.touch()
        watcher.settle()
        writer.write(LINES[100:])
        watcher.settle()
    append(log, OTHER)
    for _ in range(3):
        watcher.settle()
    assert watcher.data == LINES + OTHER
    assert watcher.gaps == []


def test_an_older_file_written_late_beside_a_deleted_newer_one(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    log.unlink()
    older = log.with_name("server.log.1")
    older.touch()
    log.write_bytes(b"newer\n")
    watcher.poll(0, limit=100)
    log.unlink()
    older.write_bytes(b"older, late\n")
    log.write_bytes(OTHER)
    for _ in range(4):
        watcher.settle()
    assert watcher.data == LINES + b"newer\nolder, late\n" + OTHER


# Checkpoints.


def test_nothing_is_known_before_the_first_poll(log: Path) -> None:
    assert Watcher(log).follower.checkpoint() is None


# What cannot be read.


def test_a_permission_that_is_taken_and_comes_back(log: Path) -> None:
    """Made with a fake disk: root may read everything."""
    log.write_bytes(LINES)
    watcher = Watcher(log, backfill=True)
    watcher.disk.refused = True
    watcher.poll()
    watcher.poll()
    state = watcher.follower.state
    assert (state.name, state.since_us, state.reason) == ("denied", SECOND, "permission denied")
    assert watcher.follower.unread == len(LINES)
    assert watcher.follower.checkpoint() is None
    append(log, OTHER)
    watcher.poll()
    assert watcher.follower.unread == len(LINES) + len(OTHER)
    watcher.disk.refused = False
    watcher.poll()
    assert watcher.data == OTHER  # as at a first start: from the start of the current life
    assert (watcher.state, watcher.follower.state.since_us) == ("following", 4 * SECOND)


def test_a_new_file_that_may_not_be_read_yet(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    watcher.disk.refused = {"server.log"}
    watcher.settle()
    assert watcher.state == "denied"
    assert watcher.follower.unread == len(OTHER)
    assert all(piece.kind != "idle" for piece in watcher.pieces)
    append(log.with_name("server.log.1"), b"more\n")
    watcher.disk.refused = False
    watcher.settle()
    assert watcher.data == LINES + b"more\n" + OTHER


def test_a_closed_directory(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    watcher.disk.hidden = True
    watcher.poll()
    assert watcher.data == LINES  # the open file is still read
    assert watcher.state == "denied"
    again = watcher.again()
    again.settle()
    assert (again.state, again.kinds) == ("denied", [])
    again.disk.hidden = False
    append(log, OTHER)
    again.poll()
    assert again.data == OTHER


def test_a_rotated_file_that_may_not_be_read_is_a_gap(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    log.rename(log.with_name("server.log.2"))
    log.with_name("server.log.1").write_bytes(b"secret\n")
    log.write_bytes(OTHER)
    watcher.disk.refused = {"server.log.1"}
    watcher.settle()
    assert watcher.data == LINES + OTHER
    assert watcher.gaps == [("server.log.1 could not be read: permission denied", None)]


def test_an_input_error_is_a_state_and_ends_when_it_ends(log: Path) -> None:
    log.write_bytes(LINES[:100])
    watcher = Watcher(log)
    watcher.poll()
    append(log, LINES[100:])
    watcher.disk.read_errno = errno.EIO
    for _ in range(100):
        assert watcher.poll() == []
    state = watcher.follower.state
    assert (state.name, state.reason, state.since_us) == ("error", "input/output error", 2 * SECOND)
    watcher.disk.read_errno = None
    watcher.poll()
    assert watcher.data == LINES
    assert watcher.state == "following"


def test_a_rotated_file_that_stays_unreadable_is_left_with_a_gap_of_known_length(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    watcher.disk.pread_fails_for = log.stat().st_ino
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    watcher.poll()
    watcher.poll(DRAIN_LIMIT_US - 1)
    assert watcher.gaps == []
    watcher.poll(1)
    watcher.poll()
    assert watcher.data == LINES[:100] + OTHER
    assert watcher.gaps == [("could not be read: input/output error", len(LINES) - 100)]


def test_a_handle_that_a_network_file_system_forgot(log: Path) -> None:
    log.write_bytes(LINES[:100])
    watcher = Watcher(log)
    watcher.poll()
    watcher.disk.read_errno = errno.ESTALE
    watcher.poll()
    assert watcher.state == "error"
    watcher.disk.read_errno = None
    append(log, LINES[100:])
    watcher.poll()
    assert watcher.data == LINES
    assert watcher.gaps == []


def test_no_descriptors_left_is_an_error_and_no_gap(log: Path) -> None:
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll(limit=100)
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(OTHER)
    again = watcher.again()
    again.disk.open_errno = errno.EMFILE
    again.settle()
    assert (again.state, again.kinds) == ("error", [])
    again.disk.open_errno = None
    again.settle()
    assert watcher.data + again.data == LINES + OTHER


def test_what_is_no_regular_file_is_not_opened(log: Path) -> None:
    os.mkfifo(log)
    watcher = Watcher(log)
    watcher.poll()
    assert (watcher.state, watcher.follower.state.reason) == ("error", "not a regular file")
    log.unlink()
    log.mkdir()
    watcher.poll()
    assert watcher.state == "error"
    log.rmdir()
    log.write_bytes(LINES)
    watcher.poll()
    assert watcher.data == LINES


def test_closing_gives_every_descriptor_back(log: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    log.write_bytes(LINES)
    watcher = Watcher(log)
    watcher.poll()
    for _ in range(20):
        log.rename(log.with_name("server.log.1"))
        log.write_bytes(OTHER)
        watcher.settle()
    assert len(os.listdir("/dev/fd")) < before + 12
    watcher.follower.close()
    assert len(os.listdir("/dev/fd")) == before
