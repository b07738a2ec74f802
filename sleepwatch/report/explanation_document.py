"""An explanation for machines: one JSON document.

Times are RFC 3339 in UTC, or null; ``clock_s`` is seconds on the server's own log clock. Of a line only the server's
own text is in it, the rest as a number of bytes, unless ``raw`` asks for all.
"""

from __future__ import annotations

from typing import Any

from sleepwatch.engine import Transition
from sleepwatch.explain import Explanation, Step, WhyNot, why_not
from sleepwatch.model import Incident
from sleepwatch.printable import printable
from sleepwatch.report.document import SCHEMA_VERSION, incident_entry
from sleepwatch.report.explanation_words import proofs_of, text_of
from sleepwatch.report.times import rfc3339, seconds


def explanation_document(explanation: Explanation, *, raw: bool = False) -> dict[str, Any]:
    """The whole answer. ``steps`` are the lines in order; of a question about a line, it and those around it."""
    steps = explanation.steps or [step for shown in explanation.shown for step in shown.steps]
    entry = _Entry(explanation, raw=raw)
    return {
        "schema_version": SCHEMA_VERSION,
        "line": explanation.focus,
        "entry_line": explanation.entry if explanation.entry is not None else explanation.focus,
        "incident": incident_entry(explanation.incident) if explanation.incident is not None else None,
        "withdrawn": explanation.withdrawn,
        "steps": [entry.of(step) for step in steps],
        "left_out": explanation.left_out,
        "quiet_sleeps": explanation.quiet_sleeps,
        "dismissed": [
            {
                "server": printable(one.life.server.name),
                "life": one.life.key,
                "sleep_offset": one.sleep.offset if one.sleep is not None else None,
                "sleep_clock_s": seconds(one.sleep.clock_us) if one.sleep is not None else None,
                "request": one.request,
                "reason": one.reason,
            }
            for one in explanation.dismissed
        ],
        "dismissed_count": explanation.dismissed_count,
        "incidents": [_named(incident) for incident in explanation.result.incidents],
    }


class _Entry:
    """Steps as they stand in the document."""

    def __init__(self, explanation: Explanation, *, raw: bool) -> None:
        self._explanation = explanation
        self._raw = raw
        self._envelopes = {source.source: source.envelope for source in explanation.result.sources}

    def of(self, step: Step) -> dict[str, Any]:
        """One step."""
        look, event = step.look, step.event
        why = why_not(look, self._explanation.rules) if look is not None else None
        text = text_of(step, why, raw=self._raw)
        return {
            "source": printable(step.source),
            "line": step.line,
            "offset": step.offset if look is not None else None,
            "text": text.shown,
            "hidden_bytes": text.hidden,
            "carrier": self._carrier(step),
            "prefix": self._prefix(step),
            "server": printable(step.life.server.name) if step.life is not None else None,
            "life": step.life.key if step.life is not None else None,
            "event": event.type if event is not None else None,
            "pattern": event.pattern or None if event is not None else None,
            "fields": {name: _plain(value) for name, value in event.fields.items()} if event is not None else {},
            "doubtful": event.doubtful if event is not None else False,
            "why_not": _why(why),
            "changes": [
                {"server": printable(life.server.name), "what": change.what, "words": printable(change.words)}
                for life, change in step.changes
            ],
            "remark": step.remark,
            "verdicts": [_verdict(transition) for transition in step.transitions],
            "proves": [
                {"role": role, "incident": incident.id}
                for role, incident in proofs_of(step, self._explanation.result.incidents)
            ],
            "no_incident": [{"request": which, "reason": reason} for which, reason in step.dismissed],
        }

    def _carrier(self, step: Step) -> dict[str, Any] | None:
        record = step.look.record if step.look is not None else None
        if record is None:
            return None
        names = {name: getattr(record, name) for name in ("host", "unit", "container", "ident")}
        return {
            "envelope": self._envelopes.get(step.source),
            **{name: printable(value) if value is not None else None for name, value in names.items()},
            "pid": record.pid,
            "time": rfc3339(record.wall_us),
            "cut": record.cut,
            "partial": record.partial,
        }

    @staticmethod
    def _prefix(step: Step) -> dict[str, Any] | None:
        if step.look is None:
            return None
        head = step.look.head
        return {"port": head.ports, "clock_s": seconds(head.clock_us), "level": head.level}


def _why(why: WhyNot | None) -> dict[str, Any] | None:
    if why is None:
        return None
    fit = why.fit
    return {
        "reason": printable(why.reason),
        "nearest": f"{fit.pattern.program}/{fit.pattern.name}" if fit is not None else None,
        "fits_bytes": fit.end if fit is not None else None,
        "wanted": fit.wanted if fit is not None and fit.wanted else None,
    }


def _verdict(transition: Transition) -> dict[str, Any]:
    before = transition.before
    change = "withdrawn" if transition.withdrawn else "opened" if before is None else "changed"
    return {"change": change, **_named(transition.incident), "reason": printable(transition.incident.reason)}


def _named(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "kind": incident.kind,
        "confidence": incident.confidence,
        "state": incident.state,
        "server": printable(incident.server),
    }


def _plain(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value
