"""What entries say by their message ids, whatever language their texts are in: restarts, limits, jumps of the clock."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from sleepwatch.engine import Engine, Now
from sleepwatch.model import Incident, ScanResult
from sleepwatch.reader.journal import JournalLog
from sleepwatch.rules import load_incidents
from sleepwatch.scan import Scan, engine_words
from sleepwatch.sources.journal import Way, Which
from sleepwatch.sources.journal_open import open_journal
from sleepwatch.sources.journal_parts import Selection
from sleepwatch.sources.journal_units import Units
from tests.cases.made import timed
from tests.reader.reading import gate, rules
from tests.sources.journal.conftest import Make
from tests.sources.journal.making import FIRST_US, Entries, Entry, entry

UNIT = b"llama-tiny.service"
STARTED, EXITED = b"39f53479d3a045ac8e11786248231fbf", b"98e322203f7a4ed290d09fe03c09fe15"
RESTARTING, FAILED = b"5eb03494b6584870a536b337290809b3", b"be02cf6855d2428ba40df7e9d022f03d"
SLEEPS, WAKES = b"6bbd95ee977941e497c48be27c254128", b"8811e6df2a8e40f58a94cea26f8ebf14"
CLOCK_SET, OOMD = b"c7a787079b354eaaa9e77b371893cd27", b"d989611b15e44c9dbf31e3c81256e4ed"
SEGV = {"EXIT_CODE": b"killed", "EXIT_STATUS": b"11", "COMMAND": b"ExecStart"}
SERVED = "0 start\n1 serve 0\n"


def at(seconds: float, one: Entry) -> Entry:
    """The entry as received so many seconds after the first."""
    clock = round(seconds * 1_000_000)
    return one | {
        "__REALTIME_TIMESTAMP": b"%d" % (FIRST_US + clock),
        "__MONOTONIC_TIMESTAMP": b"%d" % (3_933_875_116 + clock),
    }


def process(number: int, script: str, *, started: float) -> Entries:
    """The lines of the unit's process of this number (its run)."""
    run = {"_PID": b"%d" % (40 + number), "_SYSTEMD_INVOCATION_ID": b"%032x" % number}
    return [at(started + (time or 0), entry(line.encode(), 0, **run)) for time, line in timed(script)]


def manager(seconds: float, message_id: bytes, number: int, **fields: bytes) -> Entry:
    """A word of PID 1's about the unit's run of this number."""
    return of_the_host(
        seconds, message_id, _PID=b"1", UNIT=UNIT, INVOCATION_ID=b"%032x" % number, _SYSTEMD_UNIT=b"init.scope",
        **fields,
    )  # fmt: skip


def of_the_host(seconds: float, message_id: bytes, **fields: bytes) -> Entry:
    """An entry of a program of systemd's, in a language nobody here reads."""
    words = "Ĝi okazis.".encode()
    own = {"_TRANSPORT": b"journal", "SYSLOG_IDENTIFIER": b"systemd", "_PID": b"2", "_SYSTEMD_UNIT": b"sd.service"}
    made = entry(words, 0) | own | {"MESSAGE_ID": message_id} | fields
    return at(
        seconds, {name: value for name, value in made.items() if name not in ("_STREAM_ID", "_SYSTEMD_INVOCATION_ID")}
    )


def scanned(make: Make, way: Way, path: Path, entries: Iterable[Entry]) -> ScanResult:
    work = Scan()
    which = Which(files=(str(make(path, list(entries))),))
    work.read_journal(which, Selection(units=Units(["llama-tiny"])), way=way)
    result = work.result()
    assert not result.failed
    return result


def verdicts(result: ScanResult) -> list[tuple[str, str, str]]:
    return [(one.kind, one.confidence, one.state) for one in result.incidents]


class Live:
    """A live engine on a journal."""

    def __init__(self, which: Which, way: Way) -> None:
        self.engine = Engine(engine_words(load_incidents()), live=True)
        self.standing: dict[str, Incident] = {}
        self._log = JournalLog(rules(), self._event, which.name, gate=gate())
        self._journal = open_journal(which, Units(["llama-tiny"]), way=way)

    def read(self) -> None:
        """All that is there."""
        self._journal.begin((), "head")
        while not self._journal.at_end:
            self._log.feed(self._journal.read(100))
        self._log.settle()
        self._journal.close()

    def tick(self, monotonic: float, wall: float) -> None:
        """The time, in seconds."""
        self._take(self.engine.tick(Now(round(monotonic * 1e6), FIRST_US + round(wall * 1e6))))

    def _event(self, event: object) -> None:
        self._take(self.engine.feed(event))  # type: ignore[arg-type]

    def _take(self, output: object) -> None:
        for one in output.transitions:  # type: ignore[attr-defined]
            if one.withdrawn:
                self.standing.pop(one.incident.id, None)
            else:
                self.standing[one.incident.id] = one.incident


def loop(deaths: int) -> Entries:
    """Deaths in a row before anything was served, then systemd gives up."""
    entries: Entries = []
    for number in range(1, deaths + 1):
        begin = number * 2.0
        entries += [
            manager(begin, STARTED, number, JOB_TYPE=b"start", JOB_RESULT=b"done"),
            *process(number, "0.002 init\n0.008 load\n", started=begin),
            manager(begin + 0.5, EXITED, number, **SEGV),
            manager(begin + 1.5, RESTARTING, number, N_RESTARTS=b"%d" % number),
        ]
    return [*entries, manager(deaths * 2.0 + 1.6, FAILED, deaths, JOB_TYPE=b"start", JOB_RESULT=b"failed")]


