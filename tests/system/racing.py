"""A client that places requests near a server's sleep, and knows what became of each."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator

import msgspec

from sleepwatch.model import Incident
from sleepwatch.race import client
from sleepwatch.race.prompt import of_tokens
from sleepwatch.race.trial import SHORT
from tests.system.machine import wait_for

PATIENCE_S = 3.0
"""The client gives up after this time."""
GRACE_S = 2.0
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
    """``answered``, ``late`` (only after the grace in which a hang is none), ``hung``, ``crashed`` or ``slow``."""


KINDS = {"crashed": "sleep-crash", "hung": "hung-request"}
"""What a lost request is called, by what its client saw."""
NEAR_US = 600_000
"""A request that met the sleep was sent at most this long before or after the sleep's own line."""


def unmatched(lost: Iterable[Sent], found: Iterable[Incident]) -> tuple[list[str], list[str]]:
    """Lost requests that no incident tells of, and incidents that tell of no lost request."""
    unexplained = sorted(found, key=lambda one: one.opened_us or 0)
    missed = []
    for sent in sorted(lost, key=lambda one: one.sent_us):
        fitting = [one for one in unexplained if one.kind == KINDS[sent.outcome] and tells_of(one, sent)]
        if fitting:
            unexplained.remove(fitting[0])
        else:
            missed.append(str(sent))
    return missed, [f"{one.kind} {one.server} {one.opened_us} {one.reason}" for one in unexplained]


def tells_of(incident: Incident, sent: Sent) -> bool:
    """Whether server and time agree. Where a crash took the sleep's own line, it opened at the line before it."""
    if incident.server != sent.server or incident.opened_us is None:
        return False
    early_us = NEAR_US + (SLEEP_AFTER_S * 1e6 if "last lines lost" in incident.reason else 0)
    return -early_us <= incident.opened_us - sent.sent_us <= NEAR_US


class Racer(threading.Thread):
    """Places one request after the other until it is told to stop.

    ``body`` is that of one that raced before: measuring a prompt is a request, too, and can meet a sleep. A client
    gives up after ``patience_s``.
    """

    def __init__(
        self, server: str, port: int, prompt_tokens: int, body: bytes = b"", patience_s: float = PATIENCE_S
    ) -> None:
        super().__init__(name=server, daemon=True)
        self.server = server
        self.sent: list[Sent] = []
        self.enough = threading.Event()
        self._port = port
        self._prompt_tokens = prompt_tokens
        self.body = body
        self._patience_s = patience_s

    def count(self, outcome: str) -> int:
        """How many had this outcome."""
        return sum(one.outcome == outcome for one in self.sent)

    def run(self) -> None:
        wait_for(lambda: client.healthy(self._port), READY_S)
        if not self.body:
            client.post(self._port, "/completion", SHORT, READY_S)  # awake for what follows: a token count can crash it
            prompt, _ = of_tokens(self._prompt_tokens, lambda text: client.count_tokens(self._port, text))
            self.body = msgspec.json.encode({"prompt": prompt, "n_predict": 1})
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
        with client.Request(self._port, "/completion", self.body) as request:
            time.sleep(max(0.0, moment - time.monotonic()))
            sent_us = time.time_ns() // 1000
            request.send()
            began = time.monotonic()
            reply = request.wait(self._patience_s)
            if reply is None:
                outcome = "hung" if client.is_sleeping(self._port) else "slow"
            else:
                in_time = time.monotonic() - began < GRACE_S
                outcome = "crashed" if reply.status is None else "answered" if in_time else "late"
        self.sent.append(Sent(self.server, sent_us, outcome))
