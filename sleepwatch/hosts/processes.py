"""The llama-servers that run on this host, from ``/proc`` (proc(5)).

An ordinary user may read every process's command line and state, but environment, open files and working directory only
of his own: what could not be read is in ``unseen``. A process that ends while it is looked at is left out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec

from sleepwatch.hosts import cgroups
from sleepwatch.hosts.commandline import is_server_name, server_arguments
from sleepwatch.hosts.options import ServerOptions, parse_arguments, parse_environment
from sleepwatch.hosts.presets import config_options, config_paths
from sleepwatch.hosts.sockets import Listening, listening

_T = TypeVar("_T")

PROC = Path("/proc")
ROUTER_PORT = "LLAMA_SERVER_ROUTER_PORT"
"""Set by a router for its children (llama.cpp ``tools/server/server-models.cpp``)."""
CHILD_MODE = "LLAMA_SERVER_CHILD_MODE"
"""``download`` for a child that only fetches a model."""

# Only these are kept of an environment: the rest is nobody's business, and keys and tokens stand there.
_KEPT = re.compile(
    r"LLAMA_(?:ARG|SERVER|LOG|CACHE|OFFLINE)\w*|XDG_CONFIG_HOME|HOME|JOURNAL_STREAM|INVOCATION_ID|container"
)
_SECRET = re.compile(r"API_KEY(?!_FILE)|TOKEN")
_O_APPEND = 0o2000
_BUILD_IN_PATH = re.compile(
    r"(?:^|[/_.-])b(\d{4,5})(?=[/_.-]|$)|llama[-_.]?cpp[-_./](?:bin-)?(?:\d\.\d\.)?(\d{4,5})(?=[/_.-]|$)"
)


class Ancestor(msgspec.Struct, frozen=True):
    """A process above a server."""

    pid: int
    name: str
    command: str
    """The base name of what it runs: a shell's script, an interpreter's program; else its own name."""


class Output(msgspec.Struct, frozen=True):
    """Where one standard stream goes."""

    kind: str
    """``journal``, ``socket``, ``file``, ``pipe``, ``null``, ``terminal``, ``closed``, ``other`` or ``unknown``."""
    path: str | None = None
    """Of a file: as the server sees it."""
    deleted: bool = False
    append: bool | None = None
    """Of a file: whether it is opened for appending (else a restart may write over it); None where not known."""
    inode: int | None = None
    readers: tuple[str, ...] = ()
    """Of a pipe: the programs at its other end."""
    written_to: tuple[str, ...] = ()
    """Of a pipe: the files those programs have open for writing."""


class ServerProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One running llama-server."""

    pid: int
    parent: int
    uid: int
    started: int
    """Start time in clock ticks since boot: with the pid it names the process for good."""
    arguments: tuple[str, ...]
    """Behind the server's name. They can hold keys: never print them."""
    executable: str | None = None
    environment: dict[str, str] | None = None
    """The variables that matter here; None where the environment could not be read."""
    options: ServerOptions
    place: cgroups.Place
    router: int | None = None
    """The pid of the router that started it, or the process's parent where that is not known to be a llama-server."""
    ancestors: tuple[Ancestor, ...] = ()
    """From its parent up to init."""
    output: Output = Output("unknown")
    error: Output = Output("unknown")
    log_file: Output | None = None
    """What ``--log-file`` writes to, found among the open files where they could be read."""
    listening: tuple[Listening, ...] = ()
    listening_known: bool = False
    """Whether ``listening`` comes from its open files; else it is a guess from ``--port``, or empty."""
    own_network: bool | None = None
    """True where it has a network namespace of its own, so that its sockets are not in this host's table."""
    core_limit: tuple[int, int] | None = None
    """Soft and hard limit of a core file in bytes; -1 is unlimited."""
    first_in_namespace: bool = False
    """It is process 1 of a container: an abort then looks like signal 11 to whoever waits for it."""
    root: str = "/"
    """Where its file system can be reached from here (``/proc/PID/root`` for one in a container)."""
    directory: str | None = None
    """Its working directory, as it sees it."""
    config_unread: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    """What of it could not be read, in words."""

    @property
    def port(self) -> int | None:
        """The TCP port it serves."""
        ports = [one.port for one in self.listening if one.port is not None]
        wanted = self.options.number("port")
        return wanted if wanted in ports or not ports else ports[0]

    @property
    def build(self) -> int | None:
        """The build number, where the path of its program shows one."""
        for path in (self.executable, os.path.realpath(self.executable) if self.executable else None):
            found = _BUILD_IN_PATH.search(path or "")
            if found:
                return int(found.group(1) or found.group(2))
        return None

    @property
    def is_router(self) -> bool:
        """Whether it holds no model itself and starts one server per model."""
        return self.router is None and self.options.is_router

    def locate(self, path: str) -> Path:
        """Where a path, as this server would open it, can be read from here."""
        absolute = path if path.startswith("/") else os.path.join(self.directory or "/", path)
        return Path(self.root) / os.path.normpath(absolute).lstrip("/")


