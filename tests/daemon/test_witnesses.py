"""The daemon with a witness beside it (made, answered by hand): what is kept, and the same again from what was kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sleepwatch.cli import main as cli
from sleepwatch.config import Witness
from sleepwatch.model import Incident
from sleepwatch.replay import Replay
from sleepwatch.report.verify import verify
from sleepwatch.scan import Scan
from sleepwatch.store import open_store
from sleepwatch.store.witness import observations
from sleepwatch.witness import observing
from sleepwatch.witness.observing import Look, Witnesses
from sleepwatch.witness.sockets import ESTABLISHED, Connection
from tests.cases.made import log as made_log
from tests.daemon.driving import SECOND, Driven, feed, new_database, paced, scanned, stored
from tests.reader.reading import rules

SERVED = "0 start\n1 serve 0\n"
HANG = (
    SERVED
    + "2.1 sleep\n20 wake\n20.1 ready\n20.2 launch 2\n20.25 release 2\n20.3 launch 3\n20.35 release 3\n30 sleep\n"
)
GIVEN_UP = SERVED + "2.1 sleep\n8 cancel 2\n60 wake\n60.1 ready\n60.2 serve 4\n70 sleep\n"
DEATH = "| /opt/run.sh: line 6: 1519 Segmentation fault      llama-server -m x.gguf --sleep-idle-seconds 1\n"
CRASH = SERVED + "2.1 sleep\n" + DEATH


class Kernel:
    """A fake: what the kernel would show, by the driven clock. A connection hangs from just before the first sleep."""

    def __init__(self) -> None:
        self.driven: Driven | None = None
        self.began_us: int | None = None
        self.until_us: int | None = None
        self.looks = 0
        self.closed_us: int | None = None
        self.gone = False

    def look(self, port: int) -> Look:
        assert port == 8080
        assert self.driven is not None
        self.looks += 1
        now = self.driven.clock.monotonic_us
        self.began_us = self.began_us if self.began_us is not None else now - 40_000
        if self.gone:
            return Look(listening=False)
        ago = (now - self.began_us) // 1000
        if self.closed_us is not None and now >= self.began_us + self.closed_us:
            return Look()
        answered = self.until_us is not None and now >= self.began_us + self.until_us
        return Look(
            (
                Connection(
                    cookie=7, peer=("10.0.0.9", 40_000), local=("10.0.0.1", 8080), state=ESTABLISHED, uid=0, inode=9,
                    last_received_ms=ago, last_sent_ms=0 if answered else ago, bytes_received=80_000,
                    bytes_sent=300 if answered else 0, unread=0, not_sent=0,
                ),
            )
        )  # fmt: skip


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    one = Kernel()
    monkeypatch.setattr(observing, "look_at", one.look)
    return one


@pytest.fixture
def log(tmp_path: Path) -> Path:
    new_database(tmp_path / "live.db")
    path = tmp_path / "server.log"
    path.touch()
    return path


def follow(kernel: Kernel, log: Path, script: str) -> list[Incident]:
    """Follow a made log with this kernel beside it; the incidents."""
    witnesses = Witnesses(Witness(exits=False), find=lambda proc: ())
    with Driven(log.with_name("live.db"), [log], witnesses=witnesses) as driven:
        kernel.driven = driven
        driven.run_for(SECOND)
        feed(driven, log, paced(made_log(script)))
    assert driven.complained == []
    return incidents(log)


def incidents(log: Path) -> list[Incident]:
    with open_store(log.with_name("live.db"), read_only=True) as store:
        return store.incidents(possible=True)


def replayed(log: Path) -> dict[str, dict[str, Any]]:
    """The log read again, with what was observed."""
    with open_store(log.with_name("live.db"), read_only=True) as store:
        work = Scan(rules=rules(), watch=Replay(observations(store)))
    work.read_paths([str(log)])
    return scanned(work.result())


def test_a_hang_that_no_line_shows_is_opened_when_the_grace_is_over(kernel: Kernel, log: Path) -> None:
    kernel.until_us = 18_200_000
    (one,) = follow(kernel, log, HANG)
    assert (one.kind, one.confidence, one.state) == ("hung-request", "confirmed", "recovered")
    with open_store(log.with_name("live.db"), read_only=True) as store:
        first, *_, last = store.timeline(one.id)
        look = observations(store)[0]
    assert (first.to_state, first.confidence, last.confidence) == ("open", "probable", "confirmed")
    assert look.wall_us is not None
    assert look.text == "1 waiting for an answer"


@pytest.mark.parametrize("script", [HANG, GIVEN_UP, CRASH], ids=["recovered", "abandoned", "crashed"])
def test_what_was_kept_gives_the_same_again(script: str, kernel: Kernel, log: Path) -> None:
    kernel.until_us = 18_200_000 if script is HANG else None
    kernel.closed_us = 6_000_000 if script is GIVEN_UP else None
    found = follow(kernel, log, script)
    assert len(found) == 1
    assert found[0].confidence == "confirmed"
    assert replayed(log) == stored(log.with_name("live.db"))


def test_a_crash_says_how_many_were_in_flight(kernel: Kernel, log: Path) -> None:
    (one,) = follow(kernel, log, CRASH)
    assert (one.kind, one.in_flight) == ("sleep-crash", 1)
    assert "connection" in {e.role for e in one.evidence}


def test_the_log_alone_finds_less_and_takes_nothing_back(kernel: Kernel, log: Path) -> None:
    kernel.until_us = 18_200_000
    (one,) = follow(kernel, log, HANG)
    work = Scan(rules=rules())
    work.read_paths([str(log)])
    assert [i for i in work.result().incidents if i.confidence != "possible"] == []
    with open_store(log.with_name("live.db")) as store:
        store.record(work.result())
        assert [i.id for i in store.incidents()] == [one.id]


def test_what_happened_before_it_looked_on_is_not_taken_for_now(kernel: Kernel, log: Path) -> None:
    log.write_bytes(made_log(HANG))
    witnesses = Witnesses(Witness(exits=False), find=lambda proc: ())
    with Driven(log.with_name("live.db"), [log], witnesses=witnesses) as driven:
        kernel.driven = driven
        driven.run_for(SECOND)
        assert kernel.looks <= 1, "the sleep it is in now"
    assert incidents(log) == []


def test_a_look_that_comes_too_late_says_so(kernel: Kernel, log: Path) -> None:
    kernel.gone = True
    (one,) = follow(kernel, log, CRASH)
    assert (one.in_flight, one.in_flight_reason) == (None, observing.ENDED)


def test_it_can_be_turned_off(kernel: Kernel, log: Path) -> None:
    with Driven(
        log.with_name("live.db"), [log], witnesses=Witnesses(Witness(connections=False, exits=False))
    ) as driven:
        kernel.driven = driven
        driven.run_for(SECOND)
        feed(driven, log, paced(made_log(HANG)))
    assert kernel.looks == 0
    assert incidents(log) == []


def test_a_scan_is_given_what_was_kept(kernel: Kernel, log: Path) -> None:
    kernel.until_us = 18_200_000
    (one,) = follow(kernel, log, HANG)
    command = ["scan", "--jsonl", "--observations", str(log.with_name("live.db")), str(log)]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0
    (told,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (told["id"], told["confidence"]) == (one.id, "confirmed")
    assert CliRunner().invoke(cli, ["scan", "--jsonl", str(log)]).stdout == ""


def test_what_was_seen_live_is_not_looked_for_in_a_file(kernel: Kernel, log: Path) -> None:
    kernel.until_us = 18_200_000
    (one,) = follow(kernel, log, HANG)
    assert {check.state for check in verify(one)} == {"stands", "seen live"}


def test_the_story_is_told_in_order(kernel: Kernel, log: Path) -> None:
    kernel.until_us = 18_200_000
    (one,) = follow(kernel, log, HANG)
    result = CliRunner().invoke(cli, ["explain", "--incident", one.id[:6], "--db", str(log.with_name("live.db"))])
    assert result.exit_code == 0, result.output
    order = re.findall(r"^.* UTC.*?  ([a-z]+): ", result.stdout, re.MULTILINE)
    # The store's clock is the real one: what was stored stands behind what happened by the driven clock.
    assert order[0] == "sleep"
    assert [what for what in order if what in ("wake", "launch", "verdict")] == ["wake", "launch", *["verdict"] * 2]


def test_a_story_needs_an_incident() -> None:
    result = CliRunner().invoke(cli, ["explain"])
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr
