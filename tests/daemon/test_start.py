"""How soon the daemon is where the log is (made)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sleepwatch.errors import StoreError
from tests.cases.made import log
from tests.daemon.driving import SECOND, Driven, new_database, stored

FILLING = b"0.01.000.000 D srv  update_slots: " + b"x" * 990 + b"\n"


def test_where_to_begin_is_looked_for_without_waiting(tmp_path: Path) -> None:
    """A long log at the very first start: the search for the current life takes many looks, and no time between."""
    path = tmp_path / "server.log"
    path.write_bytes(log("0 start\n1 serve 0\n") + FILLING * 20_000 + log("2.1 sleep\n9 cancel 2\n"))
    with Driven(new_database(tmp_path / "x.db"), [path]) as driven:
        driven.run_for(SECOND // 2)
        driven.run_for(2 * SECOND)
    assert [one["state"] for one in stored(tmp_path / "x.db").values()] == ["abandoned"]


def test_a_restart_in_a_long_log_waits_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(log("0 start\n1 serve 0\n") + FILLING * 20_000)
    database = new_database(tmp_path / "x.db")
    with Driven(database, [path]) as driven:
        driven.run_for(2 * SECOND)
    with path.open("ab") as file:
        file.write(log("2.1 sleep\n9 cancel 2\n"))
    with Driven(database, [path]) as driven:
        driven.run_for(SECOND // 2)
    assert [one["state"] for one in stored(tmp_path / "x.db").values()] == ["abandoned"]


def test_a_name_that_is_no_text_is_a_name_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff \\xff.log")
    path.write_bytes(log("0 start lv=5\n1 serve 0\n2 sleep\n2.01 post 4\n"))
    database = new_database(tmp_path / "x.db")
    with Driven(database, [path]) as driven:
        driven.run_for(5 * SECOND)
    with path.open("ab") as file:
        file.write(log("30 wake\n31 launch 5\n31.1 release 5\n31.2 launch 4\n31.3 release 4\n"))
    with Driven(database, [path]) as driven:
        driven.run_for(SECOND)
        assert driven.complained == []
    assert [one["state"] for one in stored(database).values()] == ["recovered"]


def test_a_database_that_is_removed_is_not_written_to_unseen(tmp_path: Path) -> None:
    """The service ends, and its next start finds again what the logs still hold."""
    path, database = tmp_path / "server.log", new_database(tmp_path / "x.db")
    path.write_bytes(log("0 start\n1 serve 0\n2.1 sleep\n9 cancel 2\n"))
    with Driven(database, [path]) as driven:
        driven.run_for(SECOND)
        for file in tmp_path.glob("x.db*"):
            file.unlink()
        with pytest.raises(StoreError, match="was removed or replaced"):
            driven.run_for(60 * SECOND)
    with Driven(database, [path]) as driven:
        driven.run_for(SECOND)
    assert [one["state"] for one in stored(database).values()] == ["abandoned"]


def test_a_database_that_another_takes_the_place_of(tmp_path: Path) -> None:
    path, database = tmp_path / "server.log", new_database(tmp_path / "x.db")
    path.write_bytes(log("0 start\n1 serve 0\n"))
    with Driven(database, [path]) as driven:
        driven.run_for(SECOND)
        new_database(tmp_path / "other.db").rename(database)
        with pytest.raises(StoreError, match="was removed or replaced"):
            driven.run_for(60 * SECOND)
