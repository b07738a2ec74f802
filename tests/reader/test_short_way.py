"""The short way through a carrier's records: what it finds is what the long way finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.engine import Engine, Output
from sleepwatch.model import Event, Incident, Record
from sleepwatch.reader.journal import JournalLog
from sleepwatch.reader.steady import SUMMED
from sleepwatch.rules import load_incidents
from sleepwatch.scan import engine_words
from tests.bench.logs import make
from tests.reader.reading import BARE, examples, gate, recording, rules

WALL_US = 1_796_017_604_660_139


def records(data: bytes, *, pid: int = 40, step_us: int = 101) -> list[Record]:
    """The lines of a bare log as a journal's records, of one writer."""
    fields = {"_TRANSPORT": "stdout", "_STREAM_ID": f"{pid:032x}"}
    return [
        Record(
            text=line, offset=WALL_US + at * step_us, wall_us=WALL_US + at * step_us, host="gpubox",
            unit=f"llama-{pid}.service", ident="llama-server", pid=pid, boot="b", invocation=f"{pid:032x}",
            fields=fields,
        )
        for at, line in enumerate(data.split(b"\n"))
        if line
    ]  # fmt: skip


class Reading:
    """What reading them gives."""

    def __init__(self, given: list[Record], size: int, *, short: bool) -> None:
        self.events: list[Event] = []
        self.incidents: dict[str, Incident] = {}
        self._engine = Engine(engine_words(load_incidents()))
        log = JournalLog(rules(), self._event, "j", gate=gate(), trace=None if short else lambda look: None)
        for at in range(0, len(given), size):
            log.feed(given[at : at + size])
        log.finish()
        self._take(self._engine.finish())
        self.lives = self._engine.drain_lives()

    @property
    def decisive(self) -> list[Event]:
        """The events that are never summed up, but for their numbers."""
        for event in self.events:
            event.seq = 0
            event.origin.parent = None
        return [event for event in self.events if event.type not in (*SUMMED, "requests.run")]

    @property
    def launched(self) -> int:
        """How many launches."""
        alone = sum(event.type == "request.launched" and not event.fields.get("child") for event in self.events)
        return alone + sum(event.fields["launched"] for event in self.events if event.type == "requests.run")

    def _event(self, event: Event) -> None:
        self.events.append(event)
        self._take(self._engine.feed(event))

    def _take(self, output: Output) -> None:
        for one in output.transitions:
            if one.withdrawn:
                self.incidents.pop(one.incident.id, None)
            else:
                self.incidents[one.incident.id] = one.incident


def told(events: list[Event]) -> list[tuple[object, ...]]:
    return [
        (e.type, e.offset, e.text, e.fields, e.clock_us, e.wall_us, e.rest, e.pattern, e.new_life, e.doubtful,
         e.origin.unit, e.origin.port)
        for e in events
    ]  # fmt: skip


def same(given: list[Record], size: int) -> tuple[Reading, Reading]:
    short, long = Reading(given, size, short=True), Reading(given, len(given), short=False)
    assert told(short.decisive) == told(long.decisive)
    assert short.incidents == long.incidents
    assert short.lives == long.lives
    assert short.launched == long.launched
    return short, long


@pytest.mark.parametrize("name", BARE)
def test_a_recording_as_a_journal(name: str) -> None:
    same(records(recording(name)), 500)


@pytest.mark.parametrize("kind", ["default", "verbose", "tokens"])
def test_a_busy_server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Many of its lines are summed up: there is a short way, and it is taken."""
    log = make(kind, 1, tmp_path_factory.mktemp("logs"))
    short, long = same(records(log.path.read_bytes()), 500)
    assert len(short.events) < len(long.events)


@given(st.data())
@examples(25)
def test_writers_take_turns(data: st.DataObject) -> None:
    """Two servers' lines between each other, in stretches of any length, in pieces of any size."""
    one = records(recording(data.draw(st.sampled_from(BARE))), pid=40)
    other = records(recording(data.draw(st.sampled_from(BARE))), pid=41)
    lengths = data.draw(st.lists(st.integers(1, 120), min_size=1, max_size=8))
    mixed: list[Record] = []
    turn = 0
    while one or other:
        length = lengths[turn % len(lengths)]
        mixed += one[:length]
        one, other, turn = other, one[length:], turn + 1
    same(mixed, data.draw(st.integers(1, 700)))
