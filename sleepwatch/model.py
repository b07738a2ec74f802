"""The frozen vocabulary every part shares: records, events, lives, incidents, evidence, gaps.

Units: a name ending in ``_us`` is an integer number of microseconds. ``clock_us`` is the server's own log clock
(``M.SS.mmm.uuu``, counted from the start of its process: llama.cpp ``common/log.cpp``); ``wall_us`` is wall time since
the Unix epoch, UTC, and is known only where a carrier (journald, docker, syslog …) wrote it.
"""

from __future__ import annotations

from typing import Any

import msgspec

KINDS = (
    "blind",
    "stalled-request",
    "hung-request",
    "crash",
    "crash-in-flight",
    "wake-failure",
    "sleep-crash",
    "crash-loop",
)
"""The kinds of incident, the more telling one of two for the same death (or request) later. Their names are stable."""
CONFIDENCES = ("possible", "probable", "confirmed")
SEVERITIES = ("info", "warning", "critical")
STATES = ("open", "unresolved", "down", "restarted", "unstuck", "recovered", "abandoned", "lost")
OPEN_STATES = ("open", "unresolved", "down")
"""Of which nobody has yet seen an end."""

LIVE = "live: "
"""Sources that begin so were seen by a running daemon, and cannot be read again."""


class Origin(msgspec.Struct, eq=False, kw_only=True):
    """Who wrote a line: the identity of a stream (the lines of one writer in a source).

    One object per stream, shared by all its records, so it is compared and hashed by identity.
    Every field but ``source`` is None where the carrier does not tell it.
    """

    source: str
    """The name the person gave: a path, ``-`` for standard input, or a journal."""
    host: str | None = None
    unit: str | None = None
    """systemd unit, with its suffix (``llama-tiny.service``)."""
    container: str | None = None
    """Container or compose service name or id."""
    ident: str | None = None
    """The syslog identifier or process name the carrier shows (``llama-server``, ``systemd``, ``kernel``)."""
    pid: int | None = None
    boot: str | None = None
    invocation: str | None = None
    """systemd's INVOCATION_ID of the unit's run (``_SYSTEMD_INVOCATION_ID`` on the unit's own lines)."""
    port: str | None = None
    """Router child: the port in ``[port] ``; nested routers give ``outer/inner``."""
    parent: Origin | None = None
    """Router child: the stream of the router that prints its lines."""
    head: bytes = b""
    """The source's first lines: what identifies a life whose lines carry no stamps."""


class Record(msgspec.Struct, kw_only=True, gc=False):
    """One bare line as its program wrote it, with what its carrier said about it.

    ``text`` has neither carrier nor line ending; colours and the router's ``[port] `` are still in it.
    ``offset`` is the byte offset in the (decompressed) source at which ``text`` begins; where the carrier escaped or
    split the text, it is where its first byte stands.
    """

    text: bytes
    offset: int
    wall_us: int | None = None
    host: str | None = None
    unit: str | None = None
    container: str | None = None
    ident: str | None = None
    pid: int | None = None
    boot: str | None = None
    invocation: str | None = None
    message_id: str | None = None
    """journald's MESSAGE_ID, 32 hex digits."""
    fields: dict[str, str] | None = None
    """Structured fields that carry meaning without text (EXIT_CODE, EXIT_STATUS, UNIT, COREDUMP_SIGNAL …)."""
    cut: bool = False
    """The carrier cut the line (``>``, ``…``, a length limit): what is missing proves nothing."""
    partial: bool = False
    """The line had no end (the source ended or the writer died in the middle of it)."""


