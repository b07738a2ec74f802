"""The plain text: what stands in it, and that nothing from outside can steer the terminal."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.model import Incident, ScanResult
from sleepwatch.report import block, table
from sleepwatch.report.table import Style
from tests.support.results import CANCEL, HANG, RESULT, SLEEP, scan_results

_SGR = re.compile("\x1b\\[[0-9;]*m")


def _text(result: ScanResult, **options: bool) -> str:
    return "\n".join(table(result, **options))


def test_a_hang_in_full() -> None:
    assert "\n".join(block(HANG)) == (
        "WARNING  hung-request  confirmed, abandoned  server\n"
        "  when    at 0.03.324 on the server's own clock, lasted 3.038 s\n"
        "  what    A request was queued while the server slept, and its client gave up.\n"
        "  known   task 2\n"
        "  seen    sleep: server.log byte 1200\n"
        "            0.03.324.771 I que    start_loop: entering sleeping state\n"
        "          cancel: server.log byte 1320\n"
        "            0.06.363.688 W srv          stop: cancel task, id_task = 2\n"
        "  why     H2: task 2, above the mark 0, was cancelled while the server slept\n"
        "  to do   Send a 1-token completion before long requests, or give clients a timeout and a retry.\n"
        "  id      4a5b6c7d8e9f0a1b"
    )


def test_a_crash_with_wall_time_line_number_and_hidden_rest() -> None:
    sleep = msgspec.structs.replace(SLEEP, wall_us=1_759_464_001_123_456, line=57, rest_bytes=79)
    crash = msgspec.structs.replace(
        HANG,
        kind="sleep-crash",
        state="open",
        severity="critical",
        evidence=(sleep,),
        task=None,
        signal=11,
        in_flight=1,
        opened_us=sleep.wall_us,
        log_closed_us=None,
    )
    text = "\n".join(block(crash))
    assert text.startswith("CRITICAL  sleep-crash  confirmed, open  server\n")
    assert "when    2025-10-03 04:00:01.123 UTC (0.03.324 on the server's own clock), no end seen" in text
    assert "known   signal 11, 1 request in flight" in text
    assert "sleep: server.log line 57, 2025-10-03 04:00:01.123 UTC" in text
    assert "entering sleeping state [+ 79 bytes not shown]" in text
    raw = "\n".join(block(crash, raw={("server.log", 1200): " and\x07 the rest"}))
    assert "entering sleeping state and\\x07 the rest" in raw
    assert "not shown" not in raw


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"in_flight": 3, "signal": 6, "task": None}, "signal 6, 3 requests in flight"),
        (
            {"in_flight_reason": "the last lines never left the process", "task": None},
            "requests in flight unknown: the last lines never left the process",
        ),
        ({"kind": "crash-loop", "count": 212}, "crash-loop (212 deaths)"),
        ({"log_opened_us": None}, "unknown: the lines carry no time"),
    ],
)
def test_what_is_known_is_named(changes: dict[str, object], words: str) -> None:
    assert words in "\n".join(block(msgspec.structs.replace(HANG, **changes)))


def test_nothing_found_is_not_all_well() -> None:
    text = _text(msgspec.structs.replace(RESULT, incidents=()))
    assert "No incident found in 1 server life, 24.0 kB read" in text
    assert "a hang whose client never gave up cannot be seen" in " ".join(text.split())
    assert not re.search(r"\b(all well|OK|healthy)\b", text)


def test_possible_ones_are_hidden_but_mentioned() -> None:
    maybe: Incident = msgspec.structs.replace(HANG, id="maybe", confidence="possible")
    result = msgspec.structs.replace(RESULT, incidents=(HANG, maybe))
    assert "  id      maybe" not in _text(result)
    assert "1 possible one not shown; --possible shows them" in _text(result)
    assert "1 incident (1 confirmed, 0 probable)" in _text(result, possible=True)
    assert "  id      maybe" in _text(result, possible=True)
    assert "not shown; --possible" not in _text(result, possible=True)


@given(scan_results(), st.integers(60, 120))
def test_no_text_from_outside_reaches_the_terminal_as_a_control(result: ScanResult, width: int) -> None:
    plain = list(table(result, possible=True, style=Style(width=width)))
    assert [line for line in plain if re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", line)] == []
    coloured = list(table(result, possible=True, style=Style(width=width, colour=True)))
    assert [_SGR.sub("", line) for line in coloured] == plain


def test_what_to_do_keeps_its_lines_and_its_commands_whole() -> None:
    command = '  curl -s --max-time 120 http://HOST:PORT/completion -d \'{"prompt":"hi","n_predict":1}\' # wakes it'
    incident = msgspec.structs.replace(HANG, remedy=f"Wake it:\n{command}\nThen {'wait ' * 20}\x07.")
    lines = list(block(incident, style=Style(width=60)))
    todo = lines[next(n for n, line in enumerate(lines) if line.startswith("  to do")) : -1]
    assert todo[:2] == ["  to do   Wake it:", " " * 10 + command]
    assert all(len(line) <= 60 and line.startswith(" " * 10) for line in todo[2:])
    assert todo[-1].endswith("wait \\x07.")


def test_the_same_advice_is_printed_once() -> None:
    second = msgspec.structs.replace(HANG, id="second", evidence=(msgspec.structs.replace(SLEEP, offset=9000),))
    text = _text(msgspec.structs.replace(RESULT, incidents=(HANG, second)))
    assert text.count(HANG.remedy) == 1
    assert "  to do   as above (hung-request)\n  id      second" in text


def test_another_servers_commands_are_printed_again_and_its_prose_is_not() -> None:
    first, second = (
        msgspec.structs.replace(HANG, id=f"id{n}", remedy=f"Wake it:\n  wake --port {n}\n  look\nand wait.")
        for n in (1, 2)
    )
    lines = list(table(msgspec.structs.replace(RESULT, incidents=(first, second))))
    at = lines.index("  id      id2")
    assert lines[at - 2 : at] == ["  to do   as above (hung-request), with", " " * 10 + "  wake --port 2"]
    assert sum("and wait." in line for line in lines) == 1


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "colour"),
    [
        (_Terminal(), {}, True),
        (_Terminal(), {"NO_COLOR": ""}, True),
        (_Terminal(), {"NO_COLOR": "1"}, False),
        (_Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_on_a_terminal_that_wants_them(stream: io.StringIO, environ: dict[str, str], colour: bool) -> None:
    style = Style.of(stream, environ)
    assert style.colour is colour
    assert ("\x1b[" in "\n".join(table(RESULT, style=style))) is colour


def test_long_words_are_wrapped_and_evidence_is_not() -> None:
    long = "0.06.363.688 W srv " + "x" * 200
    incident = msgspec.structs.replace(
        HANG, summary="word " * 60, evidence=(SLEEP, msgspec.structs.replace(CANCEL, text=long))
    )
    lines = list(block(incident, style=Style(width=80)))
    assert any(long in line for line in lines)
    assert all(len(line) <= 80 for line in lines if long not in line)
