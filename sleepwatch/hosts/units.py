"""systemd units that start a llama-server: what would happen when it dies, and where its lines go.

Where a systemd runs, ``systemctl show`` has the last word on what is in force; the files on disk say what the command
is word by word (``show`` joins them with blanks) and which file decided a setting. Where none runs, the files say all.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from sleepwatch.errors import os_words
from sleepwatch.hosts import unitfiles
from sleepwatch.hosts.commandline import Invocation, find, find_in_script
from sleepwatch.hosts.commands import Run
from sleepwatch.hosts.files import read_regular
from sleepwatch.hosts.spans import parse_size, parse_span_us
from sleepwatch.hosts.unitfiles import SYSTEM_PATHS, Tree, UnitFile

RUNTIME_MARK = Path("/run/systemd/system")
"""This directory exists where systemd is the running init (sd_booted(3))."""

# systemd.service(5), systemd-system.conf(5): what holds where nothing is said.
DEFAULT_RESTART_US = 100_000
DEFAULT_LIMIT_INTERVAL_US = 10_000_000
DEFAULT_LIMIT_BURST = 5

PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "FragmentPath", "DropInPaths",
    "MainPID", "Type", "Restart", "RestartUSec", "RestartPreventExitStatus", "RestartForceExitStatus",
    "SuccessExitStatus",
    "RemainAfterExit", "StartLimitIntervalUSec", "StartLimitBurst", "StartLimitAction", "NRestarts", "StandardOutput",
    "StandardError", "LogLevelMax", "LogNamespace", "LogRateLimitIntervalUSec", "LogRateLimitBurst", "SyslogLevel",
    "LimitCORESoft", "User", "ExecStart",
)  # fmt: skip
_STARTED = {"enabled", "enabled-runtime", "generated", "transient"}
"""Of systemctl(1)'s unit file states those in which something starts the unit."""
_PREFIXES = "@-:+!|"
_MENTIONS = re.compile(r"llama")
_LARGEST_SCRIPT = 256 << 10


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One service and what of it matters here. Times in microseconds; spans.INFINITY is for ever."""

    name: str
    manager: str = "system"
    """``system``, or ``user`` for a user's own manager."""
    owner: str | None = None
    """The user whose manager it is, for ``user``."""
    read_from: str = "files"
    """``systemctl`` or ``files``."""
    fragment: str | None = None
    drop_ins: tuple[str, ...] = ()
    places: dict[str, str] = {}
    """Which file decided a setting, by its key."""
    masked: bool = False
    active: bool | None = None
    """None where it cannot be told from files."""
    enabled: bool = False
    """Something starts it: at boot, or on demand."""
    main_pid: int | None = None
    type: str = "simple"
    restart: str = "no"
    restart_us: int = DEFAULT_RESTART_US
    restart_prevent: tuple[str, ...] = ()
    restart_force: tuple[str, ...] = ()
    success: tuple[str, ...] = ()
    remain_after_exit: bool = False
    start_limit_interval_us: int = DEFAULT_LIMIT_INTERVAL_US
    start_limit_burst: int = DEFAULT_LIMIT_BURST
    start_limit_action: str = "none"
    restarts: int | None = None
    """How often systemd has restarted it since it was started by someone."""
    standard_output: str = "journal"
    standard_error: str = "inherit"
    log_level_max: int = 7
    """Journal entries above this syslog level are dropped (systemd.exec(5), ``LogLevelMax=``)."""
    syslog_level: int = 6
    """The level of lines that name none."""
    log_namespace: str | None = None
    log_rate_interval_us: int | None = None
    """None: journald's own."""
    log_rate_burst: int | None = None
    core_limit: int | None = None
    """Bytes, or spans.INFINITY; None where the unit says nothing."""
    environment: dict[str, str] = {}
    user: str | None = None
    home: str | None = None
    """Home directory of the user it runs as."""
    working_directory: str | None = None
    invocation: Invocation | None = None
    """The llama-server it starts, where its command shows one."""
    script: str | None = None
    """The script in which the command was found."""
    unreadable: tuple[str, ...] = ()

    @property
    def error_target(self) -> str:
        """Where standard error goes: ``journal``, ``null``, ``file:…``, ``append:…``, ``truncate:…`` …"""
        error = self.standard_error
        return self.standard_output if error == "inherit" else error


