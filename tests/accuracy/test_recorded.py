"""Every recording of a real server, compared with what its clients saw; ``make accuracy`` prints it as a table."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sleepwatch.scan import scan
from tests.accuracy.recorded import CORPUS, compare, recordings


@pytest.mark.parametrize("folder", list(recordings(CORPUS)), ids=lambda folder: folder.name)
def test_recording(folder: Path) -> None:
    comparison = compare(folder)
    assert not comparison.faults, comparison.line()


def test_one_journal_in_five_shapes_tells_the_same() -> None:
    """What identifies an incident, and what is said of it, does not depend on the carrier."""
    told = {}
    for folder in CORPUS.glob("journal-two-units-*"):
        [log] = folder.glob("journal.*")
        told[folder.name] = {
            (i.id, i.kind, i.confidence, i.state, i.server, i.task, i.signal) for i in scan([log]).incidents
        }
    assert len(told) == 5
    first = told.pop("journal-two-units-export")
    assert len(first) == 6
    assert all(other == first for other in told.values()), told


@pytest.mark.parametrize("name", ["b11368-default-gaveup", "x11549-crash-default", "x2026.5.9093-chat-rescue"])
def test_compressed_copied_and_renamed_is_the_same_log(name: str, tmp_path: Path) -> None:
    log = CORPUS / name / "server.log"
    copy = tmp_path / "server.log.2.gz"
    copy.write_bytes(gzip.compress(log.read_bytes()))
    assert [i.id for i in scan([copy]).incidents] == [i.id for i in scan([log]).incidents]
    both = scan([log, copy])
    assert len(both.incidents) == len(scan([log]).incidents)
