"""The verdicts: one pure function per kind of incident.

Each takes one life's ledger (and, for deaths, the exit and what is known of its server) and returns what it amounts to
now. They are called again whenever evidence arrives; late evidence may upgrade, downgrade or withdraw. The rules and
their sources are written out in docs/verdicts.md; the letters H1–H8 are its.
"""

from __future__ import annotations

import msgspec

from sleepwatch.engine.ledger import BEFORE_SLEEP_US, Ledger, Pending, Phase, Sleep, elapsed_us
from sleepwatch.model import Event

GRACE_US = 2_000_000
"""What is freed within this time of ``sleep.enter`` is no incident."""
TOKENIZING_US = 500_000
"""The longest a prompt is tokenizing by all measurements (18,000 tokens: 45 ms), several times over."""
STALLED_US = 1_800_000_000
"""Launched this long before the last line and never released: worth a look, never more than ``possible``."""
NEAR_SLEEP_US = 5_000_000
"""A death of unknown signal this soon after ``sleep.enter`` is the race's."""
OVERDUE_RELOADS = 5
OVERDUE_MIN_US = 10_000_000
"""A wake is overdue after five times the longest reload seen, and not before ten seconds."""
LOOP_DEATHS = 5
"""Deaths in a row without a served request that make a crash loop."""

SIGABRT, SIGSEGV = 6, 11

CONFIRMED, PROBABLE, POSSIBLE = "confirmed", "probable", "possible"


class Proof(msgspec.Struct, frozen=True):
    """One line and what it proves."""

    role: str
    event: Event


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a life's evidence amounts to; the engine gives it identity, words and state in time."""

    kind: str
    subject: str
    confidence: str
    state: str
    summary: str
    reason: str
    proofs: tuple[Proof, ...]
    task: int | None = None
    in_flight: int | None = None
    in_flight_reason: str | None = None
    signal: int | None = None
    opened: Event | None = None
    closed: Event | None = None
    count: int = 1


class Exit(msgspec.Struct, kw_only=True):
    """How a life ended, as far as any record tells."""

    event: Event | None
    """The record of the end; None where the next start is all that shows it."""
    by: str
    """Who says so: shell, systemd, kernel, coredump, container, supervisor, router, server, ``next start``."""
    signal: int | None = None
    status: int | None = None
    planned: bool = False
    at_us: int | None = None
    """When, on the dead process's own log clock, where a clock tells."""
    sure: bool = False
    """The record names this very process (pid or invocation), so later lines do not refute it."""
    tokenizer: bool = False
    """Its stack (coredump) shows the tokenizer."""
    oom: bool = False
    aborted: bool = False
    """The kernel's signal 11 is what abort() ends in as number 1 of a namespace: a trap inside the C library."""
    others: list[Event] = []
    """Further records of the same end: kernel line, coredump, the supervisor's own words."""

    @property
    def recorded(self) -> bool:
        """Something recorded the end itself."""
        return self.event is not None and self.by != "next start"


# -- hung-request ---------------------------------------------------------------------------------------------------


def hung_requests(ledger: Ledger, *, waited_us: int | None, ended: str | None) -> list[Verdict]:
    """The hangs of the ledger's current sleep.

    ``waited_us``: how long it has slept so far by the clocks that count for absence (live only, else None).
    ``ended``: ``crashed`` (on signal 11), ``died``, ``stopped``, ``log ends`` or None while the life goes on.
    """
    sleep = ledger.sleep
    if sleep is None:
        return []
    verdicts = []
    freed = 0
    # What a line proves is numbered before what only time tells: the log alone has no more.
    for pending in sorted(sleep.pendings, key=lambda one: not one.proven):
        graded = grade(ledger, sleep, pending, waited_us=waited_us, ended=ended)
        if isinstance(graded, Grade):
            verdicts.append(_hang(sleep, pending, graded, ended))
        else:
            freed += graded.freed
    sleep.freed = freed
    twins = _twins(sleep, sleep.slept_us())
    if twins is not None and not verdicts:
        verdicts.append(twins)
    return verdicts


