"""Newest-first logs: ``journalctl -r``, web views and many pastes. They are recognised, and turned round by entries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from sleepwatch import prefix
from sleepwatch.envelopes.base import HEAD_LIMIT, Envelope, Framed
from sleepwatch.envelopes.detection import by_name, detect
from sleepwatch.envelopes.journal_text import JournalText
from sleepwatch.errors import SourceError
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes

TURN_LIMIT = 64 << 20
"""Bytes of a newest-first source that are turned round, which needs them in memory at once."""

_BACKWARD_STEPS = 2
_MARGIN = 4  # backward steps for each forward one; a clock set back or a restart is one step among many


def direction(records: Iterable[Record]) -> int:
    """1 if records stand oldest first, -1 if newest first, 0 where their times do not tell.

    Judged by the wall times from record to record and by each writer's own clock. A restart or a clock set back is
    one step against many.
    """
    forward = backward = 0
    last_wall: int | None = None
    clocks: dict[tuple[object, ...], int] = {}
    for record in records:
        if record.wall_us is not None:
            if last_wall is not None and record.wall_us != last_wall:
                forward += record.wall_us > last_wall
                backward += record.wall_us < last_wall
            last_wall = record.wall_us
        head = prefix.split(record.text[:256])
        if head.clock_us is not None:
            writer = (record.host, record.container, record.ident, record.pid, head.ports)
            last = clocks.get(writer, head.clock_us)
            forward += head.clock_us > last
            backward += head.clock_us < last
            clocks[writer] = head.clock_us
    if backward >= _BACKWARD_STEPS and backward >= _MARGIN * forward:
        return -1
    return 1 if forward else 0


def reversed_order(head: bytes, envelope: Envelope) -> bool:
    """Whether a source with this head and envelope stands newest first. The envelope itself is left untouched."""
    head = head[:HEAD_LIMIT]
    head = head[: head.rfind(b"\n") + 1] or head
    some_year = LocalTimes(year=2024)  # only the order counts, and 2024 has a 29 February
    name = envelope.name.partition("+")[0]
    probe = detect(head, local=some_year)
    if probe.name != name:
        probe = by_name(name, local=some_year)
    return direction(probe.feed(head, 0) + probe.finish()) < 0


def turned(data: bytes, envelope: Envelope) -> list[Record]:
    """All records of a newest-first source, oldest first; an entry of several lines keeps them in their order.

    ``envelope`` must not have been fed. Raises SourceError for more than TURN_LIMIT bytes.
    """
    if len(data) > TURN_LIMIT:
        raise SourceError(
            f"the log stands newest first and is larger than {TURN_LIMIT >> 20} MiB",
            hint="export it oldest first (journalctl without -r), or turn it round with tac",
        )
    assert isinstance(envelope, Framed)  # all that detect and by_name make are
    boots = _boots(data) if isinstance(envelope, JournalText) else []
    out: list[Record] = []
    end = len(data)
    for start in reversed(envelope.starts(data)):
        if isinstance(envelope, JournalText):
            passed = bisect_right(boots, start, key=lambda place: place[0])
            envelope.boot = boots[passed - 1][1] if passed else None
        out += envelope.feed(data[start:end], start) + envelope.finish()  # nothing waits for what stands below it
        end = start
    if end:  # lines above the first entry
        out += envelope.feed(data[:end], 0) + envelope.finish()
    return out


def _boots(data: bytes) -> list[tuple[int, str]]:
    """Where journalctl says which boot the entries below are of."""
    found = []
    at = data.find(b"-- Boot ")
    while at >= 0:
        word = data[at + 8 : at + 40]
        if (not at or data[at - 1] == 10) and data[at + 40 : at + 43] == b" --":
            found.append((at, word.decode("ascii", "replace")))
        at = data.find(b"-- Boot ", at + 1)
    return found
