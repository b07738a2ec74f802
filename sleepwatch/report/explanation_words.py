"""The words of an explanation: what a line was, what it became, what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sleepwatch.engine import Transition
from sleepwatch.explain import Dismissed, Step, WhyNot
from sleepwatch.model import Incident
from sleepwatch.printable import printable
from sleepwatch.report.times import clock_words, wall_words

_OWN_WORDS = re.compile(
    rb"(?:srv|slot|que|res|cmn|spec) +[^: \t][^:]{0,13}:"  # tag and function
    rb"|[A-Za-z_~][\w:~<>]{0,63}(?: ?\(\))?: "  # function
)
_FIELD = 60


class Text(NamedTuple):
    """A line as far as it may be shown, and how many bytes of it are not."""

    shown: str
    hidden: int


def text_of(step: Step, why: WhyNot | None, *, raw: bool) -> Text:
    """The part of the step's line that is the server's own text; prompts and answers are shown only where ``raw``."""
    look = step.look
    if look is None:
        return Text("", 0)
    if raw:
        return Text(_printed(look.line.rstrip(b"\r")), 0)
    if step.event is not None:
        return Text(_printed(step.event.text), len(step.event.rest))
    body = look.head.body
    if why is not None and why.fit is not None:
        end = why.fit.end
    else:
        own = _OWN_WORDS.match(body)
        end = own.end() if own is not None else 0
    return Text(_printed(body[:end]), len(body) - end)


def carrier_words(step: Step, envelopes: Mapping[str, str]) -> str:
    """What carried the line, and what the carrier says of it."""
    record = step.look.record if step.look is not None else None
    if record is None:
        return "none: a bare log"
    writer = (record.ident or "") + (f"[{record.pid}]" if record.pid is not None else "")
    parts = (
        envelopes.get(step.source),
        f"host {record.host}" if record.host else None,
        f"unit {record.unit}" if record.unit else None,
        f"container {record.container}" if record.container else None,
        writer,
        wall_words(record.wall_us) or "no wall time",
        "cut by the carrier: what is missing proves nothing" if record.cut else None,
        "the line has no end" if record.partial else None,
    )
    return printable(", ".join(part for part in parts if part))


def prefix_words(step: Step) -> str:
    """Port, clock and level in front of the message."""
    assert step.look is not None
    head = step.look.head
    parts = (
        f"port {head.ports}" if head.ports is not None else None,
        f"clock {clock_words(head.clock_us, micro=True)}" if head.clock_us is not None else None,
        f"level {head.level}" if head.level else None,
    )
    return ", ".join(part for part in parts if part) or "none"


def event_words(step: Step) -> str:
    """The event, its fields and the pattern that recognised it."""
    event = step.event
    if event is None:
        return "none"
    fields = ", ".join(f"{name} = {str(value)[:_FIELD]}" for name, value in event.fields.items())
    by = f" (pattern {event.pattern})" if event.pattern else ""
    return printable(event.type + (f": {fields}" if fields else "") + by)


def why_not_words(why: WhyNot) -> str:
    """Why it became no event, with the nearest pattern and the place where the line leaves it."""
    fit = why.fit
    if fit is None or not fit.wanted:
        return why.reason
    name = f"{fit.pattern.program}/{fit.pattern.name} ({fit.pattern.event})"
    at = f"after {fit.end} bytes of its message" if fit.end else "at once"
    likely = "; perhaps the words of another build" if fit.inside_its_text else ""
    wanted = f"where {fit.wanted.strip()!r} is expected{likely}"
    return f"{why.reason}; it comes nearest to {name} and leaves it {at}, {wanted}"


def change_words(step: Step, *, only_deciding: bool = False) -> list[str]:
    """What changed in the ledgers; of another life than the line's own it is said so."""
    words = []
    for life, change in step.changes:
        if not change.decides and only_deciding:
            continue
        whose = ""
        if step.life is not None and life is not step.life:
            whose = "the life before: " if life.server is step.life.server else f"{life.server.name}: "
        words.append(printable(whose + change.words))
    return words


def transition_words(transition: Transition) -> str | None:
    """What a step did to an incident; None where it only adds to its evidence."""
    incident, before = transition.incident, transition.before
    name = f"{incident.kind} {incident.id}"
    if transition.withdrawn:
        return f"{name} is withdrawn"
    if before is None:
        return f"{name} opened: {incident.confidence}, {incident.state}: {incident.reason}"
    differences = [
        f"{new} (was {old})"
        for new, old in (
            (incident.kind, before.kind),
            (incident.confidence, before.confidence),
            (incident.state, before.state),
            (f"{incident.count} deaths", f"{before.count}"),
        )
        if new != old and not (incident.count == before.count and new.endswith(" deaths"))
    ]
    if incident.reason != before.reason:
        differences.append(incident.reason)
    return f"{name} is now {', '.join(differences)}" if differences else None


def proofs_of(step: Step, incidents: Iterable[Incident]) -> list[tuple[str, Incident]]:
    """Which incidents the step's line proves, and as what."""
    if step.event is None or step.refused:
        return []
    place = (step.source, step.event.offset)
    return [
        (evidence.role, incident)
        for incident in incidents
        for evidence in incident.evidence
        if (evidence.source, evidence.offset) == place
    ]


def sleep_words(one: Dismissed) -> str:
    """Which sleep it was."""
    enter = one.sleep
    if enter is None:
        return "the sleep the log begins in"
    if enter.clock_us is not None:
        return f"the sleep at {clock_words(enter.clock_us)} of {printable(one.life.server.name)}"
    return f"the sleep at byte {enter.offset} of {printable(one.life.server.name)}"


def count_words(number: int, one: str, many: str | None = None) -> str:
    """``1 life``, ``2 lives``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _printed(text: bytes) -> str:
    return printable(text.decode("utf-8", "surrogateescape"))
