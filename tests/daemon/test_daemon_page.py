"""The page on the daemon: what it points at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleepwatch.config import Settings
from sleepwatch.daemon.watching import SILENT_AT_WORK_US, SILENT_US

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "daemon.md"
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_it_names_exists() -> None:
    references = REFERENCE.findall(PAGE.read_text())
    assert len(references) > 10
    for file, name in references:
        path = ROOT / file
        assert path.is_file(), file
        if name:
            assert re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE), f"{file}::{name}"


def test_every_promise_names_a_test() -> None:
    table = PAGE.read_text().partition("## Reliability")[2]
    rows = [line for line in table.splitlines() if line.startswith("| **")]
    assert len(rows) >= 8
    for row in rows:
        assert REFERENCE.search(row.split("|")[2]), row


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)", PAGE.read_text()))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()


def test_its_figures_are_those_of_the_program() -> None:
    text = PAGE.read_text()
    assert Settings().following.blind_seconds == 60
    assert "for a minute (`following.blind_seconds`)" in text
    assert (SILENT_US, SILENT_AT_WORK_US) == (120_000_000, 1_800_000_000)
    assert "for\n  two minutes, or for half an hour" in text
