"""The daemon's side of telling people: notes what an incident means for each target, and sees to it that it is sent.

:meth:`Desk.note` writes into the transaction that stores the incident; :meth:`Desk.step` is called at each look and
never waits.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from sleepwatch.config import PING as PING_NAME
from sleepwatch.config import Settings
from sleepwatch.engine import Now
from sleepwatch.errors import SleepwatchError, StoreError
from sleepwatch.notify import outbox
from sleepwatch.notify.courier import Courier
from sleepwatch.notify.job import PING, Job, Parcel, Result
from sleepwatch.notify.outbox import Due
from sleepwatch.notify.targets import complaints, read_urls
from sleepwatch.notify.teller import Teller
from sleepwatch.rules import IncidentWords
from sleepwatch.store import Store, Transaction
from sleepwatch.store.database import SERVICE_PATH, explained

LOOK_US = 5_000_000
"""How often what is collected or silenced is looked at."""
BUSY_US = 1_000_000
"""While something is being sent, the process is looked at this often at least."""
TRY_AGAIN_US = 5_000_000
"""The database could not be written: the next try."""

Say = Callable[[str, Now], None]
OUTCOMES = ("sent", "failed", "timeout", "undeliverable")


class Desk:
    """One for each daemon that has somebody to tell."""

    def __init__(self, settings: Settings, words: Mapping[str, IncidentWords], host: str, show: str, say: Say) -> None:
        self._teller = Teller(settings, words, host, show)
        self._say = say
        self._courier = Courier()
        self._sending: dict[int, Due] = {}
        self._results: list[Result] = []
        """Known, and not yet recorded."""
        self._next_us: int | None = 0
        """Wall time at which something is due; None where nothing waits."""
        self._looked_us = self._try_again_us = 0
        self._pinged_us: int | None = None
        self._unsaid = True
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        """Since the start: attempts by what came of them, and deliveries given up."""
        self.oldest_us: int | None = None
        """When the oldest delivery that waits was queued."""
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Go by these settings from now on."""
        self._teller.settings = settings
        self._settings, self._targets = settings.notify, settings.target
        self._pinged_us = None
        self._next_us, self._unsaid = 0, True

    def start(self, store: Store, now: Now) -> None:
        """Take up what an earlier run left. Raises StoreError."""
        with store.transaction() as transaction:
            count = outbox.interrupted(transaction, now.wall_us)
        if count:
            self._say(f"{count} messages were being sent when the last run ended; they are sent again", now)
        self.check(now)

    def check(self, now: Now) -> None:
        """Say what would keep messages from being sent, before the first is due."""
        for words in complaints(self._teller.settings):
            self._say(words, now)

    # -- what an incident means -----------------------------------------------------------------------------------

    def note(self, transaction: Transaction, incidents: Collection[str], now: Now, *, hold: str | None = None) -> None:
        """Queue what is to be told of these incidents (:meth:`Teller.note`)."""
        if incidents:
            self._teller.note(transaction, incidents, now, hold=hold)
            self._unsaid = True
            self._next_us = 0

    # -- sending --------------------------------------------------------------------------------------------------

    def step(self, store: Store, now: Now, *, caught_up: bool, well: bool) -> None:
        """See what has come of what is being sent, and send what is due. Never waits.

        ``caught_up``: all sources have been read to their ends once. ``well``: the daemon stores what it finds.
        """
        self._results += self._courier.poll(now.monotonic_us)
        if now.monotonic_us < self._try_again_us:
            return
        try:
            with explained(store.path):
                self._record(store, now)
                if self._unsaid and now.monotonic_us - self._looked_us >= LOOK_US:
                    self._looked_us = now.monotonic_us
                    with store.transaction() as transaction:
                        self._teller.collect(transaction, now, caught_up=caught_up)
                    self._unsaid = outbox.unsaid(store)
                    self._next_us = 0
                if not self._courier.busy and not self._sending:
                    self._send(store, now, well=well)
        except StoreError as error:
            self._try_again_us = now.monotonic_us + TRY_AGAIN_US
            self._say(f"messages wait: {error}", now)

    def wants_us(self, now: Now) -> int | None:
        """How soon :meth:`step` should be called again; None where nothing waits."""
        wants = [BUSY_US] if self._courier.busy else []
        if self._unsaid:
            wants.append(max(0, self._looked_us + LOOK_US - now.monotonic_us))
        if self._next_us is not None and not self._courier.busy:
            wants.append(max(0, self._next_us - now.wall_us))
        if self._pinged_us is not None:
            wants.append(max(0, self._pinged_us + round(self._settings.ping_seconds * 1e6) - now.monotonic_us))
        return min(wants, default=None)

    @staticmethod
    def forget(transaction: Transaction, before_us: int) -> None:
        """Forget the messages that were done with before this moment."""
        outbox.forget(transaction, before_us)

    def filenos(self) -> list[int]:
        """Readable when :meth:`step` has something to do."""
        return self._courier.filenos()

    def stop(self, store: Store, now: Now, seconds: float) -> None:
        """Let what is being sent end, for at most so long, and record what came of it."""
        self._results += self._courier.finish(seconds, now.monotonic_us)
        try:
            with explained(store.path):
                self._record(store, now)
        except StoreError as error:
            self._say(f"what came of the last messages is not recorded; they are sent again: {error}", now)

    def _record(self, store: Store, now: Now) -> None:
        """Record the results that have come, and what became of the rest if the process has ended."""
        results = [one for one in self._results if one.delivery in self._sending]
        for one in self._results:
            if one.delivery == PING and one.outcome != "sent":
                self._say(f"the dead man's URL was not reached: {one.words}", now)
        if not self._courier.busy:
            missing = set(self._sending) - {one.delivery for one in results}
            last = self._courier.last_words()
            words = "the process that sent it ended before it said what came of it" + (f": {last}" if last else "")
            results += [Result(delivery=one, outcome="interrupted", words=words, service="") for one in sorted(missing)]
        if results:
            counted = self._record_all(store, results, now)
            self.outcomes.update(counted)
            self._next_us = 0
        self._results = []
        for one in results:
            self._sending.pop(one.delivery, None)

    def _record_all(self, store: Store, results: Sequence[Result], now: Now) -> Counter[str]:
        give_up_us = round(self._settings.give_up_hours * 3600e6)
        counted: Counter[str] = Counter()
        with store.transaction() as transaction:
            retry_us: dict[str, int] = {}
            for one in results:
                due = self._sending[one.delivery]
                if one.outcome == "not tried":
                    again_us = retry_us.get(due.target, now.wall_us + outbox.FIRST_WAIT_US)
                    outbox.postpone(transaction, one.delivery, again_us)
                    continue
                state = outbox.finish(transaction, due, one.outcome, one.words, now.wall_us, give_up_us=give_up_us)
                counted[one.outcome if one.outcome in OUTCOMES else "failed"] += 1
                counted["undeliverable"] += state == "undeliverable"
                if one.outcome != "sent":
                    retry_us[due.target] = now.wall_us + outbox.wait_us(due.tries + 1)
                    left = "given up" if state == "undeliverable" else "tried again later"
                    self._say(f"a message to {due.target} was not delivered, {left}: {one.words}", now)
        return counted

    def _send(self, store: Store, now: Now, *, well: bool) -> None:
        """Start the process that sends, if anything is due."""
        due: list[Due] = []
        if self._next_us is not None and self._next_us <= now.wall_us:
            self.oldest_us = outbox.oldest_us(store)
            due = outbox.due(store, now.wall_us)
            self._next_us = outbox.next_due_us(store)
        every_us = round(self._settings.ping_seconds * 1e6)
        ping_due = well and (self._pinged_us is None or now.monotonic_us - self._pinged_us >= every_us)
        if not due and not ping_due:
            return
        try:
            urls = read_urls(self._settings)
        except SleepwatchError as error:
            self._say(str(error), now)
            urls = {}
        ping = urls.get(PING_NAME) if ping_due else None
        self._pinged_us = now.monotonic_us if ping_due else self._pinged_us
        targets = {target.name: target for target in self._targets}
        due = [one for one in due if one.target in targets]
        if not due and ping is None:
            return
        if due:
            with store.transaction() as transaction:
                outbox.begin(transaction, [one.delivery for one in due])
        job = Job(
            parcels=tuple(
                Parcel.of(one.message, targets[one.target], delivery=one.delivery, url=urls.get(one.target))
                for one in due
            ),
            ping=ping,
            timeout_s=self._settings.timeout_seconds,
            total_s=self._settings.timeout_seconds * 2,
        )
        self._sending = {one.delivery: one for one in due}
        try:
            self._courier.start(job, now.monotonic_us)
        except OSError as error:
            self._say(f"no process can be started to send messages: {error.strerror}", now)


def show_command(database: Path) -> str:
    """The command that shows more of an incident in this database, without its id."""
    command = "sleepwatch incidents show"
    return command if database == SERVICE_PATH else f"{command} --db {shlex.quote(str(database))}"
