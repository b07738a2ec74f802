"""The page on notifications: what it points at is there, and its figures are those of the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleepwatch.notify.outbox import FIRST_WAIT_US, LONGEST_WAIT_US
from sleepwatch.notify.policy import What
from sleepwatch.notify.teller import HANG_WAITS_US, TOGETHER_US

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "notify.md"
TEXT = PAGE.read_text()


@pytest.mark.parametrize(("file", "name"), re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT))
def test_a_test_it_names_exists(file: str, name: str) -> None:
    assert re.search(rf"^def {name}" if name else "^def test_", (ROOT / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("link", [link for link in re.findall(r"\]\(([^)#]+)", TEXT) if "://" not in link])
def test_every_link_leads_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()


def test_it_names_every_message() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
    assert rows == {str(what) for what in What} - {"test"}


def test_its_figures_are_those_of_the_program() -> None:
    assert (FIRST_WAIT_US, LONGEST_WAIT_US) == (30_000_000, 3_600_000_000)
    assert "after half a minute" in TEXT and "at most an hour" in TEXT
    assert HANG_WAITS_US == 5_000_000
    assert "News of a hang waits five seconds" in TEXT
    assert TOGETHER_US == 60_000_000
    assert "in a digest a minute later" in TEXT
