"""A real server that races, the real daemon beside it, and a real HTTP receiver: who lost a request is told of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sleepwatch.model import Incident
from sleepwatch.store import open_store
from tests.accuracy.live import Way, race, sleep_clock
from tests.support import engine
from tests.support.receivers import HttpReceiver
from tests.support.supervised import ShellServer

pytestmark = [pytest.mark.live, pytest.mark.slow]

WAIT_SECONDS = 90
RACES = 4
ROUNDS = 4
"""At most so many times so many races, of each kind, until one is lost."""
FREED_AFTER = 20.0
"""Seconds a hung request waits for its rescue: longer than a message about it takes to be sent."""
RESTARTED_AFTER = 6
"""Seconds until a server that died is started again, as a service manager's RestartSec=."""


class LateShell(ShellServer):
    """A shell that takes its time before it starts a server again; a race goes on when that is up."""

    def ended(self, seconds: float) -> int | None:
        code = super().ended(seconds)
        if code is not None and not self._stop.exists():
            self.revive()
        return code

    def _command(self) -> list[str]:
        shell, script = super()._command()
        late = f"\n[ -e {self._stop} ] || sleep {RESTARTED_AFTER}\ndone\n"
        path = Path(script)
        path.write_text(path.read_text().replace("\ndone\n", late))
        return [shell, script]


WAYS = {
    "hung": Way("wide", engine.WIDE, engine.HANG_PROMPT_TOKENS, LateShell, True, 5, FREED_AFTER),
    "crashed": Way("tiny", engine.TINY, engine.CRASH_PROMPT_TOKENS, LateShell, True, 4, FREED_AFTER),
}


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    pytest.importorskip("xllamacpp", reason="the extra `race` brings the engine")
    pytest.importorskip("gguf", reason="the extra `race` brings the writer of models")


def _until(holds: Callable[[], bool], words: Callable[[], str]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, words()
        time.sleep(0.05)


def _races(place: Path) -> Iterator[dict[str, Any]]:
    """Races until each kind of loss was seen."""
    missing = set(WAYS)
    for number in range(ROUNDS):
        for name, way in WAYS.items():
            if name in missing:
                kept = place / f"kept-{number}-{name}"
                kept.mkdir()
                race(way, RACES, place / "engine", kept)
                truth = [json.loads(line) for line in (kept / "truth.jsonl").read_bytes().splitlines()]
                yield from truth
                missing -= {one["outcome"].partition("-")[0] for one in truth}
    assert not missing, f"no request was lost in {ROUNDS} rounds: nothing is shown"


def test_a_hang_and_a_crash_are_told_and_so_are_their_ends(tmp_path: Path) -> None:
    database, said = tmp_path / "live.db", tmp_path / "said"
    with HttpReceiver() as http, said.open("wb") as out:
        urls, config = tmp_path / "urls.toml", tmp_path / "sleepwatch.toml"
        urls.write_text(f'chat = "{http.url}"\n')
        urls.chmod(0o600)
        config.write_text(
            f'[[file]]\npath = "{tmp_path}/kept-*/server.log"\n[database]\npath = "{database}"\n'
            f'[notify]\nurls_file = "{urls}"\nstorm_messages = 1000\nstorm_minutes = 0.01\n[[target]]\nname = "chat"\n'
            'kinds = ["hung-request", "sleep-crash"]\n'
        )
        command = [sys.executable, "-m", "sleepwatch", "run", "-c", str(config)]
        with subprocess.Popen(command, stdout=out, stderr=out) as daemon:
            try:
                _until(database.exists, lambda: "no database was made")
                truth = list(_races(tmp_path))
                hung = sorted(one["slept_clock_us"] for one in truth if one["outcome"].startswith("hung"))
                crashes = sum(one["outcome"] == "crashed" for one in truth)

                def all_told() -> bool:
                    told, found = _told(http), _found(database)
                    hangs = [one for one in found if one.kind == "hung-request"]
                    ended = [one for one in found if one.state != "open"]
                    return (
                        len(hangs) >= len(hung)
                        and len(found) - len(hangs) >= crashes
                        and all(told[one.id] for one in found)
                        and all(told[one.id][-1]["type"] == "success" for one in ended)
                    )

                _until(all_told, lambda: f"{_told(http)}\n{_found(database)}\n{said.read_text()}")
            finally:
                daemon.send_signal(signal.SIGTERM)
        assert daemon.returncode == 0, said.read_text()
    told, found = _told(http), _found(database)
    hangs = [one for one in found if one.kind == "hung-request"]
    assert sorted(clock for one in hangs if (clock := sleep_clock(one))) == hung
    assert [one.state for one in hangs] == ["recovered"] * len(hung)
    for one in found:
        heads = [message["message"].split()[0].rstrip(":") for message in told[one.id]]
        assert heads == (["NEW", "OVER"] if one.state != "open" else ["NEW"])
        assert len({message["title"] for message in told[one.id]}) == 1
    restarted = [one for one in found if one.kind == "sleep-crash" and one.state == "restarted"]
    assert restarted, "no server was started again after its crash"
    assert set(told) == {one.id for one in found}


def _told(http: HttpReceiver) -> dict[str, list[dict[str, Any]]]:
    """The messages about each incident, in the order in which they were received."""
    told = defaultdict(list)
    for document in list(http.received):
        told[document["message"].rpartition("Key: sleepwatch-")[2]].append(document)
    return told


def _found(database: Path) -> list[Incident]:
    with open_store(database, read_only=True) as store:
        return store.incidents(kinds=("hung-request", "sleep-crash"))
