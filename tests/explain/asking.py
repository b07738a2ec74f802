"""Asks a question about a log given as bytes."""

from __future__ import annotations

from pathlib import Path

from sleepwatch.explain import Explanation, Step, explain, why_not
from sleepwatch.explain.tracer import Tracer
from sleepwatch.model import ScanResult
from sleepwatch.scan import Options, Scan
from tests.cases.case import rules

SLOW_GATE = Options(vectorised=False)
"""Nothing has to be compiled for it, so it is the quicker one for a small log."""


def ask(directory: Path, log: bytes, *, line: int | None = None, incident: str | None = None) -> Explanation:
    """The answer about this log."""
    path = directory / "server.log"
    path.write_bytes(log)
    return explain([str(path)], line=line, incident=incident, options=SLOW_GATE, rules=rules())


def traced(directory: Path, log: bytes) -> tuple[ScanResult, list[Step], Tracer]:
    """What was found in this log, every step of it, and who noted them."""
    path = directory / "server.log"
    path.write_bytes(log)
    steps: list[Step] = []
    tracer = Tracer(steps.append)
    work = Scan(SLOW_GATE, rules=rules(), watch=tracer)
    work.read_paths([str(path)])
    return work.result(), steps, tracer


def line_of(log: bytes, text: str, nth: int = 0) -> int:
    """The number of the n-th line that holds this text."""
    found = [number for number, line in enumerate(log.decode().split("\n"), 1) if text in line]
    return found[nth]


def focus(explanation: Explanation) -> Step:
    """The step of the line asked for."""
    (step,) = next(shown.steps for shown in explanation.shown if shown.line.number == explanation.focus)
    return step


def reason(explanation: Explanation) -> str:
    """Why the line asked for became no event."""
    step = focus(explanation)
    assert step.look is not None
    why = why_not(step.look, explanation.rules)
    assert why is not None
    return why.reason


def words(step: Step) -> list[str]:
    """What changed, in words."""
    return [change.words for _, change in step.changes]
