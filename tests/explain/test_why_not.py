"""Why a line became no event: each reason, on made logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleepwatch.explain import why_not
from tests.cases.made import log
from tests.explain.asking import ask, focus, line_of, reason

RUNNING = "0 start lv=5\n1 serve 0\n99.9 serve 1\n100 | srv  log_server_r: request: the log\n"
REST = "100.002 | srv  log_server_r: response: none\n100.003 post 3\n100.01 serve 3\n102 sleep\n"
COPY = "50 enter\n50.0002 entered\n50.9 cancel 77\n"


def _reason(directory: Path, text: bytes, words: str, nth: int = 0) -> str:
    return reason(ask(directory, text, line=line_of(text, words, nth)))


def test_no_patterns_text(tmp_path: Path) -> None:
    text = log("0 start\n1 | srv  update_slots: something that no pattern has\n2 serve 0\n")
    assert _reason(tmp_path, text, "something") == "no pattern's text is in it"


def test_other_words_for_the_same(tmp_path: Path) -> None:
    text = log("0 start\n1 | que    start_loop: entering sleep state\n2 serve 0\n")
    answer = ask(tmp_path, text, line=line_of(text, "entering sleep"))
    step = focus(answer)
    assert step.look is not None
    why = why_not(step.look, answer.rules)
    assert why is not None
    assert why.fit is not None
    assert (why.fit.pattern.name, why.fit.inside_its_text) == ("sleep-enter", True)


def test_a_patterns_text_that_does_not_fit(tmp_path: Path) -> None:
    text = log("0 start\n1 | srv          stop: cancel task, id_task = seven\n2 serve 0\n")
    answer = ask(tmp_path, text, line=line_of(text, "seven"))
    assert reason(answer) == "it has the text of a pattern and does not fit it"
    step = focus(answer)
    assert step.look is not None
    why = why_not(step.look, answer.rules)
    assert why is not None
    assert why.fit is not None
    assert (why.fit.pattern.name, why.fit.wanted) == ("request-cancelled", "{id:int}")


def test_text_far_inside_a_line(tmp_path: Path) -> None:
    text = log(f"0 start\n1 | srv  update_slots: prompt: {'x ' * 6000}entering sleeping state\n2 serve 0\n")
    assert _reason(tmp_path, text, "x x").startswith("the text of a pattern stands far inside it")


def test_copies_are_refused_by_their_clock(tmp_path: Path) -> None:
    text = log(RUNNING + "| my log:\n" + COPY + "| what is it?\n" + REST)
    answer = ask(tmp_path, text, line=line_of(text, "entering sleeping state"))
    assert not answer.result.incidents
    step = focus(answer)
    assert step.event is not None
    assert step.event.type == "sleep.enter"
    assert step.changes == []
    assert step.look is not None
    assert step.look.clock_before_us is not None
    assert reason(answer) == (
        "recognised, and not taken for a record of its stream: its clock falls back, and the lines behind it go on "
        "from where the clock was before"
    )
    ahead = log(RUNNING + COPY.replace("50", "5000") + REST)
    assert "its clock jumps ahead" in _reason(tmp_path, ahead, "entering sleeping state")


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        (RUNNING + "| que    start_loop: entering sleeping state\n" + REST, "entering sleeping", "it has no stamp"),
        (RUNNING + "[48859] 100.001 enter\n" + REST, "[48859]", "this server is no router"),
    ],
)
def test_other_prefixes_are_refused(tmp_path: Path, text: str, words: str, why: str) -> None:
    assert why in _reason(tmp_path, log(text), words)


def test_a_stamp_in_a_log_without_any(tmp_path: Path) -> None:
    text = log("0 start\n1 serve 0\n", era="A") + b"0.01.000.000 I que    start_loop: entering sleeping state\n"
    assert "it has a stamp, and the lines of its stream have none" in _reason(tmp_path, text, "entering sleeping state")


def test_another_writers_words(tmp_path: Path) -> None:
    line = "Nov 30 05:46:46 gpubox {}: llama-tiny.service: Main process exited, code=dumped, status=11/SEGV\n"
    text = "".join(line.format(who) for who in ("systemd[1]", "backup[7]", "systemd[1]")).encode()
    assert _reason(tmp_path, text, "backup") == "it fits a pattern for lines of systemd, and backup wrote it"
    assert focus(ask(tmp_path, text, line=1)).event is not None


def test_what_became_an_event_needs_no_reason(tmp_path: Path) -> None:
    text = log("0 start\n1 serve 0\n")
    step = focus(ask(tmp_path, text, line=1))
    assert step.look is not None
    assert why_not(step.look, ask(tmp_path, text).rules) is None
