"""``scan`` as a person meets it: any input, exit codes, forms of output, and what it leaves behind."""

from __future__ import annotations

import bz2
import functools
import gzip
import json
import lzma
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from sleepwatch.cli import main
from sleepwatch.scan import Options, scan
from sleepwatch.store import open_store
from tests.cases.made import log

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CORPUS = Path(__file__).parent / "corpus"
GAVE_UP = CORPUS / "b11368-default-gaveup" / "server.log"
"""Six hung requests, confirmed."""
TRAFFIC = CORPUS / "b11368-traffic-lv3" / "server.log"
"""Nothing."""
PATIENT = CORPUS / "b11368-default-patient" / "server.log"
"""Nothing above possible."""


class Run:
    """One run of the command."""

    def __init__(self, *arguments: str | Path, stdin: bytes = b"") -> None:
        done = CliRunner().invoke(main, ["scan", *map(str, arguments)], input=stdin)
        self.status = done.exit_code
        self.out = done.stdout
        self.err = done.stderr
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress), (".anything", gzip.compress)],
)
def test_compressed_logs_are_read(suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    packed = tmp_path / f"server.log{suffix}"
    packed.write_bytes(pack(GAVE_UP.read_bytes()))
    plain, read = scan([GAVE_UP]), scan([packed])
    assert [i.id for i in read.incidents] == [i.id for i in plain.incidents]
    places = [[e.offset for i in one.incidents for e in i.evidence] for one in (plain, read)]
    assert places[0] == places[1]


def test_several_frames_of_one_archive_are_read(tmp_path: Path) -> None:
    data = GAVE_UP.read_bytes()
    half = data.index(b"\n", len(data) // 2) + 1
    for pack, suffix in ((gzip.compress, ".gz"), (lzma.compress, ".xz"), (zstd.compress, ".zst")):
        packed = tmp_path / f"server.log{suffix}"
        packed.write_bytes(pack(data[:half]) + pack(data[half:]))
        assert len(scan([packed]).incidents) == 6, suffix
        packed.unlink()


def test_standard_input(tmp_path: Path) -> None:
    run = Run("-", "--json", stdin=GAVE_UP.read_bytes())
    assert run.status == 0
    document = json.loads(run.out)
    assert [source["source"] for source in document["sources"]] == ["-"]
    assert [i["id"] for i in document["incidents"]] == [i.id for i in scan([GAVE_UP]).incidents]
    assert Run("-", "--json", stdin=gzip.compress(GAVE_UP.read_bytes())).out == run.out


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\0" * 1000, os.urandom(1), bytes(range(256)) * 40, b"\xff\xfe" + "text".encode("utf-16-le")],
    ids=["empty", "a line feed", "zeros", "one byte", "binary", "utf-16"],
)
def test_files_without_a_log_are_no_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(content)
    run = Run(path, "--json")
    assert run.status == 0
    assert json.loads(run.out)["incidents"] == []


# -- what cannot be read -----------------------------------------------------------------------------------------------


def test_a_missing_file_stops_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path / "gone.log", GAVE_UP, "--json")
    assert run.status == 2
    assert len(json.loads(run.out)["incidents"]) == 6
    assert "gone.log" in run.err
    assert "check the path" in run.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"x")
    path.chmod(0)
    run = Run(path)
    assert run.status == 2
    assert "sudo" in run.err


