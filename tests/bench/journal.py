"""How fast ``scan`` reads a journal, beside ``journalctl -o cat``, which prints its messages and nothing else.

``python -m tests.bench.journal [--size small]``. The lines are those of the made logs (tests/bench/logs.py), put into a
real journal by systemd-journal-remote with the fields journald gives a service's lines. Entries per second of processor
time, start-up included, the cheapest of three runs. What ``scan`` found is compared with what is in the log.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench import compare, logs

MEGABYTES = {"full": (("default", 40), ("verbose", 120)), "small": (("default", 5), ("verbose", 10))}
WRITER = "/lib/systemd/systemd-journal-remote"
START_US = 1_796_017_604_659_026
STEP_US = 101
_LINE_MAX = 48 << 10
"""journald's LineMax: longer lines come in pieces."""
_FIELDS = """\
__REALTIME_TIMESTAMP={now}
__MONOTONIC_TIMESTAMP={clock}
_BOOT_ID=3208311b25654aa8aeeab7b051db82e3
SYSLOG_FACILITY=3
PRIORITY=6
_UID=0
_GID=0
_SYSTEMD_SLICE=system.slice
_MACHINE_ID=3d1219c7c4c5404aaa1f6d2a48adfda4
_HOSTNAME=gpubox
_RUNTIME_SCOPE=system
_CAP_EFFECTIVE=fcecafff
_TRANSPORT=stdout
_STREAM_ID=663af43e81644b02a8045149e3f87925
SYSLOG_IDENTIFIER=llama-server
_PID=40
_COMM=llama-server
_EXE=/opt/llama/llama-server
_CMDLINE=/opt/llama/llama-server -m /srv/models/tiny.gguf --port 18202 --sleep-idle-seconds 300
_SYSTEMD_CGROUP=/system.slice/llama-tiny.service
_SYSTEMD_UNIT=llama-tiny.service
_SYSTEMD_INVOCATION_ID=39463157a54b4400ba607a0739bb3f96
{more}MESSAGE"""


def entries(log: Path) -> Iterator[bytes]:
    """The log's lines as exported entries."""
    now = START_US
    for line in log.read_bytes().split(b"\n"):
        pieces = [line[at : at + _LINE_MAX] for at in range(0, len(line), _LINE_MAX)]
        for number, piece in enumerate(pieces, 1):
            now += STEP_US
            more = "_LINE_BREAK=line-max\n" if number < len(pieces) else ""
            head = _FIELDS.format(now=now, clock=now - START_US + 3_933_875_116, more=more).encode()
            yield b"%b\n%b%b\n\n" % (head, len(piece).to_bytes(8, "little"), piece)


def write(log: Path, directory: Path) -> int:
    """Put a log into journal files; how many entries they have."""
    count = 0
    with subprocess.Popen(
        [WRITER, f"--output={directory / 'bench.journal'}", "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        for entry in entries(log):
            process.stdin.write(entry)
            count += 1
    if process.returncode:
        raise SystemExit(f"{WRITER}: exit status {process.returncode}")
    return count


def main() -> None:
    """Make the journals, measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=MEGABYTES, default="full")
    size = parser.parse_args().size
    if shutil.which("journalctl") is None or not Path(WRITER).exists():
        print("(journals are left out: journalctl or systemd-journal-remote is not installed)")
        return
    ways = ["native", "command"] if importlib.util.find_spec("systemd") is not None else ["command"]
    with tempfile.TemporaryDirectory(prefix="sleepwatch-bench-") as scratch:
        for kind, megabytes in MEGABYTES[size]:
            room = Path(scratch) / kind
            room.mkdir()
            log = logs.make(kind, megabytes, Path(scratch))
            count = write(log.path, room)
            document = Path(scratch) / "document.json"
            cat = compare.measure(("journalctl", "-D", str(room), "-o", "cat", "--no-pager"), Path(scratch) / "cat")
            rows = [("journalctl -o cat", cat)]
            for way in ways:
                scan = ("scan", "-D", str(room), "--journal-way", way, "--json", "--db", f"{scratch}/{kind}-{way}.db")
                rows.append((f"sleepwatch scan ({way})", compare.measure((*compare.SLEEPWATCH, *scan), document)))
                found = compare.found(document, log)
            print(f"\njournal of a {kind} log: {count:,} entries; {found}")
            print(f"{'':28}{'entries/CPU s':>15}{'of -o cat':>11}{'peak MiB':>10}")
            for name, run in rows:
                speed = f"{count / run.cpu_s:15,.0f}{cat.cpu_s / run.cpu_s:11.2f}"
                print(f"{name:28}{speed}{run.peak_mib:10.0f}", flush=True)


if __name__ == "__main__":
    main()
