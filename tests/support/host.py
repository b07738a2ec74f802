"""A made host: servers, the processor time they used, and time itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sleepwatch.daemon.surroundings import Surroundings
from sleepwatch.hosts.cgroups import Place
from sleepwatch.hosts.discovery import Discovered
from sleepwatch.hosts.logs import Target, output_target, targets
from sleepwatch.hosts.options import parse_arguments
from sleepwatch.hosts.processes import Output, ServerProcess

SECOND = 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")
START = 7
"""When every made process started, in clock ticks."""


def made_server(
    pid: int, log: str, *, router: Discovered | None = None, arguments: str = "-m x", unit: str | None = None
) -> Discovered:
    """A server that appends its log to this file, or whose lines go to the journal under a unit."""
    words = tuple(arguments.split())
    process = ServerProcess(
        pid=pid,
        parent=1,
        uid=0,
        started=START,
        arguments=words,
        options=parse_arguments(words),
        place=Place(unit=unit),
        router=router.process.pid if router is not None else None,
        output=Output("file", log, append=True),
        error=Output("file", log, append=True),
    )
    return Discovered(
        name=unit or f"llama-server pid {pid}",
        process=process,
        router=router.process if router is not None else None,
        targets=(Target(kind="journal", words=f"the journal, unit {unit}", unit=unit),)
        if unit is not None
        else targets(process.options, process, None, None),
        output=output_target(process, None, None) if process.is_router else None,
    )


def steps(seconds: int) -> Iterator[int]:
    """Time in steps: five seconds, as the daemon's poll is, and single ones towards the end."""
    while seconds > 0:
        step = 5 if seconds >= 15 else 1
        yield step
        seconds -= step


class MadeHost:
    """Its ``/proc`` holds what :class:`Surroundings` reads of a server; the servers themselves are told."""

    def __init__(self, directory: Path) -> None:
        self.proc = directory / "proc"
        self.proc.mkdir()
        self.log = str(directory / "a.log")
        Path(self.log).write_text("")
        self.servers: list[Discovered] = []
        self.finds = 0
        self.now_us = 1_000 * SECOND
        self.used_s: dict[int, float] = {}
        self.surroundings = Surroundings(find=self._find, proc=self.proc)

    def _find(self, proc: Path) -> tuple[Discovered, ...]:
        assert proc == self.proc
        self.finds += 1
        return tuple(self.servers)

    def start(self, *servers: Discovered) -> None:
        """These run from now on."""
        for server in servers:
            self.servers.append(server)
            self.use(server.process.pid, 0)

    def end(self, pid: int) -> None:
        """This one runs no more."""
        self.servers = [one for one in self.servers if one.process.pid != pid]
        for file in (self.proc / str(pid)).iterdir():
            file.unlink()
        (self.proc / str(pid)).rmdir()

    def use(self, pid: int, seconds: float, *, started: int = START, state: str = "S") -> None:
        """This process has used so much processor time in all, half of it in the kernel."""
        self.used_s[pid] = seconds
        ticks = round(seconds * TICKS / 2)
        directory = self.proc / str(pid)
        directory.mkdir(exist_ok=True)
        fields = [state, *["0"] * 10, str(ticks), str(ticks), *["0"] * 6, str(started), "0", "0"]
        (directory / "stat").write_text(f"{pid} (llama server) {' '.join(fields)}\n")
        (directory / "comm").write_text("llama-server\n")
        (directory / "cmdline").write_bytes(b"llama-server\0-m\0x\0")

    def work(self, seconds: float) -> None:
        """Every server uses so much more processor time."""
        for server in self.servers:
            self.use(server.process.pid, self.used_s[server.process.pid] + seconds)

    def run(self, seconds: int, *, load: float = 0.0) -> None:
        """Time passes; every server uses this much of a processor."""
        for step in steps(seconds):
            self.surroundings.look(self.now_us)
            self.now_us += step * SECOND
            self.work(step * load)
        self.surroundings.look(self.now_us)

    def silent_s(self, grown_us: int | None = None) -> float | None:
        """What is told of the log, in seconds."""
        silent = self.surroundings.silent_us(self.log, grown_us, self.now_us)
        return None if silent is None else silent / SECOND
