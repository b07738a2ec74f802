"""Looks at a host and writes down what is there. Reads files and asks systemd and container engines; never a server."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from sleepwatch.check.facts import Facts, HostFacts, Preset, ServerFacts, Watcher
from sleepwatch.config import DEFAULT_PATH, ConfigError, load_settings
from sleepwatch.errors import os_words
from sleepwatch.hosts import access, presets, units
from sleepwatch.hosts.commandline import Invocation
from sleepwatch.hosts.commands import Run, run
from sleepwatch.hosts.containers import Container
from sleepwatch.hosts.coredumps import find_coredumps
from sleepwatch.hosts.discovery import Discovered, assemble, unit_name
from sleepwatch.hosts.files import read_regular
from sleepwatch.hosts.journald import Journald, find_journald, readable_by
from sleepwatch.hosts.logs import Target, output_target, targets
from sleepwatch.hosts.options import ServerOptions, parse_arguments, parse_environment
from sleepwatch.hosts.processes import PROC, Found, ServerProcess, children, find_servers
from sleepwatch.hosts.units import Unit, find_units

_NETLINK_SOCK_DIAG = 4
"""linux/netlink.h."""
_LOWEST_PERSON = 1000
"""The first uid of people, not of services (login.defs, UID_MIN)."""
_BUILD_IN_IMAGE = re.compile(r"[:-]b(\d{4,5})(?:$|[-_.@])")
_BUILD_IN_LOG = re.compile(rb"(?:build_info: b|build: |build )(\d{4,5})[ -]\(?[0-9a-f]{7,}")
_HEAD_BYTES = 64 << 10


def gather(
    preset_files: Sequence[Path] = (),
    *,
    root: Path = Path("/"),
    proc: Path | None = None,
    run: Run | None = run,
    booted: bool | None = None,
    people: Iterable[tuple[str, int, str]] | None = None,
) -> Facts:
    """Everything the check needs to know. ``run`` None: no program is asked; ``people``: whose units are looked at.

    ``root`` holds the host's ``/etc``, ``/usr`` and ``/run``; ``proc`` its processes.
    """
    proc = proc or PROC
    unseen: list[str] = []
    try:
        found = find_servers(proc)
    except OSError as error:
        found = Found(())
        unseen.append(f"running processes: {proc}: {os_words(error)}")
    unseen += found.unseen
    unseen += [
        f"process {pid} is a llama-server that has ended and waits for its parent to notice" for pid in found.defunct
    ]
    servers = found.servers
    booted = units.RUNTIME_MARK.is_dir() if booted is None else booted
    people = list(_people(servers, unseen) if people is None else people)
    listed = find_units(
        root=root,
        run=run if booted else None,
        wanted=[server.place.unit for server in servers if server.place.unit],
        booted=booted,
        homes=people,
        environment=os.environ,
    )
    unseen += listed.unseen
    watchers = _watchers(proc)
    reader = access.reader_of(watchers[0].pid, proc) if watchers else None
    host = HostFacts(
        user=_user_name(os.geteuid()),
        uid=os.geteuid(),
        booted=booted,
        journald=_journald(root, run if booted else None, reader),
        coredumps=find_coredumps(root if proc == PROC else proc.parent),
        watchers=watchers,
        reader=f"the running sleepwatch (pid {watchers[0].pid})" if watchers else "this user",
        sockets=_can_ask_sockets(),
        unseen=tuple(dict.fromkeys(unseen)),
    )
    facts = _describe(assemble(servers, listed.units, run=run, root=root), listed.units, reader, root)
    facts += [_preset_alone(path) for path in preset_files if not _covered(path, facts)]
    return Facts(host=host, servers=tuple(facts))


def _journald(root: Path, run: Run | None, reader: access.Reader | None) -> Journald:
    """journald's settings, and whether who would read it may: a running sleepwatch, else this user."""
    found = find_journald(root=root, run=run)
    if reader is None:
        return found
    may = readable_by(reader, root)
    why = None if may else f"uid {reader.uid} is in none of the groups systemd-journal, adm, wheel"
    return msgspec.structs.replace(found, readable=may, why_unreadable=why)


def _describe(
    discovered: Sequence[Discovered], units: Sequence[Unit], reader: access.Reader | None, root: Path
) -> list[ServerFacts]:
    """Running servers, then units that would start one."""
    describer = _Describer(tuple(one.process for one in discovered), reader, root)
    names = {one.process.pid: one.name for one in discovered}
    found = []
    for one in discovered:
        router = one.process.router
        found.append(describer.running(one, names.get(router, f"process {router}") if router is not None else None))
    used = {(one.unit.name, one.unit.owner) for one in found if one.unit is not None}
    return found + [
        describer.not_running(unit, unit.invocation)
        for unit in units
        if unit.invocation is not None and not unit.masked and (unit.name, unit.owner) not in used
    ]