class Grade(msgspec.Struct, frozen=True):
    """How sure it is that a request hung, and by which proofs."""

    confidence: str
    reasons: list[str]


class NoIncident(msgspec.Struct, frozen=True):
    """Why a request that met a sleep is no incident."""

    reason: str
    freed: bool = False
    """It lay in the queue, and was freed within the grace."""


def _hang(sleep: Sleep, pending: Pending, graded: Grade, ended: str | None) -> Verdict:
    state, closed = _hang_state(sleep, pending, ended)
    proofs = [Proof("sleep", sleep.enter)] if sleep.enter else []
    for role, event in (
        ("arrival", pending.arrival),
        ("format", pending.formatted),
        ("post", pending.posted),
        ("wake", sleep.exit),
        ("cancel", pending.cancelled),
        ("launch", pending.launched),
        ("connection", pending.connection),
        ("connection", pending.held if pending.held is not pending.connection else None),
        ("connection", pending.answered or pending.gone),
        ("props", sleep.props if pending.held and sleep.props and sleep.props.fields["sleeping"] else None),
    ):
        if event is not None:
            proofs.append(Proof(role, event))
    proofs.sort(key=lambda p: p.event.seq)
    task = "" if pending.task is None else f" (task {pending.task})"
    client = "" if pending.connection is None else f" of client {pending.connection.fields['peer']}"
    was = "seems to have been queued" if graded.confidence != CONFIRMED else "was queued"
    return Verdict(
        kind="hung-request",
        subject=_sleep_subject(sleep, pending),
        confidence=graded.confidence,
        state=state,
        summary=f"A request{client}{task} {was} while the server slept; {_how_it_goes(sleep, state, closed)}.",
        reason="; ".join([*graded.reasons, *_our_part(sleep)]),
        proofs=tuple(proofs),
        task=pending.task,
        opened=sleep.enter or pending.posted or pending.cancelled,
        closed=closed,
    )


_HANG_ENDS = {
    "open": "it is still waiting",
    "unstuck": "a wake completion freed it",
    "recovered": "another request woke the server and freed it",
    "abandoned": "its client gave up unanswered",
    "lost": "the process ended before it was answered",
    "unresolved": "the log ends before its fate",
}


NOT_FREED = "waking the server did not free it"
"""What the summary of an open hang says after a wake of ours without effect."""


def _how_it_goes(sleep: Sleep, state: str, closed: Event | None) -> str:
    words = _HANG_ENDS[state]
    waited = elapsed_us(sleep.enter, closed) if state == "unstuck" else None
    if waited is not None:
        words += f" after {waited / 1e6:.1f} s in all"
    if state == "open" and sleep.wake_failed is not None:
        words += f", and {NOT_FREED} ({sleep.wake_failed})"
    return words


def _our_part(sleep: Sleep) -> list[str]:
    if sleep.waked is None:
        return []
    after = elapsed_us(sleep.enter, sleep.waked)
    return ["our wake was sent while it slept" + (f", {after / 1e6:.1f} s after it fell asleep" if after else "")]


def grade(
    ledger: Ledger, sleep: Sleep, pending: Pending, *, waited_us: int | None, ended: str | None
) -> Grade | NoIncident:
    """What one request that met the sleep amounts to; ``waited_us`` and ``ended`` as in :func:`hung_requests`."""
    slept = sleep.slept_us()
    if slept is not None and slept < GRACE_US and not _given_up_asleep(sleep, pending):
        freed = pending.launched is not None or pending.proven
        return NoIncident("the server slept less than two seconds, the grace, before it woke", freed)
    graded = _grade(ledger, sleep, pending, waited_us=waited_us, ended=ended)
    if isinstance(graded, NoIncident):
        return graded
    if ended in ("crashed", "died") and not _known_before_death(ledger, sleep, pending, ended):
        return NoIncident("the process died before it had waited longer than the grace: it belongs to the death")
    if _doubtful(sleep, pending):
        return Grade(POSSIBLE, [*graded.reasons, "the lines could be a copy inside printed text"])
    return graded


