"""`run --file` on the log of a real server that races: what the database holds is what the clients saw."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sleepwatch.model import Incident
from sleepwatch.store import open_store
from tests.accuracy import traffic
from tests.accuracy.followed import WAYS, follow
from tests.accuracy.live import Way, race, sleep_clock
from tests.support import engine
from tests.support.supervised import ShellServer

pytestmark = pytest.mark.live

RACES = 5
WAIT_SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    pytest.importorskip("xllamacpp", reason="the extra `race` brings the engine")
    pytest.importorskip("gguf", reason="the extra `race` brings the writer of models")


def _until(holds: Callable[[], bool], words: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, words
        time.sleep(0.05)


def _incidents(database: Path) -> list[Incident]:
    with open_store(database, read_only=True) as store:
        return [one for one in store.incidents() if one.kind in ("hung-request", "sleep-crash")]


@pytest.mark.parametrize("verbosity", [4, 5])
def test_a_racing_server(verbosity: int, tmp_path: Path) -> None:
    kept, database = tmp_path / "kept", tmp_path / "live.db"
    kept.mkdir()
    command = [sys.executable, "-m", "sleepwatch", "run", "--db", str(database), "--file", str(kept / "server.log")]
    with (tmp_path / "said").open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as daemon:
        try:
            _until(database.exists, "no database was made")
            way = Way("wide", engine.WIDE, engine.HANG_PROMPT_TOKENS, ShellServer, patient=True, verbosity=verbosity)
            race(way, RACES, tmp_path / "engine", kept)
            truth = [json.loads(line) for line in (kept / "truth.jsonl").read_bytes().splitlines()]
            hung = sorted(one["slept_clock_us"] for one in truth if one["outcome"].startswith("hung"))
            crashed = [one for one in truth if one["outcome"] == "crashed"]

            def all_found() -> bool:
                kinds = [one.kind for one in _incidents(database)]
                return kinds.count("hung-request") >= len(hung) and kinds.count("sleep-crash") >= len(crashed)

            _until(all_found, f"of {len(hung)} hung and {len(crashed)} crashed: {_incidents(database)}")
        finally:
            daemon.send_signal(signal.SIGTERM)
    assert daemon.returncode == 0, (tmp_path / "said").read_text()
    found = _incidents(database)
    assert sorted(clock for one in found if one.kind == "hung-request" and (clock := sleep_clock(one))) == hung
    assert sum(one.kind == "sleep-crash" for one in found) == len(crashed)


@pytest.mark.parametrize("way", [WAYS[0], WAYS[2]], ids=lambda way: way.name)
def test_a_racing_server_at_its_default_verbosity(way: Way, tmp_path: Path) -> None:
    """Each hang and each crash, none invented, in flight right where a look preceded: `make live-accuracy` in short."""
    found = follow(way, 6, tmp_path / "engine", tmp_path / "kept")
    assert found.compared.faults == []
    assert found.compared.hung_found == found.compared.hung
    assert found.compared.crashed_found == found.compared.crashed


def test_ordinary_traffic_is_no_incident(tmp_path: Path) -> None:
    found = traffic.run(15, tmp_path)
    assert found.sleeps >= 2
    assert found.seen_pending >= 1, "uploads that pause over a sleep's beginning were looked at"
    assert found.sure == []
