"""The engine: events in, incidents out. Pure: no clock, no I/O, no globals.

:meth:`Engine.feed` takes one event, :meth:`Engine.tick` the time, :meth:`Engine.finish` the end of the sources. Each
returns transitions (an incident that opened, changed or was withdrawn) and asks (facts only the live system can give,
whose answers come back as events). ``scan`` and ``run`` differ only in who calls it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from sleepwatch.engine.ledger import Ledger, Phase
from sleepwatch.engine.streams import HEAD_LINES
from sleepwatch.engine.verdicts import (
    LOOP_DEATHS,
    Exit,
    Proof,
    Verdict,
    crash_loop,
    death,
    hung_requests,
    is_planned,
    stalled_requests,
    wake_overdue,
)
from sleepwatch.model import CanSee, Event, Evidence, Incident, Life, Origin
from sleepwatch.printable import printable


class Words(msgspec.Struct, frozen=True):
    """What the engine needs of ``rules/incidents.toml`` for one kind."""

    severity: str
    remedy: str


class Transition(msgspec.Struct, frozen=True):
    """An incident opened, changed or was withdrawn."""

    incident: Incident
    before: Incident | None
    withdrawn: bool = False


class Ask(msgspec.Struct, frozen=True):
    """A fact the engine wants from the live system: ``snapshot`` of a port's connections, or ``props`` of a server."""

    what: str
    life: str
    server: str
    port: str | None


class Output(NamedTuple):
    """What one call found out."""

    transitions: list[Transition]
    asks: list[Ask]


_NOTHING = Output([], [])
_STATE = ("_lives", "_servers", "_numbers", "_waiting_units", "_finished", "events")

TRAILING_US = 200_000
"""Carriers deliver a dying process's last lines up to this long after they report its end."""
STARTED_US = 10_000_000
"""A unit's process writes its first line within this time of its start."""


class Now(NamedTuple):
    """The two clocks absence is measured by; the smaller elapsed time counts."""

    monotonic_us: int
    wall_us: int


class Server:
    """What is known of one server across its lives."""

    __slots__ = ("idle_us", "last", "name", "row", "saw_exit", "sleep_mode")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sleep_mode = False
        self.idle_us: int | None = None
        self.last: LifeState | None = None
        self.row: Row | None = None
        """The deaths in a row it is in, none of which came to serve."""
        self.saw_exit = False


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
        "children", "ended", "exit", "freed", "head", "head_over", "ledger", "lost_to_stop", "number", "origin", "parent",
        "reported", "row", "row_unknown", "server", "sleep_seen", "spawned", "started", "stopping_models", "unit",
        "unit_started",
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
        self.sleep_seen: Now | None = None
        self.unit = origin.unit
        """Its unit; where the carrier does not tell, the one whose start preceded it."""
        self.unit_started: Event | None = None

    @property
    def identified(self) -> bool:
        """The lines its key is made of are all there, or will not come."""
        return self.head_over or len(self.head) >= HEAD_LINES or self.started.clock_us is None

    @property
    def key(self) -> str:
        """The life key (docs/verdicts.md, Identity)."""
        if self.head:
            return _digest(*self.head)
        pid, boot = self.origin.pid, self.origin.boot
        if boot is not None and pid is not None:
            return _digest(boot.encode(), str(pid).encode(), str(self.number).encode())
        return _digest(self.origin.head, (self.origin.port or "").encode(), str(self.number).encode())


