"""The unit as it is shipped, in a booted systemd: started, reloaded, frozen, and looked at from outside."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.machine import ROOT, Machine, wait_for

pytestmark = pytest.mark.system

PACKAGING = ROOT / "packaging"
RECORDED = ROOT / "tests" / "corpus" / "b11368-default-gaveup" / "server.log"
_PROGRAM = """\
#!/bin/sh
export PYTHONPATH={root} PYTHONDONTWRITEBYTECODE=1
exec {python} -m sleepwatch "$@"
"""
# A minute is long for a test, and the checkout may lie in /tmp. Everything else is as it is shipped.
_IMPATIENT = f"""\
[Service]
WatchdogSec=3
RestartSec=0
BindReadOnlyPaths={ROOT} {sys.prefix} {sys.base_prefix}
"""
_UNITS = ("etc/systemd/system/sleepwatch.service", "etc/systemd/system/served.service")
# A program of that name that writes what a server wrote, at the server's own pace: asleep from 1.4 s on, woken at
# 2.0 s, asleep again from 3.3 s on with a request in its queue, whose client gives up at 6.4 s.
_SERVER = """\
[Service]
ExecStart=/usr/bin/llama-server /var/log/paced.sh
"""
_PACED = """\
n=0
while IFS= read -r line; do
    n=$((n + 1))
    case $n in 9) sleep 1;; 11) sleep 0.5;; 23) sleep 1;; 25) sleep 3;; 26) break;; esac
    printf '%s\\n' "$line" >&2
