"""What is to be told and has not arrived yet: rows written in the transaction of the incident they are about.

A message goes to one or more targets; to each it is one delivery, and each try of that is an attempt. A delivery ends
``sent``, ``undeliverable`` (given up, and listed), or ``replaced`` (before it was sent, a later message said it all).
To one target, the messages about one incident go out one after the other, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sleepwatch.model import Incident
from sleepwatch.notify.policy import NEWS, State, What
from sleepwatch.store.rows import EVIDENCE_COLUMNS, INCIDENT_COLUMNS, evidence_of, incident_of
from sleepwatch.store.store import Store
from sleepwatch.store.transaction import Transaction

FIRST_WAIT_US = 30_000_000
LONGEST_WAIT_US = 3_600_000_000
TRIES_AT_LEAST = 3
"""So often a delivery is tried before it is given up, whatever the clock says."""
BATCH = 20
"""Deliveries handed to one process."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a person reads, or a program."""

    what: What
    incident: str | None
    """None for one about several incidents."""
    type: str
    """``failure``, ``warning`` or ``success``: what services that show or close alarms go by."""
    title: str
    """The same for all messages about an incident to one target."""
    short: str
    long: str
    document: str
    """JSON, for a command."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """How far a target has been told of an incident."""

    incident: str
    target: str
    state: State
    hold: str | None = None
    """Why it waits for a digest: ``backfill``, ``downtime`` or ``storm``."""
    title: str | None = None
    kind: str | None = None
    severity: str | None = None
    """What it was told as last; None where it was not."""
    since_us: int = 0

    @property
    def told(self) -> tuple[str, str] | None:
        """The kind and severity it was told as; None where it was not."""
        return (self.kind, self.severity) if self.kind is not None and self.severity is not None else None


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose turn it is."""

    delivery: int
    target: str
    tries: int
    queued_us: int
    message: Message


class Undelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that has not arrived, or not yet."""

    delivery: int
    state: str
    target: str
    what: str
    incident: str | None
    title: str
    tries: int
    queued_us: int
    due_us: int
    done_us: int | None
    last: str | None
    """What came of the last attempt."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a delivery."""

    begun_us: int
    ended_us: int | None
    """None while it is under way."""
    outcome: str | None
    """``sent``, ``failed``, ``timeout`` or ``interrupted``."""
    words: str | None


# -- notices ----------------------------------------------------------------------------------------------------------

_NOTICE = ("incident", "target", "state", "hold", "title", "kind", "severity", "since_us")


def notice(transaction: Transaction, incident: str, target: str) -> Notice:
    """How far this target has been told of it."""
    row = transaction.execute(
        f"SELECT {', '.join(_NOTICE)} FROM notice WHERE incident = ? AND target = ?", (incident, target)
    ).fetchone()
    return Notice(incident=incident, target=target, state=State.NEW) if row is None else _notice_of(row)


def notices(transaction: Transaction, target: str, states: Iterable[State]) -> list[Notice]:
    """Those of a target in one of these states, the oldest first."""
    wanted = [str(state) for state in states]
    rows = transaction.execute(
        f"SELECT {', '.join(_NOTICE)} FROM notice WHERE target = ? AND state IN ({', '.join('?' * len(wanted))}) "
        "ORDER BY since_us, rowid",
        (target, *wanted),
    ).fetchall()
    return [_notice_of(row) for row in rows]


def notices_of_life(transaction: Transaction, life: str, target: str) -> list[tuple[str, str, Notice]]:
    """The kind and state of each incident of one server life, with how far this target has been told of it.

    Those taken back in this transaction are among them: a hang that turns out to belong to a death is ``lost``.
    """
    columns = ", ".join(f"notice.{column}" for column in _NOTICE)
    rows = transaction.execute(
        f"SELECT incident.kind, iif(withdrawn_us IS NULL, incident.state, 'lost'), {columns} "
        "FROM incident JOIN notice ON notice.incident = incident.id "
        "WHERE incident.life = ? AND notice.target = ? AND ifnull(withdrawn_us, ?) = ? ORDER BY incident.rowid",
        (life, target, transaction.now_us, transaction.now_us),
    ).fetchall()
    return [(row[0], row[1], _notice_of(row[2:])) for row in rows]


def save_notice(transaction: Transaction, notice: Notice) -> None:
    """Replace how far a target has been told of an incident."""
    values = [str(notice.state) if column == "state" else getattr(notice, column) for column in _NOTICE]
    transaction.execute(
        f"INSERT OR REPLACE INTO notice ({', '.join(_NOTICE)}) VALUES ({', '.join('?' * len(_NOTICE))})", values
    )


