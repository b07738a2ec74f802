"""The reader: blocks of a source's bytes in, events out, in order.

Bare logs are read through a sliding buffer: the gate finds candidate lines, and only those are parsed. Sources with a
carrier go through its envelope into records first, and the records through the same gate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sleepwatch.engine.streams import CLOCK_NOISE_US, Stream
from sleepwatch.envelopes import Envelope, detect
from sleepwatch.model import Event, Origin, Record
from sleepwatch.prefix import Head, split
from sleepwatch.reader.gate import Gate
from sleepwatch.reader.genuine import Around, is_doubtful, is_genuine
from sleepwatch.reader.window import REACH, RECORDS, LinesAround, RecordsAround, writer
from sleepwatch.rules import Match, Pattern, RuleSet

HEAD_BYTES = 64 << 10
"""How much of a source is looked at to tell its carrier, and what identifies a source whose lines carry no stamps."""
HEAD_REACH = 2_000
"""Lines after the start of a life within which its first stamped lines are looked for."""
_HEAD_SOURCE_LINES = 8

SERVER = "llama-server"
_NO_NEWLINE = b"No parser definition detected, assuming pure content parser."
"""The one text the server prints without a newline behind it (llama.cpp ``common/chat.cpp``, seen at ``-lv 5``)."""
_TORN_PREFIX = re.compile(rb"\d+(?:\.\d{0,3}){0,3} ?(?=[^\d.\s])")
_RAW = frozenset({"process.abort", "process.exit", "load.failed"})
"""Events whose lines go past the logger, straight to stderr: no stamp in any era."""
_OF_OTHERS = frozenset({"process.exit", "process.frame", "unit.started", "unit.stopping", "unit.ended", "gap"})
"""Events about a server in lines that others wrote: they begin no life."""
_ABOUT = (("unit", "UNIT"), ("unit", "USER_UNIT"), ("unit", "COREDUMP_UNIT"), ("invocation", "INVOCATION_ID"))
"""What a journal entry says of the unit it is about, where its text does not."""
_SINGLE_SERVER = frozenset({"load.begin", "load.ready", "sleep.enter", "sleep.exit", "request.launched"})

_STEADY = ("request.launched", "request.released", "request.cancelled", "request.failed", "request.internal")
"""Events whose lines can be summed up while a server is awake."""
_ALWAYS = "request.internal"
"""One of them decides nothing at any time: each decode step posts one at ``-lv 5``."""
STEADY = 2
"""Launches after a wake that are handed on one by one: a verdict may turn on them."""

Sink = Callable[[Event], object]


class Quick(NamedTuple):
    """A pattern of steady traffic, as one expression over the whole line: port, stamp, fields."""

    regex: re.Pattern[bytes]
    pattern: Pattern
    event: str


class Run:
    """Launches, releases, cancels and failures of one stream, one after the other: only their sum matters.

    In a dense log they are nine of ten recognised lines, and none of them alone decides anything while the server is
    awake, no arrivals are printed, and the clock goes on.
    """

    __slots__ = ("clock", "last", "last_end", "last_quick", "launched", "mark", "open", "port", "released",
                 "stream")  # fmt: skip

    def __init__(self, stream: Stream, port: bytes | None, clock: int) -> None:
        self.stream = stream
        self.port = port
        self.clock = clock
        """The stamp of its last line as one number, digits only: it grows as the clock does."""
        self.last = self.last_end = 0
        self.last_quick: Quick | None = None
        self.mark = -1
        self.launched = 0
        self.open: dict[int, tuple[int, int]] = {}
        self.released: list[int] = []


class Reader:
    """Reads one source. :meth:`feed` it the bytes in any pieces, then :meth:`finish`; events go to ``sink`` in order."""

    def __init__(
        self,
        rules: RuleSet,
        source: str,
        sink: Sink,
        *,
        gate: Gate | None = None,
        envelope: Envelope | None = None,
    ) -> None:
        self._rules = rules
        self._gate = gate or Gate(rules.literals)
        self._by_literal = rules.by_literal
        self._sink = sink
        self._source = source
        self.envelope = envelope
        self.bytes = 0
        self.first_wall_us: int | None = None
        self.last_wall_us: int | None = None
        self.server_lines = 0
        """Recognised lines of the server itself."""
        self._buffer = b""
        self._base = 0
        """Offset of the buffer's first byte in the source."""
        self._done = 0
        """Lines that begin before this place in the buffer have been read."""
        self._records: list[Record] = []
        self._record_hits: list[list[int]] = []
        self._records_done = 0
        self._streams: dict[tuple[object, str | None], Stream] = {}
        self._head_key = b""
        steady = {event: _only(rules, event) for event in _STEADY}
        self._launch = steady["request.launched"]
        self._quick = {index: quick for pattern in steady.values() for index, quick in _quick(rules, pattern)}
        self._run: Run | None = None
        """Launches and releases of one stream not handed on yet."""
        self._wanting: dict[Stream, int] = {}
        """Streams whose life has not shown its first stamped lines yet, with the lines left to look at."""

    # -- bytes in -------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """The next bytes of the source."""
        self.bytes += len(data)
        self._buffer = self._buffer + data if self._buffer else data
        if self._base == 0 and not self._head_key:
            if len(self._buffer) < HEAD_BYTES:
                return
            self._begin()
        self._advance(final=False)

    def finish(self) -> None:
        """The source has ended."""
        if self._base == 0 and not self._head_key:
            self._begin()
        self._advance(final=True)
        for stream in list(self._wanting):
            self._close_head(stream)

    def _begin(self) -> None:
        head = self._buffer[:HEAD_BYTES]
        if self.envelope is None:
            self.envelope = detect(head)
        lines = [line.strip() for line in head.split(b"\n", 4 * _HEAD_SOURCE_LINES)]
        self._head_key = b"\n".join([line for line in lines if line][:_HEAD_SOURCE_LINES]) or b"empty"

    def _advance(self, *, final: bool) -> None:
        assert self.envelope is not None
        if self.envelope.name == "bare":
            self._advance_bare(final)
        else:
            self._advance_records(self.envelope, final)

    # -- bare logs ------------------------------------------------------------------------------------------------

    def _advance_bare(self, final: bool) -> None:
        buffer, done = self._buffer, self._done
        limit = len(buffer) if final else len(buffer) - REACH
        if limit <= done:
            return
        stop = min(len(buffer), limit + REACH)
        self._read_bare(buffer, done, limit, stop)
        keep = max(0, limit - REACH)
        self._buffer = buffer[keep:]
        self._base += keep
        self._done = limit - keep

    def _read_bare(self, buffer: bytes, done: int, limit: int, stop: int) -> None:
        """Read the lines that begin in ``buffer[done:limit]``; ``stop`` is as far as they may reach."""
        hits = self._gate.hits(memoryview(buffer)[done:stop])
        walked = done
        start = end = -1
        literals: list[int] = []
        quick = self._quick
        for place, literal in hits:
            place += done
            if place <= end:
                literals.append(literal)
                continue
            if literals:
                walked = self._candidate(buffer, start, literals, walked)
                literals = []
            start = buffer.rfind(b"\n", 0, place - 1) + 1
            end = buffer.find(b"\n", place)
            if end < 0:
                end = len(buffer)
            if start >= limit:
                start = -1
                break
            if start >= done and (start > 0 or self._base == 0):
                if literal in quick and not self._wanting and self._runs_on(quick[literal], buffer, start, end):
                    continue
                literals = [literal]
        if literals:
            walked = self._candidate(buffer, start, literals, walked)
        if self._wanting:
            self._walk(buffer, walked, limit)
        self._end_run()

    def _runs_on(self, quick: Quick, buffer: bytes, start: int, end: int) -> bool:
        """Take a launch or release the short way, where the log is steady and its clock plainly in order."""
        match = quick.regex.match(buffer, start, end)
        if match is None:
            return False
        port, stamp, task_text = match.group(1, 2, "id")
        run = self._run
        if run is None or run.port != port:
            self._end_run()
            stream = self._streams.get((None, port.decode().strip() if port is not None else None))
            if stream is None or stream.clock_us is None:
                return False
            run = Run(stream, port, _packed_clock(stream.clock_us))
        clock = int(stamp.replace(b".", b""))
        stamp_at = end + 1 + match.start(2) - start
        following = buffer[stamp_at : stamp_at + len(stamp)].replace(b".", b"")
        if (
            not run.clock <= clock <= run.clock + CLOCK_NOISE_US
            or not following.isdigit()
            or int(following) < clock
            or (run.stream.steady < STEADY and quick.event != _ALWAYS)
            or (port is not None and buffer[end + 1 : stamp_at] != buffer[start : match.start(2)])
        ):
            self._end_run()
            return False
        self._run = run
        run.clock = clock
        run.last, run.last_end, run.last_quick = start, end, quick
        task = int(task_text)
        if task > run.mark:
            run.mark = task
        if quick.event == "request.launched":
            child = match["child"]
            run.open[task] = (start, end)
            run.launched += child is None or child == b"0"
        elif quick.event == "request.released" and run.open.pop(task, None) is None:
            run.released.append(task)
        return True

    def _end_run(self) -> None:
        """Hand on what was taken the short way, as one event."""
        run, self._run = self._run, None
        if run is None:
            return
        buffer = self._buffer
        assert run.last_quick is not None
        still_open = [self._plain_event(self._launch, buffer, *place, run.stream) for place in run.open.values()]
        last = self._plain_event(run.last_quick.pattern, buffer, run.last, run.last_end, run.stream)
        run.stream.clock_us = last.clock_us
        last.type = "requests.run"
        last.fields = {"launched": run.launched, "mark": run.mark, "open": still_open, "released": run.released}
        self.server_lines += 1
        self._sink(last)

    def _plain_event(self, pattern: Pattern, buffer: bytes, start: int, end: int, stream: Stream) -> Event:
        line = buffer[start:end]
        head = split(line)
        match = pattern.match(head.body)
        assert match is not None
        event = self._event(pattern, match, head, self._base + start, None, stream)
        event.text = _written(line, head, match, event)
        return event

    def _candidate(self, buffer: bytes, start: int, literals: list[int], walked: int) -> int:
        """Read one candidate line; returns the place up to which lines have been walked for life heads."""
        self._end_run()
        if self._wanting:
            self._walk(buffer, walked, start)
        end = buffer.find(b"\n", start, start + REACH)
        line = buffer[start : end if end >= 0 else start + REACH]
        offset = self._base + start
        glued = line.find(_NO_NEWLINE, 0, 256)
        if glued >= 0:
            glued += len(_NO_NEWLINE)
            self._line(line[:glued], offset, literals, None, LinesAround(buffer, start))
            line, offset = line[glued:], offset + glued
        self._line(line, offset, literals, None, LinesAround(buffer, start))
        return end + 1 if end >= 0 else len(buffer)

    def _walk(self, buffer: bytes, start: int, stop: int) -> None:
        """Show every line that begins in this stretch to the streams whose life key still wants lines."""
        if start > 0 and buffer[start - 1] != 0x0A:
            start = buffer.find(b"\n", start - 1, stop) + 1
            if start == 0:
                return
        while start < stop and self._wanting:
            end = buffer.find(b"\n", start)
            if end < 0:
                end = len(buffer)
            self._show(split(buffer[start : min(end, start + REACH)]), None)
            start = end + 1

    # -- records --------------------------------------------------------------------------------------------------

    def _advance_records(self, envelope: Envelope, final: bool) -> None:
        buffer = self._buffer
        cut = len(buffer) if final else buffer.rfind(b"\n") + 1
        if cut:
            self._add(envelope.feed(buffer[:cut], self._base))
            self._buffer = buffer[cut:]
            self._base += cut
        if final:
            self._add(envelope.finish())
        limit = len(self._records) if final else len(self._records) - RECORDS
        for at in range(self._records_done, limit):
            self._record(at)
        if limit > self._records_done:
            keep = max(0, limit - RECORDS)
            del self._records[:keep], self._record_hits[:keep]
            self._records_done = limit - keep

    def _add(self, records: list[Record]) -> None:
        """Gate the records' texts in one go."""
        if not records:
            return
        texts = [record.text[:REACH] for record in records]
        hits: list[list[int]] = [[] for _ in records]
        ends = []
        at = 0
        for text in texts:
            at += len(text) + 1
            ends.append(at)
        index = 0
        for place, literal in self._gate.hits(b"\n".join(texts)):
            while place >= ends[index]:
                index += 1
            hits[index].append(literal)
        self._records.extend(records)
        self._record_hits.extend(hits)

    def _record(self, at: int) -> None:
        record, literals = self._records[at], self._record_hits[at]
        if record.wall_us is not None:
            if self.first_wall_us is None:
                self.first_wall_us = record.wall_us
            self.last_wall_us = record.wall_us
        if record.message_id in self._rules.message_ids and self._structured(record):
            return
        if literals:
            self._line(record.text[:REACH], record.offset, literals, record, RecordsAround(self._records, at))
        elif self._wanting:
            self._show(split(record.text[:REACH]), record)

    def _structured(self, record: Record) -> bool:
        """An entry that says by its MESSAGE_ID and fields what it is, whatever language its text is in."""
        for pattern in self._rules.message_ids[record.message_id or ""]:
            match = pattern.match_record(record.message_id, record.fields or {})
            if match is not None:
                stream = self._stream(record, None)
                assert stream is not None
                head = split(record.text[:REACH])
                event = self._event(pattern, match, head, record.offset, record, stream)
                event.text, event.rest = head.body, b""
                self._emit(stream, event)
                return True
        return False

    # -- one line -------------------------------------------------------------------------------------------------

    def _line(
        self,
        line: bytes,
        offset: int,
        literals: list[int],
        record: Record | None,
        around: Around,
    ) -> None:
        head = split(line)
        around.ports = head.ports
        pattern, match = self._match(head, literals, record)
        if pattern is None:
            torn = _TORN_PREFIX.match(line)
            if torn is not None and head.clock_us is None:
                head = split(line[torn.end() :])
                head.body_at += torn.end()
                pattern, match = self._match(head, literals, record)
                if pattern is not None and pattern.program == SERVER:
                    pattern = None
        if pattern is None or match is None:
            if self._wanting:
                self._show(head, record)
            return
        stream = self._stream(record, head.ports)
        if stream is None:
            return
        event = self._event(pattern, match, head, offset, record, stream)
        event.text = _written(line, head, match, event)
        if record is not None and record.text[: len(event.text)] != event.text and head.body_at == 0:
            event.offset = record.offset
        if pattern.program == SERVER and not self._is_record(stream, event, around):
            return
        self._emit(stream, event)
        if head.clock_us is not None and self._wanting:
            self._show(head, record)

    def _match(
        self, head: Head, literals: Iterable[int], record: Record | None
    ) -> tuple[Pattern, Match] | tuple[None, None]:
        tried: set[int] = set()
        ident = record.ident if record is not None else None
        for literal in literals:
            if literal in tried:
                continue
            tried.add(literal)
            for pattern in self._by_literal[literal]:
                if pattern.idents and ident is not None and ident not in pattern.idents:
                    continue
                match = pattern.match(head.body)
                if match is not None:
                    return pattern, match
        return None, None

    def _event(
        self, pattern: Pattern, match: Match, head: Head, offset: int, record: Record | None, stream: Stream
    ) -> Event:
        if record is not None and record.fields and pattern.program != SERVER:
            for name, field in _ABOUT:
                if name not in match.fields and field in record.fields:
                    match.fields[name] = record.fields[field]
        return Event(
            type=pattern.event,
            origin=stream.origin,
            offset=offset,
            text=head.body[: match.end],
            fields=match.fields,
            clock_us=head.clock_us,
            wall_us=record.wall_us if record is not None else None,
            rest=head.body[match.end :],
            pattern=pattern.name,
        )

    def _is_record(self, stream: Stream, event: Event, around: Around) -> bool:
        """Is this line a record of its stream's own? Marks it doubtful where only that can be said."""
        if event.type in _RAW and event.clock_us is None:
            return True
        if event.clock_us is None and stream.stamped:
            # Another prefix than the stream's own: only a start may change it, and only if the lines behind it agree.
            return event.type == "process.start" and not any(
                head.clock_us is not None for head, _ in zip(around.after(), range(8), strict=False)
            )
        if event.clock_us is None:
            event.doubtful = not event.type.startswith(("process.", "load.", "router.")) and is_doubtful(around)
            return True
        if stream.stamped is False and event.type not in ("process.start", "process.verbosity"):
            return False
        return is_genuine(stream, event, around)

    def _emit(self, stream: Stream, event: Event) -> None:
        if event.type not in _OF_OTHERS:
            event.new_life = stream.begins_life(event)
            if event.new_life and stream.stamped:
                self._wanting[stream] = HEAD_REACH
            if event.type.startswith("router."):
                stream.is_router = True
            elif event.type in _SINGLE_SERVER:
                stream.is_server = True
            self.server_lines += 1
        self._sink(event)

    # -- streams and life heads -----------------------------------------------------------------------------------

    def _stream(self, record: Record | None, ports: str | None) -> Stream | None:
        """The stream of a writer and port; None for a port no router can have."""
        key = (writer(record) if record is not None else None, ports)
        stream = self._streams.get(key)
        parent = None
        if ports is not None:
            outer = ports.rpartition("/")[0] or None
            parent = self._stream(record, outer)
            if parent is None or (parent.is_server and not parent.is_router):
                return None  # text of a server that is no router
        if stream is None:
            stream = Stream(self._origin(record, ports, parent.origin if parent is not None else None))
            self._streams[key] = stream
        return stream

    def _origin(self, record: Record | None, ports: str | None, parent: Origin | None) -> Origin:
        origin = Origin(source=self._source, port=ports, parent=parent, head=self._head_key)
        if record is not None:
            origin.host, origin.unit, origin.container = record.host, record.unit, record.container
            origin.ident, origin.pid = record.ident, record.pid
            origin.boot, origin.invocation = record.boot, record.invocation
        return origin

    def _show(self, head: Head, record: Record | None) -> None:
        """One line to the streams that still want the first stamped lines of their life."""
        for stream in list(self._wanting):
            self._wanting[stream] -= 1
            if self._wanting[stream] < 0:
                self._close_head(stream)
        if head.clock_us is None:
            return
        stream_or_none = self._streams.get((writer(record) if record is not None else None, head.ports))
        if stream_or_none is None or stream_or_none not in self._wanting:
            return
        stream = stream_or_none
        stream.head_wanted -= 1
        self._sink(_head_event("line.stamped", stream.origin, _unwrapped(head)))
        if stream.head_wanted == 0:
            del self._wanting[stream]

    def _close_head(self, stream: Stream) -> None:
        del self._wanting[stream]
        self._sink(_head_event("line.head-end", stream.origin, b""))


