"""The engine: events in, incidents out. Pure: no clock, no I/O, no globals.

:meth:`Engine.feed` takes one event, :meth:`Engine.tick` the time, :meth:`Engine.finish` the end of the sources. Each
returns transitions (an incident that opened, changed or was withdrawn) and asks (facts only the live system can give,
whose answers come back as events). ``scan`` and ``run`` differ only in who calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from sleepwatch.engine import exits, routers, witnesses
from sleepwatch.engine.ends import (
    claim_unit,
    is_server_command,
    life_of_unit,
    life_that_ended,
    order_units,
    same_host,
    unnamed_before,
)
from sleepwatch.engine.ledger import Pending, Phase
from sleepwatch.engine.lives import LifeState, Now, Row, Server, describe, own_clock, server_name
from sleepwatch.engine.output import Ask, Output, Transition, Words, incident_of
from sleepwatch.engine.streams import HEAD_LINES
from sleepwatch.engine.verdicts import (
    GRACE_US,
    LOOP_DEATHS,
    SIGSEGV,
    Exit,
    NoIncident,
    Verdict,
    crash_loop,
    death,
    grade,
    hung_requests,
    is_planned,
    overdue_after_us,
    signal_of,
    stalled_requests,
    wake_overdue,
)
from sleepwatch.model import Event, Incident, Life, Origin

_NOTHING = Output([], [])
_STATE = ("_lives", "_servers", "_numbers", "_waiting_units", "_unclaimed", "_dumped", "_finished", "events")

UNDECIDED = 8
"""So many deaths of a server are judged again when it is told that it has sleep mode on."""
TRAILING_US = 200_000
"""Carriers deliver a dying process's last lines up to this long after they report its end."""


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
        self._unclaimed: list[Event] = []
        """The kernel's words about threads that could not be told apart; the supervisor's words will."""
        self._dumped: LifeState | None = None
        """The life whose core was dumped last: stack frames that follow are its."""
        self._now: Now | None = None
        self._written_us: int | None = None
        self._over = False
        self.events = 0

    # -- calls ----------------------------------------------------------------------------------------------------

    def at(self, now: Now, *, written_us: int | None = None) -> None:
        """Live: the time at which what is fed next happens.

        ``written_us``: the monotonic time at which it was written; None where nobody looked on then.
        """
        self._now, self._written_us = now, written_us

    def feed(self, event: Event) -> Output:
        """One recognised line, in the order of its source."""
        self.events += 1
        event.seq = self.events
        special = _SPECIAL.get(event.type)
        if special is not None:
            special(self, event)
        else:
            life = self._writer(event)
            if event.type == "sleep.enter" or event.type == "sleep.entered":
                self._falls_asleep(life, event)
            else:
                if event.type.startswith("sleep.exit") and life.ledger.phase is Phase.AWAKE:
                    self._settle(life)  # its falling asleep is not in the log: this is another sleep
                phase = life.ledger.phase
                changed = life.ledger.apply(event)
                if life.ledger.phase is not phase:
                    life.enters_phase(self._now)
                if changed:
                    self._judge(life)
                if self._live and life.ledger.sleep is not None:
                    self._look_soon(life, phase, event)
            if life.server.row is not None and (life.ledger.served or life.ledger.listening):
                self._ends_row(life.server)
        return self._output()

    def tick(self, now: Now) -> Output:
        """Time has passed, and all that was written by now has been fed: what waits may have waited long enough."""
        self._now = now
        for life in [one for one in self._lives.values() if self._waits(one)]:
            life.phase_seen = life.phase_seen or now
            self._judge(life)
            self._look(life)
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

    @property
    def lives(self) -> Collection[LifeState]:
        """The lives that have not ended."""
        return self._lives.values()

    def dismissed(self, life: LifeState) -> list[tuple[Pending, NoIncident]]:
        """The requests that met this life's last sleep and are no incident, as things stand, each with the reason."""
        sleep = life.ledger.sleep
        if sleep is None:
            return []
        waited, ended = self._waited_us(life), self._how_ended(life)
        graded = [(p, grade(life.ledger, sleep, p, waited_us=waited, ended=ended)) for p in sleep.pendings]
        return [(pending, outcome) for pending, outcome in graded if isinstance(outcome, NoIncident)]

    @property
    def followed(self) -> set[str]:
        """The ids of the incidents that may still change: what comes of them will be told."""
        lives = [*self._lives.values(), *(server.last for server in self._servers.values())]
        lives += [server.row.first for server in self._servers.values() if server.row is not None]
        lives += [life for server in self._servers.values() for life in server.undecided]
        return {incident.id for life in lives if life is not None for incident in life.reported.values()}

    def state(self) -> dict[str, object]:
        """What a restart needs to go on from here: for :func:`sleepwatch.engine.state.dump`."""
        return {name: getattr(self, name) for name in _STATE}

    def resume(self, state: Mapping[str, object]) -> None:
        """Go on from a state that :meth:`state` gave."""
        for name in _STATE:
            setattr(self, name, state[name])
        for life in self._lives.values():
            # What was seen of its waiting still counts, what passed meanwhile does not: the machine may have been off.
            life.waited_us = life.judged_us or 0
            life.phase_seen = life.judged_us = life.written_us = None
            life.look_us = 0 if life.ledger.phase is Phase.ASLEEP else None

    @property
    def waits(self) -> bool:
        """Something may become an incident by waiting alone."""
        return any(self._waits(life) for life in self._lives.values())

    @staticmethod
    def _waits(life: LifeState) -> bool:
        """Is there something in this life that only time will tell, and has it not yet told?"""
        ledger = life.ledger
        if life.exit is not None:
            return False
        if life.look_us is not None:
            return True
        if ledger.phase is Phase.ASLEEP:
            patience = GRACE_US if ledger.sleep is not None and ledger.sleep.pendings else None
        else:
            patience = overdue_after_us(ledger)
        return patience is not None and (life.judged_us is None or life.judged_us < patience)

    def current_lives(self) -> list[Life]:
        """The lives in progress, as far as they are known; and those seen to end whose successor has not begun."""
        return [describe(life) for life in self._lives.values() if life.identified or life.exit is not None]

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

    def _writer(self, event: Event) -> LifeState:
        """The life that wrote this line, which may be its first."""
        life = self._lives.get(event.origin)
        if life is None or event.new_life:
            life = self._begin(event, life)
        elif life.exit is not None:
            self._writes_on(life, event)
        life.written_us = self._written_us
        return life

    def _begin(self, event: Event, old: LifeState | None) -> LifeState:
        origin = event.origin
        if old is not None and self._is_reexec(old):
            old.ledger.last = event
            return old
        parent = self._lives.get(origin.parent) if origin.parent is not None else None
        claimed = claim_unit(self._waiting_units, event)
        server = self._server_of(origin, parent, claimed[0] if claimed else None)
        before = server.last
        number = self._numbers[origin] = self._numbers.get(origin, 0) + 1
        life = LifeState(origin, server, event, number, parent)
        if claimed is not None:
            life.unit, life.unit_started = claimed
        if server.sleep_mode:
            life.ledger.sleep_mode = True
        server.last = life
        server.restarting = server.given_up = False
        if old is None and before is not None and not before.ended and (life.unit or origin.port):
            old = before  # a unit, and a router's port, has one process at a time
        if old is not None:
            self._ended_by_start(old, event)
        elif before is not None and before.exit is not None:
            self._judge(before)  # it was restarted
        self._lives[origin] = life
        if parent is not None and origin.port is not None:
            parent.children[routers.port_at_router(origin.port)] = life
        if claimed is not None:
            order_units(self._lives.values(), life)
            self._claim_reports(life)
        return life

    def _unit_is_known(self, event: Event) -> None:
        """Its carrier tells only now whose process this is: its first lines were read too early for that."""
        life = self._lives.get(event.origin)
        if life is None or life.unit == event.origin.unit:
            return
        server = self._server_of(event.origin, life.parent, None)
        before = server.last
        if life.server.last is life:
            life.server.last = None
        life.unit, life.server, server.last = event.origin.unit, server, life
        if server.sleep_mode:
            life.ledger.sleep_mode = True
        if before is not None and not before.ended:
            self._ended_by_start(before, life.started)
        elif before is not None and before.exit is not None:
            self._judge(before)
        self._judge(life)

    def _claim_reports(self, life: LifeState) -> None:
        """A report about this life's unit that could not be placed was about the process before it."""
        for report in [one for one in self._unclaimed if one.fields.get("unit") == life.unit]:
            before = unnamed_before(self._lives.values(), report, life)
            if before is not None:
                self._unclaimed.remove(report)
                before.unit, before.server = life.unit, life.server
                self._process_exit(report)

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
            name = f"{parent.server.name}/{routers.model_at(parent, routers.port_at_router(origin.port))}"
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
            started_us = start.wall_us
            life.exit = Exit(
                event=start,
                by="next start",
                planned=life.ledger.stopping is not None,
                at_us=own_clock(life, started_us - life.server.restart_us) if other_pid and started_us else None,
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
            other = life_of_unit(self._lives.values(), end.event, str(end.event.fields["unit"]))
            if other is not None and other is not life and other.exit is None:
                other.exit = msgspec.structs.replace(end, at_us=own_clock(other, end.event.wall_us))
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

    def _has_sleep_mode(self, server: Server) -> None:
        """It is known now that this server sleeps when idle: what it died of before may have been that."""
        server.sleep_mode = True
        undecided, server.undecided = server.undecided, []
        for life in undecided:
            self._judge(life)

    def _falls_asleep(self, life: LifeState, event: Event) -> None:
        twin = event.type == "sleep.entered" and life.ledger.phase is Phase.ASLEEP
        if not twin:
            if life.ledger.phase is Phase.RELOADING:
                life.ledger.phase = Phase.AWAKE  # only an awake loop falls asleep
            witnesses.falls_asleep_again(life.ledger)
            life.ledger.sleeps_twice()
            before = life.ledger.sleep
            if before is not None and (before.exit or before.unseen_exit) and not event.doubtful:
                before.over = event
            self._judge(life)
            self._settle(life)
        if not life.ledger.apply(event):
            return
        if life.ledger.idle_us is not None:
            life.server.idle_us = life.ledger.idle_us
        self._has_sleep_mode(life.server)
        life.enters_phase(self._now)
        life.look_us = 0 if self._live else None  # due until it is answered
        if self._live:
            self._ask(life, "snapshot", 0)
        self._judge(life)

    # -- witnesses ------------------------------------------------------------------------------------------------

    def _look(self, life: LifeState) -> None:
        """Ask for what is due to be asked for."""
        waited_us, sleep = self._waited_us(life) or 0, life.ledger.sleep
        if sleep is None:
            return
        if witnesses.wants_props(life.ledger, waited_us):
            sleep.props_asked = True
            self._ask(life, "props", waited_us)
        if life.look_us is not None and waited_us >= life.look_us:
            life.look_us = None
            self._ask(life, "snapshot", waited_us)

    def _look_soon(self, life: LifeState, before: Phase, event: Event) -> None:
        """After a wake what waited is answered soon, and its client may hang up right behind that; after a cancel the
        connections tell which of several it was."""
        sleep, ledger = life.ledger.sleep, life.ledger
        if sleep is None or not witnesses.cookies(sleep):
            return
        if ledger.phase is Phase.ASLEEP:
            if event.type == "request.cancelled":
                life.look_us = 0
        elif ledger.phase is not before:
            life.look_us = 0
        elif ledger.last.type == "request.released" and life.look_us is not None:
            self._ask(life, "snapshot", self._waited_us(life) or 0)

    def _ask(self, life: LifeState, what: str, waited_us: int) -> None:
        ledger, sleep = life.ledger, life.ledger.sleep
        assert sleep is not None
        asleep = ledger.phase is Phase.ASLEEP
        since = sleep.enter if asleep else ledger.last
        known = since is not None and since.clock_us is not None
        self._asks.append(
            Ask(
                what=what,
                life=life.key,
                server=life.server.name,
                port=ledger.port or life.origin.port,
                pid=life.origin.pid,
                url=ledger.url,
                origin=life.origin,
                sleep=sleep.key,
                place=sleep.events,
                clock_us=(since.clock_us or 0) + (waited_us if asleep else 0) if known and since is not None else None,
                asleep_us=waited_us if asleep else None,
                awake_us=0 if asleep else waited_us,
                cookies=witnesses.cookies(sleep),
            )
        )

    def _witness(self, event: Event) -> None:
        """An answer: about a sleep that may be over by now."""
        life = self.life(event.fields["life"])
        if life is None or life.ledger.sleep is None or life.ledger.sleep.key != event.fields["sleep"]:
            return
        ledger, sleep = life.ledger, life.ledger.sleep
        if event.type == "witness.props":
            sleep.props = event
        else:
            witnesses.snapshot(ledger, sleep, event)
            life.look_us = witnesses.next_look_us(ledger, self._waited_us(life) or 0) if self._live else None
        self._judge(life)

    def life(self, key: str) -> LifeState | None:
        """The life with this key, if it goes on."""
        return next((life for life in self._lives.values() if life.key == key), None)

    # -- exits ----------------------------------------------------------------------------------------------------

    def _process_exit(self, event: Event) -> None:
        fields = event.fields
        command = fields.get("command")
        life = self.life(fields["life"]) if "life" in fields else life_that_ended(self._lives.values(), event)
        if life is None:
            if fields.get("by") in ("kernel", "coredump") or fields.get("unit"):
                self._unclaimed = [*self._unclaimed[-7:], event]
            return
        if command:
            if not is_server_command(str(command)):
                return
            life.ledger.command(str(command))
            if life.ledger.sleep_mode:
                life.server.idle_us = life.server.idle_us or life.ledger.idle_us
                self._has_sleep_mode(life.server)
        if fields.get("by") == "systemd":
            life.server.restarting = False
        end = exits.enter(life, event)
        exits.adopt(self._unclaimed, life, end, event)
        if end.by == "coredump" or fields.get("by") == "coredump":
            self._dumped = life
        life.server.saw_exit = True
        routers.take_over_requests(life)
        self._judge(life)

    def _signal_line(self, event: Event) -> None:
        """The signal of the death that the lines before it reported without one."""
        life = life_that_ended(self._lives.values(), event)
        if life is not None and life.exit is not None and life.exit.recorded and life.exit.signal is None:
            life.exit.signal = event.fields["signal"]
            life.exit.others.append(event)
            self._judge(life)

    def _frame_line(self, event: Event) -> None:
        """A frame of a dead process's stack that names the tokenizer."""
        lives = [life for life in self._lives.values() if life.origin.pid == event.fields.get("pid")]
        life = lives[-1] if lives and event.fields.get("pid") is not None else self._dumped
        if life is None or life.exit is None:
            return
        if not life.exit.tokenizer:
            life.exit.tokenizer = True
            life.exit.others.append(event)
            self._judge(life)

    # -- our own wakes --------------------------------------------------------------------------------------------

    def _own_wake(self, event: Event) -> None:
        """We are about to wake this server, or did and freed nothing. Not a line: the life's clock is not touched."""
        life = self._lives.get(event.origin)
        sleep = life.ledger.sleep if life is not None else None
        if life is None or sleep is None:
            return
        if event.type == "wake.failed":
            sleep.wake_failed = str(event.fields["words"])
            if sleep.exit is None:
                sleep.waked = None  # whoever wakes it now, it was not this
        elif life.ledger.phase is Phase.ASLEEP:
            sleep.waked, sleep.wake_failed = event, None
        self._judge(life)

    # -- units ----------------------------------------------------------------------------------------------------

    def _unit_line(self, event: Event) -> None:
        """systemd's own words about a unit: which process is whose, and what was wanted."""
        unit = str(event.fields.get("unit", ""))
        if event.type == "unit.started":
            self._waiting_units = [*self._waiting_units[-15:], (unit, event)]
            return
        life = life_of_unit(self._lives.values(), event, unit)
        if life is not None and event.type in ("unit.restarting", "unit.failed"):
            self._restart_line(life, event)
        if life is None or life.exit is not None:
            return
        if event.type == "unit.stopping":
            life.ledger.apply(msgspec.structs.replace(event, type="process.stopping"))
            self._judge(life)
        elif event.type == "unit.ended":
            life.exit = Exit(
                event=event, by="systemd", status=0, planned=True, sure=life.origin.unit == unit, others=[]
            )
            self._judge(life)

    def _restart_line(self, life: LifeState, event: Event) -> None:
        """The unit of a process that has ended is about to be started again, or that has failed."""
        server, end = life.server, life.exit
        if end is None or end.event is None:
            return
        if event.type == "unit.restarting":
            server.restarting = True
            if event.wall_us is not None and end.event.wall_us is not None and life.jumped < end.event.seq:
                server.restart_us = max(0, event.wall_us - end.event.wall_us)
        elif not server.given_up and (server.restarting or event.fields.get("limit")):
            server.given_up = True
            end.others.append(event)
            self._judge(life)
            if server.row is not None:
                self._judge(server.row.first)

    def _clock_line(self, event: Event) -> None:
        """Wall time has jumped on this host."""
        for life in self._lives.values():
            if same_host(life.origin, event.origin):
                life.jumped = event.seq

    def _gap_line(self, event: Event) -> None:
        """Lines are missing: of the writer they were taken from, or of the whole source where that is not told."""
        for life in self._lives.values():
            if life.origin is event.origin or (
                life.origin.source == event.origin.source
                and (life.unit is None or event.fields.get("unit") in (None, life.unit))
                and event.fields.get("pid") in (None, life.origin.pid)
            ):
                life.ledger.gap()
                self._judge(life)

    # -- routers --------------------------------------------------------------------------------------------------

    def _router_line(self, event: Event) -> None:
        life, fields = self._writer(event), event.fields
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
                child.ledger.passed_on(event, routers.child_clock_us(life, str(fields["port"]), event))
        elif event.type == "router.stopping":
            life.stopping_models.add(str(fields["model"]))
        elif event.type == "router.exited":
            self._child_exited(life, event)
        life.ledger.apply(event)

    def _child_exited(self, router: LifeState, event: Event) -> None:
        child = routers.child_with_model(router, str(event.fields["model"]))
        if child is None or child.ended:
            return
        child.exit = routers.exit_of_child(router, child, event)
        if child.exit.signal is None and not child.exit.planned:
            exits.adopt(self._unclaimed, child, child.exit, event)
        child.server.saw_exit = True
        self._close(child)

    # -- verdicts -------------------------------------------------------------------------------------------------

    def _judge(self, life: LifeState) -> None:
        """Recompute what this life amounts to, and say what changed."""
        if not (life.identified or life.exit is not None or self._over):
            return  # its identity is not known yet
        ledger = life.ledger
        sleep = ledger.sleep
        life.judged_us = self._waited_us(life)
        if (
            life.exit is None
            and not life.reported
            and not self._over
            and not self._live
            and (sleep is None or not (sleep.pendings or sleep.twins))
        ):
            return  # the common case: nothing waits, nothing ended
        verdicts = []
        if not life.ended:
            verdicts = hung_requests(ledger, waited_us=self._waited_us(life), ended=self._how_ended(life))
        if life.exit is not None:
            server = life.server
            sleep_mode = ledger.sleep_mode or server.sleep_mode
            dead = death(
                ledger,
                life.exit,
                sleep_mode=sleep_mode,
                idle_us=server.idle_us,
                restarted=server.last is not life,
                over=self._over or server.given_up,
            )
            if dead is not None:
                if not sleep_mode and (dead.kind, dead.signal) == ("crash", SIGSEGV) and life not in server.undecided:
                    server.undecided = [*server.undecided[1 - UNDECIDED :], life]
                dead = self._in_a_row(life, dead)
            if dead is not None:
                verdicts.append(dead)
        else:
            overdue = None
            if ledger.stopping is not None and (self._live or self._over):
                overdue = wake_overdue(ledger, ledger.stopping, ended=True)
            elif self._live and not self._over:
                overdue = wake_overdue(ledger, None, ended=False, waited_us=self._waited_us(life))
            if overdue is not None:
                verdicts.append(overdue)
        if life.exit is not None or self._over:
            verdicts.extend(stalled_requests(ledger))
        self._report(life, {v.subject: incident_of(life, v, self._words) for v in verdicts})

    def _how_ended(self, life: LifeState) -> str | None:
        if life.exit is not None:
            if is_planned(life.ledger, life.exit):
                return "stopped"
            return "crashed" if signal_of(life.ledger, life.exit) == SIGSEGV else "died"
        if not self._over:
            return None
        return "stopped" if life.ledger.stopping is not None else "log ends"

    def _waited_us(self, life: LifeState) -> int | None:
        """For how long it has been in its phase, as far as that was looked at; None where nobody looks on live."""
        if not self._live:
            return None
        if self._now is None or life.phase_seen is None:
            return life.waited_us
        return life.waited_us + self._now.monotonic_us - life.phase_seen.monotonic_us

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
            state = "restarted" if server.row is not row or (self._over and self._is_up(server)) else "open"
            if state == "open" and (self._over or server.given_up):
                state = "down"
            return crash_loop(dead, row.count, signals_known=not row.unknown, state=state)
        if grown:
            for member in row.members:
                if member is not life and (member is row.first or row.count == LOOP_DEATHS):
                    self._judge(member)
        return None

    def _ends_row(self, server: Server) -> None:
        """A life came to serve: the deaths before it are a row of their own."""
        row, server.row = server.row, None
        if row is not None:
            self._judge(row.first)

    @staticmethod
    def _is_up(server: Server) -> bool:
        return server.last is not None and server.last.exit is None

    def _report(self, life: LifeState, now: dict[str, Incident]) -> None:
        for subject, incident in now.items():
            before = life.reported.get(subject)
            if before is not None and before.id != incident.id:
                # It was told before its life's first lines were all there, which its identity is made of.
                self._transitions.append(Transition(before, before, withdrawn=True))
                before = None
            if before != incident:
                self._transitions.append(Transition(incident, before))
        for subject, before in life.reported.items():
            if subject not in now:
                self._transitions.append(Transition(before, before, withdrawn=True))
        life.reported = now


_SPECIAL: dict[str, Callable[[Engine, Event], None]] = {
    "line.stamped": Engine._stamped_line,
    "line.head-end": Engine._stamped_line,
    "line.unit": Engine._unit_is_known,
    "process.exit": Engine._process_exit,
    "process.frame": Engine._frame_line,
    "process.signal": Engine._signal_line,
    "unit.started": Engine._unit_line,
    "unit.stopping": Engine._unit_line,
    "unit.ended": Engine._unit_line,
    "unit.restarting": Engine._unit_line,
    "unit.failed": Engine._unit_line,
    "clock.jumped": Engine._clock_line,
    "gap": Engine._gap_line,
    "router.start": Engine._router_line,
    "router.spawned": Engine._router_line,
    "router.proxied": Engine._router_line,
    "router.stopping": Engine._router_line,
    "router.exited": Engine._router_line,
    "router.client_error": Engine._router_line,
    "wake.sent": Engine._own_wake,
    "wake.failed": Engine._own_wake,
    "witness.snapshot": Engine._witness,
    "witness.props": Engine._witness,
}
