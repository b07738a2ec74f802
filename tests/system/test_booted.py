"""A booted systemd with two llama-servers, raced by clients that know the truth, and the daemon beside them."""

from __future__ import annotations

import time

import pytest

from sleepwatch.model import Incident
from sleepwatch.scan import Scan
from sleepwatch.sources.journal import Way, Which
from sleepwatch.sources.journal_parts import Selection
from sleepwatch.sources.journal_units import Units
from sleepwatch.store import open_store
from tests.support import engine
from tests.support.needs import need_module
from tests.system.machine import Machine, wait_for
from tests.system.racing import KINDS, Racer, Sent, unmatched

pytestmark = pytest.mark.system

RACE_S = 45.0
CATCH_UP_S = 20.0
"""The daemon, killed last a moment ago, has started again and read what came meanwhile."""
WANTED = {"llama-tiny.service": "crashed", "llama-wide.service": "hung"}


class Race:
    """What the clients saw, and what the daemon stored."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.sent: list[Sent] = []
        self.kills = 0

    @property
    def lost(self) -> list[Sent]:
        return [one for one in self.sent if one.outcome in KINDS]

    def incidents(self, *, possible: bool = False) -> list[Incident]:
        """The daemon's: those above ``possible``, or all."""
        with open_store(self.machine.root / "var/lib/race.db", read_only=True) as store:
            return store.incidents(possible=possible)


@pytest.fixture(scope="module")
def race(servers: Machine, ports: dict[str, int]) -> Race:
    """Race both servers; the daemon is killed again and again, and the journal rotated."""
    machine = servers
    race = Race(machine)
    machine.run("systemctl", "start", "race-watch", "llama-tiny", "llama-wide")
    racers = [
        Racer(unit, port, tokens)
        for (unit, port), tokens in zip(
            ports.items(), (engine.CRASH_PROMPT_TOKENS, engine.HANG_PROMPT_TOKENS), strict=True
        )
    ]
    began = time.monotonic()
    for racer in racers:
        racer.start()

    def enough() -> bool:
        lost = [racer.count(WANTED[racer.server]) for racer in racers]
        if race.kills < sum(lost):  # also between a request's loss and its end
            machine.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "race-watch")
            race.kills += 1
            if race.kills == 2:
                machine.run("journalctl", "--rotate")
        return min(lost) >= 2

    wait_for(enough, RACE_S)
    for racer in racers:
        racer.enough.set()
    for racer in racers:
        racer.join(20.0)
        race.sent += racer.sent
    print(f"{time.monotonic() - began:.0f} s, {race.kills} kills,", *(f"{r.server} {r.sent}" for r in racers))
    assert race.lost, "no request was lost, so nothing could be shown"
    machine.run("systemctl", "stop", "llama-tiny", "llama-wide")
    wait_for(lambda: len(race.incidents()) >= len(race.lost), CATCH_UP_S)
    machine.run("systemctl", "stop", "race-watch")
    machine.run("journalctl", "--sync")
    return race


def test_the_daemon_found_what_the_clients_lost(race: Race) -> None:
    found = race.incidents()
    _, invented = unmatched(race.lost, found)
    # A hang that another request ends while the daemon is down is no more than possible at the default verbosity.
    missed, _ = unmatched(race.lost, race.incidents(possible=True))
    assert (missed, invented) == ([], [])
    assert race.kills >= 1
    for server in WANTED:  # the last one's restart can come after the race
        *earlier, _ = sorted((one.opened_us, one.state) for one in found if one.server == server)
        assert {state for _, state in earlier} <= {"abandoned", "restarted", "lost"}, earlier


@pytest.mark.parametrize("way", ["native", "command"])
def test_a_scan_of_its_journal_finds_the_same(race: Race, way: Way) -> None:
    if way == "native":
        need_module("systemd", "systemd-python")
    work = Scan()
    work.read_journal(Which(directory=str(race.machine.journal)), Selection(units=Units(["llama*"])), way=way)
    result = work.result()
    assert not result.failed
    sure = {(one.id, one.kind, one.server) for one in result.incidents if one.confidence != "possible"}
    assert sure == {(one.id, one.kind, one.server) for one in race.incidents()}
