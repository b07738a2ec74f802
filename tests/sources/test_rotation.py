"""The names of rotated files (made, as logrotate, container runtimes and loggers write them)."""

from __future__ import annotations

import pytest

from sleepwatch.sources.disk import Entry
from sleepwatch.sources.rotation import age_of, base_of, is_rotated_name, number_of, possible_bases, rotated


def names(base: str, *found: str) -> list[str]:
    return [piece.name for piece in rotated([Entry(name, at) for at, name in enumerate(found)], base)]


@pytest.mark.parametrize(
    ("base", "oldest_first"),
    [
        ("server.log", ["server.log.10.gz", "server.log.9.gz", "server.log.2.xz", "server.log.1"]),
        ("server.log", ["server.log-20261128.gz", "server.log-20261129.zst", "server.log-20261130"]),
        ("server.log", ["server.10.log.gz", "server.2.log", "server.1.log"]),
        ("server.log", ["server-2026-11-29.log", "server-2026-11-30.log"]),
        ("server.log", ["server.log.2026-11-29", "server.log.2026-11-30"]),
        ("server.log", ["server.log-2026112922", "server.log-2026112923"]),
        ("server.log", ["server.log-1796017536", "server.log-1796103936"]),
        ("0.log", ["0.log.20261130-120000.gz", "0.log.20261130-130001"]),
        ("llama", ["llama.1", "llama.0"]),
        ("server.log", ["server.log.gz"]),
    ],
)
def test_older_pieces_in_the_order_in_which_they_were_written(base: str, oldest_first: list[str]) -> None:
    assert names(base, *reversed(oldest_first)) == oldest_first
    for name in oldest_first:
        assert base in possible_bases(name)


@pytest.mark.parametrize(
    "other",
    [
        "server.log",
        "server2.log.1",
        "server-1.log",
        "other.log.1",
        "server.log.bak",
        "server.logs.1",
        "server.log.1.txt",
    ],
)
def test_other_files_are_no_pieces(other: str) -> None:
    assert names("server.log", other) == []
    assert not is_rotated_name(other, "server.log")


def test_of_a_piece_that_is_being_compressed_the_plain_one() -> None:
    assert names("server.log", "server.log.1.gz", "server.log.1") == ["server.log.1"]
    assert names("server.log", "server.log.1", "server.log.1.gz") == ["server.log.1"]


def test_a_number_inside_the_name_can_be_another_servers_log() -> None:
    assert is_rotated_name("server.log.1", "server.log")
    assert is_rotated_name("server.1.log.gz", "server.log")
    assert not is_rotated_name("server.1.log", "server.log")


@pytest.mark.parametrize(
    ("base", "oldest_first"),
    [
        (
            "server.log",
            ["server.log-20261129.gz", "server.log-20261130", "server.log.2.gz", "server.log.1", "server.log"],
        ),
        ("server.log", ["server-2026-11-29.log.bz2", "server-2026-11-30.log", "server.log"]),
        ("server.log", ["server.log_20261129", "server.log.2026-11-30"]),
        ("0.log", ["0.log.20261130-120000.gz", "0.log.20261130-130001", "0.log"]),
        ("server.1.log", ["server.1.log.1", "server.1.log"]),
        ("llama", ["llama.1", "llama.0", "llama"]),
    ],
)
def test_what_the_names_alone_tell(base: str, oldest_first: list[str]) -> None:
    assert {base_of(name) for name in oldest_first} == {base}
    assert sorted(oldest_first, key=age_of) == oldest_first


def test_a_missing_piece_is_told_by_the_numbers() -> None:
    assert [number_of(name) for name in ("x.log.3.gz", "x.log.1", "x.log", "x.log-20261130")] == [3, 1, 0, None]


@pytest.mark.parametrize("name", ["-20261130.log", ".1", "20261130", "server-1.log", "server2.log", "7.log"])
def test_a_name_that_is_no_rotated_one_stays(name: str) -> None:
    assert base_of(name) == name
