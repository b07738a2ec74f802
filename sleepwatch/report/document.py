"""The JSON document of ``scan --json``, and its incidents one a line. Schema: docs/scan-schema.json.

Times are RFC 3339 in UTC with microseconds, or null; names ending in ``_s`` are seconds, and ``log_…_s`` are seconds
on the server's own log clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sleepwatch.model import Evidence, Gap, Incident, Life, ScanResult, SourceInfo
from sleepwatch.printable import printable, printable_lines
from sleepwatch.report.times import rfc3339, seconds

SCHEMA_VERSION = 1

RawTexts = Mapping[tuple[str, int], str]
"""What followed a matched part on its line, by (source, offset): shown only where the person asked for it."""


def document(result: ScanResult, *, possible: bool = False, raw: RawTexts | None = None) -> dict[str, Any]:
    """The whole reading as one document.

    ``possible`` includes incidents of that confidence, which are otherwise only counted in ``totals``.
    ``raw`` adds the rest of each evidence line as ``raw``.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "sources": [_source_entry(source) for source in result.sources],
        "lives": [_life_entry(life) for life in result.lives],
        "incidents": [incident_entry(incident, raw) for incident in shown(result, possible=possible)],
        "gaps": [_gap_entry(gap) for gap in result.gaps],
        "totals": _totals(result),
    }


def shown(result: ScanResult, *, possible: bool) -> list[Incident]:
    """The incidents a report lists, ordered by their opening evidence.

    Those whose opening line carries a wall time come first, by time; the others by source (as read) and place.
    """
    order = {source.source: number for number, source in enumerate(result.sources)}

    def opening(incident: Incident) -> tuple[bool, int, int, int, str]:
        first = incident.evidence[0] if incident.evidence else None
        wall = incident.opened_us if first is None or first.wall_us is None else first.wall_us
        source = len(order) if first is None else order.get(first.source, len(order))
        return wall is None, wall or 0, source, 0 if first is None else first.offset, incident.id

    chosen = (incident for incident in result.incidents if possible or incident.confidence != "possible")
    return sorted(chosen, key=opening)


def incident_entry(incident: Incident, raw: RawTexts | None = None) -> dict[str, Any]:
    """One incident, as it stands in the document and on its own line of ``--jsonl``."""
    return {
        "id": incident.id,
        "kind": incident.kind,
        "confidence": incident.confidence,
        "state": incident.state,
        "severity": incident.severity,
        "server": printable(incident.server),
        "life": incident.life,
        "task": incident.task,
        "in_flight": incident.in_flight,
        "in_flight_reason": incident.in_flight_reason,
        "signal": incident.signal,
        "count": incident.count,
        "opened": rfc3339(incident.opened_us),
        "closed": rfc3339(incident.closed_us),
        "log_opened_s": seconds(incident.log_opened_us),
        "log_closed_s": seconds(incident.log_closed_us),
        "duration_s": seconds(incident.duration_us),
        "summary": printable(incident.summary),
        "reason": printable(incident.reason),
        "remedy": printable_lines(incident.remedy),
        "evidence": [_evidence_entry(evidence, raw) for evidence in incident.evidence],
    }


def json_text(document: Any) -> str:
    """A document as indented JSON, with a line feed at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def jsonl(result: ScanResult, *, possible: bool = False, raw: RawTexts | None = None) -> Iterator[str]:
    """One incident a line, without line feeds, in the document's order."""
    for incident in shown(result, possible=possible):
        yield msgspec.json.encode(incident_entry(incident, raw)).decode()


def _evidence_entry(evidence: Evidence, raw: RawTexts | None) -> dict[str, Any]:
    entry = {
        "role": evidence.role,
        "source": printable(evidence.source),
        "line": evidence.line,
        "offset": evidence.offset,
        "text": printable(evidence.text),
        "rest_bytes": evidence.rest_bytes,
        "rest_sha256": evidence.rest_sha256,
    }
    if raw is not None:
        entry["raw"] = raw.get((evidence.source, evidence.offset))
    return entry


def _source_entry(source: SourceInfo) -> dict[str, Any]:
    return {
        "source": printable(source.source),
        "envelope": source.envelope,
        "bytes": source.bytes,
        "first_time": rfc3339(source.first_us),
        "last_time": rfc3339(source.last_us),
        "time_from": source.time_from,
    }


def _life_entry(life: Life) -> dict[str, Any]:
    return {
        "life": life.life,
        "server": printable(life.server),
        "source": printable(life.source),
        "pid": life.pid,
        "port": life.port,
        "build": life.build,
        "era": life.era,
        "verbosity": life.verbosity,
        "can_see": msgspec.structs.asdict(life.can_see),
        "started": rfc3339(life.started_us),
        "ended": rfc3339(life.ended_us),
        "exit": life.exit,
        "sleeps": life.sleeps,
        "requests": life.requests,
        "freed_in_grace": life.freed_in_grace,
        "lost_to_stop": life.lost_to_stop,
    }


def _gap_entry(gap: Gap) -> dict[str, Any]:
    return {
        "source": printable(gap.source),
        "from": rfc3339(gap.from_us),
        "to": rfc3339(gap.to_us),
        "from_offset": gap.from_offset,
        "to_offset": gap.to_offset,
        "cause": printable(gap.cause),
    }


def _totals(result: ScanResult) -> dict[str, Any]:
    """Counts of everything, with the ``possible`` incidents beside the ones that count."""
    counted = [incident for incident in result.incidents if incident.confidence != "possible"]
    kinds = sorted({incident.kind for incident in counted})
    return {
        "sources": len(result.sources),
        "failed_sources": [{"source": printable(name), "why": printable(why)} for name, why in result.failed],
        "bytes": sum(source.bytes for source in result.sources),
        "lines": result.lines_seen,
        "events": result.events,
        "servers": len({life.server for life in result.lives}),
        "lives": len(result.lives),
        "sleeps": sum(life.sleeps for life in result.lives),
        "requests": sum(life.requests for life in result.lives),
        "incidents": len(counted),
        "confirmed": sum(incident.confidence == "confirmed" for incident in counted),
        "probable": sum(incident.confidence == "probable" for incident in counted),
        "possible": len(result.incidents) - len(counted),
        "by_kind": {kind: sum(incident.kind == kind for incident in counted) for kind in kinds},
        "gaps": len(result.gaps),
    }