def _grade(
    ledger: Ledger, sleep: Sleep, pending: Pending, *, waited_us: int | None, ended: str | None
) -> Grade | NoIncident:
    waiting = ended is None and sleep.exit is None and pending.cancelled is None
    if waiting and waited_us is not None and waited_us < GRACE_US:
        return NoIncident("it may still be freed within the grace time")
    just_before = pending.before and _just_before(sleep, pending)
    reasons = []
    if pending.posted is not None:
        reasons.append("H1: it was posted between the server's falling asleep and its waking")
    if pending.cancelled is not None:
        reasons.append(
            "H2: its client gave up while the loop still held the queue, and its id is above all seen before"
        )
    if pending.formatted is not None and not pending.before:
        reasons.append("H3: its chat format was printed during the sleep, which happens right before the post")
    if reasons:
        return Grade(CONFIRMED, reasons if pending.held is None else [*reasons, _H8])
    if pending.held is not None:
        return _held(sleep, pending, just_before=just_before)
    if pending.extra is not None:
        if pending.arrival is None and pending.formatted is None:
            return Grade(
                POSSIBLE, ["H4: one launch more than requests came after the wake, but none was seen waiting before"]
            )
        if sleep.miscounted:
            return Grade(
                POSSIBLE, ["H4: more launches than requests came or waited: some requests launch several tasks"]
            )
        if ledger.origin.port is not None and not ledger.saw_arrival and not ledger.saw_format:
            return Grade(PROBABLE, ["H4: one launch more than the router passed on since the sleep"])
        if not ledger.counts_arrivals:
            return Grade(
                POSSIBLE,
                ["H4: one launch more than requests came after the wake, in a log where that also happens awake"],
            )
        if not _while_tokenizing(sleep, pending):
            return Grade(
                POSSIBLE,
                ["H4: one launch more than requests came after the wake; what had arrived may have been refused"],
            )
        return Grade(CONFIRMED, ["H4: one launch more than requests came after the wake", "H5: it arrived just before"])
    if sleep.stopping is not None or ended == "stopped":
        waited = elapsed_us(sleep.enter, sleep.stopping)
        if _while_tokenizing(sleep, pending) and waited is not None and waited >= GRACE_US:
            return Grade(POSSIBLE, ["H5: it arrived just before the sleep, and a stop ended it unanswered or refused"])
        return NoIncident("a client that waits in the queue mostly leaves at a stop, and that would have been printed")
    if sleep.exit is not None:
        return NoIncident("after the wake a request that had waited would have been launched; no launch is left for it")
    if not pending.before:
        return Grade(CONFIRMED, ["H3b: it arrived between the server's falling asleep and its waking"])
    if not just_before and ended is None:
        return NoIncident("it arrived long before the sleep and was not launched; refused requests look the same")
    if not just_before:
        return Grade(POSSIBLE, ["it arrived before the sleep and was not launched; refused requests look the same"])
    if ended is None and waited_us is not None and waited_us >= GRACE_US:
        return Grade(
            PROBABLE, ["H5: it arrived just before the sleep, was not launched or refused, and the sleep goes on"]
        )
    if ended is not None:
        return Grade(
            POSSIBLE, ["H5: it arrived just before the sleep, and the log ends before it could be seen to wait"]
        )
    return NoIncident("it arrived just before the sleep; nothing shows yet that it waits, and the log goes on")


_H8 = (
    "H8: the kernel shows its connection: all that came on it came before the sleep, and nothing was sent on it for "
    "longer than the grace"
)


