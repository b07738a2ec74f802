"""Explanations as text and as JSON: recorded ones word for word, and that nothing of a prompt is shown unasked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sleepwatch.explain import Explanation, explain
from sleepwatch.report import json_text
from sleepwatch.report.explanation import explanation_text
from sleepwatch.report.explanation_document import explanation_document
from sleepwatch.report.table import Style
from tests.cases.case import Case, rules
from tests.cases.made import log
from tests.cases.test_cases import CASES
from tests.explain.asking import ask, line_of


@pytest.fixture
def abandon(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(corpus / "b11368-default-abandon")
    return "server.log"


def _text(explanation: Explanation, **options: bool) -> str:
    return "\n".join(explanation_text(explanation, **options))


def test_a_line(abandon: str) -> None:
    assert (
        _text(explain([abandon], line=42, rules=rules()))
        == """\
  39      0.07.340   sleep.exit         asleep -> reloading after 2.963 s of sleep
  40      0.07.340   sleep.exited       the second line about the same event: nothing new
  41      0.07.340   load.begin         changes nothing a verdict turns on
> 42
  text    0.07.427.019 W srv          stop: cancel task, id_task = 7
  carrier none: a bare log
  prefix  clock 0.07.427.019, level W
  life    server (0041348b2043b06bd506)
  event   request.cancelled: id = 7 (pattern request-cancelled)
  changed task 7: its client gave up while the loop holds the queue; its id is above the mark 5
          mark 5 -> 7
  verdict hung-request 5c7afa6c13c3a210dd36 opened: confirmed, abandoned: H2: its client gave up
          while the loop still held the queue, and its id is above all seen before
          it is the 'cancel' of hung-request 5c7afa6c13c3a210dd36 (confirmed, abandoned)
  43      0.07.686   -                  cmn          init: (no pattern's text is in it)
  44      0.07.711   load.ready         changes nothing a verdict turns on
  45      0.07.711   -                  slot get_availabl: (no pattern's text is in it)"""
    )


def test_an_incident(abandon: str) -> None:
    text = _text(explain([abandon], incident="5c7a", rules=rules()))
    assert text.startswith("""\
hung-request 5c7afa6c13c3a210dd36  confirmed, abandoned  server
  what    A request (task 7) was queued while the server slept; its client gave up unanswered.
  37      0.04.377   sleep.enter        awake -> asleep (sleep 2, mark 5, nothing pending)
            proof (sleep): 0.04.377.382 I que    start_loop: entering sleeping state
  39      0.07.340   sleep.exit         asleep -> reloading after 2.963 s of sleep
            proof (wake): 0.07.340.191 I que    start_loop: exiting sleeping state
  42      0.07.427   request.cancelled  task 7: its client gave up while the loop holds the queue;
            its id is above the mark 5; mark 5 -> 7
            proof (cancel): 0.07.427.019 W srv          stop: cancel task, id_task = 7
            => hung-request 5c7afa6c13c3a210dd36 opened: confirmed, abandoned: H2: its client gave
            up while the loop still held the queue, and its id is above all seen before
  46      0.07.711   request.launched   reloading -> awake; task 7 is launched now; busy: 7
            proof (launch): 0.07.711.974 I slot launch_slot_: id  0 | task 7 | processing task, is_child = 0
  why     confirmed: H2: its client gave up while the loop still held the queue, and its id is above
          all seen before
""")
    assert "unseen  default verbosity (-lv 3): requests are not logged" in text


def test_the_whole(abandon: str) -> None:
    lines = _text(explain([abandon], rules=rules())).split("\n")
    assert lines[0] == "server.log (bare): 1 life, 11 sleeps"
    assert lines[1] == "  1       0.00.001   process.start      a new life of server begins"
    assert "7 incidents" in lines
    assert lines[-1] == "--incident ID tells the story of one; FILE:LINE tells all of one line"
    assert any(re.match(r"  … \d+ more lines changed something", line) for line in lines)
    assert len(lines) <= 60  # one screen


def test_why_it_is_not_surer(tmp_path: Path) -> None:
    text = log("0 start\n1 serve 0\n2 sleep\n| /opt/run.sh: line 3: 7 Segmentation fault  (core dumped) llama-server\n")
    (incident,) = ask(tmp_path, text).result.incidents
    words = " ".join(_text(ask(tmp_path, text, incident=incident.id)).split())
    assert "why probable: it died on signal 11 after falling asleep and before any wake surer It is" in words


def test_requests_without_an_incident_and_no_incident_at_all(tmp_path: Path) -> None:
    text = log("0 start lv=5\n1 serve 0\n2 sleep\n2.1 post 1\n3 wake\n3.4 ready\n3.41 serve 1\n")
    assert (
        _text(ask(tmp_path, text)).split("\n\n", 1)[1]
        == """\
Requests that met a sleep and are no incident
  the sleep at 0.02.000 of server: task 1: the server slept less than two seconds, the grace, before
    it woke

No incident
  no supervisor's record of how the process ended: a crash shows only as a log that stops; the
    journal (journalctl -u UNIT) or the container's log would tell the signal"""
    )


def test_a_line_that_became_no_event(tmp_path: Path) -> None:
    text = log("0 start\n1 | que    start_loop: entering sleep state of mine\n2 serve 0\n")
    words = " ".join(_text(ask(tmp_path, text, line=line_of(text, "mine"))).split())
    assert (
        "> 7 text que start_loop: entering sleep [+ 14 bytes not shown; --raw shows them] carrier none: a bare log "
        "prefix clock 0.01.000.000, level D event none why no pattern's text is in it; it comes nearest to "
        "llama-server/sleep-enter (sleep.enter) and leaves it after 33 bytes of its message, where 'entering sleeping "
        "state' is expected; perhaps the words of another build"
    ) in words


def test_a_carrier_is_told(corpus: Path) -> None:
    path = str(corpus / "journal-two-units-short" / "journal.short")
    words = " ".join(_text(explain([path], line=3, rules=rules())).split())
    assert "carrier journal-short, host gpubox, llama-server[40], 2026-11-30 05:46:44.000 UTC" in words
    assert "life llama-tiny.service" in words


SECRET = "tell me about my rash"
TALK = (
    f'2 | srv  log_server_r: request:  {{"prompt":"{SECRET}"}}',
    f"2.1 | srv    operator(): no message of ours: {SECRET}",
    f"| {SECRET}",
    f"2.2 | srv    send_error: task id = 0, error: {SECRET}",
    f"| {SECRET}: {SECRET}",
)


@pytest.mark.parametrize("at", range(7, 7 + len(TALK)))
def test_nothing_of_a_prompt_is_shown_unasked(tmp_path: Path, at: int) -> None:
    text = log("\n".join(["0 start", *TALK, "3 serve 0", "5 sleep", "9 cancel 5"]))
    for answer in (ask(tmp_path, text, line=at), ask(tmp_path, text)):
        assert SECRET.split()[-1] not in _text(answer)
        assert SECRET.split()[-1] not in json_text(explanation_document(answer))
    asked = ask(tmp_path, text, line=at)
    assert SECRET in _text(asked, raw=True)
    assert SECRET in json_text(explanation_document(asked, raw=True))


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_made_no_control_reaches_the_terminal_and_all_becomes_json(case: Case, tmp_path: Path) -> None:
    questions = [ask(tmp_path, case.log)]
    questions += [ask(tmp_path, case.log, incident=one.id) for one in questions[0].result.incidents[:1]]
    if case.log:
        questions.append(ask(tmp_path, case.log, line=1 + case.log.rstrip(b"\n").count(b"\n") // 2))
    for answer in questions:
        for line in explanation_text(answer, raw=True, style=Style(width=80)):
            assert not re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", line)
        document = json.loads(json_text(explanation_document(answer)))
        assert document["schema_version"] == 1
        steps = [step for shown in answer.shown for step in shown.steps] or answer.steps
        assert [entry["offset"] for entry in document["steps"] if entry["offset"] is not None] == [
            step.offset for step in steps if step.look is not None
        ]


def test_json_of_a_line(abandon: str) -> None:
    document = explanation_document(explain([abandon], line=42, rules=rules()))
    assert (document["line"], document["entry_line"]) == (42, 42)
    step = next(step for step in document["steps"] if step["line"] == 42)
    assert step == {
        "source": "server.log",
        "line": 42,
        "offset": step["offset"],
        "text": "0.07.427.019 W srv          stop: cancel task, id_task = 7",
        "hidden_bytes": 0,
        "carrier": None,
        "prefix": {"port": None, "clock_s": 7.427019, "level": "W"},
        "server": "server",
        "life": "0041348b2043b06bd506",
        "event": "request.cancelled",
        "pattern": "request-cancelled",
        "fields": {"id": 7},
        "doubtful": False,
        "why_not": None,
        "changes": [
            {
                "server": "server",
                "what": "pending",
                "words": "task 7: its client gave up while the loop holds the queue; its id is above the mark 5",
            },
            {"server": "server", "what": "traffic", "words": "mark 5 -> 7"},
        ],
        "remark": None,
        "verdicts": [
            {
                "change": "opened",
                "id": "5c7afa6c13c3a210dd36",
                "kind": "hung-request",
                "confidence": "confirmed",
                "state": "abandoned",
                "server": "server",
                "reason": step["verdicts"][0]["reason"],
            }
        ],
        "proves": [{"role": "cancel", "incident": "5c7afa6c13c3a210dd36"}],
        "no_incident": [],
    }
