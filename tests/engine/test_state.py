"""The engine's state survives being written and read again, wherever the reading is cut."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from sleepwatch.engine import Engine
from sleepwatch.engine.state import StateError, dump, restore
from sleepwatch.model import Event, Incident
from sleepwatch.reader import Reader
from sleepwatch.rules import load, load_incidents
from sleepwatch.scan import engine_words
from sleepwatch.sources.archives import open_plain

CORPUS = Path(__file__).parent.parent / "corpus"
RECORDINGS = {
    "b11368-default-abandon/server.log": 7,
    "b11368-lv5-rescue/server.log.gz": 6,
    "b11368-router-abandon/server.log": 0,
    "journal-two-units-json/journal.json.gz": 6,
    "x11549-crash-default/server.log": 12,
    "x2026.5.9093-chat-rescue/server.log": 5,
}


def events_of(path: Path) -> list[Event]:
    events: list[Event] = []
    reader = Reader(load(), events.append)
    reader.open(str(path))
    with open_plain(path) as stream:
        reader.feed(stream.read())
    reader.close()
    reader.finish()
    return events


def incidents_of(events: list[Event], cut: int | None = None) -> dict[str, Incident]:
    words = engine_words(load_incidents())
    engine = Engine(words)
    found: dict[str, Incident] = {}
    for at, _ in enumerate(events):
        if at == cut:
            saved = restore(dump({"engine": engine.state(), "rest": events[at:]}))
            engine = Engine(words)
            engine.resume(saved["engine"])
            events = events[:at] + saved["rest"]
        for transition in engine.feed(events[at]).transitions:
            found[transition.incident.id] = transition.incident
            if transition.withdrawn:
                del found[transition.incident.id]
    for transition in engine.finish().transitions:
        found[transition.incident.id] = transition.incident
        if transition.withdrawn:
            del found[transition.incident.id]
    return found


@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_restart_anywhere_changes_nothing(recording: str) -> None:
    events = events_of(CORPUS / recording)
    whole = incidents_of(copy.deepcopy(events))
    assert len(whole) == RECORDINGS[recording]
    for cut in range(0, len(events), max(1, len(events) // 12)):
        assert incidents_of(copy.deepcopy(events), cut) == whole, f"cut before event {cut}"


def test_damaged_state_is_refused() -> None:
    events = events_of(CORPUS / "b11368-default-abandon/server.log")
    engine = Engine(engine_words(load_incidents()))
    for event in events:
        engine.feed(event)
    data = dump(engine.state())
    for at in range(0, len(data), 37):
        try:
            restore(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        except StateError:
            continue
    with pytest.raises(StateError):
        restore(data[: len(data) // 2])
    with pytest.raises(StateError):
        restore(b"")


def test_an_unknown_class_is_refused_when_written() -> None:
    with pytest.raises(TypeError, match="Path"):
        dump({"x": Path("x")})
