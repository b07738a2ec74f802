"""One ``sleepwatch run`` for each database: the lock beside it, taken and looked at.

The lock is flock(2)'s, on a file of its own, so it ends with the process however that ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

from sleepwatch.errors import SleepwatchError, os_words
from sleepwatch.store.database import make_private_file

_LOCKS = Path("/proc/locks")
_FLOCK = re.compile(rb"^\d+: FLOCK\s+\S+\s+WRITE\s+\S+\s+([0-9a-f]+):([0-9a-f]+):(\d+)\s", re.MULTILINE)
_TRIES = 5
_TRY_AGAIN_S = 0.05


def lock_path(database: Path) -> Path:
    """The lock's file."""
    return database.with_name(database.name + ".lock")


def take_lock(database: Path) -> int:
    """Lock the database for this process; closing the descriptor that is returned ends that.

    Raises SleepwatchError where another process has it, or the file cannot be made.
    """
    path = lock_path(database)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private_file(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        why = os_words(error)
        hint = "check the owner and mode of the file and its directory, or choose another --db"
        raise SleepwatchError(f"{path}: {why}", hint=hint) from error
    for again in range(_TRIES, 0, -1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError as error:
            if again == 1:
                os.close(descriptor)
                raise SleepwatchError(
                    f"{database}: another `sleepwatch run` uses this database",
                    hint="stop it, or choose another --db",
                ) from error
            time.sleep(_TRY_AGAIN_S)  # is_locked() holds it for an instant
        except OSError as error:
            os.close(descriptor)
            raise SleepwatchError(f"{path}: {os_words(error)}", hint="choose another --db, on a local disk") from error
    raise AssertionError("unreachable")


def is_locked(database: Path, *, locks: Path = _LOCKS) -> bool | None:
    """Whether a ``run`` uses this database now; None where this user cannot tell.

    Where the file may not be opened the kernel's list is read instead; it shows no lock of another PID namespace
    (proc(5)), so only finding it there proves something.
    """
    path = lock_path(database)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True if _listed(path, locks) else None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _listed(path: Path, locks: Path) -> bool:
    try:
        stat = path.stat()
        text = locks.read_bytes()
    except OSError:
        return False
    wanted = (os.major(stat.st_dev), os.minor(stat.st_dev), stat.st_ino)
    return any((int(major, 16), int(minor, 16), int(inode)) == wanted for major, minor, inode in _FLOCK.findall(text))
