"""Where the current life begins: on recordings of real servers, alone and one after the other, and on made logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleepwatch.rules import load
from sleepwatch.sources import tail
from sleepwatch.sources.disk import Disk
from sleepwatch.sources.tail import StartMarkers, search_start

STARTS = StartMarkers.of(load())
RECORDINGS = {
    "b11368-default-abandon": b"0.00.001.",
    "b11368-lv4-abandon": b"0.00.00",
    "x11549-crash-default": b"0.00.000.",
    "x2026.5.9093-default-abandon": b"build_info: ",
    "b11368-router-abandon": b"0.00.001.845 I srv  llama_server: initializing ...",
    "b11368-colors": b"\x1b[34m0.00.003.641",
}


def start_of(content: bytes, tmp_path: Path, **options: int) -> int:
    log = tmp_path / "server.log"
    log.write_bytes(content)
    disk = Disk()
    fd = disk.open(log)
    steps = search_start(disk, fd, len(content), STARTS, **options)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return int(done.value)
    finally:
        disk.close(fd)


def test_the_last_of_many_lives_of_a_crashing_server(corpus: Path, tmp_path: Path) -> None:
    content = (corpus / "x11549-crash-default" / "server.log").read_bytes()
    first_line = b"I srv          init: initializing ..."
    assert content.count(first_line) == 12
    start = content.rfind(b"\n", 0, content.rfind(first_line)) + 1
    assert start_of(content, tmp_path) == start


def test_the_first_start_line_of_an_unstamped_life(corpus: Path, tmp_path: Path) -> None:
    content = (corpus / "x2026.5.9093-default-abandon" / "server.log").read_bytes()
    assert start_of(content, tmp_path) == content.rfind(b"build_info: b0-unknown\n")


@pytest.mark.parametrize("block", [1000, 1 << 20])
@pytest.mark.parametrize("last", RECORDINGS)
@pytest.mark.parametrize("first", ["b11368-default-patient", "x11549-crash-default"])
def test_of_two_recordings_in_one_file_the_second(
    first: str, last: str, block: int, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BLOCK", block)
    before, after = ((corpus / name / "server.log").read_bytes() for name in (first, last))
    found = start_of(before + after, tmp_path)
    assert found == len(before) + start_of(after, tmp_path)
    assert (before + after)[found:].startswith(RECORDINGS[last])


@pytest.mark.parametrize("name", ["b11368-default-patient", "b11368-router-abandon", "b11368-lv4-patient"])
def test_a_log_with_one_life_begins_at_its_first_byte(name: str, corpus: Path, tmp_path: Path) -> None:
    assert start_of((corpus / name / "server.log").read_bytes(), tmp_path) == 0


def test_a_copy_of_a_start_inside_printed_text_is_no_start(corpus: Path, tmp_path: Path) -> None:
    """Made: a prompt that holds a whole log, printed by a server hours later."""
    copy = (corpus / "b11368-default-patient" / "server.log").read_bytes()
    line = b"%d.%02d.000.000 D slot update_slots: id 0 | task 7 | prompt\n"
    content = b"0.00.001.000 I srv  llama_server: initializing ...\n" + line % (180, 1) + copy + line % (180, 2)
    assert start_of(content, tmp_path) == 0
    assert start_of(content + copy, tmp_path) == len(content)


def test_children_of_a_router_begin_no_life(tmp_path: Path) -> None:
    """Made."""
    router = b"9.00.000.000 I srv  proxy_reques: proxying request to model m on port 48859\n"
    child = b"[48859] 0.00.001.817 I srv  llama_server: initializing ...\n"
    start = b"0.00.001.845 I srv  llama_server: initializing ...\n"
    later = router.replace(b"9.00.", b"1.30.")
    assert start_of(router + start + child + later + child, tmp_path) == len(router)


def test_two_short_lives_are_told_by_the_start_line(tmp_path: Path) -> None:
    """Made: the clock fell by less than it may step back by itself."""
    life = b"0.00.001.845 I srv  llama_server: initializing ...\n0.00.300.000 E srv  load_model: failed\n"
    assert start_of(life * 3, tmp_path) == 2 * len(life)


def test_without_a_start_within_the_bound_it_is_the_first_whole_line_in_it(tmp_path: Path) -> None:
    line = b"9.00.000.000 I srv  update_slots: all slots are idle\n"
    content = line * 1000
    found = start_of(content, tmp_path, bound=10 * len(line) + 5)
    assert found == len(content) - 10 * len(line)
    assert start_of(line * 1000, tmp_path) == 0
    assert start_of(b"x" * 5000, tmp_path, bound=1000) == 5000
    assert start_of(b"", tmp_path) == 0


def test_lines_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "BLOCK", 500)
    old = b"5.00.000.000 I srv  update_slots: all slots are idle\n"
    start = b"0.00.001.845 I srv  llama_server: initializing ...\n"
    prompt = b"0.01.000.000 D slot prompt: " + b"word " * 2000 + b"\n"
    assert start_of(old + prompt + old + start + prompt * 2 + b"0.02", tmp_path) == 2 * len(old) + len(prompt)
