"""Settings of the daemon: read from TOML, checked whole, explained by key path.

A configuration is accepted or refused as a whole; a running daemon keeps the one it has when a new one is refused.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from sleepwatch.config_keys import Problem, problems, shown, words
from sleepwatch.errors import SleepwatchError, os_words
from sleepwatch.model import KINDS
from sleepwatch.printable import printable
from sleepwatch.wake.settings import Wake

DEFAULT_PATH = Path("/etc/sleepwatch/sleepwatch.toml")
PING = "ping"
"""The name of the dead man's URL among those of the targets."""


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


_Words = Annotated[tuple[str, ...], words('a list of texts: ["…", "…"]')]


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[target]]``: somebody to be told of incidents."""

    name: Annotated[str, words("a name")]
    """Unlike any other target's. Its URL stands under this name in ``notify.urls_file``."""
    command: _Words | None = None
    """A program and its arguments, run with the incident as JSON on its standard input, in the place of a URL."""
    tags: _Words = ()
    """For ``sleepwatch notify test --tag``."""
    severity: Literal["info", "warning", "critical"] = "warning"
    """Told of incidents of at least this severity …"""
    confidence: Literal["probable", "confirmed"] = "probable"
    """… and at least this confidence …"""
    kinds: _Words = ()
    """… of these kinds (none named: of all) …"""
    servers: _Words = ()
    """… of the servers that match one of these patterns (none named: of all)."""
    form: Literal["short", "long"] | None = None
    """How long the messages are; left out: long for mail, short for all others."""


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[notify]``: how targets are told."""

    urls_file: _Path | None = None
    """A TOML file of ``name = "url"``, one for each target without a command; absolute, or relative to the
    configuration file. Left out: the credential ``notify-urls``. A URL under ``ping`` is the dead man's."""
    ping_seconds: Annotated[float, msgspec.Meta(ge=10, le=86_400)] = 300.0
    """How often the URL under ``ping`` is asked for, as long as the daemon works."""
    timeout_seconds: Annotated[float, msgspec.Meta(ge=1, le=600)] = 30.0
    """For one message to one target."""
    give_up_hours: Annotated[float, msgspec.Meta(gt=0, le=720)] = 24.0
    """A message that could not be delivered for so long is listed as undeliverable."""
    storm_messages: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 5
    """More new incidents than this within ``storm_minutes`` are told to a target together."""
    storm_minutes: Annotated[float, msgspec.Meta(gt=0, le=1_440)] = 10.0


class Witness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[witness]``: what is looked at beside the logs."""

    connections: bool = True
    """Ask the kernel for the connections of a server that falls asleep. The server notices nothing."""
    exits: bool = True
    """Have the kernel tell when a server's process ends."""
    props: bool = False
    """Ask a server for /props where a verdict turns on whether it sleeps. That neither wakes it nor keeps it awake."""
    api_key_file: Annotated[str, words("a path")] | None = None
    """A file with the servers' API key on its first line; absolute, or relative to the configuration file."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration."""

    file: tuple[FileSource, ...] = ()
    unit: tuple[UnitSource, ...] = ()
    database: Database = Database()
    following: Following = Following()
    metrics: Metrics = Metrics()
    notify: Notify = Notify()
    target: tuple[Target, ...] = ()
    wake: Wake = Wake()
    witness: Witness = Witness()

    @property
    def key_files(self) -> tuple[str, ...]:
        """The files of the API keys that are wanted for what is switched on."""
        waking = (self.wake.api_key_file, *(one.api_key_file for one in self.wake.server)) if self.wake.on else ()
        asking = (self.witness.api_key_file,) if self.witness.props else ()
        return tuple(dict.fromkeys(one for one in (*waking, *asking) if one is not None))


def is_configured() -> bool:
    """Whether this host has a configuration. One that may not be looked at is one: reading it says why it fails."""
    try:
        DEFAULT_PATH.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def load_settings(path: Path) -> Settings:
    """Read and check a configuration file; paths in it become absolute. Raises ConfigError, with all that is wrong."""
    return settings_of(path, read_toml(path))


def read_toml(path: Path) -> dict[str, Any]:
    """What the file says, unchecked. Raises ConfigError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file", hint="name a configuration that is there with -c") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})", hint="save the file as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path}: {os_words(error)}", hint="check its mode and owner") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        twice = "twice" in str(error)
        hint = "a section like [wake] stands once, and the shipped file has each: change it there" if twice else None
        raise ConfigError(f"{path}: not valid TOML: {error}", hint=hint) from error


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
    database, metrics, notify = settings.database, settings.metrics, settings.notify
    witness = settings.witness
    if database.path is not None:
        database = msgspec.structs.replace(database, path=_absolute(base, database.path))
    if metrics.textfile is not None:
        metrics = msgspec.structs.replace(metrics, textfile=_absolute(base, metrics.textfile))
    if notify.urls_file is not None:
        notify = msgspec.structs.replace(notify, urls_file=_absolute(base, notify.urls_file))
    if witness.api_key_file is not None:
        witness = msgspec.structs.replace(witness, api_key_file=_absolute(base, witness.api_key_file))
    wake = settings.wake.with_paths(lambda name: _absolute(base, name))
    return msgspec.structs.replace(
        settings,
        file=files,
        unit=units,
        database=database,
        metrics=metrics,
        notify=notify,
        wake=wake,
        witness=witness,
    )


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
    yield from settings.wake.problems()
    if settings.database.path is not None and not settings.database.path.strip():
        yield Problem("database.path", shown(settings.database.path), "must be the path of a file, or left out")
    yield from _target_problems(settings)


def _target_problems(settings: Settings) -> Iterator[Problem]:
    names = [target.name for target in settings.target]
    for at, target in enumerate(settings.target):
        key, name = f"target[{at}]", target.name
        if not name.strip() or name != printable(name) or name == PING:
            yield Problem(f"{key}.name", shown(name), f"must be a name of printable characters, and not {PING!r}")
        elif names.index(name) != at:
            yield Problem(f"{key}.name", shown(name), "is another target's name already")
        if target.command is not None and not (target.command and target.command[0].strip()):
            yield Problem(f"{key}.command", shown(target.command), "must be a program and its arguments, or left out")
        for kind in target.kinds:
            if kind not in KINDS:
                yield Problem(f"{key}.kinds", shown(kind), f"must be some of {', '.join(KINDS)}")


def _absolute(base: Path, name: str) -> str:
    name = os.path.expanduser(name)
    return name if os.path.isabs(name) else str(base / name)
