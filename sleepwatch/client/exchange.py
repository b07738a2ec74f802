"""One HTTP request and its answer, within one deadline, over TCP, TLS or a unix socket.

The standard library's client, because what is needed here is below what `requests` and its pools offer: unix sockets,
one deadline for the whole exchange (not one for each read), nothing from the environment (proxies, .netrc), no redirect
and no retry, and our own address, known before a byte is sent, so that our connection is never taken for a client's.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Self

import msgspec

from sleepwatch.client.target import Target
from sleepwatch.hosts.sockets import Address
from sleepwatch.printable import printable

CONNECT_SECONDS = 5.0
_BODY_LIMIT = 8 << 20


class Failure(Exception):
    """No answer; the sentence says why."""


class NoConnection(Failure):
    """Nobody takes the connection: nothing listens there, or TLS fails."""


class NoAnswer(Failure):
    """The deadline passed."""


class Broken(Failure):
    """The connection ended without an answer, or with something that is none."""


class Reply(msgspec.Struct, frozen=True):
    """An answer."""

    status: int
    body: bytes

    @property
    def words(self) -> str:
        """What the server says of it: its error's message, else the status."""
        with contextlib.suppress(msgspec.MsgspecError):
            message = msgspec.json.decode(self.body, type=_ErrorBody).error.message
            return printable(f"status {self.status}: {message[:160]}")
        return f"status {self.status}"


class _Error(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Error


class Own(Collection[Address]):
    """The addresses of our own connections, for whoever looks at a server's. Safe between threads."""

    def __init__(self) -> None:
        self._addresses: set[Address] = set()

    @contextlib.contextmanager
    def holding(self, address: Address) -> Iterator[None]:
        """It is ours as long as this lasts."""
        self._addresses.add(address)
        try:
            yield
        finally:
            self._addresses.discard(address)

    def __contains__(self, address: object) -> bool:
        return address in self._addresses

    def __iter__(self) -> Iterator[Address]:
        return iter(self._addresses.copy())

    def __len__(self) -> int:
        return len(self._addresses)


def exchange(
    target: Target,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    seconds: float,
    own: Own | None = None,
) -> Reply:
    """Send one request and read its answer. Raises Failure, and TargetError for a key or certificate without use.

    ``own`` knows our address while the connection is open.
    """
    headers = {"Connection": "close", "User-Agent": "sleepwatch"}
    key = target.api_key()
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection = _connection(target, min(seconds, CONNECT_SECONDS))
    with contextlib.ExitStack() as stack:
        stack.callback(connection.close)
        try:
            connection.connect()
        except ssl.SSLError as error:
            raise NoConnection(f"TLS fails: {error.reason or error}") from error
        except OSError as error:
            raise NoConnection(_words(error)) from error
        sock = connection.sock
        if own is not None and target.socket is None:
            stack.enter_context(own.holding(sock.getsockname()[:2]))
        sock.settimeout(None)
        deadline = stack.enter_context(_Deadline(sock, seconds))
        try:
            connection.request(method, target.prefix + path, body, headers)
            response = connection.getresponse()
            return Reply(response.status, response.read(_BODY_LIMIT))
        except (OSError, http.client.HTTPException) as error:
            if deadline.passed:
                raise NoAnswer(f"no answer within {seconds:g} s") from error
            raise Broken(_words(error)) from error


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(target: Target, seconds: float) -> http.client.HTTPConnection:
    if target.socket is not None:
        return _UnixConnection(target.socket, seconds)
    context = target.tls_context()
    if context is not None:
        return http.client.HTTPSConnection(target.host, target.port, timeout=seconds, context=context)
    return http.client.HTTPConnection(target.host, target.port, timeout=seconds)


class _Deadline:
    """Ends a connection when its time is over, however slowly bytes drip in."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._sock = sock
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self.passed = False

    def _end(self) -> None:
        self.passed = True
        with contextlib.suppress(OSError):  # it has ended by itself
            # Below TLS, whose own shutdown is not made for two threads.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._timer.cancel()


def _words(error: OSError | http.client.HTTPException) -> str:
    if isinstance(error, TimeoutError):
        return "nobody takes the connection"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection without an answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return printable(str(error)) or type(error).__name__
