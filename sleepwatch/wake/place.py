"""Where the server of a hung request is reached: as configured, else where it says itself that it listens, here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from sleepwatch.client.target import Target, TargetError, parse_target
from sleepwatch.hosts.processes import ServerProcess
from sleepwatch.wake.settings import WakeServer


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What the log tells of where a server is."""

    server: str
    here: bool
    """The log is this machine's own."""
    url: str | None = None
    """Where it says that it listens."""
    port: str | None = None
    pid: int | None = None


def find_target(
    place: Place, settings: WakeServer, processes: Iterable[ServerProcess]
) -> tuple[Target, ServerProcess | None]:
    """The target, and the process behind it where that runs here. Raises TargetError, which says what to configure.

    Only the loopback address or a unix socket of a llama-server that runs on this machine is taken from a log; anything
    else has to be named in the configuration.
    """
    name_it = f'name its url in a [[wake.server]] section (name = "{place.server}")'
    processes = tuple(processes)
    if settings.url is not None:
        target = _target(settings.url, settings)
        return target, _process(target, None, processes) if target.is_here else None
    if not place.here:
        raise TargetError("its log comes from another machine", hint=name_it)
    url = place.url or (f"http://127.0.0.1:{_port(place, processes)}" if _port(place, processes) else None)
    if url is None:
        raise TargetError("where it listens is not known", hint=name_it)
    target = _target(url, settings)
    if not target.is_here:
        raise TargetError(f"it listens on {target.url}, which is no loopback address", hint=name_it)
    process = _process(target, place.pid, processes)
    if process is None:
        raise TargetError(f"no llama-server is seen to run here for {target.url}", hint=name_it)
    if process.own_network:
        raise TargetError("it runs in another network namespace, where its address is another one", hint=name_it)
    return msgspec.structs.replace(target, kind=target.kind or _kind(process)), process


def _target(url: str, settings: WakeServer) -> Target:
    return parse_target(
        url,
        model=settings.model,
        kind=settings.kind,
        key_file=Path(settings.api_key_file) if settings.api_key_file is not None else None,
        ca_file=Path(settings.ca_file) if settings.ca_file is not None else None,
        insecure=settings.insecure,
    )


def _port(place: Place, processes: Iterable[ServerProcess]) -> str | None:
    """A router prints its child's port in front of each line; nested routers give ``outer/inner``."""
    if place.port is not None:
        return place.port.rsplit("/", 1)[-1]
    mine = next((one for one in processes if one.pid == place.pid), None)
    return str(mine.port) if mine is not None and mine.port is not None else None


def _process(target: Target, pid: int | None, processes: Iterable[ServerProcess]) -> ServerProcess | None:
    """The one of this pid, else the one that listens there; those with a network of their own come last."""
    fitting = [
        one
        for one in processes
        if (pid is not None and one.pid == pid)
        or (target.socket is not None and any(socket.address == target.socket for socket in one.listening))
        or (target.port is not None and target.port in (one.port, one.options.number("port", 8080)))
    ]
    return min(fitting, key=lambda one: (one.pid != pid, bool(one.own_network)), default=None)


def _kind(process: ServerProcess) -> str | None:
    """One that is started for embeddings or reranking answers nothing else for certain."""
    options = process.options
    return "embedding" if options.flag("embedding") or options.flag("rerank") else None
