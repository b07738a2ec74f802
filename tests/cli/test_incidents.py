"""``sleepwatch incidents``: listing and showing what a database holds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from sleepwatch import config
from sleepwatch.cli import main
from sleepwatch.daemon import status
from sleepwatch.report import incident_entry
from sleepwatch.scan import scan
from sleepwatch.store import open_store
from tests.support.results import HANG, LIFE, RESULT

MAYBE = msgspec.structs.replace(HANG, id="5eed", confidence="possible", state="unresolved")
CRASH = msgspec.structs.replace(
    HANG,
    id="c4a5",
    kind="sleep-crash",
    state="restarted",
    severity="critical",
    server="llama-tiny.service",
    life="other",
    signal=11,
    opened_us=1_759_464_001_123_456,
)
LOOP = msgspec.structs.replace(
    CRASH, id="1009", kind="crash-loop", state="down", count=212, opened_us=1_759_464_009_000_000
)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "incidents.db"
    other = msgspec.structs.replace(LIFE, life="other", server="llama-tiny.service")
    result = msgspec.structs.replace(RESULT, lives=(LIFE, other), incidents=(HANG, MAYBE, CRASH, LOOP))
    with open_store(path, now=lambda: 1_800_000_000_000_000) as store:
        store.record(msgspec.structs.replace(result, incidents=(msgspec.structs.replace(HANG, state="open"),)))
        store.record(result)
    return path


def _run(*arguments: str | Path, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["incidents", *map(str, arguments)], env=environ)


def _ids(*arguments: str | Path) -> list[str]:
    result = _run("list", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return [incident["id"] for incident in json.loads(result.stdout)["incidents"]]


def test_list(db: Path) -> None:
    result = _run("list", "--db", db)
    assert result.exit_code == 0
    assert result.stdout == (
        "ID                OPENED                       KIND             CONFIDENCE  STATE      SERVER\n"
        "c4a5              2025-10-03 04:00:01.123 UTC  sleep-crash      confirmed   restarted  llama-tiny.service\n"
        "1009              2025-10-03 04:00:09.000 UTC  crash-loop x212  confirmed   down       llama-tiny.service\n"
        "4a5b6c7d8e9f0a1b  0.03.324 (server's clock)    hung-request     confirmed   abandoned  server\n"
    )
    assert result.stderr == "1 possible one not shown; --possible shows them\n"


def test_list_as_json(db: Path) -> None:
    document = json.loads(_run("list", "--db", db, "--json", "--server", "server").stdout)
    assert document == {"schema_version": 1, "incidents": [incident_entry(HANG)]}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ["c4a5", "1009", HANG.id]),
        (["--possible"], ["c4a5", "1009", HANG.id, "5eed"]),
        (["--kind", "sleep-crash", "--kind", "crash-loop"], ["c4a5", "1009"]),
        (["--server", "server"], [HANG.id]),
        (["--state", "down"], ["1009"]),
        (["--since", "2025-10-03T04:00:05Z"], ["1009", HANG.id]),
        (["-S", "@1759464002", "--kind", "crash-loop"], ["1009"]),
    ],
)
def test_list_filters(db: Path, filters: list[str], expected: list[str]) -> None:
    assert _ids("--db", db, *filters) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--kind", "sleep-crash", "--state", "down"], "No incident fits."), ([], "No incident is kept here.")],
)
def test_an_empty_list_says_why(tmp_path: Path, arguments: list[str], words: str) -> None:
    open_store(tmp_path / "empty.db").close()
    result = _run("list", "--db", tmp_path / "empty.db", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{words}\n")


@pytest.mark.parametrize(
    "arguments", [["--kind", "hang"], ["--state", "closed"], ["--since", "the other day"], ["--db", "."], ["--nope"]]
)
def test_wrong_options_end_in_2(db: Path, arguments: list[str]) -> None:
    result = _run("list", "--db", db, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


def test_show(db: Path) -> None:
    result = _run("show", "4a", "--db", db)
    assert result.exit_code == 0
    assert result.stdout.startswith("WARNING  hung-request  confirmed, abandoned  server\n")
    assert "0.06.363.688 W srv          stop: cancel task, id_task = 2\n" in result.stdout
    assert "  to do   Send a 1-token completion" in result.stdout
    history = " ".join(result.stdout[result.stdout.index("  history") :].split())
    assert "stored 2027-01-15 08:00:00.000 UTC: hung-request, confirmed, open: H2" in history
    assert "hung-request, confirmed, open -> abandoned: H2" in history


def test_show_what_is_possible_and_a_loop(db: Path) -> None:
    assert "hung-request  possible, unresolved" in _run("show", MAYBE.id, "--db", db).stdout
    assert "crash-loop (212 deaths)" in _run("show", LOOP.id, "--db", db).stdout


def test_show_as_json(db: Path) -> None:
    document: dict[str, Any] = json.loads(_run("show", CRASH.id, "--db", db, "--json").stdout)
    timeline = document.pop("timeline")
    assert document == incident_entry(CRASH)
    assert timeline == [
        {
            "from_state": None,
            "to_state": "restarted",
            "kind": "sleep-crash",
            "confidence": "confirmed",
            "count": 1,
            "reason": CRASH.reason,
            "rules_digest": None,
            "at": "2025-10-03T04:00:01.123456Z",
            "recorded": "2027-01-15T08:00:00.000000Z",
        }
    ]


def test_an_unknown_id_and_a_missing_database_are_explained(db: Path, tmp_path: Path) -> None:
    result = _run("show", "f00", "--db", db)
    assert result.exit_code == 2
    assert "no incident in" in result.stderr
    result = _run("list", "--db", tmp_path / "none.db")
    assert result.exit_code == 2
    assert result.stderr == (
        f"sleepwatch: there is no database at {tmp_path / 'none.db'}\n"
        "  `sleepwatch run` makes one, and `sleepwatch scan --db FILE LOG`; name it with --db\n"
    )
    assert not (tmp_path / "none.db").exists()


def test_the_default_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, db: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(config, "DEFAULT_PATH", tmp_path / "sleepwatch.toml")
    monkeypatch.setattr(status, "SERVICE_PATH", tmp_path / "lib" / "sleepwatch.db")
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    assert f"there is no database at {tmp_path}/sleepwatch/sleepwatch.db" in _run("list", environ=environ).stderr
    (tmp_path / "sleepwatch").mkdir()
    db.rename(tmp_path / "sleepwatch" / "sleepwatch.db")
    assert _run("list", environ=environ).exit_code == 0


def test_without_db_it_is_the_database_of_this_hosts_daemon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, db: Path
) -> None:
    (tmp_path / "sleepwatch.toml").write_text(f"[database]\npath = '{db}'")
    monkeypatch.setattr(config, "DEFAULT_PATH", tmp_path / "sleepwatch.toml")
    assert "sleep-crash" in _run("list").stdout
    assert _run("show", "c4a5").exit_code == 0
    story = CliRunner().invoke(main, ["explain", "--incident", "c4a5"])
    assert story.exit_code == 0, story.output


def test_verify_reads_the_evidence_again(corpus: Path, tmp_path: Path) -> None:
    log, kept = tmp_path / "server.log", tmp_path / "kept.db"
    data = (corpus / "b11368-default-abandon" / "server.log").read_bytes()
    log.write_bytes(data)
    result = scan([log])
    with open_store(kept) as store:
        store.record(result)
    incident = result.incidents[0]
    shown = _run("show", incident.id, "--verify", "--db", kept)
    assert shown.exit_code == 0
    assert shown.stdout.endswith(
        "  verify  sleep: stands\n          wake: stands\n          cancel: stands\n          launch: stands\n"
    )

    cancel = next(evidence for evidence in incident.evidence if evidence.role == "cancel")
    log.write_bytes(data[: cancel.offset] + b"x" + data[cancel.offset + 1 :])
    shown = _run("show", incident.id, "--verify", "--db", kept)
    assert shown.exit_code == 1
    words = " ".join(shown.stdout.split())
    assert f"cancel: changed: its text does not stand at byte {cancel.offset} of {log} any more" in words
    asked = _run("show", incident.id, "--verify", "--json", "--db", kept)
    assert asked.exit_code == 1
    states = {one["role"]: one["verified"]["state"] for one in json.loads(asked.stdout)["evidence"]}
    assert states == {"sleep": "stands", "wake": "stands", "cancel": "changed", "launch": "stands"}
    assert "verified" not in _run("show", incident.id, "--json", "--db", kept).stdout
