"""The package on a real host: installed, told what to watch and whom to tell, its servers raced by clients who know
what was lost, while it is killed and frozen and the journal is rotated and vacuumed; then uninstalled.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sleepwatch.model import Gap, Incident
from sleepwatch.sources.journal_follow import VACUUMED
from sleepwatch.store import open_store
from sleepwatch.store.daemon import gaps_since
from tests.support import engine
from tests.support.package import build_package
from tests.support.receivers import HttpReceiver
from tests.system.machine import Machine, wait_for
from tests.system.racing import KINDS, READY_S, Racer, Sent, tells_of, unmatched

pytestmark = pytest.mark.system

RACE_S = 60.0
"""A phase of the race is over after this time, or when each server lost a request."""
CATCH_UP_S = 30.0
PATIENT_S = 20.0
"""How long the clients wait whose requests are to be freed."""
CRASHES, HANGS = "llama-tiny.service", "llama-wide.service"
WANTED = {CRASHES: "crashed", HANGS: "hung"}
PROMPTS = {CRASHES: engine.CRASH_PROMPT_TOKENS, HANGS: engine.HANG_PROMPT_TOKENS}
LIMIT = 1.5
"""What `systemd-analyze security` may say at most, with everything allowed that it can be allowed."""

_CONFIGURATION = """\
[[unit]]
name = "llama-*"

