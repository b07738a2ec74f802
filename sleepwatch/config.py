"""Settings of the daemon: read from TOML, checked whole, explained by key path.

A configuration is accepted or refused as a whole; a running daemon keeps the one it has when a new one is refused.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from sleepwatch.config_keys import Problem, problems, shown, words
from sleepwatch.errors import SleepwatchError

DEFAULT_PATH = Path("/etc/sleepwatch/sleepwatch.toml")


class ConfigError(SleepwatchError):
    """A configuration that is wrong: each problem names the file, the key path, its value, and what is allowed."""

    def __init__(self, *problems: str, hint: str | None = None) -> None:
        more = len(problems) - 1
        super().__init__(problems[0] + (f" (and {more} more)" if more else ""), hint=hint)
        self.problems = problems


_Seconds = Annotated[float, msgspec.Meta(ge=0.05, le=86_400)]
_Path = Annotated[str, words("a path")]
_Days = Annotated[float, msgspec.Meta(gt=0, le=36_500)]


class FileSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[file]]``: a log file, or a pattern that matches several."""

    path: Annotated[str, words("the path of a log file, or a pattern")]
    """Absolute, or relative to the configuration file. ``*``, ``?`` and ``[…]`` make a pattern."""
    envelope: Annotated[str, words("a carrier's name (docs/envelopes.md)")] | None = None
    """The carrier of its lines; told from the lines where it is not given."""


class UnitSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[unit]]``: a systemd unit whose lines are in the journal, or a pattern that matches several."""

    name: Annotated[str, words("the name of a unit, or a pattern")]
    """``llama`` is ``llama.service``. ``*``, ``?`` and ``[…]`` make a pattern."""
    directory: Annotated[str, words("a directory of journal files")] | None = None
    """Where journals of other machines are collected, each of which is read; left out: this machine's own journal.
    Absolute, or relative to the configuration file."""


class Database(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[database]``: where incidents and the reading's state are kept."""

    path: _Path | None = None
    """Absolute, or relative to the configuration file."""
    keep_days: _Days = 30.0
    """Lives that ended longer ago and had no incident are forgotten. Incidents are kept."""


class Following(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[following]``: how files are watched."""

    poll_seconds: _Seconds = 5.0
    """The longest time between two looks; change events only make it shorter."""
    partial_seconds: _Seconds = 1.0
    """A last line without an end counts as written after this time of silence."""
    checkpoint_seconds: _Seconds = 5.0
    """The longest time progress stays unsaved. Incidents are saved at once."""
    blind_seconds: _Seconds = 60.0
    """A source that cannot be read, or grows unread, for this long is an incident."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[metrics]``: Prometheus metrics, off unless a port or file is given."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    """Loopback only."""
    textfile: Annotated[str, words("a path that ends in .prom")] | None = None
    """A file for node_exporter's textfile collector (its name must end in ``.prom``); absolute, or relative to the
    configuration file."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration."""

    file: tuple[FileSource, ...] = ()
    unit: tuple[UnitSource, ...] = ()
    database: Database = Database()
    following: Following = Following()
    metrics: Metrics = Metrics()


def load_settings(path: Path) -> Settings:
    """Read and check a configuration file; paths in it become absolute. Raises ConfigError, with all that is wrong."""
    return settings_of(path, read_toml(path))


def read_toml(path: Path) -> dict[str, Any]:
    """What the file says, unchecked. Raises ConfigError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file", hint="name a file with -c, or give --file LOG") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})", hint="save the file as UTF-8") from error
    except OSError as error:
        raise ConfigError(
            f"{path}: {(error.strerror or str(error)).lower()}", hint="check its mode and owner"
        ) from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def settings_of(path: Path, data: dict[str, Any]) -> Settings:
    """The settings a configuration file says. Raises ConfigError, with all that is wrong."""
    wrong = list(problems(data, Settings))
    settings = Settings()
    if not wrong:
        settings = msgspec.convert(data, Settings)
        wrong = list(_more_problems(settings))
    if wrong:
        raise ConfigError(
            *(f"{path}: {problem}" for problem in wrong),
            hint="`sleepwatch config show` lists every key with what it allows",
        )
    base = path.parent.absolute()
    files = tuple(msgspec.structs.replace(one, path=_absolute(base, one.path)) for one in settings.file)
    units = tuple(
        one if one.directory is None else msgspec.structs.replace(one, directory=_absolute(base, one.directory))
        for one in settings.unit
    )
    database, metrics = settings.database, settings.metrics
    if database.path is not None:
        database = msgspec.structs.replace(database, path=_absolute(base, database.path))
    if metrics.textfile is not None:
        metrics = msgspec.structs.replace(metrics, textfile=_absolute(base, metrics.textfile))
    return msgspec.structs.replace(settings, file=files, unit=units, database=database, metrics=metrics)


def _more_problems(settings: Settings) -> Iterator[Problem]:
    """What the types cannot tell."""
    from sleepwatch.envelopes import names

    for at, source in enumerate(settings.file):
        if not source.path.strip():
            yield Problem(f"file[{at}].path", shown(source.path), "must be the path of a log file, or a pattern")
        if source.envelope is not None and source.envelope not in names():
            yield Problem(
                f"file[{at}].envelope", shown(source.envelope), f"must be one of {', '.join(names())}, or left out"
            )
    for at, unit in enumerate(settings.unit):
        if not unit.name.strip() or "/" in unit.name:
            yield Problem(f"unit[{at}].name", shown(unit.name), "must be the name of a unit, or a pattern")
        if unit.directory is not None and not unit.directory.strip():
            yield Problem(f"unit[{at}].directory", shown(unit.directory), "must be a directory, or left out")
    textfile = settings.metrics.textfile
    if textfile is not None and not textfile.endswith(".prom"):
        yield Problem("metrics.textfile", shown(textfile), "must be a file name that ends in .prom")
    if settings.database.path is not None and not settings.database.path.strip():
        yield Problem("database.path", shown(settings.database.path), "must be the path of a file, or left out")


def _absolute(base: Path, name: str) -> str:
    name = os.path.expanduser(name)
    return name if os.path.isabs(name) else str(base / name)