def _held(sleep: Sleep, pending: Pending, *, just_before: bool) -> Grade | NoIncident:
    """H8: a connection that the kernel showed to wait for longer than the grace, and what else is known of it."""
    if pending.resumed is not None:
        return NoIncident("more came on its connection later: an upload that had paused")
    if pending.idle is not None:
        return NoIncident("its connection still waits although the server is awake and idle: an upload that stalled")
    if sleep.exit is None and sleep.props is not None and not sleep.props.fields["sleeping"]:
        return NoIncident("the server itself says that it is awake")
    second = []
    if pending.answered is not None:
        second.append("it was answered after the wake, on that connection")
    if pending.extra is not None:
        second.append("H4: one launch more than requests came after the wake")
    if pending.launched is not None and sleep.twins is not None and pending.launched is sleep.twins[0]:
        second.append("H7: two requests were launched behind one wake")
    if just_before:
        second.append("H5: it arrived just before the sleep")
    elif sleep.passed_before:
        second.append("H6: the router had just passed a request on")
    if second:
        return Grade(CONFIRMED, [_H8, *second])
    if pending.gone is not None and (sleep.exit is None or pending.gone.seq < sleep.exit.seq):
        return Grade(
            POSSIBLE, [_H8, "but its connection ended and no cancel was printed; an upload that stalled ends so"]
        )
    return Grade(PROBABLE, [_H8, "an upload that stalled half-way looks the same"])


def _given_up_asleep(sleep: Sleep, pending: Pending) -> bool:
    """Did its client give up before anything woke the server? Then nothing freed it, however short the sleep."""
    return pending.cancelled is not None and sleep.exit is not None and pending.cancelled.seq < sleep.exit.seq


def _while_tokenizing(sleep: Sleep, pending: Pending) -> bool:
    """Did it arrive so shortly before the sleep that it can have been tokenizing still?"""
    age = elapsed_us(pending.arrival or pending.formatted, sleep.enter)
    return age is not None and age <= TOKENIZING_US


def _just_before(sleep: Sleep, pending: Pending) -> bool:
    age = elapsed_us(pending.arrival or pending.formatted, sleep.enter)
    return age is not None and age <= BEFORE_SLEEP_US


def _doubtful(sleep: Sleep, pending: Pending) -> bool:
    if sleep.doubtful or (sleep.exit is not None and sleep.exit.doubtful):
        return True
    proofs = [e for e in (pending.posted, pending.cancelled, pending.formatted, pending.arrival) if e is not None]
    return bool(proofs) and all(e.doubtful for e in proofs)


def _hang_state(sleep: Sleep, pending: Pending, ended: str | None) -> tuple[str, Event | None]:
    if pending.cancelled is not None:
        by_stop = sleep.stopping is not None and pending.cancelled.seq > sleep.stopping.seq
        return "lost" if by_stop else "abandoned", pending.cancelled
    freed = pending.launched or pending.answered
    if freed is None and pending.gone and sleep.exit and sleep.summed and pending.gone.seq > sleep.exit.seq:
        freed = pending.gone  # no cancel was printed, so it left because it was answered
    if freed is not None:
        return "unstuck" if sleep.waked is not None else "recovered", freed
    if pending.gone is not None:
        return "abandoned", pending.gone
    if sleep.over is not None:  # its launch was lost, or it was refused before one
        return "unstuck" if sleep.waked is not None else "recovered", sleep.over
    if ended in ("crashed", "died", "stopped"):
        return "lost", None
    return ("unresolved" if ended else "open"), None


def _known_before_death(ledger: Ledger, sleep: Sleep, pending: Pending, ended: str) -> bool:
    """Had it been a hang for longer than the grace when the process died (or was it over by then)?"""
    if pending.cancelled or pending.launched or pending.held or pending.answered:
        return True
    waited = elapsed_us(sleep.enter, ledger.last)
    if waited is None:  # no clock tells: what a crash took with it belongs to the crash
        return pending.proven and ended != "crashed"
    return waited >= GRACE_US


def _twins(sleep: Sleep, slept: int | None) -> Verdict | None:
    """H7: two launches right behind one wake, where arrivals are not printed."""
    if sleep.twins is None or sleep.enter is None or sleep.exit is None or slept is None or slept < GRACE_US:
        return None
    first, second = sleep.twins
    return Verdict(
        kind="hung-request",
        subject=_sleep_subject(sleep, None),
        confidence=POSSIBLE,
        state="recovered",
        summary=f"Two requests were launched behind one wake; the first (task {first.fields['id']}) may have waited.",
        reason="H7: at this verbosity arrivals are not printed; two clients can also wake a server together",
        proofs=(
            Proof("sleep", sleep.enter),
            Proof("wake", sleep.exit),
            Proof("launch", first),
            Proof("launch", second),
        ),
        task=first.fields["id"],
        opened=sleep.enter,
        closed=first,
    )


