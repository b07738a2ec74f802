from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import engine
from tests.support.needs import need_module
from tests.system.machine import ROOT, Machine
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
def servers(machine: Machine, ports: dict[str, int]) -> Machine:
    """The machine with two llama-servers and the daemon as its units."""
    need_module("xllamacpp", "xllamacpp")
    need_module("gguf", "gguf")
    program = engine.write_llama_server(machine.share)
    for shape in (engine.TINY, engine.WIDE):
        engine.write_model(shape, machine.share / f"{shape.name}.gguf")
    assert program.exists()
    machine.add(_units(machine.share, ports))
    return machine


def _units(share: Path, ports: dict[str, int]) -> dict[str, str]:
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
    units["race-watch.service"] = _WATCH.format(root=ROOT, python=sys.executable, database="/var/lib/race.db")
    return units
