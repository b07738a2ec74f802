"""What the fields of a journal entry say, whichever of journalctl's structured outputs they came in.

Field names and meanings: systemd.journal-fields(7) and systemd's message catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from sleepwatch.envelopes.base import Framed, Pieces, name_of
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes

KEPT = (
    "UNIT",
    "USER_UNIT",
    "EXIT_CODE",
    "EXIT_STATUS",
    "COMMAND",
    "INVOCATION_ID",
    "USER_INVOCATION_ID",
    "JOB_TYPE",
    "JOB_RESULT",
    "UNIT_RESULT",
    "N_RESTARTS",
    "N_DROPPED",
    "OBJECT_SYSTEMD_UNIT",
    "OBJECT_SYSTEMD_USER_UNIT",
    "OBJECT_PID",
    "COREDUMP_UNIT",
    "COREDUMP_USER_UNIT",
    "COREDUMP_PID",
    "COREDUMP_COMM",
    "COREDUMP_EXE",
    "COREDUMP_CMDLINE",
    "COREDUMP_SIGNAL",
    "COREDUMP_SIGNAL_NAME",
    "COREDUMP_TIMESTAMP",
    "_CMDLINE",
    "_TRANSPORT",
    "_STREAM_ID",
    "_LINE_BREAK",
    "SYSLOG_IDENTIFIER",
)
"""The fields handed on in Record.fields, where an entry has them."""

FIELDS = (
    *KEPT,
    "MESSAGE_ID",
    "_HOSTNAME",
    "_SYSTEMD_UNIT",
    "_SYSTEMD_USER_UNIT",
    "_SYSTEMD_INVOCATION_ID",
    "_BOOT_ID",
    "_PID",
    "SYSLOG_PID",
    "_COMM",
    "CONTAINER_NAME",
    "CONTAINER_ID",
    "CONTAINER_PARTIAL_MESSAGE",
)
"""Every field that is looked at, but for the message and the times. Values travel as tuples in this order."""

UNIT_SUFFIXES = (".service", ".scope", ".slice", ".socket", ".mount", ".automount", ".target", ".timer", ".swap",
                 ".path", ".device")  # fmt: skip
"""What the names of units end in (systemd.unit(5))."""

_WRITERS_LIMIT = 1024
_PROCESSES_LIMIT = 4096

copied = cast(Callable[[Record], Record], Record.__copy__)  # type: ignore[attr-defined]  # no part of msgspec's stubs
"""Another record like this one: half as costly as making it from its fields."""

Values = tuple[str | None, ...] | tuple[bytes | None, ...]
Places = Callable[[], Sequence[int]]
"""Gives where each line of a message of several begins, counted only when one is met."""


class Writer(msgspec.Struct, frozen=True):
    """The part of an entry that repeats from line to line."""

    line: Record
    """A line of this writer's, without text, place and time: copied for each."""
    stream: tuple[str | None, ...]
    """Tells apart the streams whose long lines arrive in pieces."""
    more: bool
    """The line goes on in the next entry of the stream."""
    torn: bool
    """The stream ended, or another process took it over, before the line did."""


