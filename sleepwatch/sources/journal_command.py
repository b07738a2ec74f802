"""A journal read by the program journalctl, for machines without systemd-python.

Each reading is a journalctl of its own that prints in the export format; the entries to read are named by fields, as
``journal_units`` does, so that its version's idea of ``--unit`` does not matter.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from sleepwatch.envelopes.journal_export import first_entry
from sleepwatch.errors import SourceError
from sleepwatch.model import Record
from sleepwatch.sources.journal import Entry, Place, Start, Terms, Which, journal_files
from sleepwatch.sources.journal_records import ExportEntries
from sleepwatch.sources.journal_units import Units

_PIPE = 1 << 16
_ENTRY_BYTES = 1_000
"""About as much is printed of an entry."""
_ANSWER_S = 30.0
"""A question that journalctl has not answered by then will get no answer."""
_FOLLOW_IMPLIES_BOOT = range(250, 258)
"""Versions of systemd whose ``--follow`` shows this boot's entries alone, whatever ``--boot`` says, unless all journals
are merged: entries from before a reboot would be passed over, and in a container whose boot id is not the one the
service sees, all of them."""
_MACHINE_ID = Path("/etc/machine-id")


class CommandJournal:
    """See :class:`sleepwatch.sources.journal.Journal`."""

    way = "journalctl"

    def __init__(self, which: Which, units: Units, *, follow: bool) -> None:
        self.place: Place | None = None
        self.at_end = False
        self._which = which
        self._units = units
        self._follow = follow
        self._entries = ExportEntries(units)
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None
        self._rest = b""
        self._begun_with: list[tuple[str, int]] = []
        """The directories it is kept in, as they were when the reading began."""
        self._passed = 0
        """Entries of earlier readings."""
        self._base = ["journalctl", "--no-pager", "--quiet"]
        if which.files:
            self._base += [f"--file={name}" for name in which.files]
        elif which.directory is not None:
            self._base.append(f"--directory={which.directory}")
        self._version = _version(self._run(["journalctl", "--version"]))

    def unique(self, field: str) -> set[str]:
        """See Journal."""
        return set(self._run([*self._base, "--output=cat", f"--field={field}"]).decode("utf-8", "replace").splitlines())

    def first(self, terms: Terms, start: Start = "head") -> Entry | None:
        """See Journal."""
        if start == "tail":
            return None
        command = [*self._command(terms), *_from(start)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment()
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            data = b""
            entry = None
            while entry is None and (block := os.read(process.stdout.fileno(), _PIPE)):
                data += block
                entry = _entry(data)
            ended = not data
            if not ended:
                process.kill()
            complaint = process.stderr.read()
        if ended:
            self._check(process.returncode, complaint)
        return entry

    def last(self, terms: Terms, before_us: int | None = None) -> Entry | None:
        """See Journal."""
        until = [] if before_us is None else ["--reverse", f"--until={_at(before_us - 1)}"]
        return _entry(self._run([*self._command(terms), "--lines=1", *until]))

    def begin(self, terms: Terms, start: Start, *, after: bool = False) -> None:
        """See Journal."""
        self._stop()
        self._begun_with = [(room, 0) for room in {str(path.parent) for path in journal_files(self._which)}]
        self._begun_with = self._rooms()
        self.place = None
        self.at_end = False
        self._rest = b""
        self._passed += self._entries.entries
        self._entries = ExportEntries(self._units)
        self._entries.skip = start if after and isinstance(start, Place) else None
        merged = self._follow and self._version in _FOLLOW_IMPLIES_BOOT
        command = [*self._command(self._of_this_machine(terms) if merged else terms), *_from(start)]
        if self._follow:
            command += ["--follow"] if start == "tail" else ["--follow", "--no-tail"]
            if merged:
                command += ["--boot=all", "--merge"]
        elif start == "tail":
            self.at_end = True
            return
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 -- a pipe would have to be emptied
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._complaints, env=_environment()
        )
        if self._follow:
            os.set_blocking(self._out, False)

    def read(self, limit: int) -> list[Record]:
        """See Journal."""
        out: list[Record] = []
        entries = self._entries
        wanted = entries.entries + limit
        cursor = entries.cursor
        self.at_end = self._process is None
        while not self.at_end and entries.entries < wanted:
            try:
                block = os.read(self._out, min(_PIPE, _ENTRY_BYTES * limit))
            except BlockingIOError:
                self.at_end = True
                break
            if not block:
                out += self._ended()
                break
            data = self._rest + block
            cut = data.rfind(b"\n") + 1
            self._rest = data[cut:]
            out += entries.feed(data[:cut], 0)
        if entries.cursor is not None and entries.cursor is not cursor:
            self.place = Place.of(entries.cursor.decode())
        return out

    def flush(self) -> list[Record]:
        """See Journal."""
        return self._entries.pieces()

    def changed(self) -> bool:
        """See Journal. journalctl goes on with other files, but does not tell that it left one before its end."""
        return self._begun_with != self._rooms()

    def fileno(self) -> int | None:
        """See Journal."""
        return None if self._process is None else self._out

    def close(self) -> None:
        """See Journal."""
        self._stop()

    @property
    def entries(self) -> int:
        """See Journal."""
        return self._passed + self._entries.entries

    @property
    def _out(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _rooms(self) -> list[tuple[str, int]]:
        """Those directories with the times at which files last came into them or went."""
        times = []
        for room, _ in self._begun_with:
            try:
                times.append((room, os.stat(room).st_mtime_ns))
            except OSError:
                times.append((room, 0))
        return times

    def _command(self, terms: Terms) -> list[str]:
        words: list[str] = []
        for group in terms:
            words += ["+", *group] if words else group
        # All fields: with --output-fields= for those that are looked at, journalctl (252) takes twice as long.
        return [*self._base, "--output=export", *words]

    def _of_this_machine(self, terms: Terms) -> Terms:
        """Merged journals are also those of other machines, kept beside this one's."""
        if self._which != Which():
            return terms
        try:
            own = f"_MACHINE_ID={_MACHINE_ID.read_text().strip()}"
        except OSError:
            return terms
        return [[*group, own] for group in terms] or [[own]]

    def _ended(self) -> list[Record]:
        """journalctl has come to its end: well, where it was not to wait for more."""
        assert self._process is not None
        assert self._complaints is not None
        status = self._process.wait()
        self._complaints.seek(0)
        complaint = self._complaints.read(4096)
        out = self._entries.feed(self._rest, 0) if self._rest else []
        self._rest = b""
        self.at_end = True
        self._stop()
        self._check(status, complaint)
        if self._follow:
            raise self._failed(status, complaint)
        return out

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        if self._complaints is not None:
            self._complaints.close()
            self._complaints = None

    def _run(self, command: Sequence[str]) -> bytes:
        """What a command prints."""
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, env=_environment(), timeout=_ANSWER_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(f"{self._which.name}: journalctl gives no answer ({error})") from error
        if not done.stdout:
            self._check(done.returncode, done.stderr)
        return done.stdout

    def _check(self, status: int, complaint: bytes) -> None:
        """Did it fail? That it found nothing is a status of some versions', too."""
        if status < 0 or (status and complaint.strip()):
            raise self._failed(status, complaint)

    def _failed(self, status: int, complaint: bytes) -> SourceError:
        words = complaint.decode("utf-8", "replace").strip().splitlines()
        return SourceError(
            f"{self._which.name}: journalctl ended with status {status}" + (f": {words[-1][:300]}" if words else "")
        )


def _entry(data: bytes) -> Entry | None:
    pairs = first_entry(data)
    return None if pairs is None else {name.decode("ascii", "replace"): value for name, value in pairs.items()}


def _from(start: Start) -> list[str]:
    """Where to begin, as options."""
    if isinstance(start, Place):
        return [f"--cursor={start.cursor}"]
    if isinstance(start, int):
        return [f"--since={_at(start)}"]
    return ["--lines=0"] if start == "tail" else []


def _at(time_us: int) -> str:
    return f"@{time_us // 1_000_000}.{time_us % 1_000_000:06d}"


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_LESS": ""}


def _version(answer: bytes) -> int:
    found = re.match(rb"systemd (\d+)", answer)
    return int(found[1]) if found else 0
