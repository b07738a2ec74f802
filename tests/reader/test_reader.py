"""The reader over bytes in any pieces, with either search, cut anywhere, damaged, mixed with text."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sleepwatch.model import Event, Incident
from sleepwatch.prefix import split
from sleepwatch.report import document
from sleepwatch.scan import scan
from tests.cases.test_cases import CASES
from tests.reader.reading import BARE, RECORDINGS, Reading, cut, examples, gate, read, recording, whole

CLEAN = [
    "b11368-default-patient",
    "b11368-impatient-lv3",
    "b11368-refused-lv4",
    "b11368-traffic-lv3",
    "b11368-traffic-lv4",
]
"""Recordings with nothing above ``possible`` in them."""
STAMPED = [name for name in BARE if not name.startswith(("x2026.5", "b8672", "b11368-router", "b11368-colors"))]

sizes = st.lists(st.integers(1, 100_000), min_size=1, max_size=12)
"""Sizes of pieces, used over and over."""
PIECES = 300
"""About as many pieces are enough for a large log: many small ones only cost time."""


def told(reading: Reading) -> list[object]:
    """All that is said of the incidents and lives, with the places of the evidence."""
    return [sorted(reading.incidents.items()), reading.lives]


def essence(incident: Incident) -> tuple[object, ...]:
    """What is said of an incident, without its identity: that is made of an excerpt's first lines."""
    return (incident.kind, incident.confidence, incident.state, incident.task, incident.log_opened_us, incident.signal)


def plain(event: Event) -> tuple[object, ...]:
    """An event without what is only an object's identity."""
    fields = {k: [plain(e) for e in v] if k == "open" else v for k, v in event.fields.items()}
    return (event.type, event.offset, event.text, event.clock_us, event.wall_us, event.rest, event.pattern,
            event.new_life, event.doubtful, event.origin.port, event.origin.pid, fields)  # fmt: skip