class _Describer:
    """Writes down what is known of servers that run and of units that would start one."""

    def __init__(self, servers: tuple[ServerProcess, ...], reader: access.Reader | None, root: Path) -> None:
        self.servers = servers
        self.reader = reader
        self.root = root

    def running(self, found: Discovered, router: str | None) -> ServerFacts:
        """``router``: the name of the one that started it."""
        server, unit, options = found.process, found.unit, found.process.options
        preset = self._preset(options, server, unit) if server.is_router else None
        below = children(server, self.servers)
        places = (*found.targets, *([found.output] if found.output is not None else []))
        return ServerFacts(
            name=found.name,
            process=server,
            unit=unit,
            container=found.container,
            options=options,
            would_start_with=_unit_options(unit, self.root),
            router=router,
            autoload=found.router.options.flag("models-autoload", True) if found.router is not None else True,
            is_router=server.is_router,
            others=_other_models(options, preset) if server.is_router else None,
            preset=preset,
            running_models=tuple(one.options.get("alias") or f"process {one.pid}" for one in below),
            build=server.build or _build_of_image(found.container) or _build_in_log(places),
            targets=found.targets,
            output=found.output,
            unreadable=self._unreadable(places),
        )

    def not_running(self, unit: Unit, invocation: Invocation) -> ServerFacts:
        options = _unit_options(unit, self.root) or ServerOptions()
        where = targets(options, None, unit, None)
        is_router = options.is_router and not _image_names_model(invocation)
        preset = self._preset(options, None, unit) if is_router else None
        return ServerFacts(
            name=unit_name(unit),
            unit=unit,
            options=options,
            autoload=options.flag("models-autoload", True),
            is_router=is_router,
            others=_other_models(options, preset) if is_router else None,
            preset=preset,
            build=_build_in_path(invocation.program),
            targets=where,
            output=output_target(None, unit, None) if is_router else None,
            unreadable=self._unreadable(where, missing_is_fine=True),
            counted=unit.enabled or bool(unit.active),
        )

    def _preset(self, options: ServerOptions, server: ServerProcess | None, unit: Unit | None) -> Preset | None:
        named = options.get("models-preset")
        if not named:
            return None
        if server is not None:
            real = server.locate(named)
        else:
            base = (unit.working_directory if unit else None) or "/"
            real = self.root / os.path.normpath(os.path.join(base, named)).lstrip("/")
        return read_preset(real, named, options)

    def _unreadable(self, where: Iterable[Target], *, missing_is_fine: bool = False) -> dict[str, str]:
        found = {}
        for target in where:
            if target.path is None or (missing_is_fine and not os.path.lexists(target.path)):
                continue
            why = access.why_unreadable(target.path, self.reader)
            if why is not None:
                found[target.path] = why
        return found


def read_preset(path: Path, shown_as: str, router: ServerOptions) -> Preset:
    """A preset file as a router with these options would use it."""
    try:
        file = presets.read(path, shown_as)
    except presets.PresetError as error:
        return Preset(path=shown_as, error=error.message, refused=error.hint is not None)
    return Preset(
        path=shown_as,
        models=presets.models(file, router),
        everywhere=presets.global_options(file),
        problems=presets.problems(file),
    )


def _other_models(router: ServerOptions, preset: Preset | None) -> ServerOptions:
    """What a model gets that no section names: the router's command line over ``[*]``, and what the process
    inherits."""
    everywhere = ServerOptions(preset.everywhere.settings) if preset is not None else ServerOptions()
    return presets.handed_down(router).over(everywhere).over(presets.passed_on(router))


def _unit_options(unit: Unit | None, root: Path) -> ServerOptions | None:
    if unit is None or unit.invocation is None:
        return None
    invocation = unit.invocation
    given = parse_arguments(invocation.arguments)
    environment = dict(invocation.environment) if invocation.engine else {**unit.environment, **invocation.environment}
    options = given.over(parse_environment(environment))
    if invocation.engine:
        return options
    paths = presets.config_paths({"HOME": unit.home or "/", **environment})
    config, _ = presets.config_options(paths, lambda path: root / str(path).lstrip("/"))
    return options.over(config)


def _image_names_model(invocation: Invocation) -> bool:
    return bool(invocation.engine) and any("MODEL" in name for name in invocation.environment)


def _preset_alone(path: Path) -> ServerFacts:
    preset = read_preset(path, str(path), ServerOptions())
    return ServerFacts(
        name=str(path),
        options=ServerOptions(),
        is_router=True,
        others=_other_models(ServerOptions(), preset),
        preset=preset,
        counted=True,
    )


