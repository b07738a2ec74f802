"""The three questions about a log: about one line, about one incident, and about the whole.

The same reader and engine as those of ``scan`` read it, with a tracer looking on; the question decides which steps are
kept, so that a large log needs no more memory than a small one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from sleepwatch.engine.lives import LifeState
from sleepwatch.errors import SleepwatchError, SourceError
from sleepwatch.explain.steps import Dismissed, Step
from sleepwatch.explain.tracer import Listener, Tracer
from sleepwatch.model import Incident, ScanResult
from sleepwatch.prefix import split
from sleepwatch.reader import Look
from sleepwatch.rules import RuleSet, load
from sleepwatch.scan import Options, Scan
from sleepwatch.sources.archives import decompressed, open_plain
from sleepwatch.sources.lines import Line, count_lines, lines_between

AROUND = 3
"""Records shown before and after the line that is asked for."""
STEPS = 24
"""Steps shown of a log, or of the story of an incident."""
_ENTRY = 64
"""How far around a line its record is looked for: a carrier's entry can have many lines."""
_NAMED = 5


class Shown(msgspec.Struct, kw_only=True):
    """A line of a source as it is shown, with what was made of it."""

    line: Line
    steps: list[Step]
    """None where no record's text begins on it; two where one line holds two records."""


class Explanation(msgspec.Struct, kw_only=True):
    """The answer to one question about a log."""

    result: ScanResult
    rules: RuleSet
    steps: list[Step] = []
    """In the order they were read: those of the story, or those of the log that a verdict can turn on."""
    left_out: int = 0
    """So many more there are."""
    shown: list[Shown] = []
    """For a question about a line: it and those around it."""
    focus: int | None = None
    """The number of that line."""
    entry: int | None = None
    """The number of the line on which the text of its record begins, where that is another one."""
    incident: Incident | None = None
    withdrawn: bool = False
    """The incident was taken back later in the log."""
    dismissed: list[Dismissed] = []
    """Requests that met a sleep and are no incident."""
    dismissed_count: int = 0
    quiet_sleeps: int = 0
    """Sleeps that nothing met."""


class _Asked:
    """What all questions share: the paths, the rules, and how to read them."""

    def __init__(
        self, paths: Sequence[str], options: Options | None, rules: RuleSet, stdin: Callable[[], BinaryIO] | None
    ) -> None:
        self.paths = paths
        self.options = options
        self.rules = rules
        self._stdin = stdin

    def read(self, watch: Listener) -> ScanResult:
        work = Scan(self.options, rules=self.rules, watch=watch, stdin=self._stdin)
        work.read_paths(self.paths)
        return work.result()

    def open(self, source: str) -> BinaryIO:
        if source != "-":
            return open_plain(Path(source))
        assert self._stdin is not None
        return decompressed(self._stdin())

    def number(self, steps: Iterable[Step]) -> None:
        """Set the line numbers of these steps."""
        by_source: dict[str, list[Step]] = {}
        for step in steps:
            if step.look is not None:
                by_source.setdefault(step.source, []).append(step)
        for source, here in by_source.items():
            try:
                stream = self.open(source)
            except SourceError:
                continue  # it was there a moment ago; numbers are not worth more than the answer
            with stream:
                lines = dict(count_lines(stream, sorted({step.offset for step in here})))
            for step in here:
                step.line = lines.get(step.offset)


def explain(
    paths: Sequence[str],
    *,
    line: int | None = None,
    incident: str | None = None,
    options: Options | None = None,
    rules: RuleSet | None = None,
    stdin: Callable[[], BinaryIO] | None = None,
) -> Explanation:
    """Answer a question about a log: about one line of the last of ``paths``, about one incident, or about the whole.

    ``incident`` is the beginning of an id. ``stdin`` opens what ``-`` stands for, as often as it is called. Raises
    SourceError where the line cannot be read or is not there, SleepwatchError where the incident is not in the log.
    """
    asked = _Asked(paths, options, rules or load(), stdin)
    if incident is not None:
        return _story(asked, incident)
    if line is not None:
        return _line(asked, line)
    return _overview(asked)


# -- the whole ------------------------------------------------------------------------------------------------------


