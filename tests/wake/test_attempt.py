"""What one wake comes to, on FakeLlama where the real server cannot be made to do it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sleepwatch.client.exchange import Own
from sleepwatch.client.props import ask
from sleepwatch.client.target import parse_target
from sleepwatch.clock import SystemClock
from sleepwatch.wake import attempt
from sleepwatch.wake.attempt import Attempt, wake
from tests.support.fake_llama import CERTIFICATE, STUCK, FakeLlama
from tests.support.http import answering, made_server

SECONDS = 20.0


def woken(server: FakeLlama, **settings: object) -> Attempt:
    return wake(parse_target(server.url, **settings), SystemClock(), seconds=SECONDS)  # type: ignore[arg-type]


def test_a_server_that_sleeps_is_sent_one_token() -> None:
    with FakeLlama() as server:
        done = woken(server)
    assert (done.outcome, done.kind, done.status) == (attempt.WOKE, "completion", 200)
    assert done.sent is not None
    assert done.took_us is not None
    assert server.bodies == [{"prompt": "hi", "n_predict": 1}]


def test_a_server_that_is_awake_is_sent_nothing() -> None:
    with FakeLlama(asleep=False) as server:
        done = woken(server)
    assert (done.outcome, done.kind, server.posts) == (attempt.ALREADY_AWAKE, None, [])


def test_nobody_waits_any_more() -> None:
    with FakeLlama() as server:
        done = wake(parse_target(server.url), SystemClock(), seconds=SECONDS, still_waits=lambda: False)
    assert (done.outcome, server.posts) == (attempt.ABANDONED, [])


def test_a_wrong_key() -> None:
    with FakeLlama(key="right") as server:
        done = woken(server)
    assert (done.outcome, server.posts) == (attempt.REFUSED, [])
    assert "Invalid API Key" in done.words
    assert "it wants an API key" in done.words


def test_a_right_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("right\n")
    with FakeLlama(key="right") as server:
        assert woken(server, key_file=tmp_path / "key").outcome == attempt.WOKE


def test_a_key_file_that_went_away(tmp_path: Path) -> None:
    with FakeLlama() as server:
        done = woken(server, key_file=tmp_path / "key")
    assert (done.outcome, server.posts) == (attempt.REFUSED, [])


def test_no_completions_here_but_the_refusal_woke_it() -> None:
    with FakeLlama(kinds=("embedding",)) as server:
        done = woken(server)
    assert (done.outcome, done.status, server.posts) == (attempt.WOKE, 501, ["/completion"])


def test_a_server_whose_kind_is_known_is_asked_for_that() -> None:
    with FakeLlama(kinds=("embedding",)) as server:
        assert woken(server, kind="embedding").status == 200
    assert (server.posts, server.bodies) == (["/embedding"], [{"content": "hi"}])


def test_a_router_passes_on_by_the_models_name() -> None:
    with FakeLlama(router=True) as server:
        without = woken(server)
        named = woken(server, model="gemma 3")
    assert without.outcome == attempt.REFUSED
    assert "name a model" in without.words
    assert named.outcome == attempt.WOKE
    assert server.bodies == [{"model": "gemma 3", "prompt": "hi", "n_predict": 1}]


def test_no_such_route() -> None:
    """A server behind a proxy that lets only /props through: every kind is tried once, and none wakes it."""
    from tests.support import fake_llama

    with FakeLlama() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_llama, "_ROUTES", {})
        done = woken(server)
    assert (done.outcome, done.status) == (attempt.REFUSED, 404)
    assert server.asleep


def test_it_dies_of_the_wake() -> None:
    with FakeLlama(manner="dies") as server:
        done = woken(server)
    assert (done.outcome, server.posts) == (attempt.CRASHED, ["/completion"])
    assert "closed the connection without an answer" in done.words


def test_it_hangs() -> None:
    with FakeLlama(manner="hangs") as server:
        done = wake(parse_target(server.url), SystemClock(), seconds=0.3)
    assert (done.outcome, server.posts) == (attempt.TIMEOUT, ["/completion"])
    assert done.took_us is not None
    assert done.took_us >= 300_000


def test_it_is_slow() -> None:
    with FakeLlama(reload_seconds=0.5) as server:
        done = woken(server)
    assert done.outcome == attempt.WOKE
    assert done.took_us is not None
    assert done.took_us >= 500_000


def test_nobody_listens() -> None:
    with FakeLlama() as server:
        pass
    done = woken(server)
    assert (done.outcome, done.sent) == (attempt.UNREACHABLE, None)


def test_something_else_listens() -> None:
    for status, body, words in (
        ("200 OK", b"<html>", "not llama-server's"),
        ("200 OK", b"{}", "no sleep mode"),
        ("302 Found", b"", "status 302"),
        ("500 Oops", b'{"error": {"message": "\x1b[31m"}}', "status 500"),
    ):
        with made_server(answering(status, body)) as port:
            done = wake(parse_target(f"127.0.0.1:{port}"), SystemClock(), seconds=SECONDS)
        assert done.outcome == attempt.REFUSED
        assert words in done.words
        assert "\x1b" not in done.words


def test_an_answer_that_drips_is_ended_at_the_deadline() -> None:
    def drip(connection: socket.socket) -> None:
        try:
            for _ in range(600):
                connection.sendall(b"H")
                time.sleep(0.05)
        except OSError:
            pass

    with made_server(drip) as port:
        begun = time.monotonic()
        said = ask(parse_target(f"127.0.0.1:{port}"), seconds=0.3)
        assert time.monotonic() - begun < 15
    assert (said.asleep, said.failure) == (None, "timeout")


def test_over_a_unix_socket(tmp_path: Path) -> None:
    with FakeLlama(path=tmp_path / "llama.sock") as server:
        assert woken(server).outcome == attempt.WOKE
    assert woken(server).outcome == attempt.UNREACHABLE


def test_over_tls_with_a_certificate_that_is_trusted() -> None:
    with FakeLlama(tls=True) as server:
        unknown = woken(server)
        assert (unknown.outcome, server.posts) == (attempt.UNREACHABLE, [])
        assert "TLS fails: CERTIFICATE_VERIFY_FAILED" in unknown.words
        assert woken(server, ca_file=CERTIFICATE).outcome == attempt.WOKE
        server.fall_asleep()
        assert woken(server, insecure=True).outcome == attempt.WOKE


def test_tls_spoken_to_a_server_that_speaks_plainly() -> None:
    with FakeLlama() as server:
        done = wake(parse_target(f"https://127.0.0.1:{server.port}"), SystemClock(), seconds=SECONDS)
    assert (done.outcome, server.posts) == (attempt.UNREACHABLE, [])


def test_what_is_stuck_in_the_queue_runs_with_the_wake() -> None:
    with FakeLlama() as server:
        stuck = _stuck_client(server.port)
        assert woken(server).outcome == attempt.WOKE
        assert stuck() == b"HTTP/1.1 200"


def test_our_own_connection_is_known_while_it_is_open() -> None:
    own = Own()
    seen: list[int] = []
    with FakeLlama(reload_seconds=0.5) as server:

        def look() -> None:
            server.waking.wait(SECONDS)
            seen.extend(port for _, port in own)

        looker = threading.Thread(target=look)
        looker.start()
        wake(parse_target(server.url), SystemClock(), seconds=SECONDS, own=own)
        looker.join(SECONDS)
    assert len(seen) == 1
    assert list(own) == []


def _stuck_client(port: int) -> Callable[[], bytes]:
    body = b'{"prompt": "%s"}' % STUCK.encode()
    client = socket.create_connection(("127.0.0.1", port))
    client.settimeout(SECONDS)
    client.sendall(b"POST /completion HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def answer() -> bytes:
        with client:
            return client.recv(12)

    return answer
