"""Plain text for people: one block per incident, then what the logs could not show, then the counts.

Works in a pipe and on a terminal; colours only where the caller says the terminal wants them.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import TextIO

from sleepwatch.model import Evidence, Incident, ScanResult
from sleepwatch.printable import printable
from sleepwatch.report.blindness import blindness
from sleepwatch.report.document import RawTexts, shown
from sleepwatch.report.times import clock_words, duration_words, wall_words
from sleepwatch.sources.journal import NAME as JOURNAL

_LABEL = 10
_COLOURS = {"critical": "1;31", "warning": "1;33", "info": "1;36"}
_DIM = "2"
_BOLD = "1"
_STILL_OPEN = {"open", "unresolved"}


class Style:
    """How wide to write, and whether in colour."""

    def __init__(self, *, width: int = 100, colour: bool = False) -> None:
        self.width = width
        self.colour = colour

    @classmethod
    def of(cls, stream: TextIO, environ: dict[str, str]) -> Style:
        """For this stream: colours on a terminal only, and not where ``NO_COLOR`` (no-color.org) is set to anything."""
        terminal = stream.isatty()
        colour = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        width = shutil.get_terminal_size((100, 24)).columns if terminal else 100
        return cls(width=max(60, min(width, 120)), colour=colour)

    def paint(self, text: str, code: str) -> str:
        """``text`` in this colour (SGR parameters), or as it is."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


def table(
    result: ScanResult, *, possible: bool = False, raw: RawTexts | None = None, style: Style | None = None
) -> Iterator[str]:
    """The whole report, line by line, without line feeds."""
    style = style or Style()
    incidents = shown(result, possible=possible)
    told: dict[str, str] = {}
    for incident in incidents:
        yield from block(incident, raw=raw, style=style, told=told.get(incident.kind))
        yield ""
        told.setdefault(incident.kind, incident.remedy)
    unseen = blindness(result)
    if unseen:
        yield style.paint("Not to be seen in what was read", _BOLD)
        for sentence in unseen:
            yield from _wrapped(sentence, "  - ", "    ", style)
        yield ""
    yield from _closing(result, incidents, style)


def block(
    incident: Incident, *, raw: RawTexts | None = None, style: Style | None = None, told: str | None = None
) -> Iterator[str]:
    """One incident: its headline, when, what was seen, why it counts as this, and what to do.

    ``told`` is what to do about another incident of its kind, where that stands above it: then only the commands that
    differ are printed again, because another server has other names in them.
    """
    style = style or Style()
    severity = style.paint(incident.severity.upper(), _COLOURS.get(incident.severity, _BOLD))
    kind = incident.kind if incident.count == 1 else f"{incident.kind} ({incident.count} deaths)"
    yield (
        f"{severity}  {style.paint(kind, _BOLD)}  {incident.confidence}, {incident.state}  {printable(incident.server)}"
    )
    yield from field("when", _when(incident), style)
    yield from field("what", incident.summary, style)
    facts = _facts(incident)
    if facts:
        yield from field("known", facts, style)
    label = "seen"
    for evidence in incident.evidence:
        yield from _evidence(label, evidence, raw, style)
        label = ""
    yield from field("why", incident.reason, style)
    if told is None:
        yield from _remedy(incident.remedy, style)
    else:
        known = set(told.split("\n"))
        others = [line for line in incident.remedy.split("\n") if line.startswith(" ") and line not in known]
        above = f"as above ({incident.kind}){', with' if others else ''}"
        yield from _remedy("\n".join([above, *others]), style)
    yield f"{'  id':<{_LABEL}}{style.paint(printable(incident.id), _DIM)}"


def _when(incident: Incident) -> str:
    wall = wall_words(incident.opened_us)
    clock = (
        None if incident.log_opened_us is None else f"{clock_words(incident.log_opened_us)} on the server's own clock"
    )
    if wall and clock:
        when = f"{wall} ({clock})"
    elif wall or clock:
        when = wall or f"at {clock}"
    else:
        when = "unknown: the lines carry no time"
    if incident.duration_us is not None:
        when += f", lasted {duration_words(incident.duration_us)}"
    elif incident.state in _STILL_OPEN:
        when += ", no end seen"
    return when


def _facts(incident: Incident) -> str:
    facts = []
    if incident.task is not None:
        facts.append(f"task {incident.task}")
    if incident.signal is not None:
        facts.append(f"signal {incident.signal}")
    if incident.in_flight is not None:
        facts.append(f"{incident.in_flight} request{'' if incident.in_flight == 1 else 's'} in flight")
    elif incident.in_flight_reason:
        facts.append(f"requests in flight unknown: {incident.in_flight_reason}")
    return ", ".join(facts)


def _evidence(label: str, evidence: Evidence, raw: RawTexts | None, style: Style) -> Iterator[str]:
    """Two lines: what it proves and where it stands, then the text itself, never wrapped so that it can be searched."""
    place = f" byte {evidence.offset}" if evidence.line is None else f" line {evidence.line}"
    if evidence.source.startswith(JOURNAL):
        place = ""  # its time is its place
    wall = wall_words(evidence.wall_us)
    role = f"{evidence.role}: {printable(evidence.source)}{place}{f', {wall}' if wall else ''}"
    yield f"{f'  {label}':<{_LABEL}}{style.paint(role, _DIM)}"
    text = printable(evidence.text)
    if evidence.rest_bytes:
        rest = None if raw is None else raw.get((evidence.source, evidence.offset))
        text += (
            printable(rest) if rest is not None else style.paint(f" [+ {evidence.rest_bytes} bytes not shown]", _DIM)
        )
    yield f"{'':<{_LABEL}}  {text}"


def _remedy(text: str, style: Style) -> Iterator[str]:
    """What to do, line by line: prose is wrapped, a command (an indented line) stays whole so that it can be copied."""
    label = "to do"
    for line in text.split("\n"):
        if line.startswith(" "):
            yield f"{f'  {label}':<{_LABEL}}{printable(line)}"
        elif line or not label:
            yield from field(label, line, style)
        label = ""


def field(label: str, text: str, style: Style) -> Iterator[str]:
    """One labelled field of a block, wrapped behind its label."""
    yield from _wrapped(text, f"{f'  {label}':<{_LABEL}}", " " * _LABEL, style)


def _wrapped(text: str, first: str, others: str, style: Style) -> Iterable[str]:
    return textwrap.wrap(
        printable(text),
        style.width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def _closing(result: ScanResult, incidents: list[Incident], style: Style) -> Iterator[str]:
    counted = [incident for incident in result.incidents if incident.confidence != "possible"]
    hidden = len(result.incidents) - len(incidents)
    lives = len(result.lives)
    read = f"in {lives} server {'life' if lives == 1 else 'lives'}, {_size(sum(s.bytes for s in result.sources))} read"
    if counted:
        confirmed = sum(incident.confidence == "confirmed" for incident in counted)
        words = "incident" if len(counted) == 1 else "incidents"
        yield style.paint(
            f"{len(counted)} {words} ({confirmed} confirmed, {len(counted) - confirmed} probable) {read}", _BOLD
        )
    else:
        yield style.paint(f"No incident found {read}", _BOLD)
    if hidden:
        yield f"{hidden} possible {'one' if hidden == 1 else 'ones'} not shown; --possible shows them"


def _size(count: int) -> str:
    value = float(count)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
