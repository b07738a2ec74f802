"""The daemon, driven by hand: a clock that goes as the lines' own stamps go, and one look after the other."""

from __future__ import annotations

import functools
import itertools
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sleepwatch.config import FileSource, Following, Notify, Settings, Target
from sleepwatch.daemon import service as daemon
from sleepwatch.daemon.service import Service
from sleepwatch.engine import Now
from sleepwatch.envelopes import detect
from sleepwatch.envelopes.base import HEAD_LIMIT, Framed
from sleepwatch.model import Incident, ScanResult
from sleepwatch.prefix import Head, split
from sleepwatch.scan import scan
from sleepwatch.store import open_store
from sleepwatch.times import LocalTimes
from tests.reader.reading import gate, rules

START_US = 1_796_000_000_000_000
"""A wall time in November 2026."""
SECOND = 1_000_000


class FakeClock:
    """Both clocks, moved by hand."""

    def __init__(self, *, monotonic_us: int = 10_000 * SECOND, wall_us: int = START_US) -> None:
        self.monotonic_us = monotonic_us
        self.wall_us = wall_us

    def now(self) -> Now:
        """Both, at one moment."""
        return Now(self.monotonic_us, self.wall_us)

    def advance(self, us: int) -> None:
        """Time passes."""
        self.monotonic_us += us
        self.wall_us += us


def share_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the rules and compile the search once for all services of this process."""
    monkeypatch.setattr(daemon, "load", rules)
    monkeypatch.setattr(daemon, "Gate", lambda literals: gate())


class Driven:
    """A service on one or more logs, with all it says."""

    def __init__(
        self,
        database: Path,
        logs: Sequence[Path | str],
        clock: FakeClock | None = None,
        *,
        following: Following | None = None,
        reload: Callable[[], Settings] | None = None,
        notifier: Any = None,
        notify: Notify | None = None,
        targets: Sequence[Target] = (),
        witnesses: Any = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.said: list[str] = []
        self.complained: list[str] = []
        settings = Settings(
            file=tuple(FileSource(path=str(log)) for log in logs),
            following=following or Following(),
            notify=notify or Notify(),
            target=tuple(targets),
        )
        self.service = Service(
            settings,
            database,
            self.clock,
            say=self.said.append,
            complain=self.complained.append,
            reload=reload,
            notifier=notifier,
            witnesses=witnesses,
        )
        self.wait_us = 0

    def __enter__(self) -> Driven:
        self.service.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.service.stop()

    def kill(self) -> None:
        """End as ``kill -9`` does: nothing more is stored, and the kernel takes everything back."""
        service = self.service
        for part in (service._followers, service._notices, service._publisher):
            if part is not None:
                part.close()
        if service._store is not None:
            service._store.close()
        if service._lock is not None:
            os.close(service._lock)

    def step(self) -> int:
        """One look; how long it would wait."""
        self.wait_us = self.service.step()
        return self.wait_us

    def run_for(self, us: int) -> None:
        """Let time pass as ``run`` would: look, wait as long as it wants, look again. Ends with a look."""
        end = self.clock.monotonic_us + us
        while self.clock.monotonic_us < end:
            self.step()
            self.clock.advance(max(100, min(self.wait_us, end - self.clock.monotonic_us)))
        self.step()


# -- writes ----------------------------------------------------------------------------------------------------------


class Write(NamedTuple):
    """Some bytes, and when they are written, in microseconds since the first."""

    at_us: int
    data: bytes


def paced(data: bytes, *, pasted: bool = False) -> list[Write]:
    """A log's entries, each at the moment its own stamps give.

    In a log without stamps lines come 3 ms apart. With ``pasted`` they come all at once, and in a log with stamps those
    do behind a debug record or text between which the clock leaves its course and comes back to it: text is printed in
    one go.
    """
    head = data[:HEAD_LIMIT]
    envelope = detect(head[: head.rfind(b"\n") + 1] or head, local=LocalTimes(year=2026))
    return _paced_bare(data, pasted=pasted) if envelope.name == "bare" else _paced_framed(data, envelope)


def _paced_bare(data: bytes, *, pasted: bool) -> list[Write]:
    writes: list[Write] = []
    moment = 0
    bases: dict[str | None, int] = {}
    last: dict[str | None, int] = {}
    lines = data.splitlines(keepends=True)
    heads = [split(line[:4096].rstrip(b"\r\n")) for line in lines]
    stamped = sum(head.clock_us is not None for head in heads) * 2 > len(heads)
    in_text = 0
    for at, (line, head) in enumerate(zip(lines, heads, strict=True)):
        clock, ports = head.clock_us if stamped else None, head.ports
        if clock is not None and at >= in_text:
            before = last.get(ports)
            may_be_text = pasted and at and (heads[at - 1].clock_us is None or heads[at - 1].level == "D")
            if may_be_text and before is not None and abs(clock - before) > SECOND:
                in_text = _end_of_text(heads, at, before)
            if at >= in_text:
                if before is None or clock < before - SECOND:
                    bases[ports] = moment + 50_000 * bool(bases) - clock  # another process
                last[ports] = clock
                moment = max(moment, bases[ports] + clock)
        elif clock is None and not stamped and not pasted:
            moment += 3_000
        writes.append(Write(moment, line))
    return writes


def _end_of_text(heads: list[Head], at: int, before_us: int) -> int:
    """The line at which the clock is back where it was; ``at`` where it does not come back."""
    for there in range(at, min(len(heads), at + 600)):
        clock = heads[there].clock_us
        if clock is not None and before_us <= clock <= before_us + 2 * SECOND:
            return there
    return at


def _paced_framed(data: bytes, envelope: Any) -> list[Write]:
    assert isinstance(envelope, Framed)
    starts = [*envelope.starts(data), len(data)]
    if starts[0]:
        starts.insert(0, 0)
    records = [(r.offset, r.wall_us) for r in [*envelope.feed(data, 0), *envelope.finish()] if r.wall_us is not None]
    first = records[0][1] if records else 0
    writes = []
    moment = index = 0
    for start, end in itertools.pairwise(starts):
        moment += 3_000 * (not records)
        while index < len(records) and records[index][0] < end:
            moment = max(moment, records[index][1] - first)
            index += 1
        writes.append(Write(moment, data[start:end]))
    return writes


def feed(driven: Driven, log: Path, writes: Iterable[Write], *, after_us: int = 10 * SECOND) -> None:
    """Append these writes at their moments while the service runs; then let some time pass."""
    start = driven.clock.monotonic_us
    for write in writes:
        ahead = start + write.at_us - driven.clock.monotonic_us
        if ahead > 0:
            driven.run_for(ahead)
        with log.open("ab") as file:
            file.write(write.data)
        driven.step()
    driven.run_for(after_us)


# -- what came of it --------------------------------------------------------------------------------------------------

ENDS = {"unresolved": "open", "down": "open"}
"""A log that ends says how things stood; a log that goes on leaves them open. So it is with a crash loop whose last
process is starting when the log ends."""


def told(incident: Incident) -> dict[str, Any]:
    """What must be the same of an incident, however it was found."""
    return {
        "kind": incident.kind,
        "confidence": incident.confidence,
        "task": incident.task,
        "state": ENDS.get(incident.state, incident.state) if incident.kind != "crash-loop" else "open",
        "server": incident.server,
        "signal": incident.signal,
        "in_flight": incident.in_flight,
        "count": incident.count,
        "log": (incident.log_opened_us, incident.log_closed_us),
        "wall": (incident.opened_us, incident.closed_us),
        "evidence": sorted({(e.role, e.clock_us, e.text) for e in incident.evidence}, key=str),
    }


def stored(database: Path) -> dict[str, dict[str, Any]]:
    """All incidents of a database that were not taken back, the blind ones apart."""
    with open_store(database, read_only=True) as store:
        return {i.id: told(i) for i in store.incidents(possible=True) if i.kind != "blind"}


def scanned(result: ScanResult) -> dict[str, dict[str, Any]]:
    """The same of a scan."""
    return {i.id: told(i) for i in result.incidents}


def scan_of(data: bytes) -> dict[str, dict[str, Any]]:
    """What a scan finds in a file of these bytes."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "server.log"
        path.write_bytes(data)
        return scanned(scan([path], rules=rules()))