def unsaid(store: Store) -> bool:
    """Whether anything waits for a digest or for the end of a silence."""
    row = store.connection.execute(
        "SELECT 1 FROM notice WHERE state IN ('held', 'changed', 'silenced') LIMIT 1"
    ).fetchone()
    return row is not None


def _notice_of(row: Sequence[object]) -> Notice:
    return msgspec.convert(dict(zip(_NOTICE, row, strict=True)), Notice)


# -- incidents, as stored ---------------------------------------------------------------------------------------------


def stored_incident(transaction: Transaction, incident: str) -> tuple[Incident, bool, str | None] | None:
    """An incident as all readings of it tell it, whether it was taken back, and its server's build."""
    row = transaction.execute(
        f"SELECT {', '.join(f'incident.{column}' for column in INCIDENT_COLUMNS)}, withdrawn_us, build "
        "FROM incident LEFT JOIN life ON life.life = incident.life WHERE id = ?",
        (incident,),
    ).fetchone()
    if row is None:
        return None
    evidence = transaction.execute(
        f"SELECT {', '.join(EVIDENCE_COLUMNS)} FROM evidence WHERE incident = ? ORDER BY id", (incident,)
    ).fetchall()
    return incident_of(row[:-2], [evidence_of(one) for one in evidence]), row[-2] is not None, row[-1]


def hangs_lost_with(transaction: Transaction, life: str) -> list[Incident]:
    """The requests that hung in one server life until that ended, as far as it is known in this transaction.

    A hang that was told of before the death it belongs to is taken back when that is found; it hung all the same.
    """
    rows = transaction.execute(
        f"SELECT {', '.join(INCIDENT_COLUMNS)} FROM incident WHERE life = ? AND kind = 'hung-request' "
        "AND confidence <> 'possible' AND iif(withdrawn_us IS NULL, state = 'lost', withdrawn_us = ?) ORDER BY rowid",
        (life, transaction.now_us),
    ).fetchall()
    return [incident_of(row) for row in rows]


def has_died(transaction: Transaction, life: str) -> bool:
    """Whether a death of this server life is an incident."""
    row = transaction.execute(
        "SELECT 1 FROM incident WHERE life = ? AND kind IN ('sleep-crash', 'wake-failure', 'crash-in-flight', 'crash', "
        "'crash-loop') AND withdrawn_us IS NULL LIMIT 1",
        (life,),
    ).fetchone()
    return row is not None


# -- messages and deliveries ------------------------------------------------------------------------------------------


def write(transaction: Transaction, message: Message) -> int:
    """Keep a message; its id."""
    cursor = transaction.execute(
        "INSERT INTO message (what, incident, type, title, short, long, document, written_us) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            str(message.what), message.incident, message.type, message.title, message.short, message.long,
            message.document, transaction.now_us,
        ),
    )  # fmt: skip
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def queue(transaction: Transaction, message: int, target: str, *, due_us: int, queued_us: int, tries: int = 0) -> None:
    """Let a message go to a target, not before ``due_us``."""
    transaction.execute(
        "INSERT INTO delivery (message, target, state, tries, queued_us, due_us) VALUES (?, ?, 'waiting', ?, ?, ?)",
        (message, target, tries, queued_us, due_us),
    )


def take_back(transaction: Transaction, incident: str, target: str) -> Due | None:
    """Replace the one delivery of an incident to a target that waits, if surely nothing of it arrived, ever.

    Returns it; None where there is none, or where something may have arrived.
    """
    rows = transaction.execute(
        f"{_DUE} WHERE message.incident = ? AND delivery.target = ? AND delivery.state <> 'replaced' LIMIT 2",
        (incident, target),
    ).fetchall()
    if len(rows) != 1:
        return None
    due = _due_of(rows[0])
    row = transaction.execute(
        "SELECT 1 FROM delivery WHERE id = ? AND state = 'waiting' AND NOT EXISTS ("
        "SELECT 1 FROM attempt WHERE attempt.delivery = delivery.id AND ifnull(outcome, '') <> 'failed')",
        (due.delivery,),
    ).fetchone()
    if row is None:
        return None
    _end(transaction, due.delivery, "replaced", transaction.now_us)
    return due


def recent(transaction: Transaction, target: str, since_us: int) -> int:
    """How many incidents were told to a target one by one since this moment."""
    news = ", ".join(f"'{what}'" for what in NEWS)
    row = transaction.execute(
        "SELECT count(*) FROM delivery JOIN message ON message.id = delivery.message "
        f"WHERE delivery.target = ? AND delivery.queued_us >= ? AND state <> 'replaced' AND what IN ({news})",
        (target, since_us),
    ).fetchone()
    return int(row[0])


