"""The short way through a bare log: whole lines by one expression, and steady traffic as sums.

Both are derived from the rules' templates, and both step aside for anything that is not plainly in order: a colour, a
clock that does not fit its neighbours, a stream not seen yet. What they leave goes the long way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from sleepwatch.engine.streams import CLOCK_NOISE_US, Stream
from sleepwatch.model import Event
from sleepwatch.prefix import clock_at
from sleepwatch.reader.recogniser import SERVER, Recogniser
from sleepwatch.rules import Pattern, RuleSet

SUMMED = ("request.launched", "request.released", "request.cancelled", "request.failed", "request.internal")
"""Events whose lines can be summed up while a server is awake and its log prints no arrivals."""
_ALWAYS = "request.internal"
"""One of them decides nothing at any time: each decode step posts one at ``-lv 5``."""
_STEADY = 2
"""Launches after a wake that are handed on one by one: a verdict may turn on them."""


class Whole(NamedTuple):
    """A pattern as one expression over a whole stamped line: port, the stamp's four parts, then its fields."""

    regex: re.Pattern[bytes]
    pattern: Pattern
    captures: tuple[tuple[str, int, Callable[[bytes], Any]], ...]
    summed: bool


def whole_patterns(rules: RuleSet) -> tuple[tuple[Whole, ...], ...]:
    """For each of the rules' literals, the server's patterns that have it."""
    made = {id(pattern): _whole(pattern) for pattern in rules.patterns if pattern.program == SERVER and pattern.regex}
    return tuple(tuple(made[id(p)] for p in owners if id(p) in made) for owners in rules.by_literal)


def _whole(pattern: Pattern) -> Whole:
    assert pattern.regex is not None
    prefix = rb"(?:\[( {0,4}\d{1,5})\] )?(\d{1,9})\.([0-5]\d)\.(\d{3})\.(\d{3}) [IWED] "
    return Whole(
        regex=re.compile(prefix + rb"(?:" + pattern.regex.pattern + rb")", pattern.regex.flags),
        pattern=pattern,
        captures=tuple((name, group + 5, convert) for name, group, convert in pattern.captures),
        summed=pattern.event in SUMMED,
    )


class Run:
    """Summed lines of one stream, one after the other.

    In a dense log they are nine of ten recognised lines, and none of them alone decides anything while the server is
    awake, no arrivals are printed, and the clock goes on.
    """

    __slots__ = ("last", "launched", "mark", "open", "released", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.last: tuple[Whole, int, int] | None = None
        self.mark = -1
        self.launched = 0
        self.open: dict[int, tuple[Whole, int, int]] = {}
        """Launched in this run and not released in it: task → its line."""
        self.released: list[int] = []


class ShortWay:
    """Takes lines of a bare log the short way, where that is safe."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser
        self._whole = whole_patterns(recogniser.rules)
        self._streams: dict[bytes | None, Stream] = {}
        self._run: Run | None = None
        self._buffer = b""
        self._base = 0

    def look_at(self, buffer: bytes, base: int) -> None:
        """The buffer the next lines stand in; ``base`` is its offset in the source."""
        self._buffer = buffer
        self._base = base

    def take(self, start: int, end: int, literal: int) -> bool:
        """Take the line at this place, if it is one of the short way's. The streams' life heads must be complete."""
        buffer = self._buffer
        for whole in self._whole[literal]:
            match = whole.regex.match(buffer, start, end)
            if match is not None:
                break
        else:
            return False
        port, minutes, seconds, millis, micros = match.group(1, 2, 3, 4, 5)
        stream = self._streams.get(port)
        if stream is None:
            stream = self._find(port)
            if stream is None:
                return False
        clock = ((int(minutes) * 60 + int(seconds)) * 1000 + int(millis)) * 1000 + int(micros)
        last = stream.clock_us
        if last is None or not stream.stamped or not last <= clock <= last + CLOCK_NOISE_US:
            return False
        stamp = match.start(2)
        if buffer[end + 1 : end + 1 + stamp - start] != buffer[start:stamp]:
            return False  # another writer's line follows
        following = clock_at(buffer, end + 1 + stamp - start)
        if following is None or following < clock:
            return False
        if whole.summed and (stream.steady >= _STEADY or whole.pattern.event == _ALWAYS):
            self._add(whole, match, stream, start, end, clock)
        else:
            self.end_run()
            self._recogniser.emit(stream, self._event(whole, match, stream, clock, end))
        return True

    def _find(self, port: bytes | None) -> Stream | None:
        ports = port.decode().strip() if port is not None else None
        stream = self._recogniser.streams.get((None, ports))
        if stream is not None and (ports is None or self._recogniser.stream(ports, None, None) is stream):
            self._streams[port] = stream
            return stream
        return None

    def _add(self, whole: Whole, match: re.Match[bytes], stream: Stream, start: int, end: int, clock: int) -> None:
        run = self._run
        if run is None or run.stream is not stream:
            self.end_run()
            run = self._run = Run(stream)
        stream.clock_us = clock
        place = run.last = (whole, start, end)
        task = int(match["id"])
        if task > run.mark:
            run.mark = task
        event = whole.pattern.event
        if event == "request.launched":
            child = match["child"]
            run.open[task] = place
            run.launched += child is None or child == b"0"
        elif event == "request.released" and run.open.pop(task, None) is None:
            run.released.append(task)

    def end_run(self) -> None:
        """Hand on what was summed up, as one event."""
        run, self._run = self._run, None
        if run is None or run.last is None:
            return
        event = self._event_at(*run.last, run.stream)
        event.type = "requests.run"
        event.fields = {
            "launched": run.launched,
            "mark": run.mark,
            "open": [self._event_at(*place, run.stream) for place in run.open.values()],
            "released": run.released,
        }
        self._recogniser.server_lines += 1
        self._recogniser.sink(event)

    def _event_at(self, whole: Whole, start: int, end: int, stream: Stream) -> Event:
        match = whole.regex.match(self._buffer, start, end)
        assert match is not None  # it matched when it was added
        return self._event(whole, match, stream, clock_at(self._buffer, match.start(2)), end)

    def _event(self, whole: Whole, match: re.Match[bytes], stream: Stream, clock: int | None, end: int) -> Event:
        fields = dict(whole.pattern.constants)
        for name, group, convert in whole.captures:
            raw = match[group]
            if raw is not None:
                fields[name] = convert(raw)
        place = match.start(2)
        return Event(
            type=whole.pattern.event,
            origin=stream.origin,
            offset=self._base + place,
            text=self._buffer[place : match.end()],
            fields=fields,
            clock_us=clock,
            rest=self._buffer[match.end() : end],
            pattern=whole.pattern.name,
        )
