"""Fed live at its own pace, a log gives the incidents a scan of it gives: the same ids, times and evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleepwatch.scan import scan
from tests.reader.reading import RECORDINGS, recording
from tests.service.driving import (
    Driven,
    feed,
    new_database,
    paced,
    scanned,
    stored,
)

LARGE = {"b11368-lv5-rescue", "b11368-traffic-lv4"}
"""Tens of thousands of lines: for the slow run."""


def _difference(live: dict[str, dict[str, object]], whole: dict[str, dict[str, object]]) -> list[object]:
    """What differs, short enough to read."""
    out: list[object] = []
    for key in sorted(live.keys() | whole.keys()):
        one, other = live.get(key), whole.get(key)
        if one is None or other is None:
            out.append(("live only" if other is None else "scan only", one or other))
        elif one != other:
            out.append((key, {name: (one[name], other[name]) for name in one if one[name] != other[name]}))
    return out


def _scanned_alone(directory: Path, data: bytes) -> dict[str, dict[str, object]]:
    directory.mkdir()
    (directory / "server.log").write_bytes(data)
    return scanned(scan([str(directory / "server.log")]))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in RECORDINGS]
)
def test_live_equals_scan(name: str, tmp_path: Path) -> None:
    data = recording(name)
    log = tmp_path / "server.log"
    log.touch()
    with Driven(new_database(tmp_path / "live.db"), [log]) as driven:
        driven.step()
        feed(driven, log, paced(data))
    assert _difference(stored(tmp_path / "live.db"), _scanned_alone(tmp_path / "whole", data)) == []