class Engine:
    """Ledgers and verdicts for every stream fed to it."""

    def __init__(self, words: Mapping[str, Words], *, live: bool = False) -> None:
        self._words = words
        self._live = live
        self._lives: dict[Origin, LifeState] = {}
        self._servers: dict[str, Server] = {}
        self._numbers: dict[Origin, int] = {}
        self._transitions: list[Transition] = []
        self._asks: list[Ask] = []
        self._finished: list[LifeState] = []
        self._waiting_units: list[tuple[str, Event]] = []
        """Units that were started and whose process has not written yet, where the carrier does not tell its unit."""
        self._now: Now | None = None
        self._over = False
        self.events = 0

    # -- calls ----------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> Output:
        """One recognised line, in the order of its source."""
        self.events += 1
        event.seq = self.events
        special = _SPECIAL.get(event.type)
        if special is not None:
            special(self, event)
        else:
            life = self._lives.get(event.origin)
            if life is None or event.new_life:
                life = self._begin(event, life)
            elif life.exit is not None:
                self._writes_on(life, event)
            if event.type == "sleep.enter" or event.type == "sleep.entered":
                self._falls_asleep(life, event)
            elif life.ledger.apply(event):
                self._judge(life)
        return self._output()

    def tick(self, now: Now) -> Output:
        """Time has passed: what was waiting may have waited long enough."""
        self._now = now
        for life in list(self._lives.values()):
            if life.exit is None and life.ledger.phase in (Phase.ASLEEP, Phase.RELOADING):
                self._judge(life)
        return self._output()

    def finish(self) -> Output:
        """The sources have ended; nothing more will come."""
        self._over = True
        for life in list(self._lives.values()):
            self._close(life)
        for server in self._servers.values():
            if server.last is not None and server.last.exit is not None:
                self._judge(server.last)  # what died and was not restarted is down
            if server.row is not None:
                self._judge(server.row.first)
        return self._output()

    def state(self) -> dict[str, object]:
        """What a restart needs to go on from here: for :func:`sleepwatch.engine.state.dump`."""
        return {name: getattr(self, name) for name in _STATE}

    def resume(self, state: Mapping[str, object]) -> None:
        """Go on from a state that :meth:`state` gave."""
        for name in _STATE:
            setattr(self, name, state[name])

    def drain_lives(self) -> list[Life]:
        """The lives that ended since the last call."""
        lives, self._finished = [describe(life) for life in self._finished], []
        return lives

    def _output(self) -> Output:
        if not self._transitions and not self._asks:
            return _NOTHING
        output = Output(self._transitions, self._asks)
        self._transitions, self._asks = [], []
        return output

    # -- lives ----------------------------------------------------------------------------------------------------

    def _stamped_line(self, event: Event) -> None:
        """One of the first stamped lines of a life, which its key is made of."""
        life = self._lives.get(event.origin)
        if life is None or life.head_over:
            return
        if event.type == "line.head-end":
            life.head_over = True
        elif len(life.head) < HEAD_LINES:
            life.head.append(event.text)
        if life.identified:
            self._judge(life)

    def _begin(self, event: Event, old: LifeState | None) -> LifeState:
        origin = event.origin
        if old is not None and self._is_reexec(old):
            old.ledger.last = event
            return old
        parent = self._lives.get(origin.parent) if origin.parent is not None else None
        claimed = self._claim_unit(event)
        server = self._server_of(origin, parent, claimed[0] if claimed else None)
        before = server.last
        number = self._numbers[origin] = self._numbers.get(origin, 0) + 1
        life = LifeState(origin, server, event, number, parent)
        if claimed is not None:
            life.unit, life.unit_started = claimed
        if server.sleep_mode:
            life.ledger.sleep_mode = True
        server.last = life
        if old is None and before is not None and not before.ended and (life.unit or origin.port):
            old = before  # a unit, and a router's port, has one process at a time
        if old is not None:
            self._ended_by_start(old, event)
        elif before is not None and before.exit is not None:
            self._judge(before)  # it was restarted
        self._lives[origin] = life
        if parent is not None and origin.port is not None:
            parent.children[origin.port.rsplit("/", 1)[-1]] = life
        if claimed is not None:
            self._order_units(life)
        return life

    @staticmethod
    def _is_reexec(old: LifeState) -> bool:
        """``--sleep-mode rst``: the process starts itself anew at sleep, with the same pid."""
        return (
            old.origin.pid is not None
            and not old.ended
            and old.exit is None
            and old.ledger.phase is Phase.ASLEEP
            and old.ledger.last.type in ("sleep.enter", "sleep.entered")
        )

    def _server_of(self, origin: Origin, parent: LifeState | None, unit: str | None) -> Server:
        name = origin.unit or unit or origin.container or server_name(origin.source)
        if parent is not None and origin.port is not None:
            port = origin.port.rsplit("/", 1)[-1]
            model = parent.spawned.get(port, (port, None))[0]
            name = f"{parent.server.name}/{model}"
        elif origin.port is not None:
            name = f"{name}/{origin.port}"
        elif (
            name == server_name(origin.source) and origin.container is None and origin.ident and origin.pid is not None
        ):
            name = origin.ident
        key = f"{origin.host or ''}|{name}" + (f"|{origin.pid}" if name == origin.ident else "")
        server = self._servers.get(key)
        if server is None:
            server = self._servers[key] = Server(name)
        return server

    def _ended_by_start(self, life: LifeState, start: Event) -> None:
        """A new life begins where this one wrote: whatever ended it, it is over."""
        if life.exit is None:
            other_pid = life.origin.pid is None or start.origin.pid != life.origin.pid
            life.exit = Exit(
                event=start,
                by="next start",
                planned=life.ledger.stopping is not None,
                at_us=_own_clock(life.ledger.last, start.wall_us) if other_pid else None,
            )
        self._close(life)

    def _writes_on(self, life: LifeState, event: Event) -> None:
        """A life that writes on did not die: the report was of something else, perhaps of another life."""
        end = life.exit
        if end is None or end.sure or end.by == "next start":
            return
        if end.at_us is not None and event.clock_us is not None and event.clock_us <= end.at_us + TRAILING_US:
            return  # its own last lines, delivered late
        life.exit = None
        self._judge(life)
        if end.event is not None and end.event.fields.get("unit"):
            other = self._life_of_unit(end.event, str(end.event.fields["unit"]))
            if other is not None and other is not life and other.exit is None:
                other.exit = msgspec.structs.replace(end, at_us=_own_clock(other.ledger.last, end.event.wall_us))
                self._judge(other)

    def _close(self, life: LifeState) -> None:
        if not life.ended:
            for child in list(life.children.values()):
                self._close_owned(child)
            self._judge(life)
            self._settle(life)
            life.ended = True
            if life.exit is not None and is_planned(life.ledger, life.exit):
                life.lost_to_stop = len(life.ledger.in_flight())
            self._finished.append(life)
        if self._lives.get(life.origin) is life:
            del self._lives[life.origin]

    def _close_owned(self, child: LifeState) -> None:
        """Its router is gone: what was open in it is lost, and its end is the router's incident, not its own."""
        if child.exit is None:
            child.exit = Exit(event=None, by="router", planned=True)
        self._close(child)

    def _settle(self, life: LifeState) -> None:
        """The current sleep is over for good: its hangs stay as they are."""
        sleep = life.ledger.sleep
        if sleep is not None:
            life.freed += sleep.freed
            sleep.freed = 0
        for subject in [s for s in life.reported if s.startswith("sleep:")]:
            del life.reported[subject]

    def _falls_asleep(self, life: LifeState, event: Event) -> None:
        twin = event.type == "sleep.entered" and life.ledger.phase is Phase.ASLEEP
        if not twin:
            if life.ledger.phase is Phase.RELOADING:
                life.ledger.phase = Phase.AWAKE  # only an awake loop falls asleep
            self._judge(life)
            self._settle(life)
        if not life.ledger.apply(event):
            return
        server = life.server
        server.sleep_mode = True
        if life.ledger.idle_us is not None:
            server.idle_us = life.ledger.idle_us
        life.sleep_seen = self._now
        if self._live:
            self._asks.append(Ask("snapshot", life.key, server.name, life.ledger.port or life.origin.port))
        self._judge(life)

    # -- exits ----------------------------------------------------------------------------------------------------

    def _process_exit(self, event: Event) -> None:
        fields = event.fields
        command = fields.get("command")
        life = self._life_that_ended(event)
        if life is None:
            return
        if command:
            if not is_server_command(str(command)):
                return
            life.ledger.command(str(command))
            if life.ledger.sleep_mode:
                life.server.sleep_mode = True
                life.server.idle_us = life.server.idle_us or life.ledger.idle_us
        signal, status = fields.get("signal"), fields.get("status")
        if signal is None and isinstance(status, int) and status > 128:
            signal = status - 128
        sure = fields.get("invocation") is not None or (
            fields.get("pid") is not None and fields["pid"] == life.origin.pid
        )
        known = life.exit
        frames = str(fields.get("frames", ""))
        if known is not None and known.recorded:
            # The same death, told again: keep what each tells.
            known.others.append(event)
            known.sure = known.sure or sure
            known.signal = known.signal if known.signal is not None else signal
        else:
            life.exit = known = Exit(
                event=event,
                by=str(fields.get("by", "shell")),
                signal=signal,
                status=status,
                planned=bool(fields.get("planned")),
                at_us=_own_clock(life.ledger.last, event.wall_us),
                sure=sure,
                others=[],
            )
        known.tokenizer = known.tokenizer or bool(_TOKENIZER.search(frames))
        known.oom = known.oom or fields.get("cause") == "oom"
        life.server.saw_exit = True
        self._own_children(life)
        self._judge(life)

    def _life_that_ended(self, event: Event) -> LifeState | None:
        """Whose end does this record report?"""
        fields, origin = event.fields, event.origin
        lives = [life for life in self._lives.values() if life.origin.port is None and _same_host(life.origin, origin)]
        invocation, pid = fields.get("invocation"), fields.get("pid")
        if invocation:
            named = [life for life in lives if life.origin.invocation == invocation]
            if named:
                return named[-1]
        if pid is not None and (named := [life for life in lives if life.origin.pid == pid]):
            return named[-1]
        if fields.get("unit"):
            return self._life_of_unit(event, str(fields["unit"]))
        if fields.get("container"):
            named = [life for life in lives if _same_container(life.origin.container, str(fields["container"]))]
            return named[-1] if named else None
        own = self._lives.get(origin)
        if own is not None:
            return own
        if pid is not None and any(life.origin.pid is not None for life in lives):
            return None  # pids are known here, and this is none of them
        same = [life for life in lives if life.origin.source == origin.source and life.exit is None]
        return same[0] if len(same) == 1 else None

    def _life_of_unit(self, event: Event, unit: str) -> LifeState | None:
        lives = [
            life for life in self._lives.values() if life.origin.port is None and _same_host(life.origin, event.origin)
        ]
        named = [life for life in lives if life.unit == unit]
        silent = [life for life in named if life.ledger.last.seq < event.seq]
        if silent or named:
            return (silent or named)[-1]
        # Not known whose unit it is: a process that has said nothing since, of no other unit.
        unnamed = [life for life in lives if life.unit is None and life.origin.pid is not None and life.exit is None
                   and life.ledger.last.seq < event.seq]  # fmt: skip
        return unnamed[0] if len(unnamed) == 1 else None

    @staticmethod
    def _own_children(life: LifeState) -> None:
        """A router that dies owns the requests of its children."""
        for index, child in enumerate(life.children.values()):
            if child.ended or child.exit is not None:
                continue
            for number, request in enumerate(child.ledger.in_flight()):
                life.ledger.busy[-1 - index * 10_000 - number] = request

    # -- units ----------------------------------------------------------------------------------------------------

    def _unit_line(self, event: Event) -> None:
        """systemd's own words about a unit: which process is whose, and what was wanted."""
        unit = str(event.fields.get("unit", ""))
        if event.type == "unit.started":
            self._waiting_units = [*self._waiting_units[-15:], (unit, event)]
            return
        life = self._life_of_unit(event, unit)
        if life is None or life.exit is not None:
            return
        if event.type == "unit.stopping":
            life.ledger.apply(event_like(event, "process.stopping"))
            self._judge(life)
        elif event.type == "unit.ended":
            life.exit = Exit(
                event=event, by="systemd", status=0, planned=True, sure=life.origin.unit == unit, others=[]
            )
            self._judge(life)

    def _claim_unit(self, event: Event) -> tuple[str, Event] | None:
        """The unit whose start was reported shortly before this process's first line."""
        origin = event.origin
        if origin.unit is not None or origin.pid is None or origin.port is not None:
            return None
        near = [
            (unit, started)
            for unit, started in self._waiting_units
            if _same_host(started.origin, origin)
            and started.wall_us is not None
            and event.wall_us is not None
            and -1_000_000 <= event.wall_us - started.wall_us <= STARTED_US
        ]
        ident = (origin.ident or "").split("-")[0]
        claimed = next((one for one in near if ident and ident in one[0]), near[0] if near else None)
        if claimed is not None:
            self._waiting_units.remove(claimed)
        return claimed

    def _order_units(self, life: LifeState) -> None:
        """Units started together: systemd forks in the order it reports, so the lower pid is the earlier start."""
        for other in self._lives.values():
            if (
                other is not life
                and other.unit_started is not None
                and life.unit_started is not None
                and _same_host(other.origin, life.origin)
                and (other.origin.pid or 0) > (life.origin.pid or 0)
                and other.unit_started.seq < life.unit_started.seq
                and other.started.seq > life.unit_started.seq
            ):
                life.unit, other.unit = other.unit, life.unit
                life.unit_started, other.unit_started = other.unit_started, life.unit_started
                life.server, other.server = other.server, life.server
                life.server.last, other.server.last = life, other

    def _gap_line(self, event: Event) -> None:
        """Lines are missing: of the writer they were taken from, or of the whole source where that is not told."""
        for life in self._lives.values():
            if life.origin is event.origin or (
                life.origin.source == event.origin.source
                and event.fields.get("unit") in (None, life.unit)
                and event.fields.get("pid") in (None, life.origin.pid)
            ):
                life.ledger.gap()
                self._judge(life)

    # -- routers --------------------------------------------------------------------------------------------------

    def _router_line(self, event: Event) -> None:
        life = self._lives.get(event.origin)
        if life is None or event.new_life:
            life = self._begin(event, life)
        elif life.exit is not None:
            self._writes_on(life, event)
        fields = event.fields
        if event.type == "router.spawned":
            port = str(fields["port"])
            life.spawned[port] = (str(fields["model"]), event.clock_us)
            life.stopping_models.discard(str(fields["model"]))
            old = life.children.get(port)
            if old is not None and not old.ended:
                self._ended_by_start(old, event)
        elif event.type == "router.proxied":
            child = life.children.get(str(fields["port"]))
            if child is not None and not child.ended:
                child.ledger.passed_on(event, self._child_clock(life, str(fields["port"]), event))
        elif event.type == "router.stopping":
            life.stopping_models.add(str(fields["model"]))
        elif event.type == "router.exited":
            self._child_exited(life, event)
        life.ledger.apply(event)

    @staticmethod
    def _child_clock(router: LifeState, port: str, event: Event) -> int | None:
        """A moment on the router's clock, on the child's: the child's clock starts with its spawn."""
        spawn = router.spawned.get(port)
        if spawn is None or spawn[1] is None or event.clock_us is None:
            return None
        return event.clock_us - spawn[1]

    def _child_exited(self, router: LifeState, event: Event) -> None:
        model, status = str(event.fields["model"]), event.fields["status"]
        ports = [port for port, (name, _) in router.spawned.items() if name == model]
        child = next((router.children[p] for p in reversed(ports) if p in router.children), None)
        if child is None or child.ended:
            return
        # The stock router reports 1 for every signal (subprocess.h); patched ones 128+n or -n.
        signal = status - 128 if 128 < status < 160 else -status if -65 < status < 0 else None
        child.exit = Exit(
            event=event,
            by="router",
            signal=signal,
            status=status,
            planned=status == 0 or model in router.stopping_models,
            at_us=self._child_clock(router, ports[-1], event),
            sure=True,
            others=[],
        )
        child.server.saw_exit = True
        self._close(child)

    # -- verdicts -------------------------------------------------------------------------------------------------

    def _judge(self, life: LifeState) -> None:
        """Recompute what this life amounts to, and say what changed."""
        if not (life.identified or life.exit is not None or self._over):
            return  # its identity is not known yet
        ledger = life.ledger
        verdicts = []
        if not life.ended:
            verdicts = hung_requests(ledger, waited_us=self._waited_us(life), ended=self._how_ended(life))
        if life.exit is not None:
            dead = death(
                ledger,
                life.exit,
                sleep_mode=ledger.sleep_mode or life.server.sleep_mode,
                idle_us=life.server.idle_us,
                restarted=life.server.last is not life,
                over=self._over,
            )
            if dead is not None:
                dead = self._in_a_row(life, dead)
            if dead is not None:
                verdicts.append(dead)
        elif self._live:
            overdue = wake_overdue(ledger, None, ended=False, waited_us=self._waited_us(life))
            if overdue is not None:
                verdicts.append(overdue)
        if life.exit is not None or self._over:
            verdicts.extend(stalled_requests(ledger))
        self._report(life, {v.subject: self._incident(life, v) for v in verdicts})

    def _how_ended(self, life: LifeState) -> str | None:
        if life.exit is not None:
            return "stopped" if is_planned(life.ledger, life.exit) else "died"
        if not self._over:
            return None
        return "stopped" if life.ledger.stopping is not None else "log ends"

    def _waited_us(self, life: LifeState) -> int | None:
        if self._now is None or life.sleep_seen is None:
            return None
        return min(self._now.monotonic_us - life.sleep_seen.monotonic_us, self._now.wall_us - life.sleep_seen.wall_us)

    def _in_a_row(self, life: LifeState, dead: Verdict) -> Verdict | None:
        """Five deaths in a row of one server that never came to serve are one crash loop, the first one's incident."""
        server, ledger = life.server, life.ledger
        if ledger.served or ledger.listening or dead.kind != "crash":
            if life.row is None:
                server.row = None
            return dead
        row = life.row
        grown = row is None
        if row is None:
            row = server.row = server.row or Row(life)
            life.row = row
            row.count += 1
            if len(row.members) < LOOP_DEATHS:
                row.members.append(life)
        if (dead.signal is None) != life.row_unknown:
            life.row_unknown = dead.signal is None
            row.unknown += 1 if life.row_unknown else -1
        if row.count < LOOP_DEATHS:
            return dead
        if life is row.first:
            state = "restarted" if server.row is not row else "down" if self._over else "open"
            return crash_loop(dead, row.count, signals_known=not row.unknown, state=state)
        if grown:
            for member in row.members:
                if member is not life and (member is row.first or row.count == LOOP_DEATHS):
                    self._judge(member)
        return None

    def _incident(self, life: LifeState, verdict: Verdict) -> Incident:
        words = self._words[verdict.kind]
        opened, closed = verdict.opened, verdict.closed
        return Incident(
            id=_digest(life.key.encode(), verdict.subject.encode()),
            kind=verdict.kind,
            confidence=verdict.confidence,
            state=verdict.state,
            severity=words.severity,
            server=life.server.name,
            life=life.key,
            summary=verdict.summary,
            remedy=words.remedy,
            reason=verdict.reason,
            evidence=tuple(_evidence(p) for p in verdict.proofs),
            task=verdict.task,
            in_flight=verdict.in_flight,
            in_flight_reason=verdict.in_flight_reason,
            signal=verdict.signal,
            count=verdict.count,
            opened_us=opened.wall_us if opened is not None else None,
            closed_us=closed.wall_us if closed is not None else None,
            log_opened_us=opened.clock_us if opened is not None else None,
            log_closed_us=closed.clock_us if closed is not None and closed.origin is life.origin else None,
        )

    def _report(self, life: LifeState, now: dict[str, Incident]) -> None:
        for subject, incident in now.items():
            before = life.reported.get(subject)
            if before != incident:
                self._transitions.append(Transition(incident, before))
        for subject, before in life.reported.items():
            if subject not in now:
                self._transitions.append(Transition(before, before, withdrawn=True))
        life.reported = now


