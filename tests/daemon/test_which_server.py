"""Several servers at once, with the kernel's own word about each: real sockets of this process, logs written by hand.

The servers are fakes: they accept connections, read, and answer or not. Their lines are those of real ones. What is
shown is that each hang is found at the server whose client waits, and at no other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sleepwatch.clock import SystemClock
from sleepwatch.config import FileSource, Settings, Witness
from sleepwatch.daemon.service import Service
from sleepwatch.model import Incident
from sleepwatch.store import open_store
from sleepwatch.witness.observing import Witnesses
from tests.cases.made import log as made_log
from tests.daemon.driving import new_database
from tests.witness.test_sockets import Pair, _listening

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux"),
]


class Fake:
    """A server's port with one idle keep-alive client, and one more."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.listener = stack.enter_context(_listening())
        self.port: int = self.listener.getsockname()[1]
        self.idle, self.client = Pair(self.listener), Pair(self.listener)
        stack.callback(self.idle.close)
        stack.callback(self.client.close)
        self.idle.asks()
        self.idle.answers()

    def came(self) -> list[bytes]:
        """What was asked by others than these two clients."""
        self.listener.setblocking(False)
        asked = []
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    asked.append(connection.recv(1 << 16).split(b"\r\n")[0])
        return asked


@pytest.fixture(params=[False, True], ids=["kernel alone", "props too"])
def props(request: pytest.FixtureRequest) -> bool:
    """Whether servers may be asked themselves."""
    return bool(request.param)


@pytest.fixture
def run(tmp_path: Path, props: bool) -> Iterator[Callable[[Callable[[], bool]], None]]:
    """A daemon that watches all logs here until something holds."""
    (tmp_path / "logs").mkdir()
    settings = Settings(file=(FileSource(path=str(tmp_path / "logs" / "*.log")),))
    witnesses = Witnesses(Witness(props=props), find=lambda proc: ())
    service = Service(
        settings, new_database(tmp_path / "live.db"), SystemClock(), say=str, complain=str, witnesses=witnesses
    )
    started = False

    def until(holds: Callable[[], bool]) -> None:
        nonlocal started
        if not started:
            service.start()
            started = True
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end, found(tmp_path)
            wait_us = service.step()
            assert service._notices is not None
            service._notices.wait(min(wait_us / 1e6, 0.05))

    yield until
    service.stop()


def found(place: Path) -> list[Incident]:
    with open_store(place / "live.db", read_only=True) as store:
        return store.incidents(possible=True)


def hears(place: Path, seconds: float) -> Callable[[], bool]:
    """So long, counted from now."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def test_each_hang_is_found_at_its_server(
    run: Callable[[Callable[[], bool]], None], props: bool, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    with contextlib.ExitStack() as stack:
        first, second, one, two = (Fake(stack) for _ in range(4))
        served = "0 start port={port}\n1 serve 0\n"
        (logs / "first.log").write_bytes(made_log(served.format(port=first.port)))
        (logs / "second.log").write_bytes(made_log(served.format(port=second.port)).replace(b"0.00.0", b"0.00.1"))
        router = "0.001 init\n0.002 router\n"
        for model, child in (("one", one), ("two", two)):
            router += f"0.1 spawn {model} {child.port}\n"
            router += "".join(f"[{child.port}] {line}\n" for line in served.format(port=child.port).splitlines())
        (logs / "router.log").write_bytes(made_log(router))
        run(hears(tmp_path, 0.3))

        second.client.asks(b"x" * 1_000)
        two.client.asks(b"x" * 1_000)
        for name, port in (("first", None), ("second", None), ("router", one.port), ("router", two.port)):
            prefix = f"[{port}] " if port is not None else ""
            with (logs / f"{name}.log").open("ab") as file:
                file.write(made_log(f"{prefix}2.1 sleep\n"))
        began = time.monotonic()
        run(lambda: len(found(tmp_path)) >= 2)
        took = time.monotonic() - began
        run(hears(tmp_path, 0.5))
        assert {(i.server, i.confidence, i.state) for i in found(tmp_path)} == {
            ("second", "probable", "open"),
            ("router/two", "probable", "open"),
        }
        assert took >= 2.0
        asked = [b"GET /props HTTP/1.1"] if props else []
        assert [fake.came() for fake in (first, one, second, two)] == [[], [], asked, asked]
