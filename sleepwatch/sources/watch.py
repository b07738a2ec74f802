"""Notices from the kernel that a watched file may have changed: they shorten the wait for the next poll, nothing more.

They can be lost (a full queue), never come (most network and FUSE mounts) or be refused (limits on inotify), so nothing
depends on them: who waits polls again after the time-out in any case.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sleepwatch.errors import os_words

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver, ObservedWatch

_REMOTE = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "fuse", "virtiofs", "vboxsf", "gluster", "lustre", "ncpfs")
"""File systems (beginnings of their names) whose changes made elsewhere the kernel does not see."""
_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Watch:
    """Waits for a change in the directories last given to :meth:`sync`."""

    def __init__(self) -> None:
        self.degraded: dict[str, str] = {}
        """Directories without notices, and why: there only the periodic poll looks."""
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        self._files: frozenset[str] = frozenset()
        self._watches: dict[str, tuple[tuple[int, int], ObservedWatch]] = {}
        self._observer: BaseObserver | None = None

    def sync(self, files: frozenset[str], directories: frozenset[str]) -> list[str]:
        """Watch these; returns a sentence for each directory that is found to give no notices, once.

        Absolute paths without symbolic links. A directory that is not there yet is tried again at the next call.
        """
        self._files = files
        said = []
        for directory in sorted(directories | set(self._watches)):
            identity = _identity(directory) if directory in directories else None
            held = self._watches.get(directory)
            if held is not None and held[0] != identity:
                self._unschedule(directory)
                held = None
            if held is None and identity is not None and directory not in self.degraded:
                reason = _remote(directory) or self._schedule(directory, identity)
                if reason is not None:
                    self.degraded[directory] = reason
                    said.append(f"{directory}: no notices of changes ({reason}); it is looked at from time to time")
        for directory in set(self.degraded) - directories:
            del self.degraded[directory]
        return said

    def wait(self, timeout_s: float, also: Sequence[int] = ()) -> bool:
        """Wait for a change, for :meth:`wake` or for one of ``also`` to become readable, at most this long.

        Was there one?
        """
        ready, _, _ = select.select([self._read_fd, *also], [], [], max(0.0, timeout_s))
        if self._read_fd not in ready:
            return bool(ready)
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._read_fd, 4096)) == 4096:
                pass
        return True

    def wake(self) -> None:
        """End the wait now. May be called from another thread and from a signal handler."""
        with contextlib.suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._write_fd, b"\0")

    def close(self) -> None:
        """End the threads that listen, give all descriptors back."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None
        self._watches = {}
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _schedule(self, directory: str, identity: tuple[int, int]) -> str | None:
        """Begin to listen; the reason where that cannot be."""
        from watchdog import events
        from watchdog.observers import Observer

        if self._observer is None:
            self._observer = Observer()
            self._observer.start()
        watch = self

        class Handler(events.FileSystemEventHandler):
            def on_any_event(self, event: events.FileSystemEvent) -> None:
                watch._changed(event)

        kinds: list[type[events.FileSystemEvent]] = [
            events.FileModifiedEvent,
            events.FileCreatedEvent,
            events.FileMovedEvent,
            events.FileDeletedEvent,
            events.DirCreatedEvent,
            events.DirMovedEvent,
        ]
        try:
            made = self._observer.schedule(Handler(), directory, event_filter=kinds)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None  # gone again
            return os_words(error)
        self._watches[directory] = identity, made
        return None

    def _unschedule(self, directory: str) -> None:
        _, made = self._watches.pop(directory)
        assert self._observer is not None
        with contextlib.suppress(KeyError, OSError):  # the system has dropped it with the directory
            self._observer.unschedule(made)

    def _changed(self, event: Any) -> None:
        """Runs in the observer's thread."""
        if event.event_type != "modified" or event.src_path in self._files:
            self.wake()


def _pipe() -> tuple[int, int]:
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    return read_fd, write_fd


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(directory)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _remote(directory: str) -> str | None:
    """Is the directory on a file system whose changes the kernel is not told of? Its kind, in words."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" - ") for line in file]
    except OSError:
        return None  # not Linux
    best, kind = "", ""
    for mount in mounts:
        if len(mount) < 2:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), mount[0].split()[4])
        if len(point) >= len(best) and (directory + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, mount[1].split()[0]
    return f"a {kind} mount" if kind.startswith(_REMOTE) else None
