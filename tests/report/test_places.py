"""Line numbers and raw rests, looked up in real files."""

from __future__ import annotations

import gzip
import hashlib
import io
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.model import Evidence, ScanResult
from sleepwatch.report import line_numbers, raw_texts
from tests.support.results import HANG, RESULT, SLEEP


def _result(*evidence: Evidence) -> ScanResult:
    return msgspec.structs.replace(RESULT, incidents=(msgspec.structs.replace(HANG, evidence=evidence),))


def _at(offset: int, source: str = "server.log") -> Evidence:
    return msgspec.structs.replace(SLEEP, offset=offset, source=source)


def _lines(result: ScanResult) -> list[int | None]:
    return [one.line for incident in result.incidents for one in incident.evidence]


@given(st.lists(st.integers(0, 30), max_size=20), st.lists(st.integers(0, 400), min_size=1, max_size=8), st.data())
def test_line_numbers_are_the_newlines_before(lengths: list[int], offsets: list[int], data: st.DataObject) -> None:
    log = b"".join(b"x" * length + b"\n" for length in lengths)
    block = data.draw(st.integers(1, 64))
    expected = [log.count(b"\n", 0, offset) + 1 if offset < len(log) else None for offset in offsets]
    result = _result(*(_at(offset) for offset in offsets))
    assert _lines(line_numbers(result, lambda source: io.BytesIO(log), block_bytes=block)) == expected


def test_each_source_is_opened_once_and_a_stream_that_is_gone_leaves_null(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\ntwo\nthree\n")
    with gzip.open(tmp_path / "b.log.gz", "wb") as file:
        file.write(b"one\ntwo\nthree\n")
    opened: list[str] = []

    def opener(source: str) -> BinaryIO | None:
        opened.append(source)
        if source == "-":
            return None
        path = tmp_path / source
        return cast(BinaryIO, gzip.open(path)) if source.endswith(".gz") else path.open("rb")

    numbered = line_numbers(_result(_at(8, "a.log"), _at(4, "b.log.gz"), _at(4, "-"), _at(0, "a.log")), opener)
    assert _lines(numbered) == [3, 2, None, 1]
    assert opened == ["a.log", "b.log.gz", "-"]


def _cut(line: bytes, matched: int, rest: bytes) -> Evidence:
    return Evidence(
        role="sleep",
        source="server.log",
        offset=4,
        text=line[:matched].decode("latin-1"),
        rest_bytes=len(rest),
        rest_sha256=hashlib.sha256(rest).hexdigest(),
    )


def _raw(log: bytes, evidence: Evidence) -> dict[tuple[str, int], str]:
    return raw_texts(_result(evidence), lambda source: io.BytesIO(log))


def test_the_rest_of_a_line_is_read_again() -> None:
    log = b"one\nmatched: the \xff prompt\r\nthree\n"
    evidence = _cut(b"matched: the \xff prompt", 8, b" the \xff prompt")
    assert _raw(log, evidence) == {("server.log", 4): " the \\xff prompt"}


def test_the_rest_ends_where_a_glued_line_begins() -> None:
    evidence = _cut(b"matched: prompt", 8, b" prompt")
    assert _raw(b"one\nmatched: prompt0.01.000.000 I glued\n", evidence) == {("server.log", 4): " prompt"}


def test_the_rest_is_found_behind_escapes_that_made_the_text_longer() -> None:
    evidence = msgspec.structs.replace(_cut(b"matched: prompt", 8, b" prompt"), text="\\x1b[0mmatched:")
    assert _raw(b"one\n\x1b[0mmatched: prompt", evidence) == {("server.log", 4): " prompt"}


def test_a_source_that_changed_since_gives_nothing() -> None:
    assert _raw(b"one\nmatched: other!\nthree\n", _cut(b"matched: prompt", 8, b" prompt")) == {}


def test_without_a_rest_nothing_is_opened() -> None:
    def opener(source: str) -> BinaryIO | None:
        raise AssertionError("there is nothing to look up")

    assert raw_texts(_result(_at(4)), opener) == {}
