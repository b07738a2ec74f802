"""The tables, and how a database of an older version becomes one of this version.

Migrations are sqlite-utils' own: each is applied once and noted in ``_sqlite_migrations``. One that has been released
is never changed; what comes later is a new one, which also raises ``schema_version`` in ``meta``.

Every time is an integer column of microseconds (``…_us``) with a generated text column beside it (RFC 3339, UTC), so
that the tables read well in Datasette and in the sqlite3 shell. Columns are explained in docs/database.md.
"""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database, Migrations

from sleepwatch.store.version import APPLICATION

_migrations = Migrations(APPLICATION)


def migrate(connection: sqlite3.Connection) -> None:
    """Apply what is pending. Must be called inside a transaction, so that it is all or nothing."""
    # Plugins installed for the sqlite-utils command have no business in this database.
    _migrations.apply(Database(connection, execute_plugins=False, recursive_triggers=False))


def _text(column: str, name: str | None = None) -> str:
    """A generated column with the time in ``column`` as text, microseconds kept."""
    return (
        f"{name or column.removesuffix('_us')} TEXT GENERATED ALWAYS AS "
        f"(strftime('%Y-%m-%dT%H:%M:%S', {column} / 1000000, 'unixepoch') || printf('.%06dZ', {column} % 1000000)) "
        "VIRTUAL"
    )


