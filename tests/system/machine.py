"""A machine of its own for tests: this one's system, booted in a container over its own files, without a download.

What is written stays in a tmpfs. The network is shared, so clients run outside; its journal lies in a directory that
can be read from outside, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOOT_S = 40.0
STOP_S = 15.0

_TARGET = """\
[Unit]
Description=What these tests need
Requires=basic.target
After=basic.target
AllowIsolate=yes
"""


class CannotBootError(Exception):
    """This machine cannot boot another one in a container, and why."""


class Machine:
    """A booted machine. ``units`` are unit files to put there, by name; none of them is started.

    ``files`` is whose files it has: this machine's own, unless a system lies in another directory.
    """

    def __init__(self, room: Path, units: Mapping[str, str], files: Path = Path("/")) -> None:
        self._room = room
        self.root = room / "merged"
        self._console = room / "console.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0
        # One name in all: nspawn makes what it finds in one hierarchy in the other, too.
        group = f"sleepwatch-{uuid.uuid4().hex[:8]}"
        self._groups = [Path(base) / group for base in _HIERARCHIES if _is_group(base)]
        for name in ("up", "work", "merged"):
            (room / name).mkdir()
        _run(
            "mount", "-t", "overlay", "overlay", "-o", f"lowerdir={files},upperdir={room}/up,workdir={room}/work",
            str(self.root),
        )  # fmt: skip
        self.id = uuid.uuid4().hex
        (self.root / "etc/machine-id").unlink(missing_ok=True)
        (self.root / "etc/machine-id").write_text(self.id + "\n")
        shutil.rmtree(self.root / "var/log/journal", ignore_errors=True)
        (self.root / "var/log/journal").mkdir(parents=True)
        system = self.root / "etc/systemd/system"
        for name, text in {"race.target": _TARGET, **units}.items():
            (system / name).write_text(text)
        (system / "default.target").unlink(missing_ok=True)
        (system / "default.target").symlink_to("race.target")

    @property
    def journal(self) -> Path:
        """Where its journal lies."""
        return self.root / "var/log/journal"

    def boot(self) -> None:
        """Start it, and wait until its systemd is up. Raises CannotBootError."""
        bound = {str(ROOT), sys.prefix, sys.base_prefix, str(self._room / "share")}
        (self._room / "share").mkdir()
        for group in self._groups:
            group.mkdir()
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(
                [
                    "systemd-nspawn", f"--directory={self.root}", "--boot", "--register=no", "--keep-unit", "--quiet",
                    "--console=pipe", *(f"--bind={path}" for path in sorted(bound) if not path.startswith("/usr")),
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, preexec_fn=self._alone,
            )  # fmt: skip
        if not wait_for(self._is_up, BOOT_S):
            raise CannotBootError(f"no systemd came up within {BOOT_S:.0f} s:\n{self._last_words()}")

    @property
    def share(self) -> Path:
        """A directory that has this path inside, too."""
        return self._room / "share"

    def run(self, *command: str, check: bool = True, seconds: float = 60.0) -> str:
        """Run a command inside, for so long at most; what it prints."""
        inside = ["nsenter", f"--target={self._leader}", "--mount", "--uts", "--ipc", "--pid", "--net", "--cgroup"]
        done = subprocess.run(
            [*inside, "--", *command], capture_output=True, text=True, check=False, timeout=seconds, env={"PATH": _PATH}
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def add(self, units: Mapping[str, str]) -> None:
        """Further unit files, by name; none of them is started."""
        for name, text in units.items():
            (self.root / "etc/systemd/system" / name).write_text(text)
        self.run("systemctl", "daemon-reload")

    def shut_down(self) -> None:
        """End it, and leave nothing behind."""
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)  # nspawn passes it on as the signal for an orderly end
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        subprocess.run(["umount", "--recursive", "--lazy", str(self.root)], check=False)
        for group in self._groups:
            for directory, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise CannotBootError(f"systemd-nspawn ended with status {self._process.returncode}:\n{self._last_words()}")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        if not children:
            return False
        self._leader = int(children[-1])
        state = self.run("systemctl", "is-system-running", check=False).strip()
        return state in ("running", "degraded")

    def _alone(self) -> None:
        """In the container's own process, before it becomes one: a control group to itself, and an end with ours."""
        for group in self._groups:
            (group / "cgroup.procs").write_text("0")
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    def _last_words(self) -> str:
        return self._console.read_text(errors="replace")[-2000:]


_PR_SET_PDEATHSIG = 1
_HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
"""Where control groups are: version 2; version 1 with systemd's own; both."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Look again and again until it holds. Did it, in time?"""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def _is_group(base: str) -> bool:
    return (Path(base) / "cgroup.procs").exists()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBootError(f"{command[0]}: {(done.stderr or done.stdout).strip()}")


def tmpfs(room: Path) -> Path:
    """A tmpfs at ``room``. Raises CannotBootError."""
    room.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "tmpfs", str(room))
    return room


def remove_tmpfs(room: Path) -> None:
    """Give it back."""
    subprocess.run(["umount", "--lazy", str(room)], check=False)
    if room.is_dir() and not os.listdir(room):
        room.rmdir()
