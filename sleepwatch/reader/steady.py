"""The short way through a stream: whole lines by one expression, and steady traffic as sums.

Both are derived from the rules' templates, and both step aside for anything that is not plainly in order: a colour, a
clock that does not fit its neighbours, a stream not seen yet. What they leave goes the long way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from sleepwatch.engine.streams import CLOCK_NOISE_US, Stream
from sleepwatch.model import Event
from sleepwatch.prefix import clock_at
from sleepwatch.reader.recogniser import SERVER, Recogniser
from sleepwatch.reader.window import Writer
from sleepwatch.rules import Pattern, RuleSet

Whence = Callable[[int], tuple[int, int | None]]
"""From a place in the buffer to its offset in the source, and the wall time at which its line was written, if known."""

SUMMED = ("request.launched", "request.released", "request.cancelled", "request.failed", "request.internal")
"""Events whose lines can be summed up while a server is awake and its log prints no arrivals."""
_ALWAYS = "request.internal"
"""One of them decides nothing at any time: each decode step posts one at ``-lv 5``."""
_STEADY = 16
"""Launches after a wake that are handed on one by one: a verdict may turn on them, as so many hung in the sleep."""


class Whole(NamedTuple):
    """A pattern as one expression over a whole stamped line: port, stamp, then its fields."""

    regex: re.Pattern[bytes]
    pattern: Pattern
    captures: tuple[tuple[str, int, Callable[[bytes], Any]], ...]
    event: str
    summed: bool
    id_group: int
    child_group: int


@functools.lru_cache(maxsize=2)
def whole_patterns(rules: RuleSet) -> tuple[tuple[Whole, ...], ...]:
    """For each of the rules' literals, the server's patterns whose lines have it.

    A literal can stand inside a longer one (``entering sleeping state`` in ``server is entering sleeping state``), and
    is met first. Made once for all the logs of a process.
    """
    made = {id(pattern): _whole(pattern) for pattern in rules.patterns if pattern.program == SERVER and pattern.regex}
    owners: list[tuple[Whole, ...]] = []
    for literal in rules.literals:
        having = (
            p for other, have in zip(rules.literals, rules.by_literal, strict=True) if literal in other for p in have
        )
        owners.append(tuple(made[key] for key in dict.fromkeys(id(p) for p in having) if key in made))
    return tuple(owners)


def _whole(pattern: Pattern) -> Whole:
    assert pattern.regex is not None
    prefix = rb"(?:\[( {0,4}\d{1,5})\] )?(\d{1,9}\.[0-5]\d\.\d{3}\.\d{3}) [IWED] "
    regex = re.compile(prefix + rb"(?:" + pattern.regex.pattern + rb")", pattern.regex.flags)
    return Whole(
        regex=regex,
        pattern=pattern,
        captures=tuple((name, group + 2, convert) for name, group, convert in pattern.captures),
        event=pattern.event,
        summed=pattern.event in SUMMED and "id" in regex.groupindex,
        id_group=regex.groupindex.get("id", 0),
        child_group=regex.groupindex.get("child", 0),
    )


# One request that a slot served (or refused): its launch, lines about nothing but this slot and task, its release, and
# the next line's stamp.
_STAMP = rb"\d{1,9}\.[0-5]\d\.\d{3}\.\d{3}"
_SERVED = re.compile(
    rb"(" + _STAMP + rb") I slot +\S{1,14} id +(\d+) \| task (\d+) \| processing task(?:, is_child = (\d))?\n"
    rb"(?:" + _STAMP + rb" [IWED] (?:slot +\S{1,14} id +\2 \| task \3 \| "
    rb"|srv +(?:send_error: task id = \3,|stop: cancel task, id_task = \3(?=\n)))[^\n]{0,400}\n){0,12}?"
    rb"(" + _STAMP + rb") I slot +\S{1,14} id +\2 \| task \3 \| stop processing: [^\n]{0,400}\n"
    rb"(" + _STAMP + rb") "
)


class Run:
    """Summed lines of one stream, one after the other.

    In a dense log they are nine of ten recognised lines, and none of them alone decides anything while the server is
    awake, no arrivals are printed, and the clock goes on.
    """

    __slots__ = ("clock", "last", "launched", "mark", "open", "port", "released", "stream", "sums")

    def __init__(self, stream: Stream, port: bytes | None, clock: int) -> None:
        self.stream = stream
        self.port = port
        self.clock = clock
        """The clock of its last line, packed."""
        self.sums = stream.steady >= _STEADY
        self.last: tuple[Whole, int, int] | None = None
        self.mark = -1
        self.launched = 0
        self.open: dict[int, tuple[Whole, int, int]] = {}
        """Launched in this run and not released in it: task → its line."""
        self.released: list[int] = []


class ShortWay:
    """Takes lines that one writer wrote one after the other the short way, where that is safe."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser
        self._whole = whole_patterns(recogniser.rules)
        self._streams: dict[bytes | None, Stream] = {}
        self._release = next(w for owners in self._whole for w in owners if w.event == "request.released")
        self._launch = next(
            i for i, owners in enumerate(self._whole) if any(w.event == "request.launched" for w in owners)
        )
        """Number of the literal that launches have."""
        self._run: Run | None = None
        self._buffer = b""
        self._limit = 0
        self._writer: Writer = None
        self._whence: Whence = _nowhere

    def look_at(self, buffer: bytes, limit: int, whence: Whence, writer: Writer = None) -> None:
        """The buffer the next lines stand in, whose they are, and the place up to which they may be taken."""
        self._buffer = buffer
        self._limit = limit
        self._whence = whence
        if writer != self._writer:
            self._writer = writer
            self._streams.clear()

    def take(self, start: int, end: int, literal: int) -> int:
        """Take the line at this place, if it is one of the short way's; returns where what was taken ends, or -1.

        The streams' life heads must be complete.
        """
        buffer = self._buffer
        run = self._run
        if run is not None and literal == self._launch and run.sums and run.port is None:
            served = _SERVED.match(buffer, start)
            if served is not None and served.end(5) <= self._limit and self._add_served(run, served):
                return served.start(6) - 1
        for whole in self._whole[literal]:
            match = whole.regex.match(buffer, start, end)
            if match is not None:
                break
        else:
            return -1
        port, stamp = match.group(1, 2)
        if run is None or run.port != port:
            stream = self._streams.get(port) or self._find(port)
            if stream is None or stream.clock_us is None or not stream.stamped:
                return -1
            self.end_run()
            run = Run(stream, port, _packed(stream.clock_us))
        clock = int(stamp.replace(b".", b""))
        if not run.clock <= clock <= run.clock + CLOCK_NOISE_US:
            return -1
        place = match.start(2)
        stamp_after = end + 1 + place - start
        following = buffer[stamp_after : stamp_after + len(stamp)].replace(b".", b"")
        if not following.isdigit() or int(following) < clock:
            return -1  # no line of this writer's follows, or an earlier one
        if port is not None and buffer[end + 1 : stamp_after] != buffer[start:place]:
            return -1
        if whole.summed and (run.sums or whole.event == _ALWAYS):
            self._run = run
            run.clock = clock
            _add(run, whole, match, start, end)
        else:
            self.end_run()
            self._recogniser.emit(run.stream, self._event(whole, match, run.stream, end))
        return end

    def _add_served(self, run: Run, served: re.Match[bytes]) -> bool:
        """Sum up a launch and its release in one go, where their clocks and the next line's are in order."""
        launch, _, task_text, child, release, following = served.groups()
        began = int(launch.replace(b".", b""))
        ended = int(release.replace(b".", b""))
        if not (
            run.clock <= began <= run.clock + CLOCK_NOISE_US
            and began <= ended <= began + CLOCK_NOISE_US
            and ended <= int(following.replace(b".", b""))
        ):
            return False
        run.clock = ended
        run.last = (self._release, served.start(5), served.start(6) - 1)
        task = int(task_text)
        if task > run.mark:
            run.mark = task
        run.launched += child is None or child == b"0"
        return True

    def _find(self, port: bytes | None) -> Stream | None:
        ports = port.decode().strip() if port is not None else None
        stream = self._recogniser.streams.get((self._writer, ports))
        if stream is not None and (ports is None or self._recogniser.stream(ports, self._writer, None) is stream):
            self._streams[port] = stream
            return stream
        return None

    def end_run(self) -> None:
        """Hand on what was summed up, as one event."""
        run, self._run = self._run, None
        if run is None or run.last is None:
            return
        event = self._event_at(*run.last, run.stream)
        run.stream.clock_us = event.clock_us
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
        return self._event(whole, match, stream, end)

    def _event(self, whole: Whole, match: re.Match[bytes], stream: Stream, end: int) -> Event:
        fields = dict(whole.pattern.constants)
        for name, group, convert in whole.captures:
            raw = match[group]
            if raw is not None:
                fields[name] = convert(raw)
        place = match.start(2)
        offset, wall_us = self._whence(place)
        return Event(
            type=whole.event,
            origin=stream.origin,
            offset=offset,
            text=self._buffer[place : match.end()],
            fields=fields,
            clock_us=clock_at(self._buffer, place),
            wall_us=wall_us,
            rest=self._buffer[match.end() : end],
            source=self._recogniser.source,
            pattern=whole.pattern.name,
        )


def _add(run: Run, whole: Whole, match: re.Match[bytes], start: int, end: int) -> None:
    """Sum up one more line."""
    place = run.last = (whole, start, end)
    task = int(match[whole.id_group])
    if task > run.mark:
        run.mark = task
    if whole.event == "request.launched":
        child = match[whole.child_group]
        run.open[task] = place
        run.launched += child is None or child == b"0"
    elif whole.event == "request.released" and run.open.pop(task, None) is None:
        run.released.append(task)


def _packed(clock_us: int) -> int:
    """A clock as the digits of its stamp: ``1.02.003.004`` is 102003004. It grows as the clock does."""
    minutes, rest = divmod(clock_us, 60_000_000)
    return minutes * 100_000_000 + rest


def _nowhere(place: int) -> tuple[int, None]:
    """Where no buffer is looked at yet."""
    return place, None
