"""Router preset files (``--models-preset``) and llama.cpp's own configuration files, read as llama.cpp reads them.

The grammar is llama.cpp's (``common/preset.cpp``, ``parse_ini_from_file``), which is stricter than other INI readers: a
key begins in column one, there is no quoting, ``;`` or ``#`` ends a value anywhere, a section that comes again replaces
the first, and one line that is none of header, key, comment or blank stops the whole server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from sleepwatch.errors import SleepwatchError, os_words
from sleepwatch.hosts.files import read_regular
from sleepwatch.hosts.options import SLEEP, Problem, ServerOptions, parse_keys

DEFAULT_SECTION = "default"
"""Where keys before the first header go (``COMMON_PRESET_DEFAULT_NAME``)."""
GLOBAL_SECTION = "*"
SYSTEM_CONFIG = Path("/etc/llama.cpp/config.ini")
"""Read by every llama.cpp program since b10398 (llama.cpp #26118), below environment and command line."""
CONFIG_SINCE_BUILD = 10398

_LARGEST = 1 << 20
_LINE_END = re.compile(r"\r\n|\n|\r")
_HEADER = re.compile(r"\[[ \t]*([^\]]+)\][ \t]*(?:[;#].*)?")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*(.*)", re.DOTALL)
_IGNORED = re.compile(r"[ \t]*(?:[;#].*)?")
# Options of the router that its children do not inherit (tools/server/server-models.cpp, unset_reserved_args).
_RESERVED = (
    "ssl-key-file", "ssl-cert-file", "api-key", "models-dir", "models-max", "models-preset", "models-autoload",
    "model", "mmproj", "alias", "hf-repo", "host", "port",
)  # fmt: skip


class PresetError(SleepwatchError):
    """A preset file that llama-server refuses or that cannot be read; the message names file and line."""


class Entry(msgspec.Struct, frozen=True):
    """One ``key = value``."""

    key: str
    value: str
    line: int


class Section(msgspec.Struct, frozen=True):
    """One ``[name]`` with what stands below it, the last of equal keys only."""

    name: str
    line: int
    """Where its header stands; 0 for the keys before the first header."""
    entries: tuple[Entry, ...]


class PresetFile(msgspec.Struct, frozen=True):
    """A whole file."""

    path: str
    sections: tuple[Section, ...]
    replaced: tuple[Section, ...] = ()
    """Sections that a later one of the same name replaced whole."""

    def section(self, name: str) -> Section | None:
        """The section of this name."""
        return next((section for section in self.sections if section.name == name), None)


class PresetModel(msgspec.Struct, frozen=True):
    """One model of a router, with the options its server would get."""

    name: str
    options: ServerOptions


def parse(text: str, path: str = "preset") -> PresetFile:
    """The sections of a preset or configuration file. Raises PresetError naming the first line that stops
    llama-server."""
    sections: dict[str, Section] = {}
    replaced = []
    name, header, entries = DEFAULT_SECTION, 0, dict[str, Entry]()

    def close() -> None:
        if header or entries:
            if name in sections:
                replaced.append(sections.pop(name))
            sections[name] = Section(name, header, tuple(entries.values()))

    for number, line in enumerate(_LINE_END.split(text), 1):
        found = _HEADER.fullmatch(line)
        if found:
            close()
            name, header, entries = found.group(1), number, {}
            continue
        found = _KEY.fullmatch(line)
        if found:
            entries[found.group(1)] = Entry(found.group(1), _value(found.group(2)), number)
        elif not _IGNORED.fullmatch(line):
            raise PresetError(
                f"{path} line {number}: {_why_refused(line, number)}", hint="llama-server stops at this line"
            )
    close()
    return PresetFile(path, tuple(sections.values()), tuple(replaced))


def _value(rest: str) -> str:
    """Up to the first comment sign, blanks before it removed."""
    return re.split(r"[ \t]*[;#]", rest, maxsplit=1)[0].rstrip(" \t")


def _why_refused(line: str, number: int) -> str:
    if number == 1 and line.startswith("\ufeff"):
        return "begins with a byte order mark; save it as UTF-8 without one"
    if line[:1] in " \t" and (_KEY.fullmatch(line.lstrip()) or _HEADER.fullmatch(line.lstrip())):
        return "is indented; keys and headers must begin in the first column"
    if line.startswith("-"):
        return f"keys have no dashes before them: {line.split('=')[0].strip()}"
    if line.startswith("["):
        return "is no section header: [name] and nothing behind it but a comment"
    if "=" not in line:
        return "has no '='"
    return "a key is made of letters, digits, '_', '.' and '-', and begins with a letter or '_'"


def read(path: Path, shown_as: str | None = None) -> PresetFile:
    """Read a file. Raises PresetError."""
    name = shown_as or str(path)
    try:
        content = read_regular(path, _LARGEST + 1)
    except OSError as error:
        raise PresetError(f"{name}: {os_words(error)}") from error
    if len(content) > _LARGEST:
        raise PresetError(f"{name}: larger than 1 MiB, so no preset file")
    return parse(content.decode("utf-8", "surrogateescape"), name)


def _section_options(file: PresetFile, name: str, kind: str, fatal: str) -> ServerOptions:
    section = file.section(name)
    if section is None:
        return ServerOptions()
    label = f"[{name}]" if section.line else "above all sections"
    return parse_keys(
        ((entry.key, entry.value, f"{file.path} line {entry.line}, {label}") for entry in section.entries),
        kind=kind,
        fatal=fatal,
    )


def global_options(file: PresetFile) -> ServerOptions:
    """What ``[*]`` gives to every model of the router, those not named in the file too."""
    return _section_options(file, GLOBAL_SECTION, "preset", "the router does not start")


def models(file: PresetFile, inherited: ServerOptions) -> tuple[PresetModel, ...]:
    """The models of a preset file with the options each server would get.

    ``inherited`` are the router's own options: its command line wins over the section, which wins over ``[*]``
    (llama.cpp ``tools/server/server-models.cpp``, ``load_models``); its environment is below both.
    """
    everywhere = global_options(file)
    found = []
    for section in file.sections:
        if section.name == GLOBAL_SECTION or (section.name == DEFAULT_SECTION and _only_version(section)):
            continue
        own = _section_options(file, section.name, "preset", "the router does not start")
        section_options = own.over(msgspec.structs.replace(everywhere, problems=()))
        options = handed_down(inherited).over(section_options).over(passed_on(inherited))
        found.append(PresetModel(section.name, options))
    return tuple(found)


def _only_version(section: Section) -> bool:
    return not section.line and all(entry.key == "version" for entry in section.entries)


def handed_down(router: ServerOptions) -> ServerOptions:
    """The part of a router's command line that every child gets too."""
    settings = {
        name: msgspec.structs.replace(setting, place=f"the router's {setting.place}")
        for name, setting in router.settings.items()
        if setting.kind == "argument" and name not in _RESERVED
    }
    return ServerOptions(settings)


def passed_on(router: ServerOptions) -> ServerOptions:
    """What reaches a child by itself, below everything else: the environment and the configuration files."""
    return ServerOptions({name: setting for name, setting in router.settings.items() if setting.kind != "argument"})


def problems(file: PresetFile) -> tuple[Problem, ...]:
    """What in a whole file does not do what it looks like."""
    found = list(global_options(file).problems)
    for section in file.sections:
        if section.name != GLOBAL_SECTION:
            found += _section_options(file, section.name, "preset", "the router does not start").problems
        if section.name.strip() != section.name:
            what = f"{file.path} line {section.line}: the blank in [{section.name}] is part of the model's name"
            found.append(Problem("blank-in-name", what))
    top = file.section(DEFAULT_SECTION)
    if top is not None and not top.line and any(entry.key == SLEEP for entry in top.entries):
        what = (
            f"{file.path}: {SLEEP} stands before the first section and so belongs to a model called "
            f"'{DEFAULT_SECTION}' alone; for all models it must stand below [*]"
        )
        found.append(Problem("top-level-sleep", what))
    for section in file.replaced:
        if any(entry.key == SLEEP for entry in section.entries):
            what = f"{file.path} line {section.line}: [{section.name}] comes again below, and this one is dropped whole"
            found.append(Problem("replaced-section", what))
    return tuple(found)


def config_paths(environment: dict[str, str]) -> tuple[Path, ...]:
    """The configuration files a llama.cpp program reads, the stronger one last (llama.cpp #26118)."""
    base = environment.get("XDG_CONFIG_HOME") or (
        os.path.join(environment["HOME"], ".config") if environment.get("HOME") else None
    )
    return (SYSTEM_CONFIG, *((Path(base) / "llama.cpp" / "config.ini",) if base else ()))


def config_options(paths: tuple[Path, ...], locate: Callable[[Path], Path]) -> tuple[ServerOptions, tuple[str, ...]]:
    """What the configuration files set, and which of them could not be read.

    Only keys before the first section, ``[default]`` and ``[*]`` count. ``locate`` maps a path as the server sees it to
    where it can be read from here.
    """
    options = ServerOptions()
    unread = []
    for path in paths:
        try:
            real = locate(path)
            if not real.exists():
                continue
            file = read(real, str(path))
        except PresetError as error:
            unread.append(error.message)
            continue
        except OSError as error:
            unread.append(f"{path}: {os_words(error)}")
            continue
        fatal = "no llama.cpp program starts"
        own = _section_options(file, DEFAULT_SECTION, "config", fatal)
        options = own.over(_section_options(file, GLOBAL_SECTION, "config", fatal)).over(options)
    return options, tuple(unread)
