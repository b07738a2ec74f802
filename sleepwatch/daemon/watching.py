"""One watched source: what its follower delivers, through the reader and the engine, as it grows.

The same reader and engine as :mod:`sleepwatch.scan`; only the caller differs. Pure of clock and store: time is passed
in, and what was found is asked for with :meth:`SourceWatch.found`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from sleepwatch.daemon.blindness import Blindness
from sleepwatch.engine import Ask, Engine, Now, Output, Words
from sleepwatch.engine.ledger import Phase
from sleepwatch.engine.lives import LifeState, own_clock
from sleepwatch.engine.state import StateError, dump, restore
from sleepwatch.engine.witnesses import port_of
from sleepwatch.model import LIVE, Event, Gap, Incident, Life, Observation, SourceInfo
from sleepwatch.printable import printable
from sleepwatch.reader import Gate, Reader
from sleepwatch.reader.journal import JournalLog
from sleepwatch.rules import RuleSet
from sleepwatch.scan import gap_of
from sleepwatch.sources.follow import Piece, State
from sleepwatch.times import LocalTimes

if TYPE_CHECKING:
    from sleepwatch.witness.observing import Witnesses

SETTLE_US = 10_000
"""What came last is read without its later neighbours after this time of silence."""
SETTLE_AT_MOST_US = 30_000
"""… and at this age although more keeps coming."""
WAIT_US = 250_000
"""While something waits, this is how often the clock is looked at."""
LATE_US = 1_000_000
"""A look that comes later than this after it was due: this process, and it may be the server too, stood still."""
EDGE_US = 10_000_000
"""What comes so long after the last look is not of this moment."""
SILENT_US = 120_000_000
"""A server that works, with no request its log knows of, writes within this time."""
SILENT_AT_WORK_US = 1_800_000_000
"""… and one that loads its model or works on a request within this."""


class Found(msgspec.Struct, kw_only=True):
    """What a watch found out and was not yet stored."""

    incidents: dict[str, Incident] = {}
    """What changed, as it stands now, by id."""
    told: dict[str, Incident | None] = {}
    """How each of them stood when it was stored last; None where it was not."""
    steps: list[Incident] = []
    """The same with every state it went through, in order, for the person who looks on."""
    withdrawn: dict[str, tuple[Incident, str]] = {}
    """What was taken back and stays so, by id, with the reason."""
    lives: list[Life] = []
    gaps: list[Gap] = []
    observations: list[Observation] = []
    """What was seen beside the log."""

    @property
    def urgent(self) -> bool:
        """Something a person may have to know: to be stored at once."""
        return bool(self.incidents or self.withdrawn or self.gaps)

    def changes(self, incident: Incident, before: Incident | None) -> None:
        """An incident opened or changed."""
        self.told.setdefault(incident.id, before)
        self.incidents[incident.id] = incident
        self.steps.append(incident)
        self.withdrawn.pop(incident.id, None)

    def takes_back(self, incident: Incident, reason: str) -> None:
        """It was none."""
        self.told.setdefault(incident.id, incident)
        if self.incidents.pop(incident.id, None) is not None:
            self.steps = [one for one in self.steps if one.id != incident.id]
        self.withdrawn[incident.id] = incident, reason


class SourceWatch:
    """Reads one growing source; its kinds below and beside differ in what their followers deliver."""

    _reader: Reader | JournalLog
    _unread_unit = "bytes"

    def __init__(self, path: str, words: Mapping[str, Words], witnesses: Witnesses | None = None) -> None:
        self.path = path
        self._witnesses = witnesses
        self.caught_up = False
        """What comes now is written now: what is seen beside the log belongs to it."""
        self._now = Now(0, 0)
        self._words = words
        self._engine = Engine(words, live=True)
        self._file: str | None = None
        self._found = Found()
        self._ended: list[Life] = []
        """Lives that ended and were not yet stored."""
        self._unsettled_us: int | None = None
        """Since when something has been fed that was not settled."""
        self._recent: deque[tuple[int, int]] = deque()
        """What was fed within the last moment: when, and how much."""
        self._fed_us = 0
        self._unfinished = False
        """What was fed last may have an end that never comes."""
        self._ticked_us = 0
        self._partial_us = 0
        self._looked_us: int | None = None
        self._lost_us = 0
        """Time that passed while nobody looked although something waited."""
        self._telling = False
        """The reader is being told of a gap that is already noted."""
        self.dirty = True
        """Its state has changed since it was last saved, or was never saved: then a restart would not know the file."""
        self.bytes = self.lines = self.rotations = 0
        """Taken since the start."""
        self.blindness = Blindness(path, words["blind"], self._unread_unit, self._sees_less)

    def _fed(self, count: int, lines: int, now: Now, *, units: int) -> None:
        """So many bytes and lines have been given to the reader, which counts them as so many ``units``."""
        self.bytes += count
        self.lines += lines
        self.blindness.not_mute("its server writes again", now)
        self._unsettled_us = self._unsettled_us if self._unsettled_us is not None else now.monotonic_us
        self._fed_us = now.monotonic_us
        self._recent.append((now.monotonic_us, units))
        self._unfinished = True
        self.dirty = True

    def tick(self, now: Now, *, partial_us: int, unread: int = 0) -> None:
        """Time has passed: read what has settled, and let the engine see how long things have waited.

        ``unread``: so much is known to be in the log. What it says is not known, so nothing follows from silence.
        """
        watched = self._begins(now)
        self._ticked_us, self._partial_us = now.monotonic_us, partial_us
        while self._recent and now.monotonic_us - self._recent[0][0] >= SETTLE_US:
            self._recent.popleft()
        if self._unfinished and now.monotonic_us - self._fed_us >= partial_us:
            self._reader.settle(partial=True)
            self._unfinished = False
            self._unsettled_us = None
            self.dirty = True
        elif self._unsettled_us is not None and (
            not self._recent or now.monotonic_us - self._unsettled_us >= SETTLE_AT_MOST_US
        ):
            self._reader.settle(newest=sum(size for _, size in self._recent))
            self._unsettled_us = self._recent[0][0] if self._recent else None
            self.dirty = True
        if self._unsettled_us is None and not unread:
            self.caught_up = True
            self._take_over(self._engine.tick(watched))

    def _begins(self, now: Now) -> Now:
        """What is fed next happens now; returns :meth:`_watched`."""
        watched = self._watched(now)
        self._engine.at(watched, written_us=now.monotonic_us if self.caught_up else None)
        return watched

    def _watched(self, now: Now) -> Now:
        """The time, but for what passed while this process stood still: it saw nothing then, and proves nothing by it.

        A machine that was paused, a stopped process: a server that shares its fate has not waited either.
        """
        if self._looked_us is None or now.monotonic_us - self._looked_us > EDGE_US:
            self.caught_up = False
        if self._looked_us is not None and self._engine.waits:
            self._lost_us += max(0, now.monotonic_us - self._looked_us - WAIT_US - LATE_US)
        self._looked_us, self._now = now.monotonic_us, now
        return Now(now.monotonic_us - self._lost_us, now.wall_us)

    def wants_us(self) -> int | None:
        """How soon :meth:`tick` should be called again; None where only new bytes matter."""
        if self._unsettled_us is not None:
            return SETTLE_US
        wants = WAIT_US if self._engine.waits else None
        if self._unfinished:
            left = max(SETTLE_US, self._fed_us + self._partial_us - self._ticked_us)
            return min(left, wants) if wants is not None else left
        return wants

    # -- hung requests --------------------------------------------------------------------------------------------

    def open_hangs(self) -> list[tuple[LifeState, Incident]]:
        """The requests that hang now in sleeping servers, each with its server's life."""
        return [
            (life, incident)
            for life in self._engine.lives
            if life.exit is None and life.ledger.phase is Phase.ASLEEP
            for incident in life.reported.values()
            if incident.kind == "hung-request" and incident.state == "open"
        ]

    def own_wake(self, life_key: str, type_: str, now: Now, *, words: str = "") -> None:
        """``wake.sent``: we are about to wake this life's server; ``wake.failed``: that freed nothing."""
        life = self._engine.life(life_key)
        if life is None or life.ledger.sleep is None:
            return
        self._begins(now)
        event = Event(
            type=type_,
            origin=life.origin,
            offset=0,
            text=printable(words).encode(),
            fields={"life": life_key, "words": words},
            clock_us=self.log_clock_us(life, now),
            wall_us=now.wall_us,
            source=f"{LIVE}wake",
        )
        self._observe(event, life.ledger.sleep.key, life.ledger.sleep.events)

    # -- what it found --------------------------------------------------------------------------------------------

    @property
    def urgent(self) -> bool:
        """It has found something that is to be stored at once."""
        return self._found.urgent

    def found(self) -> Found:
        """What was found and not yet :meth:`stored`."""
        self._ended += self._engine.drain_lives()
        self._found.lives = [*self._ended, *self._engine.current_lives()]
        return self._found

    def stored(self) -> None:
        """All that was found is stored, and so is the state."""
        self._found = Found()
        self._ended = []
        self.dirty = False

    @property
    def events(self) -> int:
        """Lines a rule recognised."""
        return self._engine.events

    @property
    def followed(self) -> set[str]:
        """The ids of the incidents that may still change."""
        return self._engine.followed

    @property
    def busy_lives(self) -> int:
        """Server lives in progress."""
        return len(self._engine.current_lives())

    def info(self) -> SourceInfo:
        """The log as reports and the store show it."""
        envelope = self._reader.envelope
        first, last = self._reader.wall_us
        return SourceInfo(
            source=self.path,
            envelope=envelope.name if envelope is not None else "bare",
            bytes=self._reader.bytes,
            first_us=first,
            last_us=last,
            time_from=self._reader.time_from,
        )

    def _missing(self, gap: Gap) -> None:
        """The follower could not deliver a stretch."""
        self._reader.settle()
        self._found.gaps.append(gap)
        self._telling = True
        self._reader.gap(gap.cause)
        self._telling = False
        self.dirty = True

    def _sink(self, event: Event) -> None:
        if event.type == "gap" and not self._telling:  # the log itself tells of lines that were dropped
            self._found.gaps.append(gap_of(event))
        if event.new_life and self._witnesses is not None:
            self._witnesses.deliver(self, self._now, at_once=True)
        self._take_over(self._engine.feed(event))

    def _take_over(self, output: Output) -> None:
        for transition in output.transitions:
            self.dirty = True
            if transition.withdrawn:
                self._found.takes_back(transition.incident, "what followed does not bear it out")
            else:
                self._found.changes(transition.incident, transition.before)
        if self._witnesses is not None and self.caught_up:
            for ask in output.asks:
                answer = self._witnesses.answer(self, ask, self._now)
                if answer is not None:
                    self.witnessed(answer, ask)

    # -- witnesses ------------------------------------------------------------------------------------------------

    def servers(self) -> Iterator[LifeState]:
        """The lives that go on and are known by name."""
        return (life for life in self._engine.lives if life.identified)

    @property
    def settled(self) -> bool:
        """All that came has been read and judged."""
        return self._unsettled_us is None

    def log_clock_us(self, life: LifeState, now: Now) -> int | None:
        """A life's log clock now; None where it carries none, and where nothing tells when its last line was written.

        By when that line came; where it was there before anybody looked, by its wall time.
        """
        last_us = life.ledger.last.clock_us
        if last_us is None or life.written_us is None:
            return own_clock(life, now.wall_us)
        return last_us + max(0, now.monotonic_us - life.written_us)

    def witnessed(self, event: Event, ask: Ask | None = None) -> None:
        """Something about one of its lives was seen, to a question or unasked."""
        self._observe(event, ask.sleep if ask is not None else None, ask.place if ask is not None else 0)

    def _observe(self, event: Event, sleep: str | None, place: int) -> None:
        self.dirty = True
        self._found.observations.append(
            Observation(
                source=self.path,
                life=event.fields["life"],
                sleep=sleep,
                place=place,
                seen_in=event.source,
                type=event.type,
                text=event.text.decode(),
                fields=event.fields,
                clock_us=event.clock_us,
                wall_us=event.wall_us,
            )
        )
        self._take_over(self._engine.feed(event))

    def _falls_asleep(self, now: Now) -> None:
        """By the words that came a server falls asleep: look at the connections before they are read any further."""
        if self._witnesses is not None and self.caught_up:
            awake = [life for life in self._engine.lives if life.exit is None and life.ledger.phase is not Phase.ASLEEP]
            ports = {port_of(life.ledger.port or life.origin.port) for life in awake}
            self._witnesses.hint([port for port in ports if port is not None], now)

    # -- blindness ------------------------------------------------------------------------------------------------

    def look_at_source(self, state: State, unread: int, now: Now, *, blind_us: int) -> None:
        """Is this log being read? (:meth:`Blindness.look`)."""
        self.blindness.look(state, unread, now, blind_us=blind_us)

    def silence_allowed_us(self) -> int | None:
        """How long nothing may come from a server that works, by what its log said last; None: for ever.

        A request in work can print nothing for a long time (long prompts; before b9151 every answer), and so can a
        load. A server that is asleep, by its log, has nothing to say.
        """
        allowed = SILENT_US
        for ledger in (life.ledger for life in self._engine.lives if life.exit is None):
            if ledger.phase is Phase.ASLEEP:
                return None
            if ledger.phase is not Phase.AWAKE or ledger.busy or ledger.queued:
                allowed = SILENT_AT_WORK_US
        return allowed

    def _sees_less(self, incident: Incident, before: Incident | None) -> None:
        self._found.changes(incident, before)
        self.dirty = True

    # -- over a restart -------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        """What a restart needs to go on from here."""
        return dump(
            {
                "engine": self._engine.state(),
                "reader": self._reader.state(),
                "file": self._file,
            }
        )

    def resume(self, data: bytes, now: Now) -> None:
        """Go on from a state that :meth:`state` gave. Raises StateError."""
        state = restore(data)
        try:
            self._reader.resume(state["reader"], local=LocalTimes(reference_us=now.wall_us))
            self._engine.resume(state["engine"])
            self._file = state["file"]
        except (KeyError, TypeError, AttributeError) as error:
            raise StateError(f"the saved state is damaged ({error})") from error
        self._unsettled_us = self._fed_us = now.monotonic_us
        self._unfinished = True


