"""What was seen beside the logs, kept so that a live run can be read again just as it was; and what can be seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from sleepwatch.model import Observation
from sleepwatch.printable import printable
from sleepwatch.store.store import Store
from sleepwatch.store.transaction import Transaction


class WitnessRow(msgspec.Struct, frozen=True, kw_only=True):
    """What can be seen of one server beside its log."""

    server: str
    port: int | None = None
    pid: int | None = None
    hidden: str | None = None
    """Why its connections cannot be seen, and what to grant; None: they can."""
    unwatched: str | None = None
    """Why the end of its process cannot be told; None: it can."""


def save_observations(transaction: Transaction, observations: Iterable[Observation]) -> None:
    """Keep these, in the order in which they were made."""
    for one in observations:
        transaction.execute(
            "INSERT INTO observation (source, life, sleep, place, seen_in, type, text, fields, clock_us, wall_us, "
            "recorded_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                printable(one.source), one.life, one.sleep, one.place, printable(one.seen_in), one.type, one.text,
                msgspec.json.encode(one.fields).decode(), one.clock_us, one.wall_us, transaction.now_us,
            ),
        )  # fmt: skip


def observations(store: Store, lives: Collection[str] | None = None) -> list[Observation]:
    """What was seen of these lives (None: of all), in order."""
    rows = store.connection.execute(
        "SELECT source, life, sleep, place, seen_in, type, text, fields, clock_us, wall_us FROM observation ORDER BY id"
    )
    return [
        Observation(
            source=row[0], life=row[1], sleep=row[2], place=row[3], seen_in=row[4], type=row[5], text=row[6],
            fields=msgspec.json.decode(row[7]), clock_us=row[8], wall_us=row[9],
        )
        for row in rows
        if lives is None or row[1] in lives
    ]  # fmt: skip


def forget_observations(transaction: Transaction, before_us: int) -> None:
    """Forget what was seen before this time of lives without an incident."""
    transaction.execute(
        "DELETE FROM observation WHERE recorded_us < ? "
        "AND NOT EXISTS (SELECT 1 FROM incident WHERE incident.life = observation.life)",
        (before_us,),
    )


def save_witnesses(transaction: Transaction, rows: Iterable[WitnessRow]) -> None:
    """Replace what is told of what can be seen."""
    transaction.execute("DELETE FROM witness")
    for row in rows:
        transaction.execute(
            "INSERT INTO witness (server, port, pid, hidden, unwatched) VALUES (?, ?, ?, ?, ?)",
            (printable(row.server), row.port, row.pid, row.hidden, row.unwatched),
        )


def witnesses(store: Store) -> list[WitnessRow]:
    """What can be seen of each server, as last told."""
    rows = store.connection.execute("SELECT server, port, pid, hidden, unwatched FROM witness ORDER BY server, port")
    return [WitnessRow(server=r[0], port=r[1], pid=r[2], hidden=r[3], unwatched=r[4]) for r in rows]
