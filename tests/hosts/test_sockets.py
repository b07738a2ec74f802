"""Listening sockets: the kernel's own tables of real sockets, and recorded lines."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sleepwatch.hosts.sockets import listening

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")


def test_real_sockets_are_found_by_inode(tmp_path: Path) -> None:
    path = str(tmp_path / "llama.sock")
    with socket.create_server(("127.0.0.1", 0)) as four, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path)
        unix.listen()
        inodes = {os.fstat(one.fileno()).st_ino: one for one in (four, unix)}
        found = {one.inode: one for one in listening(Path("/proc/self/net")) if one.inode in inodes}
        assert found[os.fstat(four.fileno()).st_ino].port == four.getsockname()[1]
        assert found[os.fstat(four.fileno()).st_ino].address == "127.0.0.1"
        assert found[os.fstat(four.fileno()).st_ino].uid == os.geteuid()
        assert (found[os.fstat(unix.fileno()).st_ino].address, found[os.fstat(unix.fileno()).st_ino].port) == (
            path,
            None,
        )


def test_recorded_lines(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    (tmp_path / "tcp").write_text(
        head
        + "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000        0 114059 1 0 100 0\n"
        + "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 114060 1 0 20 4\n"
    )
    (tmp_path / "tcp6").write_text(
        head + "   0: 00000000000000000000000001000000:26CB 00000000000000000000000000000000:0000 0A 00000000:00000000 "
        "00:00000000 00000000     0        0 5 1 0 100 0 0 10 0\n"
    )
    found = listening(tmp_path)
    assert [(one.address, one.port, one.inode, one.uid) for one in found] == [
        ("127.0.0.1", 8080, 114059, 1000),
        ("::1", 9931, 5, 0),
    ]
