"""The container file: what it copies is there, its commands can be run, and it calls a daemon healthy that is."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.system.machine import wait_for

ROOT = Path(__file__).parents[2]
FILE = ROOT / "packaging" / "container" / "Containerfile"
_KNOWN = {
    "FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD",
}  # fmt: skip


def _instructions() -> list[tuple[str, str]]:
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    found = [line.split(None, 1) for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()]
    return [(name, rest) for name, rest in found]


def _values(name: str) -> list[str]:
    return [rest for one, rest in _instructions() if one == name]


def test_it_holds_instructions_that_there_are() -> None:
    assert {name for name, _ in _instructions()} <= _KNOWN
    assert _instructions()[0][0] == "FROM"
    assert {rest.split()[0] for rest in _values("FROM")} == {"python:3.13-slim"}


def test_what_it_copies_is_there() -> None:
    stages = {words[2] for words in map(str.split, _values("FROM")) if len(words) == 3}
    for rest in _values("COPY"):
        first, *more = shlex.split(rest)
        if first.startswith("--from="):
            assert first.removeprefix("--from=") in stages
            continue
        for source in (first, *more[:-1]):
            assert (ROOT / source).exists(), source


def test_what_the_wheel_is_built_from_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = {Path(word).name for rest in _values("COPY") for word in shlex.split(rest)}
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], *project["project"]["license-files"], "pyproject.toml"}
    assert needed | {project["project"]["readme"]} <= copied


def test_its_commands_are_a_shells() -> None:
    for command in _values("RUN"):
        subprocess.run(["sh", "-n", "-c", command], check=True, timeout=20)


def test_it_does_not_run_as_root() -> None:
    assert _values("USER") == ["sleepwatch"]
    assert json.loads(_values("ENTRYPOINT")[0]) == ["sleepwatch"]


@pytest.mark.live  # a daemon that tests of `check` would find beside them
def test_only_a_daemon_that_lives_is_healthy(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "sleepwatch"
    program.parent.mkdir()
    # A database of its own: root's default one is that of a service which may run on this machine.
    program.write_text(f"""#!/bin/sh
exec env PYTHONPATH={ROOT} {sys.executable} -m sleepwatch "$@" --db {tmp_path}/x.db
""")
    program.chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    log = tmp_path / "server.log"
    log.write_text("")
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    check = json.loads(_values("HEALTHCHECK")[0].partition(" CMD ")[2])

    def healthy() -> bool:
        return subprocess.run(check, env=environment, capture_output=True, timeout=60).returncode == 0

    assert not healthy()
    daemon = subprocess.Popen([program, "run", "--file", log], env=environment, stdout=subprocess.DEVNULL)
    try:
        assert wait_for(healthy, 30)
    finally:
        daemon.terminate()
        daemon.wait(20)
    assert not healthy()