@_migrations(name="1-incidents")
def _incidents(db: Database) -> None:
    db.executescript(f"""
        CREATE TABLE meta (
            key TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT;

        CREATE TABLE source (
            source TEXT PRIMARY KEY,
            envelope TEXT,
            bytes INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
            first_us INTEGER,
            last_us INTEGER,
            time_from TEXT,
            rules_digest TEXT,
            read_us INTEGER NOT NULL,
            {_text("first_us", "first_time")},
            {_text("last_us", "last_time")},
            {_text("read_us", "read_time")}
        ) STRICT;

        CREATE TABLE life (
            life TEXT PRIMARY KEY,
            server TEXT NOT NULL,
            source TEXT NOT NULL REFERENCES source (source),
            pid INTEGER,
            port TEXT,
            build TEXT,
            era TEXT CHECK (era IN ('A', 'B', 'C')),
            verbosity INTEGER,
            sees_arrival INTEGER NOT NULL CHECK (sees_arrival IN (0, 1)),
            sees_queued INTEGER NOT NULL CHECK (sees_queued IN (0, 1)),
            sees_answered INTEGER NOT NULL CHECK (sees_answered IN (0, 1)),
            sees_exit INTEGER NOT NULL CHECK (sees_exit IN (0, 1)),
            started_us INTEGER,
            ended_us INTEGER,
            exit TEXT,
            sleeps INTEGER NOT NULL CHECK (sleeps >= 0),
            requests INTEGER NOT NULL CHECK (requests >= 0),
            freed_in_grace INTEGER NOT NULL CHECK (freed_in_grace >= 0),
            lost_to_stop INTEGER NOT NULL CHECK (lost_to_stop >= 0),
            last_clock_us INTEGER,
            {_text("started_us")},
            {_text("ended_us")}
        ) STRICT;
        CREATE INDEX life_server ON life (server);
        CREATE INDEX life_source ON life (source);

        CREATE TABLE incident (
            id TEXT PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('hung-request', 'stalled-request', 'sleep-crash', 'wake-failure',
                                               'crash-in-flight', 'crash', 'crash-loop', 'blind')),
            confidence TEXT NOT NULL CHECK (confidence IN ('confirmed', 'probable', 'possible')),
            state TEXT NOT NULL CHECK (state IN ('open', 'unstuck', 'recovered', 'abandoned', 'lost', 'unresolved',
                                                 'restarted', 'down')),
            severity TEXT NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
            server TEXT NOT NULL,
            life TEXT REFERENCES life (life),
            task INTEGER,
            in_flight INTEGER CHECK (in_flight >= 0),
            in_flight_reason TEXT,
            signal INTEGER,
            count INTEGER NOT NULL DEFAULT 1 CHECK (count >= 1),
            opened_us INTEGER,
            closed_us INTEGER,
            log_opened_us INTEGER,
            log_closed_us INTEGER,
            summary TEXT NOT NULL,
            reason TEXT NOT NULL,
            remedy TEXT NOT NULL,
            withdrawn_us INTEGER,
            part_of TEXT REFERENCES incident (id),
            recorded_us INTEGER NOT NULL,
            updated_us INTEGER NOT NULL,
            duration_us INTEGER GENERATED ALWAYS AS (CASE
                WHEN log_opened_us IS NOT NULL AND log_closed_us IS NOT NULL
                    THEN max(0, log_closed_us - log_opened_us)
                WHEN opened_us IS NOT NULL AND closed_us IS NOT NULL THEN max(0, closed_us - opened_us)
            END) VIRTUAL,
            {_text("opened_us")},
            {_text("closed_us")},
            {_text("withdrawn_us")},
            {_text("recorded_us")},
            {_text("updated_us")}
        ) STRICT;
        CREATE INDEX incident_life ON incident (life);
        CREATE INDEX incident_server ON incident (server, opened_us);
        CREATE INDEX incident_part_of ON incident (part_of) WHERE part_of IS NOT NULL;

        CREATE TABLE incident_event (
            id INTEGER PRIMARY KEY,
            incident TEXT NOT NULL REFERENCES incident (id),
            from_state TEXT,
            to_state TEXT NOT NULL,
            kind TEXT NOT NULL,
            confidence TEXT NOT NULL,
            count INTEGER NOT NULL,
            reason TEXT NOT NULL,
            rules_digest TEXT,
            at_us INTEGER,
            recorded_us INTEGER NOT NULL,
            {_text("at_us")},
            {_text("recorded_us")}
        ) STRICT;
        CREATE INDEX incident_event_incident ON incident_event (incident);
        CREATE TRIGGER incident_event_never_updated BEFORE UPDATE ON incident_event
            BEGIN SELECT raise(ABORT, 'incident_event is append-only'); END;
        CREATE TRIGGER incident_event_never_deleted BEFORE DELETE ON incident_event
            BEGIN SELECT raise(ABORT, 'incident_event is append-only'); END;

        CREATE TABLE evidence (
            id INTEGER PRIMARY KEY,
            incident TEXT NOT NULL REFERENCES incident (id),
            role TEXT NOT NULL,
            source TEXT NOT NULL,
            "offset" INTEGER NOT NULL,
            text TEXT NOT NULL,
            rest_bytes INTEGER NOT NULL DEFAULT 0 CHECK (rest_bytes >= 0),
            rest_sha256 TEXT,
            clock_us INTEGER,
            wall_us INTEGER,
            {_text("wall_us", "wall_time")}
        ) STRICT;
        -- The same line found in another copy of the log is the same evidence. NULLs would count as different.
        CREATE UNIQUE INDEX evidence_once ON evidence (incident, role, ifnull(clock_us, -1), text);

        CREATE TABLE gap (
            id INTEGER PRIMARY KEY,
            source TEXT NOT NULL REFERENCES source (source),
            cause TEXT NOT NULL,
            from_offset INTEGER,
            to_offset INTEGER,
            from_us INTEGER,
            to_us INTEGER,
            {_text("from_us", "from_time")},
            {_text("to_us", "to_time")}
        ) STRICT;
        CREATE UNIQUE INDEX gap_once ON gap (
            source, cause, ifnull(from_offset, -1), ifnull(to_offset, -1), ifnull(from_us, -1), ifnull(to_us, -1)
        );
    """)
    db.create_view(
        "open_incidents",
        """
        SELECT id, severity, kind, confidence, state, server, opened, log_opened_us / 1e6 AS log_opened_s, task,
               in_flight, signal, count, summary, remedy
        FROM incident
        WHERE state IN ('open', 'unresolved', 'down') AND confidence <> 'possible' AND withdrawn_us IS NULL
        ORDER BY ifnull(opened_us, recorded_us)
        """,
    )
    db.create_view(
        "incident_timeline",
        """
        SELECT incident_event.incident, incident.server, coalesce(incident_event.at, incident_event.recorded) AS "when",
               incident_event.from_state, incident_event.to_state, incident_event.kind, incident_event.confidence,
               incident_event.count, incident_event.reason, incident_event.recorded
        FROM incident_event JOIN incident ON incident.id = incident_event.incident
        ORDER BY incident_event.id
        """,
    )
    db.execute("INSERT INTO meta (key, value) VALUES ('application', ?), ('schema_version', '1')", [APPLICATION])


