"""What is written about the database is in step with it: docs/database.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleepwatch.model import KINDS
from sleepwatch.store import Store, open_store
from tests.support.results import RESULT

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "incidents.db") as store:
        store.record(RESULT)
        yield store


def test_the_documentation_names_every_table_view_and_column(store: Store) -> None:
    text = (ROOT / "docs" / "database.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", text, re.MULTILINE))
    objects = store.connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB '[_s]*sqlite_*'"
    ).fetchall()
    assert set(rows) == {name for kind, name in objects if kind == "table"} - {"_sqlite_migrations"}
    for kind, name in objects:
        if kind == "view":
            assert f"`{name}`" in text
        elif name in rows and name != "meta":
            columns = {row[1] for row in store.connection.execute(f"PRAGMA table_info({name})")} - {"id"}
            assert {column for column in columns if f"`{column}`" not in rows[name]} == set()


def test_the_documented_order_of_kinds_is_the_one_used() -> None:
    text = (ROOT / "docs" / "database.md").read_text()
    order = re.findall(r"`([a-z-]+)` <", text)
    assert order == [kind for kind in KINDS if kind in order]
    assert len(order) == 3
