"""Ordinary traffic on a real server that sleeps, with a daemon beside it: nothing may be found above ``possible``.

Keep-alive pools that stand idle over sleeps, uploads that pause for less than the grace (also over a sleep's
beginning), streams, a poller of /health and /props, two clients that wake the server together, clients that wake it and
give up. No request is sent within the moments before a sleep, where it could really be lost.
``python tests/accuracy/traffic.py --seconds 180``; it ends with status 1 if anything was found.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sleepwatch.model import Incident  # noqa: E402
from sleepwatch.race.client import HOST, Request, is_sleeping, post  # noqa: E402
from sleepwatch.race.server import Server  # noqa: E402
from sleepwatch.store import open_store  # noqa: E402
from sleepwatch.store.witness import observations  # noqa: E402
from tests.accuracy.followed import daemon, wait_for  # noqa: E402
from tests.support import engine  # noqa: E402

SECONDS = 30.0
BODY: dict[str, Any] = {"prompt": "Say OK", "n_predict": 4}
PAUSE_SECONDS = 1.2
"""How long an upload pauses: less than the grace, also counted from the sleep's beginning."""
AWAKE_PAUSE_SECONDS = 0.3
"""… and one that ends long before the server falls asleep."""


class Traffic:
    """Clients of one server."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server = server
        self.port = server.port
        self.pool = [http.client.HTTPConnection(HOST, self.port, timeout=SECONDS) for _ in range(4)]
        for one in self.pool:
            stack.callback(one.close)
        self.answers: Counter[str] = Counter()
        self._over = threading.Event()
        poller = threading.Thread(target=self._poll)
        poller.start()
        stack.callback(poller.join, 30)
        stack.callback(self._over.set)

    def _poll(self) -> None:
        """A monitor on a connection of its own."""
        for path in itertools.cycle(("/health", "/props", "/health")):
            if self._over.wait(0.15):
                return
            connection = http.client.HTTPConnection(HOST, self.port, timeout=SECONDS)
            connection.request("GET", path)
            self.answers[f"GET {path} {connection.getresponse().status}"] += 1
            connection.close()

    def pooled(self) -> None:
        """One completion on each connection of the pool, which then stand open."""
        for one in self.pool:
            try:
                status = self._complete(one)
            except (ConnectionError, http.client.RemoteDisconnected):  # it had stood idle for too long
                one.close()
                status = self._complete(one)
            self.answers[f"pooled {status}"] += 1

    @staticmethod
    def _complete(connection: http.client.HTTPConnection) -> int:
        connection.request("POST", "/completion", json.dumps(BODY), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def stream(self) -> None:
        """One that is answered piece by piece."""
        reply = post(self.port, "/completion", {**BODY, "n_predict": 40, "stream": True}, SECONDS)
        self.answers[f"stream {reply.status if reply else 'none'}"] += 1

    def upload(self, pause: float) -> Callable[[], None]:
        """Half a request; what sends the other half, after a pause, and takes the answer."""
        body = json.dumps(BODY).encode()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=SECONDS)
        connection.putrequest("POST", "/completion")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:10])

        def rest() -> None:
            time.sleep(pause)
            connection.send(body[10:])
            answer = connection.getresponse()
            answer.read()
            connection.close()
            self.answers[f"paused upload {answer.status}"] += 1

        return rest

    def together(self) -> None:
        """Two clients wake the server at the same moment."""
        replies: list[Any] = []
        threads = [
            threading.Thread(target=lambda: replies.append(post(self.port, "/completion", BODY, SECONDS)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.answers.update(f"woken together {reply.status if reply else 'none'}" for reply in replies)

    def impatient(self) -> None:
        """A client that wakes the server and gives up at once."""
        with Request(self.port, "/completion", json.dumps(BODY).encode()) as request:
            request.send()
            time.sleep(0.03)
        self.answers["gave up"] += 1
        reply = post(self.port, "/completion", BODY, SECONDS)
        self.answers[f"behind it {reply.status if reply else 'none'}"] += 1

    def asleep(self) -> None:
        """Wait until it sleeps, by its own word."""
        if not wait_for(lambda: is_sleeping(self.port) is True):
            raise RuntimeError("the server does not fall asleep")

    def cycle(self, number: int) -> None:
        """Some awake traffic, a sleep, and one way to wake."""
        self.pooled()
        self.stream()
        if number % 3 == 0:
            self.upload(AWAKE_PAUSE_SECONDS)()
        rest = self.upload(PAUSE_SECONDS) if number % 2 == 0 else None
        self.asleep()
        if rest is not None:
            rest()
        elif number % 4 == 1:
            time.sleep(2.4)
            self.together()
        else:
            self.impatient()


class Found(NamedTuple):
    """What came of it."""

    sleeps: int
    seen_pending: int
    """Looks that showed a connection which waited."""
    answers: Counter[str]
    sure: list[Incident]
    possible: int
    complaints: str


def run(seconds: float, place: Path) -> Found:
    """Traffic for so long."""
    place.mkdir(parents=True, exist_ok=True)
    log, database = place / "server.log", place / "live.db"
    log.touch()
    with ExitStack() as stack:
        keep = stack.enter_context(log.open("ab"))
        stack.enter_context(daemon(database, log, place / "said"))
        server = stack.enter_context(engine.start_real_server(place / "engine", engine.TINY, keep=keep))
        traffic = Traffic(server, stack)
        end = time.monotonic() + seconds
        for number in itertools.count():
            if time.monotonic() >= end:
                break
            traffic.cycle(number)
        traffic.asleep()
        wait_for(lambda: bool(looks(database)[-1:]))
        time.sleep(2.5)  # what waits now is found when the grace is over
    with open_store(database, read_only=True) as store:
        incidents = store.incidents(possible=True)
    seen = looks(database)
    return Found(
        sleeps=len({(one.life, one.sleep) for one in seen}),
        seen_pending=sum(any(c["pending"] for c in one.fields["connections"]) for one in seen),
        answers=traffic.answers,
        sure=[one for one in incidents if one.confidence != "possible"],
        possible=sum(one.confidence == "possible" for one in incidents),
        complaints=(place / "said").read_text(),
    )


def looks(database: Path) -> list[Any]:
    """The looks at connections that were kept."""
    with open_store(database, read_only=True) as store:
        return [one for one in observations(store) if one.type == "witness.snapshot"]


def main(arguments: list[str]) -> int:
    """Run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0)
    options: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sleepwatch-traffic-") as temporary:
        found = run(options.seconds, Path(temporary))
    print(
        f"{options.seconds:.0f} s of ordinary traffic, {found.sleeps} sleeps, "
        f"{found.seen_pending} looks with something pending"
    )
    print("; ".join(f"{count} {what}" for what, count in sorted(found.answers.items())))
    print(f"incidents above possible: {len(found.sure)}; possible: {found.possible}")
    for one in found.sure:
        print(f"  {one.kind} ({one.confidence}) {one.summary} {one.reason}")
    return 1 if found.sure or not found.sleeps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