class _Deciding:
    """Keeps the steps a verdict can turn on; those of sleeps that nothing met only while there is room."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.count = 0
        self._room = 8 * STEPS

    def keep(self, step: Step) -> None:
        if not step.decides:
            return
        self.count += 1
        if len(self.steps) >= self._room:
            self.steps = [one for one in self.steps if one.telling or (one.cycle is not None and not one.cycle.over)]
        if len(self.steps) < self._room:
            self.steps.append(step)

    def chosen(self) -> list[Step]:
        """All of them where they fit, else the first of those that tell something."""
        if self.count <= STEPS:
            return self.steps
        return [step for step in self.steps if step.telling][:STEPS]


def _overview(asked: _Asked) -> Explanation:
    deciding = _Deciding()
    tracer = Tracer(deciding.keep)
    result = asked.read(tracer)
    steps = deciding.chosen()
    asked.number(steps)
    return Explanation(
        result=result,
        rules=asked.rules,
        steps=steps,
        left_out=deciding.count - len(steps),
        dismissed=tracer.dismissed,
        dismissed_count=tracer.dismissed_count,
        quiet_sleeps=tracer.quiet_sleeps,
    )


# -- one line -------------------------------------------------------------------------------------------------------


def _line(asked: _Asked, number: int) -> Explanation:
    source = asked.paths[-1]
    source = source if source == "-" else str(Path(source))
    with asked.open(source) as stream:
        lines = lines_between(stream, max(1, number - _ENTRY), number + _ENTRY)
    if not any(line.number == number for line in lines):
        raise SourceError(f"{source} has no line {number}", hint="the first is 1; without a number all are explained")
    begin, end = lines[0].offset, lines[-1].offset + len(lines[-1].text) + 1
    steps: list[Step] = []

    def keep(step: Step) -> None:
        if step.source == source and step.look is not None and begin <= step.look.offset < end:
            steps.append(step)

    tracer = Tracer(keep)
    result = asked.read(tracer)
    bare = any(info.source == source and info.envelope == "bare" for info in result.sources)
    everything = _assigned(lines, steps, source, bare=bare)
    focus = next(one for one in everything if one.line.number == number)
    records = [one for one in everything if one.steps and one is not focus]
    entry = None
    if not focus.steps:
        entry = min((one.line.number for one in records), key=lambda one: abs(one - number), default=None)
    before = [one for one in records if one.line.number < number][-AROUND:]
    behind = [one for one in records if one.line.number > number][:AROUND]
    return Explanation(
        result=result,
        rules=asked.rules,
        shown=[*before, focus, *behind],
        focus=number,
        entry=entry,
        dismissed=tracer.dismissed,
        dismissed_count=tracer.dismissed_count,
    )


def _assigned(lines: list[Line], steps: list[Step], source: str, *, bare: bool) -> list[Shown]:
    """Each line with the steps whose text begins on it. In a bare log every line is a record, looked at or not."""
    shown = [Shown(line=line, steps=[]) for line in lines]
    offsets = [line.offset for line in lines]
    for step in steps:
        assert step.look is not None
        step.line = lines[bisect_right(offsets, step.look.offset) - 1].number
        shown[step.line - lines[0].number].steps.append(step)
    for one in shown:
        if bare and not one.steps:
            look = Look(offset=one.line.offset, line=one.line.text, head=split(one.line.text), record=None)
            one.steps.append(Step(source=source, look=look, line=one.line.number))
    return shown


# -- one incident ---------------------------------------------------------------------------------------------------


class _Story:
    """Keeps the steps of one incident: its evidence, its transitions, and what its life went through between them."""

    def __init__(self, incident: Incident) -> None:
        self._id = incident.id
        self._evidence = {(one.source, one.offset) for one in incident.evidence}
        self._life: LifeState | None = None
        self._first: list[Step] = []
        self._last: deque[Step] = deque(maxlen=STEPS // 2)
        self._count = 0

    def keep(self, step: Step) -> None:
        proves = step.event is not None and not step.refused and (step.source, step.offset) in self._evidence
        if proves:
            self._evidence.discard((step.source, step.offset))
            self._life = self._life or step.life
        mine = any(transition.incident.id == self._id for transition in step.transitions)
        between = self._evidence and any(life is self._life and change.decides for life, change in step.changes)
        if proves or mine or between:
            self._count += 1
            (self._first if self._count <= STEPS // 2 else self._last).append(step)

    def told(self) -> tuple[list[Step], int]:
        """The steps, and how many in their middle are left out."""
        steps = [*self._first, *self._last]
        return steps, self._count - len(steps)


def _story(asked: _Asked, prefix: str) -> Explanation:
    listener = Listener()
    result = asked.read(listener)
    found = {incident.id: incident for incident in (*listener.withdrawn.values(), *result.incidents)}
    fitting = [incident for incident in found.values() if prefix and incident.id.startswith(prefix)]
    if len(fitting) != 1:
        raise _not_one(prefix, fitting, result)
    incident = fitting[0]
    story = _Story(incident)
    tracer = Tracer(story.keep)
    asked.read(tracer)
    steps, left_out = story.told()
    asked.number(steps)
    return Explanation(
        result=result,
        rules=asked.rules,
        steps=steps,
        left_out=left_out,
        incident=incident,
        withdrawn=incident.id in listener.withdrawn,
    )


def _not_one(prefix: str, fitting: list[Incident], result: ScanResult) -> SleepwatchError:
    if fitting:
        names = ", ".join(incident.id for incident in fitting[:_NAMED])
        return SleepwatchError(
            f"{len(fitting)} incidents of this log have an id that begins with '{prefix}'",
            hint=f"name one of them: {names}",
        )
    if not result.incidents:
        hint = "it has none; leave --incident out to see what its lines became, and why"
    else:
        names = ", ".join(f"{incident.id} ({incident.kind})" for incident in result.incidents[:_NAMED])
        hint = f"it has {names}{' …' if len(result.incidents) > _NAMED else ''}"
    return SleepwatchError(f"no incident of this log has an id that begins with '{prefix}'", hint=hint)
