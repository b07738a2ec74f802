"""The incident database: recording readings, and looking incidents up."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from sleepwatch import clock
from sleepwatch.errors import StoreError
from sleepwatch.model import Evidence, Incident, ScanResult
from sleepwatch.store.database import BUSY_TIMEOUT_MS, connect, explained
from sleepwatch.store.rows import EVIDENCE_COLUMNS, INCIDENT_COLUMNS, evidence_of, incident_of
from sleepwatch.store.transaction import RecordOutcome, Transaction

_NAMED = 5


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of an incident's timeline."""

    from_state: str | None
    """None for the first."""
    to_state: str
    kind: str
    confidence: str
    count: int
    reason: str
    rules_digest: str | None
    at_us: int | None
    """When it happened, where the log tells the wall time."""
    recorded_us: int
    """When it was stored."""


def open_store(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    now: Callable[[], int] = clock.wall_us,
) -> Store:
    """Open the incident database at ``path``, made or brought up to date where needed.

    ``create=False`` takes only one that is there; ``read_only`` implies it and never writes. ``now`` gives the wall
    time in microseconds. Raises StoreError: no such file, a directory, not a database, another program's, newer than
    this program, locked, not writable, disk full.
    """
    place = Path(path)
    connection = connect(place, create=create, read_only=read_only, busy_timeout_ms=busy_timeout_ms)
    return Store(place, connection, now)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Store:
    """An open incident database. A context manager; used by one thread at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection, now: Callable[[], int]) -> None:
        self.path = path
        self.connection = connection
        self._now = now
        self._file = _identity(path)

    @property
    def in_place(self) -> bool:
        """Whether what is written still goes into the file of this name: it can be removed, or another put there."""
        return _identity(self.path) == self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What was committed stays."""
        self.connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All writes of the block together, or none where it raises.

        Inside another such block it becomes a part of that one: undone alone if it raises, committed with the whole.
        Raises StoreError where the file cannot be written.
        """
        begin, commit, undo = "BEGIN IMMEDIATE", "COMMIT", ["ROLLBACK"]
        if self.connection.in_transaction:
            begin, commit, undo = "SAVEPOINT part", "RELEASE part", ["ROLLBACK TO part", "RELEASE part"]
        with explained(self.path):
            self.connection.execute(begin)
            try:
                yield Transaction(self.connection, self._now())
                self.connection.execute(commit)
            except BaseException:
                if self.connection.in_transaction:  # a full disk has already rolled back by itself
                    for statement in undo:
                        self.connection.execute(statement)
                raise

    def record(self, result: ScanResult, rules_digest: str | None = None) -> RecordOutcome:
        """Store a reading in one transaction; what is already known is not stored twice. Raises StoreError."""
        with self.transaction() as transaction:
            return transaction.record(result, rules_digest)

    def incidents(
        self,
        *,
        ids: Sequence[str] = (),
        kinds: Sequence[str] = (),
        servers: Sequence[str] = (),
        states: Sequence[str] = (),
        possible: bool = False,
        since_us: int | None = None,
    ) -> list[Incident]:
        """Incidents with their evidence, oldest first; an empty filter lets all through.

        ``since_us`` is about the time of opening; where the log told none, the time of recording stands for it, which
        is never earlier. Those taken back are never among them.
        """
        conditions = ["withdrawn_us IS NULL"]
        parameters: list[Any] = []
        for column, wanted in (("id", ids), ("kind", kinds), ("server", servers), ("state", states)):
            if wanted:
                conditions.append(f"{column} IN ({', '.join('?' * len(wanted))})")
                parameters += wanted
        if not possible:
            conditions.append("confidence <> 'possible'")
        if since_us is not None:
            conditions.append("ifnull(opened_us, recorded_us) >= ?")
            parameters.append(since_us)
        with explained(self.path):
            rows = self.connection.execute(
                f"""
                SELECT {", ".join(INCIDENT_COLUMNS)} FROM incident WHERE {" AND ".join(conditions)}
                ORDER BY ifnull(opened_us, recorded_us), rowid
                """,
                parameters,
            ).fetchall()
            return [incident_of(row, self._evidence(row[0])) for row in rows]

    def incident(self, id_prefix: str) -> Incident:
        """The one incident whose id begins so. Raises StoreError where there is none, or more than one."""
        with explained(self.path):
            rows = self.connection.execute(
                f"SELECT {', '.join(INCIDENT_COLUMNS)} FROM incident WHERE substr(id, 1, ?) = ? ORDER BY id",
                (len(id_prefix), id_prefix),
            ).fetchall()
            if not rows or not id_prefix:
                raise StoreError(
                    f"no incident in {self.path} has an id that begins with '{id_prefix}'",
                    hint="`sleepwatch incidents list --possible` shows all of them",
                )
            if len(rows) > 1:
                names = ", ".join(row[0] for row in rows[:_NAMED])
                raise StoreError(
                    f"{len(rows)} incidents in {self.path} have an id that begins with '{id_prefix}'",
                    hint=f"name one of them: {names}{' …' if len(rows) > _NAMED else ''}",
                )
            return incident_of(rows[0], self._evidence(rows[0][0]))

    def timeline(self, incident_id: str) -> list[Transition]:
        """Every transition of an incident, in the order they were stored."""
        columns = Transition.__struct_fields__
        with explained(self.path):
            rows = self.connection.execute(
                f"SELECT {', '.join(columns)} FROM incident_event WHERE incident = ? ORDER BY id", (incident_id,)
            )
            return [Transition(**dict(zip(columns, row, strict=True))) for row in rows]

    def _evidence(self, incident_id: str) -> list[Evidence]:
        rows = self.connection.execute(
            f"SELECT {', '.join(EVIDENCE_COLUMNS)} FROM evidence WHERE incident = ? ORDER BY id", (incident_id,)
        )
        return [evidence_of(row) for row in rows]
