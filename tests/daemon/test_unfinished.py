"""What a writer has not finished yet: half a line, half an entry, a file with hardly a line in it (made, recorded).

A block of a buffered pipe ends anywhere, and the next may come minutes later. What stands at its end must neither be
read as if it were whole nor be lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sleepwatch.scan import scan
from tests.cases.made import coloured, log
from tests.daemon.driving import SECOND, Driven, Write, feed, new_database, paced, scanned, stored
from tests.reader.reading import recording

AWAKE = "0 start\n1 serve 0\n1.2 serve 7\n2.1 sleep\n"
"""The highest id before the sleep is 7."""
HANG = log(AWAKE + "9 cancel 12\n")
MINUTE = 60 * SECOND


@pytest.fixture
def place(tmp_path: Path) -> Path:
    new_database(tmp_path / "x.db")
    (tmp_path / "server.log").touch()
    return tmp_path


def follow(place: Path, *parts: bytes, silence_us: int = MINUTE) -> Driven:
    """Write the parts with a long silence behind each; the service ran all the time, and is stopped at the end."""
    with Driven(place / "x.db", [place / "server.log"]) as driven:
        driven.step()
        feed(driven, place / "server.log", [Write(at * silence_us, part) for at, part in enumerate(parts)])
    return driven


def found(place: Path) -> list[tuple[str, str, str, int | None]]:
    return [(i["kind"], i["confidence"], i["state"], i["task"]) for i in stored(place / "x.db").values()]


ABANDONED = ("hung-request", "confirmed", "abandoned", 12)


@pytest.mark.parametrize("cut", range(1, 57))
def test_a_line_in_two_parts_is_read_as_a_whole(place: Path, cut: int) -> None:
    """Cut after ``id_task = 1`` it would name task 1, which proves nothing."""
    at = len(HANG) - cut
    follow(place, HANG[:at], HANG[at:])
    assert found(place) == [ABANDONED]


def test_what_no_end_can_change_is_read_without_it(place: Path) -> None:
    """The line that the server sleeps has no end yet; the cancel has, so the sleep is all that is missing."""
    whole = log(AWAKE + "9 cancel 12\n20 wake\n20.4 ready\n20.41 serve 12\n21.5 enter\n")
    with Driven(place / "x.db", [place / "server.log"]) as driven:
        driven.step()
        feed(driven, place / "server.log", [Write(0, whole.rstrip(b"\n"))], after_us=MINUTE)
        [watch] = driven.service._watches.values()
        [life] = watch._engine.current_lives()
        assert life.sleeps == 2


def test_the_colour_that_is_reset_on_the_next_line_hides_nothing(place: Path) -> None:
    """With ``--log-colors on`` a warning's reset stands where the next line will begin, for as long as none comes."""
    lines = coloured(log(AWAKE + "9 cancel 12\n20 wake\n20.4 ready\n20.41 serve 12\n22.1 sleep\n29 cancel 15\n"))
    at = lines.index(b"id_task = 12\n") + len(b"id_task = 12\n\x1b[0m")
    sleep = lines.index(b"22.100.000") - 8
    follow(place, lines[:at], lines[at:sleep], lines[sleep:])
    assert sorted(found(place)) == [ABANDONED, ("hung-request", "confirmed", "abandoned", 15)]


def test_a_shell_speaks_behind_a_torn_line_as_late_as_the_core_is_written(place: Path) -> None:
    """The dying server's last write stops in its stamp; the shell goes on in that line once the core is dumped."""
    died = b"/opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
    follow(place, log(AWAKE) + b"0.02.1", died)
    assert found(place) == [("sleep-crash", "probable", "open", None)]


def test_the_lines_that_identify_a_life_are_seen_whole(place: Path) -> None:
    """A start in blocks of 64 bytes, seconds apart: its incidents have the ids that a scan gives them."""
    parts = [HANG[at : at + 64] for at in range(0, len(HANG), 64)]
    follow(place, *parts, silence_us=5 * SECOND)
    assert stored(place / "x.db") == scanned(scan([place / "server.log"]))


@pytest.mark.parametrize("name", ["journal-two-units-export", "journal-two-units-json", "journal-two-units-short"])
def test_half_an_entry_is_no_entry(place: Path, name: str) -> None:
    """A journal in blocks of 4,096 bytes, as a pipe has them, seconds apart."""
    data = recording(name)
    parts = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    follow(place, *parts, silence_us=3 * SECOND)
    assert stored(place / "x.db") == scanned(scan([place / "server.log"]))


def test_the_last_entry_of_a_verbose_journal_is_read_when_no_other_follows(place: Path) -> None:
    """Nothing but the next entry shows that one is whole; silence must do."""
    data = recording("journal-two-units-verbose")
    starts = [at for at in range(len(data)) if data.startswith(b"\n", at) and data[at + 1 : at + 4].isalpha()]
    cancel = data.rindex(b"cancel task, id_task")
    end = next((at + 1 for at in starts if at > cancel), len(data))
    follow(place, data[:end])
    assert stored(place / "x.db") == scanned(scan([place / "server.log"]))
    assert "abandoned" in {i["state"] for i in stored(place / "x.db").values()}


@pytest.mark.parametrize("name", ["journal-two-units-export", "journal-two-units-verbose", "journal-two-units-json"])
def test_a_restart_within_an_entry(place: Path, name: str) -> None:
    """What a carrier holds back is kept over a restart; nothing is read half."""
    data = recording(name)
    log_file, database = place / "server.log", place / "x.db"
    step = len(data) // 60
    clock = None
    for at in range(0, len(data), step):
        with log_file.open("ab") as file:
            file.write(data[at : at + step])
        with Driven(database, [log_file], clock) as driven:
            driven.run_for(100_000)
        clock = driven.clock
    with Driven(database, [log_file], clock) as driven:
        driven.run_for(5 * SECOND)
    assert stored(database) == scanned(scan([log_file]))


def test_a_file_with_three_lines_is_read(place: Path) -> None:
    """Rotated in a quiet night, the new file has the sleep and the cancel in it, and nothing more comes."""
    writes = paced(HANG)
    first = next(at for at, write in enumerate(writes) if b"entering" in write.data)
    log_file = place / "server.log"
    with Driven(place / "x.db", [log_file]) as driven:
        driven.step()
        feed(driven, log_file, writes[:first])
        log_file.rename(place / "server.log.1")
        feed(driven, log_file, writes[first:])
    assert len(writes) - first == 3
    assert found(place) == [ABANDONED]
    assert stored(place / "x.db") == scanned(scan([str(place / "server.log*")]))


def test_a_server_that_died_at_once_is_read(place: Path) -> None:
    """Four lines, and silence: stamps identify them, so nothing more is waited for."""
    died = log("0.002 init\n0.005 verbosity 3\n0.008 load\n")
    follow(place, died + b"run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server -m x.gguf\n")
    assert found(place) == [("crash", "confirmed", "open", None)]
    assert stored(place / "x.db") == scanned(scan([place / "server.log"]))
