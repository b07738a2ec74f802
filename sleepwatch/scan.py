"""``scan``: old logs in, incidents out. The same reader and engine as the daemon's, fed from files to their ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from sleepwatch.engine import Engine, Transition, Words
from sleepwatch.envelopes import by_name
from sleepwatch.errors import SourceError
from sleepwatch.model import Incident, Life, ScanResult, SourceInfo
from sleepwatch.reader import Reader
from sleepwatch.reader.gate import Gate
from sleepwatch.rules import IncidentWords, RuleSet, load, load_incidents
from sleepwatch.sources.archives import decompressed, open_plain, read_block

BLOCK = 1 << 20
"""Bytes read at once."""

Progress = Callable[[str, int, int | None], None]
"""Called with a source, the bytes read of it so far (as stored, still compressed), and its size where known."""

_CONFIDENCE = {"possible": 0, "probable": 1, "confirmed": 2}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to read."""

    envelope: str | None = None
    """Force this carrier for every source instead of telling it from the first lines."""
    vectorised: bool = True
    """Use the vectorised search where it loads; the slow one finds the same."""


class Scan:
    """One scan over any number of sources; :meth:`read` each, then take :meth:`result`."""

    def __init__(self, options: Options | None = None, *, rules: RuleSet | None = None) -> None:
        self.options = options or Options()
        self.rules = rules or load()
        self._words = engine_words(load_incidents())
        self._gate = Gate(self.rules.literals, vectorised=self.options.vectorised)
        self._incidents: dict[str, Incident] = {}
        self._lives: dict[str, Life] = {}
        self._sources: list[SourceInfo] = []
        self._failed: list[tuple[str, str]] = []
        self._events = self._lines = 0

    @property
    def vectorised(self) -> bool:
        """The vectorised search is in use."""
        return self._gate.vectorised

    def read(self, source: str, stream: BinaryIO, *, progress: Callable[[int], None] | None = None) -> None:
        """Read one source to its end. A damaged end is named in the result; what was read before it counts."""
        engine = Engine(self._words)
        envelope = by_name(self.options.envelope) if self.options.envelope else None
        own: dict[str, Incident] = {}

        def take(transitions: Iterable[Transition]) -> None:
            for transition in transitions:
                if transition.withdrawn:
                    own.pop(transition.incident.id, None)
                else:
                    own[transition.incident.id] = transition.incident

        def sink(event: object) -> None:
            output = engine.feed(event)  # type: ignore[arg-type]
            if output.transitions:
                take(output.transitions)

        reader = Reader(self.rules, source, sink, gate=self._gate, envelope=envelope)
        try:
            while block := read_block(stream, BLOCK, source):
                reader.feed(block)
                if progress is not None:
                    progress(reader.bytes)
        except SourceError as error:
            self._failed.append((source, str(error)))
        reader.finish()
        take(engine.finish().transitions)
        for incident in own.values():
            known = self._incidents.get(incident.id)
            if known is None or _tells_more(incident, known):
                self._incidents[incident.id] = incident
        for life in engine.drain_lives():
            self._lives.setdefault(life.life, life)
        assert reader.envelope is not None
        self._sources.append(
            SourceInfo(
                source=source,
                envelope=reader.envelope.name,
                bytes=reader.bytes,
                first_us=reader.wall_us[0],
                last_us=reader.wall_us[1],
                time_from=reader.envelope.time_from,
            )
        )
        self._events += engine.events
        self._lines += reader.server_lines

    def read_path(self, path: str, *, progress: Progress | None = None) -> None:
        """Read a file (``-``: standard input). One that cannot be read is named in the result and stops nothing."""
        try:
            if path == "-":
                with decompressed(sys.stdin.buffer, "standard input") as stream:
                    self.read("-", stream, progress=None if progress is None else lambda n: progress("-", n, None))
                return
            with open_plain(Path(path)) as stream:
                size = Path(path).stat().st_size
                raw = _raw(stream)
                self.read(
                    path,
                    stream,
                    progress=None if progress is None else lambda _: progress(path, raw.tell(), size),
                )
        except SourceError as error:
            self._failed.append((path, str(error)))

    def result(self) -> ScanResult:
        """Everything found, incidents and lives once each."""
        return ScanResult(
            sources=tuple(self._sources),
            lives=tuple(self._lives.values()),
            incidents=tuple(self._incidents.values()),
            gaps=(),
            failed=tuple(self._failed),
            events=self._events,
            lines_seen=self._lines,
        )


def scan(
    paths: Sequence[str | Path],
    options: Options | None = None,
    *,
    rules: RuleSet | None = None,
    progress: Progress | None = None,
) -> ScanResult:
    """Read these files and say what is in them. Raises RuleError where the rule files are wrong."""
    work = Scan(options, rules=rules)
    for path in paths:
        work.read_path(str(path), progress=progress)
    return work.result()


def engine_words(words: dict[str, IncidentWords]) -> dict[str, Words]:
    """The part of the incidents' words that the engine puts into each incident."""
    return {kind: Words(severity=word.severity, remedy=word.do) for kind, word in words.items()}


def _tells_more(new: Incident, known: Incident) -> bool:
    """Of two readings of one incident, does the new one know more?"""
    return (_CONFIDENCE[new.confidence], new.state not in ("open", "unresolved"), len(new.evidence)) > (
        _CONFIDENCE[known.confidence],
        known.state not in ("open", "unresolved"),
        len(known.evidence),
    )


def _raw(stream: BinaryIO) -> BinaryIO:
    """The file under a decompressor, whose place tells how far reading has come."""
    for name in ("fileobj", "_fp", "_source"):
        under = getattr(stream, name, None)
        if under is not None:
            return cast(BinaryIO, under)
    return stream