class LogWatch(SourceWatch):
    """Reads one growing log."""

    _reader: Reader

    def __init__(
        self,
        path: str,
        rules: RuleSet,
        gate: Gate,
        words: Mapping[str, Words],
        *,
        envelope: str | None = None,
        witnesses: Witnesses | None = None,
    ) -> None:
        super().__init__(path, words, witnesses)
        self._sleep_words = sleep_words(rules)
        self._reader = Reader(rules, self._sink, gate=gate, envelope=envelope, live=True)

    def take(self, piece: Piece, now: Now) -> None:
        """What a follower delivered."""
        self._begins(now)
        if piece.kind == "bytes":
            if any(words in piece.data for words in self._sleep_words):
                self._falls_asleep(now)
            if self._file != piece.file:
                self._open(piece, now)
            self._reader.feed(piece.data)
            self._fed(len(piece.data), piece.data.count(b"\n"), now, units=len(piece.data))
        elif piece.kind == "rotated":
            self.rotations += 1
            if self._file is not None:
                self._reader.close()
            self._file = None
            self.dirty = True
        elif piece.kind == "gap":
            self._missing(
                Gap(
                    source=self.path,
                    cause=piece.cause,
                    from_offset=piece.offset,
                    to_offset=piece.offset + piece.length if piece.length is not None else None,
                    from_us=now.wall_us,
                    to_us=now.wall_us,
                )
            )

    def _open(self, piece: Piece, now: Now) -> None:
        self._file = piece.file
        self._reader.open(self.path, local=LocalTimes(reference_us=now.wall_us), offset=piece.offset)


def sleep_words(rules: RuleSet) -> tuple[bytes, ...]:
    """One of these stands in every line that says that a server falls asleep."""
    patterns = [pattern for pattern in rules.patterns if pattern.event in ("sleep.enter", "sleep.entered")]
    return tuple({literal for pattern in patterns for literal in pattern.literals})
