"""The 1-token completion in front of a real request: afterwards the server is awake, with a whole idle period ahead.

Also this little request has a window, a fraction of a millisecond wide. If it meets the sleep itself, a second one
frees it; if it crashes the server, the next one goes to the server that a supervisor brings back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from sleepwatch.client.exchange import Broken, NoAnswer, NoConnection, Reply, exchange
from sleepwatch.client.props import ask
from sleepwatch.client.target import Target
from sleepwatch.clock import Clock
from sleepwatch.wake.request import is_wrong_kind, kinds_to_try, wake_request

CAUGHT_SECONDS = 2.0
"""A request that has no answer after this time, while ``/props`` says that the server sleeps, met the sleep itself."""
_AGAIN_SECONDS = 0.5


class Warmed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    warm: bool
    words: str
    kind: str | None = None
    requests: int = 0
    """How many went out."""
    took_us: int = 0


class _Call(threading.Thread):
    """One request, waited for from outside."""

    def __init__(self, target: Target, kind: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self._ask = target, kind, seconds
        self.reply: Reply | None = None
        self.failure: Exception | None = None
        self.start()

    def run(self) -> None:
        target, kind, seconds = self._ask
        path, body = wake_request(kind, target.model)
        try:
            self.reply = exchange(target, "POST", path, body, seconds=seconds)
        except Exception as error:  # handed to whoever waits
            self.failure = error

    def result(self) -> Reply:
        """The answer. Raises what the exchange raised."""
        self.join()
        if self.failure is not None:
            raise self.failure
        assert self.reply is not None
        return self.reply


class Warmer:
    """Makes one server ready for a request."""

    def __init__(self, target: Target, clock: Clock, *, seconds: float, pause: Callable[[float], None]) -> None:
        """``seconds`` is the time for all of it; ``pause`` waits."""
        self._target = target
        self._clock = clock
        self._seconds = seconds
        self._pause = pause
        self._begun_us = clock.now().monotonic_us
        self._requests = 0

    def warm(self) -> Warmed:
        """Send, wait, and look. Raises TargetError for a key or certificate without use."""
        kinds = list(kinds_to_try(self._target))
        crashed = False
        words = "the time was over before anything was sent"
        while self._left > 0:
            try:
                reply = self._served(kinds[0])
            except NoConnection as error:
                words = str(error)
                if not crashed:
                    return self._failed(words)
            except NoAnswer as error:
                return self._failed(str(error))
            except Broken as error:
                words, crashed = str(error), True
            else:
                if reply.status == 200:
                    after = ask(self._target, seconds=max(0.1, self._left))
                    if not after.asleep:
                        return Warmed(
                            warm=True,
                            words="it is awake, with a whole idle period ahead",
                            kind=kinds[0],
                            requests=self._requests,
                            took_us=self._took_us,
                        )
                    words = "it fell asleep again at once"
                    continue
                words = reply.words
                if is_wrong_kind(reply.status) and len(kinds) > 1:
                    del kinds[0]
                    continue
                if reply.status != 503:  # 503: it is loading its model
                    return self._failed(words)
            self._pause(min(_AGAIN_SECONDS, max(0.0, self._left)))
        return self._failed(f"{words}; {self._seconds:g} s are over")

    def _served(self, kind: str) -> Reply:
        """The answer to one request, freed if it met the sleep. Raises Failure."""
        first = self._call(kind)
        first.join(min(CAUGHT_SECONDS, self._left))
        while first.is_alive():
            if ask(self._target, seconds=max(0.1, self._left)).asleep and first.is_alive():
                return self._call(kind).result()  # it frees the first, and the idle period counts from the later one
            first.join(CAUGHT_SECONDS)
        return first.result()

    def _call(self, kind: str) -> _Call:
        self._requests += 1
        return _Call(self._target, kind, max(0.1, self._left))

    @property
    def _took_us(self) -> int:
        return self._clock.now().monotonic_us - self._begun_us

    @property
    def _left(self) -> float:
        return self._seconds - self._took_us / 1e6

    def _failed(self, words: str) -> Warmed:
        return Warmed(warm=False, words=words, requests=self._requests, took_us=self._took_us)
