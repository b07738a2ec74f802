"""What was done about incidents: one row for each wake, begun before anything is sent."""

from __future__ import annotations

import msgspec

from sleepwatch.printable import printable
from sleepwatch.store.store import Store
from sleepwatch.store.transaction import Transaction

UNKNOWN = "unknown"
"""Sleepwatch ended before it was known what came of it."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One wake, begun or observed. Times are wall times."""

    incident: str
    server: str
    mode: str
    begun_us: int
    id: int = 0
    url: str | None = None
    request: str | None = None
    """The kind of request that was sent."""
    outcome: str | None = None
    """None: it is under way."""
    words: str | None = None
    status: int | None = None
    """Of the server's answer."""
    waiting: int | None = None
    """Connections seen to wait right before; None where that cannot be seen."""
    sent_us: int | None = None
    answered_us: int | None = None
    ended_us: int | None = None
    """When it was known what came of it."""
    waited_us: int | None = None
    """How long the request waited in all, from the server's falling asleep until it was taken up."""


_COLUMNS = tuple(name for name in Action.__struct_fields__ if name != "id")


def begin_action(transaction: Transaction, action: Action) -> int:
    """Note that this is about to be done; its number."""
    names = ", ".join(_COLUMNS)
    cursor = transaction.execute(
        f"INSERT INTO actions ({names}) VALUES ({', '.join('?' * len(_COLUMNS))})", _values(action)
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def save_action(transaction: Transaction, action: Action) -> None:
    """Replace what is known of one."""
    sets = ", ".join(f"{name} = ?" for name in _COLUMNS)
    transaction.execute(f"UPDATE actions SET {sets} WHERE id = ?", (*_values(action), action.id))


def actions(store: Store, *, since_us: int = 0, incident: str | None = None) -> list[Action]:
    """Those begun since this wall time, or about this incident, in order."""
    names = ("id", *_COLUMNS)
    rows = store.connection.execute(
        f"SELECT {', '.join(names)} FROM actions WHERE begun_us >= ? AND (? IS NULL OR incident = ?) ORDER BY id",
        (since_us, incident, incident),
    ).fetchall()
    return [Action(**dict(zip(names, row, strict=True))) for row in rows]


def actions_under_way(store: Store) -> list[Action]:
    """Those of which nothing is known yet."""
    return [one for one in actions(store) if one.outcome is None]


def _values(action: Action) -> tuple[object, ...]:
    values = (getattr(action, name) for name in _COLUMNS)
    return tuple(printable(value) if isinstance(value, str) else value for value in values)
