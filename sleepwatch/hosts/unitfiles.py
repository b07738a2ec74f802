"""systemd's configuration files as they stand on disk: search paths, drop-ins, sections, words.

The rules are those of systemd.unit(5), systemd.service(5) and systemd.syntax(7). Also read here: ``journald.conf`` and
``coredump.conf``, which have the same syntax and drop-in rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from sleepwatch.errors import os_words
from sleepwatch.hosts.files import read_regular

# systemd.unit(5), "Load path when running in system mode", the strongest first; /lib where /usr is not merged.
SYSTEM_PATHS = (
    "/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient",
    "/run/systemd/generator.early", "/etc/systemd/system", "/etc/systemd/system.attached",
    "/run/systemd/system", "/run/systemd/system.attached",
    "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
    "/run/systemd/generator.late",
)  # fmt: skip
SYSLOG_LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
"""The names of the syslog levels from 0 on, as settings name them (syslog(3))."""
_LARGEST = 1 << 20


class Assignment(msgspec.Struct, frozen=True):
    """One ``Key=value`` of a file."""

    section: str
    key: str
    value: str
    path: str
    line: int


class UnitFile(msgspec.Struct, frozen=True):
    """One unit as its file and drop-ins leave it."""

    name: str
    fragment: str | None
    drop_ins: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    """In the order in which they are applied."""
    masked: bool = False
    unreadable: tuple[str, ...] = ()
    """Files of it that could not be read, with why."""

    def scalar(self, section: str, key: str) -> Assignment | None:
        """The last assignment of a key; None where there is none or it was reset to nothing."""
        found = None
        for one in self.assignments:
            if one.section == section and one.key == key:
                found = one if one.value else None
        return found

    def values(self, section: str, key: str) -> tuple[Assignment, ...]:
        """All assignments of a list since the last empty one."""
        found: list[Assignment] = []
        for one in self.assignments:
            if one.section == section and one.key == key:
                if one.value:
                    found.append(one)
                else:
                    found.clear()
        return tuple(found)


def user_paths(home: str, uid: int, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The search path of a user's manager (systemd.unit(5)), the strongest first."""
    environment = environment or {}
    config = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    data = environment.get("XDG_DATA_HOME") or os.path.join(home, ".local/share")
    return (
        f"{config}/systemd/user.control", f"{runtime}/systemd/user.control", f"{runtime}/systemd/transient",
        f"{runtime}/systemd/generator.early", f"{config}/systemd/user", "/etc/xdg/systemd/user", "/etc/systemd/user",
        f"{runtime}/systemd/user", "/run/systemd/user", f"{runtime}/systemd/generator", f"{data}/systemd/user",
        "/usr/local/share/systemd/user", "/usr/share/systemd/user", "/usr/local/lib/systemd/user",
        "/usr/lib/systemd/user",
        f"{runtime}/systemd/generator.late",
    )  # fmt: skip


def parse(text: str, path: str) -> Iterator[Assignment]:
    """The assignments of one file, comments left out, continued lines joined."""
    section = ""
    pending = ""
    begun = 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or (not stripped and not pending):
            continue  # a comment inside a continued line is left out, and the line goes on behind it
        if not pending:
            begun = number
        if line.endswith("\\"):
            pending += line[:-1].lstrip() + " " if pending else line[:-1] + " "
            continue
        whole = (pending + (line.lstrip() if pending else line)).strip()
        pending = ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
            continue
        key, equals, value = whole.partition("=")
        if equals and section:
            yield Assignment(section, key.strip(), value.strip(), path, begun)
    if pending and section and "=" in pending:
        key, _, value = pending.strip().partition("=")
        yield Assignment(section, key.strip(), value.strip(), path, begun)


def read_text(path: Path) -> str | None:
    """A configuration file's text; None where there is none. Raises OSError where it cannot be read."""
    try:
        return read_regular(path, _LARGEST).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


