"""Puts processes, units and containers together: each running server with its name and the places its lines go to."""

from __future__ import annotations

import pwd
from collections.abc import Iterable
from pathlib import Path

import msgspec

from sleepwatch.hosts.commands import Run
from sleepwatch.hosts.containers import Container, find_container
from sleepwatch.hosts.logs import Target, output_target, targets
from sleepwatch.hosts.processes import ServerProcess
from sleepwatch.hosts.units import Unit


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """One running server and what holds it."""

    name: str
    """As incidents name it: its unit, else its container, else the process; ``router/model`` for a router's child."""
    process: ServerProcess
    unit: Unit | None = None
    """The unit whose end its own would be, or that runs its container; None for a router's child."""
    container: Container | None = None
    router: ServerProcess | None = None
    targets: tuple[Target, ...] = ()
    """Where its own lines go, the safest place first."""
    output: Target | None = None
    """Where standard output goes: of a router, and of its child the router's, since its lines are there."""


def assemble(
    servers: Iterable[ServerProcess], units: Iterable[Unit], *, run: Run | None = None, root: Path = Path("/")
) -> tuple[Discovered, ...]:
    """Running servers with what holds them, routers before their children.

    ``run`` asks container engines; None: files only.
    """
    work = _Assembly(tuple(units), run, root)
    return tuple(work.add(server) for server in sorted(servers, key=lambda one: one.router is not None))


def unit_name(unit: Unit) -> str:
    """A unit's name for people: a user's own unit with its owner."""
    return f"{unit.name} (of {unit.owner})" if unit.manager == "user" else unit.name


class _Assembly:
    def __init__(self, units: tuple[Unit, ...], run: Run | None, root: Path) -> None:
        self.units = units
        self.run = run
        self.root = root
        self.known: dict[int, Discovered] = {}
        self.containers: dict[str, Container] = {}

    def add(self, server: ServerProcess) -> Discovered:
        container = self._container(server)
        above = self.known.get(server.router) if server.router is not None else None
        unit = None if server.router is not None else self._unit(server, container)
        output = above.output if above is not None else None
        if server.is_router:
            output = output_target(server, unit, container)
        found = Discovered(
            name=_name(server, above, unit, container),
            process=server,
            unit=unit,
            container=container,
            router=above.process if above is not None else None,
            targets=targets(server.options, server, unit, container),
            output=output,
        )
        self.known[server.pid] = found
        return found

    def _unit(self, server: ServerProcess, container: Container | None) -> Unit | None:
        place = server.place
        if container is not None and place.unit is None and place.user_unit is None:
            return self._unit_of_container(server, container)
        owner = _account(place.user) if place.user is not None else None
        for unit in self.units:
            if unit.manager == "system" and unit.name == place.unit:
                return unit
            if unit.manager == "user" and unit.name == place.user_unit and owner is not None and unit.owner == owner[0]:
                return unit
        return None

    def _unit_of_container(self, server: ServerProcess, container: Container) -> Unit | None:
        """The unit whose ``docker run`` made this container: by its name, else by the server's very same arguments."""
        asked = [
            (unit, unit.invocation) for unit in self.units if unit.invocation is not None and unit.invocation.engine
        ]
        named = [unit for unit, started in asked if container.name and started.container_name == container.name]
        same = [unit for unit, started in asked if started.arguments == server.arguments]
        return next((units[0] for units in (named, same) if len(units) == 1), None)

    def _container(self, server: ServerProcess) -> Container | None:
        identity = server.place.container
        if identity is None:
            return None
        if identity not in self.containers:
            engine = server.place.engine or "container"
            self.containers[identity] = find_container(identity, engine, run=self.run, root=self.root)
        return self.containers[identity]


def _name(server: ServerProcess, router: Discovered | None, unit: Unit | None, container: Container | None) -> str:
    if router is not None:
        return f"{router.name}/{server.options.model or server.pid}"
    if unit is not None:
        return unit_name(unit)
    if container is not None:
        return container.name or f"container {container.id[:12]}"
    held = server.place.unit or server.place.user_unit
    if held:
        return held
    port = server.port or server.options.number("port")
    return f"llama-server pid {server.pid}{f' port {port}' if port else ''}"


def _account(uid: int) -> tuple[str, int, str] | None:
    """Name, uid and home of a user; None where there is no such user."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    return entry.pw_name, entry.pw_uid, entry.pw_dir
