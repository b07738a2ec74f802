"""The kernel's own word about real connections of this process; what stands in the way is made where it cannot be had.

That a server is never touched is shown by its own listener: nobody but the test's clients is in its queue.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from sleepwatch.witness import sockets
from sleepwatch.witness.sockets import (
    CLOSE_WAIT,
    Connection,
    SocketsError,
    connections,
    listeners,
    pending,
    why_hidden,
)
from tests.support.needs import missing

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")

PAUSE_MS = 30
"""More than two ticks of any kernel: what is that far apart is told apart."""


@contextlib.contextmanager
def _listening(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        if host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, 0))
        listener.listen(1024)
        yield listener


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with _listening() as one:
        yield one


class Pair:
    """A client and the server's side of its connection."""

    def __init__(self, listener: socket.socket, host: str = "127.0.0.1") -> None:
        self.port: int = listener.getsockname()[1]
        self.client = socket.create_connection((host, self.port), timeout=10)
        self.server, _ = listener.accept()
        self.server.settimeout(10)

    def asks(self, data: bytes = b"POST /completion") -> None:
        """The client sends, and the server reads all of it."""
        self.client.sendall(data)
        left = len(data)
        while left:
            left -= len(self.server.recv(left))

    def answers(self, data: bytes = b"HTTP/1.1 200 OK") -> None:
        """The server sends, and the client reads all of it."""
        self.server.sendall(data)
        left = len(data)
        while left:
            left -= len(self.client.recv(left))

    def seen(self) -> Connection:
        """What the kernel says of it."""
        peer = self.client.getsockname()[:2]
        return next(one for one in connections(self.port) if one.peer == peer)

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def pair(listener: socket.socket) -> Iterator[Pair]:
    one = Pair(listener)
    yield one
    one.close()


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def _pause(pair: Pair) -> None:
    """Wait until the kernel counts that the last thing on it was a while ago."""
    _until(lambda: min(pair.seen().last_received_ms, pair.seen().last_sent_ms) >= PAUSE_MS)


# -- what the kernel says ---------------------------------------------------------------------------------------------


def test_who_is_connected_and_what_went_over_it(pair: Pair) -> None:
    pair.asks(b"x" * 1_000)
    pair.answers(b"y" * 300)
    one = pair.seen()
    assert one.peer == pair.client.getsockname()
    assert one.local == ("127.0.0.1", pair.port)
    assert (one.state, one.uid, one.inode) == (
        sockets.ESTABLISHED,
        os.geteuid(),
        os.fstat(pair.server.fileno()).st_ino,
    )
    assert (one.bytes_received, one.bytes_sent, one.unread, one.not_sent) == (1_000, 300, 0, 0)
    assert pair.seen().cookie == one.cookie


@pytest.mark.parametrize(("bound", "used", "shown"), [("::1", "::1", "::1"), ("::", "127.0.0.1", "127.0.0.1")])
def test_ipv6_and_ipv4_over_ipv6(bound: str, used: str, shown: str) -> None:
    try:
        listener = contextlib.ExitStack()
        server = listener.enter_context(_listening(bound))
    except OSError as error:
        missing(f"IPv6 ({error})")
    with listener:
        pair = Pair(server, used)
        pair.asks()
        assert [(one.peer[0], one.local[0], one.bytes_received) for one in connections(pair.port)] == [
            (shown, shown, 16)
        ]
        pair.close()


def test_another_port_is_not_seen(pair: Pair) -> None:
    with _listening() as other:
        elsewhere = Pair(other)
        assert [one.local[1] for one in connections(pair.port)] == [pair.port]
        elsewhere.close()
    assert connections(elsewhere.port) == ()


def test_a_client_that_closed_is_told(pair: Pair) -> None:
    pair.asks()
    before = connections(pair.port)[0].bytes_received
    pair.client.close()
    _until(lambda: connections(pair.port) != () and connections(pair.port)[0].state == CLOSE_WAIT)
    assert not connections(pair.port)[0].waits
    assert connections(pair.port)[0].bytes_received == before > 0, "that it closed is no more of its request"


def test_who_listens() -> None:
    with _listening() as one:
        port = one.getsockname()[1]
        assert listeners(port) == (os.fstat(one.fileno()).st_ino,)
    assert listeners(port) == ()


def test_an_impossible_port() -> None:
    with pytest.raises(ValueError, match="65536"):
        connections(65536)


# -- who waits --------------------------------------------------------------------------------------------------------


def test_a_request_that_was_read_and_not_answered_waits(pair: Pair) -> None:
    pair.asks()
    assert pair.seen().waits


def test_one_on_a_connection_that_was_used_before_waits(pair: Pair) -> None:
    pair.asks()
    pair.answers()
    _pause(pair)
    assert not pair.seen().waits, "an idle keep-alive"
    pair.asks()
    assert pair.seen().waits


def test_a_connection_without_a_request_does_not_wait(pair: Pair) -> None:
    assert not pair.seen().waits


