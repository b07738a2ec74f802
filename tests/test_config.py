"""Settings: what a configuration may say, and what is told of one that is wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from sleepwatch.config import ConfigError, FileSource, Settings, load_settings
from sleepwatch.config_keys import keys, problems


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sleepwatch.toml"
    path.write_text(text)
    return path


def _problems(tmp_path: Path, text: str) -> list[str]:
    path = _write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load_settings(path)
    assert all(problem.startswith(f"{path}: ") for problem in raised.value.problems)
    return [problem.removeprefix(f"{path}: ") for problem in raised.value.problems]


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert load_settings(_write(tmp_path, "")) == Settings()


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    text = """
        file = [{path = "logs/*.log"}, {path = "/var/log/x.log", envelope = "docker-json"}, {path = "~/y.log"}]
        [database]
        path = "a.db"
        [metrics]
        textfile = "m/sleepwatch.prom"
    """
    settings = load_settings(_write(tmp_path, text))
    assert settings.file == (
        FileSource(path=str(tmp_path / "logs/*.log")),
        FileSource(path="/var/log/x.log", envelope="docker-json"),
        FileSource(path=str(Path.home() / "y.log")),
    )
    assert settings.database.path == str(tmp_path / "a.db")
    assert settings.metrics.textfile == str(tmp_path / "m/sleepwatch.prom")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("following.poll_seconds = 0.001", "following.poll_seconds = 0.001: must be a number from 0.05 up to 86400"),
        ("following.poll_seconds = nan", "following.poll_seconds = nan: must be a number from 0.05 up to 86400"),
        ("following.poll_seconds = inf", "following.poll_seconds = inf: must be a number from 0.05 up to 86400"),
        ("following.poll_seconds = true", "following.poll_seconds = true: must be a number from 0.05 up to 86400"),
        ("following = 3", "following = 3: must be a table"),
        ("database.keep_days = 0", "database.keep_days = 0: must be a number above 0 up to 36500"),
        ("metrics.port = 0", "metrics.port = 0: must be a whole number from 1 up to 65535, or left out"),
        ("metrics.port = '80'", 'metrics.port = "80": must be a whole number from 1 up to 65535, or left out'),
        ("metrics.port = 80.5", "metrics.port = 80.5: must be a whole number from 1 up to 65535, or left out"),
        ("metrics.textfile = 'a.txt'", 'metrics.textfile = "a.txt": must be a file name that ends in .prom'),
        ("database.path = ' '", 'database.path = " ": must be the path of a file, or left out'),
        ("file = 'x.log'", 'file = "x.log": must be a list of tables: write [[file]]'),
        ("file = ['x.log']", 'file[0] = "x.log": must be a table'),
        ("[[file]]", "file[0].path: is missing; must be the path of a log file, or a pattern"),
        ("[file]\npath = 'x'", "file = a table: must be a list of tables: write [[file]]"),
        ("[[file]]\npath = ''", 'file[0].path = "": must be the path of a log file, or a pattern'),
        ("[[file]]\npath = ['a', 'b']", "file[0].path = a list: must be the path of a log file, or a pattern"),
        (
            '"a b" = 1',
            ('"a b": there is no such key; known here: '
            "file, unit, database, following, metrics, notify, target, wake, witness"),
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_by_key_value_and_what_is_allowed(tmp_path: Path, text: str, expected: str) -> None:
    assert _problems(tmp_path, text) == [expected]


def test_a_misspelt_key_is_recognised(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path, "[following]\npol_seconds = 3")
    assert problem.startswith("following.pol_seconds: there is no such key; did you mean poll_seconds?; known here: ")


def test_a_carrier_that_there_is_not_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path, "[[file]]\npath = 'x'\nenvelope = 'doker'")
    assert problem.startswith('file[0].envelope = "doker": must be one of ')
    assert "docker-json" in problem


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    found = _problems(tmp_path, "x = 1\nfollowing.poll_seconds = -1\n[[file]]\n[[file]]\npath = 3")
    assert [one.split(":")[0].split(" =")[0] for one in found] == [
        "x",
        "following.poll_seconds",
        "file[0].path",
        "file[1].path",
    ]


def test_the_message_of_many_problems_is_the_first_and_how_many_more() -> None:
    error = ConfigError("a: b", "a: c", "a: d", hint="look")
    assert str(error) == "a: b (and 2 more) (look)"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a = \xff", "not UTF-8 \\(byte 4\\)"),
        (b"a = ", "not valid TOML: Invalid value"),
        (b"a = 1\na = 2", "not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_understood(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=expected):
        load_settings(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_settings(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="is a directory"):
        load_settings(tmp_path)


# -- key by key ----------------------------------------------------------------------------------------------------


class _Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    token: str | None = None
    loud: bool = False


class _Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    channel: tuple[_Channel, ...] = ()
    size: Annotated[int, msgspec.Meta(ge=1, lt=10)] = 3


def test_keys_say_what_is_set_and_what_is_default() -> None:
    data = {"channel": [{"name": "a"}], "size": 3}
    rows = [(one.key, one.value, one.allowed, one.given) for one in keys(msgspec.convert(data, _Tree), data)]
    assert rows == [
        ("channel[0].name", '"a"', "text", True),
        ("channel[0].token", "not set", "text, or left out", False),
        ("channel[0].loud", "false", "true or false", False),
        ("size", "3", "a whole number from 1 below 10", True),
    ]


def test_all_keys_of_the_settings_are_described() -> None:
    for one in keys(Settings(file=(FileSource(path="x"),)), {}):
        assert one.allowed
        assert one.given is False
        assert "Annotated" not in one.allowed


def test_a_number_that_is_none_is_shown_as_it_stands() -> None:
    (problem,) = problems({"size": math.nan}, _Tree)
    assert problem.value == "nan"
