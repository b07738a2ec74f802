"""A journal whose reader cannot work: tried again ever more rarely, and never taken for one that is read."""

from __future__ import annotations

import pytest

from sleepwatch.errors import SourceError
from sleepwatch.model import Record
from sleepwatch.sources.journal import Entry, Place, Start, Terms, Which
from sleepwatch.sources.journal_follow import CALM_US, RETRY_US, JournalFollower
from sleepwatch.sources.journal_units import Units

SECOND = 1_000_000


class FakeJournal:
    """Starts, and ends with an error some time later, as a journalctl does that lacks something."""

    way = "journalctl"
    holds = False

    def __init__(self, host: Host) -> None:
        self.host = host
        self.place: Place | None = None
        self.at_end = True
        self.entries = 0
        self.begun_us = host.now_us
        host.started += 1

    def unique(self, field: str) -> set[str]:
        return set()

    def first(self, terms: Terms, start: Start = "head") -> Entry | None:
        return None

    def last(self, terms: Terms, before_us: int | None = None) -> Entry | None:
        return None

    def begin(self, terms: Terms, start: Start, *, after: bool = False) -> None:
        pass

    def read(self, limit: int) -> list[Record]:
        if self.host.lives_us is not None and self.host.now_us - self.begun_us >= self.host.lives_us:
            raise SourceError("journal:system: journalctl ended with status 1: Failed to get boot id")
        records, self.host.records = self.host.records, []
        self.entries += len(records)
        return records

    def changed(self) -> bool:
        return False

    def flush(self) -> list[Record]:
        return []

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        pass


class Host:
    """A follower, and time."""

    def __init__(self) -> None:
        self.now_us = 1_000 * SECOND
        self.lives_us: int | None = SECOND // 2
        """How long a reader works."""
        self.records: list[Record] = []
        self.started = 0
        self.follower = JournalFollower(Which(), Units(["llama"]), None, open_=lambda *_, **__: FakeJournal(self))

    def run(self, seconds: float) -> set[str]:
        """The states it was in."""
        states = set()
        for _ in range(round(seconds * 4)):
            self.follower.poll(self.now_us, self.now_us, 1_000)
            states.add(self.follower.state.name)
            self.now_us += SECOND // 4
        return states


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_reader_that_ends_again_and_again_is_an_error_all_the_time(host: Host) -> None:
    host.run(1)
    failed_us = host.follower.state.since_us
    assert host.run(300) == {"error"}
    assert host.follower.state.since_us == failed_us
    assert "Failed to get boot id" in host.follower.state.reason


def test_it_is_tried_ever_more_rarely(host: Host) -> None:
    host.run(300)
    assert host.started <= len(RETRY_US) + 300 * SECOND // RETRY_US[-1] + 1


def test_it_is_read_again_when_entries_come(host: Host) -> None:
    host.run(60)
    host.lives_us = None
    host.records = [Record(text=b"a line", offset=0)]
    host.run(RETRY_US[-1] / SECOND + 1)
    assert host.follower.state.name == "following"


def test_it_is_read_again_when_nothing_failed_for_a_while(host: Host) -> None:
    host.run(60)
    host.lives_us = None
    host.run(RETRY_US[-1] / SECOND)
    started_us = host.now_us
    while host.follower.state.name != "following":
        host.run(0.25)
        assert host.now_us - started_us <= CALM_US + SECOND
    assert host.follower.state.reason == ""
