"""The daemon on a journal: what it stores is what a scan finds, wherever it is killed; one incident per request."""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path

import pytest

from sleepwatch.config import FileSource, Following, Settings, UnitSource
from sleepwatch.daemon.service import Service
from sleepwatch.engine import Now
from sleepwatch.model import Incident
from sleepwatch.scan import scan
from sleepwatch.sources import journal_open
from sleepwatch.sources.journal import Way
from sleepwatch.store import open_store
from sleepwatch.store.daemon import checkpoints
from tests.daemon.driving import share_rules
from tests.sources.journal.conftest import Make
from tests.sources.journal.making import FIRST_US, Entries, Entry

DEADLINE_S = 30.0
LIVE = {"unresolved": "open", "down": "open"}


class Clock:
    """Goes as the entries do."""

    def __init__(self) -> None:
        self.us = 0

    def now(self) -> Now:
        return Now(1_000_000_000 + self.us, FIRST_US + self.us)


class Daemon:
    """A daemon on a journal, driven by hand."""

    def __init__(self, room: Path, database: Path, clock: Clock, *files: Path, units: tuple[str, ...] = ("llama*",)):
        self.clock = clock
        self.said: list[str] = []
        self.complained: list[str] = []
        self.service = Service(
            Settings(
                unit=tuple(UnitSource(name=name, directory=str(room)) for name in units),
                file=tuple(FileSource(path=str(path)) for path in files),
                following=Following(checkpoint_seconds=0.1),
            ),
            database,
            clock,
            say=self.said.append,
            complain=self.complained.append,
        )
        self.service.start()

    def read_all(self, lines: int) -> None:
        """Let it look until so many lines have come, in this and earlier calls, and have settled."""
        deadline = time.monotonic() + DEADLINE_S
        while self._lines() < lines:
            assert time.monotonic() < deadline, f"{self._lines()} of {lines} lines: {self.complained}"
            self.service.step()
            self.clock.us += 100_000
            assert self.service._notices is not None
            assert self.service._followers is not None
            self.service._notices.wait(0.2, self.service._followers.filenos())
        for _ in range(3):
            self.clock.us += 50_000
            self.service.step()

    def _lines(self) -> int:
        return sum(watch.lines for name, watch in self.service._watches.items() if name.startswith("journal:"))

    def kill(self) -> None:
        """Give back what the kernel would, and nothing else."""
        service = self.service
        assert service._store is not None
        assert service._lock is not None
        assert service._followers is not None
        assert service._notices is not None
        service._store.close()
        os.close(service._lock)
        service._followers.close()
        service._notices.close()


@pytest.fixture(autouse=True)
def one_way(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon takes libsystemd where it is there."""
    share_rules(monkeypatch)
    monkeypatch.setattr(journal_open, "has_native", lambda: way == "native")


def stored(database: Path) -> dict[str, tuple[str, ...]]:
    with open_store(database, read_only=True) as store:
        return {i.id: told(i) for i in store.incidents(possible=True)}


def told(incident: Incident) -> tuple[str, ...]:
    return incident.kind, incident.confidence, LIVE.get(incident.state, incident.state), incident.server


def scanned(path: Path) -> dict[str, tuple[str, ...]]:
    return {incident.id: told(incident) for incident in scan([path]).incidents}


def chunks(entries: Entries, *ends: int) -> list[list[Entry]]:
    bounds = [0, *ends, len(entries)]
    return [entries[begin:end] for begin, end in itertools.pairwise(bounds)]


@pytest.mark.parametrize("units", [("llama*",), ("llama-tiny", "llama-wide")])
def test_live_finds_what_a_scan_finds(units: tuple[str, ...], recorded: Entries, make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "j" / "system.journal", recorded[:1])
    daemon = Daemon(tmp_path / "j", tmp_path / "live.db", Clock(), units=units)
    for part, end in zip(chunks(recorded[1:], 100, 250, 251, 400), (101, 251, 252, 401, 490), strict=True):
        make(path, part)
        daemon.read_all(end)
    daemon.service.stop()
    assert stored(tmp_path / "live.db") == scanned(path)
    assert len([line for line in daemon.said if "sleep-crash" in line and line.startswith("opened")]) == 4


def test_a_kill_anywhere_changes_nothing(recorded: Entries, make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "j" / "system.journal", recorded[:60])
    clock, database = Clock(), tmp_path / "live.db"
    ends = [60, 61, 130, 207, 208, 300, 333, 450, 490]
    before = 0
    for at, end in enumerate(ends):
        daemon = Daemon(tmp_path / "j", database, clock)
        daemon.read_all(end - before)
        daemon.kill()
        with open_store(database, read_only=True) as store:
            (saved,) = checkpoints(store).values()
        place = json.loads(saved.file)
        assert place["realtime_us"] == int(recorded[end - 1]["__REALTIME_TIMESTAMP"])
        assert place["boot"] == "3208311b25654aa8aeeab7b051db82e3"
        assert place["seqnum"] == end
        before = end
        if at + 1 < len(ends):
            make(path, recorded[end : ends[at + 1]])
    assert stored(database) == scanned(path)


def test_a_unit_with_a_log_file_of_its_own_watched_twice_is_one(recorded: Entries, make: Make, tmp_path: Path) -> None:
    """The journal knows the exits, the file only the lines: one incident of each, with what both know."""
    path = make(tmp_path / "j" / "system.journal", recorded)
    log = tmp_path / "tiny.log"
    own = [one["MESSAGE"] for one in recorded if one.get("_SYSTEMD_UNIT") == b"llama-tiny.service"]
    log.write_bytes(b"\n".join(own) + b"\n")
    daemon = Daemon(tmp_path / "j", tmp_path / "live.db", Clock(), log)
    daemon.read_all(len(recorded))
    daemon.service.stop()
    everything = stored(tmp_path / "live.db")
    assert {key: one for key, one in everything.items() if one[1] != "possible"} == {
        key: one for key, one in scanned(path).items() if one[1] != "possible"
    }


def test_a_journal_that_vanishes_is_blindness(recorded: Entries, make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "j" / "system.journal", recorded[:20])
    daemon = Daemon(tmp_path / "j", tmp_path / "live.db", Clock())
    daemon.read_all(20)
    (tmp_path / "j").rename(tmp_path / "gone")
    daemon.kill()
    daemon = Daemon(tmp_path / "j", tmp_path / "live.db", daemon.clock)
    for _ in range(4):
        daemon.service.step()
        daemon.clock.us += 30_000_000
    (blind,) = [line for line in daemon.said if "blind" in line]
    assert f"journal:{tmp_path / 'j'} cannot be watched: reading it fails (no such directory)" in blind
    (tmp_path / "gone").rename(tmp_path / "j")
    make(path, recorded[20:40])
    daemon.read_all(20)
    assert any(line.startswith("recovered: ") and "blind" in line for line in daemon.said)
    daemon.service.stop()
