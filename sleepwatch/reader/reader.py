"""The reader of one source: blocks of bytes in, events out, in order."""

from __future__ import annotations

from sleepwatch.envelopes import Envelope, detect
from sleepwatch.reader.bare import BareLog
from sleepwatch.reader.gate import Gate
from sleepwatch.reader.recogniser import Recogniser, Sink
from sleepwatch.reader.records import FramedLog
from sleepwatch.rules import RuleSet
from sleepwatch.times import LocalTimes

HEAD_BYTES = 64 << 10
"""How much of a source is looked at to tell its carrier, and what identifies a source whose lines carry no stamps."""
_KEY_LINES = 8


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
        local: LocalTimes | None = None,
    ) -> None:
        self._gate = gate or Gate(rules.literals)
        self._recogniser = Recogniser(rules, source, sink)
        self._local = local
        self.envelope = envelope
        """Told from the source's first lines unless it was given."""
        self.bytes = 0
        self._head: bytes | None = b""
        self._log: BareLog | FramedLog | None = None

    @property
    def server_lines(self) -> int:
        """Recognised lines of the server itself."""
        return self._recogniser.server_lines

    @property
    def wall_us(self) -> tuple[int | None, int | None]:
        """Wall times of the first and last record, where the carrier gives them."""
        return (self._log.first_wall_us, self._log.last_wall_us) if isinstance(self._log, FramedLog) else (None, None)

    def feed(self, data: bytes) -> None:
        """The next bytes of the source."""
        self.bytes += len(data)
        if self._log is not None:
            self._log.feed(data, final=False)
            return
        assert self._head is not None
        self._head += data
        if len(self._head) >= HEAD_BYTES:
            self._begin().feed(self._head, final=False)
            self._head = None

    def finish(self) -> None:
        """The source has ended."""
        if self._log is None:
            assert self._head is not None
            self._begin().feed(self._head, final=True)
        else:
            self._log.feed(b"", final=True)
        self._recogniser.finish()

    def _begin(self) -> BareLog | FramedLog:
        assert self._head is not None
        head = self._head[:HEAD_BYTES]
        if self.envelope is None:
            self.envelope = detect(head, local=self._local)
        lines = [line.strip() for line in head.split(b"\n", 4 * _KEY_LINES)]
        self._recogniser.head_key = b"\n".join([line for line in lines if line][:_KEY_LINES]) or b"empty"
        if self.envelope.name == "bare":
            self._log = BareLog(self._recogniser, self._gate)
        else:
            self._log = FramedLog(self._recogniser, self._gate, self.envelope)
        return self._log
