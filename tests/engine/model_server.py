"""A llama-server in a hundred lines: its queue, its sleep and its race, printing what the real one prints.

Requests come at given moments. The model follows tools/server/server-queue.cpp and server-context.cpp: a handler
checks that the server is awake, tokenizes, and posts; the loop falls asleep when it has been idle, holds the queue's
lock while it unloads and while it reloads, and when asleep looks at no post. So a request that is being tokenized when
the server falls asleep hangs, here as there, and the model knows which did.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

import msgspec

IDLE, UNLOAD, RELOAD = 1.0, 0.15, 0.4
_TICK = 0.0001


class Request(msgspec.Struct, kw_only=True):
    """What a client sends, and what becomes of it."""

    at: float
    tokenize: float = 0.05
    work: float = 0.05
    patience: float = 1_000.0
    refused: bool = False
    chat: bool = False
    task: int | None = None
    gone: bool = False
    done: bool = False
    slept: float | None = None
    """It was posted into the sleep that began at this moment."""
    woken: float | None = None
    awake: float | None = None
    cancelled: float | None = None

    @property
    def hung(self) -> bool:
        """It lay in a sleeping queue."""
        return self.slept is not None

    @property
    def given_up_asleep(self) -> bool:
        """Its client gave up before anything woke the server."""
        return self.cancelled is not None and (self.woken is None or self.cancelled < self.woken)

    @property
    def waited_long(self) -> bool:
        """It lay there for longer than the grace, as far as the log goes."""
        return self.slept is not None and (self.woken is None or self.woken - self.slept >= 2.0)

    @property
    def is_incident(self) -> bool:
        """By docs/verdicts.md."""
        return self.hung and (self.given_up_asleep or self.waited_long)

    @property
    def shown_by_its_cancel(self) -> bool:
        """Its client gave up before the reload ended: even the default verbosity shows that."""
        return self.is_incident and self.cancelled is not None and (self.awake is None or self.cancelled < self.awake)


class ModelServer:
    """Runs requests through, and keeps the script of what it printed."""

    def __init__(self, requests: list[Request], *, verbosity: int) -> None:
        self.requests = requests
        self._lines: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._phase = "awake"
        self._slept = self._locked_until = 0.0
        self._queue: list[Request] = []
        self._running: Request | None = None
        self._at_the_barrier: list[Request] = []
        self._active = 0.31
        self._ids = 0
        self._verbosity = verbosity
        self._print(0.0, f"start lv={verbosity}")
        self._later(self._active + IDLE, self._idle)
        for request in requests:
            self._later(request.at, lambda now, one=request: self._arrives(one, now))  # type: ignore[misc]
            self._later(request.at + request.patience, lambda now, one=request: self._gives_up(one, now))  # type: ignore[misc]

    def script(self, until: float) -> str:
        """What it has printed by then."""
        while self._events and self._events[0][0] <= until:
            now, _, happens = heapq.heappop(self._events)
            happens(now)
        return "".join(f"{at:.6f} {line}\n" for at, _, line in sorted(self._lines))

    def _later(self, at: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._order), happens))

    def _print(self, at: float, line: str, *, from_verbosity: int = 3) -> None:
        if self._verbosity >= from_verbosity:
            self._lines.append((at, len(self._lines), line))

    # -- a request ----------------------------------------------------------------------------------------------------

    def _arrives(self, request: Request, now: float) -> None:
        if self._phase == "awake":
            self._passes(request, now)
            return
        self._at_the_barrier.append(request)
        if self._phase == "asleep":
            self._later(max(now, self._locked_until + _TICK), self._wakes)

    def _passes(self, request: Request, now: float) -> None:
        self._print(now, "arrive", from_verbosity=4)
        if not request.refused:
            self._later(now + request.tokenize, lambda at: self._posts(request, at))

    def _posts(self, request: Request, now: float) -> None:
        if now <= self._locked_until:  # it needs the queue's lock
            self._later(self._locked_until + _TICK, lambda at: self._posts(request, at))
            return
        if request.chat:
            self._print(now, "format", from_verbosity=4)
        request.task, self._ids = self._ids, self._ids + 1
        self._print(now + _TICK / 4, f"post {request.task}", from_verbosity=5)
        self._queue.append(request)
        self._active = now
        if self._phase == "asleep":
            request.slept = self._slept
        else:
            self._launches(now + _TICK / 2)
        if request.gone:
            self._later(now + 0.5, lambda at: self._cancels(request, at))

    def _launches(self, now: float) -> None:
        if self._running is None and self._queue:
            request = self._running = self._queue.pop(0)
            self._print(now, f"launch {request.task}")
            self._later(now + request.work, lambda at: self._finishes(request, at))

    def _finishes(self, request: Request, now: float) -> None:
        if self._running is not request:
            return
        self._print(now, f"release {request.task}")
        self._running, request.done, self._active = None, True, now
        self._launches(now + _TICK)
        self._later(now + IDLE + _TICK, self._idle)

    def _gives_up(self, request: Request, now: float) -> None:
        request.gone = True
        if request.task is not None:
            self._cancels(request, now)

    def _cancels(self, request: Request, now: float) -> None:
        if request.done or request.cancelled is not None:
            return
        request.cancelled = now
        self._print(now, f"cancel {request.task}")
        self._print(now + _TICK / 4, f"post-cancel {self._ids}", from_verbosity=5)
        self._ids += 1
        if self._running is request:
            self._finishes(request, now + _TICK)
        elif request in self._queue and self._phase != "reloading":
            self._queue.remove(request)
        if self._phase == "awake":
            self._active = now
            self._later(now + IDLE + _TICK, self._idle)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _idle(self, now: float) -> None:
        if self._phase != "awake" or self._running is not None or self._queue or now < self._active + IDLE:
            return
        self._print(now, "sleep")
        self._phase, self._slept, self._locked_until = "asleep", now, now + UNLOAD

    def _wakes(self, now: float) -> None:
        if self._phase != "asleep":
            return
        self._print(now, "wake")
        self._phase, self._locked_until = "reloading", now + RELOAD
        for request in self.requests:
            if request.hung and request.woken is None:
                request.woken = now
        self._later(now + RELOAD, self._is_awake)

    def _is_awake(self, now: float) -> None:
        self._print(now, "ready")
        self._phase, self._active = "awake", now
        for request in self.requests:
            if request.hung and request.awake is None:
                request.awake = now
        self._launches(now + _TICK)
        waiting, self._at_the_barrier = self._at_the_barrier, []
        for number, request in enumerate(waiting, 2):
            self._passes(request, now + number * _TICK)
        self._later(now + IDLE + _TICK, self._idle)
