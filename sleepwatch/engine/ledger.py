"""The ledger: what was asked of one life, and whether it was asleep.

Pure state, changed only by :meth:`Ledger.apply`; the verdicts read it. It stays small for lives of months: a server
sleeps only when nothing runs and nothing is queued, so at every ``sleep.enter`` the ledger forgets all requests but the
arrivals that were not launched yet, and the *mark*, the highest task id seen (ids only grow within a process, and are
shared by requests, cancels and internal posts: llama.cpp ``tools/server/server-queue.cpp``).
"""

from __future__ import annotations

import re
from collections import deque
from enum import Enum

from sleepwatch.model import Event, Origin

BEFORE_SLEEP_US = 2_000_000
"""An arrival at most this long before ``sleep.enter`` may still have been tokenizing when the server slept."""
TOGETHER_US = 20_000
"""Two launches this close were in the queue at the same time."""
STOP_US = 5_000_000
"""A server that was asked to stop launches nothing any more after this time."""
_MANY = 256
_IDLE_OPTION = re.compile(r"--sleep-idle-seconds[ =](-?\d+)")


class Phase(Enum):
    """Where a server process is in its sleep cycle."""

    STARTING = "starting"
    AWAKE = "awake"
    ASLEEP = "asleep"
    RELOADING = "reloading"


class Pending:
    """One request that may lie in a sleeping queue, with each line that speaks of it."""

    __slots__ = (
        "answered", "arrival", "before", "cancelled", "connection", "extra", "formatted", "gone", "held", "idle",
        "launched", "left", "more_tasks", "number", "posted", "resumed", "still", "stood_us", "task",
    )  # fmt: skip

    def __init__(self, *, before: bool) -> None:
        self.before = before
        """It arrived before the sleep began."""
        self.arrival: Event | None = None
        self.formatted: Event | None = None
        self.posted: Event | None = None
        self.cancelled: Event | None = None
        self.extra: Event | None = None
        """The launch after the wake that no arrival since the sleep accounts for."""
        self.launched: Event | None = None
        self.task: int | None = None
        self.more_tasks: list[int] = []
        """A request with several prompts is several tasks, posted together."""
        self.number: int | None = None
        """Its place among the hangs of this sleep, given once when it is first reported."""
        # What the kernel showed of its connection (sleepwatch.engine.witnesses), each as the look that showed it:
        self.connection: Event | None = None
        """Read by the server before it fell asleep, and nothing sent since."""
        self.held: Event | None = None
        """So it was still when the grace was over."""
        self.answered: Event | None = None
        """After the wake the server sent something on it."""
        self.resumed: Event | None = None
        """More came in on it: what had come was no whole request."""
        self.idle: Event | None = None
        """It waits although the server is awake and has nothing to do."""
        self.still: Event | None = None
        """The first look after the wake that showed it waiting beside a server with nothing to do."""
        self.stood_us = 0
        """For so long it was seen so."""
        self.left: Event | None = None
        """It was not there any more."""
        self.gone: Event | None = None
        """It was still not there at the next look."""

    @property
    def proven(self) -> bool:
        """Something shows that it lay in the queue, beyond having arrived."""
        return bool(self.posted or self.cancelled or self.extra or (self.formatted and not self.before))

    @property
    def followed(self) -> bool:
        """Is there more to learn of its connection?"""
        settled = self.cancelled or self.answered or self.resumed or self.idle or self.gone
        return self.connection is not None and settled is None

    @property
    def in_no_line(self) -> bool:
        """Only its connection was seen."""
        return not (self.arrival or self.formatted or self.posted or self.cancelled or self.extra or self.launched)

    def is_of(self, task: int) -> bool:
        return task == self.task or task in self.more_tasks

    def swap_connections(self, other: Pending) -> None:
        """Which lines and which connection are of one request was a guess, and the other way round is right."""
        for name in _OF_THE_CONNECTION:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, theirs)
            setattr(other, name, mine)

    @property
    def all_posted(self) -> bool:
        """As many tasks as its first ``new task, id = 12/3`` said."""
        return self.posted is None or len(self.more_tasks) + 1 >= self.posted.fields.get("count", 1)


_OF_THE_CONNECTION = ("connection", "held", "answered", "resumed", "idle", "still", "stood_us", "left", "gone")


