"""What is known of a host before anything is judged: the input of :func:`sleepwatch.check.check`."""

from __future__ import annotations

import msgspec

from sleepwatch.hosts.containers import Container
from sleepwatch.hosts.coredumps import CoreDumps
from sleepwatch.hosts.journald import Journald
from sleepwatch.hosts.logs import Target
from sleepwatch.hosts.options import Problem, ServerOptions
from sleepwatch.hosts.presets import PresetModel
from sleepwatch.hosts.processes import ServerProcess
from sleepwatch.hosts.units import Unit


class Watcher(msgspec.Struct, frozen=True, kw_only=True):
    """A running ``sleepwatch run``."""

    pid: int
    files: tuple[str, ...] = ()
    """Paths and patterns it was told to follow."""
    units: tuple[str, ...] = ()
    everything: bool = False
    """It was told nothing, so it follows every server it finds."""
    config: str | None = None
    config_error: str | None = None
    """Its configuration could not be read: what it follows is not known."""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A router's preset file."""

    path: str
    models: tuple[PresetModel, ...] = ()
    everywhere: ServerOptions = ServerOptions()
    """What ``[*]`` says."""
    problems: tuple[Problem, ...] = ()
    error: str | None = None
    """Why llama-server would refuse it, or why it cannot be read."""
    refused: bool = False
    """``error`` is llama-server's: the router does not start with this file."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One server: running, or a unit or preset file that would start one."""

    name: str
    process: ServerProcess | None = None
    unit: Unit | None = None
    container: Container | None = None
    options: ServerOptions | None = None
    """None where its command cannot be seen."""
    would_start_with: ServerOptions | None = None
    """Of a running server of a unit: what the unit's files say now."""
    router: str | None = None
    """The name of the router that started it."""
    autoload: bool = True
    """Whether its router starts a model that is asked for."""
    is_router: bool = False
    others: ServerOptions | None = None
    """Of a router: what a model gets that no preset names."""
    preset: Preset | None = None
    running_models: tuple[str, ...] = ()
    """Of a router: its children that run and are judged by themselves."""
    build: int | None = None
    targets: tuple[Target, ...] = ()
    output: Target | None = None
    """Where a router's standard output goes."""
    unreadable: dict[str, str] = {}
    """Why a file among the targets cannot be read by who would read it: path → phrase."""
    counted: bool = True
    """It runs, or something would start it: it counts for the exit code."""

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.process is not None

    @property
    def port(self) -> int | None:
        """The port it listens on, else the one it is told to."""
        if self.process is not None and self.process.port is not None:
            return self.process.port
        return self.options.number("port") if self.options is not None else None

    @property
    def unseen(self) -> tuple[str, ...]:
        """What of it could not be looked at."""
        found = (*self.process.unseen, *self.process.config_unread) if self.process is not None else ()
        return (*found, *(self.unit.unreadable if self.unit is not None else ()))


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The host around the servers."""

    user: str
    uid: int
    booted: bool = False
    """A systemd is the running init."""
    journald: Journald = Journald()
    coredumps: CoreDumps = CoreDumps()
    watchers: tuple[Watcher, ...] = ()
    reader: str = "this user"
    """Who would read the logs: a running sleepwatch, else who runs this check."""
    sockets: bool | None = None
    """Whether the kernel's socket table can be asked."""
    unseen: tuple[str, ...] = ()
    """What could not be looked at, in words."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    host: HostFacts
    servers: tuple[ServerFacts, ...] = ()