def difference(live: dict[str, dict[str, Any]], whole: dict[str, dict[str, Any]]) -> list[Any]:
    """What differs, short enough to read."""
    out: list[Any] = []
    for key in sorted(live.keys() | whole.keys()):
        one, other = live.get(key), whole.get(key)
        if one is None or other is None:
            out.append(("live only" if other is None else "scan only", one or other))
        elif one != other:
            out.append((key, {name: (one[name], other[name]) for name in one if one[name] != other[name]}))
    return out


@functools.cache
def _template() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "empty.db"
        open_store(path).close()
        return path.read_bytes()


def new_database(path: Path) -> Path:
    """An empty database, made quickly."""
    path.write_bytes(_template())
    path.chmod(0o600)
    return path


# -- how writers write ------------------------------------------------------------------------------------------------


def torn(writes: Sequence[Write], choose: random.Random, *, share: float, longest_us: int) -> list[Write]:
    """Some of the writes cut in two, the second half written up to ``longest_us`` later; what follows waits for it."""
    out: list[Write] = []
    late = 0
    for write in writes:
        at = max(write.at_us, late)
        if len(write.data) > 1 and choose.random() < share:
            cut = choose.randrange(1, len(write.data))
            late = at + choose.randrange(longest_us)
            out += [Write(at, write.data[:cut]), Write(late, write.data[cut:])]
        else:
            out.append(Write(at, write.data))
    return out


def blocks(writes: Sequence[Write], size: int) -> list[Write]:
    """As a pipe's standard I/O buffers: nothing is written until a block is full."""
    out = []
    waiting = b""
    for write in writes:
        waiting += write.data
        while len(waiting) >= size:
            out.append(Write(write.at_us, waiting[:size]))
            waiting = waiting[size:]
    return [*out, Write(writes[-1].at_us, waiting)] if waiting else out
