"""``sleepwatch sweep`` as a person uses it, on the real engine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sleepwatch.errors import SleepwatchError
from sleepwatch.race import client, prompt
from sleepwatch.race.server import Launch, Server
from sleepwatch.race.sweep import Plan, run
from sleepwatch.race.trial import SHORT, Placer, Trial
from tests.support import engine

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]


class Quiet:
    def stage(self, words: str) -> None:
        pass

    def trial(self, trial: Trial, done: int) -> None:
        pass


def arguments(directory: Path, shape: engine.ModelShape, tokens: int, *more: object) -> list[str]:
    server, model = engine.write_llama_server(directory), engine.model(shape, directory)
    fixed = ["--server", server, "--model", model, "--context", shape.context, "--prompt-tokens", tokens]
    return [sys.executable, "-m", "sleepwatch", "sweep", *map(str, [*fixed, *more])]


def sweep(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def running(directory: Path) -> list[str]:
    """The command lines of processes that name something in ``directory``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(directory) in words:
            found.append(words)
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(engine_directory: Path) -> Iterator[None]:
    """After every test, however it ended: no process, and nothing new among the temporary files."""
    ours = "sleepwatch-supervised-*"
    before = set(Path(tempfile.gettempdir()).glob(ours))
    yield
    assert running(engine_directory) == []
    assert set(Path(tempfile.gettempdir()).glob(ours)) == before


