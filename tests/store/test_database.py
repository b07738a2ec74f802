"""Opening the file: made private, kept safe, and every refusal explained."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sleepwatch.errors import StoreError
from sleepwatch.store import database, default_path, open_store
from sleepwatch.store.version import SCHEMA_VERSION
from tests.support.results import HANG, RESULT


def _refusal(path: Path, **options: bool) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(path, **options)
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_new_database_is_private_and_safe(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    umask = os.umask(0)
    try:
        with open_store(path) as store:
            store.record(RESULT)
            for name in ("incidents.db", "incidents.db-wal"):
                assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
            pragmas = {
                name: store.connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
    finally:
        os.umask(umask)
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}
    assert os.listdir(tmp_path) == ["incidents.db"]


def test_all_tables_are_strict(tmp_path: Path) -> None:
    with open_store(tmp_path / "incidents.db") as store:
        loose = store.connection.execute(
            "SELECT name FROM pragma_table_list WHERE type = 'table' AND NOT strict AND name NOT GLOB 'sqlite_*'"
        ).fetchall()
    assert loose == [("_sqlite_migrations",)]  # sqlite-utils' own


def test_opening_again_loads_no_schema_tools(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    open_store(path).close()
    script = (
        "import sys; from sleepwatch.store import open_store\n"
        f"open_store({str(path)!r}).close(); print('sqlite_utils' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"False\n"


def test_a_strange_path_is_a_file_of_that_name(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "a#b%41", ":memory:", os.fsdecode(b"\xff.db"), "ü b.db"):
        with open_store(tmp_path / name) as store:
            store.record(RESULT)
        with open_store(tmp_path / name, create=False) as store:
            assert store.incidents() == [HANG]


@pytest.mark.parametrize("create", [True, False])
def test_a_directory(tmp_path: Path, create: bool) -> None:
    error = _refusal(tmp_path, create=create)
    assert "is a directory" in error.message
    assert str(tmp_path / "sleepwatch.db") in (error.hint or "")


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_no_database_where_none_may_be_made(tmp_path: Path, options: dict[str, bool]) -> None:
    assert "there is no database" in _refusal(tmp_path / "incidents.db", **options).message
    assert os.listdir(tmp_path) == []


def test_no_directory_for_it(tmp_path: Path) -> None:
    assert "cannot be created: No such file or directory" in _refusal(tmp_path / "missing" / "incidents.db").message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0.00.002.210 I srv  llama_server: initializing ...\n" * 40, "is not an SQLite database"),
        (b"\x1f\x8b" + bytes(2000), "is not an SQLite database"),
    ],
)
def test_not_a_database(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(content)
    assert words in _refusal(path).message
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "table", ["CREATE TABLE bookmarks (url)", "CREATE TABLE meta (key, value)", "CREATE TABLE meta (a, b, c)"]
)
def test_another_programs_database_is_left_alone(tmp_path: Path, table: str) -> None:
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(table)
    connection.close()
    content = path.read_bytes()
    assert "of another program" in _refusal(path).message
    assert path.read_bytes() == content


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    with open_store(path) as store:
        store.connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    content = path.read_bytes()
    for options in ({}, {"read_only": True}):
        error = _refusal(path, **options)
        assert f"newer sleepwatch (schema 99, this one knows {SCHEMA_VERSION})" in error.message
        assert "upgrade sleepwatch" in (error.hint or "")
    assert path.read_bytes() == content


def test_an_older_database_is_not_changed_by_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "incidents.db"
    open_store(path).close()
    now = SCHEMA_VERSION
    monkeypatch.setattr(database, "SCHEMA_VERSION", now + 1)
    refusal = _refusal(path, read_only=True).message
    assert f"has an older schema ({now}, this sleepwatch needs {now + 1})" in refusal


def test_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    with open_store(path) as store:
        for number in range(50):
            store.connection.execute("INSERT INTO meta VALUES (?, ?)", (f"key{number}", "x" * 2000))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    path.write_bytes(content)
    assert "is damaged" in _refusal(path).message


def test_an_empty_file_becomes_one_but_not_by_looking(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    path.touch()
    assert "older schema (0" in _refusal(path, read_only=True).message
    assert path.read_bytes() == b""
    with open_store(path) as store:
        assert store.incidents() == []


def test_looking_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    with open_store(path) as store:
        store.record(RESULT)
    content = path.read_bytes()
    with open_store(path, read_only=True) as store:
        assert store.incidents() == [HANG]
        with pytest.raises(StoreError, match="cannot be written"):
            store.record(RESULT)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["incidents.db"]


def test_looking_while_another_writes(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    with open_store(path) as writer, open_store(path, read_only=True) as reader:
        with writer.transaction() as transaction:
            transaction.record(RESULT)
            assert reader.incidents() == []
        assert reader.incidents() == [HANG]


def test_many_processes_that_make_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "incidents.db"
    script = f"from sleepwatch.store import open_store; open_store({str(path)!r}).close()"
    processes = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) for _ in range(6)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert errors == [b""] * 6
    with open_store(path) as store:
        assert store.record(RESULT).new == 1


# --- as an ordinary user, for whom modes mean something ---------------------------------------------------------------


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory every user can reach."""
    directory = Path(tempfile.mkdtemp(prefix="sleepwatch-test-"))
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


def _as_ordinary_user(work: Callable[[], str]) -> str:
    """What ``work`` returns in a process whose user is not root."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        try:
            answer = work()
        except StoreError as error:
            answer = error.message
        except BaseException as error:  # told to the test, which compares it
            answer = repr(error)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


def _look(path: Path) -> str:
    with open_store(path, read_only=True) as store:
        return store.incidents()[0].id


def _write(path: Path) -> str:
    with open_store(path) as store:
        return str(store.record(RESULT))


def test_a_directory_that_cannot_be_written(public: Path) -> None:
    public.chmod(0o555)
    path = public / "incidents.db"
    assert _as_ordinary_user(lambda: _write(path)) == f"the database {path} cannot be created: Permission denied"


def test_a_write_protected_copy_can_be_looked_at_but_not_written(public: Path) -> None:
    path = public / "incidents.db"
    with open_store(path) as store:
        store.record(RESULT)
    path.chmod(0o444)
    public.chmod(0o555)
    assert _as_ordinary_user(lambda: _look(path)) == HANG.id
    assert "cannot be" in _as_ordinary_user(lambda: _write(path))
    assert os.listdir(public) == ["incidents.db"]


def test_a_file_of_another_user(public: Path) -> None:
    path = public / "incidents.db"
    open_store(path).close()
    if os.geteuid() != 0:
        path.chmod(0o000)
    assert _as_ordinary_user(lambda: _look(path)) == f"the database {path} cannot be opened"


# --- where it is ------------------------------------------------------------------------------------------------------


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_path() == Path("/var/lib/sleepwatch/sleepwatch.db")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    for state in ("", "relative/state"):
        monkeypatch.setenv("XDG_STATE_HOME", state)
        assert default_path() == tmp_path / ".local/state/sleepwatch/sleepwatch.db"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_path() == tmp_path / "state/sleepwatch/sleepwatch.db"


def test_the_directory_of_the_default_place_is_made_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    open_store(default_path()).close()
    assert stat.S_IMODE(default_path().parent.stat().st_mode) == 0o700
