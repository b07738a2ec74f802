"""Journals in files, read by libsystemd and by journalctl: the same as the text shapes of the same entries."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from sleepwatch.cli import main
from sleepwatch.envelopes import by_name
from sleepwatch.model import Record, ScanResult
from sleepwatch.scan import Options, Scan, scan
from sleepwatch.sources.journal import Way, Which
from sleepwatch.sources.journal_open import open_journal
from sleepwatch.sources.journal_parts import Selection
from sleepwatch.sources.journal_units import Units
from tests.sources.journal.conftest import Make
from tests.sources.journal.making import FIRST_US, Entries, Entry, Vacuumed, entry, export, without

SHAPES = ("short", "short-iso-precise", "json", "export", "verbose")
TINY, WIDE = "llama-tiny.service", "llama-wide.service"


def read(which: Which, way: Way, *, options: Options | None = None, **selection: object) -> ScanResult:
    units = Units(selection.pop("units", ()))  # type: ignore[arg-type]
    work = Scan(options)
    work.read_journal(which, Selection(units=units, **selection), way=way)  # type: ignore[arg-type]
    return work.result()


def found(result: ScanResult) -> list[tuple[str, str, str, str, str]]:
    return sorted((i.id, i.kind, i.confidence, i.state, i.server) for i in result.incidents)


def sure(result: ScanResult) -> set[tuple[str, str, str]]:
    return {(i.id, i.kind, i.confidence) for i in result.incidents if i.confidence != "possible"}


def records(which: Which, way: Way, *units: str) -> list[Record]:
    journal = open_journal(which, Units(units), way=way)
    out: list[Record] = []
    try:
        journal.begin((), "head")
        while not journal.at_end:
            out += journal.read(100)
        return out + journal.flush()
    finally:
        journal.close()


def told(record: Record) -> tuple[object, ...]:
    return (
        record.text, record.wall_us, record.host, record.unit, record.ident, record.pid, record.boot,
        record.invocation, record.message_id, record.fields, record.cut, record.partial,
    )  # fmt: skip


def test_the_records_are_those_of_the_exported_text(recorded: Entries, make: Make, way: Way, tmp_path: Path) -> None:
    path = make(tmp_path / "two.journal", recorded)
    envelope = by_name("journal-export")
    data = export(recorded)
    expected = envelope.feed(data, 0) + envelope.finish()
    mine = records(Which(files=(str(path),)), way)
    assert [told(record) for record in mine] == [told(record) for record in expected]
    assert [record.offset for record in mine] == [int(one["__REALTIME_TIMESTAMP"]) for one in recorded]


@pytest.mark.parametrize("units", [(), ("llama*",), ("llama-tiny", "llama-wide.service")])
def test_the_incidents_are_those_of_every_text_shape(
    units: tuple[str, ...], recorded: Entries, make: Make, way: Way, tmp_path: Path, corpus: Path
) -> None:
    path = make(tmp_path / "two.journal", recorded)
    result = read(Which(files=(str(path),)), way, units=units)
    assert not result.failed
    assert sorted(incident.kind for incident in result.incidents) == ["hung-request"] * 2 + ["sleep-crash"] * 4
    for shape in SHAPES:
        (log,) = (corpus / f"journal-two-units-{shape}").glob("journal.*")
        if shape in ("json", "export", "verbose"):
            assert found(scan([log])) == found(result), shape
        else:
            assert {i[0] for i in found(scan([log]))} >= {i.id for i in result.incidents}, shape


def test_one_unit_alone(recorded: Entries, make: Make, way: Way, tmp_path: Path) -> None:
    path = make(tmp_path / "two.journal", recorded)
    result = read(Which(files=(str(path),)), way, units=("llama-wide",))
    assert {life.server for life in result.lives} == {WIDE}
    assert [incident.kind for incident in result.incidents] == ["hung-request"] * 2
    unknown = read(Which(files=(str(path),)), way, units=("gpt*",))
    (failure,) = unknown.failed
    assert failure[1] == f"journal:{path}: no unit gpt* is in the journal"


def test_the_time_asked_for_is_read_from_the_start_of_its_runs(
    recorded: Entries, make: Make, way: Way, tmp_path: Path
) -> None:
    path = make(tmp_path / "two.journal", recorded)
    late = Options(since_us=FIRST_US + 17_500_000)
    which = Which(files=(str(path),))
    some = read(which, way, units=("llama-tiny",), options=late)
    assert some.lines_seen < read(which, way, units=("llama-tiny",)).lines_seen / 2
    assert [incident.kind for incident in some.incidents] == ["sleep-crash"]
    everything = read(which, way, options=late)
    assert found(read(which, way, units=("llama*",), options=late)) == found(everything)
    assert sorted(incident.kind for incident in everything.incidents) == ["hung-request", "sleep-crash"]
    assert found(some)[0] in found(everything)


def test_a_localised_manager_says_the_same(recorded: Entries, make: Make, way: Way, tmp_path: Path) -> None:
    """The catalog of the message ids is what counts; the words of PID 1 are the machine's language's."""
    german = [
        one | {"MESSAGE": "Hauptprozess wurde beendet; Dienst wird neu gestartet …".encode()}
        if one.get("_PID") == b"1"
        else one
        for one in recorded
    ]
    assert german != recorded
    plain, foreign = make(tmp_path / "a.journal", recorded), make(tmp_path / "b.journal", german)
    assert found(read(Which(files=(str(foreign),)), way)) == found(read(Which(files=(str(plain),)), way))


@pytest.mark.parametrize("units", [(), ("llama-*",), ("llama-tiny", "llama-wide")])
def test_units_of_a_user_are_found_by_the_same_names(
    units: tuple[str, ...], recorded: Entries, make: Make, way: Way, tmp_path: Path
) -> None:
    owners = make(tmp_path / "user-1000.journal", [of_a_user(one) for one in recorded])
    systems = make(tmp_path / "system.journal", recorded)
    assert found(read(Which(files=(str(owners),)), way, units=units)) == found(read(Which(files=(str(systems),)), way))


def of_a_user(one: Entry) -> Entry:
    """The entry as the manager of a user and its units write it."""
    moved = {"_SYSTEMD_UNIT": b"user@1000.service"}
    if "UNIT" in one:
        moved |= {"USER_UNIT": one["UNIT"], "USER_INVOCATION_ID": one.get("INVOCATION_ID", b""), "_PID": b"900"}
        moved |= {"_SYSTEMD_USER_UNIT": b"init.scope"}
    elif one.get("_SYSTEMD_UNIT", b"").startswith(b"llama"):
        moved |= {"_SYSTEMD_USER_UNIT": one["_SYSTEMD_UNIT"]}
    return without(one, "UNIT", "INVOCATION_ID") | moved


@pytest.mark.parametrize(
    ("units", "first"),  # of units by name only the entries that name them are read
    [
        ((), 0),
        ((), 1),
        ((), 3),
        (("llama*",), 0),
        (("llama*",), 1),
        (("llama*",), 3),
        (("llama-tiny", "llama-wide"), 0),
    ],
)
def test_a_process_s_first_and_last_lines_without_their_unit_are_its_own(
    units: tuple[str, ...], first: int, recorded: Entries, make: Make, way: Way, tmp_path: Path
) -> None:
    """journald looks at a process when it reads its line: it can be too early for its unit, and too late."""
    runs: dict[bytes, list[int]] = {}
    for at, one in enumerate(recorded):
        if one.get("_SYSTEMD_UNIT") == TINY.encode():
            runs.setdefault(one["_SYSTEMD_INVOCATION_ID"], []).append(at)
    lost = set()
    for run in runs.values():
        lost |= {*run[:first], *run[-2:]}  # the last: the sleep lines of those that crashed
    torn = [
        without(one, "_SYSTEMD_UNIT", "_SYSTEMD_INVOCATION_ID", "_COMM", "_EXE", "_CMDLINE", "_SYSTEMD_CGROUP")
        if at in lost
        else one
        for at, one in enumerate(recorded)
    ]
    assert torn != recorded
    plain, lossy = make(tmp_path / "a.journal", recorded), make(tmp_path / "b.journal", torn)
    expected = read(Which(files=(str(plain),)), way, units=units)
    assert found(read(Which(files=(str(lossy),)), way, units=units)) == found(expected)


def test_machines_in_one_directory_are_read_apart(recorded: Entries, make: Make, way: Way, tmp_path: Path) -> None:
    other = [
        one | {"_HOSTNAME": b"twin", "_MACHINE_ID": b"5" * 32, "_BOOT_ID": b"6" * 32}
        for one in recorded
        if one.get("MESSAGE_ID") != b"98e322203f7a4ed290d09fe03c09fe15"  # nobody tells of its deaths
    ]
    remote = tmp_path / "remote"
    make(remote / "remote-gpubox.journal", recorded)
    make(remote / "remote-twin.journal", other)
    result = read(Which(directory=str(remote)), way)
    names = [source.source for source in result.sources]
    assert names == [f"journal:{remote}@gpubox", f"journal:{remote}@twin"]
    assert not result.failed
    alone = read(Which(files=(str(remote / "remote-gpubox.journal"),)), way)
    assert sure(result) == sure(alone)
    assert result.events == alone.events + read(Which(files=(str(remote / "remote-twin.journal"),)), way).events
    assert {i.evidence[0].source for i in result.incidents if i.confidence != "possible"} == {names[0]}


def test_boots(recorded: Entries, make: Make, way: Way, tmp_path: Path) -> None:
    later = [entry(b"0.00.%03d.000 I srv  load_model: x" % n, 10_000 + n, _BOOT_ID=b"7" * 32) for n in range(9)]
    path = make(make(tmp_path / "two.journal", recorded), later)
    which = Which(files=(str(path),))
    first, last = read(which, way, boot="-1"), read(which, way, boot="0")
    assert len(first.incidents) == 6
    assert not last.incidents
    assert last.sources[0].first_us == FIRST_US + 1_000_000_000
    assert found(read(which, way, boot="1")) == found(first)
    assert found(read(which, way, boot="3208311b-2565-4aa8-aeea-b7b051db82e3")) == found(first)
    for wrong, words in (("-2", "it knows 2"), ("9" * 32, "there is no boot 9"), ("last", "is no boot")):
        assert words in read(which, way, boot=wrong).failed[0][1]


def test_long_lines_are_joined(make: Make, way: Way, tmp_path: Path) -> None:
    pieces = [
        entry(b"0.00.001.000 I srv  init: " + b"a" * 40_000, 1, _LINE_BREAK=b"line-max"),
        entry(b"0.00.001.100 I srv  other: line", 2, _STREAM_ID=b"1" * 32, _PID=b"41"),
        entry(b"b" * 3_000, 3),
        entry(b"0.00.002.000 I srv  cut short", 4, _LINE_BREAK=b"eof"),
        entry(b"0.00.003.000 I srv  never ended", 5, _LINE_BREAK=b"line-max"),
    ]
    mine = records(Which(files=(str(make(tmp_path / "long.journal", pieces)),)), way)
    assert [(len(one.text), one.partial) for one in mine] == [
        (len(pieces[1]["MESSAGE"]), False),
        (len(pieces[0]["MESSAGE"]) + 3_000, False),
        (len(pieces[3]["MESSAGE"]), True),
        (len(pieces[4]["MESSAGE"]), True),
    ]


def test_messages_of_any_bytes(make: Make, way: Way, tmp_path: Path) -> None:
    colours = b"\x1b[32m0.00.001.000 \x1b[0m\x1b[34mI que    start_loop: entering sleeping state\x1b[0m"
    entries = [
        entry(colours, 1),
        entry(b"caf\xe9 \x00 \xff", 2),
        entry(b"stack\n#1 one\n#2 two", 3),
        without(entry(b"", 4), "MESSAGE"),
    ]
    mine = records(Which(files=(str(make(tmp_path / "any.journal", entries)),)), way)
    texts = [colours, b"caf\xe9 \x00 \xff", b"stack", b"#1 one", b"#2 two", b""]
    assert [one.text for one in mine] == texts
    assert [one.offset for one in mine] == [FIRST_US + 100_000 * n for n in (1, 2, 3, 3, 3, 4)]


def test_only_the_manager_speaks_for_a_unit(recorded: Entries, make: Make, way: Way, tmp_path: Path) -> None:
    forged = entry(
        b"llama-tiny.service: Main process exited", 3, _PID=b"99", _SYSTEMD_UNIT=b"evil.service", UNIT=TINY.encode(),
        _TRANSPORT=b"journal", MESSAGE_ID=b"98e322203f7a4ed290d09fe03c09fe15", EXIT_CODE=b"killed", EXIT_STATUS=b"11",
    )  # fmt: skip
    which = Which(files=(str(make(tmp_path / "forged.journal", [entry(b"hello", 1), forged])),))
    assert [one.text for one in records(which, way, "llama-tiny")] == [b"hello"]


def test_scan_names_journals_in_every_way(recorded: Entries, make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "host" / "system.journal", recorded)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "plain.log").write_text("nothing\n")
    shutil.copy(path, tmp_path / "logs" / "copy.journal")
    for arguments in (
        ["--journal-file", str(path)],
        ["--journal", "--file", str(path)],
        ["-D", str(path.parent)],
        ["-D", str(path.parent), "-u", "llama*", "-b", "0"],
        [str(path)],
        [str(path.parent)],
        [str(tmp_path / "logs" / "*")],
        [str(path), "--journal-file", str(tmp_path / "logs" / "copy.journal")],
    ):
        result = CliRunner().invoke(main, ["scan", "--json", *arguments])
        assert result.exit_code == 0, result.output
        document = json.loads(result.output)
        assert [one["kind"] for one in document["incidents"]].count("sleep-crash") == 4, arguments
        assert document["totals"]["incidents"] == 6
    text = CliRunner().invoke(main, ["scan", str(path)]).output
    assert f"sleep: journal:{path}, 2026-11-30 05:46:47.642 UTC\n" in text


def test_evidence_in_a_journal_can_be_verified(recorded: Entries, make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "two.journal", recorded)
    database = str(tmp_path / "incidents.db")
    assert CliRunner().invoke(main, ["scan", str(path), "--db", database]).exit_code == 0
    (crash, *_) = [one for one in scan([path]).incidents if one.kind == "sleep-crash"]
    show = ["incidents", "show", crash.id, "--db", database, "--verify"]
    standing = CliRunner().invoke(main, show)
    assert standing.output.count(": stands") == 2
    path.unlink()
    make(path, recorded[300:])
    changed = CliRunner().invoke(main, show)
    assert "no entry with its text was received at 2026-11-30 05:46:47.642" in changed.output
    path.unlink()
    assert "no such file" in " ".join(CliRunner().invoke(main, show).output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-D", "{0}/none"], "journal:{0}/none: no such directory"),
        (["-D", "{0}"], "journal:{0}: there are no journal files"),
        (["--journal-file", "{0}/none.journal"], "journal:{0}/none.journal: no such file"),
        (["--journal-file", "{0}/damaged.journal"], "journal:{0}/damaged.journal: "),
        (["-u", "llama"], "--unit and --boot choose from a journal"),
        ([], "name a log, or --journal"),
    ],
)
def test_what_cannot_be_read_is_said(arguments: list[str], words: str, way: Way, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "notes.txt").write_text("no journal")
    (tmp_path / "damaged.journal").write_bytes(b"LPKSHHRH" + bytes(100))
    place = str(empty if words.endswith("files") else tmp_path)
    named = [argument.format(place) for argument in arguments]
    result = CliRunner().invoke(main, ["scan", "--journal-way", way, *named])
    assert result.exit_code == 2
    assert words.format(place) in result.output


def test_docker_s_containers_are_not_its_unit_s_processes(make: Make, way: Way, tmp_path: Path) -> None:
    """Docker's journald driver writes for all containers, as the one process of one unit."""
    docker = {
        "_COMM": b"dockerd", "_PID": b"700", "_SYSTEMD_UNIT": b"docker.service", "_TRANSPORT": b"journal",
        "_SYSTEMD_INVOCATION_ID": b"9" * 32, "SYSLOG_IDENTIFIER": b"4e5f",
    }  # fmt: skip
    lines = [
        (b"one", b"0.00.000.001 I srv  llama_server: initializing ..."),
        (b"two", b"0.00.000.002 I srv  llama_server: initializing ..."),
        (b"one", b"0.00.100.000 I srv  llama_server: model loaded"),
        (b"two", b"0.00.200.000 I srv  llama_server: model loaded"),
    ]
    entries = [
        without(entry(line, number, **docker, CONTAINER_NAME=name, CONTAINER_ID=name * 4), "_STREAM_ID")
        for number, (name, line) in enumerate(lines)
    ]
    which = Which(files=(str(make(tmp_path / "docker.journal", entries)),))
    mine = records(which, way, "docker")
    assert [(one.container, one.unit, one.pid) for one in mine] == [("one", None, None), ("two", None, None)] * 2
    lives = read(which, way, units=("docker",)).lives
    assert sorted((life.server, life.exit) for life in lives) == [("one", None), ("two", None)]


