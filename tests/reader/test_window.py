"""Neighbours of a line in a bare log. Lines: made, after llama.cpp b11368's."""

from __future__ import annotations

from sleepwatch.reader.window import LinesAround

ROUTER = b"0.28.307.196 I srv  proxy_reques: proxying request to model wide on port 48859\n"
CHILD = b"[48859] 0.28.287.448 I slot launch_slot_: id  0 | task 65 | processing task, is_child = 0\n"
NEXT = b"0.28.320.001 I srv  proxy_reques: proxying request to model wide on port 48859\n"


def test_a_childs_clock_is_not_the_routers_next() -> None:
    around = LinesAround(ROUTER + CHILD + NEXT, 0)
    assert around.next_clock() is None
    assert list(around.clocks_after()) == [28_320_001]


def test_the_next_line_of_the_same_writer() -> None:
    around = LinesAround(ROUTER + NEXT, 0)
    assert around.next_clock() == 28_320_001
    around.ports = "48859"
    assert around.next_clock() is None  # of another writer, unless it says the same port
