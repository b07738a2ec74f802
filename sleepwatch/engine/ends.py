"""Whose end is it? Attribution of what others report to the lives the engine knows.

A report names its process by invocation, pid, unit or container, or only stands in the same source. Where a carrier
tells no unit, a unit's process is known by the start that systemd reported right before its first line.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sleepwatch.engine.lives import LifeState
from sleepwatch.model import Event, Origin

NEAR_US = 5_000_000
"""The kernel's, the coredump's and the supervisor's words about one death come within this time."""
STARTED_US = 10_000_000
"""A unit's process writes its first line within this time of its start."""

_SERVER_PROGRAM = re.compile(r"(?:^|[\s/\"'])(?:[\w.-]*llama[\w.-]*|server)(?:$|[\s\"'])|--sleep-idle-seconds|\.gguf\b")


def is_server_command(command: str) -> bool:
    """Does a command line a supervisor printed start a llama-server (or something that runs one)?"""
    return bool(_SERVER_PROGRAM.search(command))


def life_that_ended(lives: Collection[LifeState], event: Event) -> LifeState | None:
    """The life whose end this record reports; None where that is not one of these, or cannot be told."""
    fields, origin = event.fields, event.origin
    here = [life for life in lives if life.origin.port is None and same_host(life.origin, origin)]
    invocation, pid = fields.get("invocation"), fields.get("pid")
    if invocation and (named := [life for life in here if life.origin.invocation == invocation]):
        return named[-1]
    if pid is not None and (named := [life for life in here if life.origin.pid == pid]):
        return named[-1]
    if pid is not None and fields.get("unit") and any(_is_main(life, fields["unit"]) for life in here):
        return None  # a child or helper of that unit
    if fields.get("tid") is not None:
        return _life_of_thread(here, event, int(fields["tid"]))
    if fields.get("unit"):
        return life_of_unit(lives, event, str(fields["unit"]))
    if fields.get("container"):
        named = [life for life in here if _same_container(life.origin.container, str(fields["container"]))]
        return named[-1] if named else None
    own = [life for life in here if life.origin is origin]
    if own:
        return own[0]
    if pid is not None and any(life.origin.pid is not None for life in here):
        return None  # pids are known here, and this is none of them
    same = [life for life in here if life.origin.source == origin.source and life.exit is None]
    return same[0] if len(same) == 1 else None


def _is_main(life: LifeState, unit: str) -> bool:
    """Is it known to be the process of this unit?"""
    return life.unit == unit and life.origin.pid is not None


def _life_of_thread(here: list[LifeState], event: Event, tid: int) -> LifeState | None:
    """The kernel names the thread that died; a process's threads have higher numbers than itself."""
    main = [life for life in here if life.origin.pid == tid]
    if main:
        return main[-1]
    able = [life for life in here if life.origin.pid is None or life.origin.pid < tid]
    dying = [life for life in able if life.exit is not None and near(life.exit.event, event)]
    if dying:
        return dying[-1]
    return able[0] if len(able) == 1 else None


def near(one: Event | None, other: Event) -> bool:
    """Were both reported within five seconds of wall time?"""
    if one is None or one.wall_us is None or other.wall_us is None:
        return False
    return abs(one.wall_us - other.wall_us) <= NEAR_US


def life_of_unit(lives: Collection[LifeState], event: Event, unit: str) -> LifeState | None:
    """The life this line of systemd's about a unit speaks of."""
    here = [life for life in lives if life.origin.port is None and same_host(life.origin, event.origin)]
    invocation = event.fields.get("invocation")
    named = [life for life in here if life.unit == unit]
    if named and invocation:
        named = [life for life in named if life.origin.invocation in (None, invocation)]
        if not named:
            return None  # of another run, whose process wrote nothing
    if named:
        silent = [life for life in named if life.ledger.last.seq < event.seq]
        return (silent or named)[-1]
    # Not known whose unit it is: a process of no other unit that has said nothing since, and whose name fits.
    unnamed = [
        life
        for life in here
        if life.unit is None
        and life.origin.pid is not None
        and life.exit is None
        and life.ledger.last.seq < event.seq
        and _LLAMA.search(unit)
    ]
    return unnamed[0] if len(unnamed) == 1 else None


_LLAMA = re.compile(r"(?:^|[^a-z])llama")


def _stem(origin: Origin) -> str:
    """The first word of the process's name: units are mostly named so, too."""
    return (origin.ident or "llama").split("-")[0]


def unnamed_before(lives: Collection[LifeState], report: Event, started: LifeState) -> LifeState | None:
    """The life whose end a unit's report told, once the unit's next process shows what kind of program it is."""
    able = [
        life
        for life in lives
        if life is not started
        and life.unit is None
        and life.exit is None
        and life.origin.port is None
        and life.origin.ident == started.origin.ident
        and same_host(life.origin, started.origin)
        and life.ledger.last.seq < report.seq
    ]
    return able[0] if len(able) == 1 else None


def claim_unit(waiting: list[tuple[str, Event]], event: Event) -> tuple[str, Event] | None:
    """Take from the started units the one whose start was reported shortly before this process's first line."""
    origin = event.origin
    if origin.unit is not None or origin.pid is None or origin.port is not None:
        return None
    able = [
        (unit, started)
        for unit, started in waiting
        if same_host(started.origin, origin)
        and started.wall_us is not None
        and event.wall_us is not None
        and not (origin.boot and started.fields.get("invocation"))  # this carrier tells units: it will tell
        and -1_000_000 <= event.wall_us - started.wall_us <= STARTED_US
    ]
    claimed = next((one for one in able if _stem(origin) in one[0]), able[0] if able else None)
    if claimed is not None:
        waiting.remove(claimed)
    return claimed


def order_units(lives: Collection[LifeState], life: LifeState) -> None:
    """Units started together: systemd forks in the order it reports, so the lower pid is the earlier start."""
    for other in lives:
        if (
            other is not life
            and other.unit_started is not None
            and life.unit_started is not None
            and same_host(other.origin, life.origin)
            and (other.origin.pid or 0) > (life.origin.pid or 0)
            and other.unit_started.seq < life.unit_started.seq
            and other.started.seq > life.unit_started.seq
        ):
            life.unit, other.unit = other.unit, life.unit
            life.unit_started, other.unit_started = other.unit_started, life.unit_started
            life.server, other.server = other.server, life.server
            life.server.last, other.server.last = life, other


def same_host(one: Origin, other: Origin) -> bool:
    """Could they be of one host? Where a carrier does not tell, they could."""
    return one.host is None or other.host is None or one.host == other.host


def _same_container(name: str | None, reported: str) -> bool:
    """Compose calls a service ``llama`` in front of its lines and ``llama-1`` where it reports its end, or both so."""
    return name is not None and (name == reported or name.startswith(reported + "-") or reported.startswith(name + "-"))
