"""Reading bytes in tests: in pieces of any size, with or without the vectorised search, to events and to incidents."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import settings

from sleepwatch.engine import Engine
from sleepwatch.model import Event, Incident, Life
from sleepwatch.reader import Gate, Reader
from sleepwatch.rules import RuleSet, load, load_incidents
from sleepwatch.scan import engine_words
from sleepwatch.sources.archives import open_plain


class Reading(NamedTuple):
    """What one reading found."""

    events: list[Event]
    incidents: dict[str, Incident]
    lives: list[Life]

    @property
    def sure(self) -> list[Incident]:
        """The incidents above ``possible``."""
        return [incident for incident in self.incidents.values() if incident.confidence != "possible"]


@functools.cache
def rules() -> RuleSet:
    """The shipped rules, loaded once."""
    return load()


@functools.cache
def gate(vectorised: bool = True) -> Gate:
    """The search over their literals."""
    return Gate(rules().literals, vectorised=vectorised)


@functools.cache
def _words() -> Any:
    return engine_words(load_incidents())


def read(pieces: Iterable[bytes], *, vectorised: bool = True, envelope: str | None = None) -> Reading:
    """Read a log that comes in these pieces."""
    engine = Engine(_words())
    events: list[Event] = []
    incidents: dict[str, Incident] = {}

    def take(output: Any) -> None:
        for transition in output.transitions:
            if transition.withdrawn:
                incidents.pop(transition.incident.id, None)
            else:
                incidents[transition.incident.id] = transition.incident

    def sink(event: Event) -> None:
        events.append(event)
        take(engine.feed(event))

    reader = Reader(rules(), sink, gate=gate(vectorised), envelope=envelope)
    reader.open("server.log")
    for piece in pieces:
        reader.feed(piece)
    reader.close()
    reader.finish()
    take(engine.finish())
    return Reading(events, incidents, engine.drain_lives())


def examples(number: int) -> settings:
    """So many examples; with HYPOTHESIS_PROFILE=explore fifty times as many."""
    return settings(max_examples=number * 50 if settings().max_examples > 1_000 else number)


def cut(data: bytes, sizes: Iterator[int] | list[int]) -> Iterator[bytes]:
    """``data`` in pieces of these sizes, over and over."""
    if isinstance(sizes, list):
        sizes = iter(sizes * (len(data) // max(1, sum(sizes)) + 1))
    at = 0
    for size in sizes:
        if at >= len(data):
            return
        yield data[at : at + size]
        at += size
    if at < len(data):
        yield data[at:]


@functools.cache
def recording(name: str) -> bytes:
    """The log of a recording, as plain bytes."""
    folder = Path(__file__).parent.parent / "corpus" / name
    [path] = [p for p in folder.iterdir() if p.name.startswith(("server.log", "journal."))]
    with open_plain(path) as stream:
        return stream.read()


@functools.cache
def whole(name: str) -> Reading:
    """A recording, read in one piece."""
    return read([recording(name)])


RECORDINGS = sorted(p.name for p in (Path(__file__).parent.parent / "corpus").iterdir() if p.is_dir())
BARE = [name for name in RECORDINGS if not name.startswith("journal-")]
