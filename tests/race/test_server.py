"""A server's start and end, with servers that are made: shell scripts that do one thing."""

from __future__ import annotations

import signal
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sleepwatch.errors import SleepwatchError
from sleepwatch.race.server import Launch, Server, find_program, group_lives, signals_held

Made = Callable[[str], Path]

READY = f"""exec {sys.executable} -u -c '
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
server = http.server.HTTPServer(("127.0.0.1", port), Handler)
LISTENING
server.serve_forever()
' "$@"
"""
SAYS_SO = 'print(f"main: server is listening on http://127.0.0.1:{port}")'


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Write an executable shell script."""

    def write(script: str) -> Path:
        path = tmp_path / "llama-server"
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


def launch(program: Path, **changes: object) -> Launch:
    return Launch(program=program, model=Path("model.gguf"), **{"start_seconds": 20.0, **changes})  # type: ignore[arg-type]


def start(program: Path, **changes: object) -> Server:
    """Start it; whatever comes of it, nothing may be left."""
    server = Server(launch(program, **changes))
    try:
        with server:
            pass
    finally:
        for life in server.lives:
            assert not group_lives(life.pid)
            assert life.end is not None
    return server


def test_the_command_line(tmp_path: Path) -> None:
    command = Launch(
        program=Path("/x/llama-server"),
        model=Path("/x/model.gguf"),
        sleep_seconds=2,
        context=4096,
        verbosity=4,
        arguments=("-ngl", "99"),
    ).command(18080)
    assert " ".join(command) == (
        "/x/llama-server -m /x/model.gguf --host 127.0.0.1 --port 18080 -np 1 -c 4096 --sleep-idle-seconds 2 "
        "--no-warmup -lv 4 -ngl 99"
    )


def test_a_ready_server_is_stopped_and_gone(made: Made) -> None:
    server = start(made(READY.replace("LISTENING", SAYS_SO)))
    assert server.lives[0].rc == -signal.SIGTERM
    assert [line.body for line in server.log.since(0)] == [
        b"main: server is listening on http://127.0.0.1:%d" % server.port
    ]


def test_one_that_does_not_stop_is_killed_with_its_children(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sleepwatch.race.server._STOP_SECONDS", 0.2)
    stubborn = f"trap '' TERM\nsleep 600 &\n{READY.replace('exec ', '').replace('LISTENING', SAYS_SO)}"
    server = start(made(stubborn))
    assert server.lives[0].rc == -signal.SIGKILL


def test_what_it_prints_is_kept_as_it_is(made: Made, tmp_path: Path) -> None:
    program = made(f"printf 'no line end\\r\\n\\033[0mcolour\\377'\necho\n{READY.replace('LISTENING', SAYS_SO)}")
    with (tmp_path / "kept").open("wb") as keep, Server(launch(program), keep=keep) as server:
        port = server.port
    listening = b"main: server is listening on http://127.0.0.1:%d\n" % port
    assert (tmp_path / "kept").read_bytes() == b"no line end\r\n\x1b[0mcolour\xff\n" + listening


def test_a_log_that_cannot_be_kept_is_told_and_the_server_goes_on(made: Made) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        server = Server(launch(made(READY.replace("LISTENING", SAYS_SO))), keep=full)
        with server:
            assert server.log.since(0)
    assert server.keep_problem is not None
    assert server.keep_problem.strerror == "No space left on device"


def test_settings_from_the_environment_do_not_reach_it(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "1")
    monkeypatch.setenv("LLAMA_LOG_FILE", "/dev/null")
    monkeypatch.setenv("LLAMA_API_KEY", "key")
    monkeypatch.setenv("LLAMA_CACHE", "kept")
    server = start(made(f"env | grep ^LLAMA\n{READY.replace('LISTENING', SAYS_SO)}"))
    assert [line.body for line in server.log.since(0)[:-1]] == [b"LLAMA_CACHE=kept"]


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        (
            "echo 'error: invalid argument: --sleep-idle-seconds'; exit 1",
            "this server has no sleep mode: it does not know --sleep-idle-seconds",
            "llama.cpp has it since build b7492 (December 2025)",
        ),
        (
            'echo "0.00.000.001 E srv  start: couldn\'t bind HTTP server socket, hostname: 127.0.0.1, port: 1"; exit 1',
            "the server could not bind port {port}: another program took it",
            "try again",
        ),
        (
            "echo 'main: exiting due to model loading error'; exit 1",
            "the server could not load the model model.gguf",
            "its last words: main: exiting due to model loading error",
        ),
        ("exit 3", "the server ended before it was ready, with exit code 3", "it printed nothing"),
        (
            "echo one; echo two; exit 0",
            "the server ended before it was ready, with exit code 0",
            "its last words: one; two",
        ),
        (
            "kill -SEGV $$",
            "the server ended before it was ready, with signal 11 (Segmentation fault)",
            "it printed nothing",
        ),
        (
            "kill -ILL $$",
            "the server died at start with signal 4 (Illegal instruction)",
            "it was built for a processor with more instructions",
        ),
    ],
)
def test_one_that_does_not_start_says_why(made: Made, script: str, message: str, hint: str) -> None:
    server = Server(launch(made(script)))
    with pytest.raises(SleepwatchError) as raised, server:
        pass
    assert raised.value.message == message.format(port=server.port)
    assert raised.value.hint == hint
    assert not group_lives(server.pid)


def test_one_that_never_gets_ready(made: Made) -> None:
    with pytest.raises(SleepwatchError, match="not ready within 1 s") as raised:
        start(made("exec sleep 600"), start_seconds=1.0)
    assert raised.value.hint == "a large model may need longer: --start-timeout"


def test_one_whose_log_is_silent(made: Made) -> None:
    with pytest.raises(SleepwatchError, match="its log does not say that it listens"):
        start(made(READY.replace("LISTENING", "pass")))


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "llama-server"
    path.write_bytes(b"\x00\x01 not a program")
    with pytest.raises(SleepwatchError, match="llama-server is not executable"):
        find_program(str(path))
    path.chmod(0o755)
    with pytest.raises(SleepwatchError, match=r"the server cannot be run: .*Exec format error"):
        start(find_program(str(path)))
    with pytest.raises(SleepwatchError, match="was not found"):
        find_program(str(tmp_path / "nothing"))


def test_a_port_that_is_taken_is_refused_before_anything_starts(made: Made) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = Server(launch(made("exit 0"), port=port))
        with pytest.raises(SleepwatchError, match=f"port {port} cannot be used: Address already in use"), server:
            pass
    assert server.lives == []


def test_an_interrupt_during_the_start_leaves_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(port: int) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("sleepwatch.race.client.healthy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(made("exec sleep 600"))


def test_signals_are_held_and_then_delivered() -> None:
    reached = []

    def work() -> None:
        with signals_held():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end of the work")
        reached.append("what comes after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["the end of the work"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
