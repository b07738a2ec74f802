"""Is sleepwatch running, and does it watch this server?"""

from __future__ import annotations

import fnmatch

import msgspec

from sleepwatch.check.facts import HostFacts, ServerFacts
from sleepwatch.check.findings import INFO, WARNING, Finding, quoted
from sleepwatch.hosts.logs import Target, is_in_journal


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    answer: str
    """``yes``, ``no`` or ``unknown``."""
    words: str


def judge(server: ServerFacts, host: HostFacts, *, exposed: bool) -> tuple[Watched, list[Finding]]:
    """Whether a running sleepwatch follows this server's log."""
    unknown = None
    places = _places(server)
    finds = any(is_in_journal(target) or (target.kind == "file" and not target.deleted) for target in places)
    for watcher in host.watchers:
        if watcher.everything and finds:
            return Watched(
                answer="yes", words=f"by sleepwatch, pid {watcher.pid}, which follows every server it finds"
            ), []
        if any(_matches(target.path, pattern) for target in places if target.path for pattern in watcher.files):
            return Watched(answer="yes", words=f"by sleepwatch, pid {watcher.pid}"), []
        names = [target.unit for target in places if target.unit and is_in_journal(target)]
        if any(fnmatch.fnmatchcase(name, _unit(pattern)) for name in names for pattern in watcher.units):
            return Watched(answer="yes", words=f"by sleepwatch, pid {watcher.pid}"), []
        if watcher.config_error:
            unknown = (
                f"sleepwatch runs (pid {watcher.pid}), but its configuration cannot be read: {watcher.config_error}"
            )
    if unknown:
        return Watched(answer="unknown", words=unknown), []
    words = "no: sleepwatch does not run here"
    if host.watchers:
        everything = any(watcher.everything for watcher in host.watchers)
        goes = next((f"{one.words}{', of a user' if one.user_journal else ''}" for one in places), "nowhere")
        words = f"no: sleepwatch runs, but {f'cannot follow {goes}' if everything else 'follows other logs'}"
    if not exposed:
        return Watched(answer="no", words=words), []
    return Watched(answer="no", words=words), [
        Finding(
            code="not-watched",
            level=WARNING if server.running else INFO,
            what="No sleepwatch watches it" if host.watchers else "No sleepwatch runs on this host",
            why="A request that hangs, or a crash that a restart hides, is then seen by nobody until a client "
            "complains.",
            change=_how(server),
        )
    ]


def _places(server: ServerFacts) -> list[Target]:
    """Where its lines can be read: of a router's child that is the router's output."""
    behind = server.output if any(target.kind == "router" for target in server.targets) else None
    return [*server.targets, *([behind] if behind is not None else [])]


def _matches(path: str, pattern: str) -> bool:
    return path == pattern or fnmatch.fnmatchcase(path, pattern)


def _unit(pattern: str) -> str:
    return pattern if "." in pattern.rpartition("@")[2] or pattern.endswith("*") else f"{pattern}.service"


def _how(server: ServerFacts) -> str | None:
    for target in _places(server):
        if target.unit and is_in_journal(target):
            return f"  sleepwatch run --unit {quoted(target.unit)}"
        if target.kind in ("file", "container") and target.path:
            return f"  sleepwatch run --file {target.path}"
    return None
