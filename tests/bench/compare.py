"""How fast ``sleepwatch scan`` reads, beside ``rg`` and ``grep`` looking for the same literals in the same logs.

``python -m tests.bench.compare [--size small]``. Each command runs three times on a file that is already in the page
cache, and the run that took the least processor time counts. Speeds are decimal megabytes of log, start-up included:
per second of wall time, and per second of processor time, which says the same on a busy machine as on an idle one and
which the ratio is of. The peak is the largest resident size the kernel saw; for ``rg`` it includes the log itself,
which it maps into memory. What ``scan`` found is compared with what is in the log: a wrong answer is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import sleepwatch.rules
from tests.bench import logs

SIZES = {
    "full": (("verbose", 500), ("default", 200), ("tokens", 100)),
    "small": (("verbose", 150), ("default", 50), ("tokens", 25)),
}
"""Megabytes of each kind of log."""
RUNS = 3
OTHERS = ("envelopes", "journal")
"""Measurements of their own, beside this file."""
SLEEPWATCH = (sys.executable, "-m", "sleepwatch")


class Run(NamedTuple):
    """What one command took."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def measure(command: Sequence[str], output: Path) -> Run:
    """The cheapest of three runs of a command whose output goes to a file (grep stops early where that is /dev/null).

    Raises SystemExit where the command fails (rg and grep exit 1 when nothing matches, which here is a failure too).
    """
    best: Run | None = None
    for _ in range(RUNS):
        with output.open("wb") as out:
            began = time.perf_counter()
            process = subprocess.Popen(command, stdout=out, env={**os.environ, "LC_ALL": "C"})
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)[:300]}: exit status {process.returncode}")
        peak = usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
        run = Run(wall, usage.ru_utime + usage.ru_stime, peak)
        if best is None or run.cpu_s < best.cpu_s:
            best = run
    assert best is not None
    return best


def tool(name: str, package: str) -> str | None:
    """The path of a tool; where it is missing, it is installed if root runs this, else None and a notice."""
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(("apt-get", "install", "-y", "-qq", package), stdout=subprocess.DEVNULL, check=False)
    path = shutil.which(name)
    if path is None:
        print(f"({name} is not installed, so it is left out; Debian and Ubuntu: apt-get install {package})")
    return path


def read_once(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def found(document: Path, log: logs.Log) -> str:
    """What ``scan`` found, in words. Raises SystemExit where that is not what is in the log."""
    incidents = json.loads(document.read_bytes())["incidents"]
    hung = [i for i in incidents if i["kind"] == "hung-request" and i["confidence"] != "possible"]
    if len(hung) != log.hung or len(hung) != len(incidents):
        kinds = sorted(f"{i['confidence']} {i['kind']}" for i in incidents)
        raise SystemExit(f"{log.path}: {log.hung} hung requests are in it, scan found {kinds}")
    return f"{len(hung)} of {log.hung} hung requests found, nothing else"


def pattern(literals: Sequence[bytes]) -> str:
    """The literals as one extended regular expression, as a command's argument."""
    special = set(rb"\^$.[]|()*+?{}")
    return os.fsdecode(b"|".join(b"".join(b"\\%c" % c if c in special else b"%c" % c for c in one) for one in literals))


def compare(log: logs.Log, literals: Sequence[bytes], rg: str | None, grep: str | None, scratch: Path) -> None:
    """Measure all tools on one log and print the table."""
    read_once(log.path)
    words, document, counts = scratch / "literals", scratch / "document.json", scratch / "counts"
    words.write_bytes(b"\n".join(literals) + b"\n")
    file = str(log.path)
    scan = measure((*SLEEPWATCH, "scan", file, "--json", "--db", str(scratch / "incidents.db")), document)
    told = found(document, log)
    rows = [("sleepwatch scan --json --db", scan)]
    if rg:
        rows.append(("rg -c -F -f literals", measure((rg, "--no-config", "-c", "-F", "-f", str(words), file), counts)))
    if grep:
        rows.append(("grep -cE literals", measure((grep, "-cE", pattern(literals), file), counts)))
    print(f"\n{log.path.name}: {log.size / logs.MB:.0f} MB, {log.lines:,} lines, {log.requests:,} requests; {told}")
    table(log, rows)


def table(log: logs.Log, rows: Sequence[tuple[str, Run]]) -> None:
    """Print what each command took; the first is what the others are compared with."""
    own = rows[0][1].cpu_s
    print(f"{'':28}{'MB/s':>8}{'MB/CPU s':>10}{'ratio':>9}{'peak MiB':>10}")
    for name, run in rows:
        megabytes = log.size / logs.MB
        speeds = f"{megabytes / run.wall_s:8,.1f}{megabytes / run.cpu_s:10,.1f}"
        print(f"{name:28}{speeds}{own / run.cpu_s:8.2f}x{run.peak_mib:10.0f}", flush=True)


def main() -> None:
    """Make the logs where they are not there yet, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    size = parser.parse_args().size
    literals = sleepwatch.rules.load().literals
    machine = f"{os.cpu_count()} cores, {platform.machine()} {platform.system()}"
    print(f"{machine}, Python {platform.python_version()}; {len(literals)} literals")
    print(f"logs are kept in {logs.cache_directory()}", file=sys.stderr)
    rg, grep = tool("rg", "ripgrep"), tool("grep", "grep")
    with tempfile.TemporaryDirectory(prefix="sleepwatch-bench-") as scratch:
        version = measure((*SLEEPWATCH, "--version"), Path(scratch) / "version")
        print(f"sleepwatch --version: {version.wall_s * 1000:.0f} ms")
        for kind, megabytes in SIZES[size]:
            compare(logs.make(kind, megabytes), literals, rg, grep, Path(scratch))
    for other in OTHERS:
        print(flush=True)
        subprocess.run((sys.executable, "-m", f"tests.bench.{other}", "--size", size), check=True)


if __name__ == "__main__":
    main()
