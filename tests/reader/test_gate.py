"""The gate: both searches find the same lines, and every literal of a line in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.reader import Gate
from tests.reader.reading import RECORDINGS, examples, gate, recording, rules

LITERALS = (b"sleeping", b"eping s", b"cancel task", b"tas", b"\xff\x00.*")


def lines_found(one: Gate, data: bytes) -> set[tuple[int, int]]:
    """(start of the line, literal) for each hit."""
    return {(data.rfind(b"\n", 0, end - 1) + 1, literal) for end, literal in one.hits(data)}


PIECES = st.sampled_from([*LITERALS, b"\n", b"a", b"s", b"task", b"\r", b"canceltas"])


@given(st.lists(PIECES, max_size=40).map(b"".join))
@examples(200)
def test_both_searches_find_the_same_lines(data: bytes) -> None:
    assert lines_found(Gate(LITERALS), data) == lines_found(Gate(LITERALS, vectorised=False), data)


@given(st.binary(max_size=300))
@examples(100)
def test_every_line_with_a_literal_is_found(noise: bytes) -> None:
    data = noise.replace(b"\n", b"") + b"cancel task"
    assert {literal for _, literal in Gate(LITERALS).hits(data)} >= {2, 3}
    assert Gate(LITERALS).hits(b"") == []


@pytest.mark.parametrize("name", RECORDINGS[:6])
def test_hits_come_in_order_and_end_with_their_literal(name: str) -> None:
    data = recording(name)
    hits = gate().hits(memoryview(data))
    assert hits == sorted(hits, key=lambda hit: hit[0])
    for end, literal in hits[:2_000]:
        text = rules().literals[literal]
        assert data[end - len(text) : end] == text


def test_a_gate_that_was_asked_to_be_slow_is() -> None:
    assert not Gate(LITERALS, vectorised=False).vectorised