def _covered(path: Path, facts: Iterable[ServerFacts]) -> bool:
    real = os.path.realpath(path)
    return any(one.preset is not None and os.path.realpath(one.preset.path) == real for one in facts)


def _people(servers: Iterable[ServerProcess], unseen: list[str]) -> list[tuple[str, int, str]]:
    """This user, those whose managers run a server, and for root everyone who has units of his own."""
    wanted = {os.geteuid(), *(server.place.user for server in servers if server.place.user is not None)}
    found = []
    for entry in pwd.getpwall():
        person = entry.pw_uid == 0 or entry.pw_uid >= _LOWEST_PERSON
        has_units = (
            person and (Path(entry.pw_dir) / ".config/systemd/user").is_dir() if _may_enter(entry.pw_dir) else False
        )
        if entry.pw_uid in wanted or has_units:
            found.append((entry.pw_name, entry.pw_uid, entry.pw_dir))
            if not _may_enter(entry.pw_dir):
                unseen.append(f"{entry.pw_name}'s own units: {entry.pw_dir} may not be entered by this user")
    return list(dict.fromkeys(found))


def _may_enter(directory: str) -> bool:
    return os.access(directory, os.X_OK) or not os.path.lexists(directory)


def _user_name(uid: int | None) -> str:
    try:
        return pwd.getpwuid(uid).pw_name if uid is not None else "?"
    except KeyError:
        return str(uid)


def _can_ask_sockets() -> bool | None:
    """Whether the kernel answers sock_diag queries at all; none is sent about anybody's connection."""
    if not hasattr(socket, "AF_NETLINK"):
        return None
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG).close()
    except OSError:
        return False
    return True


def _build_in_path(path: str) -> int | None:
    found = re.search(r"(?:^|[/_.:-])b(\d{4,5})(?=[/_.-]|$)", path)
    return int(found.group(1)) if found else None


def _build_of_image(container: Container | None) -> int | None:
    found = _BUILD_IN_IMAGE.search(container.image or "") if container is not None else None
    return int(found.group(1)) if found else None


def _build_in_log(where: Iterable[Target]) -> int | None:
    """The build that the beginning of a log file names (``common/common.cpp``, ``server.cpp``)."""
    for target in where:
        if target.kind != "file" or target.path is None:
            continue
        try:
            found = _BUILD_IN_LOG.search(read_regular(target.path, _HEAD_BYTES))
        except OSError:
            continue
        if found:
            return int(found.group(1))
    return None


# --- sleepwatch itself --------------------------------------------------------------------------------------------


def _watchers(proc: Path) -> tuple[Watcher, ...]:
    """Every running ``sleepwatch run``."""
    found = []
    try:
        entries = sorted((entry for entry in os.listdir(proc) if entry.isdigit()), key=int)
    except OSError:
        return ()
    for entry in entries:
        try:
            words = (proc / entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        arguments = _run_arguments(words)
        if arguments is not None and int(entry) != os.getpid():
            found.append(_watcher(int(entry), arguments, _directory_of(proc / entry)))
    return tuple(found)


def _run_arguments(words: Sequence[str]) -> list[str] | None:
    """What stands behind ``sleepwatch run``; None for any other command line."""
    for at, word in enumerate(words[:4]):
        if os.path.basename(word) == "sleepwatch" and at + 1 < len(words) and words[at + 1] == "run":
            return [word for word in words[at + 2 :] if word]
    return None


def _directory_of(process: Path) -> str:
    try:
        return os.readlink(process / "cwd")
    except OSError:
        return "/"


def _watcher(pid: int, arguments: Sequence[str], directory: str) -> Watcher:
    given = _named(arguments, {"--file": "file", "--unit": "unit", "-u": "unit", "-c": "config", "--config": "config"})
    files = tuple(os.path.normpath(os.path.join(directory, path)) for path in given.get("file", ()))
    unit_names = tuple(given.get("unit", ()))
    config = given.get("config", (str(DEFAULT_PATH),))[-1]
    explicit = "config" in given
    if not explicit and (files or unit_names):
        return Watcher(pid=pid, files=files, units=unit_names)
    path = Path(os.path.join(directory, config))
    try:
        settings = load_settings(path)
    except ConfigError as error:
        if not explicit and not os.path.lexists(path) and os.access(path.parent.parent, os.X_OK):
            return Watcher(pid=pid, everything=True)
        return Watcher(pid=pid, files=files, units=unit_names, config=str(path), config_error=error.message)
    files += tuple(one.path for one in settings.file)
    return Watcher(pid=pid, files=files, units=unit_names, config=str(path), everything=not files and not unit_names)


def _named(arguments: Sequence[str], names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for at, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in names:
            given = value if equals else arguments[at + 1] if at + 1 < len(arguments) else ""
            found[names[name]] = (*found.get(names[name], ()), given)
    return found