def test_what_systemd_gave_up_is_down_while_it_is_watched(make: Make, way: Way, tmp_path: Path) -> None:
    path = make(tmp_path / "a.journal", loop(5))
    live = Live(Which(files=(str(path),)), way)
    live.read()
    [one] = live.standing.values()
    assert (one.kind, one.count, one.state) == ("crash-loop", 5, "down")


@pytest.mark.parametrize("last", [RESTARTING, FAILED])
def test_a_start_that_fails_is_no_end_of_the_restarts(last: bytes, make: Make, way: Way, tmp_path: Path) -> None:
    """A Type=notify process that dies before it is ready fails its start, and is started again all the same."""
    entries = [one for one in loop(1) if one.get("MESSAGE_ID") not in (RESTARTING, FAILED)]
    entries.append(manager(2.6, FAILED, 1, JOB_TYPE=b"start", JOB_RESULT=b"failed"))
    if last == RESTARTING:
        entries.append(manager(3.5, RESTARTING, 1, N_RESTARTS=b"1"))
    live = Live(Which(files=(str(make(tmp_path / "a.journal", entries)),)), way)
    live.read()
    assert [one.state for one in live.standing.values()] == ["open"]


def test_a_run_that_wrote_nothing_is_not_the_one_before_it(make: Make, way: Way, tmp_path: Path) -> None:
    entries = [
        *process(1, SERVED, started=0),
        manager(2, EXITED, 1, **SEGV),
        manager(3, RESTARTING, 1, N_RESTARTS=b"1"),
        manager(3.1, EXITED, 2, EXIT_CODE=b"exited", EXIT_STATUS=b"127", COMMAND=b"ExecStart"),
    ]
    result = scanned(make, way, tmp_path / "a.journal", entries)
    [one] = result.incidents
    assert [proof.role for proof in one.evidence].count("exit") == 1


def test_the_pause_before_a_restart_is_no_life(make: Make, way: Way, tmp_path: Path) -> None:
    """Where the record of a death is lost, its moment is that of the next start less RestartSec=, as seen before."""
    seen = [
        *process(1, SERVED, started=0),
        manager(2, EXITED, 1, **SEGV),
        manager(32, RESTARTING, 1, N_RESTARTS=b"1"),
    ]
    lost = [*process(2, SERVED + "2.1 sleep\n", started=33), *process(3, SERVED, started=65.2)]
    result = scanned(make, way, tmp_path / "a.journal", [*seen, *lost])
    assert ("sleep-crash", "probable", "restarted") in verdicts(result)
    unknown = scanned(make, way, tmp_path / "b.journal", lost)
    assert verdicts(unknown) == [("crash", "possible", "restarted")]


def test_nothing_follows_from_wall_times_when_the_clock_was_set_between(make: Make, way: Way, tmp_path: Path) -> None:
    """An hour asleep, the clock set back by an hour, and a start: not a death as it fell asleep."""
    asleep, anew = process(1, SERVED + "2.1 sleep\n", started=0), process(2, SERVED, started=3)
    told = [*asleep, of_the_host(2.5, CLOCK_SET, REALTIME=b"%d" % FIRST_US), *anew]
    assert verdicts(scanned(make, way, tmp_path / "a.journal", told)) == [("crash", "possible", "restarted")]
    untold = scanned(make, way, tmp_path / "b.journal", [*asleep, *anew])
    assert verdicts(untold) == [("sleep-crash", "probable", "restarted")]


def test_a_host_that_slept_has_not_kept_its_server_waiting(make: Make, way: Way, tmp_path: Path) -> None:
    """The idle timer runs on a clock that stands still with the host: a death hours later can be its moment."""
    before = process(1, SERVED + "2.1 sleep\n10 wake\n10.4 ready\n10.41 serve 1\n", started=0)
    death = [manager(30_000, EXITED, 1, **SEGV), *process(2, SERVED, started=30_001)]
    slept = [of_the_host(11, SLEEPS, SLEEP=b"suspend"), of_the_host(29_999.5, WAKES, SLEEP=b"suspend")]
    assert verdicts(scanned(make, way, tmp_path / "a.journal", [*before, *slept, *death])) == [
        ("sleep-crash", "probable", "restarted")
    ]
    awake = scanned(make, way, tmp_path / "b.journal", [*before, *death])
    assert verdicts(awake) == [("crash", "confirmed", "restarted")]


def test_a_host_that_sleeps_hangs_nobody(make: Make, way: Way, tmp_path: Path) -> None:
    script = "0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n"
    entries = [*process(1, script, started=0), of_the_host(2.3, SLEEPS), of_the_host(30_000, WAKES)]
    live = Live(Which(files=(str(make(tmp_path / "a.journal", entries)),)), way)
    live.tick(100, 0)
    live.read()
    live.tick(101, 30_000.2)
    assert not live.standing
    live.tick(102.5, 30_002)
    assert [one.kind for one in live.standing.values()] == ["hung-request"]


def test_killed_for_memory_by_systemd_s_daemon(make: Make, way: Way, tmp_path: Path) -> None:
    entries = [*process(1, SERVED, started=0), manager(2, OOMD, 1, N_PROCESSES=b"1")]
    [one] = scanned(make, way, tmp_path / "a.journal", entries).incidents
    assert (one.kind, one.signal, one.reason) == ("crash", 9, "an unplanned end (signal 9 (out of memory))")
