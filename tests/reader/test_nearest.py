"""Where a line stops fitting the pattern it comes nearest to. Lines: made, after llama.cpp b11368's."""

from __future__ import annotations

import pytest

from sleepwatch.prefix import split
from sleepwatch.reader.nearest import how_far, nearest
from sleepwatch.rules import Pattern, load

RULES = load()


@pytest.mark.parametrize(
    ("line", "name", "wanted", "likely"),
    [
        ("que    start_loop: entering sleep¦ state", "sleep-enter", "entering sleeping state", True),
        ("que    start_loop: entering sleeping state¦ now", "sleep-enter", "the end of the line", False),
        ("srv          stop: cancel task, id_task = ¦x", "request-cancelled", "{id:int}", False),
        ("slot launch_slot_: id  0 | task 7 | processing task¦ now", "request-launched", "the end of the line", False),
        ("main: server is listenin¦ on http://[::1]:80", "listening-untagged", "server is listening on ", True),
    ],
)
def test_where_it_stops(line: str, name: str, wanted: str, likely: bool) -> None:
    fits, rest = line.split("¦")
    fit = nearest(RULES.patterns, (fits + rest).encode())
    assert fit is not None
    assert (fit.pattern.name, fit.end, fit.wanted, fit.inside_its_text) == (name, len(fits), wanted, likely)


def test_another_message_of_the_same_function_is_not_likely_meant() -> None:
    fit = nearest(RULES.patterns, b"slot print_timing: id  0 | task 7 | n_decoded = 3")
    assert fit is not None
    assert not fit.inside_its_text


@pytest.mark.parametrize("pattern", [p for p in RULES.patterns if p.format], ids=lambda p: f"{p.program}/{p.name}")
def test_every_sample_fits_to_its_end_and_no_refused_line_does(pattern: Pattern) -> None:
    for sample in pattern.samples:
        if sample.line is not None:
            assert how_far(pattern, split(sample.line.encode()).body).wanted == ""
    for sample in pattern.refusals:
        if sample.line is not None:
            body = split(sample.line.encode()).body
            fit = how_far(pattern, body)
            assert fit.wanted
            assert fit.end <= len(body)


def test_a_raw_expression_has_no_parts_to_tell() -> None:
    for pattern in (p for p in RULES.patterns if p.regex is not None and p.format is None):
        fit = how_far(pattern, b"something else")
        assert (fit.end, bool(fit.wanted)) == (0, True)
