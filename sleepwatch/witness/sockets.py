"""The connections of one TCP port, as the kernel keeps them: who is connected, and who waits for an answer.

One question to the kernel over netlink (``sock_diag``, linux/inet_diag.h), which picks the port itself, so that a host
with thousands of connections answers in milliseconds. Nothing is connected to and no process is touched. What comes
back is counters and times, never contents. Any user may ask; what can stand in the way is told by
:class:`SocketsError` and :func:`why_hidden`, with what to grant.

Times count from the kernel's ticks, so they can be off by one tick: :data:`TICK_MS`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from sleepwatch.errors import SleepwatchError, os_words
from sleepwatch.hosts.sockets import Address

TICK_MS = 10
"""The longest tick a kernel is built with (CONFIG_HZ=100)."""

ESTABLISHED = "established"
CLOSE_WAIT = "close-wait"
"""The other side has closed, or will at least send no more."""

_STATES = {1: ESTABLISHED, 8: CLOSE_WAIT}
"""TCP_ESTABLISHED and TCP_CLOSE_WAIT (linux/tcp_states.h)."""
_LISTEN = 10
"""TCP_LISTEN."""
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""
_ASK = struct.Struct("=BBBxI H2x 32x 4x 8s")
"""struct inet_diag_req_v2: family, protocol, extensions, states; then the socket: ports, addresses, interface, cookie.
A port that is not 0 is compared with each socket's own (``inet_diag_dump_icsk``, net/ipv4/inet_diag.c)."""
_ANY_COOKIE = b"\xff" * 8
_FOUND = struct.Struct("=BBBB 2s2s 16s16s 4x Q 4x IIII")
"""struct inet_diag_msg: family, state, timer, retransmits; ports, addresses, interface, cookie; expires, then the
bytes that wait to be read and those not acknowledged, uid, inode."""
_INFO = struct.Struct("=44x I4x I 72x Q 8x I 52x Q")
"""Of struct tcp_info (linux/tcp.h): last_data_sent, last_data_recv, bytes_received, notsent_bytes, bytes_sent."""
_BUFFER = 1 << 17
_SECONDS = 2.0
_ANY_PORT = 9
"""Asked for where it does not matter which: discard's, on which hardly anybody listens."""
_MAPPED = b"\0" * 10 + b"\xff\xff"


class SocketsError(SleepwatchError):
    """The kernel does not tell its sockets: not Linux, not permitted, too old, or without the module."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One connection to the port, as the server's side of it stands."""

    cookie: int
    """The kernel's own number of this socket: the same at every look, and of no other while the machine runs."""
    peer: Address
    """The client. An IPv4 client of an IPv6 socket is shown as IPv4."""
    local: Address
    state: str
    """:data:`ESTABLISHED` or :data:`CLOSE_WAIT`."""
    uid: int
    inode: int
    """As in the target of ``/proc/PID/fd/N``; 0 where no process has accepted the connection yet."""
    last_received_ms: int
    """Since data last came; where none ever did, since the connection was made."""
    last_sent_ms: int
    """Since data last went out; where none ever did, since the connection was made."""
    bytes_received: int
    bytes_sent: int
    """Repeated ones count again."""
    unread: int
    """Received bytes that the server has not read yet."""
    not_sent: int
    """Bytes the server has written that have not left yet."""

    @property
    def waits(self) -> bool:
        """Has the server read something on it, and sent nothing since? A request in work looks so, and half an upload.

        Received and sent within one tick counts as answered. What lies unread has not reached any handler.
        """
        return (
            self.state == ESTABLISHED
            and self.inode != 0
            and self.bytes_received > 0
            and self.unread == 0
            and self.not_sent == 0
            and (self.bytes_sent == 0 or self.last_received_ms < self.last_sent_ms)
        )


def connections(port: int) -> tuple[Connection, ...]:
    """The connections to this local port in our network namespace, IPv4 and IPv6. Raises SocketsError."""
    if not 0 < port < 65536:
        raise ValueError(f"no TCP port: {port}")
    try:
        with _netlink() as kernel:
            states = sum(1 << state for state in _STATES)
            return tuple(
                _connection(data, begin, end)
                for family in (socket.AF_INET, socket.AF_INET6)
                for data, begin, end in _answers(kernel, family, port, states)
            )
    except OSError as error:
        raise _explained(error) from error


def listeners(port: int) -> tuple[int, ...]:
    """The inodes of the sockets that listen on this TCP port in our network namespace. Raises SocketsError.

    A process that ends closes its listening socket before those of its connections, which have higher numbers. So
    where one still listens *after* :func:`connections` has answered, that answer is of a process that lived.
    """
    try:
        with _netlink() as kernel:
            families = (socket.AF_INET, socket.AF_INET6)
            return tuple(
                _FOUND.unpack_from(data, begin)[-1]
                for family in families
                for data, begin, _ in _answers(kernel, family, port, 1 << _LISTEN)
            )
    except OSError as error:
        raise _explained(error) from error


