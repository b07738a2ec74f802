"""Silences: for a while, of some servers or kinds of incident, nobody is told. The incidents are kept all the same.

What opened under a silence and is still open when it ends is told then. Who was told of a beginning before is told of
the end during it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from sleepwatch.model import Incident
from sleepwatch.store.store import Store
from sleepwatch.store.transaction import Transaction

_COLUMNS = ("id", "server", "kind", "reason", "added_us", "until_us", "kept_back")


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """One silence."""

    id: int
    server: str | None
    """A pattern of server names; None for all."""
    kind: str | None
    """A kind of incident; None for all."""
    reason: str
    added_us: int
    until_us: int
    kept_back: int
    """How often it kept something from being told to a target."""

    def covers(self, incident: Incident, now_us: int) -> bool:
        """Whether it is in force, for this incident."""
        return (
            now_us < self.until_us
            and self.kind in (None, incident.kind)
            and (self.server is None or fnmatchcase(incident.server, self.server))
        )


def add(transaction: Transaction, *, server: str | None, kind: str | None, reason: str, until_us: int) -> int:
    """Add a silence from now on; its number."""
    cursor = transaction.execute(
        "INSERT INTO silence (server, kind, reason, added_us, until_us) VALUES (?, ?, ?, ?, ?)",
        (server, kind, reason, transaction.now_us, until_us),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def end(transaction: Transaction, number: int) -> bool:
    """End one now; False where none of this number is in force."""
    cursor = transaction.execute(
        "UPDATE silence SET until_us = ? WHERE id = ? AND until_us > ?",
        (transaction.now_us, number, transaction.now_us),
    )
    return cursor.rowcount > 0


def silences(of: Store | Transaction, since_us: int) -> list[Silence]:
    """Those that had not ended at this moment, the oldest first."""
    execute = of.connection.execute if isinstance(of, Store) else of.execute
    rows = execute(f"SELECT {', '.join(_COLUMNS)} FROM silence WHERE until_us > ? ORDER BY id", (since_us,)).fetchall()
    return [Silence(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]


def kept_back(transaction: Transaction, silence: Silence) -> None:
    """It has kept something from being told."""
    transaction.execute("UPDATE silence SET kept_back = kept_back + 1 WHERE id = ?", (silence.id,))
