"""Which stretches of a journal to read: each machine's entries for themselves, those of some units, of one boot.

Entries of several machines lie in one journal where they were collected (systemd-journal-remote) and where containers
keep theirs beside their host's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from sleepwatch.errors import SourceError
from sleepwatch.sources.journal import Entry, Journal, Place, Start, Terms, Which
from sleepwatch.sources.journal_units import Units, field_names

START_SLACK_US = 5_000_000
"""The manager's word about a start is received within this time of the unit's first line."""


TORN = "some of the journal may have been vacuumed away while it was being read"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What of a journal to read; everything by default."""

    units: Units = Units()
    boot: str | None = None
    """As ``journalctl --boot`` takes it: an id of 32 hex digits; 0, -1, -2 … back from the last; 1, 2 … from the
    first."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One machine's part of a journal."""

    name: str
    terms: Terms
    start: Start
    whole: tuple[str, ...] = ()
    """What all entries of the part have in common, the wanted and the others."""


def parts(journal: Journal, which: Which, selection: Selection, *, since_us: int | None = None) -> Iterator[Part]:
    """The parts of a journal to read, one after the other. Raises SourceError where there is no such unit or boot.

    ``since_us``: what ended before this time does not matter; of units it is then read from the start of the run that
    was on at that time, because a life is identified by its first lines.
    """
    names = units_here(journal, selection.units)
    if selection.units.names and not names:
        raise SourceError(f"{which.name}: no unit {' or '.join(selection.units.names)} is in the journal")
    terms: Terms = selection.units.terms(names) if names else ([],)
    machines: Sequence[str | None] = sorted(journal.unique("_MACHINE_ID"))
    for machine in machines if len(machines) > 1 else [None]:
        of_machine = [f"_MACHINE_ID={machine}"] if machine is not None else []
        boot = boot_id(journal, selection.boot, of_machine) if selection.boot is not None else None
        if boot is not None:
            of_machine = [f"_BOOT_ID={boot}", *of_machine]
        if names:
            terms = [group for group in terms if journal.first([[*group, *of_machine]]) is not None]  # fewer are faster
        start: Start = "head"
        if since_us is not None and names:
            start = min((_run_at(journal, name, since_us, of_machine) for name in names), default=since_us)
        host = machine and _text(journal.first([of_machine]), "_HOSTNAME")
        yield Part(
            name=f"{which.name}@{host or machine}" if machine else which.name,
            terms=[[*group, *of_machine] for group in terms] if of_machine or names else (),
            start=start,
            whole=tuple(of_machine),
        )


def units_here(journal: Journal, units: Units) -> list[str]:
    """The units of these names and patterns that the journal knows, by their whole names."""
    if not units.names:
        return []
    return sorted({name for field in field_names() for name in journal.unique(field) if units.fits(name)})


def boot_id(journal: Journal, wanted: str, terms: Sequence[str] = ()) -> str:
    """The boot a person means. Raises SourceError."""
    known = journal.unique("_BOOT_ID")
    compact = wanted.replace("-", "").lower()
    if len(compact) == 32:
        if compact in known:
            return compact
        raise SourceError(f"there is no boot {wanted} in the journal", hint="`journalctl --list-boots` lists them")
    try:
        number = int(wanted)
    except ValueError as error:
        raise SourceError(f"{wanted!r} is no boot", hint="write its id, or 0, -1, -2 … back from the last") from error
    begins = []
    for boot in known:
        first = journal.first([[f"_BOOT_ID={boot}", *terms]])
        if first is not None:
            begins.append((int(first["__REALTIME_TIMESTAMP"]), boot))
    begins.sort()
    at = number - 1 if number > 0 else number - 1 + len(begins)
    if not 0 <= at < len(begins):
        raise SourceError(f"there is no boot {wanted} in the journal: it knows {len(begins)}")
    return begins[at][1]


def run_start(journal: Journal, entry: Entry, terms: Sequence[str] = ()) -> int | None:
    """When the run of a unit began that an entry of the unit's is of; None where the entry does not tell its run."""
    invocation = _text(entry, "_SYSTEMD_INVOCATION_ID")
    if invocation is None:
        return None
    own = [f"_SYSTEMD_INVOCATION_ID={invocation}", *terms]
    about = ["_PID=1", f"INVOCATION_ID={invocation}", *terms]
    first = journal.first([own, about])
    return int(first["__REALTIME_TIMESTAMP"]) - START_SLACK_US if first is not None else None


def is_there(journal: Journal, place: Place, terms: Sequence[str] = ()) -> bool:
    """Is this entry still in the journal? Reading has to begin anew afterwards."""
    found = journal.first([terms] if terms else (), place)
    return found is not None and place_of(found).is_same(place)


def place_of(entry: Entry) -> Place:
    """Where an entry stands."""
    return Place.of(entry["__CURSOR"].decode("ascii", "replace"))


def _run_at(journal: Journal, unit: str, time_us: int, terms: Sequence[str]) -> int:
    """From when on to read what concerns a unit's run at this time."""
    before = journal.last([[f"{field}={unit}", *terms] for field in ("_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT")], time_us)
    start = run_start(journal, before, terms) if before is not None else None
    return min(start, time_us - START_SLACK_US) if start is not None else time_us - START_SLACK_US


def _text(entry: Entry | None, field: str) -> str | None:
    value = entry.get(field) if entry is not None else None
    return value.decode("utf-8", "replace") if value is not None else None
