"""The Debian package, built for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.needs import missing, need_program

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"


def build_package(directory: Path) -> Path:
    """The package for this machine's own python3. Skips the test where this is no Debian."""
    need_program("dpkg-deb", "dpkg")
    if subprocess.run(["dpkg", "--search", os.path.realpath(PYTHON)], capture_output=True).returncode:
        missing(f"{PYTHON} as Debian packages it")
    tool = ROOT / "packaging" / "tools" / "deb.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--python", PYTHON, "--into", str(directory)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = directory.glob("sleepwatch_*.deb")
    return package
