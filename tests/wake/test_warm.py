"""What ``warm`` does when the server does not just answer, on FakeLlama."""

from __future__ import annotations

import threading
import time

import pytest

from sleepwatch.client.target import parse_target
from sleepwatch.clock import SystemClock
from sleepwatch.wake import warm
from sleepwatch.wake.warm import Warmed, Warmer
from tests.support.fake_llama import FakeLlama

SECONDS = 20.0


def warmed(server: FakeLlama, seconds: float = SECONDS) -> Warmed:
    return Warmer(parse_target(server.url), SystemClock(), seconds=seconds, pause=time.sleep).warm()


def test_awake_or_asleep_one_completion_is_sent() -> None:
    for asleep in (True, False):
        with FakeLlama(asleep=asleep) as server:
            done = warmed(server)
        assert (done.warm, done.requests, server.posts) == (True, 1, ["/completion"])


def test_another_kind() -> None:
    with FakeLlama(kinds=("embedding",)) as server:
        done = warmed(server)
    assert (done.warm, done.kind) == (True, "embedding")
    assert server.posts == ["/completion", "/v1/chat/completions", "/embedding"]


def test_a_server_that_loads_its_model_is_waited_for() -> None:
    with FakeLlama(loading=2) as server:
        done = warmed(server)
    assert (done.warm, done.requests) == (True, 3)


def test_a_wrong_key_is_told_at_once() -> None:
    with FakeLlama(key="right") as server:
        done = warmed(server)
    assert not done.warm
    assert "Invalid API Key" in done.words


def test_nobody_listens() -> None:
    with FakeLlama() as server:
        pass
    done = warmed(server)
    assert not done.warm
    assert done.took_us < SECONDS * 1e6 / 2


def test_no_answer_in_time() -> None:
    with FakeLlama(asleep=False, manner="hangs") as server:
        done = warmed(server, 0.5)
    assert not done.warm
    assert "no answer" in done.words


def test_its_own_request_met_the_sleep_and_is_freed_by_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "CAUGHT_SECONDS", 0.1)
    with FakeLlama(manner="hangs") as server:

        def then_wakes() -> None:
            server.waking.wait(SECONDS)
            server.manner = "wakes"

        threading.Thread(target=then_wakes, daemon=True).start()
        done = warmed(server, 5.0)
    assert (done.warm, done.requests) == (True, 2)


def test_it_crashes_and_comes_back() -> None:
    with FakeLlama(manner="restarts") as server:
        done = warmed(server)
    assert (done.warm, done.requests, server.posts) == (True, 2, ["/completion"] * 2)


def test_it_crashes_and_does_not_come_back() -> None:
    with FakeLlama(manner="dies") as server:
        done = warmed(server, 1.0)
    assert not done.warm
    assert "connection refused" in done.words
