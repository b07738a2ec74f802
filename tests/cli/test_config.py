"""``sleepwatch config``: checking and showing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleepwatch import config as configuration
from sleepwatch.cli import main


@pytest.fixture(autouse=True)
def no_system_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where /etc/sleepwatch/sleepwatch.toml would be."""
    path = tmp_path / "etc" / "sleepwatch.toml"
    path.parent.mkdir()
    monkeypatch.setattr(configuration, "DEFAULT_PATH", path)
    return path


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["config", *map(str, arguments)])


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return path


def test_a_good_one(tmp_path: Path) -> None:
    path = _write(tmp_path, "[[file]]\npath = '/var/log/a.log'")
    result = _run("check", "-c", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{path}: good; 1 log or pattern named\n", "")


def test_without_one_the_defaults_apply() -> None:
    result = _run("check")
    assert (result.exit_code, result.stdout) == (0, "there is no configuration: the defaults apply\n")


def test_the_systems_own_is_the_default(no_system_configuration: Path) -> None:
    no_system_configuration.write_text("[[file]]\npath = 'a'\n[[file]]\npath = 'b'")
    assert _run("check").stdout == f"{no_system_configuration}: good; 2 logs or patterns named\n"
    no_system_configuration.write_text("x = 1")
    assert _run("check").exit_code == 2


def test_a_wrong_one_is_told_line_by_line(tmp_path: Path) -> None:
    path = _write(tmp_path, "[following]\npoll_seconds = -1\n[metrics]\nport = 'x'")
    result = _run("check", "-c", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"{path}: following.poll_seconds = -1: must be a number from 0.05 up to 86400",
        f'{path}: metrics.port = "x": must be a whole number from 1 up to 65535, or left out',
        "  `sleepwatch config show` lists every key with what it allows",
    ]


def test_one_that_is_not_there(tmp_path: Path) -> None:
    result = _run("check", "-c", tmp_path / "none.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{tmp_path / 'none.toml'}: no such file\n")


def test_show(tmp_path: Path) -> None:
    path = _write(tmp_path, "[[file]]\npath = '/var/log/a.log'\n[following]\npoll_seconds = 2")
    result = _run("show", "-c", path)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["KEY", "VALUE", "FROM", "ALLOWED"]
    assert ["file[0].path", '"/var/log/a.log"', "set"] in [row[:3] for row in rows]
    assert ["following.poll_seconds", "2", "set"] in [row[:3] for row in rows]
    assert ["following.blind_seconds", "60", "default"] in [row[:3] for row in rows]
    assert result.stderr == f"read from {path}\n"


def test_show_without_one() -> None:
    result = _run("show")
    assert result.exit_code == 0
    assert all("  default  " in line for line in result.stdout.splitlines()[1:])
    assert result.stderr == "there is no configuration: the defaults apply\n"


def test_show_as_json(tmp_path: Path) -> None:
    path = _write(tmp_path, "[metrics]\nport = 9477")
    document = json.loads(_run("show", "--json", "-c", path).stdout)
    assert document["file"] == str(path)
    assert {
        "key": "metrics.port",
        "value": "9477",
        "from": "set",
        "allowed": "a whole number from 1 up to 65535, or left out",
    } in document["keys"]


def test_show_of_a_wrong_one_fails(tmp_path: Path) -> None:
    result = _run("show", "-c", _write(tmp_path, "x = 1"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "x: there is no such key" in result.stderr


def test_nothing_on_the_screen_can_be_a_control_character(tmp_path: Path) -> None:
    path = _write(tmp_path, '[[file]]\npath = "/a\\u001b[2J"')
    assert "\x1b" not in _run("show", "-c", path).stdout
    path = _write(tmp_path, '[metrics]\nport = "\\u001b[2J"')
    assert "\x1b" not in _run("check", "-c", path).stderr