@_migrations(name="2-daemon")
def _daemon(db: Database) -> None:
    db.executescript(f"""
        CREATE TABLE checkpoint (
            source TEXT PRIMARY KEY,
            file TEXT NOT NULL,
            state BLOB NOT NULL,
            rules_digest TEXT NOT NULL,
            saved_us INTEGER NOT NULL,
            {_text("saved_us")}
        ) STRICT;

        CREATE TABLE watch (
            source TEXT PRIMARY KEY,
            state TEXT NOT NULL,
            reason TEXT,
            since_us INTEGER,
            "offset" INTEGER NOT NULL DEFAULT 0,
            unread INTEGER NOT NULL DEFAULT 0,
            envelope TEXT,
            lives INTEGER NOT NULL DEFAULT 0,
            seen_us INTEGER NOT NULL,
            {_text("since_us")},
            {_text("seen_us")}
        ) STRICT;

        CREATE TABLE watcher (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            pid INTEGER NOT NULL,
            version TEXT NOT NULL,
            started_us INTEGER NOT NULL,
            beat_us INTEGER NOT NULL,
            stopped_us INTEGER,
            {_text("started_us")},
            {_text("beat_us")},
            {_text("stopped_us")}
        ) STRICT;
    """)
    db.execute("UPDATE meta SET value = '2' WHERE key = 'schema_version'")


@_migrations(name="3-notify")
def _notify(db: Database) -> None:
    db.executescript(f"""
        CREATE TABLE notice (
            incident TEXT NOT NULL REFERENCES incident (id),
            target TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('new', 'told', 'silenced', 'held', 'listed', 'changed', 'over')),
            hold TEXT CHECK (hold IN ('backfill', 'downtime', 'storm')),
            title TEXT,
            kind TEXT,
            severity TEXT,
            since_us INTEGER NOT NULL,
            {_text("since_us")},
            PRIMARY KEY (incident, target)
        ) STRICT;
        CREATE INDEX notice_unsaid ON notice (target, state) WHERE state IN ('held', 'changed', 'silenced');

        CREATE TABLE message (
            id INTEGER PRIMARY KEY,
            what TEXT NOT NULL CHECK (what IN ('opened', 'passed', 'escalated', 'recovered', 'withdrawn', 'digest',
                                               'summary')),
            incident TEXT REFERENCES incident (id),
            type TEXT NOT NULL CHECK (type IN ('failure', 'warning', 'success')),
            title TEXT NOT NULL,
            short TEXT NOT NULL,
            long TEXT NOT NULL,
            document TEXT NOT NULL,
            written_us INTEGER NOT NULL,
            {_text("written_us")}
        ) STRICT;
        CREATE INDEX message_incident ON message (incident) WHERE incident IS NOT NULL;

        CREATE TABLE delivery (
            id INTEGER PRIMARY KEY,
            message INTEGER NOT NULL REFERENCES message (id),
            target TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('waiting', 'sending', 'sent', 'undeliverable', 'replaced')),
            tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
            queued_us INTEGER NOT NULL,
            due_us INTEGER NOT NULL,
            done_us INTEGER,
            {_text("queued_us")},
            {_text("due_us")},
            {_text("done_us")}
        ) STRICT;
        CREATE INDEX delivery_message ON delivery (message);
        CREATE INDEX delivery_unsent ON delivery (due_us) WHERE state IN ('waiting', 'sending');
        CREATE INDEX delivery_recent ON delivery (target, queued_us);

        CREATE TABLE attempt (
            id INTEGER PRIMARY KEY,
            delivery INTEGER NOT NULL REFERENCES delivery (id),
            begun_us INTEGER NOT NULL,
            ended_us INTEGER,
            outcome TEXT CHECK (outcome IN ('sent', 'failed', 'timeout', 'interrupted')),
            words TEXT,
            {_text("begun_us")},
            {_text("ended_us")}
        ) STRICT;
        CREATE INDEX attempt_delivery ON attempt (delivery);

        CREATE TABLE silence (
            id INTEGER PRIMARY KEY,
            server TEXT,
            kind TEXT,
            reason TEXT NOT NULL,
            added_us INTEGER NOT NULL,
            until_us INTEGER NOT NULL,
            kept_back INTEGER NOT NULL DEFAULT 0 CHECK (kept_back >= 0),
            {_text("added_us")},
            {_text("until_us")}
        ) STRICT;
    """)
    db.create_view(
        "undelivered",
        """
        SELECT delivery.id, delivery.state, delivery.target, message.what, message.incident, message.title,
               delivery.queued, delivery.tries, delivery.due, delivery.done,
               (SELECT words FROM attempt WHERE attempt.delivery = delivery.id ORDER BY id DESC LIMIT 1) AS last_attempt
        FROM delivery JOIN message ON message.id = delivery.message
        WHERE delivery.state IN ('waiting', 'sending', 'undeliverable')
        ORDER BY delivery.id
        """,
    )
    db.execute("UPDATE meta SET value = '3' WHERE key = 'schema_version'")


