"""Reading takes the same memory whatever the size of the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import logs

SCAN = """
import sys
from sleepwatch.scan import scan
scan(sys.argv[1:])
for line in open("/proc/self/status"):
    if line.startswith("VmHWM:"):
        print(line.split()[1])
"""


def peak_mib(path: Path) -> float:
    """The largest resident size of a process that scans one file, as that process reads it off at its end."""
    done = subprocess.run((sys.executable, "-c", SCAN, str(path)), capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", logs.TOKENS)
def test_ten_times_the_log_takes_no_more_memory(kind: str, tmp_path: Path) -> None:
    small = peak_mib(logs.make(kind, 20, tmp_path).path)
    large = peak_mib(logs.make(kind, 200, tmp_path).path)
    assert large < 100
    assert large < small + 8
