"""An explanation for people: plain text, one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from sleepwatch.engine import Transition
from sleepwatch.engine.describe import SURER
from sleepwatch.explain import Explanation, Shown, Step, why_not
from sleepwatch.model import Incident
from sleepwatch.printable import printable
from sleepwatch.report.blindness import unseen_by
from sleepwatch.report.explanation_words import (
    Text,
    carrier_words,
    change_words,
    count_words,
    event_words,
    prefix_words,
    proofs_of,
    sleep_words,
    text_of,
    transition_words,
    why_not_words,
)
from sleepwatch.report.table import Style, field
from sleepwatch.report.times import clock_words

LISTED = 10
"""Incidents, and requests that are none, named at the end."""
_BOLD, _DIM = "1", "2"
_INDENT = 12


def explanation_text(explanation: Explanation, *, raw: bool = False, style: Style | None = None) -> Iterator[str]:
    """The answer, line by line, without line feeds."""
    writer = _Writer(explanation, style or Style(), raw=raw)
    if explanation.focus is not None:
        yield from writer.line()
    elif explanation.incident is not None:
        yield from writer.story(explanation.incident)
    else:
        yield from writer.overview()


class _Writer:
    def __init__(self, explanation: Explanation, style: Style, *, raw: bool) -> None:
        self.explanation = explanation
        self.style = style
        self.raw = raw
        self.envelopes = {source.source: source.envelope for source in explanation.result.sources}
        self.several_servers = len({life.server for life in explanation.result.lives}) > 1

    # -- one line

    def line(self) -> Iterator[str]:
        """The line in full, the records around it in one line each."""
        explanation = self.explanation
        for shown in explanation.shown:
            if shown.line.number not in (explanation.focus, explanation.entry):
                for step in shown.steps:
                    yield self._glance(step)
                continue
            yield self.style.paint(f"> {shown.line.number}", _BOLD)
            if not shown.steps:
                yield from self._field("carrier", self._own_line(shown))
            for step in shown.steps:
                yield from self._full(step)

    def _own_line(self, shown: Shown) -> str:
        if not shown.line.text.strip():
            return "an empty line"
        entry = self.explanation.entry
        nearest = f"; the nearest begins on line {entry}" if entry is not None else ""
        return f"its own words: the text of no record begins on this line{nearest}"

    def _full(self, step: Step) -> Iterator[str]:
        assert step.look is not None
        why = why_not(step.look, self.explanation.rules)
        yield f"{'  text':<10}{self._text(text_of(step, why, raw=self.raw))}"
        yield from self._field("carrier", carrier_words(step, self.envelopes))
        yield from self._field("prefix", prefix_words(step))
        if step.life is not None:
            yield from self._field("life", f"{step.life.server.name} ({step.life.key})")
        yield from self._field("event", event_words(step))
        if why is not None:
            yield from self._field("refused" if step.refused else "why", why_not_words(why))
            if step.refused and step.look.clock_before_us is not None:
                yield from self._field("", f"the clock before it: {clock_words(step.look.clock_before_us, micro=True)}")
            return
        yield from self._fields("changed", change_words(step) or ["nothing"])
        if step.event is not None and step.event.doubtful:
            yield from self._field("doubt", "it may be a copy inside printed text: what it proves is only possible")
        if step.remark is not None:
            yield from self._field("note", step.remark)
        yield from self._fields("verdict", self._verdicts(step) or ["none follows from it"])

    def _verdicts(self, step: Step) -> list[str]:
        explanation, life = self.explanation, step.life
        words = [said for transition in step.transitions if (said := transition_words(transition)) is not None]
        words += [
            f"it is the {role!r} of {incident.kind} {incident.id} ({incident.confidence}, {incident.state})"
            for role, incident in proofs_of(step, explanation.result.incidents)
        ]
        words += [f"no incident yet: {which}: {why}" for which, why in step.dismissed]
        words += [
            f"no incident in the end: {one.request}: {one.reason}"
            for one in explanation.dismissed
            if one.sleep is not None and one.sleep is step.event
        ]
        if not words and step.changes and life is not None and life.row is not None and life.row.first is not life:
            words.append("its death is one of a row of deaths that is one incident: the crash loop")
        return words

    # -- the whole

    def overview(self) -> Iterator[str]:
        """The lines a verdict can turn on, then what came of them."""
        explanation, result = self.explanation, self.explanation.result
        sources = [f"{printable(source.source)} ({source.envelope})" for source in result.sources]
        lives = count_words(len(result.lives), "life", "lives")
        sleeps = count_words(sum(life.sleeps for life in result.lives), "sleep")
        yield from self._hung("", f"{', '.join(sources)}: {lives}, {sleeps}", others="  ")
        for at, step in enumerate(explanation.steps):
            yield from self._file(at)
            yield from self._told(step, change_words(step, only_deciding=True), step.transitions)
        if explanation.left_out:
            quiet = explanation.quiet_sleeps
            met = f", {count_words(quiet, 'sleep')} that nothing met among them" if quiet else ""
            yield f"  … {count_words(explanation.left_out, 'more line')} changed something{met}"
        if not explanation.steps:
            yield "  No line changed anything a verdict can turn on."
        yield ""
        yield from self._dismissed()
        yield from self._incidents()

    def _dismissed(self) -> Iterator[str]:
        explanation = self.explanation
        if not explanation.dismissed:
            return
        yield self.style.paint("Requests that met a sleep and are no incident", _BOLD)
        for one in explanation.dismissed[:LISTED]:
            yield from self._hung("  ", f"{sleep_words(one)}: {one.request}: {one.reason}", others="    ")
        if explanation.dismissed_count > LISTED:
            yield f"  … {explanation.dismissed_count - LISTED} more"
        yield ""

    def _incidents(self) -> Iterator[str]:
        result = self.explanation.result
        if not result.incidents:
            yield self.style.paint("No incident", _BOLD)
            for sentence in unseen_by(list(result.lives)):
                yield from self._hung("  ", sentence, others="    ")
            return
        yield self.style.paint(count_words(len(result.incidents), "incident"), _BOLD)
        for incident in result.incidents[:LISTED]:
            yield f"  {incident.id}  {incident.kind}, {incident.confidence}, {incident.state}"
        if len(result.incidents) > LISTED:
            yield f"  … {len(result.incidents) - LISTED} more"
        yield "--incident ID tells the story of one; FILE:LINE tells all of one line"

    # -- one incident

    def story(self, incident: Incident) -> Iterator[str]:
        """The incident's lines in order, and why it is what it is."""
        explanation = self.explanation
        state = f"{incident.confidence}, {incident.state}{', withdrawn' if explanation.withdrawn else ''}"
        headline = f"{incident.kind} {incident.id}  {state}  {printable(incident.server)}"
        yield self.style.paint(headline, _BOLD)
        yield from self._field("what", incident.summary)
        half = len(explanation.steps) // 2
        for at, step in enumerate(explanation.steps):
            if explanation.left_out and at == half:
                yield f"  … {count_words(explanation.left_out, 'more line')}"
            yield from self._file(at)
            mine = [transition for transition in step.transitions if transition.incident.id == incident.id]
            yield from self._told(step, change_words(step), mine, proves=proofs_of(step, (incident,)))
        yield from self._field("why", f"{incident.confidence}: {incident.reason}")
        if explanation.withdrawn:
            yield from self._field("", "a later line took it back: see the last step")
        elif incident.confidence != "confirmed" and incident.kind in SURER:
            yield from self._field("surer", SURER[incident.kind])
        lives = [life for life in explanation.result.lives if life.life == incident.life]
        yield from self._fields("unseen", unseen_by(lives))

    # -- a step

    def _file(self, at: int) -> Iterator[str]:
        """The name of the file a step stands in, where it is another one than before."""
        steps = self.explanation.steps
        if len(self.envelopes) > 1 and (at == 0 or steps[at].source != steps[at - 1].source):
            yield self.style.paint(printable(steps[at].source), _BOLD)

    def _told(
        self,
        step: Step,
        words: list[str],
        transitions: Iterable[Transition],
        *,
        proves: Iterable[tuple[str, Incident]] = (),
    ) -> Iterator[str]:
        """A step in one line, its proof and what followed below it."""
        yield from self._hung(self._head(step), self._words(step, words))
        proofs = ", ".join(dict.fromkeys(role for role, _ in proves))
        if proofs:
            yield f"{'':<{_INDENT}}proof ({proofs}): {self._text(text_of(step, None, raw=self.raw))}"
        for transition in transitions:
            said = transition_words(transition)
            if said is not None:
                yield from self._hung(" " * _INDENT, f"=> {said}")

    def _glance(self, step: Step) -> str:
        """A step in one line, cut where it is too long."""
        return f"{self._head(step)}{self._words(step, change_words(step, only_deciding=True))}"[: self.style.width]

    def _head(self, step: Step) -> str:
        look, event = step.look, step.event
        if look is None:
            return f"  {'':<7} {'':<10} {event.type if event is not None else 'the log ends':<18} "
        place = str(step.line) if step.line is not None else f"byte {step.offset}"
        clock = clock_words(look.head.clock_us) if look.head.clock_us is not None else ""
        server = f"{printable(step.life.server.name)}: " if self.several_servers and step.life is not None else ""
        return f"  {place:<7} {clock:<10} {event.type if event is not None else '-':<18} {server}"

    def _words(self, step: Step, words: list[str]) -> str:
        if step.refused is not None:
            return f"refused: {step.refused}"
        if step.look is not None and step.event is None:
            why = why_not(step.look, self.explanation.rules)
            assert why is not None
            return f"{text_of(step, why, raw=False).shown} ({why.reason})".lstrip()
        if step.event is not None and step.event.type == "gap":
            words = [f"lines are missing here: {step.event.fields.get('cause')}", *words]
        return printable("; ".join(words)) or step.remark or "changes nothing a verdict turns on"

    # -- parts

    def _text(self, text: Text) -> str:
        hidden = f" [+ {text.hidden} bytes not shown; --raw shows them]" if text.hidden else ""
        return text.shown + self.style.paint(hidden, _DIM) if hidden else text.shown

    def _field(self, label: str, text: str) -> Iterator[str]:
        return field(label, text, self.style)

    def _fields(self, label: str, texts: list[str]) -> Iterator[str]:
        for text in texts:
            yield from field(label, text, self.style)
            label = ""

    def _hung(self, first: str, text: str, *, others: str = " " * _INDENT) -> Iterator[str]:
        yield from textwrap.wrap(
            printable(text),
            self.style.width,
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]