@_migrations(name="4-actions")
def _actions(db: Database) -> None:
    db.executescript(f"""
        CREATE TABLE actions (
            id INTEGER PRIMARY KEY,
            incident TEXT NOT NULL REFERENCES incident (id),
            server TEXT NOT NULL,
            mode TEXT NOT NULL CHECK (mode IN ('observe', 'act')),
            url TEXT,
            request TEXT,
            outcome TEXT CHECK (outcome IN ('released', 'woke-not-released', 'already-awake', 'abandoned',
                                            'unreachable', 'refused', 'crashed-on-wake', 'timeout', 'would-wake',
                                            'unknown')),
            words TEXT,
            status INTEGER,
            waiting INTEGER CHECK (waiting >= 0),
            begun_us INTEGER NOT NULL,
            sent_us INTEGER,
            answered_us INTEGER,
            ended_us INTEGER,
            waited_us INTEGER,
            {_text("begun_us")},
            {_text("sent_us")},
            {_text("answered_us")},
            {_text("ended_us")}
        ) STRICT;
        CREATE INDEX actions_incident ON actions (incident);
        CREATE INDEX actions_begun ON actions (begun_us);
    """)
    db.execute("UPDATE meta SET value = '4' WHERE key = 'schema_version'")


@_migrations(name="5-witness")
def _witness(db: Database) -> None:
    db.executescript(f"""
        CREATE TABLE observation (
            id INTEGER PRIMARY KEY,
            source TEXT NOT NULL,
            life TEXT NOT NULL,
            sleep TEXT,
            place INTEGER NOT NULL,
            seen_in TEXT NOT NULL,
            type TEXT NOT NULL,
            text TEXT NOT NULL,
            fields TEXT NOT NULL CHECK (json_valid(fields)),
            clock_us INTEGER,
            wall_us INTEGER,
            recorded_us INTEGER NOT NULL,
            {_text("wall_us", "wall_time")}
        ) STRICT;
        CREATE INDEX observation_life ON observation (life);

        CREATE TABLE witness (
            server TEXT NOT NULL,
            port INTEGER,
            pid INTEGER,
            hidden TEXT,
            unwatched TEXT
        ) STRICT;
    """)
    db.execute("UPDATE meta SET value = '5' WHERE key = 'schema_version'")
