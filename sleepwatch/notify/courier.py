"""Starts the process that sends (:mod:`sleepwatch.notify.deliver`) and looks after it, without ever waiting for it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
from typing import IO

import msgspec

from sleepwatch.notify.job import Job, Result

START_US = 20_000_000
"""For the process to start and load its libraries, on a loaded machine."""
GRACE_US = 2_000_000
"""Between asking it to end and killing it."""
_NOT_FOR_IT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "CREDENTIALS_DIRECTORY")
"""What the service manager gave this process alone."""


class Courier:
    """Sends one job at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._limit_us = 0
        self._asked = False
        self._unread = b""
        self._last = ""
        self.job: Job | None = None
        """What is being sent."""

    @property
    def busy(self) -> bool:
        """Whether a job is under way."""
        return self._process is not None

    def filenos(self) -> list[int]:
        """Becomes readable when there are results, or when the process ends."""
        return [] if self._process is None or self._process.stdout is None else [self._process.stdout.fileno()]

    def start(self, job: Job, monotonic_us: int) -> None:
        """Send this. Raises OSError where no process can be started."""
        assert self._process is None
        with contextlib.ExitStack() as undo:
            given = undo.enter_context(_unnamed())
            given.write(msgspec.json.encode(job))
            given.seek(0)
            errors = undo.enter_context(_unnamed())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sleepwatch.notify.deliver"],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={name: value for name, value in os.environ.items() if name not in _NOT_FOR_IT},
                start_new_session=True,
            )
            undo.pop_all()
            given.close()
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self.job, self._errors, self._unread, self._asked = job, errors, b"", False
        self._limit_us = monotonic_us + START_US + round((job.total_s + job.timeout_s) * 1e6)

    def poll(self, monotonic_us: int) -> list[Result]:
        """The results that have come since the last call. When it was the last of them, :attr:`busy` is False after.

        A process that takes too long is asked to end, and then killed.
        """
        if self._process is None:
            return []
        ended = self._process.poll() is not None
        results = self._read()
        if ended:
            self._close()
        elif monotonic_us >= self._limit_us:
            self._end(monotonic_us)
        return results

    def finish(self, seconds: float, monotonic_us: int) -> list[Result]:
        """Wait for what is under way, at most so long; then end it. Only for when there is nothing else to do."""
        results: list[Result] = []
        if self._process is None:
            return results
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)  # what it writes fits into a pipe
        results += self.poll(monotonic_us)
        if self._process is not None:
            _signal(self._process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_US / 1e6)
            _signal(self._process, signal.SIGKILL)
            self._process.wait()
            results += self.poll(monotonic_us)
        return results

    def wait(self, seconds: float) -> None:
        """Until something has come, at most so long."""
        select.select(self.filenos(), [], [], seconds)

    def last_words(self) -> str:
        """What a process that ended before its time had to say, one line; empty where it said nothing."""
        return self._last

    def _read(self) -> list[Result]:
        assert self._process is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._process.stdout.fileno(), 65_536):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        return [msgspec.json.decode(line, type=Result) for line in lines]

    def _end(self, monotonic_us: int) -> None:
        assert self._process is not None
        _signal(self._process, signal.SIGKILL if self._asked else signal.SIGTERM)
        self._asked = True
        self._limit_us = monotonic_us + GRACE_US

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._errors is not None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self._last = lines[-1] if lines and self._process.returncode else ""
        self._errors.close()
        self._process.stdout.close()
        self._process = self._errors = None


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _unnamed() -> IO[bytes]:
    """A file without a name, in memory where the system has that: what is in it holds secrets."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("sleepwatch-notify"), "w+b")
    return tempfile.TemporaryFile()
