"""Every made log, read as ``scan`` reads it: exactly what is written beside it must be found."""

from __future__ import annotations

import pytest

from sleepwatch.model import ScanResult
from tests.cases import deaths, hangs, routers, streams, texts
from tests.cases.case import Case, judge, shown
from tests.reader.reading import read

CASES: list[Case] = [*hangs.CASES, *deaths.CASES, *routers.CASES, *streams.CASES, *texts.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    reading = read([case.log])
    result = ScanResult(sources=(), lives=tuple(reading.lives), incidents=tuple(reading.incidents.values()), gaps=())
    left = list(result.incidents)
    missing = []
    for expected in case.found:
        match = next((incident for incident in left if expected.fits(incident)), None)
        if match is None:
            missing.append(expected)
        else:
            left.remove(match)
    assert not missing and not left, f"{case.why}\nmissing: {missing}\n{shown(result)}"
    if case.lives is not None:
        assert len(result.lives) == len(case.lives), shown(result)
        for life, said in zip(result.lives, case.lives, strict=True):
            assert {name: getattr(life, name) for name in said} == said, shown(result)


@pytest.mark.parametrize("case", CASES[::9], ids=lambda case: case.name)
def test_scan_finds_the_same_in_a_file(case: Case) -> None:
    result = judge(case.log)
    assert not result.failed
    assert [i.id for i in result.incidents] == list(read([case.log]).incidents)


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
