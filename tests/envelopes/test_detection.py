"""Which envelope a source is taken for: hostile and mixed heads, and sources that change on the way."""

from __future__ import annotations

import gzip
import itertools
import time
from pathlib import Path

import pytest

from sleepwatch import envelopes
from sleepwatch.errors import SleepwatchError
from sleepwatch.model import Record
from tests.envelopes import carriers

FORGED = [b"0.01.%03d.000 I que    start_loop: entering sleeping state" % n for n in range(400)]


def recorded(corpus: Path) -> dict[str, bytes]:
    logs = {}
    for path in sorted(corpus.glob("[bx]*/*log*")):
        data = path.read_bytes()
        logs[path.parent.name] = gzip.decompress(data) if path.suffix == ".gz" else data
    return logs


def test_recorded_bare_logs_are_bare(corpus: Path) -> None:
    logs = recorded(corpus)
    assert len(logs) > 15
    for name, data in logs.items():
        envelope = envelopes.detect(data)
        assert envelope.name == "bare", name
        assert not envelopes.reversed_order(data, envelope), name


@pytest.mark.parametrize("recording", ["b11368-traffic-lv4", "x2026.5.9093-chat-rescue"])
@pytest.mark.parametrize("name", carriers.WRITERS)
def test_carriers_lines_inside_prompts_make_no_carrier(corpus: Path, recording: str, name: str) -> None:
    log = recorded(corpus)[recording].split(b"\n")  # made: recorded lines around a prompt that is printed raw
    forged = carriers.write(name, FORGED)
    for before in (1, 9, 60):
        data = b"\n".join(log[:before]) + b"\n" + forged + b"\n".join(log[before : before + 30])
        assert envelopes.detect(data).name == "bare"


def test_empty_and_tiny_heads() -> None:
    for head in (b"", b"\n\n", b"\x00", b"x", b"\xff\xfe\n", b"{", b"{}\n", b"[]\n", b"<\n", b"@\n", b">\n"):
        envelope = envelopes.detect(head)
        assert envelope.feed(head, 0) + envelope.finish() is not None
        assert envelope.name in ("bare", "mail-quote")


def test_a_byte_order_mark_and_crlf_do_no_harm() -> None:  # made: saved by an editor on Windows
    data = b"\xef\xbb\xbf" + carriers.write("docker-logs", [b"one", b"two"]).replace(b"\n", b"\r\n")
    envelope = envelopes.detect(data)
    assert envelope.name == "docker-logs"
    records = envelope.feed(data, 0)
    assert [r.text for r in records] == [b"one", b"two"]
    assert all(data[r.offset :].startswith(r.text) for r in records)


def test_names_and_forced_envelopes() -> None:
    for name in envelopes.names():
        assert envelopes.by_name(name).name == name
    with pytest.raises(SleepwatchError, match=r"no envelope 'x'.*docker-json"):
        envelopes.by_name("x")


CHANGES = [
    (first, second)
    for first, second in itertools.permutations(
        ["compose", "cri", "docker-json", "docker-logs", "journal-export", "journal-json-pretty", "journal-verbose"], 2
    )
    if (first, second) != ("docker-logs", "cri")  # CRI's lines are lines of `docker logs -t` as well
]


@pytest.mark.parametrize(("first", "second"), CHANGES)
def test_a_source_that_changes_its_carrier_is_read_to_its_end(first: str, second: str) -> None:  # made
    texts = [b"line %d" % n for n in range(300)]
    data = carriers.write(first, texts) + carriers.write(second, texts)
    envelope = envelopes.detect(data)
    assert envelope.name == first
    records = envelope.feed(data, 0) + envelope.finish()
    assert envelope.name == f"{first}+{second}"
    assert [r.text for r in records if not r.cut] == texts * 2
    assert (records[-1].wall_us is not None) == (second != "compose")


def test_raw_lines_in_a_carrier_stay_as_they_are() -> None:  # made
    raw = [b"raw %d" % n for n in range(1000)]
    framed = carriers.write("docker-logs", [b"a", b"b"])
    data = framed + b"\n".join(raw) + b"\n" + framed
    envelope = envelopes.detect(framed * 99)
    records = envelope.feed(data, 0) + envelope.finish()
    assert envelope.name == "docker-logs"
    assert [r.text for r in records] == [b"a", b"b", *raw, b"a", b"b"]
    assert all(r.wall_us is None for r in records[2:-2])
    assert all(data[r.offset : r.offset + len(r.text)] == r.text for r in records)


def test_lines_that_do_not_fit_come_out_when_a_source_falls_silent() -> None:  # made
    envelope = envelopes.detect(carriers.write("docker-logs", [b"a"] * 9))
    assert envelope.feed(b"raw\n", 0) == []
    assert envelope.finish() == [Record(text=b"raw", offset=0)]
    assert envelope.finish() == []
    assert [r.text for r in envelope.feed(carriers.write("docker-logs", [b"b"]), 4)] == [b"b"]


def test_detection_takes_milliseconds(corpus: Path) -> None:
    logs = [data[: 64 << 10] for data in recorded(corpus).values()]
    logs += [carriers.write(name, FORGED) for name in carriers.WRITERS]
    began = time.process_time()
    for log in logs:
        envelopes.detect(log)
    assert (time.process_time() - began) / len(logs) < 0.05


def test_every_envelope_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "envelopes.md").read_text("utf-8")
    table = [line.split("`")[1] for line in text.split("\n") if line.startswith("| `")]
    assert sorted(table) == envelopes.names()
