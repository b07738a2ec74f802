"""A throwaway llama-server: its own process group, a free loopback port, every log line read as it is written.

Nothing of it outlives :meth:`Server.stop`, which runs whatever happened in between.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

import msgspec

from sleepwatch import clock
from sleepwatch.errors import SleepwatchError
from sleepwatch.printable import printable
from sleepwatch.race import client
from sleepwatch.race.log import LISTENING, NO_MODEL, NO_PORT, NO_SLEEP_MODE, Log

HOST = "127.0.0.1"

_STOP_SECONDS = 5.0
"""How long a server may take to stop by itself before it is killed."""

_FOREIGN_SETTINGS = ("LLAMA_ARG_", "LLAMA_LOG_", "LLAMA_API_KEY", "LLAMA_SERVER_")
"""Environment variables llama-server reads as options (llama.cpp common/arg.cpp): a sweep runs what it says it runs."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to start."""

    program: Path
    model: Path
    sleep_seconds: int = 1
    context: int = 512
    verbosity: int | None = None
    """``-lv``; None leaves the server's default."""
    port: int | None = None
    """None takes a free one."""
    start_seconds: float = 300.0
    """How long it may take until it is ready."""
    arguments: tuple[str, ...] = ()
    """Further options, handed through."""

    def command(self, port: int) -> list[str]:
        """The whole command line."""
        verbosity = [] if self.verbosity is None else ["-lv", str(self.verbosity)]
        return [
            *(str(self.program), "-m", str(self.model), "--host", HOST, "--port", str(port)),
            *("-np", "1", "-c", str(self.context), "--sleep-idle-seconds", str(self.sleep_seconds), "--no-warmup"),
            *verbosity,
            *self.arguments,
        ]


class LifeRecord(msgspec.Struct, kw_only=True):
    """One run of the server process: wall times in seconds, ``rc`` as the kernel told it (-11: killed by signal 11)."""

    pid: int
    start: float
    end: float | None = None
    rc: int | None = None