class Sleep:
    """One sleep of a life, from ``sleep.enter`` until the next one, and what met it."""

    __slots__ = (
        "arrivals", "cancelled", "closed", "enter", "events", "exit", "freed", "launches", "mark", "miscounted",
        "numbered", "ordinal", "over", "passed_before", "pendings", "props", "props_asked", "proxied", "ready",
        "snapshot", "stopping", "summed", "twins", "unseen", "unseen_exit", "uploads", "wake_failed", "waked",
    )  # fmt: skip

    def __init__(self, enter: Event | None, ordinal: int, mark: int) -> None:
        self.enter = enter
        self.ordinal = ordinal
        self.mark = mark
        self.exit: Event | None = None
        self.ready: Event | None = None
        """End of the reload (``load_model: initializing…``)."""
        self.stopping: Event | None = None
        self.pendings: list[Pending] = []
        self.cancelled: set[int] = set()
        self.arrivals = 0
        """Arrival lines since ``exit``."""
        self.passed_before: list[Event] = []
        """What a router had passed on right before ``enter`` and no launch followed (polls are among them)."""
        self.proxied = 0
        """Requests a router passed on since ``enter`` (polls are among them)."""
        self.launches: list[Event] = []
        self.summed = 0
        """Launches behind those, of which only the number is known: what came with the wake was the many that hung."""
        self.closed = False
        """What lay in the queue has been launched by now: later launches are not counted any more."""
        self.twins: tuple[Event, Event] | None = None
        """Two launches right behind the wake, where the log shows no arrivals to count against."""
        self.freed = 0
        self.numbered = 0
        self.miscounted = False
        """More launches than requests that came or waited: one launched several tasks, or printed no arrival."""
        self.unseen_exit = False
        """A line of an awake server came although no wake was printed: nothing in this sleep is certain."""
        self.waked: Event | None = None
        """Our own wake, sent while it slept."""
        self.over: Event | None = None
        """The next sleep: it begins only with an empty queue, so by then nothing of this one waited any more."""
        self.wake_failed: str | None = None
        """Why our last wake freed nothing."""
        self.events = 0
        """Lines of this life since it fell asleep: what was seen between two of them has its place by their number."""
        self.snapshot: Event | None = None
        """The first look at the connections, taken as it fell asleep."""
        self.unseen: str | None = None
        """Why the connections could not be looked at."""
        self.uploads: dict[int, int] = {}
        """Connections that are no requests, by cookie, with what had come on them: see :meth:`unanswered`."""
        self.props_asked = False
        self.props: Event | None = None
        """The server's own word whether it sleeps."""

    @property
    def key(self) -> str:
        """What names it among the sleeps of its life: its log clock, else its ordinal."""
        clock = self.enter.clock_us if self.enter is not None else None
        return f"#{self.ordinal}" if clock is None else str(clock)

    @property
    def doubtful(self) -> bool:
        """The sleep itself may be a copy inside printed text, or its end was lost."""
        return self.unseen_exit or bool(self.enter and self.enter.doubtful)

    def slept_us(self) -> int | None:
        """How long it slept until the wake, by the log clock, else by wall time; None where neither tells."""
        return elapsed_us(self.enter, self.exit)

    def unanswered(self) -> dict[int, int]:
        """When the server falls asleep again: the connections that met this sleep and were not answered in between.

        It falls asleep only when nothing runs and nothing is queued. So as long as nothing more comes on them, what
        came is no whole request.
        """
        seen = {} if self.snapshot is None else {one["cookie"] for one in self.snapshot.fields["connections"]}
        stood = {cookie: received for cookie, received in self.uploads.items() if cookie in seen}
        for one in self.pendings:
            if one.connection is not None and not (one.cancelled or one.answered or one.resumed or one.gone):
                stood[one.connection.fields["cookie"]] = one.connection.fields["received"]
        return stood

    def take_up(self, *, runs: bool = False) -> bool:
        """Give launches behind the wake to the requests that lay in the queue, which are first in it.

        Behind them comes the one that woke the server. So where there are fewer launches, not all that waited were
        requests, and only an answer or an end tells which; ``runs``: what runs now is none of our own wake's.
        """
        taken = {one.task for one in self.pendings if one.launched is not None}
        free = [launch for launch in self.launches if launch.fields["id"] not in taken]
        held = [one for one in self.pendings if one.held and one.in_no_line and not (one.resumed or one.idle)]
        held = [one for one in held if not (one.gone and self.exit and one.gone.seq < self.exit.seq)]
        if not runs and len(free) <= len(held):
            told = [one for one in held if one.answered or (one.gone and (self.waked is None or len(free) > 1))]
            held = told
        for one, launch in zip(held, free, strict=False):
            one.launched, one.task = launch, launch.fields["id"]
        return bool(held and free)

    def posted(self, task: int, event: Event) -> bool:
        """A post of a task; one of several of a request, which follow each other, is none of its own."""
        for pending in self.pendings:
            if not pending.all_posted and pending.posted and pending.posted.fields["count"] == event.fields["count"]:
                pending.more_tasks.append(task)
                return False
        self.pending_for(task).posted = event
        return True

    def number_by_proof(self, proven: Pending) -> None:
        """A line is about to prove this one: the log alone counts the hangs of a sleep in the order of such lines.

        Live some have their number before, because time had told of them; so it takes the first that no line has taken.
        """
        numbered = [p for p in self.pendings if p.number is not None and not p.proven]
        first = min(numbered, key=lambda p: p.number or 0, default=None)
        if first is not None and not proven.proven and (proven.number is None or (first.number or 0) < proven.number):
            first.number, proven.number = proven.number, first.number

    def pending_for(self, task: int | None, *, formatted: bool = False) -> Pending:
        """The entry a new line belongs to: the one with this id, else the latest without one, else a new one.

        The latest, because an older arrival without a launch is more likely a refused request, which prints nothing.
        """
        if task is not None:
            for pending in self.pendings:
                if pending.is_of(task):
                    return pending
            for pending in self.pendings:
                if pending.connection is not None and pending.in_no_line:
                    pending.task = task
                    return pending
        for pending in reversed(self.pendings):
            if pending.task is None and not (formatted and pending.formatted):
                pending.task = task
                return pending
        pending = Pending(before=False)
        pending.task = task
        self.pendings.append(pending)
        return pending


