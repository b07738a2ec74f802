"""The daemon's answer to a hung request: decide, note it down, wake, see what came of it.

The daemon's loop calls :meth:`Responder.hear` and :meth:`Responder.step`, which never wait. What waits (the look for
the server, ``/props``, the request) runs in one thread for each wake, which touches nothing of the daemon's and tells
what happened through a queue. A wake is noted in the database before its thread starts: a kill in between costs a try
of the budget and never gains one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol

import msgspec

from sleepwatch.client.exchange import Own
from sleepwatch.client.target import Target
from sleepwatch.clock import Clock
from sleepwatch.engine.ledger import Phase
from sleepwatch.engine.lives import LifeState, Now
from sleepwatch.engine.witnesses import cookies
from sleepwatch.errors import SleepwatchError, StoreError
from sleepwatch.hosts.processes import PROC, find_servers
from sleepwatch.model import Incident
from sleepwatch.printable import printable
from sleepwatch.report.times import duration_words
from sleepwatch.sources.journal import NAME as JOURNAL
from sleepwatch.sources.journal import Which
from sleepwatch.store import Store
from sleepwatch.store.actions import UNKNOWN, Action, actions, actions_under_way, begin_action, save_action
from sleepwatch.wake import attempt as outcomes
from sleepwatch.wake.attempt import RELEASED, WOULD_WAKE, Attempt, wake
from sleepwatch.wake.place import Place, find_target
from sleepwatch.wake.policy import FAILURES, HOUR_US, Hang, Past, decide, timeout_seconds
from sleepwatch.wake.settings import Wake, WakeServer
from sleepwatch.witness.sockets import SocketsError, connections, pending, why_hidden

LOOK_US = 50_000
"""While a wake is under way, this is how often it is looked at."""
SETTLE_US = 10_000_000
"""A request that waited is launched before the one that woke the server, so its line is long there by then."""
STUCK_MS = 1_000
"""A hang is older than the grace of two seconds; a connection on which something came since is another client's."""
_KEEP_US = 24 * HOUR_US
_TOLD = 1_000

Say = Callable[[str], None]


class Watched(Protocol):
    """A source's watch, as far as this needs it."""

    def open_hangs(self) -> list[tuple[LifeState, Incident]]:
        """The requests that hang now in sleeping servers, each with its server's life."""

    def own_wake(self, life_key: str, type_: str, now: Now, *, words: str = "") -> None:
        """``wake.sent``: we are about to wake this life's server; ``wake.failed``: that freed nothing."""


class View(NamedTuple):
    """One watched source."""

    path: str
    watch: Watched
    caught_up: bool
    """It is read to its end, and all that was found in it is stored."""


class _Message(NamedTuple):
    number: int
    what: Attempt | Target | tuple[str, Now]
    """What came of it, or where it goes, or the kind of request that is about to be sent and when."""
    waiting: int | None = None


class _Run(msgspec.Struct):
    """One wake under way."""

    action: Action
    path: str
    life: str
    incidents: tuple[str, ...]
    """All that hang in this sleep; the first is the action's."""
    done: Attempt | None = None
    settle_until_us: int = 0