class Found(msgspec.Struct, frozen=True):
    """The servers of a host."""

    servers: tuple[ServerProcess, ...]
    unseen: tuple[str, ...] = ()
    """What could not be looked at, in words."""
    defunct: tuple[int, ...] = ()
    """llama-servers that have ended and that their parent has not yet asked about."""


class _Seen(msgspec.Struct, frozen=True):
    """What the first look at a process gives."""

    pid: int
    parent: int
    comm: str
    state: str
    started: int
    argv: tuple[str, ...]


def find_servers(proc: Path = PROC) -> Found:
    """Every llama-server that can be seen. Raises OSError where ``proc`` itself cannot be listed."""
    seen, vanished = _first_look(proc)
    unseen = [f"{vanished} processes could not be looked at"] if vanished else []
    hidden = _hidden(proc)
    if hidden:
        unseen.append(hidden)
    candidates = {
        pid: arguments
        for pid, one in seen.items()
        if one.state not in "ZX" and (arguments := server_arguments(one.argv, one.comm)) is not None
    }
    pipes = _Pipes(proc, seen)
    servers = []
    for pid, arguments in candidates.items():
        server = _look(proc, seen[pid], arguments, seen, candidates, pipes)
        if server is not None and (server.environment or {}).get(CHILD_MODE) != "download":
            servers.append(server)
    servers = [server for server in servers if not _is_wrapper(server, servers)]
    defunct = tuple(one.pid for one in seen.values() if one.state in "ZX" and is_server_name(one.comm))
    return Found(tuple(sorted(servers, key=lambda server: server.pid)), tuple(unseen), defunct)


def _first_look(proc: Path) -> tuple[dict[int, _Seen], int]:
    seen: dict[int, _Seen] = {}
    refused = 0
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            stat = (proc / entry / "stat").read_text(errors="surrogateescape")
            argv = (proc / entry / "cmdline").read_bytes()
        except OSError as error:
            refused += error.errno not in (errno.ENOENT, errno.ESRCH)
            continue
        one = _parse_stat(int(entry), stat, argv)
        if one is not None:
            seen[one.pid] = one
    return seen, refused


def _parse_stat(pid: int, stat: str, argv: bytes) -> _Seen | None:
    """``/proc/PID/stat``: the name stands in parentheses and may hold any of them itself."""
    comm = stat[stat.find("(") + 1 : stat.rfind(")")]
    fields = stat[stat.rfind(")") + 1 :].split()
    if len(fields) < 20 or not fields[1].lstrip("-").isdigit() or not fields[19].isdigit():
        return None
    words = argv.decode("utf-8", "surrogateescape").removesuffix("\0").split("\0") if argv else []
    return _Seen(pid, int(fields[1]), comm, fields[0], int(fields[19]), tuple(words))


def _hidden(proc: Path) -> str | None:
    """``hidepid``: other users' processes are not even listed (proc(5))."""
    try:
        mounts = (proc / "self" / "mounts").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^\S+ /proc proc \S*hidepid=(\w+)", mounts, re.MULTILINE)
    if found and found.group(1) not in ("0", "off") and os.geteuid() != 0:
        return f"/proc is mounted with hidepid={found.group(1)}: other users' servers cannot be seen; run this as root"
    return None


def _is_wrapper(server: ServerProcess, servers: Iterable[ServerProcess]) -> bool:
    """A script called llama-server that runs the real one below it: no router started that one."""
    return any(other.parent == server.pid and other.router is None for other in servers)


def _look(
    proc: Path,
    one: _Seen,
    arguments: tuple[str, ...],
    seen: Mapping[int, _Seen],
    candidates: Mapping[int, tuple[str, ...]],
    pipes: _Pipes,
) -> ServerProcess | None:
    look = _Look(proc / str(one.pid), one.pid)
    status = look.text("status")
    cgroup = look.text("cgroup")
    environment = _environment(look.data("environ"))
    directory = look.link("cwd")
    root = look.link("root")
    executable = look.link("exe")
    descriptors = look.descriptors()
    limits = look.text("limits")
    reach = str(proc / str(one.pid) / "root") if root is not None else "/"
    options = parse_arguments(arguments)
    if environment is not None:
        options = options.over(parse_environment(environment))
    base = Path(reach)
    config, unread = config_options(config_paths(environment or {}), lambda path: base / str(path).lstrip("/"))
    options = options.over(config)
    own_network = _own_network(proc, look)
    found, known = _listening(look, descriptors, options, own_network)
    server = ServerProcess(
        pid=one.pid,
        parent=one.parent,
        uid=_uid(status),
        started=one.started,
        arguments=arguments,
        executable=executable.removesuffix(" (deleted)") if executable else _named(one),
        environment=environment,
        options=options,
        place=cgroups.parse(cgroup or ""),
        router=_router(one, environment, candidates),
        ancestors=_ancestors(one, seen),
        output=_output(look, 1, descriptors, environment, pipes),
        error=_output(look, 2, descriptors, environment, pipes),
        log_file=_log_file(look, descriptors, options, directory),
        listening=found,
        listening_known=known,
        own_network=own_network,
        core_limit=_core_limit(limits),
        first_in_namespace=re.search(r"^NSpid:(?:\s\d+)*\s1$", status or "", re.MULTILINE) is not None,
        root=reach,
        directory=directory,
        config_unread=unread,
        unseen=tuple(look.refused),
    )
    again = look.text("stat")
    still = _parse_stat(one.pid, again, b"") if again else None
    return server if still is not None and still.started == one.started and still.state not in "ZX" else None


