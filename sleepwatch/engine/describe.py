"""What an event changed in a life, in words: the difference of two views of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sleepwatch.engine.ledger import Ledger, Pending, Phase, Sleep, elapsed_us
from sleepwatch.engine.lives import LifeState
from sleepwatch.engine.verdicts import GRACE_US, Exit, why_planned
from sleepwatch.model import Event

_NAMED = 6


class Change(NamedTuple):
    """One thing that changed."""

    what: str
    """``life``, ``phase``, ``pending``, ``end``; ``fact``, which only helps; ``traffic``, which comes with requests."""
    words: str

    @property
    def decides(self) -> bool:
        """Can a verdict turn on it?"""
        return self.what not in ("fact", "traffic")


class View(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What the verdicts look at in one life, as it stands at one moment."""

    server: str
    phase: Phase
    mark: int
    busy: tuple[int, ...]
    queued: tuple[int, ...]
    arrivals: int
    arrivals_late: bool
    sleeps: int
    sleep: Sleep | None
    sleep_mark: int
    ready: bool
    """The reload of this sleep has ended."""
    pendings: dict[Pending, tuple[object, ...]]
    """The requests that may lie in the sleeping queue, each with the lines that speak of it."""
    twins: bool
    unseen_exit: bool
    counts_arrivals: bool
    facts: tuple[str | None, ...]
    """Values in the order of the names of what can be known of a life."""
    exit: tuple[str, ...] | None


def view(life: LifeState) -> View:
    """The life as it stands now."""
    ledger = life.ledger
    sleep = ledger.sleep
    return View(
        server=life.server.name,
        phase=ledger.phase,
        mark=ledger.mark,
        busy=tuple(ledger.busy),
        queued=tuple(ledger.queued),
        arrivals=len(ledger.arrivals),
        arrivals_late=ledger.arrivals_late,
        sleeps=ledger.sleeps,
        sleep=sleep,
        sleep_mark=sleep.mark if sleep is not None else -1,
        ready=sleep is not None and sleep.ready is not None,
        pendings={p: _marks(p) for p in sleep.pendings} if sleep is not None else {},
        twins=sleep is not None and sleep.twins is not None,
        unseen_exit=sleep is not None and sleep.unseen_exit,
        counts_arrivals=ledger.counts_arrivals,
        facts=_facts(ledger),
        exit=_end(ledger, life.exit) if life.exit is not None else None,
    )


def changes(before: View | None, after: View) -> list[Change]:
    """What became different; ``before`` is None where the life has just begun."""
    found = []
    if before is None:
        found.append(Change("life", f"a new life of {after.server} begins"))
        before = _NEWBORN
    if after.phase is not before.phase or after.sleeps != before.sleeps:
        found.append(Change("phase", _phase(before, after)))
    found += [Change("pending", words) for words in _pending(before, after)]
    if after.unseen_exit and not before.unseen_exit:
        lost = "its end was not seen (lines are missing); nothing in it is certain any more"
        found.append(Change("pending", f"of this sleep {lost}"))
    if after.twins and not before.twins:
        slept = after.sleep.slept_us() if after.sleep is not None else None
        within = slept is not None and slept < GRACE_US
        words = f"two launches right behind one wake{', within the grace' if within else ': the first may have waited'}"
        found.append(Change("fact" if within else "pending", words))
    if before.counts_arrivals and not after.counts_arrivals:
        words = "a launch without an arrival of its own: launches are not counted against arrivals any more"
        found.append(Change("fact", words))
    for (name, what), was, now in zip(_FACTS, before.facts, after.facts, strict=True):
        if now is not None and now != was:
            found.append(Change(what, f"{name}: {now}" if now else name))
    if after.exit != before.exit:
        words = "; ".join(after.exit) if after.exit is not None else "it did not end: it writes on"
        found.append(Change("end", words))
    found += [Change("traffic", words) for words in _traffic(before, after)]
    return found


