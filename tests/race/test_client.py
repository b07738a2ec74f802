"""The client, against servers that are made: each does one thing to the connections it gets."""

from __future__ import annotations

import socket
import threading

import pytest

from sleepwatch.errors import SleepwatchError
from sleepwatch.race import client
from sleepwatch.race.server import free_port
from tests.support.http import answering, made_server


def test_an_answer_has_its_status_and_body() -> None:
    with made_server(answering("400 Bad Request", b'{"error":1}')) as port:
        reply = client.post(port, "/completion", {"prompt": "x" * 400_000}, 10)
    assert reply is not None
    assert (reply.status, reply.body, reply.error) == (400, b'{"error":1}', None)
    assert 0 < reply.latency_us < 10_000_000


def test_a_closed_connection_is_named() -> None:
    with made_server(lambda connection: None) as port:
        reply = client.post(port, "/completion", {}, 10)
    assert reply is not None
    assert (reply.status, reply.error) == (None, "RemoteDisconnected")


def test_nobody_listening_is_named() -> None:
    reply = client.post(free_port(), "/completion", {}, 10)
    assert reply is not None
    assert (reply.status, reply.error) == (None, "ConnectionRefusedError")


def test_an_answer_that_comes_later_can_still_be_waited_for() -> None:
    release = threading.Event()

    def late(connection: socket.socket) -> None:
        release.wait(10)
        answering("200 OK", b"{}")(connection)

    with made_server(late) as port, client.Request(port, "/completion", b"{}") as request:
        request.send()
        assert request.wait(0.01) is None
        release.set()
        reply = request.wait(10)
    assert reply is not None
    assert reply.status == 200


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"is_sleeping": true}', True),
        (b'{"is_sleeping": false}', False),
        (b"{}", None),
        (b"[]", None),
        (b"not json", None),
    ],
)
def test_what_props_says_of_the_sleep(body: bytes, said: bool | None) -> None:
    with made_server(answering("200 OK", body)) as port:
        assert client.is_sleeping(port) is said


def test_tokens_are_counted_by_the_server() -> None:
    with made_server(answering("200 OK", b'{"tokens": [1, 2, 3]}')) as port:
        assert client.count_tokens(port, "a b c") == 3
    with (
        made_server(answering("404 Not Found", b"")) as port,
        pytest.raises(SleepwatchError, match="cannot be measured"),
    ):
        client.count_tokens(port, "a b c")


def test_healthy_is_a_200_only() -> None:
    with made_server(answering("200 OK", b"{}")) as port:
        assert client.healthy(port)
    with made_server(answering("503 Service Unavailable", b"{}")) as port:
        assert not client.healthy(port)
    assert not client.healthy(free_port())
