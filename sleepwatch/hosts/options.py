"""llama-server's options as it understands them itself: from arguments, environment, presets, configuration files.

Which wins (llama.cpp ``common/arg.cpp``, ``common_params_parse_ex``): the command line over the environment over the
configuration files; on the command line the last one. A long option may be written with ``_`` for ``-``.
``--option=value`` is refused, as is every option the build does not know.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sleepwatch.hosts.option_table import PRESET_ONLY, TABLE

SLEEP = "sleep-idle-seconds"
SLEEP_ENVIRONMENT = "LLAMA_ARG_SLEEP_IDLE_SECONDS"
"""What people set, after the pattern of the other options; no build reads it (``common/arg.cpp``: the option has no
``set_env``, from b7492, where it came, to September 2026)."""

DEFAULT_VERBOSITY = 3
"""``common/common.h``, every build that has sleep mode."""
LOUDEST = 2**31 - 1
"""What ``-v`` sets the verbosity to."""
MODEL_SOURCES = ("model", "model-url", "docker-repo", "hf-repo")
"""Options that name a model: without any of them a server is a router (``tools/server/server.cpp``)."""

_TRUE = {"on", "enabled", "true", "1"}
_FALSE = {"off", "disabled", "false", "0"}
_DRAFTING = (
    "spec-draft-model",
    "spec-draft-hf",
    "spec-type",
    "spec-default",
    "lookup-cache-static",
    "lookup-cache-dynamic",
)


class Option(msgspec.Struct, frozen=True):
    """One option of llama-server."""

    name: str
    """Its first long spelling without dashes."""
    spellings: tuple[str, ...]
    negations: tuple[str, ...]
    environment: tuple[str, ...]
    values: int
    """How many values follow it."""


class Setting(msgspec.Struct, frozen=True):
    """One value an option was given."""

    value: str
    place: str
    """Where it stands, in words: ``command line``, ``environment``, ``/etc/models.ini line 3, [*]``."""
    kind: str
    """``argument``, ``environment``, ``preset`` or ``config``."""
    spelling: str = ""
    """How it was written there: ``--sleep-idle-seconds``, ``LLAMA_ARG_TIMEOUT``."""


class Problem(msgspec.Struct, frozen=True):
    """Something in the options that the server would not take, or not as it was meant."""

    code: str
    """``equals-sign``, ``no-value``, ``unknown-option``, ``unknown-key``, ``ignored-environment``,
    ``top-level-sleep`` …"""
    what: str
    fatal: bool = False
    """The server refuses to start."""
    setting: Setting | None = None


class Sleep(msgspec.Struct, frozen=True):
    """Sleep mode as these options leave it."""

    state: str
    """``on``, ``off``, ``refused`` (the server does not start with this value) or ``unknown`` (cannot be told
    from here)."""
    seconds: int | None = None
    setting: Setting | None = None
    """Who said so; None where nobody did (the default, off)."""


class ServerOptions(msgspec.Struct, frozen=True):
    """What one server was told, and by whom. Names are those of :class:`Option`."""

    settings: dict[str, Setting] = {}
    problems: tuple[Problem, ...] = ()

    def get(self, name: str) -> str | None:
        """The value of an option; None where it was not given."""
        setting = self.settings.get(name)
        return None if setting is None else setting.value

    def number(self, name: str, default: int | None = None) -> int | None:
        """The value of a whole-number option; ``default`` where it was not given or is none."""
        setting = self.settings.get(name)
        value = None if setting is None else leading_number(setting.value)
        return default if value is None else value

    def flag(self, name: str, default: bool = False) -> bool:
        """Whether a yes/no option is on."""
        setting = self.settings.get(name)
        if setting is None:
            return default
        return setting.value in _TRUE if setting.value in _TRUE | _FALSE else default

    @property
    def sleep(self) -> Sleep:
        """Sleep mode. -1 is off, 0 and anything below -1 is refused, as is what is no number."""
        setting = self.settings.get(SLEEP)
        if setting is None:
            return Sleep("off")
        if "$" in setting.value or "%" in setting.value:
            return Sleep("unknown", setting=setting)
        seconds = leading_number(setting.value)
        if seconds is None or seconds == 0 or seconds < -1:
            return Sleep("refused", seconds, setting)
        return Sleep("off" if seconds == -1 else "on", seconds, setting)

    @property
    def verbosity(self) -> int:
        """The level up to which lines are printed; ``-v`` is LOUDEST."""
        value = self.number("verbosity", DEFAULT_VERBOSITY)
        assert value is not None
        return value

    @property
    def silent(self) -> bool:
        """``--log-disable``: nothing is printed at all."""
        return self.flag("log-disable")

    @property
    def is_router(self) -> bool:
        """No model named: it starts one server per model."""
        shortcut = any(name.endswith(("-default", "-spec")) and name != "spec-default" for name in self.settings)
        return not shortcut and not any(self.get(name) for name in MODEL_SOURCES)

    @property
    def model(self) -> str | None:
        """The model as people call it: its alias, else its file or repository; None for a router."""
        for name in ("alias", *MODEL_SOURCES):
            value = self.get(name)
            if value:
                return value.rstrip("/").rpartition("/")[2] if name in ("model", "model-url") else value
        return None

    @property
    def slots(self) -> int | None:
        """Parallel slots; None where the server chooses (``-1``, the default; four in 2026's builds)."""
        value = self.number("parallel")
        return None if value is None or value < 1 else value

    @property
    def images(self) -> Setting | None:
        """What makes it take images; None where nothing does."""
        for name in ("mmproj", "mmproj-url"):
            if self.get(name):
                return self.settings[name]
        return None

    @property
    def drafting(self) -> Setting | None:
        """What turns on speculative decoding; None where nothing does."""
        for name in _DRAFTING:
            value = self.get(name)
            if value and value != "none" and value not in _FALSE:
                return self.settings[name]
        return None

    def over(self, other: ServerOptions) -> ServerOptions:
        """These options where they are given, else the other's."""
        return ServerOptions({**other.settings, **self.settings}, other.problems + self.problems)


def leading_number(text: str) -> int | None:
    """A whole number as C++'s ``std::stoi`` reads it: blanks, sign, digits, and the rest ignored; None where it
    throws."""
    found = re.match(r"\s*([+-]?\d+)", text)
    value = int(found.group(1)) if found else None
    return value if value is not None and -(2**31) <= value < 2**31 else None


@functools.cache
def options() -> tuple[Option, ...]:
    """Every option known."""
    found = []
    for line in TABLE.split("\n"):
        words = line.split()
        if not words:
            continue
        spellings = tuple(word for word in words if word.startswith("-"))
        name = next((word for word in spellings if word.startswith("--")), spellings[0]).lstrip("-")
        found.append(
            Option(
                name=name,
                spellings=spellings,
                negations=tuple(word[1:] for word in words if word.startswith("!")),
                environment=tuple(word for word in words if "_" in word and word[0] not in "-!"),
                values={"N": 1, "NN": 2}.get(next((w for w in words if w in ("N", "NN")), ""), 0),
            )
        )
    return tuple(found)


@functools.cache
def _by_argument() -> dict[str, tuple[Option, bool]]:
    table = {spelling: (option, True) for option in options() for spelling in option.spellings}
    table.update({spelling: (option, False) for option in options() for spelling in option.negations})
    return table


@functools.cache
def _by_environment() -> dict[str, tuple[Option, bool]]:
    return {name: (option, "LLAMA_ARG_NO_" not in name) for option in options() for name in option.environment}


@functools.cache
def _by_key() -> dict[str, tuple[Option, bool]]:
    table = {spelling.lstrip("-"): known for spelling, known in _by_argument().items()}
    return {**table, **_by_environment()}


def _put(settings: dict[str, Setting], option: Option, setting: Setting) -> None:
    """``-v`` and ``-lv N`` set the same number, and the later one wins."""
    if option.name == "verbose":
        if setting.value not in _FALSE:
            settings["verbosity"] = msgspec.structs.replace(setting, value=str(LOUDEST))
        return
    settings[option.name] = setting


def parse_arguments(arguments: Sequence[str], *, place: str = "command line") -> ServerOptions:
    """The arguments behind the server's name.

    What the server would refuse is in ``problems``. ``--option=value`` is read all the same: a server that runs with it
    is a fork that takes it, or a wrapper that translates it.
    """
    settings: dict[str, Setting] = {}
    problems: list[Problem] = []
    at = 0
    while at < len(arguments):
        written = arguments[at]
        at += 1
        spelling = written.replace("_", "-") if written.startswith("--") else written
        known = _by_argument().get(spelling)
        if known is None:
            name, equals, value = spelling.partition("=")
            known = _by_argument().get(name) if equals else None
            if known is not None:
                setting = Setting(written.partition("=")[2], place, "argument", written.partition("=")[0])
                _put(settings, known[0], setting)
                what = f"{known[0].name}: llama-server takes no '=': write '{name} {value}'"
                problems.append(Problem("equals-sign", what, fatal=True, setting=setting))
            elif re.match(r"--[a-z]", spelling):  # what has one dash may be a value, and a secret one
                close = difflib.get_close_matches(spelling, _by_argument(), 1, 0.8)
                hint = f" ({close[0]} is)" if close else ""
                problems.append(
                    Problem("unknown-option", f"{spelling.partition('=')[0]} is no option known here{hint}")
                )
            continue
        option, positive = known
        if option.values == 0:
            _put(settings, option, Setting("true" if positive else "false", place, "argument", written))
            continue
        if at + option.values > len(arguments):
            problems.append(Problem("no-value", f"{written} stands last and has no value", fatal=True))
            break
        _put(settings, option, Setting(arguments[at], place, "argument", written))
        at += option.values
    return ServerOptions(settings, tuple(problems))


def parse_environment(environment: Mapping[str, str], *, place: str = "environment") -> ServerOptions:
    """The variables the server reads, and those that people set and it does not."""
    settings: dict[str, Setting] = {}
    problems = []
    for name, value in environment.items():
        known = _by_environment().get(name)
        if known is not None:
            option, positive = known
            if option.values == 0 and not positive:
                value = _negated(value)
            _put(settings, option, Setting(value, place, "environment", name))
        elif name == SLEEP_ENVIRONMENT:
            setting = Setting(value, place, "environment", name)
            problems.append(Problem("ignored-environment", f"{name} is set, and no build reads it", setting=setting))
    return ServerOptions(settings, tuple(problems))


def parse_keys(keys: Iterable[tuple[str, str, str]], *, kind: str, fatal: str) -> ServerOptions:
    """Keys of a preset section or configuration file: (key, value, place).

    A key is an option's name without dashes, short or long, or its variable's name, spelled exactly so (llama.cpp
    ``common/preset.cpp``, ``load_from_ini``). Of several names of one option the last in the alphabet wins. ``fatal``
    says what an unknown key does.
    """
    settings: dict[str, Setting] = {}
    problems = []
    for key, value, place in sorted(keys):
        if key == "version" or key in PRESET_ONLY:
            continue
        known = _by_key().get(key)
        setting = Setting(value, place, kind, key)
        if known is None:
            problems.append(_unknown_key(key, setting, fatal))
            continue
        option, positive = known
        if option.values == 0 and not positive and key not in _by_environment():
            setting = msgspec.structs.replace(setting, value=_negated(value))
        _put(settings, option, setting)
    return ServerOptions(settings, tuple(problems))


def _unknown_key(key: str, setting: Setting, fatal: str) -> Problem:
    if key == SLEEP_ENVIRONMENT or key.lower().replace("_", "-").lstrip("-") == SLEEP:
        what = f"'{key}' is no key: write {SLEEP}; {fatal}"
        return Problem("unknown-key", what, fatal=True, setting=setting)
    close = difflib.get_close_matches(key.replace("_", "-"), _by_key(), 1, 0.8)
    hint = f" ({close[0]} is)" if close else ""
    what = f"'{key}' is no key known here{hint}. If its build does not know it either, {fatal}"
    return Problem("unknown-key", what, setting=setting)


def _negated(value: str) -> str:
    return "false" if value in _TRUE else "true"