class Tree:
    """Where a manager's unit files lie. ``root`` is put before every path."""

    def __init__(self, paths: Sequence[str], root: Path = Path("/")) -> None:
        self.root = root
        self.paths = tuple(dict.fromkeys(paths))

    def names(self) -> tuple[str, ...]:
        """The names of all services that have a file, a drop-in or an enabling link."""
        found = set()
        for directory in self.paths:
            for entry in _listed(self._at(directory)):
                if entry.endswith(".service"):
                    found.add(entry)
                elif entry.endswith((".wants", ".requires", ".upholds")):
                    found.update(name for name in _listed(self._at(directory) / entry) if name.endswith(".service"))
        return tuple(sorted(found))

    def enabled(self, name: str) -> bool:
        """Whether something starts it: a link below a ``.wants``, ``.requires`` or ``.upholds`` directory, or a timer,
        socket or path unit of its name that is started itself.
        """
        stem = name.removesuffix(".service")
        names = [name, *(f"{stem}{kind}" for kind in (".timer", ".socket", ".path"))]
        return any(self._wanted(one) for one in names)

    def _wanted(self, name: str) -> bool:
        for directory in self.paths:
            for entry in _listed(self._at(directory)):
                if entry.endswith((".wants", ".requires", ".upholds")) and os.path.lexists(
                    self._at(directory) / entry / name
                ):
                    return True
        return False

    def load(self, name: str) -> UnitFile | None:
        """A unit with its drop-ins; None where it has no file. An instance is loaded from its template."""
        fragment = self._fragment(name) or self._fragment(template_of(name) or "")
        if fragment is None:
            return None
        unreadable: list[str] = []
        assignments: list[Assignment] = []
        masked = self._masked(fragment)
        drop_ins = []
        if not masked:
            assignments += self._read(fragment, unreadable)
            for path in self._drop_ins(name, fragment):
                drop_ins.append(str(path))
                assignments += self._read(path, unreadable)
        shown = str(self._shown(fragment))
        return UnitFile(name, shown, tuple(drop_ins), tuple(assignments), masked, tuple(unreadable))

    def _at(self, directory: str) -> Path:
        return self.root / directory.lstrip("/")

    def _shown(self, path: Path) -> Path:
        return Path("/") / path.relative_to(self.root) if self.root != Path("/") else path

    def _fragment(self, name: str) -> Path | None:
        if not name:
            return None
        return next((path for d in self.paths if os.path.lexists(path := self._at(d) / name)), None)

    def _masked(self, path: Path) -> bool:
        try:
            return os.path.realpath(path) == "/dev/null" or path.stat().st_size == 0
        except OSError:
            return False

    def _drop_ins(self, name: str, fragment: Path) -> list[Path]:
        """Sorted by file name; of equal names the one from the more specific and then the stronger directory counts."""
        chosen: dict[str, Path] = {}
        for directory_name in _drop_in_names(name, fragment):
            for directory in self.paths:
                for entry in _listed(self._at(directory) / directory_name):
                    if entry.endswith(".conf"):
                        chosen.setdefault(entry, self._at(directory) / directory_name / entry)
        return [chosen[entry] for entry in sorted(chosen) if not self._masked(chosen[entry])]

    def _read(self, path: Path, unreadable: list[str]) -> list[Assignment]:
        shown = str(self._shown(path))
        try:
            text = read_text(path)
        except OSError as error:
            unreadable.append(f"{shown}: {os_words(error)}")
            return []
        if text is None:
            unreadable.append(f"{shown}: a link that leads nowhere")
            return []
        return list(parse(text, shown))


def _listed(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def template_of(name: str) -> str | None:
    """``llm@gemma.service`` → ``llm@.service``; None for a unit that is no instance."""
    found = re.fullmatch(r"([^@]+@)[^@]+(\.\w+)", name)
    return None if found is None else found.group(1) + found.group(2)


def _drop_in_names(name: str, fragment: Path) -> list[str]:
    """The drop-in directories of a unit, the most specific first."""
    names = [name]
    real = os.path.basename(os.path.realpath(fragment))
    if real != name and real.endswith(".service") and "@" not in real:
        names.append(real)  # an alias has the drop-ins of the unit it stands for
    for one in list(names):
        template = template_of(one)
        if template:
            names.append(template)
    for one in list(names):
        stem, _, suffix = one.rpartition(".")
        stem = stem.partition("@")[0]
        while "-" in stem.rstrip("-"):
            stem = stem.rstrip("-").rpartition("-")[0] + "-"
            names.append(f"{stem}.{suffix}")
    return [f"{one}.d" for one in dict.fromkeys(names)] + ["service.d"]


def read_config(name: str, root: Path = Path("/")) -> UnitFile:
    """``journald.conf`` or ``coredump.conf`` with its drop-ins (systemd-system.conf(5), "CONFIGURATION
    DIRECTORIES AND PRECEDENCE")."""
    places = ["etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd"]
    unreadable: list[str] = []
    assignments: list[Assignment] = []
    main = next((root / place / name for place in places if (root / place / name).exists()), None)
    chosen: dict[str, Path] = {}
    for place in places:
        for entry in _listed(root / place / f"{name}.d"):
            if entry.endswith(".conf"):
                chosen.setdefault(entry, root / place / f"{name}.d" / entry)
    for path in [*([main] if main else []), *(chosen[entry] for entry in sorted(chosen))]:
        shown = str(Path("/") / path.relative_to(root))
        try:
            assignments += parse(read_text(path) or "", shown)
        except OSError as error:
            unreadable.append(f"{shown}: {os_words(error)}")
    return UnitFile(name, None if main is None else str(main), (), tuple(assignments), unreadable=tuple(unreadable))


_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}