def _sleep_subject(sleep: Sleep, pending: Pending | None) -> str:
    """``sleep:<log clock of sleep.enter>:<n-th hang in it>``; the number is given once and kept."""
    if pending is None:
        number = 1
    else:
        if pending.number is None:
            sleep.numbered += 1
            pending.number = sleep.numbered
        number = pending.number
    return f"sleep:{sleep.key}:{number}"


# -- deaths ---------------------------------------------------------------------------------------------------------


def death(
    ledger: Ledger, exit_: Exit, *, sleep_mode: bool, idle_us: int | None, restarted: bool, over: bool
) -> Verdict | None:
    """What the end of a life amounts to, by the order of precedence in docs/verdicts.md; None where it was planned.

    ``sleep_mode`` and ``idle_us`` are what is known of the server from all its lives and its command line.
    ``restarted``: a new life of the same server has begun. ``over``: the source has ended,
    or nobody will start it again.
    """
    if is_planned(ledger, exit_):
        overdue = wake_overdue(ledger, exit_.event, ended=True, at_us=exit_.at_us)
        return msgspec.structs.replace(overdue, state="restarted") if overdue and restarted else overdue
    state = "restarted" if restarted else "down" if over else "open"
    for judge in (_sleep_crash, _wake_failure, _crash_in_flight, _crash):
        verdict = judge(ledger, exit_, state, sleep_mode, idle_us)
        if verdict is not None:
            return verdict
    return None


def is_planned(ledger: Ledger, exit_: Exit) -> bool:
    """Somebody wanted it: a clean shutdown was begun, or the record says so."""
    return why_planned(ledger, exit_) is not None


def why_planned(ledger: Ledger, exit_: Exit) -> str | None:
    """What says that somebody wanted this end; None where nothing does."""
    if exit_.status == 0:
        return "it ended with status 0"
    if exit_.planned:
        return "it was stopped on purpose"
    if ledger.stopping is not None:
        return "a stop had been asked for"
    if exit_.signal in (2, 15) or exit_.status in (130, 143):
        return "it ended by the signal that asks a process to end"
    return None


def signal_of(ledger: Ledger, exit_: Exit) -> int | None:
    """The signal that ended it; 139 behind a printed abort is an abort.

    A process that is PID 1 of its namespace ignores SIGABRT, so glibc's abort() ends in a trap instruction that the
    kernel reports as SIGSEGV (pid_namespaces(7); glibc ``stdlib/abort.c``).
    """
    printed = ledger.abort is not None and exit_.by in ("container", "kernel")
    if exit_.signal == SIGSEGV and not exit_.tokenizer and (exit_.aborted or printed):
        return SIGABRT
    return exit_.signal