class Found(msgspec.Struct, frozen=True):
    """The units of a host."""

    units: tuple[Unit, ...]
    unseen: tuple[str, ...] = ()
    """What could not be looked at, in words."""


def find_units(
    *,
    root: Path = Path("/"),
    run: Run | None = None,
    wanted: Iterable[str] = (),
    booted: bool | None = None,
    homes: Iterable[tuple[str, int, str]] = (),
    environment: Mapping[str, str] | None = None,
) -> Found:
    """The units that would start a llama-server, and those named in ``wanted`` (system units of running servers).

    ``homes`` are users whose units are looked at too: (name, uid, home). ``run`` is asked only where a systemd runs.
    """
    booted = (root / str(RUNTIME_MARK).lstrip("/")).is_dir() if booted is None else booted
    unseen: list[str] = []
    tree = Tree(SYSTEM_PATHS, root)
    shown: dict[str, dict[str, str]] = {}
    if booted and run is not None:
        shown, why = _ask(run, (), ["*.service"])
        if why:
            unseen.append(f"systemd was not asked: {why}")
    names = dict.fromkeys([*wanted, *_candidates(tree, shown)])
    if booted and run is not None and shown:
        missing = [name for name in names if name not in shown]
        if missing:
            more, _ = _ask(run, (), missing)
            shown.update(more)
    units = []
    for name in names:
        unit = _unit(name, tree, shown.get(name), manager="system", account=None, root=root, unseen=unseen)
        if unit is not None and (unit.invocation is not None or name in set(wanted)):
            units.append(unit)
    for user, uid, home in homes:
        units += _user_units(user, uid, home, root, run if booted else None, environment or {}, unseen)
    return Found(tuple(units), tuple(dict.fromkeys(unseen)))


def _user_units(
    user: str, uid: int, home: str, root: Path, run: Run | None, environment: Mapping[str, str], unseen: list[str]
) -> list[Unit]:
    own = uid == os.geteuid() and root == Path("/")
    tree = Tree(unitfiles.user_paths(home, uid, environment if own else None), root)
    shown: dict[str, dict[str, str]] = {}
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    if own and run is not None and os.path.isdir(runtime):
        shown, why = _ask(run, ("--user",), ["*.service"], runtime=runtime)
        if why:
            unseen.append(f"{user}'s systemd was not asked: {why}")
    found = []
    for name in _candidates(tree, shown):
        account = (user, uid, home)
        unit = _unit(name, tree, shown.get(name), manager="user", account=account, root=root, unseen=unseen)
        if unit is not None and unit.invocation is not None:
            found.append(unit)
    return found