_SPECIAL: dict[str, Callable[[Engine, Event], None]] = {
    "line.stamped": Engine._stamped_line,
    "line.head-end": Engine._stamped_line,
    "process.exit": Engine._process_exit,
    "unit.started": Engine._unit_line,
    "unit.stopping": Engine._unit_line,
    "unit.ended": Engine._unit_line,
    "gap": Engine._gap_line,
    "router.start": Engine._router_line,
    "router.spawned": Engine._router_line,
    "router.argument": Engine._router_line,
    "router.proxied": Engine._router_line,
    "router.stopping": Engine._router_line,
    "router.exited": Engine._router_line,
    "router.client_error": Engine._router_line,
}


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


def _evidence(proof: Proof) -> Evidence:
    event = proof.event
    return Evidence(
        role=proof.role,
        source=event.source or event.origin.source,
        offset=event.offset,
        text=printable(event.text.decode("utf-8", "surrogateescape")),
        rest_bytes=len(event.rest),
        rest_sha256=hashlib.sha256(event.rest).hexdigest() if event.rest else None,
        clock_us=event.clock_us,
        wall_us=event.wall_us,
    )


def _own_clock(last: Event, wall_us: int | None) -> int | None:
    """A moment in wall time on the process's own log clock, by its last line that carries both."""
    if wall_us is None or last.wall_us is None or last.clock_us is None:
        return None
    return last.clock_us + wall_us - last.wall_us