def remark(before: View | None, after: View, event: Event) -> str | None:
    """Why an event that could have meant something did not; None where there is nothing to say."""
    if event.type == "request.cancelled":
        return _cancel(before, after, event)
    if event.type in ("sleep.entered", "sleep.exited") and before is not None and before.phase is after.phase:
        return "the second line about the same event: nothing new"
    if event.type == "request.posted" and event.fields["front"] != 0:
        return "a post to the front of the queue is the server's own (a cancel), no request"
    if event.type == "request.internal":
        return "a post of the server to itself: it takes an id, and is no request"
    if event.type == "request.launched" and event.fields.get("child"):
        return "a further answer to a request that is counted already"
    if event.type == "request.arrived" and after.arrivals_late:
        return "in this build the line comes behind the first result: it says nothing of what waits"
    return None


def request_words(pending: Pending, sleep: Sleep) -> str:
    """A request that met a sleep, named by what is known of it."""
    if pending.task is not None:
        return f"task {pending.task}"
    line = pending.arrival or pending.formatted
    if line is None:
        return "a request"
    if not pending.before:
        return "a request that came during the sleep"
    age = elapsed_us(line, sleep.enter)
    return "a request that came before the sleep" + (f" ({_seconds(age)} before)" if age is not None else "")


SURER = {
    "hung-request": (
        "It is confirmed by a post during the sleep (H1), a cancel before the reload has ended (H2), a chat format or "
        "an arrival during the sleep (H3, H3b), or one launch more than requests came (H4) together with an arrival "
        "right before the sleep (H5)."
    ),
    "sleep-crash": (
        "It is confirmed by signal 11 after the sleep line together with a request in flight (an arrival, a chat "
        "format, a post), or with the tokenizer in the dump's stack."
    ),
    "wake-failure": 'It is confirmed by the signal of the death, or by a line that says "failed to reload".',
    "crash": "It is confirmed by the signal of the death; a record without a signal makes it probable.",
    "crash-in-flight": "It is confirmed by lines that are surely the server's own.",
    "crash-loop": "It is confirmed when the signals of all its deaths are known.",
    "stalled-request": "It is never more than possible: a long prompt looks the same.",
}
"""For each kind, what makes it ``confirmed``."""


_FACTS = (
    ("build", "fact"),
    ("era", "fact"),
    ("verbosity", "fact"),
    ("listens on", "fact"),
    ("falls asleep when idle for", "fact"),
    ("longest reload", "fact"),
    ("the server has sleep mode on", "fact"),
    ("asked to stop", "end"),
    ("says that it aborts", "end"),
    ("the reload failed", "end"),
    ("the load failed", "end"),
)
"""What can be known of a life, with what a change of it is."""
_NEWBORN = View(
    server="",
    phase=Phase.STARTING,
    mark=-1,
    busy=(),
    queued=(),
    arrivals=0,
    arrivals_late=False,
    sleeps=0,
    sleep=None,
    sleep_mark=-1,
    ready=False,
    pendings={},
    twins=False,
    unseen_exit=False,
    counts_arrivals=True,
    facts=(None,) * len(_FACTS),
    exit=None,
)


def _facts(ledger: Ledger) -> tuple[str | None, ...]:
    return (
        ledger.build,
        ledger.era,
        None if ledger.verbosity is None else str(ledger.verbosity),
        ledger.url,
        None if ledger.idle_us is None else f"about {ledger.idle_us / 1e6:.0f} s",
        _seconds(ledger.reload_us) if ledger.reload_us else None,
        "" if ledger.sleep_mode and not ledger.sleeps else None,
        "" if ledger.stopping is not None else None,
        str(ledger.abort.fields.get("what", "")) if ledger.abort is not None else None,
        "" if ledger.failed_reload is not None else None,
        "" if ledger.load_failed is not None else None,
    )


def _marks(pending: Pending) -> tuple[object, ...]:
    return (pending.arrival, pending.formatted, pending.posted, pending.cancelled, pending.extra, pending.launched)


