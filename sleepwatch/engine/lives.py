"""Lives and servers as the engine holds them, and what identifies a life."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from sleepwatch.engine.ledger import Ledger
from sleepwatch.engine.streams import HEAD_LINES
from sleepwatch.engine.verdicts import Exit, is_planned
from sleepwatch.lognames import COMPRESSED, DATE, NUMBER
from sleepwatch.model import CanSee, Event, Incident, Life, Origin


class Now(NamedTuple):
    """One moment on both clocks."""

    monotonic_us: int
    """What waiting is measured by."""
    wall_us: int
    """What a moment is told by. It is set and stepped, so nothing follows from the time between two of it."""


class Server:
    """What is known of one server across its lives."""

    __slots__ = (
        "given_up", "idle_us", "last", "name", "restart_us", "restarting", "row", "saw_exit", "sleep_mode", "undecided",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.sleep_mode = False
        self.idle_us: int | None = None
        self.last: LifeState | None = None
        self.undecided: list[LifeState] = []
        """The latest that died idle on signal 11 while nothing told that sleep mode is on; it may be told later."""
        self.row: Row | None = None
        """The deaths in a row it is in, none of which came to serve."""
        self.saw_exit = False
        self.restarting = False
        """Its unit is about to be started again: a start that fails now was one too many."""
        self.given_up = False
        """Its unit was started too often and is left alone."""
        self.restart_us = 0
        """How long its unit lies still before it is started again (RestartSec=), as far as that was seen."""


class Row:
    """Deaths in a row of one server, none of which served a request or came to listen."""

    __slots__ = ("count", "first", "members", "unknown")

    def __init__(self, first: LifeState) -> None:
        self.first = first
        self.members: list[LifeState] = []
        """The first few, whose own incidents are withdrawn when the row becomes a loop."""
        self.count = 0
        self.unknown = 0
        """Deaths whose signal is not known."""


class LifeState:
    """One life as the engine holds it: its ledger, its identity, and what was reported of it."""

    __slots__ = (
        "children", "ended", "exit", "freed", "head", "head_over", "judged_us", "jumped", "ledger", "look_us",
        "lost_to_stop", "number", "origin", "parent", "phase_seen", "reported", "row", "row_unknown", "server",
        "spawned", "started", "stopping_models", "unit", "unit_started", "waited_us", "written_us",
    )  # fmt: skip

    def __init__(self, origin: Origin, server: Server, first: Event, number: int, parent: LifeState | None) -> None:
        self.origin = origin
        self.server = server
        self.number = number
        """Its ordinal in its stream, for streams without stamps."""
        self.ledger = Ledger(origin, first)
        self.started = first
        self.parent = parent
        self.children: dict[str, LifeState] = {}
        """Router: its children's lives by port."""
        self.spawned: dict[str, tuple[str, int | None]] = {}
        """Router: port → (model, the router's clock at the spawn)."""
        self.stopping_models: set[str] = set()
        self.head: list[bytes] = []
        self.head_over = False
        self.exit: Exit | None = None
        self.ended = False
        self.reported: dict[str, Incident] = {}
        self.row: Row | None = None
        self.row_unknown = False
        self.freed = 0
        """Requests that met a sleep and were freed within the grace."""
        self.lost_to_stop = 0
        self.phase_seen: Now | None = None
        """Live: since when it has been seen to be in its ledger's phase, without a break."""
        self.waited_us = 0
        """… and for how long before, by runs that ended meanwhile."""
        self.judged_us: int | None = None
        """For how long both together when it was last judged."""
        self.written_us: int | None = None
        """Live: the watcher's monotonic time at which its last line was written, where that was seen."""
        self.look_us: int | None = None
        """Live: when in its phase the next look at its connections is due; None: none is."""
        self.unit = origin.unit
        """Its unit; where the carrier does not tell, the one whose start preceded it."""
        self.unit_started: Event | None = None
        self.jumped = 0
        """``seq`` of the last jump of wall time: lines before it do not tell what a later wall time is on its clock."""

    def enters_phase(self, now: Now | None) -> None:
        """Its ledger's phase is another one from now on."""
        self.phase_seen, self.waited_us, self.judged_us, self.look_us = now, 0, None, None

    @property
    def identified(self) -> bool:
        """The lines its key is made of are all there, or will not come."""
        return self.head_over or len(self.head) >= HEAD_LINES or self.started.clock_us is None

    @property
    def key(self) -> str:
        """The life key (docs/verdicts.md, Identity)."""
        if self.head:
            return digest(*self.head)
        pid, boot = self.origin.pid, self.origin.boot
        if boot is not None and pid is not None:
            return digest(boot.encode(), str(pid).encode(), str(self.number).encode())
        return digest(self.origin.head, (self.origin.port or "").encode(), str(self.number).encode())


