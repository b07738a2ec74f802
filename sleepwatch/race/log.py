"""The log of a running server, line by line, with the moment each line was written.

A line's moment is not when it arrived: the server's logger is asynchronous and the reader may be late. The log clock in
its prefix counts from the start of the process, so the smallest (arrival - clock) of a life's lines is that start, and
start + clock is when the line was written. Lines without a clock (llama.cpp before b9151) are taken as they arrive.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import msgspec

from sleepwatch import prefix

_BODY_LIMIT = 400
"""Bytes kept of a line: at debug verbosity a line holds a whole prompt."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line as it came."""

    index: int
    """Its place among all lines of this log, over all lives."""
    life: int
    """Which process of this log wrote it, from 0."""
    arrived_ns: int
    """When it was read (monotonic clock)."""
    clock_us: int | None
    """The server's own clock, where it prints one."""
    body: bytes
    """Tag and message, without the prefix."""

    def says(self, mark: re.Pattern[bytes]) -> bool:
        """Whether this line is one of those ``mark`` describes."""
        return mark.search(self.body) is not None


ENTERING = re.compile(rb"^que\b.*: entering sleeping state$")
"""llama.cpp tools/server/server-queue.cpp, start_loop: the idle timer fired (all builds since b7492, verbosity 3)."""
EXITING = re.compile(rb"^que\b.*: exiting sleeping state$")
"""The same place: a request asked for the wake."""
LISTENING = re.compile(rb"(?:server is )?listening on https?://\S+$")
"""tools/server/server.cpp: the model is loaded and requests are served."""
RELEASED = re.compile(rb"^slot\b.*\| stop processing")
"""tools/server/server-context.cpp, release: a task has ended; the idle period begins."""
CANCELLED = re.compile(rb"^srv\b.*: cancel task, id_task = \d+")
"""tools/server/server-queue.cpp, stop: the server noticed that a client has gone."""
NO_MODEL = re.compile(rb"exiting due to model loading error|failed to load model")
NO_PORT = re.compile(rb"couldn't bind HTTP server socket")
NO_SLEEP_MODE = re.compile(rb"(?:invalid argument|unrecognized arguments?|unknown (?:argument|option)): *--sleep-idle")


class Log:
    """The lines of one server, fed by its reader and waited on by the trials. Safe between threads."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._more = threading.Condition()
        self._begins_ns: dict[int, int] = {}
        self.life = -1

    def __len__(self) -> int:
        return len(self._lines)

    def begin_life(self) -> None:
        """The lines from here on are written by a new process, with a clock of its own."""
        with self._more:
            self.life += 1

    def feed(self, text: bytes, arrived_ns: int) -> Line:
        """Add one line (no line feed) that was read at ``arrived_ns`` on the monotonic clock."""
        head = prefix.split(text)
        with self._more:
            line = Line(
                index=len(self._lines),
                life=self.life,
                arrived_ns=arrived_ns,
                clock_us=head.clock_us,
                body=head.body[:_BODY_LIMIT],
            )
            if head.clock_us is not None:
                begin = arrived_ns - head.clock_us * 1000
                self._begins_ns[self.life] = min(begin, self._begins_ns.get(self.life, begin))
            self._lines.append(line)
            self._more.notify_all()
        return line

    def written_ns(self, line: Line) -> int:
        """When the line was written, on the monotonic clock."""
        if line.clock_us is None:
            return line.arrived_ns
        return self._begins_ns[line.life] + line.clock_us * 1000

    def since(self, index: int) -> list[Line]:
        """The lines from ``index`` on that are here already."""
        with self._more:
            return self._lines[index:]

    def find(self, mark: re.Pattern[bytes], since: int) -> Line | None:
        """The first line from ``since`` on that ``mark`` describes, if it is here already."""
        return next((line for line in self.since(since) if line.says(mark)), None)

    def wait_for(
        self,
        mark: re.Pattern[bytes],
        *,
        since: int,
        seconds: float,
        give_up: Callable[[], bool] = lambda: False,
    ) -> Line | None:
        """The first line from ``since`` on that ``mark`` describes, waiting for it up to ``seconds``.

        ``give_up`` is asked now and then; when it says yes (the process has ended), what is here decides.
        """
        deadline = time.monotonic() + seconds
        while True:
            ended = give_up()
            with self._more:
                found = next((line for line in self._lines[since:] if line.says(mark)), None)
                left = deadline - time.monotonic()
                if found is not None or ended or left <= 0:
                    return found
                since = len(self._lines)
                self._more.wait(min(left, 0.1))
