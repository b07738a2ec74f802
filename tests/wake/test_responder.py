"""The daemon's answer to a hung request, on FakeLlama: what comes of it, and that its bounds hold.

The clock of the daemon and of FakeLlama's log is moved by hand; only what goes over sockets takes real time.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from sleepwatch.config import FileSource, Settings
from sleepwatch.daemon.service import Service
from sleepwatch.engine import Now
from sleepwatch.model import Incident
from sleepwatch.replay import Replay
from sleepwatch.scan import Scan
from sleepwatch.store import open_store
from sleepwatch.store.actions import Action, actions, begin_action
from sleepwatch.store.store import Transition
from sleepwatch.store.witness import observations
from sleepwatch.wake.attempt import WOKE, Attempt
from sleepwatch.wake.policy import FAILURES
from sleepwatch.wake.responder import outcome_of
from sleepwatch.wake.settings import Wake, WakeServer
from tests.daemon.driving import SECOND, FakeClock, share_rules
from tests.reader.reading import rules
from tests.support.fake_llama import STUCK, FakeLlama

REAL_SECONDS = 60
STEP_US, LONG_STEP_US = 50_000, 1_000_000


@pytest.fixture(autouse=True)
def _shared_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    share_rules(monkeypatch)


class Watched:
    """A daemon that watches the log of one FakeLlama."""

    def __init__(self, directory: Path, server: FakeLlama, settings: Wake, clock: FakeClock) -> None:
        self.server = server
        self.database = directory / "a.db"
        self.clock = clock
        self.said: list[str] = []
        self.complained: list[str] = []
        self.steps = 0
        self.slowest = 0.0
        if not settings.server:
            settings = msgspec.structs.replace(settings, server=(WakeServer(name="*", url=server.url),))
        self._settings = Settings(file=(FileSource(path=str(directory / "llama.log")),), wake=settings)
        self.service = self._start()

    def _start(self) -> Service:
        service = Service(
            self._settings, self.database, self.clock, say=self.said.append, complain=self.complained.append
        )
        service.start()
        return service

    def restart(self) -> None:
        self.service.stop()
        self.service = self._start()

    def until(self, holds: Callable[[], object], *, within_s: float = 3_000) -> None:
        """Look again and again until it holds."""
        end, last_us = time.monotonic() + REAL_SECONDS, self.clock.monotonic_us + round(within_s * SECOND)
        while not holds():
            assert time.monotonic() < end and self.clock.monotonic_us < last_us, (self.actions(), self.incidents())
            for _ in range(3):
                self.look()

    def run_for(self, seconds: float) -> None:
        last_us = self.clock.monotonic_us + round(seconds * SECOND)
        while self.clock.monotonic_us < last_us:
            self.look(LONG_STEP_US)

    def look(self, step_us: int = STEP_US) -> None:
        begun = time.monotonic()
        self.service.step()
        self.slowest = max(self.slowest, time.monotonic() - begun)
        self.steps += 1
        self.clock.advance(step_us)
        time.sleep(0.0005)  # the threads that wake have their turn

    def actions(self) -> list[Action]:
        with open_store(self.database, read_only=True) as store:
            return actions(store)

    def outcomes(self) -> list[str]:
        return [one.outcome for one in self.actions() if one.outcome is not None]

    def incidents(self) -> list[Incident]:
        with open_store(self.database, read_only=True) as store:
            return store.incidents(kinds=("hung-request",))

    def history(self) -> list[Transition]:
        (incident,) = self.incidents()
        with open_store(self.database, read_only=True) as store:
            return store.timeline(incident.id)


@contextmanager
def watched(directory: Path, settings: Wake | None = None, **manner: object) -> Iterator[Watched]:
    clock = FakeClock()
    with (
        (directory / "llama.log").open("wb") as log,
        FakeLlama(log=log, now=lambda: clock.monotonic_us / 1e6, **manner) as server,  # type: ignore[arg-type]
    ):
        daemon = Watched(directory, server, settings or Wake(mode="act"), clock)
        try:
            yield daemon
        finally:
            daemon.service.stop()


class Client(threading.Thread):
    """Sends the request that gets stuck, and waits for its answer."""

    def __init__(self, server: FakeLlama) -> None:
        super().__init__(daemon=True)
        body = json.dumps({"prompt": STUCK}).encode()
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.sendall(b"POST /completion HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.answer = b""
        self.start()

    def run(self) -> None:
        with self.socket:
            self.answer = self.socket.recv(12)


def test_a_hung_request_is_answered(tmp_path: Path) -> None:
    with watched(tmp_path) as daemon:
        client = Client(daemon.server)
        daemon.until(daemon.outcomes)
        client.join(REAL_SECONDS)
        (action,), (incident,) = daemon.actions(), daemon.incidents()
    assert client.answer == b"HTTP/1.1 200"
    assert daemon.server.posts == ["/completion"]
    assert (action.outcome, action.status, action.request, action.url) == (
        "released", 200, "completion", daemon.server.url,
    )  # fmt: skip
    assert (incident.state, incident.confidence) == ("unstuck", "confirmed")
    assert action.incident == incident.id
    assert action.sent_us is not None and action.answered_us is not None and action.ended_us is not None
    assert action.begun_us <= action.sent_us <= action.answered_us <= action.ended_us
    assert action.waited_us == incident.duration_us
    assert "a wake completion freed it after " in incident.summary
    assert "our wake was sent while it slept" in incident.reason
    assert [one.to_state for one in daemon.history()] == ["open", "unstuck", "unstuck"]
    assert daemon.history()[-1].reason.startswith("wake, released: the request was taken up after ")
    assert any(line.startswith("wake: released llama: ") for line in daemon.said)


def test_the_same_log_read_again_with_what_was_observed_tells_the_same(tmp_path: Path) -> None:
    with watched(tmp_path) as daemon:
        Client(daemon.server)
        daemon.until(daemon.outcomes)
        daemon.until(lambda: daemon.incidents()[0].state == "unstuck")
        daemon.run_for(10)
        (live,) = daemon.incidents()
    with open_store(daemon.database, read_only=True) as store:
        work = Scan(rules=rules(), watch=Replay(observations(store)))
    work.read_paths([str(tmp_path / "llama.log")])
    (again,) = work.result().incidents
    assert (again.id, again.state, again.summary, again.reason) == (live.id, "unstuck", live.summary, live.reason)


def test_nothing_is_sent_unless_it_is_told_to(tmp_path: Path) -> None:
    with watched(tmp_path, Wake()) as daemon:
        Client(daemon.server)
        daemon.until(daemon.incidents)
        daemon.run_for(20)
    assert (daemon.server.posts, daemon.server.props_asked, daemon.outcomes()) == ([], 0, [])


def test_observing_sends_nothing_and_says_what_it_would(tmp_path: Path) -> None:
    with watched(tmp_path, Wake(mode="observe")) as daemon:
        Client(daemon.server)
        daemon.until(daemon.outcomes)
        daemon.run_for(60)
        history = daemon.history()
    assert (daemon.server.posts, daemon.outcomes()) == ([], ["would-wake"])
    assert history[-1].reason == f"a wake would be sent: {daemon.server.url} sleeps, and a request waits"


def test_two_requests_in_one_sleep_are_freed_by_one_wake(tmp_path: Path) -> None:
    with watched(tmp_path) as daemon:
        clients = [Client(daemon.server), Client(daemon.server)]
        daemon.until(daemon.outcomes)
        daemon.until(lambda: [one.state for one in daemon.incidents()] == ["unstuck"] * 2)
        for client in clients:
            client.join(REAL_SECONDS)
    assert [client.answer for client in clients] == [b"HTTP/1.1 200"] * 2
    assert (daemon.server.posts, daemon.outcomes()) == (["/completion"], ["released"])


def test_it_wakes_and_releases_nothing(tmp_path: Path) -> None:
    with watched(tmp_path, manner="keeps") as daemon:
        Client(daemon.server)
        daemon.until(daemon.outcomes)
        daemon.until(lambda: "did not free it" in daemon.incidents()[0].summary)
        daemon.run_for(60)
        (incident,) = daemon.incidents()
    assert (daemon.server.posts, daemon.outcomes()) == (["/completion"], ["woke-not-released"])
    assert incident.state == "open"


def test_it_hangs_and_the_breaker_opens(tmp_path: Path) -> None:
    settings = Wake(mode="act", timeout_seconds=1, per_incident=10)
    with watched(tmp_path, settings, manner="hangs") as daemon:
        Client(daemon.server)
        daemon.until(lambda: len(daemon.outcomes()) == 2)
        daemon.run_for(600)
        history, (incident,) = daemon.history(), daemon.incidents()
    assert daemon.outcomes() == ["timeout", "timeout"]
    assert daemon.server.posts == ["/completion"] * 2
    assert incident.state == "open"
    assert "waking the server did not free it (no answer within 1 s)" in incident.summary
    assert history[-1].reason == "no wake: 2 wakes of this server in a row freed nothing; it is left alone for now"
    assert sum("is left alone" in line for line in daemon.complained) == 1


def test_the_loop_does_not_wait_for_a_wake(tmp_path: Path) -> None:
    with watched(tmp_path, Wake(mode="act", timeout_seconds=2), manner="hangs") as daemon:
        Client(daemon.server)
        daemon.until(daemon.server.waking.is_set)
        steps, daemon.slowest = daemon.steps, 0.0
        daemon.until(daemon.outcomes)
    assert daemon.steps - steps > 20
    assert daemon.slowest < 1.5  # a wake took two seconds


def test_it_dies_of_the_wake(tmp_path: Path) -> None:
    with watched(tmp_path, manner="dies") as daemon:
        Client(daemon.server)
        daemon.until(daemon.outcomes)
        daemon.run_for(100)
    assert (daemon.server.posts, daemon.outcomes()) == (["/completion"], ["crashed-on-wake"])


def test_a_wrong_key_is_refused_and_not_tried_for_ever(tmp_path: Path) -> None:
    with watched(tmp_path, key="right") as daemon:
        incident = _stuck_line(daemon)
        daemon.run_for(600)
        assert daemon.history()[-1].reason == "no wake: tried 3 times for it, which is all it gets"
    assert (daemon.server.posts, daemon.outcomes()) == ([], ["refused"] * 3)
    assert "Invalid API Key" in str(daemon.actions()[0].words)
    assert incident


def test_the_key_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("right\n")
    settings = Wake(mode="act", api_key_file=str(tmp_path / "key"))
    with watched(tmp_path, settings, key="right") as daemon:
        _stuck_line(daemon)
        daemon.until(daemon.outcomes)
    assert daemon.server.posts == ["/completion"]


def test_a_server_of_another_kind_is_woken_by_its_refusal(tmp_path: Path) -> None:
    with watched(tmp_path, kinds=("embedding",)) as daemon:
        client = Client(daemon.server)
        daemon.until(daemon.outcomes)
        client.join(REAL_SECONDS)
    assert (client.answer, daemon.outcomes()) == (b"HTTP/1.1 200", ["released"])
    assert daemon.actions()[0].status == 501


def test_it_is_slow(tmp_path: Path) -> None:
    with watched(tmp_path, reload_seconds=1.0) as daemon:
        client = Client(daemon.server)
        daemon.until(daemon.outcomes)
        client.join(REAL_SECONDS)
    assert (client.answer, daemon.outcomes()) == (b"HTTP/1.1 200", ["released"])


def test_it_is_awake_although_its_log_says_otherwise(tmp_path: Path) -> None:
    with watched(tmp_path) as daemon:
        daemon.server.asleep = False
        _stuck_line(daemon)
        daemon.until(daemon.outcomes)
    assert (daemon.server.posts, daemon.outcomes()) == ([], ["already-awake"])


def test_a_request_whose_client_gave_up_is_not_woken_for(tmp_path: Path) -> None:
    with watched(tmp_path) as daemon:
        daemon.server._say("D que          post: new task, id = 7/1, front = 0")
        daemon.run_for(1)
        daemon.server._say("W srv          stop: cancel task, id_task = 7")
        daemon.until(daemon.incidents)
        daemon.run_for(60)
        (incident,) = daemon.incidents()
    assert incident.state == "abandoned"
    assert (daemon.server.posts, daemon.server.props_asked, daemon.outcomes()) == ([], 0, [])


def test_no_server_is_there_any_more(tmp_path: Path) -> None:
    """As in an old log whose server is long gone: it is looked for, and nothing is sent anywhere."""
    with watched(tmp_path) as daemon:
        daemon.server._say("D que          post: new task, id = 7/1, front = 0")
        daemon.server.die()
        daemon.until(daemon.outcomes)
    assert daemon.outcomes() == ["unreachable"]


def test_only_a_configured_server_is_reached_where_no_process_fits(tmp_path: Path) -> None:
    with watched(tmp_path, Wake(mode="act", server=(WakeServer(name="*"),))) as daemon:
        _stuck_line(daemon)
        daemon.until(daemon.outcomes)
    assert (daemon.server.posts, daemon.server.props_asked) == ([], 0)
    assert "no llama-server is seen to run here" in str(daemon.actions()[0].words)


def test_what_was_under_way_at_a_kill_counts_against_the_budget(tmp_path: Path) -> None:
    with watched(tmp_path, Wake(mode="act", per_incident=1)) as daemon:
        daemon.service.settings = msgspec.structs.replace(daemon.service.settings, wake=Wake())
        daemon.service._responder = None
        incident = _stuck_line(daemon)
        with open_store(daemon.database) as store, store.transaction() as transaction:
            begin_action(
                transaction,
                Action(incident=incident.id, server="llama", mode="act", begun_us=daemon.clock.wall_us),
            )
        daemon.restart()
        daemon.run_for(100)
        (action,) = daemon.actions()
    assert (action.outcome, daemon.server.posts) == ("unknown", [])


def test_the_budget_of_a_server_holds_over_many_hangs(tmp_path: Path) -> None:
    with watched(tmp_path, Wake(mode="act", per_hour=2)) as daemon:
        for wakes in (1, 2):
            client = Client(daemon.server)
            daemon.until(lambda wakes=wakes: daemon.outcomes() == ["released"] * wakes)  # type: ignore[misc]
            client.join(REAL_SECONDS)
            daemon.server.fall_asleep()
        Client(daemon.server)
        daemon.until(lambda: len(daemon.incidents()) == 3)
        daemon.run_for(600)
        assert daemon.server.posts == ["/completion"] * 2
        assert any("woken 2 times within the hour" in line for line in daemon.complained)


def _stuck_line(daemon: Watched) -> Incident:
    """A request that hangs by the log alone; its incident."""
    daemon.server._say("D que          post: new task, id = 7/1, front = 0")
    daemon.until(daemon.incidents)
    return daemon.incidents()[0]


def test_what_is_taken_back_was_no_stuck_request_and_speaks_against_nothing() -> None:
    sent = Attempt(outcome=WOKE, words="answered", kind="completion", status=200, sent=Now(0, 0), took_us=1)
    outcome, words = outcome_of(sent, None)
    assert outcome not in FAILURES
    assert "no stuck request" in words
