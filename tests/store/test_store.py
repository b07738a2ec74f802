"""Recording readings: nothing twice, nothing lost, nothing half."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.errors import StoreError
from sleepwatch.model import CanSee, Evidence, Gap, Incident, Life, ScanResult, SourceInfo
from sleepwatch.printable import printable, printable_lines
from sleepwatch.store import RecordOutcome, Store, Transaction, open_store
from sleepwatch.store.rows import incident_of, incident_values, life_of, life_values
from tests.support.results import CANCEL, HANG, LIFE, RESULT, SLEEP, SOURCE, incidents, scan_results

TABLES = ("source", "life", "incident", "incident_event", "evidence", "gap")
NEW = RecordOutcome(new=1)
SAME = RecordOutcome(same=1)
CHANGED = RecordOutcome(changed=1)


class Clock:
    """A wall clock that stands still until it is set."""

    def __init__(self) -> None:
        self.us = 1_800_000_000_000_000

    def __call__(self) -> int:
        return self.us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(tmp_path / "incidents.db", now=clock) as store:
        yield store


def _content(store: Store, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    return {table: store.connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables or TABLES}


def _counts(store: Store) -> dict[str, int]:
    return {table: len(rows) for table, rows in _content(store).items()}


def _reading(
    *found: Incident, lives: tuple[Life, ...] = (LIFE,), source: str = "server.log", gaps: tuple[Gap, ...] = ()
) -> ScanResult:
    """A reading of one source, with everything in it said to be of that source."""
    return msgspec.structs.replace(
        RESULT,
        sources=(msgspec.structs.replace(SOURCE, source=source),),
        lives=tuple(msgspec.structs.replace(life, source=source) for life in lives),
        incidents=tuple(
            msgspec.structs.replace(
                incident, evidence=tuple(msgspec.structs.replace(one, source=source) for one in incident.evidence)
            )
            for incident in found
        ),
        gaps=gaps,
    )


def _hang(**changes: Any) -> Incident:
    return msgspec.structs.replace(HANG, **changes)


def _life(**changes: Any) -> Life:
    return msgspec.structs.replace(LIFE, **changes)


# --- what goes in comes out -------------------------------------------------------------------------------------------


def test_an_incident_comes_back_as_it_was(store: Store) -> None:
    assert store.record(RESULT, "a1b2") == NEW
    assert store.incidents() == [HANG]
    assert store.incident("4a5b") == HANG


@given(st.data())
def test_rows_hold_every_field(data: st.DataObject) -> None:
    life = data.draw(scan_results().map(lambda result: result.lives[0] if result.lives else LIFE))
    incident = data.draw(incidents(life))
    safe = msgspec.structs.replace(
        incident,
        evidence=(),
        **{
            field: None if (text := getattr(incident, field)) is None else printable(text)
            for field in ("server", "summary", "reason", "in_flight_reason")
        },
        remedy=printable_lines(incident.remedy),
    )
    assert incident_of(incident_values(incident)) == safe
    assert life_of(life_values(life)) == msgspec.structs.replace(
        life, server=printable(life.server), source=printable(life.source)
    )


def test_every_struct_field_has_its_column(store: Store) -> None:
    """A field added to the model must be stored, or be left out on purpose."""

    def columns(table: str) -> set[str]:
        return {row[1] for row in store.connection.execute(f"PRAGMA table_xinfo({table})")}

    assert set(Incident.__struct_fields__) - {"evidence"} <= columns("incident")
    assert set(Evidence.__struct_fields__) - {"line"} <= columns("evidence")
    assert set(Gap.__struct_fields__) <= columns("gap")
    assert set(SourceInfo.__struct_fields__) <= columns("source")
    assert set(Life.__struct_fields__) - {"can_see"} <= columns("life")
    assert {f"sees_{name}" for name in CanSee.__struct_fields__} <= columns("life")


# --- nothing twice ----------------------------------------------------------------------------------------------------


@given(scan_results())
def test_any_reading_twice_adds_nothing(tmp_path_factory: pytest.TempPathFactory, result: ScanResult) -> None:
    clock = Clock()
    with open_store(tmp_path_factory.mktemp("store") / "incidents.db", now=clock) as store:
        outcome = store.record(result, "rules")
        assert outcome == RecordOutcome(new=len(result.incidents))
        before = _content(store)
        clock.us += 1
        assert store.record(result, "rules") == RecordOutcome(same=len(result.incidents))
        after = _content(store)
        del before["source"], after["source"]  # which remembers when it was last read
        assert after == before


def test_a_rotated_copy_adds_only_its_source(store: Store) -> None:
    store.record(_reading(_hang()))
    before = _counts(store)
    moved = tuple(msgspec.structs.replace(one, offset=one.offset - 1000) for one in HANG.evidence)
    assert store.record(_reading(_hang(evidence=moved), source="server.log.1")) == SAME
    assert _counts(store) == {**before, "source": 2}


def test_the_journal_after_the_log_file_adds_the_wall_times_and_nothing_twice(store: Store) -> None:
    store.record(_reading(_hang()))
    before = _counts(store)
    timed = tuple(
        msgspec.structs.replace(one, wall_us=1_759_464_000_000_000 + (one.clock_us or 0)) for one in HANG.evidence
    )
    journal = _reading(
        _hang(opened_us=timed[0].wall_us, closed_us=timed[1].wall_us, evidence=timed), source="journal:llama.service"
    )
    assert store.record(journal) == CHANGED
    assert _counts(store) == {**before, "source": 2}
    (incident,) = store.incidents()
    assert (incident.opened_us, incident.closed_us) == (1_759_464_003_324_771, 1_759_464_006_363_688)
    assert [one.wall_us for one in incident.evidence] == [1_759_464_003_324_771, 1_759_464_006_363_688]
    assert store.record(journal) == SAME
    assert store.record(_reading(_hang())) == SAME


def test_evidence_without_a_clock_is_deduplicated_too(store: Store) -> None:
    bare = msgspec.structs.replace(SLEEP, clock_us=None)
    store.record(_reading(_hang(evidence=(bare, msgspec.structs.replace(bare, offset=9)))))
    assert store.record(_reading(_hang(evidence=(bare,)))) == SAME
    assert len(store.incident(HANG.id).evidence) == 1


def test_more_evidence_is_added(store: Store) -> None:
    store.record(_reading(_hang(evidence=(SLEEP,))))
    assert store.record(_reading(_hang())) == CHANGED
    assert store.incident(HANG.id).evidence == (SLEEP, CANCEL)
    assert len(store.timeline(HANG.id)) == 1  # a fact more, but no transition


def test_gaps_are_kept_once(store: Store) -> None:
    gaps = (Gap(source="server.log", cause="torn", from_offset=5), Gap(source="elsewhere.log", cause="rotated away"))
    for _ in range(2):
        store.record(_reading(gaps=gaps))
    assert _counts(store)["gap"] == 2


def test_a_source_and_a_life_named_twice_in_one_reading(store: Store) -> None:
    """A journal and a log file of the same server, read together."""
    result = msgspec.structs.replace(
        RESULT,
        sources=(SOURCE, msgspec.structs.replace(SOURCE, source="journal")),
        lives=(LIFE, _life(source="journal", pid=77)),
        incidents=(HANG, HANG),
    )
    assert store.record(result) == RecordOutcome(new=1, same=1)
    assert _counts(store)["life"] == 1


# --- a reading that knows more, and one that knows less ---------------------------------------------------------------

SHORT = _reading(
    _hang(state="unresolved", log_closed_us=None, evidence=(SLEEP,), confidence="probable", reason="H5"),
    lives=(_life(last_clock_us=3_324_771, requests=6),),
)
LONG = _reading(_hang(), lives=(_life(last_clock_us=9_000_000),))


def test_a_longer_log_moves_the_incident_on(store: Store, clock: Clock) -> None:
    store.record(SHORT, "rules-1")
    clock.us += 1_000_000
    assert store.record(LONG, "rules-2") == CHANGED
    assert store.incidents() == [HANG]
    first, second = store.timeline(HANG.id)
    assert (first.from_state, first.to_state, first.confidence, first.rules_digest) == (
        None,
        "unresolved",
        "probable",
        "rules-1",
    )
    assert (second.from_state, second.to_state, second.confidence, second.reason, second.rules_digest) == (
        "unresolved",
        "abandoned",
        "confirmed",
        HANG.reason,
        "rules-2",
    )
    assert second.recorded_us - first.recorded_us == 1_000_000


def test_a_shorter_copy_afterwards_changes_nothing(store: Store, clock: Clock) -> None:
    store.record(LONG)
    before = _content(store, "life", "incident", "incident_event", "evidence", "gap")
    clock.us += 1
    assert store.record(SHORT) == SAME
    assert _content(store, "life", "incident", "incident_event", "evidence", "gap") == before


def test_what_a_longer_log_no_longer_finds_is_taken_back(store: Store) -> None:
    store.record(SHORT)
    served = _reading(lives=(_life(last_clock_us=9_000_000, requests=7),))
    assert store.record(served) == RecordOutcome(withdrawn=1)
    assert store.incidents(possible=True) == []
    assert store.connection.execute("SELECT * FROM open_incidents").fetchall() == []
    assert store.timeline(HANG.id)[-1].reason.startswith("withdrawn: ")
    assert store.record(served) == RecordOutcome()
    assert store.record(SHORT) == SAME  # the shorter copy again does not bring it back
    assert store.incidents(possible=True) == []


def test_what_was_taken_back_returns_with_a_reading_that_goes_as_far(store: Store) -> None:
    store.record(SHORT)
    store.record(_reading(lives=(_life(last_clock_us=9_000_000),)))
    assert store.record(LONG) == CHANGED
    assert store.incidents() == [HANG]
    assert [one.to_state for one in store.timeline(HANG.id)] == ["unresolved", "unresolved", "abandoned"]


@pytest.mark.parametrize(
    "reading",
    [
        _reading(lives=(_life(last_clock_us=3_324_771, requests=6),)),
        _reading(lives=(_life(last_clock_us=9_000_000, requests=1),)),
        _reading(lives=()),
        _reading(lives=(_life(last_clock_us=9_000_000),), gaps=(Gap(source="server.log", cause="torn"),)),
        msgspec.structs.replace(
            _reading(lives=(_life(last_clock_us=9_000_000),)), failed=(("server.log", "damaged behind byte 4000"),)
        ),
        msgspec.structs.replace(_reading(lives=(_life(last_clock_us=9_000_000),)), whole=False),
        _reading(lives=(_life(life="another", last_clock_us=9_000_000),)),
    ],
    ids=[
        "no further",
        "further but with less in it",
        "without the life",
        "with a gap",
        "not to the end",
        "of a stretch of time",
        "of another life",
    ],
)
def test_only_a_longer_whole_reading_of_the_same_life_takes_back(store: Store, reading: ScanResult) -> None:
    store.record(SHORT)
    assert store.record(reading).withdrawn == 0
    assert len(store.incidents()) == 1


def test_what_a_witness_saw_is_not_taken_back_by_a_log(store: Store) -> None:
    (hang,) = SHORT.incidents
    seen = Evidence(role="socket", source="tcp:8080", offset=0, text="received 79589 bytes, sent none")
    store.record(msgspec.structs.replace(SHORT, incidents=(msgspec.structs.replace(hang, evidence=(SLEEP, seen)),)))
    assert store.record(_reading(lives=(_life(last_clock_us=9_000_000),))) == RecordOutcome()
    assert len(store.incidents()) == 1


def _deaths(number: int) -> tuple[list[Life], list[Incident]]:
    lives = [_life(life=f"life{index}", sleeps=0, requests=0, last_clock_us=5_000) for index in range(number)]
    crashes = [
        _hang(id=f"death{index}", life=life.life, kind="crash", state="restarted", confidence="probable", task=None)
        for index, life in enumerate(lives)
    ]
    return lives, crashes


def test_single_crashes_become_one_loop(store: Store) -> None:
    lives, crashes = _deaths(7)
    store.record(_reading(*crashes[:3], lives=tuple(lives[:3])))
    assert len(store.incidents()) == 3
    loop = msgspec.structs.replace(crashes[0], kind="crash-loop", count=7)
    whole = _reading(loop, lives=tuple(lives))
    assert store.record(whole) == RecordOutcome(changed=1, withdrawn=2)
    assert [(one.id, one.kind, one.count) for one in store.incidents()] == [("death0", "crash-loop", 7)]
    assert store.timeline("death2")[-1].reason == "withdrawn: one of the deaths of crash loop death0"
    assert store.record(whole) == SAME
    # The shorter log again: its three deaths are still the loop's.
    assert store.record(_reading(*crashes[:3], lives=tuple(lives[:3]))) == RecordOutcome(same=3)
    assert len(store.incidents()) == 1


def test_a_loop_takes_no_other_servers_crash(store: Store) -> None:
    lives, crashes = _deaths(6)
    other = _life(life="other", server="other")
    store.record(_reading(_hang(id="theirs", life="other", server="other", kind="crash"), lives=(other,)))
    loop = msgspec.structs.replace(crashes[0], kind="crash-loop", count=6)
    assert store.record(_reading(loop, lives=(*lives, other))).withdrawn == 0


# --- all or nothing ---------------------------------------------------------------------------------------------------


def _in_a_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a process of its own and give its exit status; 0 where it came to the end."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:  # the status tells; a traceback of a child would confuse the report
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_kill_at_any_statement_leaves_the_database_as_it_was_or_as_it_will_be(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    clock = Clock()
    with open_store(path, now=clock) as store:
        store.record(SHORT)
        before = _content(store)
        after_path = tmp_path / "after.db"
        store.connection.execute("VACUUM INTO ?", (str(after_path),))
    longer = msgspec.structs.replace(LONG, gaps=(Gap(source="server.log", cause="torn"),))
    statements: list[str] = []
    with open_store(after_path, now=clock) as store:
        store.connection.set_trace_callback(statements.append)
        store.record(longer)
        store.connection.set_trace_callback(None)
        after = _content(store)
    assert after != before
    assert (statements[0], statements[-1]) == ("BEGIN IMMEDIATE", "COMMIT")
    for last in range(1, len(statements) + 1):

        def killed(last: int = last) -> None:
            left = iter(range(last - 1, -1, -1))
            with open_store(path, now=clock) as store:
                store.connection.set_trace_callback(lambda _: None if next(left) else os._exit(7))
                store.record(longer)

        assert _in_a_child(killed) == 7
        with open_store(path, now=clock) as store:
            assert _content(store) == before
            assert store.connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with open_store(path, now=clock) as store:
        store.record(longer)
        assert _content(store) == after


def test_a_kill_inside_any_statement_leaves_nothing_half(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    clock = Clock()
    with open_store(path, now=clock) as store:
        store.record(SHORT)
        before = _content(store)
    for steps in range(1, 400, 23):

        def killed(steps: int = steps) -> None:
            with open_store(path, now=clock) as store:
                left = iter(range(steps, -1, -1))
                store.connection.set_progress_handler(lambda: 0 if next(left, 0) else os._exit(7), 1)
                store.record(LONG)

        assert _in_a_child(killed) == 7
        with open_store(path, now=clock) as store:
            assert _content(store) == before


def test_what_was_committed_survives_the_end_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"

    def recorded() -> None:
        open_store(path).record(RESULT)
        os._exit(7)  # without closing

    assert _in_a_child(recorded) == 7
    with open_store(path) as store:
        assert store.incidents() == [HANG]


def test_an_exception_takes_everything_of_its_block_back(store: Store) -> None:
    def record_and_fail() -> None:
        with store.transaction() as transaction:
            transaction.record(RESULT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        record_and_fail()
    assert _counts(store) == dict.fromkeys(TABLES, 0)
    assert store.record(RESULT) == NEW


def test_others_write_into_the_same_transaction(store: Store) -> None:
    def both(transaction: Transaction) -> None:
        transaction.execute("INSERT INTO meta (key, value) VALUES ('checkpoint', '42')")
        assert store.record(RESULT) == NEW  # joins the open one

    def checkpoint() -> list[tuple[str]]:
        return store.connection.execute("SELECT value FROM meta WHERE key = 'checkpoint'").fetchall()

    def both_and_fail() -> None:
        with store.transaction() as transaction:
            both(transaction)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        both_and_fail()
    assert (checkpoint(), store.incidents()) == ([], [])
    with store.transaction() as transaction:
        both(transaction)
    assert (checkpoint(), store.incidents()) == ([("42",)], [HANG])


def test_a_part_that_fails_is_taken_back_alone(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.execute("INSERT INTO meta (key, value) VALUES ('checkpoint', '42')")
        with pytest.raises(sqlite3.IntegrityError):
            store.record(_reading(_hang(kind="unheard-of")))
    assert _counts(store) == dict.fromkeys(TABLES, 0)
    assert store.connection.execute("SELECT count(*) FROM meta WHERE key = 'checkpoint'").fetchone() == (1,)


# --- failures a person can meet ---------------------------------------------------------------------------------------


def test_a_full_disk_is_explained_and_leaves_nothing_half(store: Store) -> None:
    store.record(_reading())
    before = _content(store)
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    big = _reading(*(_hang(id=f"incident{index}", summary="x" * 5_000) for index in range(20)))
    with pytest.raises(StoreError, match=r"the disk that holds .*incidents\.db is full") as caught:
        store.record(big)
    assert "free some space" in (caught.value.hint or "")
    assert _content(store) == before
    store.connection.execute("PRAGMA max_page_count = 1000000")
    assert store.record(big).new == 20


def test_a_locked_database_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    with open_store(path) as store, open_store(path, busy_timeout_ms=10) as second, store.transaction():
        with pytest.raises(StoreError, match="locked by another program"):
            second.record(RESULT)
        assert second.incidents() == []  # reading is not locked out
    with open_store(path) as store:
        assert store.record(RESULT) == NEW


def test_the_timeline_cannot_be_rewritten(store: Store) -> None:
    store.record(RESULT)
    for statement in ("UPDATE incident_event SET reason = ''", "DELETE FROM incident_event"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            store.connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE incident SET kind = 'hang'",
        "UPDATE incident SET confidence = 'sure'",
        "UPDATE incident SET state = 'done'",
        "UPDATE incident SET severity = 'bad'",
        "UPDATE incident SET life = 'nobody'",
        "UPDATE incident SET task = 'two'",
        "UPDATE life SET era = 'D'",
        "UPDATE life SET sees_exit = 2",
        "UPDATE life SET source = 'nowhere'",
        "UPDATE evidence SET incident = 'none'",
    ],
)
def test_the_tables_refuse_what_is_not_a_word_or_a_reference(store: Store, statement: str) -> None:
    store.record(RESULT)
    with pytest.raises(sqlite3.IntegrityError):
        store.connection.execute(statement)


# --- looking up -------------------------------------------------------------------------------------------------------


def test_filters(store: Store, clock: Clock) -> None:
    other = _life(life="other", server="other")
    store.record(
        _reading(
            _hang(id="a", opened_us=1_000),
            _hang(id="b", opened_us=2_000, life="other", server="other", kind="sleep-crash", state="down"),
            _hang(id="c", opened_us=3_000, confidence="possible"),
            _hang(id="d"),
            lives=(LIFE, other),
        )
    )

    def ids(**filters: Any) -> str:
        return "".join(incident.id for incident in store.incidents(**filters))

    assert ids() == "abd"  # without a wall time it stands where it was recorded
    assert ids(possible=True) == "abcd"
    assert ids(kinds=["sleep-crash"]) == "b"
    assert ids(kinds=["sleep-crash", "hung-request"]) == "abd"
    assert ids(servers=["other"]) == "b"
    assert ids(states=["abandoned"]) == "ad"
    assert ids(since_us=2_000) == "bd"
    assert ids(since_us=clock.us + 1) == ""
    assert [row[0] for row in store.connection.execute("SELECT id FROM open_incidents")] == ["b"]


def test_an_id_is_found_by_its_beginning(store: Store) -> None:
    store.record(_reading(_hang(id="abc1"), _hang(id="abd2"), _hang(id="a%_3")))
    assert store.incident("abc").id == "abc1"
    assert store.incident("a%").id == "a%_3"
    for prefix in ("x", "", "abc12", "ABC"):
        with pytest.raises(StoreError, match=r"no incident in .* begins with"):
            store.incident(prefix)
    with pytest.raises(StoreError, match=r"2 incidents in .* begins with 'ab'") as caught:
        store.incident("ab")
    assert caught.value.hint == "name one of them: abc1, abd2"


def test_times_stand_beside_as_text(store: Store) -> None:
    store.record(_reading(_hang(opened_us=1_759_464_001_000_042, closed_us=None)))
    row = store.connection.execute("SELECT opened, closed, recorded, duration_us FROM incident").fetchone()
    assert row == ("2025-10-03T04:00:01.000042Z", None, "2027-01-15T08:00:00.000000Z", 3_038_917)
    assert store.connection.execute('SELECT "when", to_state FROM incident_timeline').fetchall() == [
        ("2025-10-03T04:00:01.000042Z", "abandoned")
    ]