def told_of_another(transaction: Transaction, target: str, incident: Incident, since_us: int) -> bool:
    """Whether a target was told of another incident of this kind and server since this moment."""
    news = ", ".join(f"'{what}'" for what in NEWS)
    row = transaction.execute(
        "SELECT 1 FROM delivery JOIN message ON message.id = delivery.message "
        "JOIN incident ON incident.id = message.incident "
        "WHERE delivery.target = ? AND delivery.queued_us >= ? AND delivery.state <> 'replaced' "
        f"AND message.what IN ({news}) AND incident.server = ? AND incident.kind = ? AND incident.id <> ? LIMIT 1",
        (target, since_us, incident.server, incident.kind, incident.id),
    ).fetchone()
    return row is not None


def last_digest_us(transaction: Transaction, target: str) -> int | None:
    """When a digest was last queued for a target."""
    row = transaction.execute(
        "SELECT max(delivery.queued_us) FROM delivery JOIN message ON message.id = delivery.message "
        "WHERE delivery.target = ? AND what = 'digest'",
        (target,),
    ).fetchone()
    return None if row[0] is None else int(row[0])


# -- sending ----------------------------------------------------------------------------------------------------------

_DUE = (
    "SELECT delivery.id, delivery.target, delivery.tries, delivery.queued_us, message.what, message.incident, "
    "message.type, message.title, message.short, message.long, message.document "
    "FROM delivery JOIN message ON message.id = delivery.message"
)


_IN_TURN = """
    delivery.state = 'waiting' AND NOT EXISTS (
        SELECT 1 FROM delivery AS earlier JOIN message AS its ON its.id = earlier.message
        WHERE its.incident IS message.incident AND earlier.target = delivery.target
        AND earlier.id < delivery.id AND earlier.state IN ('waiting', 'sending')
    )
"""
"""Of each incident and target the first that is not done; digests of a target come one after the other as well."""


def due(store: Store, now_us: int) -> list[Due]:
    """The deliveries whose turn it is, the oldest first."""
    rows = store.connection.execute(
        f"{_DUE} WHERE {_IN_TURN} AND delivery.due_us <= ? ORDER BY delivery.id LIMIT {BATCH}", (now_us,)
    ).fetchall()
    return [_due_of(row) for row in rows]


def next_due_us(store: Store) -> int | None:
    """When it is the next delivery's turn; None where none waits."""
    row = store.connection.execute(
        f"SELECT min(due_us) FROM delivery JOIN message ON message.id = delivery.message WHERE {_IN_TURN}"
    ).fetchone()
    return None if row[0] is None else int(row[0])


def begin(transaction: Transaction, deliveries: Iterable[int]) -> None:
    """These are being sent from now on."""
    for delivery in deliveries:
        transaction.execute("UPDATE delivery SET state = 'sending' WHERE id = ?", (delivery,))
        transaction.execute("INSERT INTO attempt (delivery, begun_us) VALUES (?, ?)", (delivery, transaction.now_us))


def finish(transaction: Transaction, delivery: Due, outcome: str, words: str, now_us: int, *, give_up_us: int) -> str:
    """Record what came of an attempt; returns the delivery's state then.

    Not ``sent``: it is tried again, later and later, until it is older than ``give_up_us``.
    """
    transaction.execute(
        "UPDATE attempt SET ended_us = ?, outcome = ?, words = ? WHERE delivery = ? AND ended_us IS NULL",
        (now_us, outcome, words, delivery.delivery),
    )
    tries = delivery.tries + 1
    if outcome == "sent":
        state = "sent"
    elif now_us - delivery.queued_us >= give_up_us and tries >= TRIES_AT_LEAST:
        state = "undeliverable"
    else:
        transaction.execute(
            "UPDATE delivery SET state = 'waiting', tries = ?, due_us = ? WHERE id = ?",
            (tries, now_us + wait_us(tries), delivery.delivery),
        )
        return "waiting"
    transaction.execute("UPDATE delivery SET tries = ? WHERE id = ?", (tries, delivery.delivery))
    _end(transaction, delivery.delivery, state, now_us)
    return state


def postpone(transaction: Transaction, delivery: int, due_us: int) -> None:
    """It was not tried after all: its target did not take what came before it."""
    transaction.execute("DELETE FROM attempt WHERE delivery = ? AND ended_us IS NULL", (delivery,))
    transaction.execute("UPDATE delivery SET state = 'waiting', due_us = ? WHERE id = ?", (due_us, delivery))


