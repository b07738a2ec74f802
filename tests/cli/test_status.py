"""``sleepwatch status``: the line and the exit code a monitoring system reads, and what a person reads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from sleepwatch import __version__, clock
from sleepwatch.cli import main
from sleepwatch.daemon.lock import take_lock
from sleepwatch.model import Gap, ScanResult, SourceInfo
from sleepwatch.store import open_store
from sleepwatch.store.actions import Action, begin_action
from sleepwatch.store.daemon import Pulse, WatchRow, save_pulse, save_watches
from tests.support.results import HANG, LIFE

SECOND = 1_000_000
SOURCES = (SourceInfo(source="server.log", envelope="bare", bytes=1),)
# Service state, what is wrong, performance data: monitoring-plugins.org, plug-in development guidelines.
LINE = re.compile(
    r"SLEEPWATCH (OK|WARNING|CRITICAL|UNKNOWN): [^|]+ \| (\w+=\d+(?:s|B)?(?:;\d*)*)( \w+=\d+(?:s|B)?(?:;\d*)*)*"
)


def _run(database: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["status", "--db", str(database), *arguments])


def _store(database: Path, *, incidents: tuple[str, ...] = (), gaps: int = 0, beat_s: float = 1.0) -> None:
    now_us = clock.wall_us()
    with open_store(database) as store, store.transaction() as transaction:
        opened = [
            msgspec.structs.replace(HANG, id=f"{n}", state="open", severity=severity, opened_us=now_us)
            for n, severity in enumerate(incidents)
        ]
        lost = [Gap(source="server.log", cause=f"cause {n}", from_us=now_us, to_us=now_us) for n in range(gaps)]
        result = ScanResult(sources=SOURCES, lives=(LIFE,), incidents=tuple(opened), gaps=tuple(lost))
        transaction.record(result)
        beat_us = now_us - round(beat_s * SECOND)
        save_pulse(transaction, Pulse(pid=4711, version=__version__, started_us=beat_us, beat_us=beat_us))
        save_watches(
            transaction,
            [WatchRow(source="/var/log/a.log", state="following", since_us=beat_us, offset=12, unread=3, lives=1)],
        )


@pytest.fixture(autouse=True)
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock stands still."""
    monkeypatch.setattr(clock, "wall_us", lambda: 1_800_000_000 * SECOND)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A database that a run has locked."""
    database = tmp_path / "a.db"
    held = take_lock(database)
    yield database
    os.close(held)


@pytest.mark.parametrize(
    ("incidents", "gaps", "beat_s", "code", "words", "figures"),
    [
        ((), 0, 1, 0, "OK: 1 source watched, no incident open", (0, 0, 0, 1)),
        (("info",), 0, 1, 0, "OK: 1 source watched, no incident open", (0, 0, 0, 1)),
        ((), 2, 1, 1, "WARNING: 2 gaps in the last day", (0, 0, 2, 1)),
        (("warning",), 0, 1, 1, "WARNING: 1 warning incident open (hung-request server)", (0, 1, 0, 1)),
        (("critical",), 0, 1, 2, "CRITICAL: 1 critical incident open (hung-request server)", (1, 0, 0, 1)),
        ((), 0, 150, 2, "CRITICAL: no progress: the last sign of life of pid 4711 was 2 min 30 s ago", (0, 0, 0, 150)),
    ],
)
def test_the_first_line_and_the_exit_code(
    running: Path,
    incidents: tuple[str, ...],
    gaps: int,
    beat_s: float,
    code: int,
    words: str,
    figures: tuple[int, int, int, int],
) -> None:
    _store(running, incidents=incidents, gaps=gaps, beat_s=beat_s)
    result = _run(running)
    line = result.stdout.splitlines()[0]
    assert (result.exit_code, line.partition(" | ")[0]) == (code, f"SLEEPWATCH {words}")
    critical, warning, missed, silent = figures
    assert line.partition(" | ")[2] == (
        f"critical={critical};;0 warning={warning};0 gaps={missed};0 sources=1 undeliverable=0;0 unread=3B "
        f"silent={silent}s;;120"
    )
    assert LINE.fullmatch(line)


def test_nothing_runs(tmp_path: Path) -> None:
    _store(tmp_path / "a.db")
    result = _run(tmp_path / "a.db")
    assert result.exit_code == 2
    assert result.stdout.startswith("SLEEPWATCH CRITICAL: nothing is running: pid 4711 ended without stopping")


def test_no_database_is_unknown(tmp_path: Path) -> None:
    result = _run(tmp_path / "none.db")
    assert (result.exit_code, result.stderr) == (3, "")
    assert result.stdout.startswith(f"SLEEPWATCH UNKNOWN: there is no database at {tmp_path / 'none.db'}\n")
    result = _run(tmp_path / "none.db", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["status"] == "UNKNOWN"


def test_a_file_that_is_no_database_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("no database " * 100)
    assert _run(tmp_path / "a.db").exit_code == 3


def test_a_wrong_option_is_unknown_and_not_critical(tmp_path: Path) -> None:
    result = _run(tmp_path / "a.db", "--jsn")
    assert result.exit_code == 3
    assert result.stdout.startswith("SLEEPWATCH UNKNOWN: No such option '--jsn'")


def test_what_a_person_reads(running: Path) -> None:
    _store(running, incidents=("critical",), gaps=1)
    text = _run(running).stdout
    for words in (
        f"  db      {running}\n",
        "  run     pid 4711, version ",
        "  watched /var/log/a.log\n          following for 1.000 s, at byte",
        " 12, 3 bytes unread, 1 server life in progress\n",
        "UTC: server.log: cause 0\n",
        "  open    CRITICAL hung-request (confirmed) server since ",
    ):
        assert words in text


def test_a_daemon_of_another_version_is_told(running: Path) -> None:
    _store(running)
    with open_store(running) as store, store.transaction() as transaction:
        now_us = clock.wall_us()
        save_pulse(transaction, Pulse(pid=4711, version="0.0.1", started_us=now_us, beat_us=now_us))
    assert f"this is version {__version__}: restart it to use that" in " ".join(_run(running).stdout.split())


def test_as_json(running: Path) -> None:
    _store(running, incidents=("critical",), gaps=1)
    result = _run(running, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 2
    assert document["status"] == "CRITICAL"
    assert [reason["status"] for reason in document["reasons"]] == ["CRITICAL", "WARNING"]
    assert document["run"]["alive"] is True
    assert document["run"]["pid"] == 4711
    assert document["sources"][0]["offset"] == 12
    assert document["gaps"][0]["cause"] == "cause 0"
    assert document["incidents"][0]["kind"] == "hung-request"


def test_wakes_of_the_last_day_are_told(running: Path) -> None:
    _store(running, incidents=("critical",))
    now_us = clock.wall_us()
    with open_store(running) as store, store.transaction() as transaction:
        for ago_s, outcome in ((90_000, "timeout"), *((700 - n, "released") for n in range(6)), (5, None)):
            begin_action(
                transaction,
                Action(
                    incident="0", server="llama.service", mode="act", begun_us=now_us - ago_s * SECOND,
                    sent_us=now_us - ago_s * SECOND, outcome=outcome, waited_us=4_200_000 if outcome else None,
                    words="the request was taken up after 4.2 s in all" if outcome else None,
                ),
            )  # fmt: skip
    lines = _run(running).stdout.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("  wakes"))
    assert lines[begin] == "  wakes   7 in the last day, the latest:"
    told = " ".join(" ".join(lines).split())
    assert told.count("released llama.service: the request was taken up after 4.2 s in all [0]") == 4
    assert told.count("under way llama.service [0]") == 1
    document = json.loads(_run(running, "--json").stdout)
    assert [one["outcome"] for one in document["wakes"]] == ["released"] * 6 + [None]
    assert document["wakes"][0]["waited_s"] == 4.2


def test_the_help_tells_the_exit_codes() -> None:
    text = CliRunner().invoke(main, ["status", "--help"]).output
    for words in ("0  OK", "1  WARNING", "2  CRITICAL", "3  UNKNOWN"):
        assert words in text
