"""The example configuration is the default, and everything it shows can be written."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from sleepwatch.config import ConfigError, FileSource, Settings, Target, UnitSource, load_settings
from sleepwatch.config_keys import keys
from sleepwatch.wake.settings import WakeServer

EXAMPLE = Path(__file__).parents[2] / "packaging" / "example" / "sleepwatch.toml"
_SETTING = re.compile(r"^# (\w+ = .*|\[\[[\w.]+\]\])$", re.MULTILINE)


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """The example with all it shows in comments switched on."""
    path = tmp_path / "sleepwatch.toml"
    path.write_text(_SETTING.sub(r"\1", EXAMPLE.read_text()))
    return path


def test_the_example_is_the_default() -> None:
    assert load_settings(EXAMPLE) == Settings()


def test_what_stands_in_its_comments_can_be_written(everything: Path) -> None:
    settings = load_settings(everything)
    assert settings.file[0].envelope == "docker-json"
    assert settings.unit[0].name == "llama*"
    assert settings.metrics.port == 9477
    assert settings.metrics.textfile == "/var/lib/prometheus/node-exporter/sleepwatch.prom"
    assert settings.notify.urls_file == "/etc/sleepwatch/notify-urls.toml"
    assert settings.target[0].command == ("/usr/local/bin/page", "--quiet")
    assert settings.target[0].form == "short"
    assert settings.wake.server[0].url == "http://127.0.0.1:8080"
    assert settings.database.path == "/var/lib/sleepwatch/sleepwatch.db"


def test_it_shows_every_key(everything: Path) -> None:
    data = tomllib.loads(everything.read_text())
    assert [key.key for key in keys(load_settings(everything), data) if not key.given] == []


def test_it_shows_no_key_that_there_is_not(everything: Path) -> None:
    shown = set(re.findall(r"^(\w+) =", everything.read_text(), re.MULTILINE))
    names = ("database", "following", "metrics", "notify", "wake", "witness")
    sections = (type(getattr(Settings(), name)) for name in names)
    tables = [Settings, FileSource, UnitSource, Target, WakeServer, *sections]
    known = {field.name for table in tables for field in msgspec.structs.fields(table)}
    assert shown <= known


def test_who_adds_a_section_that_stands_there_is_told_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "sleepwatch.toml"
    path.write_text(EXAMPLE.read_text() + '\n[wake]\nmode = "act"\n')
    with pytest.raises(ConfigError) as raised:
        load_settings(path)
    assert "wake" in raised.value.message
    assert "change it there" in (raised.value.hint or "")
