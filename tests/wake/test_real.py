"""`wake` on the real server, asleep: plain, with a key, on a unix socket, for embeddings."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from sleepwatch.client.props import ask
from sleepwatch.client.target import parse_target
from sleepwatch.clock import SystemClock
from sleepwatch.race.log import ENTERING
from sleepwatch.race.server import Server
from sleepwatch.wake import attempt
from tests.support.engine import TINY, model, start_real_server, write_llama_server

pytestmark = pytest.mark.live

SECONDS = 60.0


def asleep(server: Server) -> None:
    assert server.log.wait_for(ENTERING, since=0, seconds=SECONDS)


def test_it_wakes_and_is_not_woken_again(engine_directory: Path) -> None:
    with start_real_server(engine_directory) as server:
        asleep(server)
        target = parse_target(f"127.0.0.1:{server.port}")
        first = attempt.wake(target, SystemClock(), seconds=SECONDS)
        second = attempt.wake(target, SystemClock(), seconds=SECONDS)
    assert (first.outcome, first.status) == (attempt.WOKE, 200)
    assert second.outcome == attempt.ALREADY_AWAKE


def test_with_a_key(engine_directory: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("right\n")
    with start_real_server(engine_directory, arguments=("--api-key-file", str(key))) as server:
        asleep(server)
        without = parse_target(f"127.0.0.1:{server.port}")
        refused = attempt.wake(without, SystemClock(), seconds=SECONDS)
        assert refused.outcome == attempt.REFUSED
        assert "Invalid API Key" in refused.words
        target = parse_target(f"127.0.0.1:{server.port}", key_file=key)
        assert attempt.wake(target, SystemClock(), seconds=SECONDS).status == 200


def test_for_embeddings(engine_directory: Path) -> None:
    with start_real_server(engine_directory, arguments=("--embedding",)) as server:
        asleep(server)
        target = parse_target(f"127.0.0.1:{server.port}", kind="embedding")
        assert attempt.wake(target, SystemClock(), seconds=SECONDS).status == 200


def test_a_refusal_wakes_too(engine_directory: Path) -> None:
    with start_real_server(engine_directory) as server:
        asleep(server)
        target = parse_target(f"127.0.0.1:{server.port}", kind="embedding")
        done = attempt.wake(target, SystemClock(), seconds=SECONDS)
    assert (done.outcome, done.status) == (attempt.WOKE, 501)


def test_on_a_unix_socket(engine_directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "llama.sock"
    command = [
        write_llama_server(engine_directory), "-m", model(TINY, engine_directory), "-c", "512",
        "--host", path, "--sleep-idle-seconds", "1", "--no-warmup",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            target = parse_target(f"unix://{path}")
            end = time.monotonic() + SECONDS
            while ask(target).asleep is not True:
                assert time.monotonic() < end
                time.sleep(0.05)
            assert attempt.wake(target, SystemClock(), seconds=SECONDS).status == 200
        finally:
            process.terminate()
