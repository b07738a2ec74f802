"""What a server says of itself, by made servers that say one thing each; the real one is asked in the race's tests."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from sleepwatch.witness.props import PropsError, is_sleeping
from tests.support.http import answering, made_server


@pytest.mark.parametrize("sleeping", [True, False])
def test_it_says_whether_it_sleeps(sleeping: bool) -> None:
    body = b'{"model_path":"x","is_sleeping":' + (b"true" if sleeping else b"false") + b"}"
    with made_server(answering("200 OK", body)) as port:
        assert is_sleeping(f"http://0.0.0.0:{port}") is sleeping


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        ("401 Unauthorized", b"{}", "api_key_file"),
        ("503 Service Unavailable", b"{}", "503"),
        ("200 OK", b"{}", "is_sleeping"),
        ("200 OK", b"<html>", "is_sleeping"),
    ],
)
def test_an_answer_that_says_nothing(status: str, body: bytes, words: str) -> None:
    with made_server(answering(status, body)) as port, pytest.raises(PropsError, match=words):
        is_sleeping(f"http://127.0.0.1:{port}")


def test_no_answer_in_time() -> None:
    over = threading.Event()
    with made_server(lambda connection: over.wait(20) and None) as port:
        with pytest.raises(PropsError, match="no answer"):
            is_sleeping(f"http://127.0.0.1:{port}", seconds=0.05)
        over.set()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PropsError, match="refused"):
        is_sleeping(f"http://127.0.0.1:{port}")


def test_the_key_comes_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "llama.sock"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(1 << 16))
                connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        (tmp_path / "key").write_text("sk-secret\n")
        with pytest.raises(PropsError) as raised:
            is_sleeping(f"unix://{tmp_path}/llama.sock", key_file=tmp_path / "key")
        thread.join(10)
    assert b"GET /props " in asked[0]
    assert b"Authorization: Bearer sk-secret" in asked[0]
    assert "sk-secret" not in str(raised.value)


def test_a_key_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PropsError, match="no such file"):
        is_sleeping("http://127.0.0.1:1", key_file=tmp_path / "key")
