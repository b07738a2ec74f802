"""The journal of two real units, recorded in five of journalctl's shapes: all of them must say the same."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sleepwatch import envelopes
from sleepwatch.envelopes import Envelope
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes, iso

SHAPES = {
    "short": "journal-short",
    "short-iso-precise": "journal-short-iso",
    "json": "journal-json",
    "export": "journal-export",
    "verbose": "journal-verbose",
}
LOCAL = LocalTimes(reference_us=1_796_017_700_000_000)  # a minute after the last entry


def load(corpus: Path, shape: str) -> bytes:
    (path,) = (corpus / f"journal-two-units-{shape}").glob("journal.*")
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def read(data: bytes) -> tuple[Envelope, list[Record]]:
    envelope = envelopes.detect(data, local=LOCAL)
    return envelope, envelope.feed(data, 0) + envelope.finish()


@pytest.mark.parametrize(("shape", "name"), SHAPES.items())
def test_recorded_shapes_are_detected_and_lie_at_their_offsets(corpus: Path, shape: str, name: str) -> None:
    data = load(corpus, shape)
    envelope, records = read(data)
    assert envelope.name == name
    assert len(records) == 490
    assert all(data[r.offset : r.offset + len(r.text)] == r.text for r in records)
    assert not any(r.cut or r.partial for r in records)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "json"])
def test_recorded_shapes_agree(corpus: Path, shape: str) -> None:
    _, reference = read(load(corpus, "json"))
    _, records = read(load(corpus, shape))
    for expected, record in zip(reference, records, strict=True):
        assert (record.text, record.host, record.ident, record.pid) == (
            expected.text,
            expected.host,
            expected.ident,
            expected.pid,
        )
        assert record.wall_us is not None
        assert expected.wall_us is not None
        if shape == "short":
            assert record.wall_us == expected.wall_us // 1_000_000 * 1_000_000
        else:
            assert record.wall_us == expected.wall_us
        if shape in ("export", "verbose"):
            assert record.offset >= 0
            assert (record.unit, record.boot, record.invocation, record.message_id, record.fields) == (
                expected.unit,
                expected.boot,
                expected.invocation,
                expected.message_id,
                expected.fields,
            )


def test_exit_records_name_the_run_that_ended(corpus: Path) -> None:
    _, records = read(load(corpus, "export"))
    exits = [r for r in records if r.message_id == "98e322203f7a4ed290d09fe03c09fe15"]
    assert len(exits) == 4
    for ended in exits:
        assert ended.fields is not None
        assert (ended.fields["EXIT_CODE"], ended.fields["EXIT_STATUS"]) == ("killed", "11")
        assert ended.fields["UNIT"] == "llama-tiny.service"
        lines = [r for r in records if r.invocation == ended.invocation and r.ident == "llama-server"]
        assert lines
        assert {r.unit for r in lines} == {"llama-tiny.service"}
    assert iso(exits[0].wall_us or 0) == "2026-11-30T05:46:47.655792Z"


@pytest.mark.parametrize("shape", SHAPES)
def test_newest_first_copies_are_recognised_and_turned(corpus: Path, shape: str) -> None:
    data = load(corpus, shape)
    envelope, expected = read(data)
    framed = envelopes.by_name(envelope.name)
    starts = framed.starts(data)  # type: ignore[attr-defined]
    entries = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    backwards = b"".join(reversed(entries))
    found = envelopes.detect(backwards, local=LOCAL)
    assert found.name == envelope.name
    assert not envelopes.reversed_order(data, envelope)
    assert envelopes.reversed_order(backwards, found)
    records = envelopes.turned(backwards, found)
    assert [(r.text, r.wall_us, r.pid) for r in records] == [(r.text, r.wall_us, r.pid) for r in expected]
    assert all(backwards[r.offset : r.offset + len(r.text)] == r.text for r in records)
