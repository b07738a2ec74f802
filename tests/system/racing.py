"""A client that places requests near a server's sleep, and knows what became of each."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import msgspec

from sleepwatch.race import client
from sleepwatch.race.prompt import of_tokens
from sleepwatch.race.trial import SHORT
from tests.system.machine import wait_for

PATIENCE_S = 3.0
"""The client gives up after this time."""
READY_S = 30.0
SLEEP_AFTER_S = 1.0
"""An idle server falls asleep this long after its last task."""


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as one:
        one.bind((client.HOST, 0))
        port: int = one.getsockname()[1]
        return port


class Sent(msgspec.Struct, frozen=True):
    """One placed request."""

    server: str
    sent_us: int
    """Wall time."""
    outcome: str
    """``answered``, ``hung``, ``crashed`` or ``slow``."""


class Racer(threading.Thread):
    """Places one request after the other until it is told to stop."""

    def __init__(self, server: str, port: int, prompt_tokens: int) -> None:
        super().__init__(name=server, daemon=True)
        self.server = server
        self.sent: list[Sent] = []
        self.enough = threading.Event()
        self._port = port
        self._prompt_tokens = prompt_tokens
        self._body = b""

    def count(self, outcome: str) -> int:
        """How many had this outcome."""
        return sum(one.outcome == outcome for one in self.sent)

    def run(self) -> None:
        wait_for(lambda: client.healthy(self._port), READY_S)
        prompt, _ = of_tokens(self._prompt_tokens, lambda text: client.count_tokens(self._port, text))
        self._body = msgspec.json.encode({"prompt": prompt, "n_predict": 1})
        offsets = self._offsets()
        while not self.enough.is_set():
            if wait_for(lambda: client.healthy(self._port), READY_S):
                self._place(next(offsets))

    @staticmethod
    def _offsets() -> Iterator[float]:
        """When to send before the sleep; the tokenizing of the long prompt takes some tens of milliseconds."""
        while True:
            yield from (0.05, 0.09, 0.03, 0.07, 0.02, 0.11, 0.04, 0.06, 0.14, 0.01)

    def _place(self, before_s: float) -> None:
        first = client.post(self._port, "/completion", SHORT, READY_S)
        if first is None or first.status != 200:
            return
        moment = time.monotonic() + SLEEP_AFTER_S - before_s
        with client.Request(self._port, "/completion", self._body) as request:
            time.sleep(max(0.0, moment - time.monotonic()))
            sent_us = time.time_ns() // 1000
            request.send()
            reply = request.wait(PATIENCE_S)
            if reply is None:
                outcome = "hung" if client.is_sleeping(self._port) else "slow"
            else:
                outcome = "answered" if reply.status is not None else "crashed"
        self.sent.append(Sent(self.server, sent_us, outcome))
