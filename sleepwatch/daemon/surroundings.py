"""The llama-servers of this host, looked at from time to time beside their logs.

Which logs there are to watch, and which server works while its log stays silent: processor time is used, no line comes.
Then the log does not show what happens, whatever the reason (a logger that is gone, lines thrown away, another file).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from sleepwatch.daemon.finding import Finding, find_logs, places_of, running_servers
from sleepwatch.hosts.commandline import server_arguments
from sleepwatch.hosts.discovery import Discovered
from sleepwatch.hosts.logs import is_in_journal
from sleepwatch.hosts.processes import PROC
from sleepwatch.sources.journal import NAME as JOURNAL
from sleepwatch.sources.journal import Which
from sleepwatch.sources.journal_units import Units

NEWCOMERS_EVERY_US = 60_000_000
"""Processes that are new since the last look are looked at this often: are there servers among them?"""
FIND_EVERY_US = 600_000_000
"""Everything is looked at anew at least this often; that takes a tenth of a second."""
SAMPLE_EVERY_US = 10_000_000
WINDOW_US = 120_000_000
BUSY_US = 60_000_000
"""More processor time than this within the window is work."""

_Process = tuple[int, int]
"""Pid and start time: a process for good."""


class Surroundings:
    """Looks at the servers every ten seconds, and for new ones every minute. Times are a monotonic clock's."""

    def __init__(self, *, find: Callable[[Path], tuple[Discovered, ...]] = running_servers, proc: Path = PROC) -> None:
        self.finding = Finding()
        self._units: Units | None = None
        self._servers: tuple[Discovered, ...] = ()
        self._find = find
        self._proc = proc
        self._found_us: int | None = None
        self._newcomers_us = 0
        self._pids: set[str] = set()
        """All that ran at the last look for servers."""
        self._ended = False
        """A server has ended since."""
        self._sampled_us: int | None = None
        self._writers: dict[str, frozenset[_Process]] = {}
        """Who writes which log, by its real path."""
        self._samples: dict[str, deque[tuple[int, int]]] = {}
        """Of each log that has writers: when, and how much processor time they had used."""
        self._since: dict[str, int] = {}
        """Since when it is these writers."""
        self._ticks = os.sysconf("SC_CLK_TCK")

    def look(self, now_us: int) -> bool:
        """Look, if it is time to. Was it?"""
        if self._sampled_us is not None and now_us - self._sampled_us < SAMPLE_EVERY_US:
            return False
        self._sampled_us = now_us
        if self._is_time_to_find(now_us):
            self._found_us, self._ended = now_us, False
            self._look_for_servers(now_us)
        for path, processes in self._writers.items():
            self._sample(path, processes, now_us)
        return True

    def watch_units(self, units: Units | None, now_us: int) -> None:
        """The units whose lines are read from the system's journal; None: none are."""
        self._units = units
        self._note_writers(now_us)

    def has_writer(self, path: str) -> bool:
        """Whether a server was last seen to write this log, or into this journal."""
        return _real(path) in self._writers

    def silent_us(self, path: str, grown_us: int | None, now_us: int) -> int | None:
        """For how long this log's server has worked and written nothing; None where it does not work.

        ``grown_us``: when bytes were last found in the log.
        """
        real = _real(path)
        samples = self._samples.get(real)
        if not samples or samples[-1][0] - samples[0][0] < WINDOW_US or samples[-1][1] - samples[0][1] <= BUSY_US:
            return None
        silent = now_us - max(self._since[real], grown_us if grown_us is not None else self._since[real])
        return silent if silent >= WINDOW_US else None

    def _is_time_to_find(self, now_us: int) -> bool:
        if self._found_us is not None and now_us - self._newcomers_us < NEWCOMERS_EVERY_US:
            return False
        self._newcomers_us = now_us
        pids = {entry for entry in os.listdir(self._proc) if entry.isdigit()}
        new, self._pids = pids - self._pids, pids
        if self._found_us is None or self._ended or now_us - self._found_us >= FIND_EVERY_US:
            return True
        return any(self._is_server(pid) for pid in new)

    def _is_server(self, pid: str) -> bool:
        try:
            comm = (self._proc / pid / "comm").read_text(errors="replace").removesuffix("\n")
            argv = (self._proc / pid / "cmdline").read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return False  # ended again
        return server_arguments(argv.removesuffix("\0").split("\0"), comm) is not None

    def _look_for_servers(self, now_us: int) -> None:
        self._servers = self._find(self._proc)
        self.finding = find_logs(self._servers)
        self._note_writers(now_us)

    def _note_writers(self, now_us: int) -> None:
        servers = self._servers
        found: dict[str, set[_Process]] = {}
        by_pid = {server.process.pid: server for server in servers}
        for server in servers:
            router = by_pid.get(server.router.pid) if server.router is not None else None
            for path in self._written(router or server):
                found.setdefault(path, set()).add((server.process.pid, server.process.started))
        writers = {path: frozenset(processes) for path, processes in found.items()}
        for path in set(self._writers) - set(writers):
            del self._samples[path], self._since[path]
        for path, processes in writers.items():
            if self._writers.get(path) != processes:
                self._samples[path], self._since[path] = deque(), now_us
        self._writers = writers

    def _written(self, server: Discovered) -> set[str]:
        written = set()
        for target in places_of(server):
            if target.kind == "file" and target.path is not None and not target.deleted:
                written.add(os.path.realpath(target.path))
            elif is_in_journal(target) and self._units is not None and self._units.fits(target.unit):
                written.add(Which().name)
        return written

    def _sample(self, path: str, processes: frozenset[_Process], now_us: int) -> None:
        used = [self._processor_us(*process) for process in processes]
        samples = self._samples[path]
        if any(one is None for one in used):  # one has ended: the next look for servers tells who is left
            samples.clear()
            self._ended = True
            return
        samples.append((now_us, sum(one for one in used if one is not None)))
        while len(samples) > 1 and now_us - samples[1][0] >= WINDOW_US:
            samples.popleft()

    def _processor_us(self, pid: int, started: int) -> int | None:
        """Processor time used, of all threads together (``/proc/PID/stat``, proc(5)); None where it has ended."""
        try:
            text = (self._proc / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return None
        fields = text[text.rfind(")") + 1 :].split()
        if len(fields) < 20 or fields[0] in "ZX" or int(fields[19]) != started:
            return None
        return (int(fields[11]) + int(fields[12])) * 1_000_000 // self._ticks


def _real(path: str) -> str:
    return path if path.startswith(JOURNAL) else os.path.realpath(path)
