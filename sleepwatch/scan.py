"""``scan``: old logs in, incidents out. The same reader and engine as the daemon's, fed from files to their ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import msgspec

from sleepwatch import clock
from sleepwatch.engine import Engine, Output, Transition, Words
from sleepwatch.errors import SourceError
from sleepwatch.model import CONFIDENCES, Event, Gap, Incident, Life, ScanResult, SourceInfo
from sleepwatch.reader import Gate, Reader, Trace
from sleepwatch.reader.journal import JournalLog
from sleepwatch.reader.recogniser import Sink
from sleepwatch.rules import IncidentWords, RuleSet, load, load_incidents
from sleepwatch.sources.archives import decompressed, open_plain, read_block
from sleepwatch.sources.journal import Journal, Place, Way, Which, holds_journals, is_journal_file
from sleepwatch.sources.journal_open import open_journal
from sleepwatch.sources.journal_parts import TORN, Part, Selection, is_there, parts, place_of
from sleepwatch.sources.sets import LogSet, Piece, log_sets
from sleepwatch.times import LocalTimes

BLOCK = 1 << 20
"""Bytes read at once."""
ENTRIES = 500
"""Entries of a journal read at once."""

Progress = Callable[[str, int, int | None], None]
"""Called with a file, the bytes read of it so far (as stored, still compressed), and its size where known."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to read, and what of it to tell."""

    envelope: str | None = None
    """Force this carrier for every file instead of telling it from the first lines."""
    vectorised: bool = True
    """Use the vectorised search where it loads; the slow one finds the same."""
    zone: tzinfo = UTC
    """The zone of stamps that name none."""
    year: int | None = None
    """The year of the first stamp that has none; None: the latest that does not lie behind the file's last change."""
    since_us: int | None = None
    until_us: int | None = None
    """Tell only of incidents that were open in this stretch of wall time. Those without a wall time stay."""


class Watch(Protocol):
    """Looks on while a log is read (``explain``): it hands each event to the engine itself."""

    trace: Trace | None
    """Told of every line that is looked at; None: it does not want to know, and reading stays fast."""

    def opened(self, source: str) -> None:
        """The lines that follow stand in this file."""

    def feed(self, engine: Engine, event: Event) -> Output:
        """Give the engine an event, and its answer back."""

    def finish(self, engine: Engine) -> Output:
        """Tell the engine that the log has ended, and give its answer back."""