def split_words(text: str) -> list[str]:
    """The words of a value: blanks separate, either quote groups, C escapes count (systemd.syntax(7), "Quoting")."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and at < len(text):
            piece, at = _escape(text, at)
            word = (word or "") + piece
        elif char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
            word = word or ""
        elif not quote and char.isspace():
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + char
    if word is not None:
        words.append(word)
    return words


def _escape(text: str, at: int) -> tuple[str, int]:
    """The character an escape stands for, and where reading goes on; an unknown escape stays as it is written."""
    if text[at] in _ESCAPES:
        return _ESCAPES[text[at]], at + 1
    for pattern, base in ((r"x([0-9a-fA-F]{2})", 16), (r"([0-7]{3})", 8), (r"u([0-9a-fA-F]{4})", 16)):
        found = re.compile(pattern).match(text, at)
        if found:
            return chr(int(found.group(1), base)), found.end()
    return "\\" + text[at], at + 1


def parse_environment(text: str) -> dict[str, str]:
    """``Environment="A=two words" B=c`` as variables."""
    return {name: value for name, equals, value in (word.partition("=") for word in split_words(text)) if equals}


def parse_environment_file(text: str) -> dict[str, str]:
    """An ``EnvironmentFile``: one ``NAME=value`` a line, quotes and continued lines as in a shell (systemd.exec(5))."""
    found = {}
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        line = line.strip()
        name, equals, value = line.partition("=")
        if line.startswith(("#", ";")) or not equals:
            continue
        value = value.strip()
        if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
            quoted, value = value[0], value[1:-1]
            if quoted == '"':
                value = re.sub(r'\\(["\\$`])', r"\1", value)
        found[name.strip().removeprefix("export ").strip()] = value
    return found


def syslog_level(text: str, default: int) -> int:
    """A syslog level by its number or name."""
    if text.isdigit():
        return int(text)
    return SYSLOG_LEVELS.index(text) if text in SYSLOG_LEVELS else default


def expand(words: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Variables as systemd puts them in: ``${A}`` inside a word, ``$A`` alone as its words, ``$$`` for ``$``.

    A variable that is not known stays as it is written, so that it can be told from an empty one.
    """
    found: list[str] = []
    for word in words:
        alone = re.fullmatch(r"\$([A-Za-z_]\w*)", word)
        if alone and alone.group(1) in environment:
            found += split_words(environment[alone.group(1)])
            continue
        found.append(
            re.sub(
                r"\$\$|\$\{([A-Za-z_]\w*)\}",
                lambda m: "$" if m.group(0) == "$$" else environment.get(m.group(1), m.group(0)),
                word,
            )
        )
    return found


def specifiers(name: str, *, home: str, uid: int, user: str, runtime: str, host: str = "") -> dict[str, str]:
    """What ``%`` letters stand for in a unit of this name (systemd.unit(5), "SPECIFIERS"), as far as commands use
    them."""
    stem = name.rpartition(".")[0]
    prefix, at, instance = stem.partition("@")
    system = runtime == "/run"
    return {
        "n": name, "N": stem, "p": prefix if at else stem, "P": unescape(prefix if at else stem),
        "i": instance, "I": unescape(instance), "j": (prefix if at else stem).rpartition("-")[2],
        "h": home, "u": user, "U": str(uid), "t": runtime, "H": host, "l": host.partition(".")[0], "%": "%",
        "S": "/var/lib" if system else f"{home}/.local/state", "C": "/var/cache" if system else f"{home}/.cache",
        "L": "/var/log" if system else f"{home}/.local/state/log", "E": "/etc" if system else f"{home}/.config",
        "T": "/tmp", "V": "/var/tmp",
    }  # fmt: skip


def resolve(text: str, letters: Mapping[str, str]) -> str:
    """A value with its ``%`` specifiers put in; unknown ones stay."""
    return re.sub(r"%(.)", lambda found: letters.get(found.group(1), found.group(0)), text)


def unescape(text: str) -> str:
    """``a-b\\x2dc`` → ``a/b-c``: systemd's escaping of unit names undone (systemd-escape(1))."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found.group(1), 16)), text.replace("-", "/"))
