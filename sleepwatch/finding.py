"""What to watch where nobody said so: the logs of the llama-servers that run here.

Nothing is asked of a server; all is read from ``/proc``. What cannot be watched is named with the reason.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

import msgspec

from sleepwatch.hosts.access import why_unreadable
from sleepwatch.hosts.logs import Target, output_target, targets
from sleepwatch.hosts.processes import ServerProcess


class Log(msgspec.Struct, frozen=True):
    """A log that can be watched."""

    path: str
    server: str
    """Whose it is, for people."""


class Unwatched(msgspec.Struct, frozen=True):
    """A server that writes no log which could be watched."""

    server: str
    reason: str


class Finding(msgspec.Struct, frozen=True):
    """What was found."""

    logs: tuple[Log, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()


def find_logs(servers: Iterable[ServerProcess]) -> Finding:
    """The log of each of these servers, or why there is none that can be watched."""
    logs: dict[str, Log] = {}
    unwatched = []
    for server in servers:
        name = server_words(server)
        choices = list(server_targets(server))
        if choices and all(target.kind == "router" for target in choices):
            continue  # a router prints its children's lines: it is found, or named, itself
        reasons = [(target, why_not(server, target)) for target in choices]
        usable = [target.path for target, reason in reasons if reason is None and target.path is not None]
        if usable:
            # The same lines in two places are the same incidents; a router's own and its children's are not.
            for path in usable if server.is_router else usable[:1]:
                logs.setdefault(path, Log(path, name))
        elif not choices:
            unwatched.append(Unwatched(name, "it writes no log (--log-disable)"))
        else:
            unwatched.append(Unwatched(name, "; ".join(dict.fromkeys(reason for _, reason in reasons if reason))))
    return Finding(tuple(logs.values()), tuple(unwatched))


def server_targets(server: ServerProcess) -> Iterator[Target]:
    """Where its lines go, the safest first; of a router also where its children's go."""
    yield from targets(server.options, server, None, None)
    if server.is_router:
        yield output_target(server, None, None)


def why_not(server: ServerProcess, target: Target) -> str | None:
    """Why these lines cannot be followed in a file; None where they can."""
    path = target.path
    if target.kind != "file" or path is None:
        return f"its lines go to {target.words}"
    if server.place.container is not None:
        return f"its lines go to {target.words}, where they are out of reach after it ends"
    if not os.path.isabs(path):
        return f"its lines go to {target.words}, and its working directory cannot be seen by this user"
    if target.deleted:
        return f"its lines go to {target.words}"
    reason = why_unreadable(path)
    if reason is not None:
        return f"its lines go to {target.words}, which cannot be read ({reason})"
    return None if stat.S_ISREG(os.stat(path).st_mode) else f"{path} is not a regular file"


def server_words(server: ServerProcess) -> str:
    """A server for people: ``llama-server on port 8080 (pid 4711)``."""
    what = "llama-server router" if server.is_router else "llama-server"
    return f"{what}{f' on port {server.port}' if server.port is not None else ''} (pid {server.pid})"
