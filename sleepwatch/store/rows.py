"""Between the model's structs and rows: the same columns, in the same order, for reading and for writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sleepwatch.model import CanSee, Evidence, Incident, Life
from sleepwatch.printable import printable, printable_lines

INCIDENT_COLUMNS = (
    "id",
    "kind",
    "confidence",
    "state",
    "severity",
    "server",
    "life",
    "task",
    "in_flight",
    "in_flight_reason",
    "signal",
    "count",
    "opened_us",
    "closed_us",
    "log_opened_us",
    "log_closed_us",
    "summary",
    "reason",
    "remedy",
)
"""The columns of ``incident`` that are fields of the struct, by the same names."""

LIFE_COLUMNS = (
    "life",
    "server",
    "source",
    "pid",
    "port",
    "build",
    "era",
    "verbosity",
    "started_us",
    "ended_us",
    "exit",
    "sleeps",
    "requests",
    "freed_in_grace",
    "lost_to_stop",
    "last_clock_us",
    "sees_arrival",
    "sees_queued",
    "sees_answered",
    "sees_exit",
)
"""The columns of ``life``: fields of the struct by the same names, then those of its ``can_see``."""

EVIDENCE_COLUMNS = ("role", "source", '"offset"', "text", "rest_bytes", "rest_sha256", "clock_us", "wall_us")

_SEES = 4


def incident_values(incident: Incident) -> list[Any]:
    """In the order of :data:`INCIDENT_COLUMNS`. An incident without a life (``blind``) has NULL there."""
    values = [_storable(getattr(incident, column)) for column in INCIDENT_COLUMNS]
    values[INCIDENT_COLUMNS.index("life")] = incident.life or None
    values[INCIDENT_COLUMNS.index("remedy")] = printable_lines(incident.remedy)
    return values


def incident_of(values: Sequence[Any], evidence: Sequence[Evidence] = ()) -> Incident:
    """The incident of a row of :data:`INCIDENT_COLUMNS`."""
    fields = dict(zip(INCIDENT_COLUMNS, values, strict=True))
    fields["life"] = fields["life"] or ""
    return Incident(**fields, evidence=tuple(evidence))


def life_values(life: Life) -> list[Any]:
    """In the order of :data:`LIFE_COLUMNS`."""
    sees = life.can_see
    values = [_storable(getattr(life, column)) for column in LIFE_COLUMNS[:-_SEES]]
    return [*values, sees.arrival, sees.queued, sees.answered, sees.exit]


def life_of(values: Sequence[Any]) -> Life:
    """The life of a row of :data:`LIFE_COLUMNS`."""
    arrival, queued, answered, exit_ = (bool(value) for value in values[-_SEES:])
    return Life(
        **dict(zip(LIFE_COLUMNS[:-_SEES], values[:-_SEES], strict=True)),
        can_see=CanSee(arrival=arrival, queued=queued, answered=answered, exit=exit_),
    )


def evidence_of(values: Sequence[Any]) -> Evidence:
    """The evidence of a row of :data:`EVIDENCE_COLUMNS`."""
    return Evidence(**dict(zip((column.strip('"') for column in EVIDENCE_COLUMNS), values, strict=True)))


def _storable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value
