"""What an ordinary user meets, tried by root."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import pytest

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_nobody(task: Callable[[], str]) -> str:
    """What the task returns when an ordinary user runs it: in a child process that gives up being root."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, task().encode())
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        told = file.read().decode()
    os.waitpid(child, 0)
    return told
