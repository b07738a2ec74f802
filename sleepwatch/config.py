"""Settings of the daemon: read from TOML, checked whole, explained by key path.

A configuration is accepted or refused as a whole; a running daemon keeps the one it has when a new one is refused.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from sleepwatch.errors import SleepwatchError

DEFAULT_PATH = Path("/etc/sleepwatch/sleepwatch.toml")


class ConfigError(SleepwatchError):
    """A configuration that is wrong: the message names the file, the key path, and what to write instead."""


_Seconds = Annotated[float, msgspec.Meta(ge=0.05, le=86_400)]
_Days = Annotated[float, msgspec.Meta(gt=0, le=36_500)]


class FileSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[file]]``: a log file, or a pattern that matches several."""

    path: str
    """Absolute, or relative to the configuration file. ``*``, ``?`` and ``[…]`` make a pattern."""
    envelope: str | None = None
    """The carrier of its lines; told from the lines where it is not given."""


class Database(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[database]``: where incidents and the reading's state are kept."""

    path: str | None = None
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
    backfill_megabytes: Annotated[int, msgspec.Meta(ge=0, le=4096)] = 64
    """How far the very first start reads back for the beginning of the current life."""
    blind_seconds: _Seconds = 60.0
    """A source that cannot be read, or grows unread, for this long is an incident."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[metrics]``: Prometheus metrics, off unless a port or file is given."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    """Loopback only."""
    textfile: str | None = None
    """A file for node_exporter's textfile collector (its name must end in ``.prom``)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration."""

    file: tuple[FileSource, ...] = ()
    database: Database = Database()
    following: Following = Following()
    metrics: Metrics = Metrics()


def load_settings(path: Path) -> Settings:
    """Read and check a configuration file. Raises ConfigError."""
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
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    settings = _convert(path, data)
    return msgspec.structs.replace(settings, file=tuple(_absolute(path.parent, one) for one in settings.file))


def _convert(path: Path, data: dict[str, Any]) -> Settings:
    try:
        settings = msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        key = where.rstrip("`").removeprefix(".") or "the top level"
        raise ConfigError(f"{path}: {key}: {_plain(message)}", hint=_hint(message, key)) from error
    _check(path, settings)
    return settings


def _check(path: Path, settings: Settings) -> None:
    from sleepwatch.envelopes import names

    for at, source in enumerate(settings.file):
        if not source.path:
            raise ConfigError(f"{path}: file[{at}].path: is empty", hint="write the log file's path")
        if source.envelope is not None and source.envelope not in names():
            raise ConfigError(
                f"{path}: file[{at}].envelope: there is no carrier {source.envelope!r}",
                hint=f"one of {', '.join(names())}, or leave it out",
            )
    textfile = settings.metrics.textfile
    if textfile is not None and not textfile.endswith(".prom"):
        raise ConfigError(f"{path}: metrics.textfile: {textfile!r}", hint="its name must end in .prom")


def _plain(message: str) -> str:
    """msgspec's words, with the key's name where it has it."""
    message = message.replace("Object contains unknown field", "unknown key")
    message = message.replace("Object missing required field", "missing key")
    return re.sub(r"^Expected", "expected", message)


def _hint(message: str, key: str) -> str | None:
    if "unknown field" in message:
        cls = _section(key)
        return f"known here: {', '.join(cls.__struct_fields__)}" if cls is not None else None
    return "`sleepwatch config show` lists every key with what it allows"


def _section(key: str) -> type[msgspec.Struct] | None:
    name = re.sub(r"\[.*", "", key)
    sections: dict[str, type[msgspec.Struct]] = {
        "the top level": Settings, "file": FileSource, "database": Database, "following": Following, "metrics": Metrics,
    }  # fmt: skip
    return sections.get(name)


def _absolute(base: Path, source: FileSource) -> FileSource:
    path = os.path.expanduser(source.path)
    return msgspec.structs.replace(source, path=path if os.path.isabs(path) else str(base.absolute() / path))


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Every key: its path, its value, and what it allows, in the order of the file."""
    rows: list[tuple[str, str, str]] = []
    for at, source in enumerate(settings.file):
        rows.append((f"file[{at}].path", repr(source.path), "path or pattern"))
        rows.append((f"file[{at}].envelope", repr(source.envelope), "a carrier's name; none: told from the lines"))
    for section in ("database", "following", "metrics"):
        struct = getattr(settings, section)
        rows.extend(
            (f"{section}.{info.encode_name}", repr(getattr(struct, info.name)), _allowed(info.type))
            for info in msgspec.structs.fields(struct)
        )
    return rows


def _allowed(kind: Any) -> str:
    """The allowed values of a field, in words."""
    text = str(kind)
    bounds = re.search(r"Meta\((.*?)\)", text)
    base = "number" if "float" in text else "whole number" if "int" in text else "text"
    words = base
    if bounds:
        for sign, name in ((">=", "ge"), (">", "gt"), ("<=", "le"), ("<", "lt")):
            found = re.search(rf"\b{name}=([\d._]+)", bounds.group(1))
            if found:
                words += f", {sign} {found.group(1)}"
    return words + (", or none" if "None" in text else "")
