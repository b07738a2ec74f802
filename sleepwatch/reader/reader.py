"""The reader of one log, be it one file or the files of a rotated set: blocks of bytes in, events out, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleepwatch.envelopes import TURN_LIMIT, Envelope, by_name, detect, restored, reversed_order, turned
from sleepwatch.envelopes.base import HEAD_LIMIT
from sleepwatch.model import Record
from sleepwatch.prefix import split
from sleepwatch.reader.bare import BareLog
from sleepwatch.reader.gate import Gate
from sleepwatch.reader.recogniser import Recogniser, Sink
from sleepwatch.reader.records import FramedLog
from sleepwatch.reader.trace import Trace
from sleepwatch.rules import RuleSet
from sleepwatch.times import LocalTimes

_KEY_LINES = 8
_STAMP_REACH = 256


class Reader:
    """Reads the files of one log, oldest first: :meth:`open` one, :meth:`feed` it, :meth:`close` it, and the next.

    Streams and lives go on from file to file. Events go to ``sink`` in order.
    """

    def __init__(
        self,
        rules: RuleSet,
        sink: Sink,
        *,
        gate: Gate | None = None,
        envelope: str | None = None,
        trace: Trace | None = None,
        live: bool = False,
    ) -> None:
        """``live``: the log is read as it grows, so it stands oldest first whatever its first lines look like."""
        self._gate = gate or Gate(rules.literals)
        self._recogniser = Recogniser(rules, "", sink, trace=trace)
        self._forced = envelope
        self._live = live
        self._local: LocalTimes | None = None
        self._offset = 0
        self._head: bytes = b""
        self._log: BareLog | FramedLog | None = None
        self._turning: bytes | None = None
        self._carrier: str | None = None
        """The carrier of the last file that was long enough to tell."""
        self.envelope: Envelope | None = None
        """The open file's; told from its first lines unless one was forced."""
        self.bytes = 0
        """Read of the open file."""

    @property
    def server_lines(self) -> int:
        """Recognised lines of the server itself."""
        return self._recogniser.server_lines

    @property
    def wall_us(self) -> tuple[int | None, int | None]:
        """Wall times of the open file's first and last record, where its carrier gives them."""
        return (self._log.first_wall_us, self._log.last_wall_us) if isinstance(self._log, FramedLog) else (None, None)

    @property
    def time_from(self) -> str | None:
        """Where the open file's wall times come from, in words, and what is wrong with them."""
        words = self.envelope.time_from if self.envelope is not None else None
        backs = self._log.set_backs if isinstance(self._log, FramedLog) else 0
        if words is None or not backs:
            return words
        times = "once" if backs == 1 else f"{backs} times"
        return f"{words}; they go back {times}: the clock was set, or the parts are out of order"

    def open(
        self, source: str, *, local: LocalTimes | None = None, missing: str | None = None, offset: int = 0
    ) -> None:
        """The next file, read from ``offset``, where a line begins.

        ``missing`` says why lines are missing between the last file and this.
        """
        self._recogniser.source = source
        if missing is not None:
            self._recogniser.gap(missing)
        self._local = local
        self._offset = offset
        self._head = b""
        self._log = self._turning = self.envelope = None
        self.bytes = 0

    def feed(self, data: bytes) -> None:
        """The open file's next bytes. Raises SourceError for a newest-first source too large to be turned round."""
        self.bytes += len(data)
        if self._turning is not None:
            if len(self._turning) <= TURN_LIMIT:  # beyond it, close() refuses
                self._turning += data
        elif self._log is not None:
            self._log.feed(data, final=False)
        else:
            self._head += data
            if len(self._head) >= HEAD_LIMIT:
                self._begin(final=False)

    def close(self) -> None:
        """The open file has ended."""
        if self._log is None and self._turning is None:
            self._begin(final=True)
        elif self._log is not None and self._turning is None:
            self._log.feed(b"", final=True)
        if self._turning is not None:
            assert self.envelope is not None
            assert isinstance(self._log, FramedLog)
            self._log.add(turned(self._turning, self.envelope))
            self._log.read(final=True)

    def settle(self, *, partial: bool = False, newest: int = 0) -> None:
        """Live: nothing more came for a while, so read what is there without its later neighbours.

        ``partial``: it has been silent for so long that what is unfinished may stay so. The ``newest`` bytes, if any,
        have only just come: they are only looked at as neighbours.
        """
        if self._log is None and self._turning is None and self._enough(patient=partial):
            self._begin(final=False)
        if self._log is not None and self._turning is None:
            self._log.settle(partial=partial, newest=newest)

    def _enough(self, *, patient: bool) -> bool:
        """Do the lines that are there tell the carrier, and identify what has no stamps?

        Fewer than these must do where they will: a log that was rotated in a quiet hour, a server that died at once.
        """
        lines = [line for line in self._head[: self._head.rfind(b"\n") + 1].split(b"\n") if line.strip()]
        if len(lines) >= _KEY_LINES:
            return True
        if not lines or not (patient or self._recogniser.head_key):
            return False
        envelope = self._envelope_of(self._head)
        if self._recogniser.head_key:
            return self._carrier == type(envelope).name
        records = [Record(text=line, offset=0) for line in lines] if envelope.name == "bare" else envelope.feed(
            self._head[: self._head.rfind(b"\n") + 1], 0
        )  # fmt: skip
        return any(split(record.text[:_STAMP_REACH]).clock_us is not None for record in records)

    def _envelope_of(self, head: bytes) -> Envelope:
        return by_name(self._forced, local=self._local) if self._forced else detect(head, local=self._local)

    def state(self) -> dict[str, object]:
        """What a restart needs to go on from here: for :func:`sleepwatch.engine.state.dump`."""
        return {
            "recogniser": self._recogniser.state(),
            "bytes": self.bytes,
            "head": self._head,
            "offset": self._offset,
            "carrier": self._carrier,
            "log": None if self._log is None else self._log.state(),
        }

    def resume(self, state: Mapping[str, Any], *, local: LocalTimes | None = None) -> None:
        """Go on from a state that :meth:`state` gave: the same file is open, read as far."""
        self._recogniser.resume(state["recogniser"])
        self.bytes, self._head, self._local = state["bytes"], state["head"], local
        self._offset, self._carrier = state["offset"], state["carrier"]
        log = state["log"]
        if log is None:
            return
        if "envelope" in log:
            self.envelope = restored(log["envelope"], local=local)
            self._log = FramedLog(self._recogniser, self._gate, self.envelope)
        else:
            self.envelope = by_name("bare", local=local)
            self._log = BareLog(self._recogniser, self._gate)
        self._log.resume(log)

    def gap(self, cause: str) -> None:
        """Lines are missing here."""
        self._recogniser.gap(cause)

    def finish(self) -> None:
        """The log has ended: no further file will come."""
        self._recogniser.finish()

    def _begin(self, *, final: bool) -> None:
        data, self._head = self._head, b""
        head = data[:HEAD_LIMIT]
        self.envelope = self._envelope_of(head)
        self._carrier = type(self.envelope).name
        if not self._recogniser.head_key:
            lines = [line.strip() for line in head.split(b"\n", 4 * _KEY_LINES)]
            self._recogniser.head_key = b"\n".join([line for line in lines if line][:_KEY_LINES]) or b"empty"
        elif self.envelope.name == "bare":
            self._recogniser.joins(head)
        backwards = not self._live and reversed_order(head, self.envelope)
        if self.envelope.name == "bare" and not backwards:
            self._log = BareLog(self._recogniser, self._gate, self._offset)
        else:
            self._log = FramedLog(self._recogniser, self._gate, self.envelope, self._offset)
        if backwards:
            self._turning = data
        else:
            self._log.feed(data, final=final)
