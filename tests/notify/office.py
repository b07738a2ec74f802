"""A desk without a daemon around it: incidents happen by hand, and time passes when it is told to."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from sleepwatch.config import Notify, Settings, Target
from sleepwatch.model import Incident, Life, ScanResult
from sleepwatch.notify.desk import Desk
from sleepwatch.notify.job import Job, Parcel, Result
from sleepwatch.rules import load_incidents
from sleepwatch.store import Store, open_store
from tests.daemon.driving import FakeClock, new_database
from tests.notify.telling import WAIT_SECONDS, rows
from tests.support.results import LIFE

WORDS = load_incidents()
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
ALL = Target(name="all", severity="info", command=("true",))


def incident(kind: str, number: int, **changes: Any) -> Incident:
    """One of many, each of a life of its own."""
    made = Incident(
        id=f"{number:020x}",
        kind=kind,
        confidence="confirmed",
        state="open",
        severity=WORDS[kind].severity,
        server=f"llama-{number}.service",
        life=f"life-{number}",
        summary="It happened.",
        remedy=WORDS[kind].do,
        reason="it was seen",
    )
    return msgspec.structs.replace(made, **changes)


class FakeCourier:
    """A fake: sends nothing, and says of each parcel what it is told to. A process that cannot fail on demand."""

    def __init__(self, outcome: Callable[[Parcel], str]) -> None:
        self.outcome = outcome
        """``sent``, ``failed``, ``timeout``, ``not tried``; ``silent``: the process ends without a word of it."""
        self.received: list[Parcel] = []
        self.tried: list[Parcel] = []
        self.choose = random.Random(0)
        self.busy = False
        self._results: list[Result] = []

    def start(self, job: Job, monotonic_us: int) -> None:
        self.busy = True
        for parcel in job.parcels:
            outcome = self.outcome(parcel)
            if outcome != "not tried":
                self.tried.append(parcel)
            if outcome == "sent" or (outcome in ("timeout", "silent") and self.choose.random() < 0.5):
                self.received.append(parcel)
            if outcome != "silent":
                self._results.append(Result(delivery=parcel.delivery, outcome=outcome, words=outcome, service="fake"))

    def poll(self, monotonic_us: int) -> list[Result]:
        results, self._results, self.busy = self._results, [], False
        return results

    def finish(self, seconds: float, monotonic_us: int) -> list[Result]:
        return self.poll(monotonic_us)

    def filenos(self) -> list[int]:
        return []

    def last_words(self) -> str:
        return ""


class Office:
    """A database, a clock and a desk."""

    def __init__(
        self,
        place: Path,
        *targets: Target,
        outcome: Callable[[Parcel], str] | None = None,
        urls: dict[str, str] | None = None,
        **notify: Any,
    ) -> None:
        self.clock = FakeClock()
        self.database = place / "office.db"
        if not self.database.exists():
            new_database(self.database)
        if urls is not None:
            file = place / "urls.toml"
            file.write_text("".join(f'{name} = "{url}"\n' for name, url in urls.items()))
            file.chmod(0o600)
            notify["urls_file"] = str(file)
        self.settings = Settings(notify=Notify(**notify), target=targets or (ALL,))
        self.said: list[str] = []
        self.courier = FakeCourier(outcome or (lambda parcel: "sent")) if urls is None else None
        self.store: Store
        self.desk: Desk
        self.open()

    def open(self) -> None:
        """Begin, or begin again after :meth:`kill`."""
        self.store = open_store(self.database, now=lambda: self.clock.wall_us)
        self.store.connection.execute("PRAGMA synchronous = OFF")
        say = self.said.append
        self.desk = Desk(self.settings, WORDS, "host", "sleepwatch incidents show", lambda words, now: say(words))
        if self.courier is not None:
            self.courier.poll(0)
            self.desk._courier = self.courier  # type: ignore[assignment]
        self.desk.start(self.store, self.clock.now())

    def kill(self) -> None:
        """What was sent and is not recorded is forgotten."""
        self.store.close()

    def happens(self, *incidents: Incident, hold: str | None = None) -> None:
        """These are stored, as they are now, and noted."""
        lives = tuple(_life(one) for one in incidents)
        with self.store.transaction() as transaction:
            transaction.record(ScanResult(sources=(), lives=lives, incidents=incidents, gaps=(), whole=False))
            self.desk.note(transaction, [one.id for one in incidents], self.clock.now(), hold=hold)

    def withdraw(self, one: Incident) -> None:
        with self.store.transaction() as transaction:
            transaction.withdraw(one, "it was none")
            self.desk.note(transaction, [one.id], self.clock.now())

    def look(self, *, caught_up: bool = True) -> None:
        self.desk.step(self.store, self.clock.now(), caught_up=caught_up, well=True)

    def pass_time(self, us: int, *, caught_up: bool = True) -> None:
        """As the daemon's loop does; a real process that sends is waited for in real time."""
        end_us = self.clock.monotonic_us + us
        until = time.monotonic() + WAIT_SECONDS
        while True:
            self.look(caught_up=caught_up)
            if self.courier is None and self.desk._courier.busy:
                assert time.monotonic() < until, self.rows()
                self.desk._courier.wait(0.5)
                continue
            left = end_us - self.clock.monotonic_us
            wants = self.desk.wants_us(self.clock.now())
            if left <= 0 and (wants is None or wants > 0):
                return
            self.clock.advance(max(1_000, min(left, 5 * MINUTE if wants is None else wants)) if left > 0 else 1_000)

    def rows(self) -> list[dict[str, Any]]:
        return rows(self.database)

    def told(self) -> list[str]:
        """What was received, in order: ``what`` and the incident's number."""
        assert self.courier is not None
        by_delivery = {row["id"]: row for row in self.rows()}
        told = []
        for parcel in self.courier.received:
            row = by_delivery[parcel.delivery]
            told.append(row["what"] + (f" {int(row['incident'], 16)}" if row["incident"] else ""))
        return told


def _life(one: Incident) -> Life:
    return msgspec.structs.replace(LIFE, life=one.life, server=one.server, build="b11368")
