"""What holds for every envelope, whatever the bytes: lines come out as they went in, blocks make no difference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch import envelopes
from sleepwatch.envelopes import Envelope
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes
from tests.envelopes import carriers

LOCAL = LocalTimes(reference_us=carriers.START_US + 86_400_000_000)
ESCAPED = {"docker-json", "journal-json", "journal-json-pretty"}
"""Envelopes whose carriers escape some characters."""
SECONDS = {
    "docker-desktop",
    "journal-short",
    "journal-short-full",
    "lm-studio",
    "s6-log",
    "svlogd",
    "syslog-3164",
    "ts",
}
TIMELESS = {"compose", "journal-short-monotonic", "mail-quote"}

lines = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"0.00.002.670 I srv  llama_server: initializing ...",
                b"0.01.352.022 I que    start_loop: entering sleeping state",
                b"[54387] 121.57.649.356 I srv  handle_sleep: server is entering sleeping state",
                b"slot launch_slot_: id  0 | task 0 | processing task",
                b'srv  log_server_r: request:  {"messages":[{"role":"system"}]}',
                'prompt with ü, 模型 and "quotes" \\ back'.encode(),
            ]
        ),
        st.text(alphabet='aB3 :|._[]{}=-/"\\üÜ€模😀\t', min_size=1, max_size=60)
        .filter(lambda text: text.strip() != "" and not text.startswith((" ", "\t")))
        .map(str.encode),
    ),
    min_size=1,
    max_size=12,
)


def records_of(envelope: Envelope, data: bytes) -> list[Record]:
    return envelope.feed(data, 0) + envelope.finish()


@pytest.mark.parametrize("name", carriers.WRITERS)
@given(texts=lines)
def test_lines_come_out_as_they_went_in(name: str, texts: list[bytes]) -> None:
    data = carriers.write(name, texts)
    records = records_of(envelopes.by_name(name, local=LOCAL), data)
    assert [record.text for record in records] == texts
    for index, record in enumerate(records):
        if name not in ESCAPED or all(byte not in record.text for byte in b'"\\\t'):
            place = data[record.offset : record.offset + len(record.text)]
            assert place == record.text or name == "journal-json-pretty"  # written in ASCII
        if name not in TIMELESS:
            assert record.wall_us is not None
            exact = carriers.wall_us(index)
            assert abs(record.wall_us - exact) <= (1_000_000 if name in SECONDS | {"lemonade"} else 0)


@pytest.mark.parametrize("name", carriers.WRITERS)
def test_a_carriers_log_is_detected(name: str) -> None:
    texts = [
        b"0.%02d.%03d.000 I slot launch_slot_: id  0 | task %d | processing task" % (n // 9, n, n) for n in range(99)
    ]
    data = carriers.write(name, texts)
    assert envelopes.detect(data).name == name
    assert envelopes.detect(data[: len(data) * 2 // 3]).name == name  # cut in the middle of a line
    assert envelopes.detect(b"\n\n-- Logs begin at x --\n" + data).name == name
    assert envelopes.detect(b"a banner\n" + data).name == name


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Logs of one or two carriers, with lines cut, doubled, reordered and bytes changed."""
    names = draw(st.lists(st.sampled_from(sorted(carriers.WRITERS)), min_size=1, max_size=2))
    data = b""
    for name in names:
        data += carriers.write(name, draw(lines)) * draw(st.sampled_from([1, 1, 3, 80]))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, max(len(data) - 1, 0)))
        end = min(len(data), start + draw(st.integers(1, 200)))
        piece = data[start:end]
        change = draw(st.sampled_from(["drop", "double", "move", "noise", "cut"]))
        if change == "drop":
            data = data[:start] + data[end:]
        elif change == "double":
            data = data[:end] + piece + data[end:]
        elif change == "move":
            data = piece + data[:start] + data[end:]
        elif change == "noise":
            data = data[:start] + draw(st.binary(max_size=9)) + data[start:]
        else:
            data = data[:end]
    return data


def blocks_of(data: bytes, ends: list[int]) -> Iterator[tuple[bytes, int]]:
    """The data cut behind the line feeds that follow those places."""
    start = 0
    for end in sorted(ends):
        stop = data.find(b"\n", max(end, start)) + 1
        if stop > start:
            yield data[start:stop], start
            start = stop
    if start < len(data):
        yield data[start:], start


@given(data=damaged(), ends=st.lists(st.integers(0, 5_000), max_size=8), name=st.sampled_from(envelopes.names()))
def test_any_bytes_are_read_and_blocks_make_no_difference(data: bytes, ends: list[int], name: str) -> None:
    for make in (lambda: envelopes.detect(data, local=LOCAL), lambda: envelopes.by_name(name, local=LOCAL)):
        whole = records_of(make(), data)
        parts = make()
        pieces = [record for block, start in blocks_of(data, ends) for record in parts.feed(block, start)]
        assert pieces + parts.finish() == whole
        for record in whole:
            assert 0 <= record.offset <= len(data)
            assert b"\n" not in record.text
            assert record.wall_us is None or record.wall_us >= 0


@given(data=damaged(), name=st.sampled_from(envelopes.names()))
def test_any_bytes_can_be_turned_round(data: bytes, name: str) -> None:
    envelope = envelopes.by_name(name, local=LOCAL)
    assert envelopes.reversed_order(data, envelope) in (True, False)
    for record in envelopes.turned(data, envelope):
        assert 0 <= record.offset <= len(data)
