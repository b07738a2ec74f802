"""Prometheus metrics of the daemon: on a loopback port, as a file for node_exporter's textfile collector, or both.

The daemon's loop only puts a new set of figures in the place of the old one (:meth:`Metrics.publish`); a scrape reads
whichever stands there, in a thread of its own, so it never waits for the loop nor the loop for it. Every label has a
bounded number of values. Names and meanings: docs/metrics.md.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from http.server import HTTPServer
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from sleepwatch.errors import SleepwatchError, os_words
from sleepwatch.printable import printable
from sleepwatch.sources import piece
from sleepwatch.sources.journal_follow import VACUUMED

LOOPBACK = "127.0.0.1"
PUBLISH_EVERY_US = 1_000_000
WRITE_EVERY_US = 15_000_000
SOURCES = 100
"""So many sources have figures of their own; those of the others are added up under :data:`OTHERS`."""
OTHERS = "(others)"
_CLIENT_SECONDS = 5
"""A client that has not asked by then is let go."""

_CAUSES = {
    piece.TRUNCATED: "truncated",
    piece.REWRITTEN: "truncated",
    piece.TRUNCATED_AWAY: "truncated",
    piece.HOLE: "truncated",
    piece.ROTATED_AWAY: "rotated",
    piece.PASSED_OVER: "rotated",
    piece.LATE: "rotated",
}


class SourceFigures(msgspec.Struct, kw_only=True):
    """One source as it stands."""

    source: str
    up: bool
    """It is there and can be read."""
    bytes: int
    lines: int
    events: int
    rotations: int
    unread: int
    lag_us: int
    """For how long something has been unread."""
    read_until_us: int | None
    """Wall time at which it was last seen read to its end."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is told, as of one moment."""

    version: str
    rules: str
    started_us: int
    progress_us: int
    """Wall time of the loop's last step."""
    saved_us: int
    """Wall time of the last transaction."""
    sources: tuple[SourceFigures, ...]
    gaps: Mapping[str, int]
    """By class of cause (:func:`cause`), since the start."""
    incidents: Mapping[tuple[str, str], int]
    """Those first stored since the start, by kind and severity."""
    open: Mapping[tuple[str, str], int]
    notifications: Mapping[str, int] | None = None
    """What came of the attempts to tell people, since the start; None where nobody is told."""
    oldest_us: int = 0
    """For how long the oldest message has been waiting."""
    wakes: Mapping[str, int] | None = None
    """What came of the wakes sent or observed, since the start; None where waking is off."""


def cause(words: str) -> str:
    """The class a gap's cause belongs to, one of :data:`CAUSES`."""
    if words in _CAUSES:
        return _CAUSES[words]
    if words.startswith("rotated away") or words.endswith(VACUUMED):
        return "rotated"
    if "rate limit" in words or "suppressed" in words.lower():
        return "dropped"
    return "unreadable" if "could not be read" in words else "other"


CAUSES = ("truncated", "rotated", "unreadable", "dropped", "other")
"""Truncated; rotated or vacuumed away; could not be read; dropped by a logger's limit before it was written."""


