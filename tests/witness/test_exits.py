"""Real processes of this test end in every way; what is told of it depends on the kernel, and is never wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from sleepwatch.witness.exits import End, ProcessHandle

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux 5.3")


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def _tells_how() -> bool:
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return release >= (6, 15)


@pytest.mark.parametrize(
    ("script", "number", "end"),
    [
        ("import sys; sys.stdin.read()", signal.SIGSEGV, End(signal=11)),
        ("import sys; sys.stdin.read()", signal.SIGKILL, End(signal=9)),
        ("import sys; sys.exit(3)", None, End(status=3)),
        ("", None, End(status=0)),
    ],
    ids=["signal 11", "signal 9", "status 3", "status 0"],
)
def test_how_a_process_ended(script: str, number: int | None, end: End) -> None:
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        handle = ProcessHandle(process.pid)
        if number is not None:
            assert not handle.ended
            assert handle.end() is None
            process.send_signal(number)
        _until(lambda: handle.ended)
    assert handle.ended, "also when its parent has asked for it"
    if _tells_how():
        assert handle.end() == end
    else:
        assert handle.end() in (None, end)
    handle.close()


def test_a_process_that_is_no_child_of_ours() -> None:
    """Its parent is a shell, as where nobody supervises a server."""
    shell = "sleep 1000 & echo $!; wait $!; read ended"
    with subprocess.Popen(["sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        handle = ProcessHandle(pid)
        os.kill(pid, signal.SIGSEGV)
        _until(lambda: handle.ended)
        if _tells_how():
            _until(lambda: handle.end() == End(signal=11))
        parent.communicate("\n")
    handle.close()


def test_a_process_that_has_ended_already() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(OSError, match=r"(?i)no such process"):
        ProcessHandle(process.pid)


def test_a_system_without_such_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with pytest.raises(OSError, match="no descriptors"):
        ProcessHandle(os.getpid())
