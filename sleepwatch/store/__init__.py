"""The incident database: one SQLite file, described in docs/database.md."""

from __future__ import annotations

from sleepwatch.store.database import default_path
from sleepwatch.store.store import Store, Transition, open_store
from sleepwatch.store.transaction import RecordOutcome, Transaction

__all__ = ["RecordOutcome", "Store", "Transaction", "Transition", "default_path", "open_store"]
