from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import engine
from tests.support.needs import missing, need_module, need_program, need_root
from tests.system.machine import ROOT, CannotBootError, Machine, remove_tmpfs, tmpfs
from tests.system.racing import free_port

_SERVER = """\
[Unit]
Description=llama.cpp server ({name})
StartLimitIntervalSec=0

[Service]
ExecStart={program} -m {model} --port {port} -c {context} -np 1 --sleep-idle-seconds 1 --no-warmup
Restart=on-failure
RestartSec=0
LimitCORE=0
"""
_WATCH = """\
[Unit]
Description=sleepwatch
StartLimitIntervalSec=0

[Service]
WorkingDirectory={root}
Environment=PYTHONPATH={root}
ExecStart={python} -m sleepwatch run --unit llama* --db {database}
Restart=always
RestartSec=0
"""


@pytest.fixture(scope="session")
def ports() -> dict[str, int]:
    """Where the servers listen, by unit."""
    return {f"llama-{shape.name}.service": free_port() for shape in (engine.TINY, engine.WIDE)}


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> Iterator[Machine]:
    """A booted machine with two llama-servers and the daemon as its units; the same one for all tests."""
    need_root()
    need_program("systemd-nspawn", "systemd-container")
    need_program("nsenter", "util-linux")
    need_module("xllamacpp", "xllamacpp")
    need_module("gguf", "gguf")
    room = tmp_path_factory.mktemp("machine") / "room"
    booted = None
    try:
        tmpfs(room)
        booted = Machine(room, _units(room, ports))
        booted.boot()
        program = engine.write_llama_server(booted.share)
        for shape in (engine.TINY, engine.WIDE):
            engine.write_model(shape, booted.share / f"{shape.name}.gguf")
        assert program.exists()
        yield booted
    except CannotBootError as why:
        missing(f"a systemd booted in a container, which this machine cannot do: {why}")
    finally:
        if booted is not None:
            booted.shut_down()
        remove_tmpfs(room)


def _units(room: Path, ports: dict[str, int]) -> dict[str, str]:
    share = room / "share"
    units = {
        unit: _SERVER.format(
            name=shape.name,
            program=share / "llama-server",
            model=share / f"{shape.name}.gguf",
            port=port,
            context=shape.context,
        )
        for shape, (unit, port) in zip((engine.TINY, engine.WIDE), ports.items(), strict=True)
    }
    units["sleepwatch.service"] = _WATCH.format(root=ROOT, python=sys.executable, database="/var/lib/sleepwatch.db")
    return units
