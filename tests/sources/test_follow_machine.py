"""A follower under everything that can befall a log, against an exact account of every byte (made)."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from sleepwatch.sources.follow import FileFollower
from sleepwatch.sources.identity import FileCheckpoint
from tests.sources.fakes import FakeDisk
from tests.sources.world import Account, World

SIZES = st.sampled_from([8, 30, 70, 200, 300, 1500])
LIMITS = st.sampled_from([8, 64, 500, 8 << 20])
STEPS_US = st.sampled_from([0, 500_000, 3_000_000, 70_000_000])


def open_in(directory: Path) -> list[str]:
    """What this process has open there (told by Linux only)."""
    links = [Path("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")] if Path("/proc/self/fd").is_dir() else []
    return [name for link in links if (name := os.path.realpath(link)).startswith(str(directory))]


class FollowMachine(RuleBasedStateMachine):
    """Invariant: each byte that was there to be seen at a poll is delivered once, in order, or lies in a gap.

    Across restarts the account is put back to what it was when the checkpoint was taken, as a consumer's is that stores
    both in one transaction: so nothing before a checkpoint may come again, and nothing behind it may be missing.
    """

    def __init__(self) -> None:
        super().__init__()
        root = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.directory = Path(tempfile.mkdtemp(dir=root))
        self.disk = FakeDisk()
        self.now_us = 0

    @initialize(linked=st.booleans(), banner=st.booleans(), exists=st.booleans())
    def begin(self, linked: bool, banner: bool, exists: bool) -> None:
        self.world = World(self.directory, self.disk, linked=linked, banner=banner)
        self.account = Account(self.world)
        self.saved: list[tuple[FileCheckpoint | None, Account]] = [(None, self.account.saved())]
        if exists:
            self.world.append(70)
        self.follower: FileFollower | None = None
        self._start(None)

    def _start(self, checkpoint: FileCheckpoint | None) -> None:
        self.follower = FileFollower(self.world.path, checkpoint, backfill=False, disk=self.disk)

    @rule(size=SIZES, newline=st.booleans())
    def append(self, size: int, newline: bool) -> None:
        self.world.append(size, newline=newline)

    @rule(size=SIZES)
    def append_old(self, size: int) -> None:
        self.world.append_old(size)

    @rule(same_inode=st.booleans())
    def reopen(self, same_inode: bool) -> None:
        self.world.reopen(same_inode=same_inode)

    @rule(size=st.sampled_from([0, 8, 70, 300, 3000]))
    def start_over(self, size: int) -> None:
        self.world.start_over(size)

    @rule(create=st.booleans())
    def rotate(self, create: bool) -> None:
        self.world.rotate(create=create)

    @rule(size=SIZES)
    def rotate_and_reopen(self, size: int) -> None:
        self.world.rotate(create=False)
        self.world.reopen()
        self.world.append(size)

    @rule(lost=st.sampled_from([0, 40]))
    def copytruncate(self, lost: int) -> None:
        self.world.copytruncate(lost)

    @rule(nth=st.integers(0, 3), kind=st.sampled_from([".gz", ".xz", ".zst", ".bz2"]))
    def compress(self, nth: int, kind: str) -> None:
        self.world.compress(nth, kind)

    @rule()
    def delete(self) -> None:
        self.world.delete()

    @rule(size=SIZES)
    def recreate(self, size: int) -> None:
        """With the inode number of the deleted file: the fake disk lends it out again."""
        self.world.delete()
        self.world.reopen(same_inode=True)
        self.world.append(size)

    @rule()
    def switch(self) -> None:
        self.world.switch()

    @rule(refused=st.booleans())
    def permit(self, refused: bool) -> None:
        self.world.lossy += 1
        self.disk.refused = refused

    @rule(step_us=STEPS_US, limit=LIMITS, times=st.integers(1, 4))
    def poll(self, step_us: int, limit: int, times: int) -> None:
        for _ in range(times):
            self._poll(step_us, limit)

    def _poll(self, step_us: int, limit: int) -> bool:
        """Poll once; was anything new?"""
        self.now_us += step_us
        if self.follower is None:
            self._start(self.saved[-1][0])
        assert self.follower is not None
        if self.world.banner:
            limit = 8 << 20  # inside the banner two files cannot be told apart
        if not self.disk.refused:
            self.account.there()
        pieces = self.follower.poll(self.now_us, limit)
        assert sum(len(piece.data) for piece in pieces) <= limit
        self.account.take(pieces)
        return any(piece.kind != "idle" for piece in pieces)

    @precondition(lambda self: self.follower is not None)
    @rule()
    def save(self) -> None:
        assert self.follower is not None
        self.saved.append((self.follower.checkpoint(), self.account.saved()))

    @rule(back=st.integers(1, 3))
    def kill(self, back: int) -> None:
        """Forget everything behind a checkpoint; the follower starts again at the next poll."""
        if self.follower is not None:
            self.follower.close()
            self.follower = None
        del self.saved[max(1, len(self.saved) - back + 1) :]
        self.account = self.saved[-1][1].saved()

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self._settle()
                self.account.check()
                assert self.follower is not None
                self.follower.close()
                self.follower = None
                self.world.close()
                assert not open_in(self.directory), "descriptors are left open"
        finally:
            if getattr(self, "follower", None) is not None:
                self.follower.close()  # type: ignore[union-attr]
            if hasattr(self, "world"):
                self.world.close()
            shutil.rmtree(self.directory)

    def _settle(self) -> None:
        """Let everything come to rest: the log is there, may be read, and is polled until nothing is new."""
        self.disk.refused = False
        self.world.reopen()
        self.world.append(30)
        quiet = 0
        for _ in range(1000):
            quiet = 0 if self._poll(3_000_000, 8 << 20) else quiet + 1
            if quiet == 4:
                break
        assert quiet == 4, "it never comes to rest"
        assert self.follower is not None
        assert self.follower.state.name == "following"
        assert self.follower.unread == 0
        assert self.follower.caught_up


def test_every_byte_comes_once_or_lies_in_a_gap() -> None:
    run_state_machine_as_test(
        FollowMachine,
        settings=settings(
            max_examples=400,
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            report_multiple_bugs=False,
        ),
    )


@pytest.mark.slow
def test_every_byte_comes_once_or_lies_in_a_gap_at_length() -> None:
    run_state_machine_as_test(
        FollowMachine,
        settings=settings(
            max_examples=2_000,
            stateful_step_count=50,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            report_multiple_bugs=False,
        ),
    )
