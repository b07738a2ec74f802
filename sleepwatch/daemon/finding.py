"""What to watch where nobody said so: the logs of the llama-servers that run here.

Nothing is asked of a server; all is read from ``/proc`` and from unit files. What cannot be watched is named with the
reason.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from sleepwatch.hosts.access import why_unreadable
from sleepwatch.hosts.discovery import Discovered, assemble
from sleepwatch.hosts.logs import Target, is_in_journal
from sleepwatch.hosts.processes import PROC, find_servers
from sleepwatch.hosts.units import find_units


class Log(msgspec.Struct, frozen=True):
    """A log that can be watched: a file, or a unit's lines in the journal."""

    place: str
    """The file's path, or the unit's name."""
    server: str
    """Whose it is, for people."""


class Unwatched(msgspec.Struct, frozen=True):
    """A server that writes no log which could be watched."""

    server: str
    reason: str


class Finding(msgspec.Struct, frozen=True):
    """What was found."""

    files: tuple[Log, ...] = ()
    units: tuple[Log, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()


def running_servers(proc: Path = PROC) -> tuple[Discovered, ...]:
    """Every llama-server that can be seen, with the places its lines go to. No program is asked.

    Raises OSError where ``proc`` cannot be listed.
    """
    servers = find_servers(proc).servers
    names = [server.place.unit for server in servers if server.place.unit]
    return assemble(servers, find_units(wanted=names).units if names else ())


def find_logs(servers: Iterable[Discovered]) -> Finding:
    """The log of each of these servers, or why there is none that can be watched."""
    files: dict[str, Log] = {}
    units: dict[str, Log] = {}
    unwatched = []
    for server in servers:
        name = server_words(server)
        places = places_of(server)
        if places and all(target.kind == "router" for target in places):
            continue  # a router prints its children's lines: it is found, or named, itself
        reasons = [(target, why_not(server, target)) for target in places]
        usable = [target for target, reason in reasons if reason is None]
        # The same lines in two places are the same incidents; a router's own and its children's are not.
        for target in usable if server.process.is_router else usable[:1]:
            if target.unit is not None:
                units.setdefault(target.unit, Log(target.unit, name))
            elif target.path is not None:
                files.setdefault(target.path, Log(target.path, name))
        if not places:
            unwatched.append(Unwatched(name, "it writes no log (--log-disable)"))
        elif not usable:
            unwatched.append(Unwatched(name, "; ".join(dict.fromkeys(reason for _, reason in reasons if reason))))
    return Finding(tuple(files.values()), tuple(units.values()), tuple(unwatched))


def places_of(server: Discovered) -> tuple[Target, ...]:
    """Where its lines go, the safest first; of a router also where its children's go."""
    return (*server.targets, *([server.output] if server.process.is_router and server.output is not None else []))


def why_not(server: Discovered, target: Target) -> str | None:
    """Why these lines cannot be followed in a file or a journal; None where they can."""
    if is_in_journal(target):
        return None
    if target.kind == "journal" and target.user_journal:
        return f"its lines go to {target.words}, of a user"
    path = target.path
    if target.kind != "file" or path is None:
        return f"its lines go to {target.words}"
    if server.process.place.container is not None:
        return f"its lines go to {target.words}, where they are out of reach after it ends"
    if not os.path.isabs(path):
        return f"its lines go to {target.words}, and its working directory cannot be seen by this user"
    if target.deleted:
        return f"its lines go to {target.words}"
    reason = why_unreadable(path)
    if reason is not None:
        return f"its lines go to {target.words}, which cannot be read ({reason})"
    return None if stat.S_ISREG(os.stat(path).st_mode) else f"{path} is not a regular file"


def server_words(server: Discovered) -> str:
    """A server for people, told from others of its name: ``llama.service (pid 4711)``."""
    number = f"pid {server.process.pid}"
    return server.name if number in server.name else f"{server.name} ({number})"