class Ledger:
    """Everything the verdicts need to know of one life."""

    __slots__ = (
        "abort", "arrivals", "arrivals_late", "build", "busy", "counts_arrivals", "era", "failed_reload", "first",
        "idle_us", "last", "last_active_us", "listening", "load_failed", "mark", "origin", "phase", "port", "proxied",
        "queued", "released", "reload_us", "requests", "saw_arrival", "saw_format", "saw_launch", "saw_posted",
        "served", "sleep", "sleep_mode", "sleeps", "stopping", "url", "verbosity", "woken",
    )  # fmt: skip

    def __init__(self, origin: Origin, first: Event) -> None:
        self.origin = origin
        self.first = first
        self.last = first
        self.phase = Phase.STARTING
        self.mark = -1
        self.busy: dict[int, Event] = {}
        """Launched and not released."""
        self.queued: dict[int, Event] = {}
        """Posted while awake and not launched."""
        self.arrivals: deque[Event] = deque(maxlen=_MANY)
        """Arrived (or formatted, in eras that print no arrival) and not launched."""
        self.proxied: deque[tuple[Event, int | None]] = deque(maxlen=_MANY)
        """A router passed it on to this child (its time on the child's clock, where known) and no launch followed."""
        self.sleep: Sleep | None = None
        self.sleeps = 0
        self.woken = 0
        self.requests = 0
        self.served = False
        self.released: Event | None = None
        """The last release seen."""
        self.listening = False
        self.sleep_mode = False
        self.idle_us: int | None = None
        self.last_active_us: int | None = None
        self.reload_us = 0
        """The longest reload seen."""
        self.stopping: Event | None = None
        self.abort: Event | None = None
        self.failed_reload: Event | None = None
        self.load_failed: Event | None = None
        self.saw_arrival = False
        self.saw_format = False
        self.saw_posted = False
        self.saw_launch = False
        self.arrivals_late = False
        self.counts_arrivals = True
        """No launch came yet without an arrival of its own: counting launches against arrivals means something."""
        self.build: str | None = None
        self.era: str | None = None
        self.verbosity: int | None = None
        self.port: str | None = None
        self.url: str | None = None
        """Where it listens, as it says itself: ``http://127.0.0.1:8080``."""

    # -- one line of the life -------------------------------------------------------------------------------------

    def apply(self, event: Event) -> bool:
        """Enter one event of this life. True where a verdict may have changed."""
        handler = _HANDLERS.get(event.type)
        if self.sleep is not None:
            self.sleep.events += 1
        changed = handler(self, event) if handler else False
        last = self.last.clock_us
        if event.clock_us is None or last is None or event.clock_us >= last:
            self.last = event
        return changed

    def _start(self, event: Event) -> bool:
        build = event.fields.get("build")
        if build:  # builds made outside a git checkout call themselves 0
            self.build = f"b{build}"
        self.era = self.era or _era(event, self.build)
        return False

    def _verbosity(self, event: Event) -> bool:
        self.verbosity = event.fields["verbosity"]
        form = event.fields.get("form")
        if form in ("A", "B", "C"):
            self.era = form
        return False

    def _listening(self, event: Event) -> bool:
        self.listening = True
        url = self.url = str(event.fields.get("url", ""))
        port = re.search(r":(\d+)/?$", url)
        self.port = port.group(1) if port else self.port
        return self._load_done(event)

    def _load_done(self, event: Event) -> bool:
        if self.phase is Phase.STARTING:
            self.phase = Phase.AWAKE
            self.last_active_us = event.clock_us
        return False

    def _load_ready(self, event: Event) -> bool:
        sleep = self.sleep
        if sleep is None or self.phase is not Phase.RELOADING or sleep.ready is not None:
            return False
        sleep.ready = event
        self.last_active_us = event.clock_us
        took = elapsed_us(sleep.exit, event)
        if took is not None:
            self.reload_us = max(self.reload_us, took)
        return True

    def _load_failed(self, event: Event) -> bool:
        if self.phase is Phase.RELOADING:
            self.failed_reload = event
        else:
            self.load_failed = event
        return False

    def _abort(self, event: Event) -> bool:
        self.abort = event
        if event.fields.get("what") == "failed to reload model after sleeping":
            self.failed_reload = event
        return False

    def _stopping(self, event: Event) -> bool:
        self.stopping = self.stopping or event
        if self.sleep is not None and self.phase in (Phase.ASLEEP, Phase.RELOADING):
            self.sleep.stopping = event
        return True

    def _goes_on(self, event: Event) -> None:
        """A server that still launches requests, or falls asleep, did not stop: the words were a copy in some text."""
        if self.stopping is None or self.stopping.origin is not event.origin:
            return  # a supervisor's word: its stop can take minutes
        since = elapsed_us(self.stopping, event)
        if event.type != "request.launched" or (since is not None and since > STOP_US):
            self.stopping = None

    # -- sleep and wake -------------------------------------------------------------------------------------------

    def _sleep_enter(self, event: Event) -> bool:
        if self.last_active_us is not None and event.clock_us is not None and self.phase is Phase.AWAKE:
            self.idle_us = max(0, event.clock_us - self.last_active_us)
        self.phase = Phase.ASLEEP
        self._goes_on(event)
        self.sleep_mode = True
        self.sleeps += 1
        before, self.sleep = self.sleep, Sleep(event, self.sleeps, self.mark)
        if before is not None and before.exit is not None:
            self.sleep.uploads = before.unanswered()
        for arrival in self.arrivals:
            pending = Pending(before=True)
            if arrival.type == "request.formatted":
                pending.formatted = arrival
            else:
                pending.arrival = arrival
            self.sleep.pendings.append(pending)
        self.arrivals.clear()
        self.busy.clear()
        self.queued.clear()
        self.sleep.passed_before = [line for line, clock in self.proxied if self._just_before(clock, event)]
        self.proxied.clear()
        return True

    def _sleep_entered(self, event: Event) -> bool:
        # The twin of sleep.enter; alone where the router's child lost the first (its logger pauses around a sleep).
        return False if self.phase is Phase.ASLEEP else self._sleep_enter(event)

    def _sleep_exit(self, event: Event) -> bool:
        if self.phase is Phase.RELOADING and self.sleep is not None and self.sleep.exit is not None:
            return False
        self.sleep_mode = True
        if self.sleep is None or self.phase is not Phase.ASLEEP:
            self.sleep = Sleep(None, self.sleeps, self.mark)  # the excerpt begins inside a sleep
        self.sleep.exit = event
        self.woken += 1
        self.phase = Phase.RELOADING
        self.arrivals.clear()
        return True

    def _awake_line(self, event: Event) -> bool:
        """A line only a loop that is awake prints."""
        if self.phase is Phase.ASLEEP and self.sleep is not None:
            self.sleep.unseen_exit = True
            self.sleep.pendings = [p for p in self.sleep.pendings if p.cancelled]
        changed = self.phase is not Phase.AWAKE
        self.phase = Phase.AWAKE
        return changed

    def sleeps_twice(self) -> None:
        """It falls asleep and has not woken: lines are missing, or another server writes here.

        Then an arrival or a post in that sleep can be the other's, which is awake. A cancel cannot: the launches and
        releases around it would have shown.
        """
        if self.phase is Phase.ASLEEP and self.sleep is not None:
            self.sleep.pendings = [p for p in self.sleep.pendings if p.cancelled]

    def _idle(self, event: Event) -> bool:
        changed = self._awake_line(event)
        self.busy.clear()
        if self.sleep is not None and self.sleep.exit is not None and not self.sleep.launches:
            self.sleep.closed = True  # the loop has looked into its queue, and nothing lay in it
        if event.clock_us is not None and self.last_active_us is None:
            self.last_active_us = event.clock_us
        return changed

    # -- requests -------------------------------------------------------------------------------------------------

    def _arrived(self, event: Event) -> bool:
        if self.requests and not self.saw_arrival:
            # Builds b9808 to b9970 print this line behind the first result: it says nothing of what waits.
            self.arrivals_late = True
        if self.arrivals_late:
            return False
        self.saw_arrival = True
        sleep = self.sleep
        if sleep is not None and self.phase is Phase.ASLEEP:
            pending = next((one for one in sleep.pendings if one.connection is not None and one.in_no_line), None)
            if pending is None:
                pending = Pending(before=False)
                sleep.pendings.append(pending)
            pending.before = False
            pending.arrival = event
            return True
        if sleep is not None:
            self._close_if_quiet(sleep, event)
            sleep.arrivals += 1
        self.arrivals.append(event)
        return False

    def _formatted(self, event: Event) -> bool:
        self.saw_format = True
        sleep = self.sleep
        if sleep is not None and self.phase is Phase.ASLEEP:
            sleep.pending_for(None, formatted=True).formatted = event
            return True
        if not self.saw_arrival:
            if sleep is not None:
                self._close_if_quiet(sleep, event)
                sleep.arrivals += 1
            self.arrivals.append(event)
        return False

    def _posted(self, event: Event) -> bool:
        task = event.fields["id"]
        if event.fields["front"] != 0:  # cancel, metrics, slots: internal
            self.mark = max(self.mark, task)
            return False
        self.saw_posted = True
        changed = False
        if self.phase is Phase.ASLEEP and self.sleep is not None:
            changed = self.sleep.posted(task, event)
        elif len(self.queued) < _MANY:
            self.queued[task] = event
        self.mark = max(self.mark, task)
        return changed

    def _internal(self, event: Event) -> bool:
        self.mark = max(self.mark, event.fields["id"])
        return False

    def _cancelled(self, event: Event) -> bool:
        task = event.fields["id"]
        sleep = self.sleep
        changed = False
        if (
            sleep is not None
            and (self.phase is Phase.ASLEEP or (self.phase is Phase.RELOADING and sleep.ready is None))
            and sleep.enter is not None
            and task > sleep.mark
            and task not in sleep.cancelled
        ):
            sleep.cancelled.add(task)
            pending = sleep.pending_for(task)
            sleep.number_by_proof(pending)
            pending.cancelled = event
            changed = True
        self.queued.pop(task, None)
        self.mark = max(self.mark, task)
        return changed

    def _launched(self, event: Event) -> bool:
        fields = event.fields
        task = fields["id"]
        changed = self._awake_line(event) if self.phase is not Phase.AWAKE else False
        if self.sleep is not None:
            self._close_if_quiet(self.sleep, event)
        if self.stopping is not None:
            self._goes_on(event)
        if len(self.busy) < 4096:
            self.busy[task] = event
        posted_awake = bool(self.queued) and self.queued.pop(task, None) is not None
        if task > self.mark:
            self.mark = task
        self.last_active_us = event.clock_us
        self.saw_launch = True
        if fields.get("child"):
            return changed
        self.requests += 1
        sleep = self.sleep
        if sleep is not None and sleep.exit is not None and not posted_awake:
            return self._launched_after_wake(sleep, event, task) or changed
        self._count_launch()
        return changed

    def _run(self, event: Event) -> bool:
        """Many lines of steady traffic at once: with nothing to count them against, their sum is all that matters."""
        fields = event.fields
        self.mark = max(self.mark, fields["mark"])
        if not (fields["launched"] or fields["released"] or fields["open"]):
            return False
        changed = self._awake_line(event) if self.phase is not Phase.AWAKE else False
        for task in fields["released"]:
            self.busy.pop(task, None)
        for launch in fields["open"]:
            launch.seq = event.seq
            if len(self.busy) < 4096:
                self.busy[launch.fields["id"]] = launch
        self.requests += fields["launched"]
        if self.sleep is not None and self.sleep.exit is not None and not self.sleep.closed and fields["launched"]:
            self.sleep.summed += fields["launched"]
            changed = changed or any(one.held for one in self.sleep.pendings)
        self.served = True
        self.last_active_us = event.clock_us
        return changed

    def _close_if_quiet(self, sleep: Sleep, event: Event) -> None:
        """Idle for longer than tokenizing takes, with launches since the wake: the queue has been empty for as long."""
        if sleep.closed or not sleep.launches or self.busy:
            return
        quiet = elapsed_us(self.last, event)
        sleep.closed = quiet is not None and quiet > BEFORE_SLEEP_US

    def _count_launch(self) -> None:
        if self.arrivals:
            self.arrivals.pop()
        elif self.saw_arrival or self.saw_format:
            self.counts_arrivals = False
        if self.proxied:
            self.proxied.pop()

    def _launched_after_wake(self, sleep: Sleep, event: Event, task: int) -> bool:
        """Is this one of the requests that lay in the queue, or one of those that came with or after the wake?"""
        for pending in sleep.pendings:
            if pending.is_of(task) and pending.proven:
                pending.launched = pending.launched or event
                return True
        if sleep.enter is None or sleep.closed or len(sleep.launches) >= _MANY:
            self._count_launch()
            return False
        sleep.launches.append(event)
        if self.saw_arrival or self.saw_format:
            came = sleep.arrivals
        elif self.origin.port is not None and (sleep.proxied or sleep.passed_before):
            came = sleep.proxied
        else:
            self._count_launch()
            taken_up = sleep.take_up()
            if len(sleep.launches) == 2 and self._together(sleep.launches):
                sleep.twins = (sleep.launches[0], sleep.launches[1])
                return True
            return taken_up
        explained = sum(1 for p in sleep.pendings if p.extra is not None)
        if len(sleep.launches) - came <= explained:
            self._count_launch()
            return False
        # The oldest launch is the one that waited longest: the queue is first in, first out.
        waited = sleep.launches[explained]
        claimed = self._claim_extra(sleep)
        if claimed is None:
            sleep.miscounted = True
            return False
        sleep.miscounted = sleep.miscounted or not (claimed.arrival or claimed.formatted)
        sleep.number_by_proof(claimed)
        claimed.extra = claimed.launched = waited
        claimed.task = waited.fields["id"]
        return True

    def _together(self, launches: list[Event]) -> bool:
        """Did the second launch follow at once, or as soon as the first had left its slot?"""
        first, second = launches
        since = (
            self.released if self.released is not None and self.released.fields["id"] == first.fields["id"] else first
        )
        gap = elapsed_us(since, second)
        return gap is not None and gap < TOGETHER_US

    def _claim_extra(self, sleep: Sleep) -> Pending | None:
        for pending in reversed(sleep.pendings):
            if pending.task is None:
                return pending
        if sleep.passed_before and not self.saw_arrival:
            pending = Pending(before=True)
            pending.arrival = sleep.passed_before.pop()
        elif not self.counts_arrivals:
            return None
        else:
            # More launches than arrivals and none was waiting: several prompts in one request, or a kind of request
            # that prints no arrival. From here on the count says nothing in this life.
            self.counts_arrivals = False
            pending = Pending(before=False)
        sleep.pendings.append(pending)
        return pending

    def _released(self, event: Event) -> bool:
        # A server sleeps only when no slot is busy: a release in a sleep is another process's, or lines are missing.
        changed = self._awake_line(event) if self.phase is Phase.ASLEEP else False
        task = event.fields["id"]
        self.busy.pop(task, None)
        self.served = True
        self.released = event
        self.last_active_us = event.clock_us
        return changed

    def _refused(self, event: Event) -> bool:
        if self.arrivals:
            self.arrivals.pop()
        return False

    def gap(self) -> None:
        """Lines are missing here: what was waiting may have been answered in them, and counts say nothing."""
        self.arrivals.clear()
        self.proxied.clear()
        self.queued.clear()
        self.busy.clear()
        self.counts_arrivals = False
        if self.sleep is not None and self.phase in (Phase.ASLEEP, Phase.RELOADING):
            self.sleep.unseen_exit = True
            self.sleep.pendings = [p for p in self.sleep.pendings if p.proven]

    def passed_on(self, event: Event, child_clock_us: int | None) -> None:
        """A router printed that it passes a request (or a poll) on to this child."""
        if self.sleep is not None:
            self.sleep.proxied += 1
        if self.phase is Phase.AWAKE:
            self.proxied.append((event, child_clock_us))

    @staticmethod
    def _just_before(clock_us: int | None, enter: Event) -> bool:
        if clock_us is None or enter.clock_us is None:
            return False
        return enter.clock_us - clock_us <= BEFORE_SLEEP_US

    # -- what the verdicts ask ------------------------------------------------------------------------------------

    def in_flight(self) -> list[Event]:
        """The lines of the requests in flight: launched and not released, queued, or arrived and not launched."""
        flight = list(self.busy.values()) + list(self.queued.values())
        if self.sleep is not None and self.phase is not Phase.AWAKE:
            for p in self.sleep.pendings:
                line = p.posted or p.formatted or p.arrival or p.connection
                over = p.cancelled or p.launched or p.answered or p.resumed or p.gone
                if line is not None and over is None and not is_stale(self.sleep, p):
                    flight.append(line)
        else:
            # With queue lines each arrival shows again as a post; without them the arrivals are all there is. One that
            # is older than tokenizing takes was most likely refused, which prints nothing.
            recent = [one for one in self.arrivals if (elapsed_us(one, self.last) or 0) <= BEFORE_SLEEP_US]
            flight.extend(recent[len(self.queued) :])
        return flight

    def command(self, command: str) -> None:
        """Learn from the command line a supervisor printed."""
        option = _IDLE_OPTION.search(command)
        if option:
            seconds = int(option.group(1))
            self.sleep_mode = seconds > 0 or self.sleeps > 0
            if seconds > 0 and self.idle_us is None:
                self.idle_us = seconds * 1_000_000


