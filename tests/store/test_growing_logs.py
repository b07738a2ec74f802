"""A log that grows, or is found in a shorter copy: the database ends the same, whatever was read first (recorded)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from sleepwatch.model import Incident
from sleepwatch.scan import scan
from sleepwatch.store import Store, open_store

RECORDINGS = (
    "b11368-default-abandon/server.log",
    "b11368-lv4-patient/server.log",
    "b8672-dies-at-load/server.log.gz",
    "journal-two-units-short/journal.short",
    "x11549-crash-default/server.log",
    "x2026.5.9093-default-abandon/server.log",
)
CUTS = 6


def _known(store: Store) -> dict[str, Any]:
    """All that is shown of every incident; of evidence, what it proves and not where it was first found."""

    def shown(incident: Incident) -> Any:
        fields = {name: getattr(incident, name) for name in Incident.__struct_fields__ if name != "evidence"}
        return fields, {(one.role, one.clock_us, one.text) for one in incident.evidence}

    return {incident.id: shown(incident) for incident in store.incidents(possible=True)}


@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_growing_log_gives_what_the_whole_gives(recording: str, corpus: Path, tmp_path: Path) -> None:
    source = corpus / recording
    content = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    lines = content.splitlines(keepends=True)
    log = tmp_path / source.name.removesuffix(".gz")
    log.write_bytes(content)
    whole = scan([str(log)])
    with open_store(tmp_path / "whole.db") as store:
        store.record(whole)
        expected = _known(store)
    assert expected
    parts = []
    for cut in range(1, CUTS + 1):
        log.write_bytes(b"".join(lines[: len(lines) * cut // (CUTS + 1)]))
        parts.append(scan([str(log)]))
    with open_store(tmp_path / "growing.db") as store:
        for part in parts:
            store.record(part)
        store.record(whole)
        assert _known(store) == expected
    for part in parts:
        with open_store(tmp_path / "shrunk.db") as store:
            store.record(whole)
            store.record(part)
            assert _known(store) == expected


def test_five_shapes_of_one_journal_meet_in_the_same_rows(corpus: Path, tmp_path: Path) -> None:
    journals = [next(folder.glob("journal.*")) for folder in sorted(corpus.glob("journal-two-units-*"))]
    assert len(journals) == 5
    readings = [scan([str(journal)]) for journal in journals]
    for first in range(len(readings)):
        with open_store(tmp_path / f"{first}.db") as store:
            assert store.record(readings[first]).new == len(readings[first].incidents) > 0
            known = [(one.id, one.kind, one.state, len(one.evidence)) for one in store.incidents(possible=True)]
            for reading in readings:
                outcome = store.record(reading)
                assert (outcome.new, outcome.withdrawn) == (0, 0)
            after = [(one.id, one.kind, one.state, len(one.evidence)) for one in store.incidents(possible=True)]
            assert after == known
