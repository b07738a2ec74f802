"""What ``status`` makes of what the daemon left: who is alive, what is read, what is bad enough to say so."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import pytest

from sleepwatch import config
from sleepwatch.daemon import status
from sleepwatch.daemon.lock import take_lock
from sleepwatch.daemon.status import STUCK_US, Level, Status, database_path, level, read_status, reasons
from sleepwatch.errors import StoreError
from sleepwatch.model import Gap, ScanResult, SourceInfo
from sleepwatch.store import open_store
from sleepwatch.store.daemon import Pulse, WatchRow, save_pulse, save_watches
from tests.support.nobody import as_nobody, only_root
from tests.support.results import HANG, LIFE

NOW_US = 1_800_000_000_000_000
SECOND = 1_000_000
DAY = 86_400 * SECOND
PULSE = Pulse(pid=4711, version="1.2.3", started_us=NOW_US - 3600 * SECOND, beat_us=NOW_US - 4 * SECOND)
SOURCE = WatchRow(source="/var/log/llama.log", state="following", since_us=NOW_US - 3600 * SECOND, offset=10)
OPEN = msgspec.structs.replace(HANG, state="open", severity="critical")
GOOD = Status(database="a.db", now_us=NOW_US, running=True, pulse=PULSE, sources=(SOURCE,), gaps=(), open=())


def _told(**changes: object) -> tuple[Level, list[str]]:
    found = reasons(msgspec.structs.replace(GOOD, **changes))
    return level(found), [reason.words for reason in found]


def _pulse(**changes: object) -> Pulse:
    return msgspec.structs.replace(PULSE, **changes)


def _source(**changes: object) -> WatchRow:
    return msgspec.structs.replace(SOURCE, **changes)


def test_all_is_well() -> None:
    assert _told() == (Level.OK, [])


# -- the daemon ------------------------------------------------------------------------------------------------------


def test_nothing_runs() -> None:
    assert _told(running=False) == (
        Level.CRITICAL,
        ["nothing is running: pid 4711 ended without stopping, last seen 4.000 s ago"],
    )
    assert _told(running=False, pulse=_pulse(stopped_us=NOW_US - 60 * SECOND)) == (
        Level.CRITICAL,
        ["nothing is running: stopped 1 min 00 s ago"],
    )
    assert _told(running=False, pulse=None) == (
        Level.CRITICAL,
        ["nothing is running: no `sleepwatch run` has used this database"],
    )


def test_no_progress() -> None:
    assert _told(pulse=_pulse(beat_us=NOW_US - STUCK_US + 1)) == (Level.OK, [])
    assert _told(pulse=_pulse(beat_us=NOW_US - STUCK_US)) == (
        Level.CRITICAL,
        ["no progress: the last sign of life of pid 4711 was 2 min 00 s ago"],
    )


def test_a_clock_that_was_set_back_is_no_standstill() -> None:
    assert _told(pulse=_pulse(beat_us=NOW_US + DAY)) == (Level.OK, [])


def test_where_the_lock_cannot_be_seen_the_pulse_decides() -> None:
    assert _told(running=None) == (Level.OK, [])
    assert _told(running=None, pulse=_pulse(beat_us=NOW_US - STUCK_US))[0] == Level.CRITICAL
    assert _told(running=None, pulse=_pulse(stopped_us=NOW_US))[0] == Level.CRITICAL
    assert _told(running=None, pulse=None)[0] == Level.CRITICAL


@pytest.mark.parametrize("pulse", [None, _pulse(beat_us=NOW_US - DAY, stopped_us=NOW_US - DAY)])
def test_one_that_has_the_lock_and_has_stored_nothing_yet_is_starting(pulse: Pulse | None) -> None:
    assert _told(pulse=pulse, sources=()) == (Level.WARNING, ["just starting"])


# -- what it watches -------------------------------------------------------------------------------------------------


def test_a_source_that_cannot_be_read_is_told_after_a_minute() -> None:
    for state in ("absent", "denied", "error"):
        assert _told(sources=(SOURCE, _source(state=state, since_us=NOW_US - 59 * SECOND))) == (Level.OK, [])
        assert _told(sources=(SOURCE, _source(source="/b", state=state, since_us=NOW_US - 60 * SECOND))) == (
            Level.WARNING,
            ["1 of 2 cannot be watched (/b)"],
        )


def test_a_server_whose_log_cannot_be_watched_is_told_at_once() -> None:
    row = WatchRow(source="llama-server on port 8080 (pid 3)", state="unwatched", reason="its lines go to /dev/null")
    assert _told(sources=(row,))[0] == Level.WARNING


def test_watching_nothing_is_told() -> None:
    assert _told(sources=()) == (Level.WARNING, ["nothing is watched"])


def test_of_a_daemon_that_is_gone_the_sources_are_not_told() -> None:
    assert _told(running=False, sources=(_source(state="absent"),))[1] == [
        "nothing is running: pid 4711 ended without stopping, last seen 4.000 s ago"
    ]


def test_many_names_are_cut_short_and_harmless_to_the_line() -> None:
    rows = tuple(_source(source=f"/a|\x1b{n}", state="absent") for n in range(4))
    assert _told(sources=rows)[1] == ["4 of 4 cannot be watched (/a\\x7c\\x1b0, /a\\x7c\\x1b1 and 2 more)"]


# -- what was missed, what is open -----------------------------------------------------------------------------------


def test_gaps() -> None:
    gap = Gap(source="a", cause="truncated")
    assert _told(gaps=(gap,)) == (Level.WARNING, ["1 gap in the last day"])
    assert _told(gaps=(gap, gap)) == (Level.WARNING, ["2 gaps in the last day"])


def test_open_incidents_the_worst_first() -> None:
    warning = msgspec.structs.replace(OPEN, severity="warning", kind="blind", server="b")
    info = msgspec.structs.replace(OPEN, severity="info")
    assert _told(open=(info,)) == (Level.OK, [])
    assert _told(open=(warning, info)) == (Level.WARNING, ["1 warning incident open (blind b)"])
    gaps = (Gap(source="a", cause="truncated"),)
    assert _told(open=(warning, OPEN, OPEN), gaps=gaps) == (
        Level.CRITICAL,
        [
            "2 critical incidents open (hung-request server, hung-request server)",
            "1 gap in the last day",
            "1 warning incident open (blind b)",
        ],
    )


# -- from the database -----------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    gap = Gap(source="server.log", cause="truncated", from_us=NOW_US - DAY, to_us=NOW_US - DAY)
    early = msgspec.structs.replace(gap, from_us=NOW_US - DAY - 1, to_us=NOW_US - DAY - 1)
    untimed = Gap(source="server.log", cause="truncated", from_offset=5)
    result = ScanResult(
        sources=(SourceInfo(source="server.log", envelope="bare", bytes=1),),
        lives=(LIFE,),
        incidents=(
            OPEN,
            msgspec.structs.replace(HANG, id="over", state="recovered"),
            msgspec.structs.replace(HANG, id="log-ended", state="unresolved"),
            msgspec.structs.replace(OPEN, id="maybe", confidence="possible"),
        ),
        gaps=(gap, early, untimed),
    )
    with open_store(path, now=lambda: NOW_US - SECOND) as store, store.transaction() as transaction:
        transaction.record(result)
        save_pulse(transaction, PULSE)
        save_watches(transaction, [SOURCE])
    return path


def test_what_is_read(database: Path) -> None:
    held = take_lock(database)
    read = read_status(database, NOW_US)
    os.close(held)
    assert read.running is True
    assert read.pulse == PULSE
    assert read.sources == (msgspec.structs.replace(SOURCE, seen_us=NOW_US - SECOND),)
    assert [(gap.cause, gap.from_us) for gap in read.gaps] == [("truncated", NOW_US - DAY)]
    assert [incident.id for incident in read.open] == [OPEN.id]
    assert read_status(database, NOW_US).running is False


def test_nothing_is_written(database: Path) -> None:
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in database.parent.iterdir()}
    read_status(database, NOW_US)
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in database.parent.iterdir()} == before


def test_while_the_daemon_writes(database: Path) -> None:
    with open_store(database) as store, store.transaction() as transaction:
        save_pulse(transaction, msgspec.structs.replace(PULSE, pid=1))
        assert read_status(database, NOW_US).pulse == PULSE


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        read_status(tmp_path / "none.db", NOW_US)


@only_root
def test_an_ordinary_user_who_may_read_the_file_can_use_it(database: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        path = directory / "a.db"
        path.write_bytes(database.read_bytes())
        held = take_lock(path)  # mode 0600, as the daemon makes it

        def look() -> str:
            read = read_status(path, NOW_US)
            return f"{read.running} {read.pulse.pid if read.pulse else None} {len(read.open)}"

        path.chmod(0o644)
        assert as_nobody(look) in ("True 4711 1", "None 4711 1")
        with open_store(path) as store, store.transaction() as transaction:  # while the daemon writes
            save_pulse(transaction, msgspec.structs.replace(PULSE, pid=1))
            assert as_nobody(look) in ("True 4711 1", "None 4711 1")
        path.chmod(0o600)
        assert "StoreError" in as_nobody(look)
        path.chmod(0o644)
        directory.chmod(0o700)
        assert f"the database {path} cannot be used: permission denied" in as_nobody(look)
        os.close(held)


# -- which database --------------------------------------------------------------------------------------------------


def test_the_configurations_database_then_ones_own_then_the_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, service = tmp_path / "own.db", tmp_path / "lib" / "sleepwatch.db"
    monkeypatch.setattr(config, "DEFAULT_PATH", tmp_path / "sleepwatch.toml")
    monkeypatch.setattr(status, "default_path", lambda: own)
    monkeypatch.setattr(status, "SERVICE_PATH", service)
    assert database_path() == own
    service.parent.mkdir()
    assert database_path() == service
    own.write_bytes(b"")
    assert database_path() == own
    (tmp_path / "sleepwatch.toml").write_text("[following]\npoll_seconds = 5")
    assert database_path() == own
    (tmp_path / "sleepwatch.toml").write_text("[database]\npath = 'there.db'")
    assert database_path() == tmp_path / "there.db"
