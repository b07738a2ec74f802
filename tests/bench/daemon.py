"""The daemon measured from outside: how soon a line is a stored incident, what it costs idle, what it keeps in memory.

``python tests/bench/daemon.py [--seconds 60] [--samples 50] [--lines 1000000]`` starts ``sleepwatch run`` for each.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.cases.made import log  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
SERVED = ROOT / "tests" / "corpus" / "b11368-traffic-lv3" / "server.log"


@contextmanager
def daemon(database: Path, logs: list[Path]) -> Iterator[int]:
    """A running daemon's process id, once it has looked at everything."""
    command = [sys.executable, "-m", "sleepwatch", "run", "--db", str(database)]
    for path in logs:
        command += ["--file", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: count(database, "watch") >= len(logs))
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def wait_for(holds: Callable[[], bool], *, seconds: float = 600, every: float = 0.001) -> None:
    """Look again and again until it holds. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("the daemon did not get there")
        time.sleep(every)


def count(database: Path, table: str) -> int:
    """The rows of a table; none while there is no such table."""
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def processor_seconds(pid: int) -> float:
    """Used by a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> float:
    """What a process holds in memory now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def latency(directory: Path, samples: int) -> list[float]:
    """Seconds from the write of the line that proves a hang to the stored incident."""
    script = "0 start\n1 serve 0\n"
    for n in range(samples):
        at, task = 10 * (n + 1), 4 * n + 4
        script += f"{at} sleep\n{at + 5} cancel {task}\n{at + 6} wake\n{at + 6.4} ready\n{at + 6.5} serve {task + 2}\n"
    path, database = directory / "server.log", directory / "latency.db"
    path.touch()
    took = []
    with daemon(database, [path]), path.open("ab", buffering=0) as file:
        for line in log(script).splitlines(keepends=True):
            known = count(database, "incident")
            start = time.monotonic()
            file.write(line)
            if b"cancel task" in line:
                wait_for(lambda known=known: count(database, "incident") > known)  # type: ignore[misc]
                took.append(time.monotonic() - start)
    return took


def idle(directory: Path, files: int, seconds: float) -> float:
    """Processor seconds a minute with so many logs that nobody writes."""
    logs = [directory / f"server-{n}.log" for n in range(files)]
    for path in logs:
        path.write_bytes(log("0 start\n1 serve 0\n2 sleep\n"))
    with daemon(directory / "idle.db", logs) as pid:
        time.sleep(5)  # what a start costs is not what idling costs
        before = processor_seconds(pid)
        time.sleep(seconds)
        return (processor_seconds(pid) - before) * 60 / seconds


def memory(directory: Path, lines: int) -> tuple[float, float]:
    """MiB resident when it has read a few lines, and when it has read so many more."""
    path, database = directory / "long.log", directory / "memory.db"
    data = SERVED.read_bytes()
    path.write_bytes(data)

    def read_up() -> bool:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as connection:
            unread = connection.execute('SELECT max(unread), max("offset") FROM watch').fetchone()
        return unread[0] == 0 and (unread[1] or 0) >= path.stat().st_size

    with daemon(database, [path]) as pid:
        wait_for(read_up, every=0.1)
        before = resident_mib(pid)
        with path.open("ab") as file:
            for _ in range(lines // data.count(b"\n")):
                file.write(data)
        wait_for(read_up, every=0.1)
        return before, resident_mib(pid)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--lines", type=int, default=1_000_000)
    options: Any = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sleepwatch-bench-") as name:
        room = Path(name)
        took = sorted(latency(room, options.samples))
        p99 = took[min(len(took) - 1, round(len(took) * 0.99))]
        print(f"line written -> incident stored: p50 {statistics.median(took) * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms")
        for files in (1, 200):
            place = room / str(files)
            place.mkdir()
            spent = idle(place, files, options.seconds)
            print(f"idle with {files} files: {spent:.2f} processor seconds a minute")
        before, after = memory(room, options.lines)
        print(f"resident: {before:.0f} MiB at first, {after:.0f} MiB after {options.lines:,} lines more")


if __name__ == "__main__":
    main()