def _sleep_crash(ledger: Ledger, exit_: Exit, state: str, sleep_mode: bool, idle_us: int | None) -> Verdict | None:
    signal = signal_of(ledger, exit_)
    sleep = ledger.sleep
    if ledger.phase is Phase.ASLEEP and sleep is not None and sleep.enter is not None:
        if sleep.enter.doubtful:
            return None  # that it died is sure, that it slept is not
        flight = ledger.in_flight()
        proofs = [Proof("sleep", sleep.enter), *(Proof(_flight_role(e), e) for e in flight)]
        if signal == SIGSEGV:
            known = bool(flight) or exit_.tokenizer
            return _death_verdict(
                "sleep-crash", CONFIRMED if known else PROBABLE, state, ledger, exit_, proofs,
                summary="The server crashed (signal 11) as it fell asleep or slept.",
                reason="it died on signal 11 after falling asleep and before any wake"
                + ("; a request was in flight" if flight else "")
                + _by_connections(sleep)
                + ("; the stack shows the tokenizer" if exit_.tokenizer else ""),
                opened=sleep.enter, flight=flight, sure_flight=bool(flight) or sleep.snapshot is not None,
            )  # fmt: skip
        soon = exit_.at_us is not None and sleep.enter.clock_us is not None
        if signal is None and soon and 0 <= exit_.at_us - sleep.enter.clock_us <= NEAR_SLEEP_US:  # type: ignore[operator]
            return _death_verdict(
                "sleep-crash", PROBABLE, state, ledger, exit_, proofs,
                summary="The server died right after it fell asleep; the signal is not known.",
                reason="the clocks put its death within five seconds of its falling asleep, and nobody stopped it"
                + _by_connections(sleep),
                opened=sleep.enter, flight=flight, sure_flight=bool(flight) or sleep.snapshot is not None,
            )  # fmt: skip
        return None
    if signal != SIGSEGV or not sleep_mode or ledger.phase is not Phase.AWAKE or ledger.busy or ledger.queued:
        return None
    if not (ledger.served or ledger.listening or ledger.sleeps):
        return None
    if not _at_idle_boundary(ledger, exit_, idle_us):
        return None
    flight = ledger.in_flight()
    return _death_verdict(
        "sleep-crash", PROBABLE, state, ledger, exit_, [Proof(_flight_role(e), e) for e in flight],
        summary="The server crashed (signal 11) while idle, most likely as it fell asleep.",
        reason="last lines lost: signal 11 with sleep mode on"
        + ("" if ledger.sleep_mode else " (as a later life shows)")
        + " and no slot busy; the logger is asynchronous, and a crash can take the sleep lines with it",
        opened=ledger.last, flight=flight, sure_flight=bool(flight),
    )  # fmt: skip


def _by_connections(sleep: Sleep) -> str:
    """What the look at the connections says of how many requests were in flight."""
    if sleep.snapshot is None:
        return ""
    shown = sleep.snapshot.fields["connections"]
    pending = sum(one["pending"] and sleep.uploads.get(one["cookie"]) != one["received"] for one in shown)
    return f"; as it fell asleep the kernel showed {_requests(pending)} on its connections without an answer"


def _at_idle_boundary(ledger: Ledger, exit_: Exit, idle_us: int | None) -> bool:
    """Could the idle timer have fired when it died? Yes, too, where no clock tells."""
    moment = exit_.at_us
    if moment is None and ledger.arrivals:
        moment = ledger.arrivals[-1].clock_us
    idle = ledger.idle_us if ledger.idle_us is not None else idle_us
    if moment is None or idle is None or ledger.last_active_us is None:
        return True
    since = moment - ledger.last_active_us
    return idle - BEFORE_SLEEP_US <= since <= idle + NEAR_SLEEP_US


def _wake_failure(ledger: Ledger, exit_: Exit, state: str, sleep_mode: bool, idle_us: int | None) -> Verdict | None:
    sleep = ledger.sleep
    if ledger.phase is not Phase.RELOADING or sleep is None or sleep.exit is None:
        return None
    if not exit_.recorded and ledger.failed_reload is None:
        return None
    signal = signal_of(ledger, exit_)
    proofs = [Proof("wake", sleep.exit)]
    if sleep.enter is not None:
        proofs.insert(0, Proof("sleep", sleep.enter))
    if sleep.ready is not None:
        proofs.append(Proof("reload", sleep.ready))
    proofs.extend(Proof("abort", e) for e in (ledger.failed_reload, ledger.abort) if e is not None)
    sure = signal is not None or ledger.failed_reload is not None
    how = f"signal {signal}" if signal else "the reload failed" if ledger.failed_reload else f"status {exit_.status}"
    return _death_verdict(
        "wake-failure", CONFIRMED if sure else PROBABLE, state, ledger, exit_, proofs,
        summary=f"The server was asked to wake and died before it was awake ({how}).",
        reason=f"it died ({how}) between its waking and the first line only an awake server prints",
        opened=sleep.exit, flight=[], sure_flight=False,
        no_flight="the request that woke it is not in the log",
    )  # fmt: skip