def test_what_the_server_has_not_read_does_not_wait_in_it(pair: Pair, listener: socket.socket) -> None:
    pair.client.sendall(b"unread")
    _until(lambda: pair.seen().unread == 6)
    assert not pair.seen().waits
    with socket.create_connection(("127.0.0.1", pair.port)) as queued:
        queued.sendall(b"nobody has accepted this connection")
        _until(lambda: len([one for one in connections(pair.port) if one.bytes_received]) == 2)
        (unaccepted,) = [one for one in connections(pair.port) if one.peer == queued.getsockname()]
        assert unaccepted.inode == 0
        assert not unaccepted.waits


def test_an_answer_that_goes_on_is_no_waiting(pair: Pair) -> None:
    pair.asks()
    for _ in range(3):
        _pause(pair)
        pair.answers(b"data: {}")
        assert not pair.seen().waits


def made(**fields: object) -> Connection:
    """A made connection: a request read four seconds ago, and nothing sent since."""
    one = Connection(
        cookie=7, peer=("10.0.0.9", 40_000), local=("10.0.0.1", 8080), state=sockets.ESTABLISHED, uid=0, inode=99,
        last_received_ms=4_000, last_sent_ms=4_000, bytes_received=79_589, bytes_sent=0, unread=0, not_sent=0,
    )  # fmt: skip
    return msgspec.structs.replace(one, **fields)


HUNG = made()


@pytest.mark.parametrize(
    ("one", "is_pending"),
    [
        (HUNG, True),
        (made(bytes_sent=1_797, last_sent_ms=4_976, last_received_ms=6_804), False),
        (made(bytes_sent=1_797, last_sent_ms=6_804, last_received_ms=4_976), True),
        (made(bytes_sent=1_797, last_sent_ms=4_000, last_received_ms=4_000), False),
        (made(bytes_received=0), False),
        (made(last_received_ms=2_000), False),
        (made(unread=10), False),
        (made(not_sent=10), False),
        (made(inode=0), False),
        (made(state=CLOSE_WAIT), False),
        (made(peer=("127.0.0.1", 5)), False),
    ],
    ids=["hung", "idle keep-alive", "second request", "within a tick", "no request", "came during the sleep",
         "not read", "being sent", "not accepted", "client gone", "ours"],
)  # fmt: skip
def test_pending(one: Connection, is_pending: bool) -> None:
    assert bool(pending([one], asleep_ms=3_500, ours={("127.0.0.1", 5)})) is is_pending


def test_a_tick_decides_nothing() -> None:
    assert pending([HUNG], asleep_ms=4_000 + sockets.TICK_MS)
    assert not pending([HUNG], asleep_ms=4_001 + sockets.TICK_MS)


def test_the_grace() -> None:
    assert pending([HUNG], asleep_ms=0, grace_ms=4_000)
    assert not pending([HUNG], asleep_ms=0, grace_ms=4_001)


# -- what it costs, and what it touches -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 5_000])
def test_the_server_is_not_touched_however_many_are_connected(count: int, listener: socket.socket) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * count + 100:
        missing(f"{2 * count + 100} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * count + 100), hard))
    pairs = []
    try:
        pairs = [Pair(listener) for _ in range(count)]
        pairs[-1].asks()
        found = connections(pairs[0].port)
        assert len(found) == count
        assert {one.peer for one in found} == {pair.client.getsockname() for pair in pairs}
        assert [one.peer for one in found if one.waits] == [pairs[-1].client.getsockname()]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    finally:
        for pair in pairs:
            pair.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- what cannot be seen ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "AF_NETLINK"),
        (errno.EPERM, "AF_NETLINK"),
        (errno.EAFNOSUPPORT, "RestrictAddressFamilies"),
        (errno.ENOENT, "tcp_diag"),
        (errno.ENOBUFS, "no buffer space"),
    ],
)
def test_a_refusal_says_what_to_grant(number: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> socket.socket:
        """A fake: no sandbox of a test can be had everywhere."""
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sockets, "_netlink", refused)
    with pytest.raises(SocketsError) as raised:
        connections(8080)
    assert words in str(raised.value)


def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_NETLINK")
    with pytest.raises(SocketsError, match="Linux"):
        connections(8080)


def test_a_unix_socket_is_hidden() -> None:
    assert "unix socket" in (why_hidden(pid=os.getpid(), url="unix:///run/llama.sock") or "")


def test_our_own_namespace_is_seen() -> None:
    assert why_hidden(pid=os.getpid(), url="http://127.0.0.1:8080") is None
    assert why_hidden(pid=None, url=None) is None
    assert why_hidden(pid=2**30, url=None) is None


def test_another_network_namespace_is_hidden() -> None:
    command = ["unshare", "-rn", sys.executable, "-c", "input()"]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        missing("unshare (Debian package util-linux)")
    with process:
        try:
            ours, theirs = (Path(f"/proc/{pid}/ns/net") for pid in ("self", process.pid))
            end = time.monotonic() + 10
            while process.poll() is None and ours.readlink() == theirs.readlink():
                assert time.monotonic() < end
                time.sleep(0.01)
            if process.returncode is not None:
                missing("the right to make a network namespace")
            assert "--network" in (why_hidden(pid=process.pid, url="http://127.0.0.1:8080") or "")
        finally:
            process.communicate(b"\n")