class _Look:
    """Reads below ``/proc/PID`` and remembers what it was refused."""

    _NAMES: ClassVar = {
        "environ": "its environment", "cwd": "its working directory", "root": "its file system",
        "exe": "its program's path", "fd": "its open files", "limits": "its limits",
        "ns/net": "its network namespace", "cgroup": "its control group",
    }  # fmt: skip

    def __init__(self, directory: Path, pid: int) -> None:
        self.directory = directory
        self.pid = pid
        self.refused: list[str] = []

    def data(self, name: str) -> bytes | None:
        return self._try(name, lambda: (self.directory / name).read_bytes())

    def text(self, name: str) -> str | None:
        content = self.data(name)
        return None if content is None else content.decode("utf-8", "replace")

    def link(self, name: str) -> str | None:
        return self._try(name, lambda: os.readlink(self.directory / name))

    def descriptors(self) -> dict[int, str] | None:
        """Open files: number → what it leads to; None where they cannot be read."""

        def listed() -> dict[int, str]:
            found = {}
            for entry in os.listdir(self.directory / "fd"):
                try:
                    found[int(entry)] = os.readlink(self.directory / "fd" / entry)
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise
            return found

        return self._try("fd", listed)

    def _try(self, name: str, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except OSError:
            words = self._NAMES.get(name)
            if words and words not in self.refused:
                self.refused.append(words)
            return None


class _Pipes:
    """Who reads which pipe. Every process's open files are looked at once, and only when a pipe is met."""

    def __init__(self, proc: Path, seen: Mapping[int, _Seen]) -> None:
        self.proc = proc
        self.seen = seen
        self._readers: dict[int, set[int]] | None = None

    def output(self, inode: int, writer: int) -> Output:
        """The pipe as a server's output: who reads it, and which files those write."""
        if self._readers is None:
            self._readers = self._all()
        pids = sorted(self._readers.get(inode, set()) - {writer})
        names = tuple(dict.fromkeys(self.seen[pid].comm for pid in pids))
        files = tuple(dict.fromkeys(path for pid in pids for path in self._written(pid)))
        return Output("pipe", inode=inode, readers=names, written_to=files)

    def _all(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for pid in self.seen:
            for number, target in self._open_files(pid):
                pipe = re.fullmatch(r"pipe:\[(\d+)\]", target)
                if pipe and self._mode(pid, number) != os.O_WRONLY:
                    found.setdefault(int(pipe.group(1)), set()).add(pid)
        return found

    def _written(self, pid: int) -> list[str]:
        files = [(number, target) for number, target in self._open_files(pid) if target.startswith("/")]
        return [
            target
            for number, target in files
            if not target.startswith(("/dev/", "/proc/", "/memfd:")) and self._mode(pid, number) == os.O_WRONLY
        ]

    def _open_files(self, pid: int) -> list[tuple[str, str]]:
        """Number and target; those of another user's process are simply not there."""
        found = []
        directory = self.proc / str(pid) / "fd"
        with contextlib.suppress(OSError):
            for entry in os.listdir(directory):
                with contextlib.suppress(OSError):
                    found.append((entry, os.readlink(directory / entry)))
        return found

    def _mode(self, pid: int, number: str) -> int | None:
        try:
            return _flags((self.proc / str(pid) / "fdinfo" / number).read_text()) & os.O_ACCMODE
        except OSError:
            return None


def _environment(content: bytes | None) -> dict[str, str] | None:
    if content is None:
        return None
    pairs = (part.decode("utf-8", "replace").partition("=") for part in content.split(b"\0") if part)
    return {name: value for name, _, value in pairs if _KEPT.fullmatch(name) and not _SECRET.search(name)}


def _named(one: _Seen) -> str | None:
    """The program by its command line, where the link to it cannot be read."""
    return next((word for word in one.argv[:6] if is_server_name(word) and "/" in word), None)


def _uid(status: str | None) -> int:
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", status or "", re.MULTILINE)
    return int(found.group(1)) if found else -1


def _router(one: _Seen, environment: Mapping[str, str] | None, candidates: Mapping[int, tuple[str, ...]]) -> int | None:
    """A router tells its children so; where that cannot be read, a llama-server's parent of that name counts as one."""
    if environment is not None:
        return one.parent if ROUTER_PORT in environment else None
    return one.parent if one.parent in candidates else None


def _ancestors(one: _Seen, seen: Mapping[int, _Seen]) -> tuple[Ancestor, ...]:
    found = []
    at, passed = one.parent, {one.pid}
    while at in seen and at not in passed:
        passed.add(at)
        above = seen[at]
        found.append(Ancestor(at, above.comm, _command(above)))
        at = above.parent
    return tuple(found)


def _command(one: _Seen) -> str:
    for word in one.argv[1:4]:
        if not word.startswith("-"):
            return os.path.basename(word) if re.fullmatch(r"[\w./@+-]+", word) else one.comm
        if word == "-c":
            return one.comm
    return one.comm


def _output(
    look: _Look,
    number: int,
    descriptors: Mapping[int, str] | None,
    environment: Mapping[str, str] | None,
    pipes: _Pipes,
) -> Output:
    if descriptors is None:
        return Output("unknown")
    target = descriptors.get(number)
    if target is None:
        return Output("closed")
    kind, _, number_text = target.partition(":[")
    inode = int(number_text[:-1]) if number_text[:-1].isdigit() else None
    if kind == "socket":
        # systemd tells every service which of its streams is the journal (systemd.exec(5), $JOURNAL_STREAM).
        journal = (environment or {}).get("JOURNAL_STREAM", "").partition(":")[2] == str(inode)
        return Output("journal" if journal else "socket", inode=inode)
    if kind == "pipe":
        assert inode is not None
        return pipes.output(inode, look.pid)
    if target.startswith("/dev/null"):
        return Output("null")
    if re.match(r"/dev/(?:pts/|tty|console)", target):
        return Output("terminal", target)
    if target.startswith("/"):
        return _file(look, number, target)
    return Output("other", target)


def _file(look: _Look, number: int, target: str) -> Output:
    flags = look.text(f"fdinfo/{number}")
    return Output(
        "file",
        target.removesuffix(" (deleted)"),
        deleted=target.endswith(" (deleted)"),
        append=None if flags is None else bool(_flags(flags) & _O_APPEND),
    )


def _flags(fdinfo: str) -> int:
    found = re.search(r"^flags:\s+(\d+)", fdinfo, re.MULTILINE)
    return int(found.group(1), 8) if found else 0


def _log_file(
    look: _Look, descriptors: Mapping[int, str] | None, options: ServerOptions, directory: str | None
) -> Output | None:
    """``--log-file``: as it is open now, else as the option names it."""
    name = options.get("log-file")
    if not name:
        return None
    wanted = os.path.normpath(name if name.startswith("/") else os.path.join(directory or "", name))
    for number, target in (descriptors or {}).items():
        if number > 2 and target.removesuffix(" (deleted)") == wanted:
            return _file(look, number, target)
    return Output("file", wanted, append=False)


def _own_network(proc: Path, look: _Look) -> bool | None:
    theirs = look.link("ns/net")
    try:
        ours = os.readlink(proc / "self" / "ns" / "net")
    except OSError:
        return None
    return None if theirs is None else theirs != ours


def _listening(
    look: _Look, descriptors: Mapping[int, str] | None, options: ServerOptions, own_network: bool | None
) -> tuple[tuple[Listening, ...], bool]:
    try:
        table = listening(look.directory / "net")
    except (OSError, ValueError):
        return (), False
    if descriptors is not None:
        inodes = {
            int(found.group(1))
            for target in descriptors.values()
            if (found := re.fullmatch(r"socket:\[(\d+)\]", target))
        }
        return tuple(one for one in table if one.inode in inodes), True
    wanted = options.number("port")
    if own_network:
        return (), False
    return tuple(one for one in table if one.port == wanted and wanted is not None), False


def _core_limit(limits: str | None) -> tuple[int, int] | None:
    found = re.search(r"^Max core file size\s+(\w+)\s+(\w+)", limits or "", re.MULTILINE)
    if not found:
        return None
    soft, hard = (-1 if text == "unlimited" else int(text) for text in found.groups())
    return soft, hard


def children(server: ServerProcess, servers: Iterable[ServerProcess]) -> tuple[ServerProcess, ...]:
    """The servers that a router has started."""
    return tuple(other for other in servers if other.router == server.pid)