def _candidates(tree: Tree, shown: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Names whose files or command mention llama: a cheap sieve before anything is parsed."""
    found = [name for name, block in shown.items() if _MENTIONS.search(block.get("ExecStart", ""))]
    for name in tree.names():
        loaded = tree.load(name)
        if loaded is None or loaded.masked or ("@." in name):
            continue
        if any(one.key.startswith(("Exec", "Environment")) for one in loaded.assignments) and (
            "llama" in name or _mentions(loaded, tree.root)
        ):
            found.append(name)
    return list(dict.fromkeys(found))


def _mentions(loaded: UnitFile, root: Path) -> bool:
    for one in loaded.values("Service", "ExecStart"):
        if _MENTIONS.search(one.value):
            return True
        words = unitfiles.split_words(one.value.lstrip(_PREFIXES))
        script = _script_text(words, root)
        if script and "llama-server" in script:
            return True
    return any(_MENTIONS.search(one.value) for one in loaded.values("Service", "Environment"))


def _ask(
    run: Run, options: Sequence[str], names: Sequence[str], *, runtime: str | None = None
) -> tuple[dict[str, dict[str, str]], str | None]:
    """``systemctl show``: by unit name its properties; and why there are none.

    A user's manager is found by ``runtime``, which not every session has in its environment (su, cron, sudo).
    """
    before = ["env", f"XDG_RUNTIME_DIR={runtime}"] if runtime else []
    answer = run(
        [*before, "systemctl", *options, "--no-pager", "show", f"--property={','.join(PROPERTIES)}", "--", *names]
    )
    if not answer.output:
        return {}, answer.why or "systemctl said nothing"
    return parse_show(answer.output), None


def parse_show(text: str) -> dict[str, dict[str, str]]:
    """The output of ``systemctl show``: one block per unit, blocks parted by an empty line. An empty property is
    left out by it."""
    blocks: dict[str, dict[str, str]] = {}
    for block in re.split(r"\n\s*\n", text):
        properties = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if properties.get("Id"):
            blocks[properties["Id"]] = properties
    return blocks


def _unit(
    name: str,
    tree: Tree,
    shown: Mapping[str, str] | None,
    *,
    manager: str,
    account: tuple[str, int, str] | None,
    root: Path,
    unseen: list[str],
) -> Unit | None:
    loaded = tree.load(name)
    if loaded is None and (shown is None or shown.get("LoadState") != "loaded"):
        return None
    if loaded is None:
        loaded = UnitFile(name, None, (), ())
    unit = _from_files(loaded, tree, account, root)
    if shown is not None and shown.get("LoadState") in ("loaded", "masked"):
        unit = _in_force(unit, shown)
    unseen.extend(unit.unreadable)
    return unit


def _from_files(loaded: UnitFile, tree: Tree, account: tuple[str, int, str] | None, root: Path) -> Unit:
    """``account``: name, uid and home of the user whose manager has the unit; None for the system's."""
    places: dict[str, str] = {}

    def text(key: str, default: str = "", section: str = "Service") -> str:
        one = loaded.scalar(section, key)
        if one is not None:
            places[key] = one.path
            return one.value
        return default

    def span(key: str, default: int, section: str = "Service") -> int:
        value = text(key, section=section)
        parsed = parse_span_us(value) if value else None
        return default if parsed is None else parsed

    def words(key: str) -> tuple[str, ...]:
        found = loaded.values("Service", key)
        if found:
            places[key] = found[-1].path
        return tuple(word for one in found for word in one.value.split())

    # In a system unit %h is root's home whatever User= says: specifiers are the manager's (systemd.unit(5)).
    manager, (owner, uid, own_home) = ("system", ("root", 0, "/root")) if account is None else ("user", account)
    letters = unitfiles.specifiers(
        loaded.name, home=own_home, uid=uid, user=owner, runtime="/run" if account is None else f"/run/user/{uid}"
    )
    user = text("User") or owner
    home = own_home if user == owner else _home(user)
    for one in loaded.values("Service", "ExecStart"):
        places["ExecStart"] = one.path
    unreadable = list(loaded.unreadable)
    environment = _environment(loaded, letters, root, unreadable)
    invocation, script = _command(loaded, letters, environment, root, unreadable)
    rate = (
        parse_span_us(text("LogRateLimitIntervalSec")) if loaded.scalar("Service", "LogRateLimitIntervalSec") else None
    )
    burst = text("LogRateLimitBurst")
    core = text("LimitCORE")
    # These moved from [Service] to [Unit] in systemd 230; the old place is still read.
    limit_section = (
        "Unit"
        if loaded.scalar("Unit", "StartLimitBurst") or loaded.scalar("Unit", "StartLimitIntervalSec")
        else "Service"
    )
    interval_key = (
        "StartLimitIntervalSec" if loaded.scalar(limit_section, "StartLimitIntervalSec") else "StartLimitInterval"
    )
    return Unit(
        name=loaded.name,
        manager=manager,
        owner=owner if account is not None else None,
        fragment=loaded.fragment,
        drop_ins=loaded.drop_ins,
        places=places,
        masked=loaded.masked,
        enabled=tree.enabled(loaded.name),
        type=text("Type") or "simple",
        restart=text("Restart", "no"),
        restart_us=span("RestartSec", DEFAULT_RESTART_US),
        restart_prevent=words("RestartPreventExitStatus"),
        restart_force=words("RestartForceExitStatus"),
        success=words("SuccessExitStatus"),
        remain_after_exit=text("RemainAfterExit") in ("yes", "true", "on", "1"),
        start_limit_interval_us=span(interval_key, DEFAULT_LIMIT_INTERVAL_US, limit_section),
        start_limit_burst=_whole(text("StartLimitBurst", section=limit_section), DEFAULT_LIMIT_BURST),
        start_limit_action=text("StartLimitAction", "none", limit_section),
        standard_output=unitfiles.resolve(text("StandardOutput", "journal"), letters),
        standard_error=unitfiles.resolve(text("StandardError", "inherit"), letters),
        log_level_max=unitfiles.syslog_level(text("LogLevelMax"), 7),
        syslog_level=unitfiles.syslog_level(text("SyslogLevel"), 6),
        log_namespace=text("LogNamespace") or None,
        log_rate_interval_us=rate,
        log_rate_burst=int(burst) if burst.isdigit() else None,
        core_limit=_core_limit(core),
        environment=environment,
        user=user,
        home=home,
        working_directory=_directory(unitfiles.resolve(text("WorkingDirectory"), letters), home),
        invocation=invocation,
        script=script,
        unreadable=tuple(unreadable),
    )


def _in_force(unit: Unit, shown: Mapping[str, str]) -> Unit:
    """The unit as systemd itself has it. A property that was not asked for or is empty leaves the files' value."""

    def listed(key: str) -> tuple[str, ...]:
        return tuple(shown.get(key, "").split())

    def span(key: str, otherwise: int) -> int:
        parsed = parse_span_us(shown[key]) if shown.get(key) else None
        return otherwise if parsed is None else parsed

    rate = span("LogRateLimitIntervalUSec", 0)
    burst = _whole(shown.get("LogRateLimitBurst", ""), 0)
    main = _whole(shown.get("MainPID", ""), 0)
    invocation = unit.invocation or _shown_command(shown.get("ExecStart", ""), unit.environment)
    return msgspec.structs.replace(
        unit,
        read_from="systemctl",
        fragment=shown.get("FragmentPath") or unit.fragment,
        drop_ins=tuple(unitfiles.split_words(shown.get("DropInPaths", ""))) or unit.drop_ins,
        masked=shown.get("LoadState") == "masked",
        active=shown.get("ActiveState") in ("active", "activating", "reloading"),
        enabled=unit.enabled or shown.get("UnitFileState") in _STARTED,
        main_pid=main or None,
        type=shown.get("Type", unit.type),
        restart=shown.get("Restart", unit.restart),
        restart_us=span("RestartUSec", unit.restart_us),
        restart_prevent=listed("RestartPreventExitStatus"),
        restart_force=listed("RestartForceExitStatus"),
        success=listed("SuccessExitStatus"),
        remain_after_exit=shown.get("RemainAfterExit") == "yes",
        start_limit_interval_us=span("StartLimitIntervalUSec", unit.start_limit_interval_us),
        start_limit_burst=_whole(shown.get("StartLimitBurst", ""), unit.start_limit_burst),
        start_limit_action=shown.get("StartLimitAction", unit.start_limit_action),
        restarts=_whole(shown["NRestarts"], 0) if shown.get("NRestarts") else None,
        standard_output=_stream(shown.get("StandardOutput"), unit.standard_output),
        standard_error=_stream(shown.get("StandardError"), unit.standard_error),
        log_level_max=unitfiles.syslog_level(shown.get("LogLevelMax", "").replace("-1", ""), 7),
        syslog_level=unitfiles.syslog_level(shown.get("SyslogLevel", ""), 6),
        log_namespace=shown.get("LogNamespace") or unit.log_namespace,
        # show prints 0 for both "not said" and "off"; only the files tell them apart.
        log_rate_interval_us=rate or unit.log_rate_interval_us,
        log_rate_burst=burst or unit.log_rate_burst,
        core_limit=_core_limit(shown.get("LimitCORESoft", "")) if unit.core_limit is not None else None,
        invocation=invocation,
    )


def _stream(shown: str | None, from_files: str) -> str:
    """systemd prints ``append`` without the path the files have."""
    if not shown:
        return from_files
    return from_files if from_files.partition(":")[0] == shown else shown


def _shown_command(text: str, environment: Mapping[str, str]) -> Invocation | None:
    """``ExecStart`` as ``show`` prints it. Words with blanks in them are cut apart: good enough where no file is
    readable."""
    found = re.search(r"argv\[\]=(.*?) ; ignore_errors=", text)
    return None if found is None else find(unitfiles.expand(found.group(1).split(), environment), environment)


def _environment(loaded: UnitFile, letters: Mapping[str, str], root: Path, unreadable: list[str]) -> dict[str, str]:
    """``Environment=`` and, over it, ``EnvironmentFile=`` (systemd.exec(5): files win, whatever the order)."""
    environment: dict[str, str] = {}
    for one in loaded.values("Service", "Environment"):
        given = unitfiles.parse_environment(one.value)
        environment.update({name: unitfiles.resolve(value, letters) for name, value in given.items()})
    for one in loaded.values("Service", "EnvironmentFile"):
        path = unitfiles.resolve(one.value, letters)
        optional = path.startswith("-")
        path = path.lstrip("-")
        try:
            text = unitfiles.read_text(root / path.lstrip("/"))
        except OSError as error:
            unreadable.append(f"{path}: {os_words(error)}")
            continue
        if text is None and not optional:
            unreadable.append(f"{path}: no such file")
        environment.update(unitfiles.parse_environment_file(text or ""))
    for name in [word for one in loaded.values("Service", "UnsetEnvironment") for word in one.value.split()]:
        environment.pop(name.partition("=")[0], None)
    return environment


def _command(
    loaded: UnitFile, letters: Mapping[str, str], environment: Mapping[str, str], root: Path, unreadable: list[str]
) -> tuple[Invocation | None, str | None]:
    for one in loaded.values("Service", "ExecStart"):
        prefix = one.value[: len(one.value) - len(one.value.lstrip(_PREFIXES))]
        words = [unitfiles.resolve(word, letters) for word in unitfiles.split_words(one.value[len(prefix) :])]
        if "@" in prefix:
            del words[1:2]  # the second word is the name the process gets
        if ":" not in prefix:
            words = unitfiles.expand(words, environment)
        invocation = find(words, environment)
        if invocation is not None:
            return invocation, None
        try:
            script = _script_text(words, root)
        except OSError as error:
            unreadable.append(f"{words[0]}: {os_words(error)}")
            continue
        invocation = find_in_script(script, environment) if script else None
        if invocation is not None:
            return msgspec.structs.replace(
                invocation, wrappers=(os.path.basename(words[0]), *invocation.wrappers)
            ), words[0]
    return None, None


def _script_text(words: Sequence[str], root: Path) -> str | None:
    """The text of the script a command runs, where it is one."""
    for word in words[:3]:
        if not word.startswith("/"):
            continue
        path = root / word.lstrip("/")
        try:
            head = read_regular(path, _LARGEST_SCRIPT)
        except OSError:
            continue
        if head.startswith(b"#!") and b"\0" not in head and b"python" not in head.partition(b"\n")[0]:
            return head.decode("utf-8", "replace")
    return None


def _home(user: str) -> str:
    """The home of a user; ``/`` for one that is not there (DynamicUser)."""
    try:
        return (pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)).pw_dir
    except KeyError:
        return "/"


def _directory(value: str, home: str) -> str | None:
    value = value.lstrip("-")
    return home if value == "~" else value or None


def _whole(text: str, default: int) -> int:
    return int(text) if text.isdigit() else default


def _core_limit(text: str) -> int | None:
    return parse_size(text.partition(":")[0]) if text else None