done < /var/log/recorded
while :; do sleep 1; done
"""


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Iterator[Machine]:
    """The machine with sleepwatch as its packages would put it there, and a server of an unusual name."""
    unit = PACKAGING / "systemd" / "sleepwatch.service"
    _install(machine)
    machine.add({unit.name: unit.read_text(), "served.service": _SERVER})
    machine.run("systemd-sysusers")
    yield machine
    machine.run("systemctl", "stop", "sleepwatch", "served")
    for path in ("usr/bin/sleepwatch", "usr/bin/llama-server", "usr/lib/sysusers.d/sleepwatch.conf", *_UNITS):
        (machine.root / path).unlink()
    for path in ("etc/systemd/system/sleepwatch.service.d", "etc/sleepwatch", "var/lib/sleepwatch"):
        shutil.rmtree(machine.root / path)
    machine.run("systemctl", "daemon-reload")


def _install(machine: Machine) -> None:
    program = machine.root / "usr/bin/sleepwatch"
    program.write_text(_PROGRAM.format(root=ROOT, python=sys.executable))
    program.chmod(0o755)
    (machine.root / "usr/lib/sysusers.d").mkdir(exist_ok=True)
    shutil.copy(PACKAGING / "sysusers" / "sleepwatch.conf", machine.root / "usr/lib/sysusers.d")
    drop_in = machine.root / "etc/systemd/system/sleepwatch.service.d/impatient.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(_IMPATIENT)
    (machine.root / "etc/sleepwatch").mkdir()
    shutil.copy(RECORDED, machine.root / "var/log/recorded")
    (machine.root / "var/log/paced.sh").write_text(_PACED)
    shutil.copy("/bin/sh", machine.root / "usr/bin/llama-server")
    log = machine.root / "var/log/llama.log"
    shutil.copy(RECORDED, log)
    shutil.chown(log, "root", "adm")
    log.chmod(0o640)
    for directory in (*Path(sys.executable).parents, *Path(sys.base_prefix).parents, *ROOT.parents):
        inside = machine.root / str(directory).lstrip("/")
        if inside.is_dir():
            inside.chmod(inside.stat().st_mode | 0o055)  # the copy inside: the interpreter may stand in root's home


def _configure(machine: Machine, text: str) -> None:
    (machine.root / "etc/sleepwatch/sleepwatch.toml").write_text(text)


def _show(machine: Machine, name: str) -> str:
    return machine.run("systemctl", "show", "--property", name, "--value", "sleepwatch").strip()


def _status(machine: Machine) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(machine.run("sleepwatch", "status", "--json", check=False))
    return document


def _said(machine: Machine) -> str:
    return machine.run("journalctl", "--unit=sleepwatch", "--output=cat")


@pytest.fixture(scope="module")
def started(installed: Machine) -> Machine:
    _configure(installed, '[[file]]\npath = "/var/log/llama.log"\n')
    try:
        installed.run("systemctl", "start", "sleepwatch")  # Type=notify: returns when it is ready
    except AssertionError as why:
        pytest.fail(f"{why}\n{_said(installed)}", pytrace=False)
    return installed


def test_it_starts_and_reads_a_log_of_its_group(started: Machine) -> None:
    assert _show(started, "ActiveState") == "active"
    assert _show(started, "StatusText") == "watching 1 source"
    assert wait_for(lambda: "hung-request" in _said(started), 20)
    status = _status(started)
    assert status["run"]["alive"] is True
    assert [source["state"] for source in status["sources"]] == ["following"]


def test_it_runs_as_its_own_user_without_any_power(started: Machine) -> None:
    text = Path(started.root / "etc/passwd").read_text()
    uid = next(line.split(":")[2] for line in text.splitlines() if line.startswith("sleepwatch:"))
    process = started.run("cat", f"/proc/{_show(started, 'MainPID')}/status")
    fields = dict(line.split(":", 1) for line in process.splitlines() if ":" in line)
    assert set(fields["Uid"].split()) == {uid}
    assert fields["CapEff"].strip() == fields["CapBnd"].strip() == "0000000000000000"
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Seccomp"].strip() == "2"


def test_its_database_is_its_own(started: Machine) -> None:
    owner = started.run("stat", "--format=%U %a", "/var/lib/sleepwatch/sleepwatch.db").split()
    assert owner == ["sleepwatch", "600"]
    refused = started.run("setpriv", "--reuid=nobody", "--clear-groups", "sleepwatch", "status", check=False)
    assert refused.startswith("SLEEPWATCH UNKNOWN: the database /var/lib/sleepwatch/sleepwatch.db cannot be used")


def test_a_wrong_configuration_is_refused_before_the_daemon_is_told(started: Machine) -> None:
    before = _show(started, "MainPID")
    _configure(started, "[following]\npoll_seconds = 0\n")
    with pytest.raises(AssertionError):
        started.run("systemctl", "reload", "sleepwatch")
    assert "following.poll_seconds = 0: must be a number from 0.05 up to 86400" in _said(started)
    assert "configuration read again" not in _said(started)
    assert (_show(started, "ActiveState"), _show(started, "MainPID")) == ("active", before)


def test_a_good_one_is_taken_over(started: Machine) -> None:
    before = _show(started, "MainPID")
    _configure(started, '[[file]]\npath = "/var/log/llama.log"\n[following]\npoll_seconds = 1\n')
    started.run("systemctl", "reload", "sleepwatch")
    assert wait_for(lambda: "configuration read again" in _said(started), 10)
    assert _show(started, "MainPID") == before


def test_a_frozen_daemon_is_started_anew_and_nothing_is_told_twice(started: Machine) -> None:
    before = _show(started, "MainPID")
    found = _said(started).count("hung-request")
    started.run("systemctl", "kill", "--signal=STOP", "sleepwatch")
    assert wait_for(lambda: _show(started, "MainPID") not in (before, "0"), 40)
    assert wait_for(lambda: _show(started, "ActiveState") == "active", 20)
    assert _show(started, "NRestarts") == "1"
    assert "Watchdog timeout" in _said(started)
    assert "ended without stopping; nothing is lost by that" in _said(started)
    assert wait_for(lambda: _status(started)["run"]["alive"], 10)
    assert _said(started).count("hung-request") == found


def test_a_stop_is_a_stop(started: Machine) -> None:
    started.run("systemctl", "stop", "sleepwatch")
    assert _show(started, "Result") == "success"
    assert _status(started)["run"]["stopped"] is not None


def test_with_nothing_configured_it_finds_a_unit_in_the_journal(installed: Machine) -> None:
    installed.run("systemctl", "stop", "sleepwatch")
    (installed.root / "etc/sleepwatch/sleepwatch.toml").unlink(missing_ok=True)
    installed.run("systemctl", "start", "served")
    installed.run("systemctl", "start", "sleepwatch")
    assert wait_for(lambda: "watching served.service in the journal" in _said(installed), 20), _said(installed)
    assert wait_for(lambda: "hung-request (confirmed) served.service" in _said(installed), 30), _said(installed)
    assert "journal:system" in [source["source"] for source in _status(installed)["sources"]]


def test_a_configuration_that_came_later_is_taken_over(installed: Machine) -> None:
    _configure(installed, "[following]\npoll_seconds = 1\n")
    known = _said(installed).count("configuration read again")
    installed.run("systemctl", "reload", "sleepwatch")
    assert wait_for(lambda: _said(installed).count("configuration read again") > known, 10), _said(installed)


def test_record_only_reads_on_without_a_network_and_says_what_it_cannot_see(installed: Machine) -> None:
    rights = installed.root / "etc/systemd/system/sleepwatch.service.d/rights.conf"
    shutil.copy(PACKAGING / "systemd" / "rights" / "record-only.conf", rights)
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "restart", "sleepwatch")
    network = installed.run("readlink", f"/proc/{_show(installed, 'MainPID')}/ns/net")
    assert network != installed.run("readlink", "/proc/1/ns/net")
    served: list[dict[str, Any]] = []

    def is_told() -> bool:
        served[:] = [one for one in _status(installed)["servers"] if one["server"] == "served.service"]
        return bool(served)

    assert wait_for(is_told, 20), _said(installed)
    assert {source["state"] for source in _status(installed)["sources"]} == {"following"}
    assert "AF_NETLINK" in served[0]["connections_hidden"]
    assert served[0]["end_unwatched"] is None
