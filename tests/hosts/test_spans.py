"""Lengths of time and sizes as systemd writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.hosts.spans import INFINITY, parse_size, parse_span_us, span_words


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("5", 5_000_000), ("100ms", 100_000), ("1min 30s", 90_000_000), ("1min30s", 90_000_000), ("5min", 300_000_000),
        ("infinity", INFINITY), ("0", 0), ("2.5s", 2_500_000), (" 10s ", 10_000_000), ("1h", 3_600_000_000),
        ("", None), ("soon", None), ("5 parsecs", None), ("-5", None),
    ],
)  # fmt: skip
def test_spans(text: str, us: int | None) -> None:
    assert parse_span_us(text) == us


@pytest.mark.parametrize(
    ("text", "count"),
    [("32G", 32 << 30), ("0", 0), ("1024", 1024), ("1.5K", 1536), ("infinity", INFINITY), ("much", None)],
)
def test_sizes(text: str, count: int | None) -> None:
    assert parse_size(text) == count


@given(st.integers(min_value=0, max_value=10**13).map(lambda ms: ms * 1_000))
def test_what_is_printed_is_read_again(us: int) -> None:
    assert parse_span_us(span_words(us)) == us


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    assert parse_span_us(text) is None or parse_span_us(text) is not None
    parse_size(text)
