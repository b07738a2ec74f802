"""How two readings of the same incident or life become one, whichever comes first.

Logs are read again and again: the same file twice, a file and later its longer version, a rotated copy, the journal and
a log file of the same server. A reading that knows more moves a row on; one that knows less leaves it as it is.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sleepwatch.model import CONFIDENCES, KINDS, CanSee, Incident, Life

_PROGRESS = {"open": 0, "unresolved": 0, "down": 1}
_SETTLED = 2

_Value = TypeVar("_Value")


def merge_incident(old: Incident, new: Incident) -> Incident:
    """What is known of an incident after another reading of it; ``old`` itself where that adds nothing.

    The verdict (kind, confidence, reason) is that of the surer reading, and of two equally sure ones the more telling
    kind; a crash loop, which counts several deaths, always stands above the single crash. The state only moves forward:
    an end, once seen, stays. Facts that are missing are filled in. Evidence is kept apart and not touched here.
    """
    moved = _progress(new.state) > _progress(old.state)
    grown = old.kind == new.kind == "crash-loop" and new.count > old.count
    surer = new if _rank(new) > _rank(old) or (moved and _rank(new) == _rank(old)) else old
    later, earlier = (new, old) if moved or grown else (old, new)
    words = new if surer is new or (moved and new.kind == old.kind) else old
    in_flight = _known(surer.in_flight, _known(old.in_flight, new.in_flight))
    return msgspec.structs.replace(
        old,
        kind=surer.kind,
        confidence=surer.confidence,
        reason=surer.reason,
        count=max(old.count, new.count) if grown else surer.count,
        state=later.state if moved else old.state,
        severity=words.severity,
        summary=words.summary,
        remedy=words.remedy,
        task=_known(old.task, new.task),
        signal=_known(surer.signal, _known(old.signal, new.signal)),
        in_flight=in_flight,
        in_flight_reason=_known(surer.in_flight_reason, old.in_flight_reason) if in_flight is None else None,
        opened_us=_known(old.opened_us, new.opened_us),
        log_opened_us=_known(old.log_opened_us, new.log_opened_us),
        closed_us=_known(later.closed_us, earlier.closed_us),
        log_closed_us=_known(later.log_closed_us, earlier.log_closed_us),
    )


def merge_life(old: Life, new: Life) -> Life:
    """What is known of a life after another reading of it; ``old`` itself where that adds nothing."""
    longer, shorter = (new, old) if reaches_further(new, old) else (old, new)
    return msgspec.structs.replace(
        old,
        pid=_known(old.pid, new.pid),
        port=_known(old.port, new.port),
        build=_known(old.build, new.build),
        era=_known(old.era, new.era),
        verbosity=_known(old.verbosity, new.verbosity),
        can_see=CanSee(
            arrival=old.can_see.arrival or new.can_see.arrival,
            queued=old.can_see.queued or new.can_see.queued,
            answered=old.can_see.answered or new.can_see.answered,
            exit=old.can_see.exit or new.can_see.exit,
        ),
        started_us=_known(old.started_us, new.started_us),
        ended_us=_known(longer.ended_us, shorter.ended_us),
        exit=new.exit if _exit_rank(new.exit) > _exit_rank(old.exit) else old.exit,
        sleeps=max(old.sleeps, new.sleeps),
        requests=max(old.requests, new.requests),
        freed_in_grace=max(old.freed_in_grace, new.freed_in_grace),
        lost_to_stop=max(old.lost_to_stop, new.lost_to_stop),
        last_clock_us=max(_reach(old), _reach(new)) if _reach(old) >= 0 or _reach(new) >= 0 else None,
    )


def reaches_further(new: Life, old: Life) -> bool:
    """Whether ``new`` read more of this life than ``old``, and nothing less of it."""
    return _extent(new) != _extent(old) and reaches_as_far(new, old)


def reaches_as_far(new: Life, old: Life) -> bool:
    """Whether ``new`` read at least as much of this life as ``old``."""
    return all(ours >= theirs for ours, theirs in zip(_extent(new), _extent(old), strict=True))


def _extent(life: Life) -> tuple[int, int, int]:
    return _reach(life), life.sleeps, life.requests


def _reach(life: Life) -> int:
    return -1 if life.last_clock_us is None else life.last_clock_us


def _rank(incident: Incident) -> tuple[bool, int, int, int]:
    return (
        incident.kind == "crash-loop",
        CONFIDENCES.index(incident.confidence),
        KINDS.index(incident.kind),
        incident.count,
    )


def _progress(state: str) -> int:
    return _PROGRESS.get(state, _SETTLED)


def _exit_rank(exit_: str | None) -> int:
    if exit_ is None:
        return 0
    if exit_ == "unknown":
        return 1
    return 2 if exit_.startswith("status ") else 3  # a status can hide a signal (a router's 1)


def _known(first: _Value | None, second: _Value | None) -> _Value | None:
    return second if first is None else first