def test_an_empty_directory_says_so(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.status == 2
    assert str(tmp_path) in run.err


def test_a_directory_is_its_logs(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(GAVE_UP.read_bytes())
    assert len(json.loads(Run(tmp_path, "--json").out)["incidents"]) == 6


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst", ".bz2"])
def test_a_damaged_archive_tells_what_it_held(suffix: str, tmp_path: Path) -> None:
    in_small_blocks = functools.partial(bz2.compress, compresslevel=1)
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress, ".bz2": in_small_blocks}[suffix]
    noise = b"".join(b"0.59.000.000 I srv  x: %s\n" % os.urandom(40).hex().encode() for _ in range(8_000))
    packed = pack(GAVE_UP.read_bytes() + noise)
    path = tmp_path / f"server.log{suffix}"
    path.write_bytes(packed[: len(packed) - len(packed) // 8])
    run = Run(path, "--json")
    assert run.status == 2
    assert len(json.loads(run.out)["incidents"]) == 6
    assert "damaged" in run.err or "too early" in run.err


def test_garbage_behind_a_magic_number(tmp_path: Path) -> None:
    for magic in (b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"BZh"):
        path = tmp_path / "server.log"
        path.write_bytes(magic + b"not an archive at all" * 9)
        run = Run(path)
        assert run.status == 2, magic
        assert "server.log" in run.err


def test_a_closed_pipe_is_no_error() -> None:
    logs = [str(GAVE_UP), str(CORPUS / "b11368-default-rescue" / "server.log")]
    command = [sys.executable, "-m", "sleepwatch", "scan", *logs]
    scanning = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert scanning.stdout is not None
    scanning.stdout.close()
    assert scanning.stderr is not None
    assert scanning.stderr.read() == b""
    assert scanning.wait(timeout=30) in (0, 141, -signal.SIGPIPE)
    scanning.stderr.close()


def test_interrupted_in_the_middle(tmp_path: Path) -> None:
    """Ctrl-C ends it with one line at most, and the database is as it was."""
    database = tmp_path / "sleepwatch.db"
    assert Run(GAVE_UP, "--db", database).status == 0
    before = _incidents(database)
    command = [sys.executable, "-m", "sleepwatch", "scan", "-", "--db", str(database)]
    scanning = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert scanning.stdin is not None
    scanning.stdin.write(GAVE_UP.read_bytes())
    scanning.stdin.flush()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _waits_for_input(scanning.pid) is False:
        time.sleep(0.01)
    scanning.send_signal(signal.SIGINT)
    _, err = scanning.communicate(timeout=30)
    assert scanning.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in err
    assert len(err.splitlines()) <= 1
    assert _incidents(database) == before


def _waits_for_input(pid: int) -> bool | None:
    """Has it loaded everything and read what there was? None where the system does not tell."""
    try:
        return Path(f"/proc/{pid}/wchan").read_text() in ("pipe_read", "anon_pipe_read", "0")
    except OSError:
        return None


# -- exit codes and forms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logs", "options", "status"),
    [
        ([GAVE_UP], [], 0),
        ([GAVE_UP], ["--fail-on-incident"], 1),
        ([TRAFFIC], ["--fail-on-incident"], 0),
        ([PATIENT], ["--fail-on-incident"], 0),
        ([PATIENT], ["--fail-on-incident", "--possible"], 0),
        ([GAVE_UP, Path("/nowhere/at/all.log")], ["--fail-on-incident"], 2),
        ([GAVE_UP], ["--no-such-option"], 2),
        ([], [], 2),
        ([GAVE_UP], ["--envelope", "carrier-pigeon"], 2),
    ],
)
def test_exit_codes(logs: list[Path], options: list[str], status: int) -> None:
    run = Run(*logs, *options)
    assert run.status == status, run.err


def test_json_fits_its_schema() -> None:
    schema = json.loads((Path(__file__).parent.parent / "docs" / "scan-schema.json").read_text())
    validator = Draft202012Validator(schema)
    for options in ([], ["--possible"], ["--raw"]):
        validator.validate(json.loads(Run(GAVE_UP, PATIENT, "--json", *options).out))


def test_jsonl_is_the_same_incidents_one_a_line() -> None:
    lines = [json.loads(line) for line in Run(GAVE_UP, "--jsonl").out.splitlines()]
    assert lines == json.loads(Run(GAVE_UP, "--json").out)["incidents"]
    assert Run(TRAFFIC, "--jsonl").out == ""


def test_possible_is_shown_on_request_only() -> None:
    assert json.loads(Run(PATIENT, "--json").out)["incidents"] == []
    shown = json.loads(Run(PATIENT, "--json", "--possible").out)["incidents"]
    assert len(shown) == 4
    assert {incident["confidence"] for incident in shown} == {"possible"}


def test_without_raw_nothing_but_what_matched_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    secret = "my secret prompt"
    path.write_bytes(
        log("0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n").rstrip(b"\n") + f" {secret}\n".encode()
        + log("2.2 | srv  log_server_r: request:  {} " + secret + "\n9 cancel 1\n")
    )  # fmt: skip
    for form in ("--json", "--jsonl", "--table"):
        assert secret not in Run(path, form).out
    assert len(json.loads(Run(path, "--json").out)["incidents"]) == 1


def test_raw_shows_the_lines_whole(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    crash = b"/opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
    written = log("0 start\n1 serve 0\n2.1 sleep\n9 wake\n9.4 ready\n")
    path.write_bytes(written[:-1] + b" \x08and more\x07\n" + crash)
    [incident] = json.loads(Run(path, "--json", "--raw").out)["incidents"]
    [shown] = [evidence for evidence in incident["evidence"] if evidence["role"] == "reload"]
    assert shown["text"] == "0.09.400.000 I srv    load_model: initializing, n_slots = 1"
    assert shown["raw"].endswith("kv_unified = 'false' \x08and more\x07")
    assert "and more" not in Run(path, "--json").out
    assert not {"\x07", "\x08"} & set(Run(path, "--raw").out)


def test_line_numbers_and_offsets_lead_to_the_line() -> None:
    data = GAVE_UP.read_bytes()
    lines = data.splitlines(keepends=True)
    for incident in json.loads(Run(GAVE_UP, "--json").out)["incidents"]:
        for evidence in incident["evidence"]:
            line = lines[evidence["line"] - 1]
            assert line.decode().startswith(evidence["text"])
            assert data[evidence["offset"] :].startswith(line)


def test_table_for_people_has_no_colours_in_a_pipe() -> None:
    run = Run(GAVE_UP)
    assert "hung-request" in run.out
    assert "\x1b" not in run.out
    assert run.err == ""


# -- the database ------------------------------------------------------------------------------------------------------


def _incidents(database: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute("select * from incident order by 1").fetchall()
    finally:
        connection.close()


def test_scanning_twice_adds_nothing_twice(tmp_path: Path) -> None:
    database = tmp_path / "sleepwatch.db"
    assert Run(GAVE_UP, "--db", database).status == 0
    once = _incidents(database)
    assert len(once) == 6
    assert Run(GAVE_UP, "--db", database).status == 0
    assert len(_incidents(database)) == 6


def test_without_db_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(GAVE_UP.read_bytes())
    subprocess.run([sys.executable, "-m", "sleepwatch", "scan", "server.log"], cwd=tmp_path, check=True,
                   capture_output=True, env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)})  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_a_database_that_cannot_be_written(tmp_path: Path) -> None:
    run = Run(GAVE_UP, "--db", tmp_path / "no" / "such" / "place.db")
    assert run.status == 2
    assert "place.db" in run.err


def test_a_database_that_is_none(tmp_path: Path) -> None:
    database = tmp_path / "sleepwatch.db"
    database.write_bytes(b"this is a text, and has been one for years\n" * 200)
    run = Run(GAVE_UP, "--db", database)
    assert run.status == 2
    assert database.read_bytes().startswith(b"this is a text")


def test_a_database_of_a_newer_version(tmp_path: Path) -> None:
    database = tmp_path / "sleepwatch.db"
    with open_store(database) as store:
        store.connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    run = Run(GAVE_UP, "--db", database)
    assert run.status == 2
    assert "newer" in run.err
    assert run.out == ""


# -- the function ------------------------------------------------------------------------------------------------------


def test_the_slow_search_finds_the_same() -> None:
    fast, slow = scan([GAVE_UP]), scan([GAVE_UP], Options(vectorised=False))
    assert fast.incidents == slow.incidents


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[str, int, int | None]] = []
    scan([GAVE_UP], progress=lambda *told: seen.append(told))
    assert seen[-1] == (str(GAVE_UP), GAVE_UP.stat().st_size, GAVE_UP.stat().st_size)


def test_one_log_in_two_files_at_once_is_one_incident_each(tmp_path: Path) -> None:
    """A server's ``--log-file`` and the same lines from its standard error, under another name."""
    (tmp_path / "a.log").write_bytes(GAVE_UP.read_bytes())
    (tmp_path / "b.log").write_bytes(GAVE_UP.read_bytes())
    result = scan([tmp_path / "a.log", tmp_path / "b.log"])
    assert len(result.incidents) == 6
    assert len(result.sources) == 2
