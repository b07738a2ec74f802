"""Newest-first logs: when a log counts as one, and what comes of turning it round."""

from __future__ import annotations

import pytest

from sleepwatch import envelopes
from sleepwatch.envelopes import order
from sleepwatch.errors import SourceError
from sleepwatch.times import LocalTimes, iso
from tests.envelopes import carriers

LOCAL = LocalTimes(reference_us=1_798_000_000_000_000)  # 2026-12-23

# Recorded shape: a router's journal as pasted in a report, newest first and cut by the pager.
PASTE = (
    "Jun 09 10:29:22 gpubox llama-server[1020589]: [34605] 440.59.380.352 E CUDA error: out of memory",
    "Jun 09 10:29:22 gpubox llama-server[1020589]: [34605] /m/ggml-cuda.cu:103: CUDA error",
    "Jun 09 10:20:00 gpubox llama-server[1020589]: [34605] 431.37.755.301 I srv    load_model: loading mo>",
    "Jun 09 10:20:00 gpubox llama-server[1020589]: [34605] 431.37.755.194 I common_init_result: (for bugs>",
    "Jun 09 10:20:00 gpubox llama-server[1020589]: 697.05.000.010 I srv  proxy_reques: proxying request t>",
    "lines 1-5",
)


def paste(lines: tuple[str, ...]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def test_a_newest_first_paste_is_read_oldest_first() -> None:
    data = paste(PASTE)
    envelope = envelopes.detect(data, local=LOCAL)
    assert envelopes.reversed_order(data, envelope)
    records = envelopes.turned(data, envelope)
    assert [r.text[:20] for r in records] == [
        b"697.05.000.010 I srv",
        b"[34605] 431.37.755.1",
        b"[34605] 431.37.755.3",
        b"[34605] /m/ggml-cuda",
        b"[34605] 440.59.380.3",
    ]
    assert [r.cut for r in records] == [True, True, True, False, False]
    assert envelopes.direction(records) == 1


def test_the_same_paste_oldest_first_is_left_alone() -> None:
    data = paste(PASTE[4::-1])
    envelope = envelopes.detect(data, local=LOCAL)
    assert not envelopes.reversed_order(data, envelope)


def test_the_servers_clock_alone_tells_the_order() -> None:
    lines = [b"0.01.%03d.000 I que    start_loop: x" % n for n in range(9)]
    forward, backward = b"\n".join(lines), b"\n".join(reversed(lines))
    assert not envelopes.reversed_order(forward, envelopes.detect(forward))
    assert envelopes.reversed_order(backward, envelopes.detect(backward))
    assert [r.text for r in envelopes.turned(backward, envelopes.detect(backward))] == lines


@pytest.mark.parametrize("name", ["docker-logs", "journal-json", "journal-export", "journal-short-iso"])
def test_restarts_and_a_clock_set_back_are_no_reversal(name: str) -> None:
    lives = [b"0.00.%03d.000 I srv  x" % n for n in range(5)] * 4
    data = carriers.write(name, lives) + carriers.write(name, lives)  # the second half was written an hour "earlier"
    assert not envelopes.reversed_order(data, envelopes.by_name(name))


def test_entries_of_several_lines_keep_their_order_and_boots_stay_known() -> None:  # made
    old, new = "3" * 32, "4" * 32
    head = "Nov 30 05:46:44 gpubox systemd-coredump[99]: "
    data = paste(
        (
            f"-- Boot {new} --",
            "Nov 30 09:00:01 gpubox systemd[1]: c",
            "Nov 30 09:00:00 gpubox systemd[1]: b",
            f"-- Boot {old} --",
            head + "one",
            " " * len(head) + "two",
            "Nov 30 05:46:43 gpubox systemd[1]: a",
        )
    )
    envelope = envelopes.detect(data, local=LOCAL)
    assert envelopes.reversed_order(data, envelope)
    assert [(r.text, r.boot) for r in envelopes.turned(data, envelope)] == [
        (b"a", old),
        (b"one", old),
        (b"two", old),
        (b"b", new),
        (b"c", new),
    ]


def test_years_are_counted_from_the_oldest_line() -> None:  # made
    data = paste(
        (
            "Jan  2 00:00:01 gpubox systemd[1]: d",
            "Jan  1 00:00:00 gpubox systemd[1]: c",
            "Dec 31 23:59:59 gpubox systemd[1]: b",
            "Dec 30 00:00:00 gpubox systemd[1]: a",
        )
    )
    envelope = envelopes.detect(data, local=LocalTimes(reference_us=1_830_000_000_000_000))  # 2027-12-28
    assert envelopes.reversed_order(data, envelope)
    assert [iso(r.wall_us or 0)[:10] for r in envelopes.turned(data, envelope)] == [
        "2026-12-30",
        "2026-12-31",
        "2027-01-01",
        "2027-01-02",
    ]


def test_what_is_too_large_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "TURN_LIMIT", 10)
    with pytest.raises(SourceError, match=r"newest first.*journalctl without -r"):
        envelopes.turned(b"x" * 11, envelopes.by_name("bare"))
