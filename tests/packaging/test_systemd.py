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
TMPFILES = PACKAGING / "tmpfiles" / "sleepwatch.conf"
DAEMON_PAGE = Path(__file__).parents[2] / "docs" / "daemon.md"
RIGHTS = {one.stem: one for one in sorted((PACKAGING / "systemd" / "rights").glob("*.conf"))}
LIMITS = {"": 1.5, "record-only": 0.5, "notify": 1.5, "notify-witness-wake": 1.5}
"""The exposure that is allowed, by drop-in; without a name: the unit alone."""

analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=60)


def _with(rights: str, place: Path) -> Path:
    """The unit with this drop-in, as an administrator puts it there."""
    unit = place / UNIT.name
    # The program need not be installed here: something that is stands in its place.
    unit.write_text(UNIT.read_text().replace("/usr/bin/sleepwatch", "/bin/true"))
    if rights:
        drop_in = place / f"{UNIT.name}.d" / "rights.conf"
        drop_in.parent.mkdir()
        shutil.copy(RIGHTS[rights], drop_in)
    return unit


def _settings(rights: str) -> dict[str, list[str]]:
    """What is in force, by setting; an empty value begins a list anew, as in systemd.syntax(7)."""
    found: dict[str, list[str]] = {}
    for path in (UNIT, *([RIGHTS[rights]] if rights else [])):
        for name, value in re.findall(r"^(\w+)=(.*)$", path.read_text(), re.MULTILINE):
            found[name] = [*found.get(name, []), *value.split()] if value else []
    return found


def _exposure(unit: Path) -> float:
    run = _run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for sleepwatch\.service: ([\d.]+)", run.stdout)
    if found is None:
        pytest.skip(f"this systemd-analyze does not judge units offline: {run.stderr.strip()}")
    return float(found.group(1))


def test_each_drop_in_has_its_limit() -> None:
    assert set(RIGHTS) == {name for name in LIMITS if name}


@analyze
@pytest.mark.parametrize("rights", LIMITS)
def test_the_exposure_is_within_its_limit(rights: str, tmp_path: Path) -> None:
    assert _exposure(_with(rights, tmp_path)) <= LIMITS[rights]


@analyze
@pytest.mark.parametrize("rights", LIMITS)
def test_the_exposure_is_what_the_file_and_the_docs_say(rights: str, tmp_path: Path) -> None:
    version = re.match(r"systemd (\d+)", _run("systemd-analyze", "--version").stdout)
    assert version is not None
    said = re.search(r"says ([\d.]+) \(systemd (\d+)", (RIGHTS[rights] if rights else UNIT).read_text())
    assert said is not None
    row = re.search(
        rf"^\| {f'`{rights}.conf`' if rights else 'none'} \|.*\| ([\d.]+) \|$", DAEMON_PAGE.read_text(), re.M
    )
    assert row is not None
    assert row.group(1) == said.group(1)
    if version.group(1) != said.group(2):
        pytest.skip(f"measured with systemd {said.group(2)}, this is {version.group(1)}")
    assert f"{_exposure(_with(rights, tmp_path)):.1f}" == said.group(1)


@analyze
@pytest.mark.parametrize("rights", LIMITS)
def test_systemd_finds_nothing_wrong_with_it(rights: str, tmp_path: Path) -> None:
    run = _run("systemd-analyze", "verify", "--man=no", _with(rights, tmp_path))
    ours = [line for line in run.stderr.splitlines() if UNIT.name in line or "rights.conf" in line]
    assert (run.returncode, run.stdout, ours) == (0, "", [])


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
    settings = _settings("")
    assert (settings["IPAddressDeny"], settings["IPAddressAllow"]) == (["any"], ["localhost"])


def test_record_only_has_no_network() -> None:
    settings = _settings("record-only")
    assert settings["PrivateNetwork"] == ["yes"]
    assert settings["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert (settings["IPAddressDeny"], settings["IPAddressAllow"]) == (["any"], [])
    assert settings["LoadCredential"] == []


def test_only_who_notifies_reaches_other_machines() -> None:
    for rights in ("notify", "notify-witness-wake"):
        settings = _settings(rights)
        assert (settings["IPAddressDeny"], settings["IPAddressAllow"]) == (["link-local", "multicast"], [])
        assert settings["LoadCredential"] == ["secret:/etc/sleepwatch/credentials"]
    assert "AF_NETLINK" not in _settings("notify")["RestrictAddressFamilies"]
    assert "AF_NETLINK" in _settings("notify-witness-wake")["RestrictAddressFamilies"]


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="systemd-tmpfiles is not installed")
def test_secrets_are_taken_from_everybody_else(tmp_path: Path) -> None:
    secret = tmp_path / "etc/sleepwatch/credentials/url"
    secret.parent.mkdir(parents=True)
    secret.write_text("tgram://token")
    secret.chmod(0o644)
    rules = tmp_path / "rules.conf"  # owners are root's affair
    rules.write_text(TMPFILES.read_text().replace(" root root ", " - - "))
    run = _run("systemd-tmpfiles", "--create", f"--root={tmp_path}", rules)
    assert run.returncode == 0, run.stderr
    assert secret.stat().st_mode & 0o777 == 0o600