def _end(ledger: Ledger, exit_: Exit) -> tuple[str, ...]:
    if exit_.by == "next start":
        words = ["a new start shows that it has ended; nothing tells how"]
    else:
        how = f"signal {exit_.signal}" if exit_.signal is not None else None
        if how is None and exit_.status is not None:
            how = f"status {exit_.status}"
        words = [f"it has ended ({how or 'signal and status unknown'}), said by: {exit_.by}"]
    if exit_.oom:
        words.append("killed for want of memory")
    if exit_.tokenizer:
        words.append("the dump's stack shows the tokenizer")
    if exit_.others:
        words.append(f"told {len(exit_.others) + 1} times")
    planned = why_planned(ledger, exit_)
    if planned is not None:
        words.append(f"planned: {planned}")
    return tuple(words)


def _phase(before: View, after: View) -> str:
    words = f"{before.phase.value} -> {after.phase.value}"
    sleep = after.sleep
    if sleep is None:
        return words
    if after.sleeps != before.sleeps:
        nothing = "" if after.pendings else ", nothing pending"
        return f"{words} (sleep {after.sleeps}, mark {after.sleep_mark}{nothing})"
    if after.phase is Phase.RELOADING:
        slept = sleep.slept_us()
        if slept is not None:
            return f"{words} after {_seconds(slept)} of sleep{' (within the grace)' if slept < GRACE_US else ''}"
    return words


def _pending(before: View, after: View) -> list[str]:
    words: list[str] = []
    sleep = after.sleep
    if sleep is None:
        return words
    old = before.pendings if before.sleep is sleep else {}
    for pending, marks in after.pendings.items():
        seen = old.get(pending)
        name = request_words(pending, sleep)
        if seen is None and pending.before and pending.extra is None:
            words.append(f"{name} may lie in the queue: it was not launched")
            continue
        gained = [label for label, was, now in zip(_LABELS, seen or _UNMARKED, marks, strict=True) if was is not now]
        if pending.extra is not None:
            gained = [label for label in gained if label not in _LABELS[:2]]  # it came before the sleep
        words += [label.format(name=name, mark=after.sleep_mark) for label in gained]
    gone = [pending for pending in old if pending not in after.pendings]
    return words + [f"{request_words(pending, sleep)} is not pending any more" for pending in gone]


_UNMARKED = (None,) * 6
_LABELS = (
    "{name} has passed the wake check: it will be queued into a sleeping server",
    "{name}: its chat format is printed, which happens right before it is queued",
    "{name} was posted into the queue of a sleeping server",
    "{name}: its client gave up while the loop holds the queue; its id is above the mark {mark}",
    "{name} is one launch more than requests have come since the sleep: it had waited",
    "{name} is launched now",
)


def _traffic(before: View, after: View) -> list[str]:
    words = []
    if after.mark != before.mark:
        words.append(f"mark {before.mark} -> {after.mark}")
    for name, was, now in (("busy", before.busy, after.busy), ("queued", before.queued, after.queued)):
        if was != now:
            words.append(f"{name}: {_tasks(now)}")
    if after.arrivals != before.arrivals:
        words.append(f"arrived and not launched: {after.arrivals}")
    return words


def _tasks(tasks: tuple[int, ...]) -> str:
    if not tasks:
        return "none"
    named = [str(task) if task >= 0 else "a child's" for task in tasks[-_NAMED:]]
    return ("… " if len(tasks) > _NAMED else "") + ", ".join(named)


def _cancel(before: View | None, after: View, event: Event) -> str | None:
    if before is None or before.sleep is None or before.phase in (Phase.STARTING, Phase.AWAKE):
        return "a cancel while the server is awake: its client gave up, and that is all"
    task = event.fields["id"]
    if any(now != before.pendings.get(pending) for pending, now in after.pendings.items()):
        return None
    if task <= before.sleep_mark:
        return f"task {task} is not above the mark {before.sleep_mark}: it was known before this sleep"
    if before.ready:
        return "a cancel after the reload has ended: the client woke the server itself, and did not wait for it"
    return "the same cancel again"


def _seconds(microseconds: int) -> str:
    return f"{microseconds / 1e6:.3f} s"