def wait_us(tries: int) -> int:
    """How long to wait after so many failed tries: half a minute, doubled each time, at most an hour."""
    return min(LONGEST_WAIT_US, FIRST_WAIT_US << min(tries - 1, 20))


def interrupted(transaction: Transaction, now_us: int) -> int:
    """What an earlier run was sending when it ended may have arrived: it is sent again. How many."""
    transaction.execute(
        "UPDATE attempt SET ended_us = ?, outcome = 'interrupted', "
        "words = 'broken off with the daemon: it may have arrived, and is sent again' WHERE ended_us IS NULL",
        (now_us,),
    )
    return transaction.execute(
        "UPDATE delivery SET state = 'waiting', tries = tries + 1, due_us = ? WHERE state = 'sending'", (now_us,)
    ).rowcount


def give_up_without(transaction: Transaction, targets: Iterable[str], now_us: int) -> int:
    """What waits for a target that there is no more is undeliverable. How many."""
    known = list(targets)
    rows = transaction.execute(
        f"SELECT id FROM delivery WHERE state = 'waiting' AND target NOT IN ({', '.join('?' * len(known))})", known
    ).fetchall()
    for (delivery,) in rows:
        transaction.execute(
            "INSERT INTO attempt (delivery, begun_us, ended_us, outcome, words) "
            "VALUES (?, ?, ?, 'failed', 'no such target is configured any more')",
            (delivery, now_us, now_us),
        )
        _end(transaction, delivery, "undeliverable", now_us)
    return len(rows)


def forget(transaction: Transaction, before_us: int) -> None:
    """Forget what was done with before this moment."""
    done = "SELECT id FROM delivery WHERE done_us IS NOT NULL AND done_us < ?"
    transaction.execute(f"DELETE FROM attempt WHERE delivery IN ({done})", (before_us,))
    transaction.execute("DELETE FROM delivery WHERE done_us IS NOT NULL AND done_us < ?", (before_us,))
    transaction.execute(
        "DELETE FROM message WHERE written_us < ? "
        "AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.message = message.id)",
        (before_us,),
    )


def _end(transaction: Transaction, delivery: int, state: str, now_us: int) -> None:
    transaction.execute("UPDATE delivery SET state = ?, done_us = ? WHERE id = ?", (state, now_us, delivery))


def _due_of(row: Sequence[object]) -> Due:
    names = ("what", "incident", "type", "title", "short", "long", "document")
    message = msgspec.convert(dict(zip(names, row[4:], strict=True)), Message)
    head = dict(zip(("delivery", "target", "tries", "queued_us"), row[:4], strict=True))
    return msgspec.convert({**head, "message": message}, Due)


# -- telling how it stands --------------------------------------------------------------------------------------------


def undelivered(store: Store, since_us: int) -> list[Undelivered]:
    """What waits, and what was given up since this moment, the oldest first."""
    rows = store.connection.execute(
        """
        SELECT delivery.id, delivery.state, delivery.target, message.what, message.incident, message.title,
               delivery.tries, delivery.queued_us, delivery.due_us, delivery.done_us,
               (SELECT words FROM attempt WHERE attempt.delivery = delivery.id AND ended_us IS NOT NULL
                ORDER BY id DESC LIMIT 1)
        FROM delivery JOIN message ON message.id = delivery.message
        WHERE delivery.state IN ('waiting', 'sending') OR (delivery.state = 'undeliverable' AND delivery.done_us >= ?)
        ORDER BY delivery.id
        """,
        (since_us,),
    ).fetchall()
    return [msgspec.convert(dict(zip(Undelivered.__struct_fields__, row, strict=True)), Undelivered) for row in rows]


def attempts(store: Store, delivery: int) -> list[Attempt]:
    """Every try of a delivery, in order."""
    rows = store.connection.execute(
        f"SELECT {', '.join(Attempt.__struct_fields__)} FROM attempt WHERE delivery = ? ORDER BY id", (delivery,)
    ).fetchall()
    return [Attempt(**dict(zip(Attempt.__struct_fields__, row, strict=True))) for row in rows]


def oldest_us(store: Store) -> int | None:
    """When the oldest delivery that has not arrived was queued; None where none waits."""
    row = store.connection.execute(
        "SELECT min(queued_us) FROM delivery WHERE state IN ('waiting', 'sending')"
    ).fetchone()
    return None if row[0] is None else int(row[0])