def test_who_may_not_read_is_told(
    recorded: Entries, make: Make, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "j" / "system.journal", recorded[:5])
    make(tmp_path / "j" / "user-1000.journal", recorded[:5])
    monkeypatch.setattr("sleepwatch.sources.journal.os.access", lambda path, mode: "user" in str(path))
    (failure,) = read(Which(directory=str(tmp_path / "j")), way).failed
    assert "permission denied" in failure[1]
    assert "systemd-journal" in failure[1]


@pytest.mark.parametrize("units", [(), ("llama*",)])
def test_what_is_vacuumed_while_it_is_scanned_is_told(
    units: tuple[str, ...], make: Make, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "j" / "a.journal", tmp_path / "j" / "b.journal"
    make(first, [entry(b"line", number) for number in range(3_000)])
    make(second, [entry(b"line", number) for number in range(3_000, 3_010)])
    which = Which(directory=str(tmp_path / "j"))
    whole = read(which, way, units=units)
    assert not whole.failed
    monkeypatch.setattr("sleepwatch.scan.open_journal", Vacuumed(first, after=700).open)
    torn = read(which, way, units=units)
    (failure,) = torn.failed
    assert failure[1].endswith("vacuumed away while it was being read: scan it again")
    assert torn.sources[0].bytes < whole.sources[0].bytes
