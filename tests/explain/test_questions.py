"""The three questions about a log, on recordings and on made logs."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from sleepwatch.errors import SleepwatchError, SourceError
from sleepwatch.explain import explain
from sleepwatch.explain.questions import STEPS
from sleepwatch.model import Incident, ScanResult
from sleepwatch.scan import scan
from tests.cases.case import Case, rules
from tests.cases.made import log
from tests.cases.test_cases import CASES
from tests.explain.asking import SLOW_GATE, ask, focus, line_of, traced, words

ABANDON = "b11368-default-abandon/server.log"
RECORDINGS = [
    f"{meta.parent.name}/{json.loads(meta.read_text())['logs'][0]}"
    for meta in sorted((Path(__file__).parent.parent / "corpus").glob("*/meta.json"))
]


def _found(result: ScanResult) -> list[Incident]:
    return sorted(result.incidents, key=lambda incident: incident.id)


# -- the answer is about what scan finds ------------------------------------------------------------------------------


@pytest.mark.parametrize("recording", RECORDINGS)
def test_recorded_what_is_explained_is_what_scan_finds(corpus: Path, recording: str) -> None:
    path = str(corpus / recording)
    answer = explain([path], rules=rules())
    result = scan([path], rules=rules())
    assert _found(answer.result) == _found(result)
    assert answer.result.lives == result.lives
    assert len(answer.steps) <= STEPS
    assert all(step.line is not None for step in answer.steps if step.look is not None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_made_what_is_explained_is_what_scan_finds(case: Case, tmp_path: Path) -> None:
    result, steps, _ = traced(tmp_path, case.log)
    assert _found(result) == _found(scan([tmp_path / "server.log"], SLOW_GATE, rules=rules()))
    for step in steps:
        if step.event is not None and step.event.type == "request.cancelled" and not step.refused:
            # A cancel says what it did, or why it did nothing.
            assert (step.remark is None) == any(change.what == "pending" for _, change in step.changes)


_KINDS = {(one.kind, one.confidence, one.state): case for case in CASES for one in case.found}


@pytest.mark.parametrize("case", _KINDS.values(), ids=["-".join(kind) for kind in _KINDS])
def test_made_every_story_tells_the_evidence_and_the_verdict(case: Case, tmp_path: Path) -> None:
    for incident in ask(tmp_path, case.log).result.incidents:
        story = ask(tmp_path, case.log, incident=incident.id)
        assert story.incident == incident
        told = {step.offset for step in story.steps if step.event is not None and not step.refused}
        assert {evidence.offset for evidence in incident.evidence} <= told or story.left_out
        mine = [t for step in story.steps for t in step.transitions if t.incident.id == incident.id]
        assert mine[0].before is None
        assert mine[-1].incident == incident
        assert not mine[-1].withdrawn


# -- the whole --------------------------------------------------------------------------------------------------------


def test_what_fits_is_told_in_full(tmp_path: Path) -> None:
    answer = ask(tmp_path, log("0 start\n1 serve 0\n2.1 sleep\n9 cancel 1\n12 wake\n12.4 ready\n12.41 launch 1\n"))
    assert [step.event.type for step in answer.steps if step.event is not None] == [
        "process.start", "load.done", "sleep.enter", "request.cancelled", "sleep.exit", "request.launched",
    ]  # fmt: skip
    assert answer.left_out == 0
    (incident,) = answer.result.incidents
    opened = next(step for step in answer.steps if step.transitions)
    assert opened.line == line_of((tmp_path / "server.log").read_bytes(), "cancel task")
    assert [transition.incident.id for transition in opened.transitions] == [incident.id]


def test_sleeps_that_nothing_met_make_room_for_one_that_something_met(tmp_path: Path) -> None:
    cycle = "{0}0 sleep\n{0}4 wake\n{0}4.4 ready\n{0}5 serve {0}\n"
    quiet = "".join(cycle.format(n) for n in range(1, 40))
    answer = ask(tmp_path, log("0 start\n1 serve 0\n" + quiet + "400 sleep\n405 cancel 77\n"))
    assert answer.quiet_sleeps == 39
    told = [step.event.type for step in answer.steps if step.event is not None]
    assert told[-2:] == ["sleep.enter", "request.cancelled"]
    assert len(answer.steps) < 8
    assert answer.left_out > 100


def test_a_long_story_keeps_its_ends(corpus: Path) -> None:
    path = str(corpus / "b8672-dies-at-load" / "server.log.gz")
    (loop,) = explain([path], rules=rules()).result.incidents
    story = explain([path], incident=loop.id[:6], rules=rules())
    assert loop.count > 100
    assert len(story.steps) == STEPS
    assert story.left_out > 100
    assert story.steps[0].line == 6  # the last line of the first of them
    assert story.steps[-1].transitions[-1].incident == loop


def test_requests_that_met_a_sleep_and_are_no_incident(tmp_path: Path) -> None:
    freed = "0 start lv=5\n1 serve 0\n2 sleep\n2.1 post 1\n3 wake\n3.4 ready\n3.41 serve 1\n"
    answer = ask(tmp_path, log(freed))
    assert [(one.request, one.reason.split(":")[0]) for one in answer.dismissed] == [
        ("task 1", "the server slept less than two seconds, the grace, before it woke")
    ]
    assert not answer.result.incidents

    refused = "0 start lv=4\n1 arrive\n1.01 serve 0\n2.9 arrive\n3 sleep\n"
    answer = ask(tmp_path, log(refused + "9.001 wake\n9.002 arrive\n9.4 ready\n9.41 serve 1\n12 sleep\n"))
    assert any("no launch is left for it" in one.reason for one in answer.dismissed)

    died = "0 start lv=4\n1 arrive\n1.01 serve 0\n2.99 arrive\n3 sleep\n"
    answer = ask(tmp_path, log(died + "| run.sh: line 3: 7 Segmentation fault llama-server\n"))
    assert [incident.kind for incident in answer.result.incidents] == ["sleep-crash"]
    assert [one.reason for one in answer.dismissed] == [
        "the process died before it had waited longer than the grace: it belongs to the death"
    ]


def test_a_set_of_files_is_one_log(corpus: Path, tmp_path: Path) -> None:
    data = (corpus / ABANDON).read_bytes()
    cut = data.index(b"\n", len(data) // 2) + 1
    (tmp_path / "server.log.1").write_bytes(data[:cut])
    (tmp_path / "server.log").write_bytes(data[cut:])
    answer = explain([str(tmp_path / "server.log.1"), str(tmp_path / "server.log")], rules=rules())
    assert {i.id for i in answer.result.incidents} == {i.id for i in scan([corpus / ABANDON], rules=rules()).incidents}
    story = explain([str(tmp_path)], incident=answer.result.incidents[-1].id, rules=rules())
    assert {step.source for step in story.steps if step.look is not None} == {str(tmp_path / "server.log")}
    assert all(step.line is not None for step in story.steps if step.look is not None)


def test_standard_input_is_read_as_often_as_it_takes(corpus: Path) -> None:
    data = gzip.compress((corpus / ABANDON).read_bytes())
    answer = explain(["-"], incident="5c7afa", rules=rules(), stdin=lambda: io.BytesIO(data))
    assert [step.line for step in answer.steps] == [37, 39, 42, 46]
    answer = explain(["-"], line=42, rules=rules(), stdin=lambda: io.BytesIO(data))
    assert focus(answer).transitions[0].incident.id.startswith("5c7afa")


# -- one line ---------------------------------------------------------------------------------------------------------


def test_a_line_with_those_around_it(corpus: Path) -> None:
    answer = explain([str(corpus / ABANDON)], line=42, rules=rules())
    assert [shown.line.number for shown in answer.shown] == [39, 40, 41, 42, 43, 44, 45]
    step = focus(answer)
    assert step.event is not None
    assert (step.event.type, step.event.fields) == ("request.cancelled", {"id": 7})
    assert words(step)[-1] == "mark 5 -> 7"
    assert [transition.incident.reason[:2] for transition in step.transitions] == ["H2"]


def test_a_line_of_a_carriers_entry_without_the_text(corpus: Path) -> None:
    path = corpus / "journal-two-units-export" / "journal.export.gz"
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    at = next(n for n, line in enumerate(lines, 1) if b"entering sleeping" in line)
    answer = explain([str(path)], line=at + 1, rules=rules())
    assert (answer.focus, answer.entry) == (at + 1, at)
    shown = {shown.line.number: shown for shown in answer.shown}
    assert shown[at + 1].steps == []
    (step,) = shown[at].steps
    assert step.look is not None
    assert step.look.record is not None
    assert (step.look.record.ident, step.look.record.unit) == ("llama-server", "llama-tiny.service")


def test_a_line_that_is_not_there(corpus: Path, tmp_path: Path) -> None:
    for number in (0, 478):
        with pytest.raises(SourceError, match=f"has no line {number}"):
            explain([str(corpus / ABANDON)], line=number, rules=rules())
    with pytest.raises(SourceError, match="no such file"):
        explain([str(tmp_path / "none.log")], line=1, rules=rules())


def test_why_a_cancel_is_no_hang(tmp_path: Path) -> None:
    awake = log("0 start\n1 launch 0\n1.5 cancel 0\n")
    assert "while the server is awake" in (focus(ask(tmp_path, awake, line=line_of(awake, "cancel"))).remark or "")
    known = log("0 start\n1 serve 5\n2.1 sleep\n3 cancel 4\n")
    remark = focus(ask(tmp_path, known, line=line_of(known, "cancel"))).remark
    assert remark == "task 4 is not above the mark 5: it was known before this sleep"
    late = log("0 start\n1 serve 0\n2.1 sleep\n9 wake\n9.4 ready\n9.41 cancel 3\n")
    remark = focus(ask(tmp_path, late, line=line_of(late, "cancel"))).remark
    assert remark is not None
    assert remark.startswith("a cancel after the reload has ended")


# -- one incident -----------------------------------------------------------------------------------------------------


def test_the_story_of_a_hang(corpus: Path) -> None:
    story = explain([str(corpus / ABANDON)], incident="5c7afa", rules=rules())
    assert story.incident is not None
    assert [(step.line, step.event.type if step.event else None) for step in story.steps] == [
        (37, "sleep.enter"), (39, "sleep.exit"), (42, "request.cancelled"), (46, "request.launched"),
    ]  # fmt: skip
    assert not story.withdrawn


def test_the_story_of_what_was_taken_back(tmp_path: Path) -> None:
    text = log("0 start lv=5\n1 serve 0\n2.1 sleep\n2.2 post 1\n9 serve 3\n")
    answer = ask(tmp_path, text)
    assert not answer.result.incidents
    (identity,) = {t.incident.id for step in answer.steps for t in step.transitions}
    story = ask(tmp_path, text, incident=identity)
    assert story.withdrawn
    assert story.steps[-1].transitions[-1].withdrawn
    assert any(said.startswith("of this sleep its end was not seen") for said in words(story.steps[-1]))


def test_an_incident_that_is_not_there(corpus: Path) -> None:
    with pytest.raises(SleepwatchError, match="no incident of this log has an id that begins with 'ffff'") as none:
        explain([str(corpus / ABANDON)], incident="ffff", rules=rules())
    assert "5c7afa6c13c3a210dd36 (hung-request)" in (none.value.hint or "")
    with pytest.raises(SleepwatchError, match="2 incidents of this log have an id that begins with '5'"):
        explain([str(corpus / ABANDON)], incident="5", rules=rules())
    with pytest.raises(SleepwatchError, match="begins with ''"):
        explain([str(corpus / ABANDON)], incident="", rules=rules())
    with pytest.raises(SleepwatchError) as empty:
        explain([str(corpus / "b11368-traffic-lv3" / "server.log")], incident="1", rules=rules())
    assert empty.value.hint == "it has none; leave --incident out to see what its lines became, and why"