# -- the same bytes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDINGS)
@given(sizes=sizes)
@examples(4)
def test_any_pieces_of_a_recording_tell_the_same(name: str, sizes: list[int]) -> None:
    data = recording(name)
    larger = [size + len(data) // PIECES for size in sizes]
    assert told(read(cut(data, larger))) == told(whole(name))


@given(case=st.sampled_from(CASES), sizes=st.lists(st.integers(1, 900), min_size=1, max_size=8))
@examples(60)
def test_any_pieces_of_a_made_log_tell_the_same(case: object, sizes: list[int]) -> None:
    data = case.log  # type: ignore[attr-defined]
    assert told(read(cut(data, sizes))) == told(read([data]))


def test_byte_for_byte() -> None:
    data = recording("b11368-killed-asleep") + recording("b11368-default-gaveup")
    assert told(read(data[at : at + 1] for at in range(len(data)))) == told(read([data]))


def test_a_few_bytes_at_a_time() -> None:
    data = recording("b11368-default-gaveup") * 4  # longer than the reach of a line's neighbours
    assert told(read(cut(data, [1, 2, 3, 5, 7, 11, 13, 17, 19]))) == told(read([data]))


@pytest.mark.parametrize("name", RECORDINGS)
def test_events_without_the_vectorised_search_are_the_same(name: str) -> None:
    if not gate().vectorised:
        pytest.skip("hyperscan does not load on this machine, so there is only one search")
    data = recording(name)
    with_it, without = whole(name), read([data], vectorised=False)
    assert [plain(e) for e in with_it.events] == [plain(e) for e in without.events]
    assert told(with_it) == told(without)


@pytest.mark.parametrize("name", ["b11368-default-gaveup", "b11368-traffic-lv3", "x2026.5.9093-chat-rescue"])
def test_lines_are_the_same_with_any_line_end(name: str) -> None:
    data = recording(name)
    windows = read([data.replace(b"\n", b"\r\n")])
    assert list(windows.incidents) == list(read([data]).incidents)


@pytest.mark.parametrize("name", ["b11368-default-gaveup", "b11368-lv4-abandon", "x11549-crash-default"])
def test_the_same_log_twice_is_the_same_incidents(name: str) -> None:
    data = recording(name)
    once, twice = read([data]), read([data + data])
    assert set(once.incidents) <= set(twice.incidents)
    assert {i.id for i in twice.sure} == {i.id for i in once.sure}


# -- excerpts ----------------------------------------------------------------------------------------------------------


def _hangs(incidents: list[Incident]) -> list[int | None]:
    return [incident.task for incident in incidents if incident.kind == "hung-request"]


@pytest.mark.parametrize("name", CLEAN)
@given(ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@examples(12)
def test_no_excerpt_of_a_clean_log_has_an_incident(name: str, ends: tuple[float, float]) -> None:
    data = recording(name)
    first, last = sorted(round(end * len(data)) for end in ends)
    assert read([data[first:last]]).sure == []


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name not in CLEAN and "journal" not in name])
@given(ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@examples(6)
def test_an_excerpt_invents_no_hang(name: str, ends: tuple[float, float]) -> None:
    data = recording(name)
    first, last = sorted(round(end * len(data)) for end in ends)
    hangs, all_hangs = _hangs(read([data[first:last]]).sure), _hangs(whole(name).sure)
    assert len(hangs) <= len(all_hangs)
    assert {task for task in hangs if task is not None} <= set(all_hangs)


# -- text --------------------------------------------------------------------------------------------------------------


def _clocks(lines: list[bytes]) -> list[int]:
    return [clock for line in lines if (clock := split(line.rstrip(b"\n")).clock_us) is not None]


@given(data=st.data())
@examples(15)
def test_a_paste_of_any_log_into_a_prompt_changes_nothing(data: st.DataObject) -> None:
    """A piece of any recording, copied into a request of a server at ``-lv 5``."""
    name = data.draw(st.sampled_from(["b11368-lv5-rescue", "b11368-traffic-lv4", "b11368-lv4-abandon"]))
    lines = recording(name).splitlines(keepends=True)
    # Prompts are printed when a slot takes them.
    places = [place for place, line in enumerate(lines[:-20], 1) if place > 20 and b" I slot " in line]
    at = data.draw(st.sampled_from(places))
    start = max(0, at - data.draw(st.integers(20, 400)))
    lines, at = lines[start : start + 800], at - start
    other = recording(data.draw(st.sampled_from(STAMPED))).splitlines(keepends=True)
    first = data.draw(st.integers(0, len(other) - 1))
    pasted = other[first : first + data.draw(st.integers(1, 200))]
    assume(sum(map(len, pasted)) < 60_000)  # within the window in which the clock is seen to come back
    stamped = [line for line in pasted if _clocks([line])]
    assume(not stamped or b"template" not in stamped[-1])  # behind which servers print text themselves
    now, later = _clocks(lines[:at])[-1], _clocks(lines[at:])[0]
    assume(later - now < 1_000_000)  # text is printed in one go
    assume(all(abs(clock - now) > 5_000_000 for clock in _clocks(pasted)))  # of another time
    seconds, us = divmod(now, 1_000_000)
    stamp = f"{seconds // 60}.{seconds % 60:02}.{us // 1000:03}.{us % 1000:03}"
    opening = [f"{stamp} D srv  update_slots: prompt of a request:\n".encode(), b"here is my log\n"]
    log = b"".join([*lines[:at], *opening, *pasted, b"what happened there?\n", *lines[at:]])
    assert [essence(i) for i in read([log]).sure] == [essence(i) for i in read(lines).sure]


# -- soup --------------------------------------------------------------------------------------------------------------

_WORDS = st.sampled_from([
    b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\x1b[35m", b"\x1b[0m", b"[48859] ", b"[ 8080] ", b"0.01.002.003 I ",
    b"9.59.999.999 W ",
    b"que    start_loop: entering sleeping state", b"srv  handle_sleep: server is exiting sleeping state",
    b"srv          stop: cancel task, id_task = ", b"99999999999999999999", b"7", b"-1",
    b"que          post: new task, id = 3/1, front = 0", b"slot launch_slot_: id  0 | task 3 | processing task",
    b"Segmentation fault (core dumped)", b"GGML_ASSERT(x) failed", b"MESSAGE=", b"__CURSOR=", b'{"log":"', b'"}',
    b"Nov 30 08:00:00 host llama-server[7]: ", b"2026-11-30T08:00:00Z stderr F ",
    b"srv  llama_server: initializing ...",
    b"instance name=wide exited with status 1", b"spawning server instance with name=wide on port 48859",
])  # fmt: skip


@given(st.lists(st.one_of(_WORDS, st.binary(max_size=40)), max_size=60))
@examples(150)
def test_soup_of_words_is_read_to_its_end(parts: list[bytes]) -> None:
    data = b"".join(parts)
    reading = read([data])
    for incident in reading.incidents.values():
        for evidence in incident.evidence:
            assert 0 <= evidence.offset <= len(data)


@given(st.binary(max_size=4_000), st.text(max_size=400))
@examples(60)
def test_soup_without_a_server_has_no_incident(noise: bytes, text: str) -> None:
    assert read([noise + text.encode("utf-8", "replace")]).incidents == {}


@given(data=st.data())
@examples(60)
def test_damaged_recordings_are_read_to_their_end(data: st.DataObject) -> None:
    lines = recording(data.draw(st.sampled_from(RECORDINGS))).splitlines(keepends=True)
    first = data.draw(st.integers(0, len(lines) - 1))
    lines = lines[first : first + 250]
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.sampled_from(["cut", "double", "swap", "bytes", "drop"]))
        if how == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == "bytes":
            place = data.draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:place] + data.draw(st.binary(max_size=20)) + lines[at][place:]
        elif len(lines) > 1:
            del lines[at]
    log = b"".join(lines)
    pieces = [size + len(log) // PIECES for size in data.draw(sizes)]
    assert told(read(cut(log, pieces))) == told(read([log]))


@pytest.mark.parametrize("name", RECORDINGS)
def test_reports_of_damaged_recordings_can_be_written(name: str, tmp_path: Path) -> None:
    """Every byte value in turn, all over a recording: it is read, and what is found is a JSON document."""
    data = bytearray(recording(name)[:60_000])
    for value in range(256):
        data[(value * 7919) % len(data)] = value
    log = tmp_path / "server.log"
    log.write_bytes(bytes(data))
    json.dumps(document(scan([log]), possible=True))


# -- size --------------------------------------------------------------------------------------------------------------

_MEASURED = """
import resource, sys
from sleepwatch.scan import scan
result = scan(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(result.incidents))
"""


def _rss_mb(path: Path) -> float:
    output = subprocess.run([sys.executable, "-c", _MEASURED, str(path)], capture_output=True, text=True, check=True)
    return int(output.stdout.split()[0]) / (1024 if sys.platform != "darwin" else 1024 * 1024)


def test_lines_of_many_megabytes_fit_into_little_memory(tmp_path: Path) -> None:
    """One line without an end, and lines of sixteen megabytes full of the words that are looked for."""
    small = tmp_path / "small.log"
    small.write_bytes(recording("b11368-default-gaveup"))
    huge = tmp_path / "huge.log"
    with huge.open("wb") as file:
        file.write(recording("b11368-default-gaveup"))
        for words in (b"x", b"que    start_loop: entering sleeping state "):
            file.write(b"0.58.200.000 D srv  update_slots: prompt: ")
            for _ in range(32):
                file.write(words * (1_000_000 // len(words)))
            file.write(b"\n")
    assert _rss_mb(huge) - _rss_mb(small) < 40
    assert {i.id for i in scan([huge]).incidents} == {i.id for i in scan([small]).incidents}
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
