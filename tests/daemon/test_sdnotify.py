"""The service manager's socket: what is said there, when, and by whose progress."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleepwatch.config import FileSource, Following, Settings
from sleepwatch.daemon.sdnotify import Notifier
from sleepwatch.daemon.service import Service
from sleepwatch.engine import Now

SECOND = 1_000_000


class Manager:
    """The manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        """Every field of every message since the last call."""
        fields = []
        while True:
            try:
                fields += self._socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return fields

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[Manager]:
    with tempfile.TemporaryDirectory() as directory:  # a socket's path may not be long
        address = f"{directory}/n" if request.param == "path" else f"@sleepwatch-test-{os.getpid()}"
        made = Manager(address)
        yield made
        made.close()


def _environment(manager: Manager, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.address, **more}


class Clock:
    """Both clocks, standing still."""

    def now(self) -> Now:
        return Now(100_000 * SECOND, 1_800_000_000 * SECOND)


def _service(tmp_path: Path, notifier: Notifier) -> Service:
    log = tmp_path / "a.log"
    log.write_text("")
    settings = Settings(file=(FileSource(path=str(log)),), following=Following(poll_seconds=600))
    return Service(settings, tmp_path / "a.db", Clock(), say=print, complain=print, notifier=notifier)


def test_fields_of_one_message(manager: Manager) -> None:
    Notifier(_environment(manager)).send("READY=1", "STATUS=watching")
    assert manager.heard() == ["READY=1", "STATUS=watching"]


def test_without_a_manager_nothing_is_said() -> None:
    notifier = Notifier({"WATCHDOG_USEC": "1000"})
    notifier.send("READY=1")
    assert notifier.watchdog_us is None


def test_a_manager_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).send("READY=1")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WATCHDOG_USEC": "60000000"}, 60_000_000),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60_000_000),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
        ({}, None),
    ],
)
def test_whether_the_manager_waits_for_signs_of_life(environment: dict[str, str], expected: int | None) -> None:
    assert Notifier({"NOTIFY_SOCKET": "/x", **environment}).watchdog_us == expected


def test_ready_progress_and_stopping(tmp_path: Path, manager: Manager) -> None:
    service = _service(tmp_path, Notifier(_environment(manager, WATCHDOG_USEC="60000000")))
    service.start()
    assert manager.heard() == ["READY=1", "STATUS=watching 1 source"]
    for _ in range(3):
        service.step()
        assert manager.heard() == ["WATCHDOG=1"]
    assert manager.heard() == []
    service.stop()
    assert manager.heard() == ["STOPPING=1"]


def test_it_looks_often_enough_for_the_manager_however_rarely_it_is_told_to_poll(
    tmp_path: Path, manager: Manager
) -> None:
    service = _service(tmp_path, Notifier(_environment(manager, WATCHDOG_USEC="3000000")))
    service.start()
    assert [service.step() for _ in range(3)][-1] <= 1_000_000
    service.stop()


def test_a_look_that_does_not_end_gives_no_sign_of_life(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = _service(tmp_path, Notifier(_environment(manager, WATCHDOG_USEC="60000000")))
    service.start()
    manager.heard()

    class StuckError(Exception):
        pass

    def hang(*_: object) -> None:
        raise StuckError  # as far as this look ever comes

    assert service._followers is not None
    monkeypatch.setattr(service._followers, "poll", hang)
    with pytest.raises(StuckError):
        service.step()
    assert manager.heard() == []
    monkeypatch.undo()
    service.stop()


def test_without_a_watchdog_no_sign_is_given(tmp_path: Path, manager: Manager) -> None:
    service = _service(tmp_path, Notifier(_environment(manager)))
    service.start()
    manager.heard()
    service.step()
    assert manager.heard() == []
    service.stop()
