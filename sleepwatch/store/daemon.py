"""What the daemon keeps beside the incidents: how far each source was read, the engine's state, its own pulse.

All of it is written in the transaction that also holds the incidents found up to there, so a restart finds the two in
step whatever happened in between.
"""

from __future__ import annotations

import msgspec

from sleepwatch.model import Gap, Incident
from sleepwatch.printable import printable, restored, storable
from sleepwatch.store.store import Store
from sleepwatch.store.transaction import Transaction


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far one source was read."""

    source: str
    file: bytes
    """The follower's own checkpoint, as JSON."""
    state: bytes
    """The reader's and the engine's state (:mod:`sleepwatch.engine.state`)."""
    rules_digest: str
    saved_us: int = 0


class WatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One source as ``status`` shows it."""

    source: str
    state: str
    reason: str | None = None
    since_us: int | None = None
    offset: int = 0
    unread: int = 0
    envelope: str | None = None
    lives: int = 0
    seen_us: int = 0


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's sign of life."""

    pid: int
    version: str
    started_us: int
    beat_us: int
    stopped_us: int | None = None


def save_checkpoint(transaction: Transaction, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of one source."""
    transaction.execute(
        "INSERT INTO checkpoint (source, file, state, rules_digest, saved_us) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (source) DO UPDATE SET file = excluded.file, state = excluded.state, "
        "rules_digest = excluded.rules_digest, saved_us = excluded.saved_us",
        (
            storable(checkpoint.source),
            checkpoint.file.decode(),
            checkpoint.state,
            checkpoint.rules_digest,
            transaction.now_us,
        ),
    )


def checkpoints(store: Store) -> dict[str, Checkpoint]:
    """Every saved checkpoint, by source."""
    rows = store.connection.execute("SELECT source, file, state, rules_digest, saved_us FROM checkpoint").fetchall()
    found = (
        Checkpoint(source=restored(row[0]), file=row[1].encode(), state=row[2], rules_digest=row[3], saved_us=row[4])
        for row in rows
    )
    return {one.source: one for one in found}


def save_watches(transaction: Transaction, watches: list[WatchRow]) -> None:
    """Replace what is told of the watched sources."""
    transaction.execute("DELETE FROM watch")
    for watch in watches:
        transaction.execute(
            'INSERT INTO watch (source, state, reason, since_us, "offset", unread, envelope, lives, seen_us) '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                printable(watch.source), watch.state, printable(watch.reason) if watch.reason else None,
                watch.since_us, watch.offset, watch.unread, watch.envelope, watch.lives, transaction.now_us,
            ),
        )  # fmt: skip


def watches_seen(transaction: Transaction) -> None:
    """What is told of the watched sources still holds."""
    transaction.execute("UPDATE watch SET seen_us = ?", (transaction.now_us,))


def watches(store: Store) -> list[WatchRow]:
    """The watched sources, as last told."""
    rows = store.connection.execute(
        'SELECT source, state, reason, since_us, "offset", unread, envelope, lives, seen_us FROM watch ORDER BY source'
    ).fetchall()
    return [
        WatchRow(
            source=row[0], state=row[1], reason=row[2], since_us=row[3], offset=row[4], unread=row[5],
            envelope=row[6], lives=row[7], seen_us=row[8],
        )
        for row in rows
    ]  # fmt: skip


def save_pulse(transaction: Transaction, pulse: Pulse) -> None:
    """Replace the daemon's sign of life."""
    transaction.execute(
        "INSERT OR REPLACE INTO watcher (id, pid, version, started_us, beat_us, stopped_us) VALUES (1, ?, ?, ?, ?, ?)",
        (pulse.pid, pulse.version, pulse.started_us, pulse.beat_us, pulse.stopped_us),
    )


def pulse(store: Store) -> Pulse | None:
    """The daemon's last sign of life; None where none ever ran."""
    row = store.connection.execute("SELECT pid, version, started_us, beat_us, stopped_us FROM watcher").fetchone()
    if row is None:
        return None
    return Pulse(pid=row[0], version=row[1], started_us=row[2], beat_us=row[3], stopped_us=row[4])


def gaps_since(store: Store, since_us: int) -> list[Gap]:
    """The gaps that reach beyond this wall time, oldest first. Those whose time is not known are not among them."""
    columns = Gap.__struct_fields__
    rows = store.connection.execute(
        f"SELECT {', '.join(columns)} FROM gap WHERE ifnull(to_us, from_us) >= ? ORDER BY ifnull(to_us, from_us), id",
        (since_us,),
    ).fetchall()
    return [Gap(**dict(zip(columns, row, strict=True))) for row in rows]


def known_incident(transaction: Transaction, incident_id: str) -> bool:
    """Whether this incident is already stored, above ``possible``."""
    row = transaction.execute(
        "SELECT 1 FROM incident WHERE id = ? AND confidence <> 'possible'", (incident_id,)
    ).fetchone()
    return row is not None


def open_counts(store: Store) -> dict[tuple[str, str], int]:
    """How many incidents above ``possible`` are open, by kind and severity."""
    rows = store.connection.execute(
        "SELECT kind, severity, count(*) FROM incident "
        "WHERE state = 'open' AND confidence <> 'possible' AND withdrawn_us IS NULL GROUP BY kind, severity"
    )
    return {(kind, severity): count for kind, severity, count in rows}


def open_blindness(store: Store) -> dict[str, list[Incident]]:
    """The blindness that had not ended when it was last told of, by source."""
    found: dict[str, list[Incident]] = {}
    for incident in store.incidents(kinds=("blind",), states=("open",)):
        found.setdefault(incident.server, []).append(incident)
    return found


def forget_lives(transaction: Transaction, before_us: int) -> int:
    """Forget the lives that ended before this time and had no incident; how many."""
    cursor = transaction.execute(
        "DELETE FROM life WHERE ended_us IS NOT NULL AND ended_us < ? "
        "AND NOT EXISTS (SELECT 1 FROM incident WHERE incident.life = life.life)",
        (before_us,),
    )
    return cursor.rowcount
