"""One HTTP request at a time, sent at a known moment and judged by what comes back.

Plain sockets: a client library's pools, retries and time-outs would hide what is measured here.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import time
from types import TracebackType
from typing import Any, Self

import msgspec

from sleepwatch.errors import SleepwatchError

HOST = "127.0.0.1"

_READ_SECONDS = 30.0
"""An answer that has begun is there at once; this only bounds a server that stops in the middle of one."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: a status, or the connection's end (``error`` names it)."""

    latency_us: int
    """Since the request was sent."""
    status: int | None = None
    error: str | None = None
    body: bytes = b""


class Request:
    """One POST of a JSON body. :meth:`send` returns at once; :meth:`wait` may be called again after it gave None."""

    def __init__(self, port: int, path: str, body: bytes) -> None:
        """Connect and make the request ready, without sending any of it.

        Where nobody takes the connection, :meth:`wait` says so.
        """
        self._bytes = (
            f"POST {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        ).encode() + body
        self._broken: str | None = None
        self.sent_ns = 0
        self._socket = socket.socket()
        self._socket.settimeout(_READ_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.connect((HOST, port))
        except OSError as problem:
            self._broken = type(problem).__name__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self) -> int:
        """Send the whole request; the moment its first byte went out (monotonic clock)."""
        self.sent_ns = time.monotonic_ns()
        if self._broken is not None:
            return self.sent_ns
        try:
            self._socket.sendall(self._bytes)
        except OSError as problem:
            self._broken = type(problem).__name__
        return self.sent_ns

    def wait(self, seconds: float) -> Reply | None:
        """The reply, or None where there is none within ``seconds``."""
        if self._broken is not None:
            return self._reply(error=self._broken)
        readable, _, _ = select.select([self._socket], [], [], max(0.0, seconds))
        if not readable:
            return None
        response = http.client.HTTPResponse(self._socket, method="POST")
        try:
            response.begin()
            body = response.read()
        except (OSError, http.client.HTTPException) as problem:
            return self._reply(error=type(problem).__name__)
        finally:
            response.close()
        return self._reply(status=response.status, body=body)

    def _reply(self, *, status: int | None = None, error: str | None = None, body: bytes = b"") -> Reply:
        latency_us = (time.monotonic_ns() - self.sent_ns) // 1000
        return Reply(latency_us=latency_us, status=status, error=error, body=body)

    def close(self) -> None:
        """Hang up, as a client that gives up does."""
        self._socket.close()


def post(port: int, path: str, content: dict[str, Any], seconds: float) -> Reply | None:
    """Send ``content`` and wait for the reply; None where there is none within ``seconds``."""
    with Request(port, path, msgspec.json.encode(content)) as request:
        request.send()
        return request.wait(seconds)


def get(port: int, path: str, seconds: float) -> tuple[int, bytes] | None:
    """Status and body of a GET; None where nobody answers within ``seconds``."""
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return None


def healthy(port: int) -> bool:
    """Whether ``/health`` answers 200. It neither wakes a server nor resets its idle timer."""
    answer = get(port, "/health", 2.0)
    return answer is not None and answer[0] == 200


def props(port: int, seconds: float = 2.0) -> dict[str, Any] | None:
    """What ``/props`` says; None where it does not answer in time, as during a reload."""
    answer = get(port, "/props", seconds)
    if answer is None or answer[0] != 200:
        return None
    try:
        said = msgspec.json.decode(answer[1])
    except msgspec.DecodeError:
        return None
    return said if isinstance(said, dict) else None


def is_sleeping(port: int) -> bool | None:
    """What ``/props`` says of the sleep; None where it says nothing. Asking neither wakes nor resets the timer."""
    said = props(port)
    value = said.get("is_sleeping") if said is not None else None
    return value if isinstance(value, bool) else None


def count_tokens(port: int, text: str, seconds: float = 60.0) -> int:
    """How many tokens ``text`` is to this server's model (``/tokenize``, which posts no task).

    Raises:
        SleepwatchError: the server does not say.

    """
    reply = post(port, "/tokenize", {"content": text}, seconds)
    if reply is not None and reply.status == 200:
        try:
            return len(msgspec.json.decode(reply.body, type=_Tokens).tokens)
        except msgspec.MsgspecError:
            pass
    raise SleepwatchError("the server's /tokenize gave no answer, so the prompt cannot be measured")


class _Tokens(msgspec.Struct):
    tokens: list[Any]
