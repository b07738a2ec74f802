"""Listening sockets as the kernel lists them in ``/proc/net`` (proc(5)); nothing is ever connected to."""

from __future__ import annotations

import re
import socket
import struct
import sys
from pathlib import Path

import msgspec

_LISTEN = "0A"
"""TCP_LISTEN (linux/tcp_states.h)."""
_ACCEPTS = 0x10000
"""__SO_ACCEPTCON: a unix socket that listens (linux/net.h)."""

Address = tuple[str, int]
"""An IP address and a port, as the kernel and Python write them."""


class Listening(msgspec.Struct, frozen=True):
    """One listening socket."""

    inode: int
    uid: int | None
    address: str
    """An IP address, or a unix socket's path."""
    port: int | None = None
    """None for a unix socket."""


def listening(net: Path) -> tuple[Listening, ...]:
    """All listening TCP and unix sockets of a network namespace; ``net`` is ``/proc/net`` or ``/proc/PID/net``.

    Raises OSError where the table cannot be read.
    """
    found = list(_tcp(net / "tcp"))
    if (net / "tcp6").exists():
        found += _tcp(net / "tcp6")
    if (net / "unix").exists():
        found += _unix(net / "unix")
    return tuple(found)


def _tcp(path: Path) -> list[Listening]:
    found = []
    with path.open() as file:
        for line in file:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                address, _, port = fields[1].partition(":")
                found.append(Listening(int(fields[9]), int(fields[7]), _address(address), int(port, 16)))
    return found


def _unix(path: Path) -> list[Listening]:
    found = []
    with path.open(errors="surrogateescape") as file:
        for line in file:
            match = re.match(r"\S+: \S+ \S+ (\w+) \S+ \S+ +(\d+) (.+)", line)
            if match and int(match.group(1), 16) & _ACCEPTS:
                found.append(Listening(int(match.group(2)), None, match.group(3).rstrip("\n")))
    return found


def _address(text: str) -> str:
    """The kernel prints addresses as host-order 32-bit words in hex."""
    order = "<" if sys.byteorder == "little" else ">"
    packed = b"".join(struct.pack(f"{order}I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
