"""From a Debian with a sleeping llama-server to its first incident, as README.md tells it, with the time of each step.

    python -m tests.packaging.newcomer dist/sleepwatch_….deb [--suite bookworm]

`make newcomer` builds the package first. Needs what `make test-deb` needs, and the engine (the extra `race`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from pathlib import Path

from sleepwatch.store import open_store
from tests.packaging.fresh_debian import APT, contained, debian, need_programs
from tests.support import engine
from tests.system.machine import Machine, remove_tmpfs, tmpfs, wait_for
from tests.system.racing import Racer, free_port

UNIT = "llama-server.service"
DATABASE = "var/lib/sleepwatch/sleepwatch.db"
LOSS_S = 120.0
_UNIT = """\
[Service]
ExecStart={command}

[Install]
WantedBy=multi-user.target
"""
_EVIDENCE = """\
[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=
ExecStart={command} -lv 4
Restart=on-failure
RestartSec=1
"""


class Walk:
    """The path so far."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._began = self._last = time.monotonic()

    def step(self, words: str) -> None:
        now = time.monotonic()
        print(f"\n{now - self._began:6.1f} s  (+{now - self._last:.1f})  {words}", flush=True)
        self._last = now

    def type(self, *command: str, seconds: float = 60.0) -> None:
        """A command as a person types it, and what it prints."""
        share = str(self._machine.share)
        print(f"\n# {' '.join(command).replace(' '.join(APT), 'apt-get')}".replace(share, "."))
        printed = self._machine.run(*command, check=False, seconds=seconds).replace(share, "…")
        print(re.sub(r"^\(Reading database \.\.\. ?(\d+%)?\n", "", printed, flags=re.MULTILINE).rstrip())


def walk(machine: Machine, package: Path) -> None:
    """The whole path."""
    shape = engine.WIDE
    port = free_port()
    program = engine.write_llama_server(machine.share)
    engine.write_model(shape, machine.share / "model.gguf")
    command = f"{program} -m {machine.share}/model.gguf --port {port} -c {shape.context} -np 1 --sleep-idle-seconds 1"
    machine.add({UNIT: _UNIT.format(command=command)})
    machine.run("systemctl", "enable", "--now", UNIT)
    shutil.copy(package, machine.share)
    print(f"A minimal Debian with one unit, {UNIT}: {command.replace(str(machine.share), '…')}")
    path = Walk(machine)
    path.type(*APT, "install", "-y", f"{machine.share}/{package.name}", seconds=300)
    path.step("installed, and running")
    path.type("sleepwatch", "check")
    path.step("knows what is wrong")
    drop_in = machine.root / f"etc/systemd/system/{UNIT}.d/override.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(_EVIDENCE.format(command=command))
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", UNIT)
    path.type("sleepwatch", "check", "--summary")
    path.type("sleepwatch", "status")
    path.step("the server has a restart and logs arrivals")
    racer = Racer(UNIT, port, engine.HANG_PROMPT_TOKENS)
    racer.start()
    assert wait_for(lambda: racer.count("hung") >= 1, LOSS_S), racer.sent
    racer.enough.set()
    sent = next(one for one in racer.sent if one.outcome == "hung")
    path.step("a client that sends one request after each quiet second has given up on one")

    def found() -> bool:
        with open_store(machine.root / DATABASE, read_only=True) as store:
            return any(one.kind == "hung-request" and one.confidence != "possible" for one in store.incidents())

    assert wait_for(found, 60)
    path.step("the incident is there")
    with open_store(machine.root / DATABASE, read_only=True) as store:
        incident = next(one for one in store.incidents() if one.kind == "hung-request" and one.confidence != "possible")
    assert incident.opened_us is not None
    print(f"\n(It was sent {(incident.opened_us - sent.sent_us) / 1e3:.0f} ms before the server fell asleep.)")
    path.type("sleepwatch", "incidents", "show", incident.id[:8])
    path.type("sleepwatch", "status")
    path.step("read")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--base", type=Path, help="where the minimal system is, or shall be kept")
    given = parser.parse_args()
    need_programs()
    room = Path(tempfile.mkdtemp())
    machine = None
    try:
        tmpfs(room)
        (room / "base").mkdir()
        machine = Machine(room, {}, debian(given.suite, given.base or room / "base"))
        contained(machine.root, *APT, "update")
        contained(machine.root, *APT, "install", "-y", "systemd", "python3", "libgomp1")
        machine.boot()
        walk(machine, given.package.resolve())
    finally:
        if machine is not None:
            machine.shut_down()
        remove_tmpfs(room)


if __name__ == "__main__":
    main()
