"""Open incidents after a restart that took over other rules, no state, or another set of logs (made)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sleepwatch.store import open_store
from tests.cases.made import log
from tests.daemon.driving import SECOND, Driven, new_database

HANGS = log("0 start lv=5\n1 serve 0\n2 sleep\n2.01 post 4\n")
"""A request that was queued while the server slept."""
WOKEN = log("30 wake\n31 launch 5\n31.1 release 5\n31.2 launch 4\n31.3 release 4\n")


def states(database: Path) -> list[tuple[str, str]]:
    with open_store(database, read_only=True) as store:
        return [(one.kind, one.state) for one in store.incidents()]


def change(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    """The database of a daemon that stopped while a request hung."""
    (tmp_path / "server.log").write_bytes(HANGS)
    database = new_database(tmp_path / "x.db")
    with Driven(database, [tmp_path / "server.log"]) as driven:
        driven.run_for(5 * SECOND)
    assert states(database) == [("hung-request", "open")]
    return database


def other_rules(database: Path) -> None:
    change(database, "UPDATE checkpoint SET rules_digest = 'of an older version'")


def no_state(database: Path) -> None:
    change(database, "UPDATE checkpoint SET state = x'00'")


@pytest.mark.parametrize("between", [lambda database: None, other_rules], ids=["the same", "other rules"])
def test_what_is_open_goes_on(hung: Path, between: Callable[[Path], None]) -> None:
    path = hung.with_name("server.log")
    between(hung)
    with Driven(hung, [path]) as driven:
        driven.run_for(SECOND)
        assert states(hung) == [("hung-request", "open")]
        with path.open("ab") as file:
            file.write(WOKEN)
        driven.run_for(SECOND)
    assert states(hung) == [("hung-request", "recovered")]


def test_what_cannot_be_gone_on_with_is_unresolved(hung: Path) -> None:
    no_state(hung)
    with Driven(hung, [hung.with_name("server.log")]) as driven:
        driven.run_for(SECOND)
        assert any("begin anew" in sentence for sentence in driven.complained)
        assert any(line.startswith("unresolved: CRITICAL hung-request") for line in driven.said)
    assert states(hung) == [("hung-request", "unresolved")]


def test_what_is_no_longer_watched_is_unresolved_and_goes_on_when_it_is_again(hung: Path) -> None:
    path, other = hung.with_name("server.log"), hung.with_name("other.log")
    other.touch()
    with Driven(hung, [other]) as driven:
        driven.run_for(SECOND)
    assert states(hung) == [("hung-request", "unresolved")]
    with path.open("ab") as file:
        file.write(WOKEN)
    with Driven(hung, [path, other]) as driven:
        driven.run_for(SECOND)
    assert states(hung) == [("hung-request", "recovered")]


def test_a_crash_that_nobody_can_follow_is_down(tmp_path: Path) -> None:
    path, database = tmp_path / "server.log", new_database(tmp_path / "x.db")
    path.write_bytes(log("0 start\n1 launch 0\n") + b"Segmentation fault (core dumped)\n")
    with Driven(database, [path]) as driven:
        driven.run_for(5 * SECOND)
    assert [state for _, state in states(database)] == ["open"]
    with Driven(database, [tmp_path / "other.log"]) as driven:
        driven.run_for(SECOND)
    assert [state for kind, state in states(database) if kind != "blind"] == ["down"]