def wait_for(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_crashes_are_found_and_kept(engine_directory: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    options = ("--trials", 6, "--keep-logs", kept, "--json", "--bug-report", tmp_path / "report.md")
    done = sweep(arguments(engine_directory, engine.TINY, engine.CRASH_PROMPT_TOKENS, *options))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    counts = {row["result"]: row["count"] for row in found["rows"]}
    assert sum(counts.values()) == len(found["trials"]) == 6
    assert counts["crashed"] >= 1
    assert counts.keys() - {"crashed", "refused"}
    crashed = next(row for row in found["rows"] if row["result"] == "crashed")
    assert crashed["signals"] == [11]
    assert crashed["last_ms"] < 100
    assert found["prompt_tokens"] == pytest.approx(engine.CRASH_PROMPT_TOKENS, rel=0.1)
    assert found["prompt_counted"]
    assert found["server"]["build"].startswith("11549 ")
    assert found["server"]["sleep_after_ms"] > 950  # a busy machine makes it longer

    truth = lines(kept / "truth.jsonl")
    assert [trial["outcome"] for trial in truth] == [trial["outcome"] for trial in found["trials"]]
    lives = lines(kept / "lives.jsonl")
    assert [life["rc"] for life in lives].count(-11) == counts["crashed"]
    assert len(lives) == found["server"]["processes"]
    log = (kept / "server.log").read_bytes()
    assert log.count(b"listening on http://127.0.0.1:") == len(lives)
    meta = json.loads((kept / "meta.json").read_bytes())
    assert (meta["era"], meta["verbosity"], meta["logs"]) == ("C", 3, ["server.log"])
    assert meta["provable"] == {"hung": True, "crashed": False}

    report = (tmp_path / "report.md").read_text()
    assert "crashes the server" in report
    assert str(engine_directory) not in report

    again = sweep(arguments(engine_directory, engine.TINY, 1, "--keep-logs", kept))
    assert again.returncode == 2
    assert "holds the logs of another sweep" in again.stderr


def place_until(outcome: str, placer: Placer, aims_us: Iterable[int]) -> list[Trial]:
    """Place sends until one has this outcome: on a busy machine not every send comes to lie where it was aimed."""
    trials: list[Trial] = []
    for aim_us in aims_us:
        trials.append(placer.place(len(trials), aim_us))
        if trials[-1].outcome == outcome:
            return trials
    raise AssertionError([(trial.outcome, trial.offset_us) for trial in trials])


def placer_for(server: Server, tokens: int, *, patient: bool = False) -> tuple[Placer, int]:
    """What places long requests on this server, and how long one takes (µs)."""
    client.post(server.port, "/completion", SHORT, 10)
    text, _ = prompt.of_tokens(tokens, lambda text: client.count_tokens(server.port, text))
    placer = Placer(server, text, patient=patient, timeout_seconds=1.0)
    placer.end_of_task()
    reply = client.post(server.port, "/completion", {"prompt": text, "n_predict": 1}, 10)
    assert reply is not None
    assert placer.measure_sleep(10) is not None
    return placer, reply.latency_us


def test_a_hang_is_answered_when_a_second_request_comes(engine_directory: Path) -> None:
    with engine.start_real_server(engine_directory, engine.WIDE) as server:
        placer, takes_us = placer_for(server, engine.HANG_PROMPT_TOKENS, patient=True)
        aims = [-round(share * takes_us) for share in (0.8, 0.95, 0.65, 0.5) * 5]
        *_, hung = place_until("hung-then-answered", placer, aims)
    assert (hung.status, hung.is_sleeping) == (400, True)
    assert hung.latency_us > 1_000_000
    assert hung.offset_us < 0


def test_with_a_short_one_in_front_none_is_lost(engine_directory: Path) -> None:
    options = ("--trials", 4, "--warm", "--lo", "-60ms")
    done = sweep(arguments(engine_directory, engine.TINY, engine.CRASH_PROMPT_TOKENS, *options))
    assert done.returncode == 0, done.stderr
    assert "No send was lost with a 1-token completion in front: 4 sends" in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_prints_what_was_measured(
    engine_directory: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    kept = tmp_path / "kept"
    command = arguments(engine_directory, engine.TINY, engine.CRASH_PROMPT_TOKENS, "--keep-logs", kept)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: (kept / "truth.jsonl").exists() and (kept / "truth.jsonl").stat().st_size)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err == ""
    assert "Ended early after" in out
    assert "of 60 sends." in out
    assert json.loads((kept / "meta.json").read_bytes())["note"].endswith("; ended early")
    assert all(life["end"] is not None for life in lines(kept / "lives.jsonl"))


def test_an_interrupt_during_the_start(engine_directory: Path) -> None:
    command = arguments(engine_directory, engine.WIDE, engine.HANG_PROMPT_TOKENS)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(running(engine_directory)) == 2)  # the sweep, and its server
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == "sleepwatch: stopped before anything was measured\n"


def test_a_server_that_never_sleeps(engine_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sleepwatch.race.sweep._SLEEP_LATE_SECONDS", 1.0)
    launch = Launch(
        program=engine.write_llama_server(engine_directory),
        model=engine.model(engine.TINY, engine_directory),
        arguments=("--sleep-idle-seconds", "-1"),
    )
    with pytest.raises(SleepwatchError, match="did not fall asleep within 2 s although it was told"):
        run(Plan(launch=launch, prompt_tokens=1000), Quiet())


def test_a_model_that_does_not_load(engine_directory: Path, tmp_path: Path) -> None:
    model = tmp_path / "broken.gguf"
    model.write_bytes(bytes(1000))
    done = sweep([*arguments(engine_directory, engine.TINY, 1000), "--model", str(model)])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"sleepwatch: the server could not load the model {model}\n")


def test_a_model_that_is_not_there(engine_directory: Path, tmp_path: Path) -> None:
    done = sweep([*arguments(engine_directory, engine.TINY, 1000), "--model", str(tmp_path / "nothing.gguf")])
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing.gguf was not found" in done.stderr


def test_a_port_that_is_taken(engine_directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = sweep(arguments(engine_directory, engine.TINY, 1000, "--port", port))
    assert done.returncode == 2
    assert f"port {port} cannot be used: Address already in use" in done.stderr


def test_a_server_without_the_option(tmp_path: Path) -> None:
    old = tmp_path / "llama-server"
    old.write_text("#!/bin/sh\necho 'error: unknown argument: --sleep-idle-seconds' >&2\nexit 1\n")
    old.chmod(0o755)
    (tmp_path / "model.gguf").touch()
    command = [
        sys.executable,
        "-m",
        "sleepwatch",
        "sweep",
        "--server",
        str(old),
        "--model",
        str(tmp_path / "model.gguf"),
    ]
    done = sweep(command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "this server has no sleep mode" in done.stderr


def test_behind_a_shell_that_restarts_it(engine_directory: Path, tmp_path: Path) -> None:
    with (tmp_path / "server.log").open("wb") as keep:
        server = engine.start_real_server(engine_directory, supervisor="shell", keep=keep)
        with server:
            placer, takes_us = placer_for(server, engine.CRASH_PROMPT_TOKENS)
            trials = place_until("crashed", placer, [-takes_us // 2] * 10)
            after = placer.place(len(trials), 20_000)
    crashes = [trial for trial in trials if trial.outcome == "crashed"]
    assert (after.outcome, after.life) == ("answered", len(crashes))
    assert [life.rc for life in server.lives].count(-11) == len(crashes)
    assert all(life.end is not None for life in server.lives)
    assert len({life.pid for life in server.lives}) == len(server.lives)
    log = (tmp_path / "server.log").read_bytes()
    assert log.count(b" Segmentation fault ") == len(crashes)
