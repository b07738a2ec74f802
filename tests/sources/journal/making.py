"""Real journal files for tests: entries in the export format, written by systemd-journal-remote."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sleepwatch.model import Record
from sleepwatch.sources.journal import Journal
from sleepwatch.sources.journal_open import open_journal
from tests.support.needs import JOURNAL_REMOTE

Entry = dict[str, bytes]
Entries = list[Entry]

FIRST_US = 1_796_017_604_660_139
"""When the first recorded entry was received."""


def parse(data: bytes) -> Entries:
    """Exported entries whose values are all text."""
    return [
        {name.decode(): value for name, value in (line.split(b"=", 1) for line in block.split(b"\n"))}
        for block in data.rstrip(b"\n").split(b"\n\n")
    ]


def export(entries: Iterable[Entry]) -> bytes:
    """Entries as ``journalctl -o export`` prints them."""
    return b"".join(b"".join(_field(name, value) for name, value in entry.items()) + b"\n" for entry in entries)


def append(path: Path, entries: Iterable[Entry]) -> Path:
    """Write entries into a journal file, behind those it has already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [JOURNAL_REMOTE, f"--output={path}", "-"], input=export(entries), check=True, stderr=subprocess.DEVNULL
    )
    return path


def entry(message: bytes, number: int, **fields: bytes) -> Entry:
    """A line of a service, made; ``number`` counts tenths of a second from the first recorded entry."""
    stamps = {
        "__REALTIME_TIMESTAMP": b"%d" % (FIRST_US + number * 100_000),
        "__MONOTONIC_TIMESTAMP": b"%d" % (3_933_875_116 + number * 100_000),
        "_BOOT_ID": b"3208311b25654aa8aeeab7b051db82e3",
    }
    own = {
        "_MACHINE_ID": b"3d1219c7c4c5404aaa1f6d2a48adfda4",
        "_HOSTNAME": b"gpubox",
        "_TRANSPORT": b"stdout",
        "_STREAM_ID": b"663af43e81644b02a8045149e3f87925",
        "SYSLOG_IDENTIFIER": b"llama-server",
        "_PID": b"40",
        "_UID": b"0",
        "_SYSTEMD_UNIT": b"llama-tiny.service",
        "_SYSTEMD_INVOCATION_ID": b"39463157a54b4400ba607a0739bb3f96",
        "MESSAGE": message,
    }
    return stamps | own | fields


class Vacuumed:
    """Opens journals of which a file is vacuumed, as journald does it, in the middle of a read."""

    def __init__(self, file: Path, *, after: int) -> None:
        self._file = file
        self._after = after

    def open(self, *given: Any, **named: Any) -> Journal:
        """Like open_journal."""
        journal = open_journal(*given, **named)
        read = journal.read

        def meddled(limit: int) -> list[Record]:
            if self._file.exists() and journal.entries >= self._after:
                descriptor = os.open(self._file, os.O_RDWR)
                self._file.unlink()
                # unlinkat_deallocate (systemd, src/basic/fs-util.c) spares its readers a SIGBUS: it makes a hole
                subprocess.run(
                    ["fallocate", "--punch-hole", "--offset=0", f"--length={os.fstat(descriptor).st_size}",
                     f"/proc/self/fd/{descriptor}"],
                    check=True, pass_fds=[descriptor],
                )  # fmt: skip
                os.close(descriptor)
            return read(min(limit, 100))

        journal.read = meddled  # type: ignore[method-assign]
        return journal


def without(one: Entry, *names: str) -> Entry:
    """The entry without these fields."""
    return {name: value for name, value in one.items() if name not in names}


def _field(name: str, value: bytes) -> bytes:
    if b"\n" in value or any(byte < 32 and byte != 9 for byte in value):
        return name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
    return name.encode() + b"=" + value + b"\n"
