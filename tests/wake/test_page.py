"""The page on waking: what it points at is there, and what it lists is all there is."""

from __future__ import annotations

import re
from pathlib import Path

from sleepwatch.store import open_store
from sleepwatch.store.actions import UNKNOWN
from sleepwatch.wake import attempt
from sleepwatch.wake.policy import FAILURES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "wake.md").read_text()
OUTCOMES = {
    attempt.RELEASED, attempt.NOT_RELEASED, attempt.ALREADY_AWAKE, attempt.ABANDONED, attempt.UNREACHABLE,
    attempt.REFUSED, attempt.CRASHED, attempt.TIMEOUT, attempt.WOULD_WAKE, UNKNOWN,
}  # fmt: skip
"""``woke`` is none of the daemon's: it waits until it knows more."""


def test_every_test_it_names_exists() -> None:
    references = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(references) > 5
    for file, name in references:
        text = (ROOT / file).read_text()
        assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), f"{file}::{name}"


def test_every_outcome_is_explained_and_can_be_stored(tmp_path: Path) -> None:
    table = PAGE.partition("| outcome | |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([\w-]+)`", table, re.MULTILINE)) == OUTCOMES
    with open_store(tmp_path / "a.db") as store:
        (sql,) = store.connection.execute("SELECT sql FROM sqlite_master WHERE name = 'actions'").fetchone()
    checked = sql.partition("CHECK (outcome IN (")[2].partition(")")[0]
    assert set(re.findall(r"'([\w-]+)'", checked)) == OUTCOMES
    assert FAILURES < OUTCOMES