class Responder:
    """Wakes servers for the daemon."""

    def __init__(
        self,
        settings: Wake,
        clock: Clock,
        *,
        own: Own | None,
        say: Say,
        complain: Callable[[str, Now], None],
        nudge: Callable[[], None],
        proc: Path = PROC,
    ) -> None:
        """``own`` is told of our connections, so that nobody takes them for a client's.

        ``nudge`` ends the daemon's wait, from any thread.
        """
        self.settings = settings
        self._own = own
        self.outcomes: Counter[str] = Counter(dict.fromkeys((*FAILURES, RELEASED), 0))
        """Of the wakes since the start; those that matter begin at 0, so that their first is an increase."""
        self._clock = clock
        self._say = say
        self._complain = complain
        self._nudge = nudge
        self._open = threading.Lock()
        """Held while the daemon is told something; for good once it has ended."""
        self._closed = False
        self._proc = proc
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._runs: dict[int, _Run] = {}
        self._past: list[tuple[int, Past]] = []
        """Numbers and facts of all wakes that may still count, in order."""
        self._told: dict[tuple[str, str], None] = {}
        """Which incident was not woken for, and why, as far as that was said."""

    def resume(self, store: Store, now: Now) -> None:
        """Take over what earlier runs did. What was under way then is over, and unknown."""
        with store.transaction() as transaction:
            for one in actions_under_way(store):
                words = "sleepwatch ended before it was known what came of it"
                save_action(
                    transaction, msgspec.structs.replace(one, outcome=UNKNOWN, words=words, ended_us=now.wall_us)
                )
        self._past = [(one.id, _past(one, None)) for one in actions(store, since_us=now.wall_us - _KEEP_US)]

    def close(self) -> None:
        """The daemon ends. What is under way is left to itself, and unknown to the next run."""
        if not self._closed:
            self._closed = True
            self._open.acquire()

    # -- the loop's calls -----------------------------------------------------------------------------------------

    def hear(self, watches: Mapping[str, Watched], now: Now) -> None:
        """Take in what the threads tell. Called before what was read is judged: a wake comes before its line."""
        while True:
            try:
                number, what, waiting = self._messages.get_nowait()
            except Empty:
                return
            run = self._runs[number]
            if isinstance(what, Target):
                run.action = msgspec.structs.replace(run.action, url=what.url)
            elif isinstance(what, tuple):
                kind, sent = what
                run.action = msgspec.structs.replace(run.action, request=kind, sent_us=sent.wall_us, waiting=waiting)
                if run.path in watches:
                    watches[run.path].own_wake(run.life, "wake.sent", now)
            else:
                run.done = what
                settles = what.outcome in (outcomes.WOKE, outcomes.TIMEOUT, outcomes.CRASHED)
                run.settle_until_us = now.monotonic_us + (SETTLE_US if settles else 0)

    def step(self, store: Store, views: Iterable[View], now: Now) -> int | None:
        """See what came of wakes, and begin those that are due; how soon to be called again, None: on news."""
        views = list(views)
        self.hear({view.path: view.watch for view in views}, now)
        for number, run in list(self._runs.items()):
            self._settle(store, number, run, {view.path: view.watch for view in views}, now)
        again = []
        if self.settings.on:
            for view in views:
                again += [wants for wants in self._look(store, view, now) if wants is not None]
        return min([*again, *([LOOK_US] if self._runs else [])], default=None)

    # -- decide ---------------------------------------------------------------------------------------------------

    def _look(self, store: Store, view: View, now: Now) -> list[int | None]:
        again: list[int | None] = []
        hangs = view.watch.open_hangs()
        for life, incident in hangs:
            decision = decide(_hang(view, life, incident), self.settings, [past for _, past in self._past], now)
            if decision.act or decision.observe:
                others = [one.id for other, one in hangs if other is life and one.id != incident.id]
                together = others if decision.act else []
                self._begin(store, view, life, incident, tuple(together), now)
                continue
            again.append(decision.again_us)
            if decision.tell and (incident.id, decision.reason) not in self._told:
                self._tell_why_not(store, incident, decision.reason, now)
        return again

    def _tell_why_not(self, store: Store, incident: Incident, reason: str, now: Now) -> None:
        """Once for each incident and reason: a person has to do it now."""
        try:
            with store.transaction() as transaction:
                transaction.note(incident.id, f"no wake: {reason}", now.wall_us)
        except StoreError:
            return  # the next look tries again
        self._told[incident.id, reason] = None
        while len(self._told) > _TOLD:
            del self._told[next(iter(self._told))]
        self._complain(f"not waking {incident.server} for incident {incident.id}: {reason}", now)

    def _begin(
        self, store: Store, view: View, life: LifeState, incident: Incident, together: tuple[str, ...], now: Now
    ) -> None:
        server = self.settings.of(incident.server)
        action = Action(incident=incident.id, server=incident.server, mode=server.mode or "off", begun_us=now.wall_us)
        try:
            with store.transaction() as transaction:
                number = begin_action(transaction, action)
        except StoreError as error:
            self._complain(f"not waking {incident.server}: it cannot be noted down: {error}", now)
            return
        action = msgspec.structs.replace(action, id=number)
        self._runs[number] = _Run(action, view.path, life.key, (incident.id, *together))
        self._remember(number, _past(action, now.monotonic_us))
        work = _Work(
            number=number,
            place=Place(
                server=incident.server,
                here=not view.path.startswith(JOURNAL) or view.path == Which().name,
                url=life.ledger.url,
                port=life.ledger.port or life.origin.port,
                pid=life.origin.pid,
            ),
            settings=server,
            seconds=timeout_seconds(self.settings, life.ledger.reload_us),
            seen=life.ledger.sleep is not None and bool(cookies(life.ledger.sleep)),
        )
        threading.Thread(target=self._work, args=(work,), name=f"wake {number}", daemon=True).start()

    def _remember(self, number: int, past: Past) -> None:
        known = {one: at for at, (one, _) in enumerate(self._past)}
        if number in known:
            self._past[known[number]] = number, past
            return
        recent = [one for one in self._past if past.wall_us - one[1].wall_us < _KEEP_US]
        self._past = [*recent, (number, past)]

    # -- wake: in a thread of its own -----------------------------------------------------------------------------

    def _work(self, work: _Work) -> None:
        try:
            done = self._wake(work)
        except SleepwatchError as error:
            done = Attempt(outcome=outcomes.UNREACHABLE, words=str(error))
        except Exception as error:  # told, kept with the incident, and counted by the breaker
            done = Attempt(outcome=UNKNOWN, words=f"a fault in sleepwatch itself: {type(error).__name__}: {error}")
        self._messages.put(_Message(work.number, done))
        if self._open.acquire(blocking=False):
            self._nudge()
            self._open.release()

    def _wake(self, work: _Work) -> Attempt:
        target, process = find_target(work.place, work.settings, find_servers(self._proc).servers)
        self._messages.put(_Message(work.number, target))
        pid = process.pid if process is not None else None
        # Whoever saw the stuck connection sees also that it is gone.
        sees = work.seen or (process is not None and why_hidden(pid=pid, url=target.url, proc=self._proc) is None)
        waiting: list[int] = []

        def still_waits() -> bool | None:
            if target.port is None or not target.is_here:
                return None
            try:
                found = pending(connections(target.port), asleep_ms=STUCK_MS, ours=self._own or ())
            except SocketsError:
                return None
            waiting[:] = [len(found)]
            return True if found else False if sees else None

        def sending(kind: str, now: Now) -> None:
            self._messages.put(_Message(work.number, (kind, now), waiting[0] if waiting else None))

        return wake(
            target,
            self._clock,
            seconds=work.seconds,
            own=self._own,
            still_waits=still_waits,
            sending=sending,
            send=work.settings.mode == "act",
        )

    # -- what came of it ------------------------------------------------------------------------------------------

    def _settle(self, store: Store, number: int, run: _Run, watches: Mapping[str, Watched], now: Now) -> None:
        done = run.done
        if done is None:
            return
        states = {one: _stored(store, one) for one in run.incidents}
        own_state = states[run.action.incident]
        still_open = any(one is not None and one.state == "open" for one in states.values())
        if still_open and now.monotonic_us < run.settle_until_us:
            return
        outcome, words = outcome_of(done, own_state)
        action = msgspec.structs.replace(
            run.action,
            outcome=outcome,
            words=words,
            status=done.status,
            answered_us=_after(run.action.sent_us, done.took_us),
            ended_us=now.wall_us,
            waited_us=own_state.duration_us if outcome == RELEASED and own_state is not None else None,
        )
        try:
            with store.transaction() as transaction:
                save_action(transaction, action)
                for one in run.incidents:
                    transaction.note(one, _note(action), now.wall_us)
        except StoreError as error:
            self._complain(f"what came of a wake cannot be stored now, and is tried again: {error}", now)
            return
        del self._runs[number]
        self.outcomes[outcome] += 1
        known = dict(self._past)[number]
        self._remember(number, _past(action, known.monotonic_us))
        if outcome in FAILURES and run.path in watches:
            watches[run.path].own_wake(run.life, "wake.failed", now, words=words)
        self._say(f"wake: {outcome} {printable(action.server)}: {words} [{action.incident}]")


