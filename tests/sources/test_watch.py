"""Notices from the kernel: real ones, and what happens where there are none."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleepwatch.sources import watch as watching
from sleepwatch.sources.watch import Watch

SOON = 10.0
"""Seconds after which a notice that did not come will not come."""


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.close()


def sync(watch: Watch, *files: Path) -> list[str]:
    return watch.sync(frozenset(map(str, files)), frozenset(str(file.parent) for file in files))


def quiet(watch: Watch) -> None:
    """Let the notices that are on their way arrive."""
    deadline = time.monotonic() + SOON
    while watch.wait(0.05):
        assert time.monotonic() < deadline


@pytest.mark.live
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_growing_renaming_and_appearing_end_the_wait(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"")
    assert sync(watch, log) == []
    with log.open("ab", buffering=0) as file:
        file.write(b"line\n")
        assert watch.wait(SOON)
    quiet(watch)
    log.rename(tmp_path / "server.log.1")
    assert watch.wait(SOON)
    quiet(watch)
    log.write_bytes(b"")
    assert watch.wait(SOON)


@pytest.mark.live
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_other_files_and_reading_do_not_end_it(watch: Watch, tmp_path: Path) -> None:
    log, other = tmp_path / "server.log", tmp_path / "other.log"
    log.write_bytes(b"line\n")
    other.write_bytes(b"")
    sync(watch, log)
    with other.open("ab", buffering=0) as file:
        file.write(b"line\n")
    log.read_bytes()
    os.listdir(tmp_path)
    assert not watch.wait(0.2)


@pytest.mark.live
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_a_directory_that_comes_later_or_is_replaced_is_watched(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "server.log"
    assert sync(watch, log) == []
    for _ in range(2):
        log.parent.mkdir()
        log.write_bytes(b"")
        sync(watch, log)
        quiet(watch)
        with log.open("ab", buffering=0) as file:
            file.write(b"line\n")
            assert watch.wait(SOON)
        log.unlink()
        log.parent.rename(tmp_path / f"old-{time.monotonic_ns()}")
        sync(watch, log)
        quiet(watch)


@pytest.mark.live
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_what_is_no_longer_asked_for_is_not_watched(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"")
    sync(watch, log)
    watch.sync(frozenset(), frozenset())
    with log.open("ab", buffering=0) as file:
        file.write(b"line\n")
    assert not watch.wait(0.2)


def test_it_ends_after_its_time(watch: Watch) -> None:
    assert not watch.wait(0)
    assert not watch.wait(-1)


def test_another_thread_can_end_it(watch: Watch) -> None:
    thread = threading.Timer(0.01, watch.wake)
    thread.start()
    assert watch.wait(SOON)
    thread.join()
    for _ in range(100_000):  # more than a pipe holds
        watch.wake()
    assert watch.wait(0)
    assert not watch.wait(0)


def test_a_signal_can_end_it(watch: Watch) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: watch.wake())
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert watch.wait(SOON)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_where_the_system_refuses_it_is_said_once(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FakeObserver:
        """Refuses as inotify does when fs.inotify.max_user_watches is reached."""

        def start(self) -> None: ...
        def stop(self) -> None: ...
        def join(self) -> None: ...
        def schedule(self, *_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr("watchdog.observers.Observer", FakeObserver)
    log = tmp_path / "server.log"
    assert sync(watch, log) == [
        f"{tmp_path}: no notices of changes (inotify watch limit reached); it is looked at from time to time"
    ]
    assert sync(watch, log) == []
    assert watch.degraded == {str(tmp_path): "inotify watch limit reached"}
    assert not watch.wait(0)


def test_network_mounts_are_known_to_give_none(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    share = tmp_path / "a share"
    share.mkdir()
    mounts.write_text(
        "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        f"40 22 0:50 / {str(share).replace(' ', chr(92) + '040')} rw shared:9 - nfs4 host:/logs rw\n"
    )
    monkeypatch.setattr(watching, "_MOUNTS", str(mounts))
    (notice,) = sync(watch, share / "server.log")
    assert "a nfs4 mount" in notice
    assert sync(watch, tmp_path / "server.log") == []
    assert watch.degraded == {}
