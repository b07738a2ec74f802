"""Opening the SQLite file: how, with which guarantees, and what to say where it does not work."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from sleepwatch.clock import SystemClock
from sleepwatch.errors import StoreError, os_words
from sleepwatch.store.version import APPLICATION, SCHEMA_VERSION

BUSY_TIMEOUT_MS = 5_000
_TRY_AGAIN_S = 0.02

SERVICE_PATH = Path("/var/lib/sleepwatch/sleepwatch.db")
"""Of root and of the systemd unit (packaging/systemd)."""


def default_path() -> Path:
    """Where the database is unless the person names another place.

    Root: ``/var/lib/sleepwatch/sleepwatch.db``; others: ``$XDG_STATE_HOME/sleepwatch/sleepwatch.db``, where
    ``XDG_STATE_HOME`` is ``~/.local/state`` unless set to an absolute path (XDG Base Directory Specification).
    """
    if os.geteuid() == 0:
        return SERVICE_PATH
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path.home() / ".local" / "state"
    return state / "sleepwatch" / "sleepwatch.db"


def connect(path: Path, *, create: bool, read_only: bool, busy_timeout_ms: int) -> sqlite3.Connection:
    """A connection to the database at ``path``, of this program's version, with all guarantees set.

    A write-ahead log, full synchronisation (a commit that returned survives a power cut), foreign keys enforced, and
    ``busy_timeout_ms`` of waiting for another writer. A new file gets mode 0600, since evidence can be private.
    Raises StoreError.
    """
    _prepare_file(path, create=create and not read_only)
    with explained(path):
        connection = _open(path, busy_timeout_ms, read_only=read_only)
        try:
            version = _version(connection, path)
            if version > SCHEMA_VERSION:
                raise StoreError(
                    f"{path} was written by a newer sleepwatch (schema {version}, this one knows {SCHEMA_VERSION})",
                    hint="upgrade sleepwatch, or name another file with --db",
                )
            if read_only:
                connection.execute("PRAGMA query_only = ON")
                if version < SCHEMA_VERSION:
                    raise StoreError(
                        f"{path} has an older schema ({version}, this sleepwatch needs {SCHEMA_VERSION})",
                        hint=f"`sleepwatch scan --db {path} LOG` brings it up to date",
                    )
            else:
                _write_ahead(connection, busy_timeout_ms)
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                if version < SCHEMA_VERSION:
                    _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare_file(path: Path, *, create: bool) -> None:
    """Make an empty file that only its owner can read, where there is none; else see that there is a file at all."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise StoreError(
                f"{path} is a directory, not a database", hint=f"name a file in it: {path / 'sleepwatch.db'}"
            )
        return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise StoreError(
            f"the database {path} cannot be used: {os_words(error)}",
            hint="check the owner and mode of the file and its directory, or name another place with --db",
        ) from error
    if not create:
        raise StoreError(
            f"there is no database at {path}",
            hint="`sleepwatch run` makes one, and `sleepwatch scan --db FILE LOG`; name it with --db",
        )
    try:
        if path == default_path():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private_file(path)
    except OSError as error:
        raise StoreError(
            f"the database {path} cannot be created: {error.strerror}", hint="name another place with --db"
        ) from error


def make_private_file(path: Path) -> None:
    """Make an empty file that only its owner can read, unless there is one. Raises OSError.

    What root makes in the directory of another user is that user's, as SQLite's own files beside a database are: the
    daemon that runs as that user has to go on with it.
    """
    try:  # O_EXCL follows no link, so no file is given away that such a user could not have made
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        return
    try:
        if os.geteuid() == 0:
            directory = path.parent.stat()
            with contextlib.suppress(PermissionError):  # a user namespace, or another machine's disk
                os.fchown(descriptor, directory.st_uid, directory.st_gid)
    finally:
        os.close(descriptor)


def _open(path: Path, busy_timeout_ms: int, *, read_only: bool) -> sqlite3.Connection:
    # Also for reading only: SQLite then opens a write-protected file for reading by itself, and elsewhere takes its
    # own write-ahead files away when it closes.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        return _try(uri, busy_timeout_ms)
    except sqlite3.OperationalError as error:
        # In a directory that cannot be written those files cannot be made. Where there is no log nobody is writing,
        # so the file may be read as it stands.
        log = path.with_name(f"{path.name}-wal")
        if read_only and _code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) and not log.exists():
            return _try(f"{path.absolute().as_uri()}?immutable=1", busy_timeout_ms)
        raise


def _try(uri: str, busy_timeout_ms: int) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=busy_timeout_ms / 1000)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection, busy_timeout_ms: int) -> None:
    """Use a write-ahead log. SQLite refuses that at once where it would wait for others elsewhere: so try again."""
    until_us = SystemClock.now().monotonic_us + busy_timeout_ms * 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or SystemClock.now().monotonic_us >= until_us:
                raise
        time.sleep(_TRY_AGAIN_S)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version; 0 for an empty file."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    meta: dict[str, str] = {}
    if "meta" in tables:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(meta)")]
        if columns == ["key", "value"]:
            meta = dict(connection.execute("SELECT key, value FROM meta"))
    if meta.get("application") != APPLICATION:
        raise StoreError(f"{path} is a database of another program", hint="name another file with --db")
    return int(meta["schema_version"])


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    from sleepwatch.store.schema import migrate  # late: sqlite-utils takes a tenth of a second to load

    connection.execute("BEGIN IMMEDIATE")
    try:
        if _version(connection, path) < SCHEMA_VERSION:  # another process may have been faster
            migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite says of a file it cannot use into a StoreError; a wrong statement stays what it is, a bug."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        reason = _REASONS.get(_code(error) or 0)
        if reason is None:
            raise
        message, hint = reason
        raise StoreError(message.format(path=path), hint=hint) from error


def _code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None where Python's module raised the error itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


_REASONS = {
    sqlite3.SQLITE_BUSY: (
        "the database {path} is locked by another program",
        "wait until that one has finished, or stop it, and try again; nothing was stored",
    ),
    sqlite3.SQLITE_LOCKED: (
        "the database {path} is locked by another program",
        "wait until that one has finished, or stop it, and try again; nothing was stored",
    ),
    sqlite3.SQLITE_READONLY: (
        "the database {path} cannot be written: the file or its directory is read-only",
        "check the owner and mode of both, or name another place with --db",
    ),
    sqlite3.SQLITE_PERM: (
        "the database {path} cannot be used: permission denied",
        "check the owner and mode of the file and its directory, or name another place with --db",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the database {path} cannot be opened",
        "check the owner and mode of the file and its directory, or name another place with --db",
    ),
    sqlite3.SQLITE_FULL: (
        "the disk that holds {path} is full",
        "free some space and scan again; nothing of this reading was stored, and what was there before is intact",
    ),
    sqlite3.SQLITE_IOERR: (
        "reading or writing the database {path} failed",
        "check the disk and the file system; what was stored before is intact",
    ),
    sqlite3.SQLITE_NOTADB: ("{path} is not an SQLite database", "name another file with --db"),
    sqlite3.SQLITE_CORRUPT: (
        "the database {path} is damaged",
        "save what can be read with `sqlite3 FILE .recover`, or name another file with --db and scan the logs again",
    ),
}