def pending(
    found: Iterable[Connection], *, asleep_ms: int, grace_ms: int = 0, ours: Collection[Address] = ()
) -> tuple[Connection, ...]:
    """Of these connections those whose request lies in a server that has been asleep for ``asleep_ms``. Pure.

    The server has read something on it and sent nothing since; nothing came since it fell asleep (what comes later
    asks for the wake itself); and it has been so for ``grace_ms``. ``ours``: the addresses of our own sockets, whose
    requests are no evidence.
    """
    at_least = max(asleep_ms - TICK_MS, grace_ms)
    return tuple(one for one in found if one.waits and one.last_received_ms >= at_least and one.peer not in ours)


def why_hidden(*, pid: int | None, url: str | None, proc: Path = Path("/proc")) -> str | None:
    """Why a server's connections cannot be seen from here, and what to grant; None where they can.

    ``pid`` is the server's, ``url`` what it says it listens on (``http://HOST:PORT``, ``unix://PATH``).
    """
    if url is not None and url.startswith("unix:"):
        return (
            "it listens on a unix socket, of which the kernel keeps no times; let it listen on a TCP port of the "
            "loopback address (--host 127.0.0.1) to have its connections seen"
        )
    if pid is None:
        return None
    try:
        theirs = os.readlink(proc / str(pid) / "ns" / "net")
    except PermissionError:
        # A process of another user: its namespace may not be read, but the port it listens on is looked for anyway.
        return None
    except OSError:
        return None  # it has ended, or this is no Linux: asking for its connections will tell
    if theirs == os.readlink(proc / "self" / "ns" / "net"):
        return None
    return (
        "it runs in another network namespace (a container); let sleepwatch run in the same one "
        "(--network container:NAME), or the server in the host's (--network host)"
    )


def why_silent() -> str | None:
    """Why the kernel tells of no connections at all, and what to grant; None where it does."""
    try:
        listeners(_ANY_PORT)
    except SocketsError as error:
        return str(error)
    return None


def _netlink() -> socket.socket:
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        raise SocketsError("this system does not tell its connections", hint="sock_diag is Linux's")
    kernel = socket.socket(family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    kernel.settimeout(_SECONDS)
    return kernel


def _answers(kernel: socket.socket, family: int, port: int, states: int) -> Iterator[tuple[bytes, int, int]]:
    """The sockets of this port in one of these states: a block of bytes, and where in it one begins and ends."""
    body = _ASK.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), states, socket.htons(port), _ANY_COOKIE)
    kernel.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, family, 0) + body)
    while True:
        data = kernel.recv(_BUFFER)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, _, _, _ = _HEADER.unpack_from(data, at)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", data, at + _HEADER.size)
                raise OSError(-code, os.strerror(-code))
            yield data, at + _HEADER.size, at + length
            at += (length + 3) & ~3


def _connection(data: bytes, begin: int, end: int) -> Connection:
    (
        family, state, _, _, local_port, peer_port, local, peer, cookie, unread, _, uid, inode,
    ) = _FOUND.unpack_from(data, begin)  # fmt: skip
    sent_ms, received_ms, received, not_sent, sent = _INFO.unpack_from(data, _info(data, begin + _FOUND.size, end))
    return Connection(
        cookie=cookie,
        peer=(_address(family, peer), int.from_bytes(peer_port)),
        local=(_address(family, local), int.from_bytes(local_port)),
        state=_STATES[state],
        uid=uid,
        inode=inode,
        last_received_ms=received_ms,
        last_sent_ms=sent_ms,
        # The kernel counts the end of what comes (FIN) as one byte more (tcp_rcv_nxt_update, net/ipv4/tcp_input.c).
        bytes_received=received - (_STATES[state] == CLOSE_WAIT),
        bytes_sent=sent,
        unread=unread,
        not_sent=not_sent,
    )


def _info(data: bytes, at: int, end: int) -> int:
    """Where struct tcp_info stands among the attributes."""
    while at + 4 <= end:
        length, kind = struct.unpack_from("=HH", data, at)
        if kind == _INET_DIAG_INFO and length - 4 >= _INFO.size:
            return at + 4
        at += max((length + 3) & ~3, 4)
    raise SocketsError("this kernel does not tell when a connection was last used", hint="it needs Linux 4.19 or newer")


def _address(family: int, packed: bytes) -> str:
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, packed[:4])
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def _explained(error: OSError) -> SocketsError:
    what = "the kernel does not tell its connections"
    if error.errno in (errno.EACCES, errno.EPERM):
        return SocketsError(f"{what}: not permitted", hint="a sandbox forbids netlink sockets; allow AF_NETLINK")
    if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT):
        hint = "in the unit: RestrictAddressFamilies= must list AF_NETLINK; in the kernel: CONFIG_INET_DIAG"
        return SocketsError(f"{what}: netlink sockets are not available", hint=hint)
    if error.errno == errno.ENOENT:
        return SocketsError(f"{what}: its module is not loaded", hint="modprobe tcp_diag")
    if isinstance(error, TimeoutError):
        return SocketsError(f"{what}: no reply within {_SECONDS:.0f} s")
    return SocketsError(f"{what}: {os_words(error)}")
