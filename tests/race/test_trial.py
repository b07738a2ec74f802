"""Placing and judging, against a made server that sleeps 0.4 s after its last task and fails on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sleepwatch.errors import SleepwatchError
from sleepwatch.race.log import Log
from sleepwatch.race.server import LifeRecord
from sleepwatch.race.trial import Placer, Trial

pytestmark = pytest.mark.live

SLEEP_SECONDS = 0.4
"""Long enough that a busy machine is not late by as much as the half of it."""
BEFORE_US = -200_000
TIMEOUT_SECONDS = 1.0
SHORT = "hi"
LONG = "a long prompt"
GARBAGE = "vector::_M_range_check: __n (which is 1074232696) >= this->size() (which is 2000)"
"""What a real server answered to a request whose prompt was tokenized while the sleep freed the vocabulary."""


class MadeServer:
    """What :class:`Placer` knows of a server. ``fault`` says what becomes of a long request sent before the sleep."""

    def __init__(self, fault: str) -> None:
        self.log = Log()
        self.log.begin_life()
        self.fault = fault
        self.sleeping = False
        self.tokenizes = True
        self.lives: list[LifeRecord] = []
        self.keep_problem = None
        self.reports_deaths = False
        self.revived = 0
        self.requests: list[str] = []
        self._dead: int | None = None
        self._began = time.monotonic()
        self._timer: threading.Timer | None = None
        self._wake = threading.Event()
        made = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = None if made.fault == "slow" else made.sleeping
                self._answer(200, json.dumps({"is_sleeping": said}).encode())

            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/tokenize":
                    self._answer(200 if made.tokenizes else 404, json.dumps({"tokens": [1] * 1000}).encode())
                    return
                prompt = said["prompt"]
                made.requests.append(prompt)
                status = made.serve(prompt)
                if status:
                    error = {"error": {"code": 400, "message": GARBAGE, "type": "invalid_request_error"}}
                    self._answer(status, json.dumps(error if made.fault == "garbage" else {}).encode())
                self.close_connection = True

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._http.server_address[1]
        self._http_thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._http_thread.start()

    def __enter__(self) -> MadeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._wake.set()
        if self._timer is not None:
            self._timer.cancel()
        self._http.shutdown()
        self._http.server_close()
        self._http_thread.join()

    def ended(self, seconds: float) -> int | None:
        return self._dead

    def revive(self) -> None:
        self.revived += 1
        self._dead = None
        self.sleeping = False
        self.log.begin_life()
        self._began = time.monotonic()

    def serve(self, prompt: str) -> int:
        """The status of the answer; 0 closes the connection without one."""
        if prompt != SHORT and not self.sleeping and self.fault:
            return self._fail()
        if self.sleeping:
            self._say("I que    start_loop: exiting sleeping state")
            self.sleeping = False
            self._wake.set()
        return self._task(200 if prompt == SHORT else 400)

    def _task(self, status: int) -> int:
        self._say("I slot      release: id  0 | task 1 | stop processing: n_tokens = 1, truncated = 0")
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(SLEEP_SECONDS, self._sleep)
        self._timer.start()
        return status

    def _sleep(self) -> None:
        self.sleeping = True
        self._wake.clear()
        self._say("I que    start_loop: entering sleeping state")

    def _fail(self) -> int:
        match self.fault:
            case "hang":
                time.sleep(1.5 * SLEEP_SECONDS)  # until it sleeps
                if not self._wake.wait(2 * TIMEOUT_SECONDS):
                    self._say("W srv          stop: cancel task, id_task = 7")
                    return 0
                return self._task(400)
            case "crash":
                time.sleep(1.5 * SLEEP_SECONDS)
                self._dead = -11
                return 0
            case "busy":
                return 503
            case "garbage":
                return 400
            case "close":
                return 0
            case "slow":
                time.sleep(1.5 * TIMEOUT_SECONDS)
                return self._task(200)
            case _:
                raise AssertionError(self.fault)

    def _say(self, text: str) -> None:
        clock_us = round((time.monotonic() - self._began) * 1e6)
        stamp = f"0.{clock_us // 1_000_000:02d}.{clock_us // 1000 % 1000:03d}.{clock_us % 1000:03d}"
        self.log.feed(f"{stamp} {text}".encode(), time.monotonic_ns())


@pytest.fixture
def fault() -> str:
    return ""


@pytest.fixture
def server(fault: str) -> Iterator[MadeServer]:
    made = MadeServer(fault)
    yield made
    made.stop()


def placer(server: MadeServer, **options: bool) -> Placer:
    made = Placer(server, LONG, timeout_seconds=TIMEOUT_SECONDS, patience_seconds=5.0, **options)  # type: ignore[arg-type]
    assert made.measure_sleep(10) == pytest.approx(SLEEP_SECONDS * 1e6, abs=150_000)
    return made


def place(server: MadeServer, aim_us: int, **options: bool) -> Trial:
    return placer(server, **options).place(0, aim_us)


def test_served_before_the_sleep(server: MadeServer) -> None:
    trial = place(server, BEFORE_US)
    assert (trial.outcome, trial.status, trial.slept, trial.measured) == ("answered", 400, False, False)
    assert trial.offset_us == pytest.approx(BEFORE_US, abs=150_000)
    assert trial.after_task_us == pytest.approx(-BEFORE_US, abs=150_000)
    assert not trial.lost


def test_woken(server: MadeServer) -> None:
    trial = place(server, 200_000)
    assert (trial.outcome, trial.status, trial.slept, trial.measured) == ("answered", 400, True, True)
    assert trial.slept_clock_us is not None
    assert trial.offset_us > 0


@pytest.mark.parametrize("fault", ["hang"])
def test_hung(server: MadeServer) -> None:
    trial = place(server, BEFORE_US)
    assert (trial.outcome, trial.status, trial.is_sleeping, trial.measured) == ("hung", None, True, True)
    assert trial.latency_us >= TIMEOUT_SECONDS * 1e6
    assert trial.lost
    assert server.log.since(0)[-1].body.endswith(b"cancel task, id_task = 7"), "it has waited until the server noticed"


@pytest.mark.parametrize("fault", ["hang"])
def test_hung_then_answered(server: MadeServer) -> None:
    trial = place(server, BEFORE_US, patient=True)
    assert (trial.outcome, trial.status, trial.is_sleeping) == ("hung-then-answered", 400, True)
    assert trial.lost


@pytest.mark.parametrize("fault", ["crash"])
def test_crashed_and_brought_back_for_the_next(server: MadeServer) -> None:
    made = placer(server)
    trial = made.place(0, BEFORE_US)
    assert (trial.outcome, trial.signal, trial.error, trial.life) == ("crashed", 11, "RemoteDisconnected", 0)
    server.fault = ""
    again = made.place(1, BEFORE_US)
    assert (again.outcome, again.life, server.revived) == ("answered", 1, 1)


@pytest.mark.parametrize("fault", ["busy", "close"])
def test_refused_by_a_server_that_lives(server: MadeServer, fault: str) -> None:
    trial = place(server, BEFORE_US)
    assert trial.outcome == "refused"
    assert (trial.status, trial.error) == ((503, None) if fault == "busy" else (None, "RemoteDisconnected"))
    assert trial.lost


@pytest.mark.parametrize("fault", ["garbage"])
def test_refused_because_the_vocabulary_was_gone(server: MadeServer) -> None:
    trial = place(server, BEFORE_US)
    assert (trial.outcome, trial.status, trial.error) == ("refused", 400, GARBAGE)
    assert trial.lost


@pytest.mark.parametrize("fault", ["slow"])
def test_slow_is_no_answer_in_time_from_a_server_that_does_not_sleep(server: MadeServer) -> None:
    trial = place(server, BEFORE_US)
    assert (trial.outcome, trial.status, trial.is_sleeping) == ("slow", 200, None)
    assert not trial.lost


def test_warm_sends_a_short_one_in_front(server: MadeServer) -> None:
    made = placer(server, warm=True)
    before = len(server.requests)
    trial = made.place(0, BEFORE_US)
    assert server.requests[before:] == ["hi", "hi", LONG]  # the task before, the one in front, the request
    assert (trial.outcome, trial.slept) == ("answered", False)


def test_a_server_that_answers_nothing_ends_the_measurement(server: MadeServer) -> None:
    made = placer(server)
    server.serve = lambda prompt: 0  # type: ignore[method-assign]
    with pytest.raises(SleepwatchError, match="no answer three times in a row"):
        made.place(0, BEFORE_US)


def test_a_server_that_refuses_completions_ends_the_measurement(server: MadeServer) -> None:
    made = placer(server)
    server.serve = lambda prompt: 501  # type: ignore[method-assign]
    with pytest.raises(SleepwatchError, match="got status 501, and the log shows no slot for it"):
        made.place(0, BEFORE_US)