class Scan:
    """One scan over any number of logs; :meth:`read` each, then take :meth:`result`."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        rules: RuleSet | None = None,
        watch: Watch | None = None,
        stdin: Callable[[], BinaryIO] | None = None,
    ) -> None:
        self.options = options or Options()
        self.rules = rules or load()
        self._watch = watch
        self._stdin = stdin or (lambda: sys.stdin.buffer)
        self._words = engine_words(load_incidents())
        self._gate = Gate(self.rules.literals, vectorised=self.options.vectorised)
        self._incidents: dict[str, Incident] = {}
        self._lives: dict[str, Life] = {}
        self._sources: list[SourceInfo] = []
        self._gaps: list[Gap] = []
        self._failed: list[tuple[str, str]] = []
        self._events = self._lines = 0

    @property
    def vectorised(self) -> bool:
        """The vectorised search is in use."""
        return self._gate.vectorised

    def read_paths(self, paths: Sequence[str], *, progress: Progress | None = None) -> None:
        """Read files, directories, patterns and ``-``. What cannot be read is named in the result and stops nothing.

        Journal files and their directories are read as journals.
        """
        directories = [path for path in paths if holds_journals(path)]
        sets, failed = log_sets([path for path in paths if path not in directories])
        self._failed.extend(failed)
        journals: list[str] = []
        for log in sets:
            pieces = [piece for piece in log.pieces if not is_journal_file(piece.path)]
            journals += [str(piece.path) for piece in log.pieces if piece not in pieces]
            if pieces:
                self.read(LogSet(log.name, tuple(pieces)), progress=progress)
        for directory in directories:
            self.read_journal(Which(directory=directory))
        if journals:
            self.read_journal(Which(files=tuple(journals)))

    def read(self, log: LogSet, *, progress: Progress | None = None) -> None:
        """Read one log to its end."""

        def pieces(sink: Sink) -> int:
            trace = self._watch.trace if self._watch is not None else None
            reader = Reader(self.rules, sink, gate=self._gate, envelope=self.options.envelope, trace=trace)
            for piece in log.pieces:
                self._read_piece(reader, piece, progress)
            reader.finish()
            return reader.server_lines

        self._through_an_engine(pieces)

    def read_journal(self, which: Which, selection: Selection | None = None, *, way: Way = "auto") -> None:
        """Read a journal to its end, each machine's part of it for itself.

        What cannot be read is named in the result, as for files.
        """
        selection = selection or Selection()
        try:
            with closing(open_journal(which, selection.units, way=way)) as journal:
                for part in list(parts(journal, which, selection, since_us=self.options.since_us)):
                    self._read_part(journal, part)
        except SourceError as error:
            self._failed.append((which.name, str(error)))

    def _read_part(self, journal: Journal, part: Part) -> None:
        if self._watch is not None:
            self._watch.opened(part.name)

        def entries(sink: Sink) -> int:
            trace = self._watch.trace if self._watch is not None else None
            log = JournalLog(self.rules, sink, part.name, gate=self._gate, trace=trace)
            try:
                entry = journal.first(part.terms, part.start)
                before = place_of(entry) if entry is not None else None
                journal.begin(part.terms, part.start)
                while not journal.at_end:
                    log.feed(journal.read(ENTRIES))
                    if journal.changed():
                        before = self._go_on(journal, part, before, log)
                    before = journal.place or before
            except SourceError as error:
                self._failed.append((part.name, str(error)))  # what was read up to here counts
            log.feed(journal.flush())
            log.finish()
            first, last = log.wall_us
            self._sources.append(
                SourceInfo(
                    source=part.name,
                    envelope="journal",
                    bytes=log.bytes,
                    first_us=first,
                    last_us=last,
                    time_from=log.time_from,
                )
            )
            return log.server_lines

        self._through_an_engine(entries)

    def _go_on(self, journal: Journal, part: Part, before: Place | None, log: JournalLog) -> Place | None:
        """Files came or went since the entry ``before``: go on behind the last one read, which is given back.

        Of a file that is emptied while it is being read libsystemd passes over the rest without a word.
        """
        last = journal.place or before
        log.feed(journal.flush())
        if before is not None and not is_there(journal, before, part.whole):
            self._failed.append((part.name, f"{part.name}: {TORN}: scan it again"))
            log.gap(TORN)
        if last is not None:
            journal.begin(part.terms, last, after=True)
        return last

    def _through_an_engine(self, read: Callable[[Sink], int]) -> None:
        """Let ``read`` give all events of a log to an engine; it returns how many lines of servers it recognised."""
        engine, watch = Engine(self._words), self._watch
        feed = engine.feed if watch is None else partial(watch.feed, engine)
        own: dict[str, Incident] = {}

        def take(transitions: Iterable[Transition]) -> None:
            for transition in transitions:
                if transition.withdrawn:
                    own.pop(transition.incident.id, None)
                else:
                    own[transition.incident.id] = transition.incident

        def sink(event: Event) -> None:
            output = feed(event)
            if output.transitions:
                take(output.transitions)
            if event.type == "gap":
                self._gaps.append(gap_of(event))

        self._lines += read(sink)
        take((engine.finish() if watch is None else watch.finish(engine)).transitions)
        for incident in own.values():
            known = self._incidents.get(incident.id)
            if known is None or _tells_more(incident, known):
                self._incidents[incident.id] = incident
        for life in engine.drain_lives():
            self._lives.setdefault(life.life, life)
        self._events += engine.events

    def _read_piece(self, reader: Reader, piece: Piece, progress: Progress | None) -> None:
        name = str(piece.path)
        try:
            if name == "-":
                stream, size, written = decompressed(self._stdin()), None, clock.wall_us()
            else:
                stream = open_plain(piece.path)
                stat = piece.path.stat()
                size, written = stat.st_size, stat.st_mtime_ns // 1000
        except SourceError as error:
            self._failed.append((name, str(error)))
            return
        local = LocalTimes(zone=self.options.zone, year=self.options.year, reference_us=written)
        if self._watch is not None:
            self._watch.opened(name)
        with stream:
            reader.open(name, local=local, missing=piece.missing)
            raw = _raw(stream)
            try:
                while block := read_block(stream, BLOCK, name):
                    reader.feed(block)
                    if progress is not None:
                        progress(name, raw.tell() if size is not None else reader.bytes, size)
            except SourceError as error:
                self._failed.append((name, str(error)))  # what was read up to here counts
            try:
                reader.close()
            except SourceError as error:
                self._failed.append((name, f"{name}: {error}"))
                return
        assert reader.envelope is not None
        first, last = reader.wall_us
        self._sources.append(
            SourceInfo(
                source=name,
                envelope=reader.envelope.name,
                bytes=reader.bytes,
                first_us=first,
                last_us=last,
                time_from=reader.time_from,
            )
        )

    def result(self) -> ScanResult:
        """Everything found, incidents and lives once each."""
        return ScanResult(
            sources=tuple(self._sources),
            lives=tuple(self._lives.values()),
            incidents=tuple(i for i in self._incidents.values() if self._in_time(i)),
            gaps=tuple(self._gaps),
            failed=tuple(self._failed),
            events=self._events,
            lines_seen=self._lines,
            whole=self.options.since_us is None and self.options.until_us is None,
        )

    def _in_time(self, incident: Incident) -> bool:
        opened = incident.opened_us
        if opened is None:
            return True
        closed = incident.closed_us if incident.closed_us is not None else opened
        since, until = self.options.since_us, self.options.until_us
        return (since is None or closed >= since) and (until is None or opened <= until)


def scan(
    paths: Sequence[str | Path],
    options: Options | None = None,
    *,
    rules: RuleSet | None = None,
    progress: Progress | None = None,
) -> ScanResult:
    """Read these files and say what is in them. Raises RuleError where the rule files are wrong."""
    work = Scan(options, rules=rules)
    work.read_paths([str(path) for path in paths], progress=progress)
    return work.result()


def engine_words(words: dict[str, IncidentWords]) -> dict[str, Words]:
    """The part of the incidents' words that the engine puts into each incident."""
    return {kind: Words(severity=word.severity, remedy=word.do) for kind, word in words.items()}


def gap_of(event: Event) -> Gap:
    """The gap an event tells of."""
    return Gap(
        source=event.source,
        cause=str(event.fields.get("cause", "lines are missing")),
        from_offset=event.offset,
        to_offset=event.offset,
        from_us=event.wall_us,
        to_us=event.wall_us,
    )


def _tells_more(new: Incident, known: Incident) -> bool:
    """Of two readings of one incident, does the new one know more?"""
    return _known_of(new) > _known_of(known)


def _known_of(incident: Incident) -> tuple[int, bool, int]:
    sure = CONFIDENCES.index(incident.confidence)
    return sure, incident.state not in ("open", "unresolved"), len(incident.evidence)


def _raw(stream: BinaryIO) -> BinaryIO:
    """The file under a decompressor, whose place tells how far reading has come."""
    for name in ("fileobj", "_fp"):
        under = getattr(stream, name, None)
        if under is not None:
            return cast(BinaryIO, under)
    return stream
