"""What every envelope offers, and the reading loop that the line-framed ones share."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, Protocol

from sleepwatch.model import Record
from sleepwatch.times import Calendar, LocalTimes


class Envelope(Protocol):
    """The framing of one carrier. An instance reads one source from its beginning and keeps what it holds back."""

    name: str
    """Stable name, as ``--envelope`` takes it; ``a+b`` once a source turned from one carrier to another."""
    time_from: str | None
    """Where the wall times come from, in words; None where the carrier writes none."""

    def feed(self, block: bytes, offset: int) -> list[Record]:
        """The records of whole lines (each ends in a line feed, except perhaps the source's very last).

        ``offset`` is where the block begins in the decompressed source. Never raises, whatever the bytes are.
        How the lines are cut into blocks makes no difference.
        """

    def finish(self) -> list[Record]:
        """What was held back: pieces of a line whose end is missing (``partial``), lines that fit nothing.

        Reading may go on afterwards, so a newest-first source can be read entry by entry.
        """

    def pause(self) -> list[Record]:
        """The source has fallen silent: what was held back although it may be whole.

        What is plainly unfinished stays held back; reading goes on.
        """


TEXT_LIMIT = 1 << 20
"""Bytes kept of a line that its carrier delivered in pieces; what is longer is marked ``cut``."""

HEAD_LIMIT = 64 << 10
"""Bytes at a source's beginning that decide which envelope it has, and what identifies it where no line is stamped."""

MISFIT_LIMIT = 200
"""So many lines in a row that do not fit, and the source is looked at afresh."""

DIGITS = b"0123456789"
_LINE = re.compile(rb"^.+", re.MULTILINE)
_MISFIT_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"
_NAMES_LIMIT = 4096
_names: dict[bytes, str] = {}


def name_of(raw: bytes) -> str:
    """A host's, unit's or program's name as text. The same bytes give the same object, so streams compare fast."""
    found = _names.get(raw)
    if found is None:
        if len(_names) >= _NAMES_LIMIT:
            _names.clear()
        found = _names[raw] = raw.decode("utf-8", "replace")
    return found


def chomp(line: bytes) -> bytes:
    """The line without its line feed and one carriage return before it."""
    if line.endswith(b"\n"):
        line = line[:-1]
    return line[:-1] if line.endswith(b"\r") else line


class Pieces:
    """Lines that their carrier delivers in pieces; one line can be open in each stream."""

    _LIMIT = 256  # streams; more at a time means that the ends never come

    def __init__(self) -> None:
        self.open: dict[Hashable, Record] = {}
        """The line begun in each stream."""

    def add(self, stream: Hashable, piece: Record, out: list[Record], *, more: bool) -> None:
        """Take the next piece of a stream's line. The line is appended once a piece comes that has no ``more``."""
        line = self.open.get(stream)
        if line is None:
            line = piece
            if more:
                if len(self.open) >= self._LIMIT:
                    self.flush(out)
                self.open[stream] = line
        else:
            if len(line.text) < TEXT_LIMIT:
                line.text += piece.text
            else:
                line.cut = True
            line.cut = line.cut or piece.cut
            line.partial = piece.partial
        if not more:
            self.open.pop(stream, None)
            out.append(line)

    def flush(self, out: list[Record]) -> None:
        """Append the lines whose ends have not come, as ``partial``."""
        for line in self.open.values():
            line.partial = True
            out.append(line)
        self.open.clear()


class Framed:
    """The part every envelope shares: lines that do not fit the frame.

    Such a line becomes a record of its own, without metadata. In a ``strict`` carrier, which frames every line, a run
    of them is held back until a line fits again; at MISFIT_LIMIT lines ``redetect`` is asked what the source has
    turned into, and that envelope takes over from the first of them.
    """

    name: str
    time_from: str | None = None
    strict: ClassVar[bool] = True
    begins: ClassVar[bytes] = b""
    """The bytes a framed line can begin with; empty where that says nothing. It spares detection most of its work."""

    def __init__(self, local: LocalTimes | None = None) -> None:
        self.local = local or LocalTimes()
        self.calendar = Calendar(self.local)
        self.redetect: Callable[[bytes], Envelope | None] | None = None
        self._heir: Envelope | None = None
        self._held: list[bytes] = []
        self._held_at = 0
        self._held_bytes = 0

    def feed(self, block: bytes, offset: int) -> list[Record]:
        """See Envelope."""
        if self._heir is not None:
            return self._heir.feed(block, offset)
        if offset == 0 and block.startswith(BOM):
            block, offset = block[len(BOM) :], len(BOM)
        out: list[Record] = []
        self.read(block, offset, out)
        return out

    def finish(self) -> list[Record]:
        """See Envelope."""
        if self._heir is not None:
            return self._heir.finish()
        out: list[Record] = []
        self.release(out)
        self.flush(out)
        return out

    def pause(self) -> list[Record]:
        """See Envelope."""
        if self._heir is not None:
            return self._heir.pause()
        out: list[Record] = []
        self.release(out)
        self.settle(out)
        return out

    def state(self) -> dict[str, Any]:
        """What reading on in another process needs: plain values and records. See ``detection.restored``."""
        kept = {name: value for name, value in vars(self).items() if name not in _REMADE}
        pieces = getattr(self, "_pieces", None)
        return {
            "kept": kept,
            "calendar": self.calendar.state(),
            "pieces": None if pieces is None else pieces.open,
            "heir": None if self._heir is None else saved(self._heir),
        }

    def resume(self, state: Mapping[str, Any], restore: Callable[[Mapping[str, Any]], Envelope]) -> None:
        """Go on from a state that :meth:`state` gave; ``restore`` makes an envelope of what :func:`saved` gave."""
        vars(self).update(state["kept"])
        self.calendar.resume(state["calendar"])
        if state["pieces"] is not None:
            vars(self)["_pieces"].open = state["pieces"]
        self._heir = None if state["heir"] is None else restore(state["heir"])

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """Append the records of the block's lines to ``out``."""
        raise NotImplementedError

    def settle(self, out: list[Record]) -> None:
        """Append what this envelope itself holds back although it may be whole."""
        pieces = getattr(self, "_pieces", None)
        if pieces is not None:
            pieces.flush(out)

    def flush(self, out: list[Record]) -> None:
        """Append what this envelope itself holds back."""

    def starts(self, data: bytes) -> list[int]:
        """Where the carrier's entries begin: here, at each line that is not empty."""
        return [match.start() for match in _LINE.finditer(data)]

    @classmethod
    def explains(cls, head: bytes) -> int:
        """How many of the head's non-empty lines fit this envelope; 0 also where its structure is in doubt."""
        raise NotImplementedError

    def foreign(self, line: bytes, at: int) -> bool:
        """Deal with a line that fits the carrier although it has not its frame (a pager's); False: it does not fit."""
        return False

    def continuation(self, line: bytes, at: int, out: list[Record]) -> bool:
        """Take a line as a further line of the record before it; False: it is none."""
        return False

    def misfit(self, line: bytes, at: int, out: list[Record]) -> bool:
        """A line (with its line feed) at ``at`` which the frame does not fit. True: it is time to look afresh."""
        text = chomp(line)
        if not self._held and text and self.continuation(text, at, out):
            return False
        if not text.strip() or self.foreign(text, at):
            if self._held:
                self._hold(line, at)
            return False
        if not self.strict:
            out.append(Record(text=text, offset=at))
            return False
        self._hold(line, at)
        return len(self._held) >= MISFIT_LIMIT or self._held_bytes >= _MISFIT_BYTES

    def blank(self, at: int) -> None:
        """An empty line: it only matters among lines held back, which may be another carrier's."""
        if self._held:
            self._hold(b"\n", at)

    def _hold(self, line: bytes, at: int) -> None:
        if not self._held:
            self._held_at = at
            self._held_bytes = 0
        self._held.append(line)
        self._held_bytes += len(line)

    def release(self, out: list[Record]) -> None:
        """The lines held back did not fit and that is all: give them as they are."""
        at = self._held_at
        for line in self._held:
            text = chomp(line)
            if text.strip() and not self.foreign(text, at):
                out.append(Record(text=text, offset=at))
            at += len(line)
        self._held.clear()

    def between(self, block: bytes, start: int, end: int, offset: int, out: list[Record]) -> bool:
        """Read lines that do not fit, ``block[start:end]``. True: another envelope took over and read the rest."""
        while start < end:
            feed = block.find(b"\n", start, end)
            stop = end if feed < 0 else feed + 1
            line = block[start:stop]
            look = self.misfit(line, offset + start, out)
            start = stop
            if look and self._hand_over(out):
                assert self._heir is not None
                out.extend(self._heir.feed(block[start:], offset + start))
                return True
        return False

    def _hand_over(self, out: list[Record]) -> bool:
        held = b"".join(self._held)
        heir = self.redetect(held) if self.redetect is not None else None
        if heir is None or heir.name == self.name:
            self.release(out)
            return False
        self.flush(out)
        self._heir = heir
        self.name = f"{self.name}+{heir.name}"
        if self.time_from is None:
            self.time_from = heir.time_from
        self._held.clear()
        out.extend(heir.feed(held, self._held_at))
        return True


_REMADE = frozenset({"local", "calendar", "redetect", "_heir", "_pieces", "_writers", "_repeat"})
"""Attributes that are made anew, or are kept in another form: in every envelope that has them."""


def saved(envelope: Envelope) -> dict[str, Any]:
    """An envelope in the middle of its source, for ``detection.restored``."""
    assert isinstance(envelope, Framed)  # all that detect and by_name make are
    return {"name": type(envelope).name, **envelope.state()}


class LineFramed(Framed):
    """An envelope whose every framed line matches one expression, from the line's start to its end and line feed."""

    pattern: ClassVar[re.Pattern[bytes]]

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """Append what the matched line is; ``offset`` is the block's. False: it does not fit after all."""
        raise NotImplementedError

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """See Framed."""
        at = 0
        record = self.record
        for match in self.pattern.finditer(block):
            if match.start() != at and self.between(block, at, match.start(), offset, out):
                return
            at = match.end()
            if self._held:
                fitting: list[Record] = []
                if record(match, offset, fitting):
                    self.release(out)
                    out += fitting
                    continue
            elif record(match, offset, out):
                continue
            if self.between(block, match.start(), at, offset, out):
                return
        if at < len(block):
            self.between(block, at, len(block), offset, out)

    def starts(self, data: bytes) -> list[int]:
        """See Framed."""
        return [match.start() for match in self.pattern.finditer(data)]

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed."""
        probe = cls()
        scratch: list[Record] = []
        return sum(probe.record(match, 0, scratch) for match in cls.pattern.finditer(head))
