"""The same log, however it was carried and kept: the same incidents, by the same ids, stored once.

The copies are made from recordings of real servers by the writers of tests/envelopes/carriers.py.
"""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from sleepwatch.model import Incident
from sleepwatch.scan import scan
from sleepwatch.sources.archives import open_plain
from sleepwatch.store import open_store
from tests.envelopes.carriers import write

CARRIERS = [
    "cri",
    "docker-json",
    "docker-logs",
    "journal-export",
    "journal-json",
    "journal-short-iso",
    "syslog-3164",
    "syslog-5424",
]
RECORDINGS = {
    "b11368-default-abandon/server.log": 7,
    "b11368-lv4-patient/server.log": 2,
    "b11368-lv5-rescue/server.log.gz": 6,
    "b11368-traffic-lv3/server.log": 0,
    "x11549-crash-default/server.log": 12,
}


def _lines(path: Path) -> list[bytes]:
    with open_plain(path) as stream:
        return stream.read().removesuffix(b"\n").split(b"\n")


def _sure(incidents: tuple[Incident, ...]) -> list[tuple[str, str, str, str]]:
    return sorted((i.id, i.kind, i.confidence, i.state) for i in incidents if i.confidence != "possible")


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_carrier_changes_nothing(recording: str, carrier: str, corpus: Path, tmp_path: Path) -> None:
    log = corpus / recording
    copy = tmp_path / "copy.log"
    copy.write_bytes(write(carrier, _lines(log)))
    bare, carried = scan([log]), scan([copy])
    assert carried.sources[0].envelope == carrier
    assert len(_sure(bare.incidents)) == RECORDINGS[recording]
    assert _sure(carried.incidents) == _sure(bare.incidents)


@pytest.mark.parametrize("recording", ["b11368-default-abandon/server.log", "x11549-crash-default/server.log"])
def test_all_copies_in_one_database_are_one(recording: str, corpus: Path, tmp_path: Path) -> None:
    lines = _lines(corpus / recording)
    plain = b"\n".join(lines) + b"\n"
    copies = {name: write(name, lines) for name in CARRIERS}
    copies |= {"gz": gzip.compress(plain), "xz": lzma.compress(plain), "bare": plain}
    with open_store(tmp_path / "incidents.db") as store:
        for name, data in copies.items():
            copy = tmp_path / f"{name}.log"
            copy.write_bytes(data)
            store.record(scan([copy]))
            assert len(store.incidents()) == RECORDINGS[recording], name


def test_pieces_of_a_rotated_log_are_one_log(corpus: Path, tmp_path: Path) -> None:
    """A life goes on across files; the names and the clocks tell the order, whatever order they are given in."""
    lines = _lines(corpus / "b11368-default-abandon/server.log")
    thirds = [lines[:60], lines[60:175], lines[175:]]
    names = ["server.log.2.gz", "server.log.1", "server.log"]
    for name, part in zip(names, thirds, strict=True):
        data = b"\n".join(part) + b"\n"
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    whole = _sure(scan([corpus / "b11368-default-abandon/server.log"]).incidents)
    assert _sure(scan([tmp_path]).incidents) == whole
    assert (
        _sure(scan([tmp_path / "server.log", tmp_path / "server.log.2.gz", tmp_path / "server.log.1"]).incidents)
        == whole
    )


def test_a_missing_piece_is_a_gap_and_proves_nothing(corpus: Path, tmp_path: Path) -> None:
    lines = _lines(corpus / "b11368-lv4-patient/server.log")
    cut = next(at for at, line in enumerate(lines) if b"entering sleeping" in line and line.startswith(b"0.15.042"))
    (tmp_path / "server.log.3").write_bytes(b"\n".join(lines[: cut + 2]) + b"\n")
    (tmp_path / "server.log.1").write_bytes(b"\n".join(lines[cut + 4 :]) + b"\n")
    result = scan([tmp_path])
    assert [gap.cause for gap in result.gaps] == ["rotated away: 1 file between server.log.3 and server.log.1"]
    of_that_sleep = [i for i in result.incidents if i.log_opened_us == 15_042_179]
    assert not [i for i in of_that_sleep if i.confidence != "possible"]