def overdue_after_us(ledger: Ledger) -> int | None:
    """For how long a server that is waking may take; None where it is not waking, or nothing tells."""
    sleep = ledger.sleep
    if ledger.phase is not Phase.RELOADING or sleep is None or sleep.exit is None or not ledger.reload_us:
        return None
    return max(OVERDUE_RELOADS * ledger.reload_us, OVERDUE_MIN_US) if ledger.stopping is None else None


def wake_overdue(
    ledger: Ledger, now: Event | None, *, ended: bool, waited_us: int | None = None, at_us: int | None = None
) -> Verdict | None:
    """A wake that takes several times the longest reload seen; also when a planned stop ended it.

    ``now`` (or ``at_us``, on the process's own clock) is when it ended; ``waited_us`` how long it has taken so far.
    """
    sleep = ledger.sleep
    if ledger.phase is not Phase.RELOADING or sleep is None or sleep.exit is None or not ledger.reload_us:
        return None
    waited = waited_us
    if at_us is not None and sleep.exit.clock_us is not None:
        waited = max(waited or 0, at_us - sleep.exit.clock_us)
    for line in (now, ledger.stopping, ledger.last):
        took = elapsed_us(sleep.exit, line)
        waited = max(waited or 0, took) if took is not None else waited
    if waited is None or waited < max(OVERDUE_RELOADS * ledger.reload_us, OVERDUE_MIN_US):
        return None
    proofs = [Proof("wake", sleep.exit)] + ([Proof("stop", ledger.stopping)] if ledger.stopping else [])
    return Verdict(
        kind="wake-failure",
        subject="death",  # if it dies of it after all, that is the same incident
        confidence=PROBABLE,
        state="down" if ended else "open",
        summary=f"The server was asked to wake and is not awake after {waited / 1e6:.0f} s.",
        reason=f"no line of an awake server within {waited / 1e6:.0f} s; the longest reload before took "
        f"{ledger.reload_us / 1e6:.1f} s",
        proofs=tuple(proofs),
        opened=sleep.exit,
        in_flight_reason="the request that woke it is not in the log",
    )


def _crash_in_flight(ledger: Ledger, exit_: Exit, state: str, sleep_mode: bool, idle_us: int | None) -> Verdict | None:
    if signal_of(ledger, exit_) != SIGSEGV or ledger.phase is not Phase.AWAKE:
        return None
    flight = ledger.in_flight()
    if not flight:
        return None
    return _death_verdict(
        "crash-in-flight", CONFIRMED, state, ledger, exit_, [Proof(_flight_role(e), e) for e in flight],
        summary=f"The server crashed (signal 11) with {_requests(len(flight))} in flight.",
        reason="signal 11 while awake, with requests launched (or queued, or arrived) and not answered",
        opened=flight[0], flight=flight, sure_flight=True,
    )  # fmt: skip


def _crash(ledger: Ledger, exit_: Exit, state: str, sleep_mode: bool, idle_us: int | None) -> Verdict:
    signal = signal_of(ledger, exit_)
    flight = ledger.in_flight() if ledger.phase is not Phase.STARTING else []
    if signal is not None:
        confidence, how = CONFIRMED, f"signal {signal}" + (" (out of memory)" if exit_.oom else "")
    elif exit_.recorded:
        confidence = PROBABLE
        how = "signal and status unknown" if exit_.status is None else f"status {exit_.status}, signal unknown"
    else:
        confidence, how = POSSIBLE, "no record of the end"
    where = "" if ledger.phase is not Phase.STARTING else " before it was ready"
    proofs = [Proof("abort", ledger.abort)] if ledger.abort is not None else []
    proofs += [Proof(_flight_role(e), e) for e in flight]
    if not exit_.recorded:
        summary, reason = "The server's log stops without an end, and a new start follows.", "no record of the end"
    else:
        summary = f"The server died{where} ({how})."
        reason = f"an unplanned end ({how})"
    if signal == SIGABRT and exit_.signal == SIGSEGV:
        reason += "; exit 139 behind a printed abort is an abort as PID 1, not signal 11"
    if not exit_.recorded and ledger.phase is Phase.ASLEEP:
        reason += "; an idle server's last words are always the sleep lines, so they prove nothing"
    return _death_verdict(
        "crash", confidence, state, ledger, exit_, proofs,
        summary=summary, reason=reason, opened=ledger.last, flight=flight,
        sure_flight=bool(flight) or (ledger.saw_launch and ledger.phase is Phase.AWAKE),
    )  # fmt: skip


