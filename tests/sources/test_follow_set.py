"""Many paths: names and patterns whose matches come and go (made)."""

from __future__ import annotations

from pathlib import Path

from sleepwatch.sources.follow import FileFollower
from sleepwatch.sources.follow_set import REFRESH_US, VANISHED_US, FollowSet
from sleepwatch.sources.identity import FileCheckpoint

SECOND = 1_000_000
LINE = b"0.01.000.000 I srv  update_slots: all slots are idle\n"


class Watchers:
    """A set with a clock of its own, and what it delivered by file name."""

    def __init__(self, *patterns: Path | str, checkpoints: dict[str, FileCheckpoint] | None = None) -> None:
        self.set = FollowSet([str(one) for one in patterns], checkpoints or {}, backfill=False)
        self.now_us = 0
        self.data: dict[str, bytes] = {}
        self.gaps = 0

    def poll(self, step_us: int = REFRESH_US) -> None:
        self.now_us += step_us
        for follower, pieces in self.set.poll(self.now_us):
            for piece in pieces:
                self.gaps += piece.kind == "gap"
                if piece.data:
                    name = follower.path.name
                    self.data[name] = self.data.get(name, b"") + piece.data

    def settle(self) -> None:
        for _ in range(5):
            self.poll()

    @property
    def names(self) -> list[str]:
        return sorted(follower.path.name for follower in self.set.followers.values())

    def checkpoints(self) -> dict[str, FileCheckpoint]:
        found = {name: follower.checkpoint() for name, follower in self.set.followers.items()}
        return {name: one for name, one in found.items() if one is not None}