[[target]]
name = "oncall"
"""
_WAKE = """
[wake]
mode = "act"
"""
# A minute is long for a test. Everything else is as it is shipped.
_IMPATIENT = """\
[Service]
WatchdogSec=3
"""
KEPT = "var/lib/sleepwatch"


class Story:
    """What happened, in order, and what was seen at each step."""

    def __init__(self, machine: Machine, ports: dict[str, int], http: HttpReceiver) -> None:
        self.machine = machine
        self.ports = ports
        self.http = http
        self.sent: list[Sent] = []
        self.kills = 0
        self.seen: dict[str, str] = {}
        self.incidents: list[Incident] = []
        self.possible: list[Incident] = []
        """The same, and those that are no more than possible."""
        self.gaps: list[Gap] = []
        self.notices: dict[str, tuple[Any, ...]] = {}
        self.left: list[str] = []
        self._bodies: dict[str, bytes] = {}
        self._began = time.monotonic()
        self._since_us = time.time_ns() // 1000

    @property
    def lost(self) -> list[Sent]:
        return [one for one in self.sent if one.outcome in KINDS]

    @property
    def freed(self) -> list[Incident]:
        return [one for one in self.incidents if one.state == "unstuck"]

    def tell(self, words: str) -> None:
        print(f"{time.monotonic() - self._began:5.0f} s  {words}")

    def show(self, name: str) -> str:
        return self.machine.run("systemctl", "show", "--property", name, "--value", "sleepwatch").strip()

    def said(self) -> str:
        return self.machine.run("journalctl", "--unit=sleepwatch", "--output=cat")

    def stored(self, *, possible: bool = False) -> list[Incident]:
        """Of the servers; those above ``possible``, or all."""
        with open_store(self.machine.root / KEPT / "sleepwatch.db", read_only=True) as store:
            found = [one for one in store.incidents(possible=possible) if one.kind != "blind"]
        return [one for one in found if one.opened_us is None or one.opened_us >= self._since_us]

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.machine.run("sleepwatch", "status", "--json", check=False))
        return document

    def install(self, package: Path) -> None:
        self.machine.run("dpkg", "--install", str(package))
        self.files = [
            one for one in self.machine.run("dpkg", "--listfiles", "sleepwatch").splitlines()
            if not Path(f"{self.machine.root}{one}").is_dir()
        ]  # fmt: skip
        self.seen["installed"] = self.show("ActiveState")
        self.tell(
            f"installed {package.name} ({package.stat().st_size / 1e6:.1f} MB); the service is {self.seen['installed']}"
        )

    def configure(self) -> None:
        """As docs/daemon.md and docs/notify.md tell it."""
        root = self.machine.root
        (root / "etc/sleepwatch/sleepwatch.toml").write_text(_CONFIGURATION)
        secret = root / "etc/sleepwatch/credentials/notify-urls"
        secret.write_text(f'oncall = "{self.http.url}"\n')
        secret.chmod(0o600)
        drop_ins = root / "etc/systemd/system/sleepwatch.service.d"
        drop_ins.mkdir()
        shutil.copy(root / "usr/share/sleepwatch/rights/notify-witness-wake.conf", drop_ins / "rights.conf")
        (drop_ins / "impatient.conf").write_text(_IMPATIENT)
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "restart", "sleepwatch")
        exposure = self.machine.run("systemd-analyze", "security", "--no-pager", "sleepwatch")
        self.seen["exposure"] = exposure.strip().splitlines()[-1]
        main_pid = self.show("MainPID")
        self.seen["user"] = self.machine.run("stat", "--format=%U", f"/proc/{main_pid}").strip()
        self.tell(f"configured; runs as {self.seen['user']}; {self.seen['exposure']}")

    def check(self) -> None:
        self.machine.run("systemctl", "start", *WANTED)
        self.seen["check"] = self.machine.run("sleepwatch", "check", "--json", check=False)
        self.tell("sleepwatch check: " + self.machine.run("sleepwatch", "check", "--summary", check=False).strip())

    def race(self, at_a_loss: Callable[[int], None]) -> None:
        """Race both servers until each lost a request; ``at_a_loss`` is called at losses, counted."""
        known = times = 0

        def enough(racers: list[Racer]) -> bool:
            nonlocal known, times
            lost = [racer.count(WANTED[racer.server]) for racer in racers]
            if sum(lost) > known:  # between a request's loss and its end
                known, times = sum(lost), times + 1
                at_a_loss(times)
            return min(lost) >= 1

        self._race(self.ports, enough)

    def free(self) -> None:
        """Let it wake, and race with a patient client until a request of its is freed."""
        path = self.machine.root / "etc/sleepwatch/sleepwatch.toml"
        path.write_text(_CONFIGURATION + _WAKE)
        self.machine.run("systemctl", "reload", "sleepwatch")
        wide = {HANGS: self.ports[HANGS]}
        self._race(wide, lambda _: any(one.state == "unstuck" for one in self.stored()), patience_s=PATIENT_S)
        self.tell(self.machine.run("sleepwatch", "incidents", "list", "--state", "unstuck"))

    def _race(self, ports: dict[str, int], enough: Callable[[list[Racer]], bool], **options: float) -> None:
        racers = [
            Racer(unit, port, PROMPTS[unit], self._bodies.get(unit, b""), **options) for unit, port in ports.items()
        ]
        for racer in racers:
            racer.start()
        wait_for(lambda: enough(racers), RACE_S)
        for racer in racers:
            racer.enough.set()
        for racer in racers:
            racer.join(READY_S)
            self.sent += racer.sent
            self._bodies[racer.server] = racer.body
            self.tell(f"{racer.server}: {' '.join(one.outcome for one in racer.sent)}")

    def kill(self, times: int) -> None:
        if times == 1:
            self.machine.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "sleepwatch")
            self.kills += 1
            self.tell("killed")
        elif times == 2:  # by hand: perhaps before systemd does it
            self.machine.run("systemctl", "restart", "sleepwatch")
            self.tell("restarted")

    def freeze(self, times: int) -> None:
        if times == 1:
            before = self.show("MainPID")
            self.machine.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", "sleepwatch")
            assert wait_for(lambda: self.show("MainPID") not in (before, "0"), 40), self.said()[-2000:]
            self.tell("frozen, and started anew by the watchdog")

    def catch_up(self) -> None:
        wait_for(lambda: len(self.stored()) >= len(self.lost), CATCH_UP_S)

    def vacuum(self) -> None:
        self.machine.run("journalctl", "--sync")
        self.machine.run("journalctl", "--rotate", "--vacuum-time=1us")
        self.tell("the journal was rotated and vacuumed")

    def end(self) -> None:
        self.machine.run("systemctl", "stop", *WANTED)
        self.catch_up()
        wait_for(lambda: self._ask("SELECT 1 FROM delivery WHERE state IN ('waiting', 'sending')") == [], CATCH_UP_S)
        self.seen["log"] = self.said()
        self.machine.run("systemctl", "stop", "sleepwatch")
        self.incidents, self.possible = self.stored(), self.stored(possible=True)
        with open_store(self.machine.root / KEPT / "sleepwatch.db", read_only=True) as store:
            self.gaps = list(gaps_since(store, self._since_us))
        self.notices = {row[0]: row[1:] for row in self._ask("SELECT incident, state, hold FROM notice")}
        self.tell(f"{len(self.incidents)} incidents, {len(self.http.received)} messages")

    def _ask(self, question: str) -> list[tuple[Any, ...]]:
        with open_store(self.machine.root / KEPT / "sleepwatch.db", read_only=True) as store:
            return store.connection.execute(question).fetchall()

    def uninstall(self) -> None:
        (self.machine.root / "etc/systemd/system/sleepwatch.service.d/impatient.conf").unlink()
        self.machine.run("dpkg", "--purge", "sleepwatch")
        root = self.machine.root
        left = [one for one in self.files if os.path.lexists(f"{root}{one}")]
        for directory in ("etc", "usr/bin", "usr/lib", "usr/share", "var/lib", "run", "var/cache"):
            left += [
                f"/{path.relative_to(root)}" for path in (root / directory).rglob("*sleepwatch*")
                if KEPT not in str(path) and "python3" not in str(path)
            ]  # fmt: skip
        self.left = left
        self.seen["after"] = self.show("ActiveState")
        self.tell("uninstalled")


@pytest.fixture(scope="module")
def story(servers: Machine, ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    package = build_package(tmp_path_factory.mktemp("package"))
    shutil.copy(package, servers.share)
    (servers.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)  # a container's own: no service is started
    # README.md, the first five minutes: a request's arrival is logged, without its contents.
    evidence = servers.root / f"etc/systemd/system/{HANGS}.d/evidence.conf"
    evidence.parent.mkdir()
    (command,) = re.findall("^ExecStart=.*", (evidence.parents[1] / HANGS).read_text(), re.MULTILINE)
    evidence.write_text(f"[Service]\nExecStart=\n{command} -lv 4\n")
    servers.run("systemctl", "daemon-reload")
    try:
        with HttpReceiver() as http:
            story = Story(servers, ports, http)
            story.install(servers.share / package.name)
            story.configure()
            story.check()
            story.race(story.kill)
            story.catch_up()
            story.vacuum()
            story.race(story.freeze)
            story.catch_up()
            story.free()
            story.end()
            shutil.copy(servers.root / KEPT / "sleepwatch.db", package.parent)  # to look into, where a test fails
            story.uninstall()
            yield story
    finally:
        shutil.rmtree(evidence.parent)
        servers.run("systemctl", "stop", *WANTED, check=False)


def test_it_runs_once_it_is_installed(story: Story) -> None:
    assert story.seen["installed"] == "active"
    assert story.seen["user"] == "sleepwatch"


def test_it_has_as_few_rights_as_it_says(story: Story) -> None:
    said = re.search(r": ([\d.]+)", story.seen["exposure"])
    assert said is not None
    assert float(said.group(1)) <= LIMIT


def test_check_judges_both_units_right(story: Story) -> None:
    servers = {one["name"]: one for one in json.loads(story.seen["check"])["servers"]}
    for unit in WANTED:
        assert servers[unit]["verdict"] == "exposed", servers[unit]
        assert "sleep-mode-on" in {finding["code"] for finding in servers[unit]["findings"]}


def test_the_incidents_are_what_the_clients_saw(story: Story) -> None:
    assert story.lost, "no request was lost, so nothing could be shown"
    assert story.kills >= 1
    _, invented = unmatched(story.lost, [one for one in story.incidents if one not in story.freed])
    # A hang that another request ends while the daemon is down is no more than possible at the default verbosity.
    missed, _ = unmatched(story.lost, [one for one in story.possible if one not in story.freed])
    assert (missed, invented) == ([], [])


def test_nothing_was_missed_but_what_was_vacuumed_of_others(story: Story) -> None:
    assert [gap.cause for gap in story.gaps if not gap.cause.endswith(VACUUMED)] == []


def test_each_incident_was_told_or_waits_to_be_told_with_the_others(story: Story) -> None:
    bodies = [one["message"] for one in story.http.received]
    for incident in story.incidents:
        state, hold = story.notices[incident.id]
        assert hold == "storm" if state == "held" else any(incident.id[:8] in body for body in bodies), incident
    assert bodies


def test_a_hung_request_is_freed(story: Story) -> None:
    late = [one for one in story.sent if one.outcome == "late"]
    assert story.freed, [(one.server, one.outcome) for one in story.sent]
    for incident in story.freed:
        assert incident.kind == "hung-request"
        assert [one for one in late if tells_of(incident, one)], incident


def test_a_frozen_daemon_was_started_anew(story: Story) -> None:
    assert "Watchdog timeout" in story.seen["log"]


def test_uninstalled_it_leaves_the_database_alone(story: Story) -> None:
    assert story.left == []
    assert story.seen["after"] == "inactive"
    assert (story.machine.root / KEPT / "sleepwatch.db").exists()
    with open_store(story.machine.root / KEPT / "sleepwatch.db", read_only=True) as store:
        assert {one.id for one in story.incidents} <= {one.id for one in store.incidents()}