def describe(life: LifeState) -> Life:
    """A life as reports and the store show it."""
    ledger = life.ledger
    wall = life.started.wall_us
    if wall is not None and life.started.clock_us is not None:
        wall -= life.started.clock_us
    ended = life.exit.event.wall_us if life.exit is not None and life.exit.event is not None else None
    return Life(
        life=life.key,
        server=life.server.name,
        source=life.origin.source,
        pid=life.origin.pid,
        port=ledger.port or life.origin.port,
        build=ledger.build,
        era=ledger.era,
        verbosity=ledger.verbosity,
        can_see=_can_see(life),
        started_us=wall,
        ended_us=ended,
        exit=_exit_words(life),
        sleeps=ledger.sleeps,
        requests=ledger.requests,
        freed_in_grace=life.freed,
        lost_to_stop=life.lost_to_stop,
        last_clock_us=ledger.last.clock_us,
    )


def _can_see(life: LifeState) -> CanSee:
    """By era and verbosity where they are known, and by what the log did show."""
    ledger = life.ledger
    level = ledger.verbosity if ledger.verbosity is not None else 3
    debug = 4 if ledger.era == "A" else 5
    return CanSee(
        arrival=ledger.saw_arrival or (ledger.era == "C" and level >= 4),
        queued=ledger.saw_posted or level >= debug,
        answered=ledger.saw_launch or level >= 3,
        exit=life.server.saw_exit,
    )


def _exit_words(life: LifeState) -> str | None:
    end = life.exit
    if end is None:
        return "planned" if life.ended and life.ledger.stopping is not None else None
    if is_planned(life.ledger, end):
        return "planned"
    if end.signal is not None:
        return f"signal {end.signal}"
    return f"status {end.status}" if end.status is not None else "unknown"


def own_clock(life: LifeState, wall_us: int | None) -> int | None:
    """A moment in wall time on the process's own log clock, by its last line that carries both.

    None, too, where wall time has jumped since: the log clock stands still while the host sleeps (CLOCK_MONOTONIC).
    """
    last = life.ledger.last
    if wall_us is None or last.wall_us is None or last.clock_us is None or last.seq < life.jumped:
        return None
    return last.clock_us + wall_us - last.wall_us


_SUFFIXES = (*COMPRESSED, ".log", ".txt", ".out", ".err", ".jsonl", ".json", ".export", ".journal")
_ROTATED = re.compile(rf"(?:{NUMBER}|{DATE})$")


def server_name(source: str) -> str:
    """A log file's stem: without directories, compression, rotation numbers and ``.log``."""
    if source == "-":
        return "stdin"
    name = source.rstrip("/").rsplit("/", 1)[-1]
    while True:
        shorter = _ROTATED.sub("", name)
        for suffix in _SUFFIXES:
            shorter = shorter.removesuffix(suffix)
        if shorter in ("", name):
            return name
        name = shorter


def digest(*parts: bytes) -> str:
    """Twenty hex digits of a SHA-256 over the parts: the form of life keys and incident ids."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]
