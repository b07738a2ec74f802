"""What the engine gives back: incidents that opened, changed or were withdrawn, and questions to the live system."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from sleepwatch.engine.lives import LifeState, digest
from sleepwatch.engine.remedy import filled
from sleepwatch.engine.verdicts import Proof, Verdict
from sleepwatch.model import Evidence, Incident, Origin
from sleepwatch.printable import printable


class Words(msgspec.Struct, frozen=True):
    """What the engine needs of ``rules/incidents.toml`` for one kind."""

    severity: str
    remedy: str


class Transition(msgspec.Struct, frozen=True):
    """An incident opened, changed or was withdrawn."""

    incident: Incident
    before: Incident | None
    withdrawn: bool = False


class Ask(msgspec.Struct, frozen=True):
    """A fact the engine wants from the live system, about one sleep of one life.

    ``snapshot`` of its connections is to be answered before anything else is done: a request that dies has
    milliseconds. ``props`` is whether the server says that it sleeps. The answers are events: ``witness.snapshot``,
    ``witness.props`` (:mod:`sleepwatch.engine.witnesses`), with ``life`` and ``sleep`` from here.
    """

    what: str
    life: str
    server: str
    port: str | None
    pid: int | None
    url: str | None
    """What it said that it listens on."""
    origin: Origin
    sleep: str
    place: int
    """Its place in the log: so many lines of this life came since the sleep began."""
    clock_us: int | None
    """The life's log clock now, as far as it is known."""
    asleep_us: int | None
    """For how long it has been asleep; None: it is awake again."""
    awake_us: int = 0
    """For how long it has been awake again."""
    cookies: tuple[int, ...] = ()
    """Connections to be looked at whatever they do now."""


class Output(NamedTuple):
    """What one call found out."""

    transitions: list[Transition]
    asks: list[Ask]


def incident_of(life: LifeState, verdict: Verdict, words: Mapping[str, Words]) -> Incident:
    """A verdict about this life, with its identity (docs/verdicts.md), what to do, and its lines as they are shown."""
    of_kind, opened, closed = words[verdict.kind], verdict.opened, verdict.closed
    return Incident(
        id=digest(life.key.encode(), verdict.subject.encode()),
        kind=verdict.kind,
        confidence=verdict.confidence,
        state=verdict.state,
        severity=of_kind.severity,
        server=life.server.name,
        life=life.key,
        summary=verdict.summary,
        remedy=filled(of_kind.remedy, life),
        reason=verdict.reason,
        evidence=tuple(_evidence(proof) for proof in verdict.proofs),
        task=verdict.task,
        in_flight=verdict.in_flight,
        in_flight_reason=verdict.in_flight_reason,
        signal=verdict.signal,
        count=verdict.count,
        opened_us=opened.wall_us if opened is not None else None,
        closed_us=closed.wall_us if closed is not None else None,
        log_opened_us=opened.clock_us if opened is not None else None,
        log_closed_us=closed.clock_us if closed is not None and closed.origin is life.origin else None,
    )


def _evidence(proof: Proof) -> Evidence:
    event = proof.event
    return Evidence(
        role=proof.role,
        source=event.source or event.origin.source,
        offset=event.offset,
        text=printable(event.text.decode("utf-8", "surrogateescape")),
        rest_bytes=len(event.rest),
        rest_sha256=hashlib.sha256(event.rest).hexdigest() if event.rest else None,
        clock_us=event.clock_us,
        wall_us=event.wall_us,
    )