def test_a_pattern_follows_its_matches_and_finds_new_ones(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(LINE)
    watchers = Watchers(tmp_path / "*.log")
    watchers.poll()
    (tmp_path / "b.log").write_bytes(LINE * 2)
    watchers.poll(REFRESH_US - 1)
    assert watchers.names == ["a.log"]
    watchers.poll(1)
    assert watchers.data == {"a.log": LINE, "b.log": LINE * 2}


def test_only_what_is_there_at_first_is_read_from_its_current_life(tmp_path: Path) -> None:
    old = b"9.00.000.000 I srv  update_slots: all slots are idle\n"
    (tmp_path / "a.log").write_bytes(old + LINE)
    watched = FollowSet([str(tmp_path / "*.log")], {}, backfill=True)
    ((_, pieces),) = watched.poll(0)
    assert pieces[0].data == LINE
    (tmp_path / "b.log").write_bytes(old + LINE)
    ((_, pieces),) = [found for found in watched.poll(REFRESH_US) if found[0].path.name == "b.log"]
    assert pieces[0].data == old + LINE


def test_a_name_is_followed_before_there_is_a_file(tmp_path: Path) -> None:
    watchers = Watchers(tmp_path / "later.log")
    watchers.poll()
    assert watchers.set.followers[str(tmp_path / "later.log")].state.name == "absent"
    (tmp_path / "later.log").write_bytes(LINE)
    watchers.poll(0)
    assert watchers.data == {"later.log": LINE}


def test_a_name_with_brackets_is_a_name_if_there_is_such_a_file(tmp_path: Path) -> None:
    (tmp_path / "model[1].log").write_bytes(LINE)
    watchers = Watchers(tmp_path / "model[1].log")
    watchers.poll()
    assert watchers.names == ["model[1].log"]


def test_older_pieces_of_a_followed_log_are_not_followed_for_themselves(tmp_path: Path) -> None:
    for name in ("server.log", "server.log.1", "server.log.2.gz", "server-20261130.log", "other.log-20261130"):
        (tmp_path / name).write_bytes(LINE)
    watchers = Watchers(tmp_path / "*")
    watchers.poll()
    assert watchers.names == ["other.log-20261130", "server.log"]  # of `other.log` there is nothing else


def test_a_rotation_under_a_pattern_delivers_every_byte_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(LINE)
    watchers = Watchers(tmp_path / "*.log*")
    watchers.poll()
    with log.open("ab") as file:
        file.write(LINE * 2)
    log.rename(tmp_path / "server.log.1")
    watchers.poll()  # for a moment there is no server.log
    log.write_bytes(b"new\n")
    watchers.settle()
    assert watchers.data == {"server.log": LINE * 3 + b"new\n"}
    assert watchers.gaps == 0


def test_a_log_renamed_to_another_match_is_not_read_twice(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(LINE)
    watchers = Watchers(tmp_path / "*.log")
    watchers.poll()
    log.rename(tmp_path / "server-old.log")
    log.write_bytes(b"new\n")
    for _ in range(100):
        watchers.poll()
    assert watchers.data == {"server.log": LINE + b"new\n"}
    (tmp_path / "server-old.log").unlink()
    spare = tmp_path / "spare"
    spare.write_bytes(b"another\n")
    spare.rename(tmp_path / "server-old.log")  # another file under that name is a log of its own
    watchers.settle()
    assert watchers.data["server-old.log"] == b"another\n"


def test_a_second_link_to_a_followed_log_is_not_read_twice(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(LINE)
    watchers = Watchers(tmp_path / "*.log")
    watchers.poll()
    (tmp_path / "link.log").symlink_to("a.log")
    (tmp_path / "dangling.log").symlink_to("nowhere")
    (tmp_path / "directory.log").mkdir()
    watchers.settle()
    assert watchers.names == ["a.log"]


def test_a_match_that_vanished_is_forgotten_after_a_grace_and_a_name_never(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(LINE)
    watchers = Watchers(tmp_path / "a*.log", tmp_path / "b.log")
    watchers.poll()
    writer = (tmp_path / "a.log").open("ab", buffering=0)
    (tmp_path / "a.log").unlink()
    (tmp_path / "b.log").unlink()
    watchers.poll()
    watchers.poll(VANISHED_US - 1)
    writer.write(LINE)  # still written to
    watchers.poll(0)
    watchers.poll(VANISHED_US - 1)
    assert watchers.data["a.log"] == LINE * 2
    assert watchers.names == ["a.log", "b.log"]
    watchers.poll(1)
    assert watchers.names == ["b.log"]
    assert watchers.set.vanished == [str(tmp_path / "a.log")]
    writer.close()
    (tmp_path / "a.log").write_bytes(LINE)
    watchers.poll()
    assert watchers.data["a.log"] == LINE * 3


def test_after_a_restart_a_match_that_was_rotated_meanwhile_is_found(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(LINE * 3)
    first = Watchers(tmp_path / "*.log*")
    first.poll()
    checkpoints = first.checkpoints()
    first.set.close()
    with log.open("ab") as file:
        file.write(b"unread\n")
    log.rename(tmp_path / "server.log.1")
    second = Watchers(
        tmp_path / "*.log*", checkpoints=checkpoints | {"/elsewhere/x.log": next(iter(checkpoints.values()))}
    )
    second.settle()
    assert second.data == {"server.log": b"unread\n"}
    assert second.names == ["server.log"]


def test_recursive_patterns(tmp_path: Path) -> None:
    deep = tmp_path / "pods" / "llama" / "0.log"
    deep.parent.mkdir(parents=True)
    deep.write_bytes(LINE)
    first = Watchers(tmp_path / "**" / "*.log")
    first.poll()
    checkpoints = first.checkpoints()
    first.set.close()
    deep.rename(deep.with_name("0.log.20261130-120000"))
    second = Watchers(tmp_path / "**" / "*.log", checkpoints=checkpoints)
    second.poll()
    assert second.names == ["0.log"]


def test_what_is_to_be_watched(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "real.log").write_bytes(LINE)
    (tmp_path / "logs" / "link.log").symlink_to(tmp_path / "data" / "real.log")
    watchers = Watchers(tmp_path / "logs" / "link.log", tmp_path / "more" / "*" / "x.log")
    watchers.poll()
    watched = watchers.set.watched()
    assert watched.files == {str(tmp_path / "logs" / "link.log"), str(tmp_path / "data" / "real.log")}
    assert watched.directories == {str(tmp_path / name) for name in ("logs", "data", "more")}


def test_one_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()
    (tmp_path / "b.log").write_bytes(LINE)
    watchers = Watchers(tmp_path / "a.log", tmp_path / "b.log")
    watchers.poll()
    states = {follower.path.name: follower.state.name for follower in watchers.set.followers.values()}
    assert states == {"a.log": "error", "b.log": "following"}
    assert watchers.data == {"b.log": LINE}
    assert all(isinstance(follower, FileFollower) for follower in watchers.set.followers.values())
    watchers.set.close()