def elapsed_us(start: Event | None, end: Event | None) -> int | None:
    """Time from one line to another: by their writer's log clock, else by wall time, else None."""
    if start is None or end is None:
        return None
    if start.clock_us is not None and end.clock_us is not None and start.origin is end.origin:
        return end.clock_us - start.clock_us
    if start.wall_us is not None and end.wall_us is not None:
        return end.wall_us - start.wall_us
    return None


def is_stale(sleep: Sleep, pending: Pending) -> bool:
    """An arrival so long before the sleep that it was most likely refused."""
    if pending.proven or pending.connection or not pending.before:
        return False
    age = elapsed_us(pending.arrival or pending.formatted, sleep.enter)
    return age is not None and age > BEFORE_SLEEP_US


def _era(event: Event, build: str | None) -> str | None:
    """Era by build number where one is printed, else by the prefix: only eras B and C print stamps by default."""
    number = int(build[1:]) if build and build[1:].isdigit() else 0
    if number:
        return "A" if number <= 9150 else "B" if number <= 9828 else "C"
    return "A" if event.clock_us is None else None


_HANDLERS = {
    "process.start": Ledger._start,
    "process.verbosity": Ledger._verbosity,
    "server.listening": Ledger._listening,
    "load.done": Ledger._load_done,
    "load.ready": Ledger._load_ready,
    "load.failed": Ledger._load_failed,
    "process.abort": Ledger._abort,
    "process.stopping": Ledger._stopping,
    "sleep.enter": Ledger._sleep_enter,
    "sleep.entered": Ledger._sleep_entered,
    "sleep.exit": Ledger._sleep_exit,
    "sleep.exited": Ledger._sleep_exit,
    "loop.idle": Ledger._idle,
    "request.arrived": Ledger._arrived,
    "request.formatted": Ledger._formatted,
    "request.posted": Ledger._posted,
    "request.internal": Ledger._internal,
    "request.cancelled": Ledger._cancelled,
    "request.launched": Ledger._launched,
    "request.released": Ledger._released,
    "requests.run": Ledger._run,
    "request.refused": Ledger._refused,
}
