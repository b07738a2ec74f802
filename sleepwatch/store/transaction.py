"""Writing a reading: everything of it or nothing.

A transaction belongs to whoever opened it with :meth:`sleepwatch.store.Store.transaction`; others write into the same
one through :meth:`Transaction.execute`, so that what belongs together is committed together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sleepwatch.model import Evidence, Gap, Incident, Life, ScanResult, SourceInfo
from sleepwatch.printable import printable
from sleepwatch.store.merge import merge_incident, merge_life, reaches_as_far, reaches_further
from sleepwatch.store.rows import INCIDENT_COLUMNS, LIFE_COLUMNS, incident_of, incident_values, life_of, life_values


class RecordOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What recording a reading did to the incidents: how many of them were …"""

    new: int = 0
    """… not known before,"""
    changed: int = 0
    """… known, and the reading added something: a later state, a surer verdict, a missing fact, evidence,"""
    same: int = 0
    """… known, and the reading added nothing,"""
    withdrawn: int = 0
    """… known, and shown by a longer reading of the same life not to be incidents, or to be part of a crash loop."""


class Transaction:
    """An open transaction on the database. Made by :meth:`sleepwatch.store.Store.transaction`, never kept beyond it."""

    def __init__(self, connection: sqlite3.Connection, now_us: int) -> None:
        self._connection = connection
        self.now_us = now_us

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement inside this transaction."""
        return self._connection.execute(sql, parameters)

    def record(
        self,
        result: ScanResult,
        rules_digest: str | None = None,
        *,
        told: Mapping[str, Incident | None] | None = None,
    ) -> RecordOutcome:
        """Merge a reading into what is known (:mod:`sleepwatch.store.merge`).

        ``rules_digest`` names the rules it was read with and is kept beside each transition. ``told``: what this very
        reading, which goes on, told of an incident before. Where nobody else has added to that, it is replaced.
        """
        for source in result.sources:
            self._record_source(source, rules_digest)
        known = {life.life: self._life(life.life) for life in result.lives}
        for life in result.lives:
            self._record_life(life)
        for gap in result.gaps:
            self._record_gap(gap)
        # Lives of which this reading saw at least as much as any before: only there can it contradict what is known.
        full = [life for life in result.lives if (before := known[life.life]) is None or reaches_as_far(life, before)]
        further = {life.life for life in full if (before := known[life.life]) and reaches_further(life, before)}
        trusted = {life.life for life in full}
        outcomes = [
            self._record_incident(
                incident,
                trusted=incident.life in trusted,
                rules_digest=rules_digest,
                told=told.get(incident.id) if told is not None else None,
            )
            for incident in result.incidents
        ]
        return RecordOutcome(
            new=outcomes.count("new"),
            changed=outcomes.count("changed"),
            same=outcomes.count("same"),
            withdrawn=self._withdraw(result, full, further, rules_digest),
        )

    def withdraw(self, incident: Incident, reason: str, rules_digest: str | None = None) -> None:
        """Take an incident back: it stays, marked, with the reason in its timeline, and no report shows it."""
        row = self.execute("SELECT 1 FROM incident WHERE id = ? AND withdrawn_us IS NULL", (incident.id,)).fetchone()
        if row is not None:
            self._event(incident.state, incident, f"withdrawn: {reason}", None, rules_digest)
            self.execute(
                "UPDATE incident SET withdrawn_us = ?, updated_us = ? WHERE id = ?",
                (self.now_us, self.now_us, incident.id),
            )

    def note(self, incident_id: str, words: str, at_us: int) -> None:
        """Write into an incident's timeline what was done about it."""
        self.execute(
            "INSERT INTO incident_event (incident, from_state, to_state, kind, confidence, count, reason, at_us, "
            "recorded_us) SELECT id, state, state, kind, confidence, count, ?, ?, ? FROM incident WHERE id = ?",
            (printable(words), at_us, self.now_us, incident_id),
        )

    # Sources, lives, gaps

    def _record_source(self, source: SourceInfo, rules_digest: str | None) -> None:
        self.execute(
            """
            INSERT INTO source (source, envelope, bytes, first_us, last_us, time_from, rules_digest, read_us)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (source) DO UPDATE SET
                envelope = excluded.envelope,
                bytes = max(bytes, excluded.bytes),
                first_us = min(ifnull(first_us, excluded.first_us), ifnull(excluded.first_us, first_us)),
                last_us = max(ifnull(last_us, excluded.last_us), ifnull(excluded.last_us, last_us)),
                time_from = ifnull(excluded.time_from, time_from),
                rules_digest = excluded.rules_digest,
                read_us = excluded.read_us
            """,
            (
                printable(source.source),
                source.envelope,
                source.bytes,
                source.first_us,
                source.last_us,
                source.time_from,
                rules_digest,
                self.now_us,
            ),
        )

    def _mention_source(self, name: str) -> None:
        """A row for a source something refers to, although nothing of it was read."""
        self.execute("INSERT OR IGNORE INTO source (source, read_us) VALUES (?, ?)", (printable(name), self.now_us))

    def _life(self, key: str) -> Life | None:
        row = self.execute(f"SELECT {', '.join(LIFE_COLUMNS)} FROM life WHERE life = ?", (key,)).fetchone()
        return None if row is None else life_of(row)

    def _record_life(self, life: Life) -> None:
        known = self._life(life.life)
        if known is None:
            self._mention_source(life.source)
            self._insert("life", LIFE_COLUMNS, life_values(life))
        else:
            merged = merge_life(known, life)
            if merged != known:
                self._update("life", LIFE_COLUMNS, life_values(merged))

    def _record_gap(self, gap: Gap) -> None:
        self._mention_source(gap.source)
        self.execute(
            "INSERT OR IGNORE INTO gap (source, cause, from_offset, to_offset, from_us, to_us) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (printable(gap.source), printable(gap.cause), gap.from_offset, gap.to_offset, gap.from_us, gap.to_us),
        )

    # Incidents

    def _record_incident(
        self, incident: Incident, *, trusted: bool, rules_digest: str | None, told: Incident | None
    ) -> str:
        """``new``, ``changed`` or ``same``. Only a ``trusted`` reading brings back what another one took back."""
        row = self.execute(
            f"SELECT {', '.join(INCIDENT_COLUMNS)}, withdrawn_us, part_of FROM incident WHERE id = ?", (incident.id,)
        ).fetchone()
        if row is None:
            self._insert(
                "incident",
                (*INCIDENT_COLUMNS, "recorded_us", "updated_us"),
                (*incident_values(incident), self.now_us, self.now_us),
            )
            self._event(None, incident, incident.reason, incident.opened_us, rules_digest)
            self._add_evidence(incident.id, incident.evidence)
            return "new"
        *values, withdrawn_us, part_of = row
        known = incident_of(values)
        if withdrawn_us is not None:
            if part_of is not None or not trusted:
                return "same"
            self.execute("UPDATE incident SET withdrawn_us = NULL WHERE id = ?", (incident.id,))
            self.execute("DELETE FROM evidence WHERE incident = ?", (incident.id,))
        own = told is not None and incident_values(told) == values
        merged = incident if own or withdrawn_us is not None else merge_incident(known, incident)
        transition = _transition(known) != _transition(merged) or withdrawn_us is not None
        if transition:
            at_us = merged.closed_us if merged.state != known.state else None
            self._event(known.state, merged, merged.reason, at_us, rules_digest)
        if own and told is not None:
            self._drop_evidence(incident.id, set(told.evidence) - set(incident.evidence))
        added = self._add_evidence(incident.id, incident.evidence)
        if not (transition or added or merged != known):
            return "same"
        self._update("incident", (*INCIDENT_COLUMNS, "updated_us"), (*incident_values(merged), self.now_us))
        return "changed"

    def _withdraw(self, result: ScanResult, full: list[Life], further: set[str], rules_digest: str | None) -> int:
        """Take back what a longer reading of the same life no longer finds.

        A request that seemed lost where a log was cut is launched in the longer log; a process that seemed dead writes
        on; five single crashes turn out to be a loop. The rows and their timelines stay, marked, and no report shows
        them. Only a reading that saw strictly more of a life (or, for the loop, as much) can take back, only where it
        has no gap, and only what rested on logs alone: what a witness saw is in no log.
        """
        if not result.whole:
            return 0
        found = {incident.id for incident in result.incidents}
        loops = {incident.server: incident.id for incident in result.incidents if incident.kind == "crash-loop"}
        torn = {gap.source for gap in result.gaps} | {name for name, _ in result.failed}
        count = 0
        for life in full:
            if life.source in torn or not (life.life in further or life.server in loops):
                continue
            for row in self.execute(_STANDING_ON_LOGS, (life.life,)).fetchall():
                incident = incident_of(row)
                loop = loops.get(life.server) if incident.kind == "crash" else None
                if incident.id in found or (loop is None and life.life not in further):
                    continue
                reason = (
                    f"withdrawn: one of the deaths of crash loop {loop}"
                    if loop
                    else "withdrawn: a reading that goes further does not bear it out"
                )
                self._event(incident.state, incident, reason, None, rules_digest)
                self.execute(
                    "UPDATE incident SET withdrawn_us = ?, part_of = ?, updated_us = ? WHERE id = ?",
                    (self.now_us, loop, self.now_us, incident.id),
                )
                count += 1
        return count

    def _event(
        self, from_state: str | None, incident: Incident, reason: str, at_us: int | None, rules_digest: str | None
    ) -> None:
        self._insert(
            "incident_event",
            (
                "incident",
                "from_state",
                "to_state",
                "kind",
                "confidence",
                "count",
                "reason",
                "rules_digest",
                "at_us",
                "recorded_us",
            ),
            (
                incident.id,
                from_state,
                incident.state,
                incident.kind,
                incident.confidence,
                incident.count,
                printable(reason),
                rules_digest,
                at_us,
                self.now_us,
            ),
        )

    def _add_evidence(self, incident: str, evidence: Iterable[Evidence]) -> int:
        """How many lines were new, or known without their wall time."""
        added = 0
        for one in evidence:
            role, text = printable(one.role), printable(one.text)
            added += self.execute(
                """
                INSERT OR IGNORE INTO evidence
                    (incident, role, source, "offset", text, rest_bytes, rest_sha256, clock_us, wall_us)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                (
                    incident,
                    role,
                    printable(one.source),
                    one.offset,
                    text,
                    one.rest_bytes,
                    one.rest_sha256,
                    one.clock_us,
                    one.wall_us,
                ),
            ).rowcount
            if one.wall_us is not None:
                added += self.execute(
                    """
                    UPDATE evidence SET wall_us = ?
                    WHERE incident = ? AND role = ? AND ifnull(clock_us, -1) = ? AND text = ? AND wall_us IS NULL
                    """,
                    (one.wall_us, incident, role, -1 if one.clock_us is None else one.clock_us, text),
                ).rowcount
        return added

    def _drop_evidence(self, incident: str, evidence: Iterable[Evidence]) -> None:
        """Lines that are no evidence of it any more."""
        for one in evidence:
            self.execute(
                "DELETE FROM evidence WHERE incident = ? AND role = ? AND ifnull(clock_us, -1) = ? AND text = ?",
                (incident, printable(one.role), -1 if one.clock_us is None else one.clock_us, printable(one.text)),
            )

    # Statements from column lists

    def _insert(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> None:
        self.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", values)

    def _update(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> None:
        """Set the row whose key is the first column."""
        sets = ", ".join(f"{column} = ?" for column in columns[1:])
        self.execute(f"UPDATE {table} SET {sets} WHERE {columns[0]} = ?", (*values[1:], values[0]))


_STANDING_ON_LOGS = f"""
    SELECT {", ".join(INCIDENT_COLUMNS)} FROM incident
    WHERE life = ? AND withdrawn_us IS NULL AND NOT EXISTS (
        SELECT 1 FROM evidence WHERE evidence.incident = incident.id
        AND evidence.source NOT IN (SELECT source FROM source WHERE envelope IS NOT NULL)
    )
"""


def _transition(incident: Incident) -> tuple[str, str, str, int]:
    return incident.state, incident.kind, incident.confidence, incident.count
