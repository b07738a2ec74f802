"""The lock beside a database: who may take it, and who can see that it is taken."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sleepwatch.daemon.lock import is_locked, lock_path, take_lock
from sleepwatch.errors import SleepwatchError
from sleepwatch.store import open_store
from tests.support.nobody import only_root

_SCRIPT = """\
import os, sys
from pathlib import Path
from sleepwatch.daemon.lock import is_locked, take_lock
database = Path(sys.argv[1])
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    held = take_lock(database)
    with pytest.raises(SleepwatchError, match=r"another `sleepwatch run` uses this database"):
        take_lock(database)
    os.close(held)
    os.close(take_lock(database))


def test_it_is_seen_from_another_process(tmp_path: Path) -> None:
    database = tmp_path / "a.db"

    def seen() -> str:
        command = [sys.executable, "-c", _SCRIPT + "print(is_locked(database))", str(database)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert seen() == "False"  # no file yet
    held = take_lock(database)
    assert seen() == "True"
    os.close(held)
    assert seen() == "False"


def test_it_ends_with_the_process(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    command = [sys.executable, "-c", _SCRIPT + "take_lock(database); os.kill(os.getpid(), 9)", str(database)]
    assert subprocess.run(command).returncode == -9
    assert is_locked(database) is False


def test_looking_at_it_at_the_same_moment_does_not_keep_a_run_from_starting(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    os.close(take_lock(database))
    looking = os.open(lock_path(database), os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    timer = threading.Timer(0.06, os.close, [looking])
    timer.start()
    os.close(take_lock(database))
    timer.join()


def _listed(database: Path, *, kind: str = "FLOCK  ADVISORY  WRITE") -> str:
    stat = lock_path(database).stat()
    device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}"
    return f"1: POSIX  ADVISORY  WRITE 1 00:05:1 0 EOF\n2: {kind} 4711 {device}:{stat.st_ino} 0 EOF\n"


@pytest.mark.parametrize(
    ("kind", "expected"), [("FLOCK  ADVISORY  WRITE", True), ("FLOCK  ADVISORY  READ ", None), (None, None)]
)
def test_where_the_file_may_not_be_opened_the_kernels_list_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None, expected: bool | None
) -> None:
    database = tmp_path / "a.db"
    os.close(take_lock(database))
    locks = tmp_path / "locks"
    locks.write_text(_listed(database, kind=kind) if kind else "")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert is_locked(database, locks=locks) is expected


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="no /proc/locks")
def test_the_kernels_own_list_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "a.db"
    held = take_lock(database)
    if f":{lock_path(database).stat().st_ino} " not in Path("/proc/locks").read_text():
        pytest.skip("the kernel does not list this file system's locks by the inodes stat shows")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert is_locked(database) is True
    os.close(held)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SleepwatchError, match="choose another --db"):
        take_lock(tmp_path / "file" / "a.db")


@only_root
def test_what_root_makes_is_the_directorys_owners(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65533)
    os.close(take_lock(tmp_path / "a.db"))
    open_store(tmp_path / "a.db").close()
    for path in (tmp_path / "a.db", lock_path(tmp_path / "a.db")):
        state = path.stat()
        assert (state.st_uid, state.st_gid, state.st_mode & 0o777) == (65534, 65533, 0o600)


@only_root
def test_a_link_gives_nothing_away(tmp_path: Path) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir()
    os.chown(directory, 65534, 65533)
    lock_path(directory / "a.db").symlink_to(tmp_path / "roots")
    os.close(take_lock(directory / "a.db"))
    assert (tmp_path / "roots").stat().st_uid == 0
