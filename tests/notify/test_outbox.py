"""What waits is delivered at least once, in order, or listed: with everything that can go wrong (a fake sends)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sleepwatch.config import Target
from sleepwatch.notify.job import Parcel
from sleepwatch.notify.outbox import FIRST_WAIT_US, LONGEST_WAIT_US, attempts, undelivered, wait_us
from tests.notify.office import HOUR, MINUTE, SECOND, Office, incident

SHORT = 12
MANY = 400


def test_the_waits_grow_from_half_a_minute_to_an_hour() -> None:
    waits = [wait_us(tries) // SECOND for tries in range(1, 12)]
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600]
    assert (wait_us(1), wait_us(10_000)) == (FIRST_WAIT_US, LONGEST_WAIT_US)


def test_each_attempt_is_a_row_and_what_cannot_be_delivered_is_listed(tmp_path: Path) -> None:
    office = Office(tmp_path, outcome=lambda parcel: "failed", give_up_hours=2.0)
    office.happens(incident("crash", 1))
    office.pass_time(4 * HOUR)
    [row] = office.rows()
    assert row["state"] == "undeliverable"
    # at 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5 and 123.5 minutes
    assert row["attempts"] == ["failed"] * 9
    [one] = undelivered(office.store, 0)
    assert (one.state, one.tries, one.last) == ("undeliverable", 9, "failed")
    tried = attempts(office.store, one.delivery)
    assert tried[-1].begun_us - tried[0].begun_us >= 2 * HOUR
    assert office.desk.outcomes == {"sent": 0, "failed": 9, "timeout": 0, "undeliverable": 1}


def test_the_end_is_told_although_the_beginning_was_given_up(tmp_path: Path) -> None:
    down = True
    office = Office(tmp_path, outcome=lambda parcel: "failed" if down else "sent", give_up_hours=1.0)
    crash = incident("crash", 1)
    office.happens(crash)
    office.pass_time(3 * HOUR)
    down = False
    office.happens(msgspec.structs.replace(crash, state="restarted"))
    office.pass_time(MINUTE)
    assert [(row["what"], row["state"]) for row in office.rows()] == [
        ("opened", "undeliverable"),
        ("recovered", "sent"),
    ]


def test_an_incident_that_ends_during_an_outage_is_one_message_after_it(tmp_path: Path) -> None:
    down = True
    office = Office(tmp_path, outcome=lambda parcel: "failed" if down else "sent")
    crash = incident("crash", 1)
    office.happens(crash)
    office.pass_time(10 * MINUTE)
    office.happens(msgspec.structs.replace(crash, state="restarted"))
    office.pass_time(10 * MINUTE)
    down = False
    office.pass_time(HOUR)
    assert office.told() == ["passed 1"]


@pytest.mark.parametrize("outcome", ["timeout", "silent"])
def test_what_may_have_arrived_is_not_replaced(tmp_path: Path, outcome: str) -> None:
    now: dict[str, str] = {"outcome": outcome}
    office = Office(tmp_path, outcome=lambda parcel: now["outcome"])
    assert office.courier is not None
    office.courier.choose = random.Random(3)  # it did not
    crash = incident("crash", 1)
    office.happens(crash)
    office.pass_time(SECOND)
    office.happens(msgspec.structs.replace(crash, state="restarted"))
    now["outcome"] = "sent"
    office.pass_time(HOUR)
    assert office.told()[-2:] == ["opened 1", "recovered 1"]
    assert office.rows()[0]["attempts"] == [{"silent": "interrupted"}.get(outcome, outcome), "sent"]


def test_a_message_no_service_takes_does_not_hold_up_the_others(tmp_path: Path) -> None:
    def outcome(parcel: Parcel) -> str:
        return "failed" if "(00000000)" in parcel.title and "llama-1.service" in parcel.title else "sent"

    office = Office(tmp_path, outcome=outcome)
    office.happens(incident("crash", 1))
    office.pass_time(MINUTE)
    office.happens(incident("crash", 2))
    office.pass_time(SECOND)
    assert office.told() == ["opened 2"]


def test_a_message_that_was_not_tried_waits_without_an_attempt(tmp_path: Path) -> None:
    first = iter(["failed", "not tried"])
    office = Office(tmp_path, outcome=lambda parcel: next(first, "sent"))
    office.happens(incident("crash", 1), incident("crash", 2))
    office.look()
    office.look()
    assert [(row["state"], row["tries"], row["attempts"]) for row in office.rows()] == [
        ("waiting", 1, ["failed"]),
        ("waiting", 0, []),
    ]
    office.pass_time(MINUTE)
    assert office.told() == ["opened 1", "opened 2"]


def test_what_was_done_with_long_ago_is_forgotten_and_what_waits_is_not(tmp_path: Path) -> None:
    office = Office(tmp_path, outcome=lambda parcel: "sent" if "llama-1" in parcel.title else "failed")
    office.happens(incident("crash", 1), incident("crash", 2))
    office.pass_time(HOUR)
    for before_us, left in ((0, ["sent", "waiting"]), (office.clock.wall_us + HOUR, ["waiting"])):
        with office.store.transaction() as transaction:
            office.desk.forget(transaction, before_us)
        assert [row["state"] for row in office.rows()] == left
    assert office.store.connection.execute("SELECT count(*) FROM message").fetchone() == (1,)
    assert office.store.connection.execute("SELECT count(DISTINCT delivery) FROM attempt").fetchone() == (1,)


class History:
    """Incidents come and go, services fail, the daemon is killed; then all is well again."""

    def __init__(self, place: Path, seed: int) -> None:
        self.choose = random.Random(seed)
        self.well = False
        self.office = Office(
            place,
            Target(name="one", command=("true",)),
            Target(name="two", command=("true",)),
            outcome=self._outcome,
            storm_messages=self.choose.choice([2, 5, 1_000]),
            give_up_hours=self.choose.choice([0.5, 24.0]),
        )
        assert self.office.courier is not None
        self.office.courier.choose = self.choose
        self.open: dict[int, Any] = {}
        self.all: dict[int, Any] = {}

    def _outcome(self, parcel: Parcel) -> str:
        if self.well:
            return "sent"
        return self.choose.choice(["sent", "sent", "failed", "timeout", "not tried", "silent"])

    def run(self) -> None:
        for _ in range(40):
            self._deed()
            self.office.pass_time(self.choose.choice([0, SECOND, 10 * SECOND, 2 * MINUTE, HOUR]))
        for number in list(self.open):
            self._end(number)
        self.well = True
        self.office.pass_time(4 * HOUR)

    def _deed(self) -> None:
        deed = self.choose.random()
        if deed < 0.5 or not self.open:
            number = len(self.all)
            kind = self.choose.choice(["hung-request", "sleep-crash", "crash", "blind"])
            self.open[number] = self.all[number] = incident(kind, number)
            self.office.happens(self.open[number])
        elif deed < 0.8:
            self._end(self.choose.choice(list(self.open)))
        elif deed < 0.9:
            number = self.choose.choice(list(self.open))
            worse = msgspec.structs.replace(self.open[number], kind="crash-loop", severity="critical", count=5)
            self.open[number] = self.all[number] = worse
            self.office.happens(worse)
        else:
            # Something is under way, and nobody records what comes of it.
            self.office.look()
            self.office.kill()
            self.office.open()

    def _end(self, number: int) -> None:
        over = msgspec.structs.replace(self.open.pop(number), state="recovered")
        self.all[number] = over
        self.office.happens(over)

    def check(self) -> None:
        rows = self.office.rows()
        assert {row["state"] for row in rows} <= {"sent", "undeliverable", "replaced"}
        received = [parcel.delivery for parcel in self.office.courier.received]  # type: ignore[union-attr]
        for row in rows:
            assert (row["state"] == "sent") <= (row["id"] in received), row
            assert (row["state"] == "undeliverable") <= bool(row["attempts"]), row
        for target in ("one", "two"):
            mine = [row for row in rows if row["target"] == target and row["state"] != "replaced"]
            digests = any(row["what"] == "digest" for row in mine)
            for number in self.all:
                about = [row for row in mine if row["incident"] == f"{number:020x}"]
                assert about or digests, f"nothing was told of {number}"
                self._check_order(about, received)

    def _check_order(self, about: list[dict[str, Any]], received: list[int]) -> None:
        firsts = [received.index(row["id"]) for row in about if row["id"] in received]
        assert firsts == sorted(firsts), "a later message overtook an earlier one"
        whats = [row["what"] for row in about]
        if "opened" in whats:
            assert whats[-1] == "recovered", whats


def _history(place: Path, seed: int) -> None:
    place.mkdir(exist_ok=True)
    one = History(place, seed)
    one.run()
    one.check()
    one.office.kill()


def test_whatever_happens_each_incident_is_told_in_order_or_listed(tmp_path: Path) -> None:
    for seed in range(SHORT):
        _history(tmp_path / str(seed), seed)


@pytest.mark.slow
def test_whatever_happens_in_many_histories(tmp_path: Path) -> None:
    for seed in range(SHORT, SHORT + MANY):
        _history(tmp_path / str(seed), seed)
