"""The unit: hardened as its header says, understood by systemd, and what the program expects of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
UNIT = PACKAGING / "systemd" / "sleepwatch.service"
USERS = PACKAGING / "sysusers" / "sleepwatch.conf"
DAEMON_PAGE = Path(__file__).parents[2] / "docs" / "daemon.md"
LIMIT = 1.5

analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=60)


def _exposure() -> float:
    run = _run("systemd-analyze", "security", "--offline=true", "--no-pager", UNIT)
    found = re.search(r"Overall exposure level for sleepwatch\.service: ([\d.]+)", run.stdout)
    if found is None:
        pytest.skip(f"this systemd-analyze does not judge units offline: {run.stderr.strip()}")
    return float(found.group(1))


@analyze
def test_the_exposure_is_at_most_1_5() -> None:
    assert _exposure() <= LIMIT


@analyze
def test_the_exposure_is_what_the_unit_and_the_docs_say() -> None:
    version = re.match(r"systemd (\d+)", _run("systemd-analyze", "--version").stdout)
    assert version is not None
    said = re.search(r"says ([\d.]+) \(systemd (\d+);", UNIT.read_text())
    assert said is not None
    assert f"`systemd-analyze security` {said.group(1)}" in DAEMON_PAGE.read_text()
    if version.group(1) != said.group(2):
        pytest.skip(f"measured with systemd {said.group(2)}, this is {version.group(1)}")
    assert f"{_exposure():.1f}" == said.group(1)


@analyze
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    # The program need not be installed here: something that is stands in its place.
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/bin/sleepwatch", "/bin/true"))
    run = _run("systemd-analyze", "verify", "--man=no", copy)
    assert (run.returncode, run.stdout, [line for line in run.stderr.splitlines() if UNIT.name in line]) == (0, "", [])


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_its_user_and_groups_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    run = _run("systemd-sysusers", "--dry-run", f"--root={tmp_path}", USERS)
    if "unrecognized option" in run.stderr:
        pytest.skip("this systemd-sysusers has no --dry-run")
    assert run.returncode == 0, run.stderr
    for line in ("user 'sleepwatch'", "group 'adm'", "group 'systemd-journal'"):
        assert f"Creating {line}" in run.stdout + run.stderr


def test_its_groups_are_made_with_its_user() -> None:
    groups = re.search(r"^SupplementaryGroups=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert groups is not None
    assert groups.group(1).split() == ["systemd-journal", "adm"]
    lines = [line.split() for line in USERS.read_text().splitlines() if line and not line.startswith("#")]
    assert {(line[0], line[1]) for line in lines} == {("g", "adm"), ("g", "systemd-journal"), ("u", "sleepwatch")}


def test_a_reload_checks_before_it_signals() -> None:
    reloads = re.findall(r"^ExecReload=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert reloads == ["/usr/bin/sleepwatch config check", "/bin/kill -HUP $MAINPID"]


def test_it_waits_for_the_daemon_and_watches_its_progress() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert settings["Type"] == "notify"
    assert int(settings["WatchdogSec"]) >= 30
    assert settings["Restart"] == "on-failure"
    assert settings["User"] == "sleepwatch"
    assert settings["StateDirectory"] == "sleepwatch"


def test_it_reaches_nothing_but_the_loopback_address() -> None:
    settings = re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert [value for name, value in settings if name == "IPAddressDeny"] == ["any"]
    assert [value for name, value in settings if name == "IPAddressAllow"] == ["localhost"]