def _same_host(one: Origin, other: Origin) -> bool:
    return one.host is None or other.host is None or one.host == other.host


def _same_container(name: str | None, reported: str) -> bool:
    """Compose calls a service ``llama`` in front of its lines and ``llama-1`` where it reports its end, or both so."""
    return name is not None and (name == reported or name.startswith(reported + "-") or reported.startswith(name + "-"))


def event_like(event: Event, type_: str) -> Event:
    """The same line, as another event."""
    return msgspec.structs.replace(event, type=type_)


_TOKENIZER = re.compile(
    r"llm_tokenizer|llama_vocab::(?:impl::)?(?:tokenize|text_to_token)|tokenize_input_prompts|common_tokenize"
)
"""Frames of a thread that was reading the vocabulary (llama.cpp ``src/llama-vocab.cpp``, server-common.cpp)."""

_SERVER_PROGRAM = re.compile(r"(?:^|[\s/\"'])(?:[\w.-]*llama[\w.-]*|server)(?:$|[\s\"'])|--sleep-idle-seconds|\.gguf\b")


def is_server_command(command: str) -> bool:
    """Does a command line a supervisor printed start a llama-server (or something that runs one)?"""
    return bool(_SERVER_PROGRAM.search(command))


_SUFFIXES = (".gz", ".xz", ".zst", ".bz2", ".log", ".txt", ".out", ".err", ".jsonl", ".json", ".export", ".journal")
_ROTATED = re.compile(r"(?:\.\d{1,4}|-\d{8}(?:-\d+)?|\.\d{4}-\d{2}-\d{2})$")


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


def _digest(*parts: bytes) -> str:
    """Twenty hex digits of a SHA-256 over the parts: the form of life keys and incident ids."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]