class Server:
    """One throwaway server. A context manager: entering starts it and waits until it is ready, leaving stops it."""

    reports_deaths = False
    """Whether the log itself says how a life ended, as behind a shell; else only :attr:`lives` does."""

    def __init__(self, launch: Launch, *, keep: IO[bytes] | None = None) -> None:
        """Prepare a server; ``keep`` gets every byte it writes, as it is written."""
        self.launch = launch
        self.log = Log()
        self.lives: list[LifeRecord] = []
        self.port = 0
        self.keep_problem: OSError | None = None
        """Why the log could no longer be kept."""
        self._keep = keep
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the server that runs now, or ran last."""
        return self.lives[-1].pid

    def start(self) -> None:
        """Start the first life.

        Raises:
            SleepwatchError: the program cannot be run, the port is taken, the model does not load, the process ends
                before it is ready, or it is not ready in time.

        """
        self.port = free_port() if self.launch.port is None else _unused(self.launch.port)
        self._spawn(self._command())
        self._await_ready(since=0)

    def revive(self) -> None:
        """Bring a dead server back, on the same port. Raises as :meth:`start`."""
        since = len(self.log)
        self._spawn(self._command())
        self._await_ready(since=since)

    def ended(self, seconds: float) -> int | None:
        """The exit code of the current life if it ends within ``seconds``: negative is the signal. None: it lives."""
        process = self._process
        if process is None:
            return self.lives[-1].rc
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        self._finish(code)
        return code

    def stop(self) -> None:
        """End the server and everything it started. Never raises for a server that is already gone."""
        with signals_held():
            process = self._process
            if process is None:
                return
            self._ask_to_stop(process)
            try:
                code = process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
            self._finish(code)

    def _command(self) -> list[str]:
        return self.launch.command(self.port)

    def _ask_to_stop(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)

    def _spawn(self, command: list[str]) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_SETTINGS)}
        with signals_held():  # a process nobody knows of could not be stopped
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as problem:
                raise SleepwatchError(
                    f"the server cannot be run: {printable(command[0])}: {problem.strerror}",
                    hint="--server takes the llama-server binary, built for this machine",
                ) from problem
            self._leave_no_core(self._process.pid)
            self._born(self._process.pid)
            assert self._process.stdout is not None
            self._reader = threading.Thread(
                target=self._read, args=(self._process.stdout,), name="server log", daemon=True
            )
            self._reader.start()

    def _born(self, pid: int) -> None:
        """A life begins."""
        self.lives.append(LifeRecord(pid=pid, start=clock.wall_us() / 1e6))
        self.log.begin_life()

    @staticmethod
    def _leave_no_core(pid: int) -> None:
        """A crash is expected here: it shall not leave a core file as large as the model."""
        import resource

        if hasattr(resource, "prlimit"):  # Linux
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))

    def _read(self, pipe: IO[bytes]) -> None:
        """Hand the server's bytes on until it has closed them."""
        descriptor = pipe.fileno()
        unfinished = b""
        while block := os.read(descriptor, 1 << 16):
            now = time.monotonic_ns()
            self._keep_block(block)
            *lines, unfinished = (unfinished + block).split(b"\n")
            for line in lines:
                self._line(line, now)
        if unfinished:
            self._line(unfinished, time.monotonic_ns())

    def _keep_block(self, block: bytes) -> None:
        if self._keep is None:
            return
        try:
            self._keep.write(block)
            self._keep.flush()
        except OSError as problem:
            # Reading goes on, or the server would stand still on a full pipe; the sweep learns of it after this send.
            self.keep_problem, self._keep = problem, None

    def _line(self, text: bytes, arrived_ns: int) -> None:
        """One line has come."""
        self.log.feed(text, arrived_ns)

    def _finish(self, code: int) -> None:
        """The process has ended: read its last words, note its end."""
        process, self._process = self._process, None
        if process is None:
            return
        _end_group(process.pid)
        assert self._reader is not None
        assert process.stdout is not None
        self._reader.join(_STOP_SECONDS)
        process.stdout.close()
        self._died(code)

    def _died(self, code: int) -> None:
        """A life has ended."""
        self.lives[-1].end = clock.wall_us() / 1e6
        self.lives[-1].rc = code

    def _await_ready(self, since: int) -> None:
        deadline = time.monotonic() + self.launch.start_seconds
        while time.monotonic() < deadline:
            if client.healthy(self.port):
                # Wait for its own word too: it says that the answer came from the server that was started here.
                if self.log.wait_for(LISTENING, since=since, seconds=2.0):
                    return
                if self.ended(0) is None:
                    raise SleepwatchError(
                        "the server answers, but its log does not say that it listens",
                        hint="its log must go to its standard output or error, at verbosity 3 or more",
                    )
            if (code := self.ended(0.02)) is not None:
                raise self._failure(since, code)
        raise SleepwatchError(
            f"the server was not ready within {self.launch.start_seconds:.0f} s",
            hint="a large model may need longer: --start-timeout",
        )

    def _failure(self, since: int, code: int) -> SleepwatchError:
        """Why a server ended before it was ready, from its own words."""
        if self.log.find(NO_SLEEP_MODE, since):
            return SleepwatchError(
                "this server has no sleep mode: it does not know --sleep-idle-seconds",
                hint="llama.cpp has it since build b7492 (December 2025)",
            )
        if self.log.find(NO_PORT, since):
            return SleepwatchError(
                f"the server could not bind port {self.port}: another program took it", hint="try again"
            )
        last = "; ".join(printable(line.body.decode(errors="replace")) for line in self.log.since(since)[-3:])
        if self.log.find(NO_MODEL, since):
            return SleepwatchError(
                f"the server could not load the model {printable(str(self.launch.model))}",
                hint=f"its last words: {last}",
            )
        how = f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"
        if code == -signal.SIGILL:
            return SleepwatchError(
                f"the server died at start with {how}", hint="it was built for a processor with more instructions"
            )
        return SleepwatchError(
            f"the server ended before it was ready, with {how}",
            hint=f"its last words: {last}" if last else "it printed nothing",
        )


def _end_group(group: int) -> None:
    """Kill what a process that has ended left behind in its group, and wait until it is gone."""
    deadline = time.monotonic() + _STOP_SECONDS
    while group_lives(group) and time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        time.sleep(0.005)


def group_lives(group: int) -> bool:
    """Whether any process of this group still runs; one that has ended and is not reaped yet does not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, _parent, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False


def free_port() -> int:
    """A loopback port nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _unused(port: int) -> int:
    # llama-server binds with SO_REUSEPORT (cpp-httplib's default): it would share a taken port silently, and half of
    # the sends would go to a server that is none of our business.
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError as problem:
            raise SleepwatchError(
                f"port {port} cannot be used: {problem.strerror}", hint="leave out --port to take a free one"
            ) from problem
    return port


def find_program(name: str) -> Path:
    """The executable ``name`` means: a path, or a name on PATH.

    Raises:
        SleepwatchError: there is none, or it is not executable.

    """
    found = shutil.which(name)
    if found is None:
        what = "is not executable" if os.path.exists(name) else "was not found"
        raise SleepwatchError(f"the server {printable(name)} {what}", hint="--server takes the llama-server binary")
    return Path(found).absolute()


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Deliver SIGINT, SIGTERM and SIGHUP that come in here when it is over, so that it is done wholly or not at all.

    Outside the main thread Python runs no handlers, so there is nothing to hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)
