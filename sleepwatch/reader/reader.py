"""The reader of one log, be it one file or the files of a rotated set: blocks of bytes in, events out, in order."""

from __future__ import annotations

from sleepwatch.envelopes import TURN_LIMIT, Envelope, by_name, detect, reversed_order, turned
from sleepwatch.reader.bare import BareLog
from sleepwatch.reader.gate import Gate
from sleepwatch.reader.recogniser import Recogniser, Sink
from sleepwatch.reader.records import FramedLog
from sleepwatch.reader.trace import Trace
from sleepwatch.rules import RuleSet
from sleepwatch.times import LocalTimes

HEAD_BYTES = 64 << 10
"""How much of a source is looked at to tell its carrier, and what identifies a source whose lines carry no stamps."""
_KEY_LINES = 8


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
    ) -> None:
        self._gate = gate or Gate(rules.literals)
        self._recogniser = Recogniser(rules, "", sink, trace=trace)
        self._forced = envelope
        self._local: LocalTimes | None = None
        self._head: bytes = b""
        self._log: BareLog | FramedLog | None = None
        self._turning: bytes | None = None
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

    def open(self, source: str, *, local: LocalTimes | None = None, missing: str | None = None) -> None:
        """The next file. ``missing`` says why lines are missing between the last one and this."""
        self._recogniser.source = source
        if missing is not None:
            self._recogniser.gap(missing)
        self._local = local
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
            if len(self._head) >= HEAD_BYTES:
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

    def finish(self) -> None:
        """The log has ended: no further file will come."""
        self._recogniser.finish()

    def _begin(self, *, final: bool) -> None:
        data, self._head = self._head, b""
        head = data[:HEAD_BYTES]
        self.envelope = by_name(self._forced, local=self._local) if self._forced else detect(head, local=self._local)
        if not self._recogniser.head_key:
            lines = [line.strip() for line in head.split(b"\n", 4 * _KEY_LINES)]
            self._recogniser.head_key = b"\n".join([line for line in lines if line][:_KEY_LINES]) or b"empty"
        elif self.envelope.name == "bare":
            self._recogniser.joins(head)
        backwards = reversed_order(head, self.envelope)
        if self.envelope.name == "bare" and not backwards:
            self._log = BareLog(self._recogniser, self._gate)
        else:
            self._log = FramedLog(self._recogniser, self._gate, self.envelope)
        if backwards:
            self._turning = data
        else:
            self._log.feed(data, final=final)
