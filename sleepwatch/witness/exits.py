"""How a process ended, by a descriptor of it: told at once, also of processes that nobody supervises.

``pidfd_open`` (pidfd_open(2), Linux 5.3) takes any process that can be seen. That it has ended is told by poll; how, by
``PIDFD_GET_INFO`` from Linux 6.15 on once its parent has asked for it (linux/pidfd.h), before that to its parent alone.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct

import msgspec

_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO: _IOWR(0xFF, 11, struct pidfd_info) of 64 bytes."""
_INFO = struct.Struct("=QQ11Ii")
"""struct pidfd_info: mask, cgroup, eleven ids, exit code (as wait(2) gives it)."""
_INFO_EXIT = 1 << 3


class End(msgspec.Struct, frozen=True):
    """How it ended; both None where the kernel does not tell."""

    signal: int | None = None
    status: int | None = None


class ProcessHandle:
    """A process that is watched for its end."""

    def __init__(self, pid: int) -> None:
        """Raises OSError: it has ended, or the kernel has no such descriptors."""
        opener = getattr(os, "pidfd_open", None)
        if opener is None:
            raise OSError("this system has no descriptors of processes")
        self.pid = pid
        self.fd: int = opener(pid)

    @property
    def ended(self) -> bool:
        """Has it?"""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(0))

    def end(self) -> End | None:
        """How it ended; None where that is not told, or not yet."""
        data = bytearray(_INFO.pack(_INFO_EXIT, 0, *[0] * 12))
        try:
            fcntl.ioctl(self.fd, _GET_INFO, data)
        except OSError:
            return None  # an older kernel, or its parent has not asked yet
        mask, *_, code = _INFO.unpack(data)
        if not mask & _INFO_EXIT:
            return None
        return End(signal=code & 0x7F) if code & 0x7F else End(status=code >> 8 & 0xFF)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)
