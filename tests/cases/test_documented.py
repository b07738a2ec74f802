"""docs/verdicts.md names its cases, and no case stands without a rule."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases.case import judge
from tests.cases.made import coloured, compose, joined, journal, log
from tests.cases.test_cases import CASES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "verdicts.md").read_text()


def test_every_case_stands_under_a_rule() -> None:
    assert [case.name for case in CASES if f"`{case.name}`" not in PAGE] == []


def test_every_name_on_the_page_is_a_case_or_a_recording() -> None:
    known = {case.name for case in CASES} | {path.name for path in (ROOT / "tests" / "corpus").iterdir()}
    names = re.findall(r"`([a-z0-9][\w.]*(?:-[\w.*]+)+)`", PAGE)
    kinds = {"crash-loop", "sleep-crash", "wake-failure", "crash-in-flight", "hung-request", "stalled-request"}
    left = [name for name in names if name not in known | kinds and not name.endswith("*")]
    assert left == []


def test_the_pages_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((\.\./[^)]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_a_carrier_changes_no_identity() -> None:
    script = "0 start\n1 serve 0\n2.1 sleep\n9 cancel 2\n20 wake\n20.4 ready\n20.41 serve 4\n"
    shapes = [log(script), log(script, end="\r\n"), coloured(log(script)), joined(journal(script)), compose(script)]
    ids = {tuple(incident.id for incident in judge(shape).incidents) for shape in shapes}
    assert len(ids) == 1
    assert len(ids.pop()) == 1
