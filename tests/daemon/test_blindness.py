"""The daemon never goes blind silently: every way not to see a server is an incident, and ends when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sleepwatch.config import FileSource, Settings
from sleepwatch.daemon.service import Service
from sleepwatch.daemon.watching import SILENT_AT_WORK_US, SILENT_US, LogWatch
from sleepwatch.engine import Now, Words
from sleepwatch.model import Incident
from sleepwatch.reader import Gate
from sleepwatch.rules import load
from sleepwatch.sources.follow import State
from sleepwatch.store import open_store
from sleepwatch.store.daemon import WatchRow, watches
from tests.support.host import SECOND, MadeHost, made_server, steps

WALL_US = 1_800_000_000 * SECOND
MINUTE = 60 * SECOND

# Recorded: a server that starts, sleeps, is woken, and works on its first request.
_RECORDED = (
    (Path(__file__).parents[1] / "corpus" / "b11368-default-gaveup" / "server.log").read_bytes().splitlines(True)
)
AWAKE = b"".join(_RECORDED[:8])
ASLEEP = b"".join(_RECORDED[:10])
AT_WORK = b"".join(_RECORDED[:17])
assert b"processing task" in _RECORDED[16]
LINE = b"0.30.000.000 I srv  update_slots: all slots are idle\n"
"""Made."""


class Host:
    """A daemon on a made host, looked at second by second."""

    def __init__(self, directory: Path) -> None:
        self.made = MadeHost(directory)
        self.directory = directory
        self.log = Path(self.made.log)
        self.database = directory / "a.db"
        self.said: list[str] = []
        self.settings = Settings(file=(FileSource(path=str(self.log)),))
        self.service = self._service()

    def _service(self) -> Service:
        return Service(
            self.settings,
            self.database,
            self,
            say=self.said.append,
            complain=self.said.append,
            reload=lambda: self.settings,
            surroundings=self.made.surroundings,
        )

    def now(self) -> Now:
        return Now(self.made.now_us, WALL_US + self.made.now_us)

    def start(self, settings: Settings | None = None) -> None:
        self.settings = settings or self.settings
        self.service = self._service()
        self.service.start()

    def restart(self) -> None:
        self.service.stop()
        self.made.surroundings = type(self.made.surroundings)(find=self.made._find, proc=self.made.proc)
        self.start()

    def reload(self, settings: Settings) -> None:
        self.settings = settings
        self.service._take_over_settings()

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)

    def run(self, seconds: int, *, load: float = 0.0) -> None:
        for step in steps(seconds):
            self.service.step()
            self.made.now_us += step * SECOND
            self.made.work(step * load)

    def blind(self) -> list[Incident]:
        with open_store(self.database, read_only=True) as store:
            return store.incidents(kinds=["blind"])

    def states(self) -> list[str]:
        return [incident.state for incident in self.blind()]

    def sources(self) -> list[WatchRow]:
        with open_store(self.database, read_only=True) as store:
            return watches(store)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


# -- a log that cannot be read ---------------------------------------------------------------------------------------


def test_a_log_whose_name_is_not_utf8_goes_blind_like_any_other(host: Host) -> None:
    host.log = Path(os.fsdecode(os.fsencode(host.directory) + b"/caf\xe9.log"))
    host.write(AWAKE)
    host.start(Settings(file=(FileSource(path=str(host.log)),)))
    host.run(5)
    host.log.unlink()
    host.run(120)
    assert host.states() == ["open"]
    host.restart()
    host.write(AWAKE)
    host.run(5)
    assert host.states() == ["recovered"]


def test_a_log_that_vanishes_and_comes_back(host: Host) -> None:
    host.write(AWAKE)
    host.start()
    host.run(5)
    host.log.unlink()
    host.run(60)
    assert host.states() == []
    host.run(10)
    (incident,) = host.blind()
    assert (incident.state, incident.severity) == ("open", "warning")
    assert "there is no such file" in incident.summary
    host.write(AWAKE)
    host.run(5)
    (ended,) = host.blind()
    assert (ended.id, ended.state) == (incident.id, "recovered")
    assert ended.opened_us == incident.opened_us
    assert ended.closed_us is not None


def test_it_stays_the_same_incident_over_a_restart(host: Host) -> None:
    host.write(AWAKE)
    host.start()
    host.run(5)
    host.log.unlink()
    host.run(80)
    host.restart()
    host.run(80)
    assert host.states() == ["open"]
    host.write(AWAKE)
    host.run(10)
    assert host.states() == ["recovered"]


def test_a_log_that_is_no_longer_to_be_watched_is_not_missed(host: Host, tmp_path: Path) -> None:
    host.start()
    host.log.unlink()
    host.run(80)
    assert host.states() == ["open"]
    (tmp_path / "b.log").write_text("")
    host.reload(Settings(file=(FileSource(path=str(tmp_path / "b.log")),)))
    host.run(5)
    (incident,) = host.blind()
    assert (incident.state, incident.closed_us is not None) == ("recovered", True)
    assert [row.source for row in host.sources()] == [str(tmp_path / "b.log")]


def test_a_pattern_that_matches_nothing_is_told(host: Host, tmp_path: Path) -> None:
    host.start(Settings(file=(FileSource(path=str(tmp_path / "none" / "*.log")),)))
    host.run(10)
    (row,) = host.sources()
    assert (row.source, row.state, row.reason) == (str(tmp_path / "none" / "*.log"), "absent", "no file matches it")


def test_a_patterns_match_that_was_read_and_removed_is_not_missed(host: Host, tmp_path: Path) -> None:
    host.write(AWAKE)
    (tmp_path / "b.log").write_bytes(AWAKE)
    host.start(Settings(file=(FileSource(path=str(tmp_path / "*.log")),)))
    host.run(10)
    assert len(host.sources()) == 2
    host.log.unlink()
    host.run(700)
    assert host.states() == []
    assert [row.source for row in host.sources()] == [str(tmp_path / "b.log")]


def test_since_when_is_told_in_wall_time(host: Host) -> None:
    host.start()
    host.run(10)
    host.log.unlink()
    host.run(40)
    (row,) = host.sources()
    assert row.since_us is not None
    assert row.since_us == pytest.approx(host.now().wall_us - 40 * SECOND, abs=2 * SECOND)


# -- a log that grows unread -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def watch_log() -> Callable[[], LogWatch]:
    rules = load()
    gate = Gate(rules.literals)
    words = {"blind": Words(severity="warning", remedy="look")}
    return lambda: LogWatch("/a.log", rules, gate, words)


def _look(watch: LogWatch, at_s: int, unread: int, state: str = "following") -> list[str]:
    now = Now(at_s * SECOND, WALL_US + at_s * SECOND)
    watch.look_at_source(State(state, 0), unread, now, blind_us=MINUTE)
    found = watch.found().incidents.values()
    watch.stored()
    return [f"{one.state}: {one.reason}" for one in found]


def test_a_log_that_grows_unread(watch_log: Callable[[], LogWatch]) -> None:
    watch = watch_log()
    assert _look(watch, 10, 0) == []
    assert _look(watch, 20, 1_000) == []
    assert _look(watch, 79, 5_000) == []
    assert _look(watch, 80, 6_000) == ["open: it grows unread, 6000 bytes by now"]
    assert _look(watch, 100, 500) == []  # less than there was: it is being read again, but not yet to its end
    assert _look(watch, 110, 2_000) == []
    assert _look(watch, 120, 0) == ["recovered: the source is read again"]


def test_a_large_log_that_is_being_read_is_not_unread(watch_log: Callable[[], LogWatch]) -> None:
    watch = watch_log()
    for at_s, unread in enumerate(range(10_000_000, 0, -50_000)):
        assert _look(watch, at_s, unread) == []
    assert _look(watch, 1_000, 0) == []


def test_a_log_that_is_read_to_its_end_now_and_then_is_not_unread(watch_log: Callable[[], LogWatch]) -> None:
    watch = watch_log()
    for at_s in range(0, 600, 2):
        assert _look(watch, at_s, 100_000) == []
        assert _look(watch, at_s + 1, 0 if at_s % 40 == 0 else 200_000) == []


# -- a log that stays silent while its server works ------------------------------------------------------------------


def test_a_server_that_works_and_writes_nothing(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.start()
    host.run(SILENT_US // SECOND, load=1.0)
    assert host.states() == []
    host.run(20, load=1.0)
    (incident,) = host.blind()
    assert incident.state == "open"
    assert "its server is at work and has written nothing for 1" in incident.reason
    host.run(600, load=1.0)
    assert host.states() == ["open"]
    host.write(LINE)
    host.run(2)
    (ended,) = host.blind()
    assert (ended.id, ended.state, ended.reason) == (incident.id, "recovered", "its server writes again")


def test_it_ends_with_the_server(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.start()
    host.run(150, load=1.0)
    assert host.states() == ["open"]
    host.made.end(4)
    host.run(80)
    (ended,) = host.blind()
    assert (ended.state, ended.reason) == ("recovered", "its server has ended")


def test_it_stays_open_over_a_restart_of_the_daemon(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.start()
    host.run(150, load=1.0)
    host.restart()
    host.run(200, load=1.0)
    assert host.states() == ["open"]
    host.write(LINE)
    host.run(2)
    assert host.states() == ["recovered"]


def test_an_idle_server_has_nothing_to_say(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.start()
    host.run(400, load=0.01)
    assert host.states() == []


def test_a_sleeping_server_has_nothing_to_say_whatever_it_does(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(ASLEEP)
    host.start()
    host.run(400, load=1.0)
    assert host.states() == []


def test_a_request_in_work_may_take_half_an_hour_without_a_line(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AT_WORK)
    host.start()
    host.run(SILENT_AT_WORK_US // SECOND, load=1.0)
    assert host.states() == []
    host.run(20, load=1.0)
    assert host.states() == ["open"]


def test_a_server_whose_log_tells_of_no_request_is_seen_at_once(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.start()  # an empty log: -lv 0, or another file than the one it writes
    host.run(150, load=1.0)
    assert host.states() == ["open"]


def test_other_servers_do_not_count(host: Host) -> None:
    host.made.start(made_server(4, "/elsewhere.log"))
    host.write(AWAKE)
    host.start()
    host.run(300, load=1.0)
    assert host.states() == []


# -- nothing named: what is found ------------------------------------------------------------------------------------

NOTHING = Settings()


def test_the_logs_of_running_servers_are_found_and_read(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(ASLEEP)
    host.start(NOTHING)
    host.run(10)
    (row,) = host.sources()
    assert (row.source, row.state, row.offset, row.lives) == (host.made.log, "following", len(ASLEEP), 1)
    assert host.said == [f"watching {host.made.log}, the log of llama-server pid 4"]


def test_where_there_is_none_that_is_said_and_it_goes_on_looking(host: Host) -> None:
    host.start(NOTHING)
    host.run(200)
    assert host.said == ["no llama-server runs here that this user can see; it is looked for every minute"]
    assert host.sources() == []
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.run(80)
    assert [row.source for row in host.sources()] == [host.made.log]
    assert host.said[1:] == [f"watching {host.made.log}, the log of llama-server pid 4"]


def test_what_cannot_be_watched_is_said_once_and_told(host: Host, tmp_path: Path) -> None:
    host.made.start(made_server(4, str(tmp_path / "gone.log")), made_server(5, host.made.log))
    host.start(NOTHING)
    host.run(1_300)
    reason = f"its lines go to the file {tmp_path / 'gone.log'}, which cannot be read (no such file or directory)"
    assert host.said == [
        f"watching {host.made.log}, the log of llama-server pid 5",
        f"not watching llama-server pid 4: {reason}",
    ]
    assert {(row.source, row.state) for row in host.sources()} == {
        (host.made.log, "following"),
        ("llama-server pid 4", "unwatched"),
    }


def test_a_log_stays_watched_when_its_server_ends_and_after_a_restart(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.start(NOTHING)
    host.run(10)
    host.made.end(4)
    host.run(700)
    host.restart()
    host.write(LINE)
    host.run(700)
    (row,) = host.sources()
    assert (row.source, row.offset) == (host.made.log, len(AWAKE + LINE))
    assert host.states() == []


def test_a_log_that_is_gone_with_its_server_is_forgotten_without_an_incident(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.start(NOTHING)
    host.run(10)
    host.made.end(4)
    host.run(70)
    host.log.unlink()
    host.run(1_400)
    assert host.states() == []
    assert host.sources() == []


def test_a_running_servers_log_that_is_gone_is_an_incident(host: Host) -> None:
    host.made.start(made_server(4, host.made.log))
    host.write(AWAKE)
    host.start(NOTHING)
    host.run(10)
    host.log.unlink()
    host.run(80)
    assert host.states() == ["open"]


def test_naming_a_log_ends_the_finding(host: Host, tmp_path: Path) -> None:
    host.made.start(made_server(4, host.made.log))
    host.start(NOTHING)
    host.run(10)
    (tmp_path / "b.log").write_text("")
    host.reload(Settings(file=(FileSource(path=str(tmp_path / "b.log")),)))
    host.run(700)
    assert [row.source for row in host.sources()] == [str(tmp_path / "b.log")]
    host.reload(NOTHING)
    host.run(10)
    assert host.made.log in [row.source for row in host.sources()]


def test_the_unit_of_a_running_server_is_read_from_the_journal_and_stays(host: Host) -> None:
    host.made.start(made_server(4, "", unit="llama.service"))
    host.start(NOTHING)
    host.run(10)
    assert host.said == ["watching llama.service in the journal, the unit of llama.service (pid 4)"]
    assert [row.source for row in host.sources()] == ["journal:system"]
    host.made.end(4)
    host.run(800)
    assert [row.source for row in host.sources()] == ["journal:system"]