class JournalEntries(Framed):
    """The part that ``-o json``, ``-o export`` and ``-o verbose`` share: from fields to records."""

    time_from: str | None = "journald's stamps (microseconds)"

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._writers: dict[Values, Writer] = {}
        self._pieces = Pieces()
        self._processes: dict[tuple[str, str], tuple[str, str | None]] = {}
        """Boot and process id → the unit and invocation its lines named."""
        self._nameless: dict[tuple[str, str], list[Values]] = {}
        """… → its writers that are kept, of lines that named none."""

    def entry(
        self, values: Values, message: bytes | None, offset: int, wall_us: int | None, places: Places, out: list[Record]
    ) -> None:
        """Append an entry's records: one for each line of its message.

        ``message`` None means that journalctl left it out for its size; ``offset`` is where it begins.
        """
        if self._held:
            self.release(out)
        self.put(self._writers.get(values) or self.writer(values), message, offset, wall_us, places, out)

    def put(
        self, writer: Writer, message: bytes | None, offset: int, wall_us: int | None, places: Places, out: list[Record]
    ) -> None:
        """The same for an entry whose writer is known."""
        if message is None:
            out.append(_record(writer, b"", offset, wall_us, cut=True))
        elif writer.more or writer.torn or self._pieces.open:
            piece = _record(writer, message, offset, wall_us, partial=writer.torn)
            self._pieces.add(writer.stream, piece, out, more=writer.more)
        elif b"\n" in message:
            lines = message.split(b"\n")
            starts = list(places())
            starts += [offset] * (len(lines) - len(starts))
            for line, at in zip(lines, starts, strict=False):
                if line:
                    out.append(_record(writer, line, at, wall_us))
        else:
            out.append(_record(writer, message, offset, wall_us))

    def flush(self, out: list[Record]) -> None:
        """See Framed."""
        self._pieces.flush(out)

    def writer(self, values: Values) -> Writer:
        """What the fields say of the one who wrote, and keep it for the next time."""
        found = {
            field: name_of(value) if isinstance(value, bytes) else value
            for field, value in zip(FIELDS, values, strict=True)
            if value is not None
        }
        get = found.get
        pid = get("_PID") or get("SYSLOG_PID")
        # The manager's lines are about a unit's run: that run's id. All others are by one.
        if "UNIT" in found:
            invocation = get("INVOCATION_ID")
        elif "USER_UNIT" in found:
            invocation = get("USER_INVOCATION_ID")
        else:
            invocation = get("_SYSTEMD_INVOCATION_ID")
        line_break = get("_LINE_BREAK")
        unit = get("_SYSTEMD_USER_UNIT") or get("_SYSTEMD_UNIT")
        process = get("_BOOT_ID", ""), get("_PID", "")
        if unit is not None:
            if len(self._processes) >= _PROCESSES_LIMIT:
                self._processes.clear()
            self._processes[process] = unit, get("_SYSTEMD_INVOCATION_ID")
            for nameless in self._nameless.pop(process, ()):
                self._writers.pop(nameless, None)
        elif all(process) and process in self._processes:
            # journald reads a process's unit when it reads its line; by then the process can be gone (systemd#1347).
            unit, run = self._processes[process]
            invocation = invocation or run
        if get("_COMM") == "dockerd" and "CONTAINER_ID" in found:
            unit = invocation = pid = None  # the daemon's own: it writes for all its containers
        line = Record(
            text=b"",
            offset=0,
            host=get("_HOSTNAME"),
            unit=unit,
            container=get("CONTAINER_NAME") or get("CONTAINER_ID"),
            ident=get("SYSLOG_IDENTIFIER") or get("_COMM"),
            pid=int(pid) if pid and pid.isascii() and pid.isdigit() and len(pid) < 11 else None,
            boot=get("_BOOT_ID"),
            invocation=invocation,
            message_id=get("MESSAGE_ID"),
            fields={field: found[field] for field in KEPT if field in found} or None,
        )
        writer = Writer(
            line=line,
            stream=(get("_STREAM_ID"), get("CONTAINER_ID"), get("_BOOT_ID"), get("_PID")),
            more=line_break == "line-max" or get("CONTAINER_PARTIAL_MESSAGE") == "true",
            torn=line_break in ("eof", "pid-change"),
        )
        if len(self._writers) >= _WRITERS_LIMIT:
            self._writers.clear()
            self._nameless.clear()
        self._writers[values] = writer
        if unit is None and all(process):
            self._nameless.setdefault(process, []).append(values)
        return writer


def _record(
    writer: Writer, text: bytes, offset: int, wall_us: int | None, *, cut: bool = False, partial: bool = False
) -> Record:
    record = copied(writer.line)
    record.text = text[:-1] if text[-1:] == b"\r" else text
    record.offset = offset
    record.wall_us = wall_us
    record.cut = cut
    record.partial = partial
    return record


def realtime_us(source: str | bytes | None, received: str | bytes | None) -> int | None:
    """The time journalctl itself shows: the sender's ``_SOURCE_REALTIME_TIMESTAMP`` before journald's own."""
    for stamp in (source, received):
        if stamp and len(stamp) < 18 and stamp.isdigit():
            return int(stamp)
    return None
