"""Real processes that are called llama-server: small scripts that listen, write their log, and wait to be stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

SCRIPT = """\
#!{python} -IS
import os, signal, socket, subprocess, sys
def value(*names):
    for name in names:
        if name in sys.argv:
            return sys.argv[sys.argv.index(name) + 1]
port = value("--port")
if port is not None:
    server = socket.create_server(("127.0.0.1", int(port)))
log = value("--log-file")
kept = open(log, "w") if log else None
children = []
for model in filter(None, os.environ.get("FAKE_MODELS", "").split()):
    env = dict(os.environ, LLAMA_SERVER_ROUTER_PORT=port or "0", FAKE_MODELS="")
    env["FAKE_READY"] += model
    argv = [os.path.abspath(__file__), "-m", model + ".gguf", "--alias", model]
    argv += os.environ.get("FAKE_CHILD", "").split()
    pipe = subprocess.PIPE
    children.append(subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT))
print("0.00.001.000 I srv  llama_server: listening on http://127.0.0.1:%s" % port, file=sys.stderr, flush=True)
open(os.environ["FAKE_READY"], "w").close()
def stop(*_):
    for child in children:
        child.terminate()
        child.wait()
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
while True:
    signal.pause()
"""


def write_server(directory: Path, name: str = "llama-server") -> Path:
    """The program, under this name."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPT.format(python=os.path.realpath(sys.executable)))
    path.chmod(0o755)
    return path


def wait_for(path: Path, seconds: float = 20.0) -> None:
    """Until a file is there."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
    models: Sequence[str] = (),
    cwd: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that starts one of these servers, while it runs and is ready."""
    ready = directory / f"ready-{time.monotonic_ns()}"
    variables = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(directory),
        "FAKE_READY": str(ready),
        "FAKE_MODELS": " ".join(models),
        **(environment or {}),
    }
    process = subprocess.Popen(
        [str(word) for word in command],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd or directory,
        start_new_session=True,
    )
    try:
        wait_for(ready)
        for model in models:
            wait_for(Path(str(ready) + model))
        yield process
    finally:
        with ExitStack() as stack:
            stack.callback(process.wait)
            os.killpg(process.pid, signal.SIGTERM)


def program(name: str) -> str:
    """A program of this machine that a test needs."""
    found = shutil.which(name)
    assert found is not None, f"{name} is needed for this test"
    return found