class Metrics:
    """Offers the figures last published. The loop's methods are called by one thread."""

    def __init__(self, kinds: Iterable[tuple[str, str]] = ()) -> None:
        self.gaps: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self.incidents: Counter[tuple[str, str]] = Counter(dict.fromkeys(kinds, 0))
        """By kind and severity; each known kind begins at 0, so that its first is an increase."""
        self._published_us: int | None = None
        self._written_us: int | None = None
        self._textfile: Path | None = None
        self._offered = _Offered()
        self._registry = CollectorRegistry()
        self._registry.register(self._offered)
        ProcessCollector(namespace="sleepwatch", registry=self._registry)
        self._port: int | None = None
        self._server: HTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        """Where it listens."""
        return None if self._server is None else (LOOPBACK, self._server.server_port)

    def listen(self, port: int | None) -> None:
        """Listen on this port (0: any that is free), and no longer on another. Raises SleepwatchError."""
        if self._server is not None and port == self._port:
            return
        self._stop_listening()
        if port is None:
            return
        handler = type("_Handler", (MetricsHandler,), {"registry": self._registry, "timeout": _CLIENT_SECONDS})
        try:
            self._server = HTTPServer((LOOPBACK, port), handler)
        except OSError as error:
            raise SleepwatchError(f"metrics.port = {port}: {os_words(error)}", hint="choose another port") from error
        self._port = port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def write_to(self, path: Path | None) -> None:
        """Write this file from now on. One written before elsewhere is removed, so that it does not grow old."""
        if self._textfile is not None and path != self._textfile:
            with contextlib.suppress(OSError):
                self._textfile.unlink()
        self._textfile = path
        self._written_us = None

    def due(self, monotonic_us: int) -> bool:
        """Whether it is time to publish again."""
        return self._published_us is None or monotonic_us - self._published_us >= PUBLISH_EVERY_US

    def publish(self, figures: Figures, monotonic_us: int) -> None:
        """Offer these. Raises SleepwatchError where the file cannot be written; the port has them all the same."""
        self._offered.figures = figures
        self._published_us = monotonic_us
        if self._textfile is None:
            return
        if self._written_us is None or monotonic_us - self._written_us >= WRITE_EVERY_US:
            self._written_us = monotonic_us
            try:
                _write(self._textfile, generate_latest(self._registry))
            except OSError as error:
                raise SleepwatchError(
                    f"metrics.textfile = {self._textfile}: {os_words(error)}",
                    hint="check that the directory is there and may be written",
                ) from error

    def close(self) -> None:
        """Stop listening, and remove the file."""
        self._stop_listening()
        self.write_to(None)

    def _stop_listening(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
        self._server = self._thread = self._port = None


class _Offered(Collector):
    """What a scrape finds: the figures that stand here at that moment."""

    def __init__(self) -> None:
        self.figures: Figures | None = None

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        figures = self.figures
        if figures is not None:
            yield from _families(figures)


def _families(figures: Figures) -> Iterator[Metric]:
    yield InfoMetricFamily(
        "sleepwatch_build", "The program and its rules.", {"version": figures.version, "rules": figures.rules[:12]}
    )
    for name, words, at_us in (
        ("start", "When this process began to watch.", figures.started_us),
        ("last_progress", "When the loop last looked at everything.", figures.progress_us),
        ("last_saved", "When progress was last stored.", figures.saved_us),
    ):
        yield GaugeMetricFamily(f"sleepwatch_{name}_timestamp_seconds", words, at_us / 1e6)
    yield from _source_families(_bounded(figures.sources))
    gaps = CounterMetricFamily("sleepwatch_gaps", "Stretches of a source that could not be read.", labels=["cause"])
    for name, count in sorted(figures.gaps.items()):
        gaps.add_metric([name], count)
    yield gaps
    incidents = CounterMetricFamily(
        "sleepwatch_incidents", "Incidents above `possible`, as they were first stored.", labels=["kind", "severity"]
    )
    for (kind, severity), count in sorted(figures.incidents.items()):
        incidents.add_metric([kind, severity], count)
    yield incidents
    still = GaugeMetricFamily(
        "sleepwatch_incidents_open", "Incidents above `possible` that are open.", labels=["kind", "severity"]
    )
    for (kind, severity), count in sorted(figures.open.items()):
        still.add_metric([kind, severity], count)
    yield still
    if figures.notifications is not None:
        told = CounterMetricFamily("sleepwatch_notifications", "Attempts to tell a target.", labels=["outcome"])
        for name, count in sorted(figures.notifications.items()):
            told.add_metric([name], count)
        yield told
        yield GaugeMetricFamily(
            "sleepwatch_outbox_oldest_seconds",
            "For how long the oldest message has been waiting.",
            figures.oldest_us / 1e6,
        )
    if figures.wakes is not None:
        wakes = CounterMetricFamily("sleepwatch_wakes", "Wakes for hung requests.", labels=["outcome"])
        for name, count in sorted(figures.wakes.items()):
            wakes.add_metric([name], count)
        yield wakes


def _source_families(sources: list[SourceFigures]) -> Iterator[Metric]:
    for name, words, field in (
        ("bytes_read", "Bytes read.", "bytes"),
        ("lines_read", "Line ends read.", "lines"),
        ("events", "Lines a rule recognised.", "events"),
        ("rotations", "Turns to another file: rotated, truncated or replaced.", "rotations"),
    ):
        counter = CounterMetricFamily(f"sleepwatch_{name}", words, labels=["source"])
        for one in sources:
            counter.add_metric([printable(one.source)], getattr(one, field))
        yield counter
    up = GaugeMetricFamily("sleepwatch_source_up", "Whether it is there and can be read.", labels=["source"])
    unread = GaugeMetricFamily("sleepwatch_source_unread_bytes", "Bytes known and not read yet.", labels=["source"])
    lag = GaugeMetricFamily(
        "sleepwatch_source_lag_seconds", "For how long something has been unread.", labels=["source"]
    )
    until = GaugeMetricFamily(
        "sleepwatch_watermark_timestamp_seconds", "When it was last seen read to its end.", labels=["source"]
    )
    for one in sources:
        name = printable(one.source)
        up.add_metric([name], one.up)
        unread.add_metric([name], one.unread)
        lag.add_metric([name], one.lag_us / 1e6)
        if one.read_until_us is not None:
            until.add_metric([name], one.read_until_us / 1e6)
    yield from (up, unread, lag, until)


def _bounded(sources: tuple[SourceFigures, ...]) -> list[SourceFigures]:
    """At most :data:`SOURCES` of them by name, and the sum of the rest."""
    if len(sources) <= SOURCES:
        return list(sources)
    rest = sources[SOURCES:]
    until = [one.read_until_us for one in rest]
    others = SourceFigures(
        source=OTHERS,
        up=all(one.up for one in rest),
        bytes=sum(one.bytes for one in rest),
        lines=sum(one.lines for one in rest),
        events=sum(one.events for one in rest),
        rotations=sum(one.rotations for one in rest),
        unread=sum(one.unread for one in rest),
        lag_us=max(one.lag_us for one in rest),
        read_until_us=None if None in until else min(one for one in until if one is not None),
    )
    return [*sources[:SOURCES], others]


def _write(path: Path, text: bytes) -> None:
    """Put a file in the place of the old one, whole, readable by all (node_exporter is another user)."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)  # whatever the umask
            file.write(text)
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
