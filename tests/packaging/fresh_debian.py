"""The Debian package in a fresh minimal Debian: installed without a compiler, booted, looked at, and purged.

    python -m tests.packaging.fresh_debian dist/sleepwatch_….deb [--suite bookworm]

Needs root, debootstrap, systemd-nspawn and a mirror that apt can reach. `make test-deb` builds it first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.system.machine import ROOT, Machine, remove_tmpfs, tmpfs, wait_for

RECORDED = ROOT / "tests" / "corpus" / "b11368-default-gaveup" / "server.log"
KEPT = "var/lib/sleepwatch"
COMPILERS = ("gcc", "cc", "g++", "clang", "tcc", "make", "ld", "rustc", "cargo")
APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "--no-install-recommends")
MIRROR = "http://deb.debian.org/debian"
# What apt and dpkg keep of everything that ever was there, and what a booted system writes by itself.
_NOT_OURS = (
    "var/lib/dpkg",
    "var/lib/apt",
    "var/cache",
    "var/log",
    "etc/ld.so.cache",
    "var/lib/systemd",
    "run",
    "tmp",
    "root",
)


class Steps:
    """Says what was done, and how long it took."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def done(self, words: str) -> None:
        """One step is over."""
        now = time.monotonic()
        print(f"{now - self._began:6.1f} s  {words}", flush=True)
        self._began = now


def _files(root: Path) -> set[str]:
    found = (str(path.relative_to(root)) for path in root.rglob("*"))
    return {one for one in found if not one.startswith(_NOT_OURS) and "__pycache__" not in one}


def need_programs() -> None:
    """End with a sentence where what this needs is not there."""
    needs = [("debootstrap", "debootstrap"), ("systemd-nspawn", "systemd-container")]
    missing = [f"{program} (apt-get install {package})" for program, package in needs if shutil.which(program) is None]
    if os.geteuid():
        missing.insert(0, "root")
    if missing:
        sys.exit(f"this needs {' and '.join(missing)}")


def debian(suite: str, base: Path) -> Path:
    """A minimal Debian in ``base``, unless one is there."""
    if not (base / "etc/debian_version").exists():
        subprocess.run(
            ["debootstrap", "--variant=minbase", suite, str(base), MIRROR], check=True, stdout=subprocess.DEVNULL
        )
    return base


def contained(root: Path, *command: str) -> str:
    """Run a command in a system that is not booted."""
    done = subprocess.run(
        ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", f"--directory={root}", *command],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def _mebibytes(root: Path, path: str) -> str:
    return contained(root, "du", "-sm", f"/{path}").split()[0] + " MiB"


def check(package: Path, suite: str, base: Path, room: Path) -> None:
    """Everything, in a system of this suite; ``base`` is where it is made, unless it is there."""
    steps = Steps()
    debian(suite, base)
    steps.done(f"debootstrap --variant=minbase: Debian {(base / 'etc/debian_version').read_text().strip()}")
    machine = Machine(room, {}, base)
    root = machine.root
    shutil.copy(package, root / "root" / package.name)
    shutil.copy(RECORDED, root / "root/server.log")
    # What the package needs of the distribution comes first, so that what is left afterwards is the package's own.
    contained(root, *APT, "update")
    needed = [
        one.split()[0] for one in contained(root, "dpkg-deb", "-f", f"/root/{package.name}", "Depends").split(", ")
    ]
    contained(root, *APT, "install", "-y", *dict.fromkeys(needed))
    before = _files(root)
    steps.done(f"apt-get install {' '.join(dict.fromkeys(needed))}")
    contained(root, *APT, "install", "-y", f"/root/{package.name}")
    steps.done(f"apt-get install {package.name}: {package.stat().st_size / 1e6:.1f} MB, "
               f"{_mebibytes(root, 'usr/lib/sleepwatch')} in /usr/lib/sleepwatch with its bytecode")  # fmt: skip
    there = [name for name in COMPILERS if contained(root, "sh", "-c", f"command -v {name} || true").strip()]
    assert not there, there
    print(f"          no {', '.join(COMPILERS)} there")
    print(f"          {contained(root, 'sleepwatch', '--version').strip()}")
    contained(root, "sleepwatch", "rules", "test")
    found = json.loads(contained(root, "sleepwatch", "scan", "--json", "/root/server.log"))["incidents"]
    assert [one["kind"] for one in found] == ["hung-request"] * 6
    steps.done("sleepwatch scan finds 6 hung requests in a recorded log")
    try:
        machine.boot()
        machine.run("systemctl", "start", "multi-user.target")  # what a machine of its own would come up with
        assert wait_for(
            lambda: machine.run("systemctl", "is-active", "sleepwatch", check=False).strip() == "active", 30
        )
        assert machine.run("systemctl", "is-enabled", "sleepwatch").strip() == "enabled"
        score = machine.run("systemd-analyze", "security", "--no-pager", "sleepwatch").strip().splitlines()[-1]
        assert wait_for(
            lambda: json.loads(machine.run("sleepwatch", "status", "--json", check=False))["run"]["alive"], 30
        )
        main_pid = machine.run("systemctl", "show", "--property=MainPID", "--value", "sleepwatch").strip()
        user = machine.run("stat", "--format=%U", f"/proc/{main_pid}").strip()
        steps.done(f"booted; the service is alive, as user {user}")
        print(f"          {score.lstrip('→ ')}")
        machine.run("apt-get", "-qq", "purge", "-y", "sleepwatch")
        assert machine.run("systemctl", "is-active", "sleepwatch", check=False).strip() != "active"
        left = sorted(_files(root) - before)
        ours = [one for one in left if "sleepwatch" in one]
        assert set(ours) <= {KEPT, *(f"{KEPT}/{name}" for name in ("sleepwatch.db", "sleepwatch.db.lock"))}, ours
        steps.done(f"apt-get purge leaves {', '.join('/' + one for one in ours)}")
        print("          and of others' files:", ", ".join(one for one in left if one not in ours) or "nothing")
    finally:
        machine.shut_down()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--base", type=Path, help="where the minimal system is, or shall be kept")
    given = parser.parse_args()
    need_programs()
    room = Path(tempfile.mkdtemp())
    try:
        tmpfs(room)
        (room / "base").mkdir()
        check(given.package.resolve(), given.suite, given.base or room / "base", room)
    finally:
        remove_tmpfs(room)


if __name__ == "__main__":
    main()