class _Work(msgspec.Struct, frozen=True, kw_only=True):
    """What the thread of one wake is given."""

    number: int
    place: Place
    settings: WakeServer
    seconds: float
    seen: bool
    """The kernel has shown the stuck connection."""


def _hang(view: View, life: LifeState, incident: Incident) -> Hang:
    return Hang(
        incident=incident.id,
        server=incident.server,
        confidence=incident.confidence,
        state=incident.state,
        caught_up=view.caught_up,
        asleep=life.ledger.phase is Phase.ASLEEP,
    )


def _past(action: Action, monotonic_us: int | None) -> Past:
    sent = action.sent_us is not None or action.outcome in (None, UNKNOWN)
    return Past(
        incident=action.incident,
        server=action.server,
        mode="act" if action.mode == "act" else "observe",
        wall_us=action.begun_us,
        monotonic_us=monotonic_us,
        outcome=action.outcome,
        sent=sent and action.mode == "act",
    )


def _stored(store: Store, incident: str) -> Incident | None:
    """The incident as it is stored; None where it was taken back."""
    return next(iter(store.incidents(ids=(incident,), possible=True)), None)


def outcome_of(done: Attempt, incident: Incident | None) -> tuple[str, str]:
    """What a wake came to, by what its request met and by what became of the one that hung."""
    state = incident.state if incident is not None else None
    if done.sent is None or done.outcome in (UNKNOWN, WOULD_WAKE):
        return done.outcome, done.words
    if state == "unstuck" and incident is not None:
        waited = f" after {duration_words(incident.duration_us)} in all" if incident.duration_us is not None else ""
        return RELEASED, f"the request was taken up{waited}"
    if done.outcome not in (outcomes.WOKE, outcomes.TIMEOUT):
        return done.outcome, done.words
    if state == "recovered":
        return outcomes.ALREADY_AWAKE, "another request had woken it"
    if incident is None:
        return (
            outcomes.ABANDONED,
            "what waited turned out to be no stuck request; an upload that paused looks like one",
        )
    if state == "abandoned":
        return outcomes.ABANDONED, "its client gave up before the server was awake"
    if state == "lost":
        return outcomes.CRASHED, "the process ended before the request was taken up"
    if done.outcome == outcomes.TIMEOUT:
        return outcomes.TIMEOUT, done.words
    return outcomes.NOT_RELEASED, "the server is awake, and its log shows no launch of the request"


def _note(action: Action) -> str:
    what = "a wake would be sent" if action.outcome == WOULD_WAKE else f"wake, {action.outcome}"
    return f"{what}: {action.words}"


def _after(sent_us: int | None, took_us: int | None) -> int | None:
    return None if sent_us is None or took_us is None else sent_us + took_us
