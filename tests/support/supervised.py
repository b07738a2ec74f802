"""A llama-server behind a shell script that restarts it, as people run it without a service manager.

The shell writes its own word about each death (``Segmentation fault``) into the same log.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO

from sleepwatch import clock
from sleepwatch.race.server import Launch, LifeRecord, Server

_BEGINS = re.compile(rb"^0\.00\.\d\d\d\.\d\d\d I srv .*: initializing \.\.\.$")
"""The first line of a process from llama.cpp b9829 on."""


class ShellServer(Server):
    """One server after the other, behind one bash. Its log proves the deaths, so :attr:`reports_deaths` is true."""

    reports_deaths = True

    def __init__(self, launch: Launch, *, keep: IO[bytes] | None = None) -> None:
        super().__init__(launch, keep=keep)
        self._directory = Path(tempfile.mkdtemp(prefix="sleepwatch-supervised-"))
        self._codes = self._directory / "codes"
        self._stop = self._directory / "stop"
        self._dead = 0
        self._died_at = 0

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def revive(self) -> None:
        """Wait for the life the shell has begun already."""
        self._await_ready(since=self._died_at)

    def ended(self, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        while (code := self._next_code()) is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.005)
        if code < 0:
            word = self.log.wait_for(re.compile(rb"^.*: line \d+: +\d+ [A-Z]"), since=self._died_at, seconds=2.0)
            self._died_at = len(self.log) if word is None else word.index + 1
        self._note_death(code)
        return code

    def _command(self) -> list[str]:
        script = self._directory / "run.sh"
        script.write_text(
            "#!/bin/bash\n"
            "ulimit -c 0\n"
            "trap : TERM\n"
            f"while [ ! -e {self._stop} ]\n"
            "do\n"
            f"{shlex.join(self.launch.command(self.port))}\n"
            f"echo $? >> {self._codes}\n"
            "done\n"
        )
        return ["bash", str(script)]

    def _ask_to_stop(self, process: object) -> None:
        self._stop.touch()
        super()._ask_to_stop(process)  # type: ignore[arg-type]

    def _born(self, pid: int) -> None:
        self._shell = pid

    def _line(self, text: bytes, arrived_ns: int) -> None:
        if _BEGINS.match(text):
            child = Path(f"/proc/{self._shell}/task/{self._shell}/children").read_text().split()
            self.lives.append(LifeRecord(pid=int(child[0]) if child else 0, start=clock.wall_us() / 1e6))
            self.log.begin_life()
        super()._line(text, arrived_ns)

    def _died(self, code: int) -> None:
        while (last := self._next_code()) is not None:
            self._note_death(last)

    def _next_code(self) -> int | None:
        """The exit code of the first life whose end has not been noted; a signal is negative."""
        codes = self._codes.read_text().split() if self._codes.exists() else []
        if len(codes) <= self._dead:
            return None
        code = int(codes[self._dead])
        return 128 - code if code > 128 else code

    def _note_death(self, code: int) -> None:
        if self._dead < len(self.lives):
            self.lives[self._dead].end = clock.wall_us() / 1e6
            self.lives[self._dead].rc = code
        self._dead += 1