def _death_verdict(
    kind: str, confidence: str, state: str, ledger: Ledger, exit_: Exit, proofs: list[Proof], *,
    summary: str, reason: str, opened: Event | None, flight: list[Event], sure_flight: bool,
    no_flight: str | None = None,
) -> Verdict:  # fmt: skip
    if opened is not None and opened.doubtful and not exit_.recorded:
        confidence, reason = POSSIBLE, reason + "; the lines could be a copy inside printed text"
    if not proofs:
        proofs = [Proof("last", ledger.last)]
    if exit_.event is not None:
        proofs = [*proofs, Proof("exit" if exit_.recorded else "next start", exit_.event)]
    proofs.extend(Proof("exit", event) for event in exit_.others)
    seen: set[int] = set()
    unique = [p for p in proofs if not (id(p.event) in seen or seen.add(id(p.event)))]  # type: ignore[func-returns-value]
    why_unknown = None if sure_flight else no_flight or _no_flight(ledger, kind)
    return Verdict(
        kind=kind,
        subject="death",
        confidence=confidence,
        state=state,
        summary=summary,
        reason=reason,
        proofs=tuple(unique),
        in_flight=len(flight) if sure_flight else None,
        in_flight_reason=why_unknown,
        signal=signal_of(ledger, exit_),
        opened=opened,
        closed=exit_.event if exit_.recorded else None,
    )


def _no_flight(ledger: Ledger, kind: str) -> str:
    if kind == "sleep-crash" and ledger.phase is not Phase.ASLEEP:
        return "the last lines never left the process"
    if ledger.phase is Phase.ASLEEP and ledger.sleep is not None and ledger.sleep.unseen is not None:
        return ledger.sleep.unseen
    if ledger.saw_arrival or ledger.saw_posted:
        return "no line of a request precedes the death; the last lines can be lost"
    return "this log prints no arrivals, and the last lines can be lost"


def _flight_role(event: Event) -> str:
    return {
        "request.launched": "launch",
        "request.posted": "post",
        "request.formatted": "format",
        "request.arrived": "arrival",
        "witness.connection": "connection",
    }.get(event.type, "proxied")


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


# -- crash-loop and stalled-request ---------------------------------------------------------------------------------


def crash_loop(first: Verdict, deaths: int, *, signals_known: bool, state: str) -> Verdict:
    """The deaths of a server that never came to serve, as one: the first one's incident becomes the loop."""
    return msgspec.structs.replace(
        first,
        kind="crash-loop",
        confidence=CONFIRMED if signals_known else PROBABLE,
        state=state,
        summary=f"The server died {deaths} times in a row without serving a request.",
        reason=f"{deaths} deaths in a row, none of which came to listen or served a request"
        + ("" if signals_known else "; the signals are not known"),
        count=deaths,
        in_flight=0,
        in_flight_reason=None,
    )


def stalled_requests(ledger: Ledger) -> list[Verdict]:
    """Launched long before the last line and never released. Never more than ``possible``: prompts can take an hour."""
    verdicts = []
    for task, launch in ledger.busy.items():
        waited = elapsed_us(launch, ledger.last)
        if waited is None or waited < STALLED_US:
            continue
        verdicts.append(
            Verdict(
                kind="stalled-request",
                subject=f"task:{task}",
                confidence=POSSIBLE,
                state="unresolved",
                summary=f"Task {task} was launched and not released for {waited / 60e6:.0f} min.",
                reason="a long prompt looks the same",
                proofs=(Proof("launch", launch),),
                task=task,
                opened=launch,
            )
        )
    return verdicts
