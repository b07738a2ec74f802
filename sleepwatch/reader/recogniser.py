"""The recogniser: one line in, at most one event out, in the stream it belongs to.

It knows the streams of one source, decides whether a line is a record of its stream's own, says where a new life
begins, and shows each life's first stamped lines, which its identity is made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sleepwatch.engine.streams import CLOCK_NOISE_US, Stream
from sleepwatch.model import Event, Origin, Record
from sleepwatch.prefix import Head, split
from sleepwatch.reader.genuine import WRITES_ON, Around, is_doubtful, is_torn, keeps_prefix, objection, writes_on
from sleepwatch.reader.trace import Look, Trace
from sleepwatch.reader.window import Writer
from sleepwatch.rules import Match, Pattern, RuleSet

SERVER = "llama-server"
HEAD_REACH = 2_000
"""Lines after the start of a life within which its first stamped lines are looked for."""

Sink = Callable[[Event], object]

_TORN_PREFIX = re.compile(rb"\d+(?:\.\d{0,3}){0,3} ?(?=[^\d.\s])")
_RAW = frozenset({"process.abort", "process.exit", "load.failed"})
"""Events whose lines go past the logger, straight to stderr: no stamp in any era."""
_RAW_WORDS = frozenset({"stopping-at-once"})
"""Patterns of lines that do so although others of the same event are logged."""
_DECISIVE = frozenset({"sleep.enter", "sleep.entered", "sleep.exit", "sleep.exited", "request.cancelled"})
"""Events that decide much and come seldom."""
_OF_OTHERS = frozenset(
    {
        "process.exit", "process.signal", "process.frame", "unit.started", "unit.stopping", "unit.ended",
        "unit.restarting", "unit.failed", "clock.jumped", "gap",
    }
)  # fmt: skip
"""Events about a server in lines that others wrote: they begin no life."""
_ABOUT = (("unit", "UNIT"), ("unit", "USER_UNIT"), ("unit", "COREDUMP_UNIT"), ("invocation", "INVOCATION_ID"))
"""What a journal entry says of the unit it is about, where its text does not."""
NO_ROUTER = "it stands behind the port of a router's child, and this server is no router"
NO_STAMP = "it has no stamp, and the lines of its stream have"
A_STAMP = "it has a stamp, and the lines of its stream have none"
_SINGLE_SERVER = frozenset({"load.begin", "load.ready", "sleep.enter", "sleep.exit", "request.launched"})


class Recogniser:
    """Turns the lines of one source into events for ``sink``."""

    def __init__(self, rules: RuleSet, source: str, sink: Sink, *, trace: Trace | None = None) -> None:
        self.rules = rules
        self.sink = sink
        self.source = source
        self.trace = trace
        """Told of every line that is looked at; then no line goes the short way."""
        self.head_key = b""
        """The source's first lines: the identity of streams without stamps."""
        self.streams: dict[tuple[Writer, str | None], Stream] = {}
        self._nameless: dict[tuple[str | None, str | None, int | None, str | None], Stream] = {}
        """Host, boot, process id and port → the stream of a process whose unit its carrier has not told."""
        self.wanting: dict[Stream, int] = {}
        """Streams whose life has not shown its first stamped lines yet, with the lines left to look at."""
        self.server_lines = 0
        """Recognised lines of the server itself."""

    # -- one line -------------------------------------------------------------------------------------------------

    def line(
        self,
        line: bytes,
        offset: int,
        literals: Iterable[int],
        around: Around,
        writer: Writer,
        record: Record | None,
        *,
        unfinished: bool = False,
    ) -> bool:
        """A candidate line: ``line`` begins at ``offset`` in the source and holds the literals of these numbers.

        Was it taken for a record? An ``unfinished`` one, whose end has not come, is only where no end could change it.
        """
        head = split(line)
        around.ports = head.ports
        pattern, match = self._match(head, literals, record)
        if pattern is None and head.clock_us is None and (torn := _TORN_PREFIX.match(line)) is not None:
            # The dying server's last write stops inside its stamp, and its supervisor's line follows on.
            after = split(line[torn.end() :])
            pattern, match = self._match(after, literals, record)
            if pattern is not None and pattern.program != SERVER:
                head, head.body_at = after, after.body_at + torn.end()
            else:
                pattern = None
        if unfinished and not (pattern is not None and match is not None and pattern.surely_ends(match, head.body)):
            return False
        if pattern is None or match is None:
            if self.trace is not None:
                self._tell(line, offset, head, literals, record)
            self.show(head, writer)
            return False
        stream = self.stream(head.ports, writer, record)
        if stream is None and self.trace is None:
            return False
        text, at = _written(line, head, match)
        event = Event(
            type=pattern.event,
            origin=stream.origin if stream is not None else self._origin(record, head.ports, None),
            offset=offset + at,
            text=text,
            fields=self._fields(pattern, match, record),
            clock_us=head.clock_us,
            wall_us=record.wall_us if record is not None else None,
            rest=head.body[match.end :],
            source=self.source,
            pattern=pattern.name,
        )
        refused = None if stream is not None else NO_ROUTER
        if stream is not None and pattern.program == SERVER:
            refused = self._objection(stream, event, around)
        elif stream is not None and event.type == "process.exit" and record is None and stream.clock_us is not None:
            refused = WRITES_ON if writes_on(around, stream.clock_us) else None
        if self.trace is not None:
            self._tell(line, offset, head, literals, record, event=event, refused=refused, stream=stream)
        if refused is not None or stream is None:
            return False
        self.emit(stream, event)
        self.show(head, writer)
        return True

    def _tell(
        self,
        line: bytes,
        offset: int,
        head: Head,
        literals: Iterable[int],
        record: Record | None,
        *,
        event: Event | None = None,
        refused: str | None = None,
        stream: Stream | None = None,
    ) -> None:
        """Tell the trace of a look at a line."""
        assert self.trace is not None
        candidates = dict.fromkeys(p for literal in literals for p in self.rules.by_literal[literal])
        self.trace(
            Look(
                offset=offset,
                line=line,
                head=head,
                record=record,
                candidates=tuple(candidates),
                event=event,
                refused=refused,
                clock_before_us=stream.clock_us if stream is not None else None,
            )
        )

    def passed_over(self, record: Record, line: bytes) -> None:
        """A record no pattern's text is in: only the trace wants to know."""
        self._tell(line, record.offset, split(line), (), record)

    def structured(self, record: Record, writer: Writer) -> bool:
        """An entry that says by its MESSAGE_ID and fields what it is, whatever language its text is in."""
        for pattern in self.rules.message_ids.get(record.message_id or "", ()):
            match = pattern.match_record(record.message_id, record.fields or {})
            stream = self.stream(None, writer, record) if match is not None else None
            if match is None or stream is None:
                continue
            event = Event(
                type=pattern.event,
                origin=stream.origin,
                offset=record.offset,
                text=record.text[:512],
                fields=self._fields(pattern, match, record),
                wall_us=record.wall_us,
                source=self.source,
                pattern=pattern.name,
            )
            if self.trace is not None:
                head = split(record.text)
                self._tell(record.text, record.offset, head, (), record, event=event, stream=stream)
            self.emit(stream, event)
            return True
        return False

    def emit(self, stream: Stream, event: Event) -> None:
        """Hand on an event, with the word whether a new life begins with it."""
        if event.type not in _OF_OTHERS:
            event.new_life = stream.begins_life(event)
            if event.new_life and stream.stamped:
                self.wanting[stream] = HEAD_REACH
            if event.type.startswith("router."):
                stream.is_router = True
            elif event.type in _SINGLE_SERVER:
                stream.is_server = True
            self.server_lines += 1
        self.sink(event)

    def _match(
        self, head: Head, literals: Iterable[int], record: Record | None
    ) -> tuple[Pattern, Match] | tuple[None, None]:
        ident = record.ident if record is not None else None
        for literal in dict.fromkeys(literals):
            for pattern in self.rules.by_literal[literal]:
                if pattern.idents and ident is not None and ident not in pattern.idents:
                    continue
                match = pattern.match(head.body)
                if match is not None:
                    return pattern, match
        return None, None

    @staticmethod
    def _fields(pattern: Pattern, match: Match, record: Record | None) -> dict[str, object]:
        if record is not None and record.fields and pattern.program != SERVER:
            for name, field in _ABOUT:
                if name not in match.fields and field in record.fields:
                    match.fields[name] = record.fields[field]
            pid = record.fields.get("COREDUMP_PID", "")
            if pid.isdigit():
                match.fields.setdefault("pid", int(pid))
        return match.fields

    def _objection(self, stream: Stream, event: Event, around: Around) -> str | None:
        """Why this line is no record of its stream's own; None where it is. Marks what only could be one doubtful."""
        if event.clock_us is None:
            if event.type in _RAW or event.pattern in _RAW_WORDS:
                return None
            if stream.stamped:
                begins = event.type == "process.start" and keeps_prefix(around, stamped=False)
                return None if begins else NO_STAMP
            if stream.stamped is None and is_torn(around):
                return NO_STAMP  # it does not tell how its stream is written
            if not event.type.startswith(("process.", "load.", "router.")):
                event.doubtful = is_doubtful(around, deep=event.type in _DECISIVE)
            return None
        if stream.stamped is False:
            begins = event.type in ("process.start", "process.verbosity") and keeps_prefix(around, stamped=True)
            if not begins:
                return A_STAMP
        return objection(stream, event, around)

    # -- streams --------------------------------------------------------------------------------------------------

    def stream(self, ports: str | None, writer: Writer, record: Record | None) -> Stream | None:
        """The stream of a writer and port; None for a port that no router can have printed."""
        stream = self.streams.get((writer, ports))
        parent = None
        if ports is not None:
            parent = self.stream(ports.rpartition("/")[0] or None, writer, record)
            if parent is None or (parent.is_server and not parent.is_router):
                return None  # text of a server that is no router
        if stream is None:
            stream = self._named(record, ports)
            if stream is None:
                stream = Stream(self._origin(record, ports, parent.origin if parent is not None else None))
                self._note_nameless(stream)
            self.streams[writer, ports] = stream
        return stream

    def _named(self, record: Record | None, ports: str | None) -> Stream | None:
        """The stream of the same process's first lines, of which its carrier did not know yet whose it is."""
        if record is None or record.unit is None:
            return None
        stream = self._nameless.pop((record.host, record.boot, record.pid, ports), None)
        if stream is not None:
            stream.origin.unit, stream.origin.invocation = record.unit, record.invocation
            self.sink(Event(type="line.unit", origin=stream.origin, offset=0, text=b"", fields={}))
        return stream

    def _note_nameless(self, stream: Stream) -> None:
        origin = stream.origin
        if origin.unit is None and origin.container is None and origin.pid is not None and origin.boot is not None:
            self._nameless[origin.host, origin.boot, origin.pid, origin.port] = stream

    def _origin(self, record: Record | None, ports: str | None, parent: Origin | None) -> Origin:
        origin = Origin(source=self.source, port=ports, parent=parent, head=self.head_key)
        if record is not None:
            origin.host, origin.unit, origin.container = record.host, record.unit, record.container
            origin.ident, origin.pid = record.ident, record.pid
            origin.boot, origin.invocation = record.boot, record.invocation
        return origin

    # -- the first stamped lines of each life ----------------------------------------------------------------------

    def show(self, head: Head, writer: Writer) -> None:
        """One line to the stream that may still want the first stamped lines of its life."""
        if not self.wanting:
            return
        for stream in list(self.wanting):
            self.wanting[stream] -= 1
            if self.wanting[stream] < 0:
                self._close_head(stream)
        if head.clock_us is None:
            return
        own = self.streams.get((writer, head.ports))
        if own is None or own not in self.wanting:
            return
        own.head_wanted -= 1
        unwrapped = b"%d %s %s" % (head.clock_us, (head.level or "").encode(), head.body.rstrip())
        self.sink(Event(type="line.stamped", origin=own.origin, offset=0, text=unwrapped, fields={}))
        if own.head_wanted == 0:
            del self.wanting[own]

    def joins(self, head: bytes) -> None:
        """The next file of the log begins with ``head``: does the server's clock go on in it, or is a piece missing?"""
        root = self.streams.get((None, None))
        if root is None or root.clock_us is None:
            return
        heads = (split(line[:256]) for line in head.split(b"\n"))
        first = next((h.clock_us for h in heads if h.clock_us is not None and h.ports is None), None)
        if first is not None and CLOCK_NOISE_US < first < root.clock_us - CLOCK_NOISE_US:
            self.gap("the server's clock does not go on from the file before: a piece is missing")

    def gap(self, cause: str) -> None:
        """Lines are missing here, for every stream of the source."""
        for stream in self.streams.values():
            if stream.origin.parent is None:
                fields = {"cause": cause}
                self.sink(
                    Event(type="gap", origin=stream.origin, offset=0, text=b"", fields=fields, source=self.source)
                )
                return

    def state(self) -> dict[str, object]:
        """What a restart needs to go on from here."""
        return {"source": self.source, "head": self.head_key, "streams": self.streams, "wanting": self.wanting}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that :meth:`state` gave."""
        self.source, self.head_key = state["source"], state["head"]
        self.streams.update(state["streams"])
        for stream in self.streams.values():
            self._note_nameless(stream)
        self.wanting.update(state["wanting"])

    def finish(self) -> None:
        """No more lines will come."""
        for stream in list(self.wanting):
            self._close_head(stream)

    def _close_head(self, stream: Stream) -> None:
        del self.wanting[stream]
        self.sink(Event(type="line.head-end", origin=stream.origin, offset=0, text=b"", fields={}))


def _written(line: bytes, head: Head, match: Match) -> tuple[bytes, int]:
    """The matched part as it stands in the source, from its stamp where no escape stands between, and its place."""
    start = head.body_at
    if head.stamp_at is not None and b"\x1b" not in line[head.stamp_at : start]:
        start = head.stamp_at
    text = line[start : head.body_at + match.end]
    plain = head.body[: match.end]
    return (text, start) if text.endswith(plain) else (plain, head.body_at)