class Event(msgspec.Struct, kw_only=True):
    """What a rule recognised in a line."""

    type: str
    """``sleep.enter``, ``request.launched``, ``process.exit`` …; the list is in docs/events.md."""
    origin: Origin
    offset: int
    text: bytes
    """The part of the line that matched (from its stamp to the end of the template), at ``offset`` in the source."""
    fields: dict[str, Any]
    clock_us: int | None = None
    wall_us: int | None = None
    rest: bytes = b""
    """What followed the matched part on the line; only its length and hash are ever shown."""
    source: str = ""
    """Where the line stands; a stream's lines can cross the files of a rotated set."""
    seq: int = 0
    """Its place in the order in which the engine was told; comparable across files."""
    pattern: str = ""
    """Name of the pattern that recognised it."""
    new_life: bool = False
    """The stream's clock or a start marker says that a new process writes from this line on."""
    doubtful: bool = False
    """The line could be a copy inside printed text (VERDICTS: 'What never counts'): nothing above ``possible``."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One line that proves something, with its place."""

    role: str
    """What it proves: ``sleep``, ``post``, ``arrival``, ``format``, ``cancel``, ``launch``, ``wake``, ``exit`` …"""
    source: str
    offset: int
    text: str
    """The part of the line that matched, control bytes escaped as ``\\xNN``."""
    line: int | None = None
    """Line number, counted only when it is printed."""
    rest_bytes: int = 0
    rest_sha256: str | None = None
    clock_us: int | None = None
    wall_us: int | None = None


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict about one life (and request). Stable names: docs/verdicts.md."""

    id: str
    kind: str
    confidence: str
    """``confirmed``, ``probable`` or ``possible``."""
    state: str
    """Of a hang: open, unstuck, recovered, abandoned, lost, unresolved; of a death: open, restarted, down."""
    severity: str
    """``critical``, ``warning`` or ``info``."""
    server: str
    life: str
    summary: str
    remedy: str
    reason: str
    """Why this kind and this confidence: the proofs by name."""
    evidence: tuple[Evidence, ...] = ()
    task: int | None = None
    in_flight: int | None = None
    in_flight_reason: str | None = None
    signal: int | None = None
    count: int = 1
    """Deaths in a crash loop; 1 otherwise."""
    opened_us: int | None = None
    closed_us: int | None = None
    log_opened_us: int | None = None
    log_closed_us: int | None = None

    @property
    def duration_us(self) -> int | None:
        """How long it lasted: by the log clock where both ends carry it, else by wall time, else unknown."""
        if self.log_opened_us is not None and self.log_closed_us is not None:
            return max(0, self.log_closed_us - self.log_opened_us)
        if self.opened_us is not None and self.closed_us is not None:
            return max(0, self.closed_us - self.opened_us)
        return None


class CanSee(msgspec.Struct, frozen=True, kw_only=True):
    """What this life's log is able to show, judged by its era, verbosity and by what it did show."""

    arrival: bool
    queued: bool
    answered: bool
    exit: bool


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one server process, as far as the source shows it."""

    life: str
    """The life key: hash of its first eight unwrapped stamped lines; else of boot, pid and start; else of source and
    ordinal."""
    server: str
    source: str
    pid: int | None
    port: str | None
    build: str | None
    era: str | None
    """``A``, ``B`` or ``C`` (llama.cpp b7492–b9150, b9151–b9828, b9829–)."""
    verbosity: int | None
    can_see: CanSee
    started_us: int | None
    ended_us: int | None
    exit: str | None
    """``planned``, ``signal 11``, ``status 1``, ``unknown`` …; None while it runs or where the source ends."""
    sleeps: int
    requests: int
    freed_in_grace: int = 0
    """Requests that met a sleep and were freed within the grace time: not incidents."""
    lost_to_stop: int = 0
    """Requests in flight when a planned stop ended the life."""
    last_clock_us: int | None = None
    """Log clock of the last event seen of it: how far this reading reaches."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a source that could not be read; no verdict comes from silence inside it."""

    source: str
    cause: str
    from_offset: int | None = None
    to_offset: int | None = None
    from_us: int | None = None
    to_us: int | None = None


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen live beside a log, as an event that can be given to the engine again (:mod:`sleepwatch.replay`)."""

    source: str
    """The log."""
    life: str
    sleep: str | None
    """Which sleep of the life it is about: its log clock, or ``#`` and its ordinal; None: about the life."""
    place: int
    """Where among the lines it stands: so many lines of this life had come since that sleep began."""
    seen_in: str
    """Where it was seen."""
    type: str
    text: str
    fields: dict[str, Any]
    clock_us: int | None = None
    wall_us: int | None = None


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of one source."""

    source: str
    envelope: str
    bytes: int
    first_us: int | None = None
    last_us: int | None = None
    time_from: str | None = None
    """Where its wall times come from, in words; None where it carries none."""


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one reading of one or more sources found. The input of the store and of every report."""

    sources: tuple[SourceInfo, ...]
    lives: tuple[Life, ...]
    incidents: tuple[Incident, ...]
    gaps: tuple[Gap, ...]
    failed: tuple[tuple[str, str], ...] = ()
    """Sources that could not be read: (name, one sentence why and what to do)."""
    events: int = 0
    lines_seen: int = 0
    whole: bool = True
    """False where incidents were left out (only a stretch of time was asked for): a missing one then proves nothing."""
