"""The search, against servers that are made: each outcome is a function of the offset."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.race.window import FINE_US, Search

GOOD_BEFORE, HUNG, CRASHED, GOOD_AFTER = "answered-awake", "hung", "crashed", "answered-woken"


def made_server(hang_from_us: int, crash_from_us: int, crash_to_us: int) -> Callable[[int], str]:
    def outcome(offset_us: int) -> str:
        if offset_us < hang_from_us:
            return GOOD_BEFORE
        if offset_us < crash_from_us:
            return HUNG
        return CRASHED if offset_us < crash_to_us else GOOD_AFTER

    return outcome


def drive(search: Search, outcome: Callable[[int], str], jitter_us: int = 0) -> list[tuple[int, str]]:
    jitter = random.Random(7)
    seen = []
    while (aim := search.next()) is not None:
        at = aim + jitter.randint(-jitter_us, jitter_us)
        met = outcome(at)
        search.record(at, met, bad=met in (HUNG, CRASHED))
        seen.append((at, met))
    return seen


def edge(seen: list[tuple[int, str]], left: str, right: str) -> tuple[int, int]:
    """The last offset with ``left`` and the first with ``right``."""
    return max(at for at, met in seen if met == left), min(at for at, met in seen if met == right)


def test_finds_the_window_the_article_measured() -> None:
    # 46 .. 34 ms before the sleep hung, 34 .. 3 ms before crashed, the rest was answered.
    seen = drive(Search(-60_000, 30_000, 60), made_server(-46_000, -34_000, -3_000))
    assert len(seen) == 60
    for left, right, true_edge in (
        (GOOD_BEFORE, HUNG, -46_000),
        (HUNG, CRASHED, -34_000),
        (CRASHED, GOOD_AFTER, -3_000),
    ):
        last, first = edge(seen, left, right)
        assert last < true_edge <= first
        assert first - last <= FINE_US


def test_grows_downwards_where_the_earliest_send_is_still_lost() -> None:
    search = Search(-60_000, 30_000, 80, lowest_us=-850_000)
    seen = drive(search, made_server(-400_000, -100_000, -3_000))
    last, first = edge(seen, GOOD_BEFORE, HUNG)
    assert last < -400_000 <= first
    assert first - last <= FINE_US


def test_a_range_that_was_asked_for_stays() -> None:
    seen = drive(Search(-60_000, 30_000, 40), made_server(-400_000, -100_000, -3_000))
    assert min(at for at, _ in seen) == -60_000
    assert max(at for at, _ in seen) == 30_000


def test_where_nothing_is_lost_the_range_is_covered_evenly() -> None:
    seen = sorted(at for at, _ in drive(Search(-60_000, 30_000, 31), lambda _: GOOD_AFTER))
    gaps = [after - before for before, after in itertools.pairwise(seen)]
    assert max(gaps) <= 2 * 90_000 / 30 + 1


def test_even_searches_nothing() -> None:
    seen = drive(Search(-60_000, 30_000, 31, even=True), made_server(-46_000, -34_000, -3_000))
    assert sorted(at for at, _ in seen) == list(range(-60_000, 30_001, 3_000))


def test_after_the_edges_the_window_itself_is_filled() -> None:
    seen = drive(Search(-60_000, 30_000, 100), made_server(-46_000, -34_000, -3_000))
    lost = sum(met in (HUNG, CRASHED) for _, met in seen)
    assert lost > 50


def test_an_early_end_has_seen_the_whole_range() -> None:
    search = Search(-60_000, 30_000, 60)
    first = [search.next() for _ in range(3)]
    assert first == [-60_000, 30_000, -17_368]


@given(
    st.integers(-900_000, -2_000),
    st.integers(1, 900_000),
    st.integers(1, 60),
    st.integers(0, 2_000),
    st.integers(0, 400_000),
)
def test_any_server_gets_every_send_within_its_range(
    lo_us: int, width: int, trials: int, jitter_us: int, window_us: int
) -> None:
    hi_us = lo_us + width
    server = made_server(lo_us + window_us // 3, lo_us + window_us // 2, lo_us + window_us)
    search = Search(lo_us, hi_us, trials, lowest_us=-1_000_000)
    seen = drive(search, server, jitter_us)
    assert len(seen) == trials
    assert all(-1_000_000 - jitter_us <= at <= hi_us + jitter_us for at, _ in seen)