def _head_event(kind: str, origin: Origin, text: bytes) -> Event:
    return Event(type=kind, origin=origin, offset=0, text=text, fields={})


def _unwrapped(head: Head) -> bytes:
    """The line as its server would have written it bare: stamp, level, body, without carrier, port and colours."""
    return b"%d %s %s" % (head.clock_us or 0, (head.level or "").encode(), head.body.rstrip())


def _written(line: bytes, head: Head, match: Match, event: Event) -> bytes:
    """The matched part as it stands in the source, from its stamp where no escape stands between; sets the offset."""
    start = head.body_at
    if head.stamp_at is not None and b"\x1b" not in line[head.stamp_at : start]:
        start = head.stamp_at
    event.offset += start
    text = line[start : head.body_at + match.end]
    return text if text.endswith(event.text) else event.text



def _only(rules: RuleSet, event: str) -> Pattern:
    """The server's first pattern for this event."""
    return next(p for p in rules.patterns if p.event == event and p.program == SERVER)


def _quick(rules: RuleSet, pattern: Pattern) -> Iterator[tuple[int, Quick]]:
    """This pattern's literals, and its expression over a whole stamped line.

    Literals it shares with another pattern only where no line can be both.
    """
    assert pattern.regex is not None
    regex = re.compile(
        rb"(?:\[( {0,4}\d{1,5})\] )?(\d{1,9}\.[0-5]\d\.\d{3}\.\d{3}) [IWED] (?:%s)" % pattern.regex.pattern
    )
    for index, owners in enumerate(rules.by_literal):
        if pattern in owners and (len(owners) == 1 or pattern.event == _ALWAYS):
            yield index, Quick(regex, pattern, pattern.event)


def _packed_clock(clock_us: int) -> int:
    """A clock as the digits of its stamp: ``1.02.003.004`` is 102003004. Seconds in it are a million apart."""
    minutes, rest = divmod(clock_us, 60_000_000)
    return minutes * 100_000_000 + rest
