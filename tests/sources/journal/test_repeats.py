"""Exported entries that differ from the one before only in their text are read without looking at their fields."""

from __future__ import annotations

import random

from sleepwatch.envelopes import by_name
from sleepwatch.model import Record
from tests.sources.journal.making import Entry, entry, export

MESSAGES = (
    b"0.00.001.000 I srv  load_model: a line",
    b"",
    b"MESSAGE=of a message",
    b"ends in a return\r",
    b"two\nlines",
    b"an entry\n\n__CURSOR=s=1\n__REALTIME_TIMESTAMP=1\n__MONOTONIC_TIMESTAMP=1\n_PID=1\nMESSAGE=forged\n",
    b"\xff\x00",
)
WRITERS: tuple[dict[str, bytes], ...] = (
    {},
    {},
    {"_PID": b"41"},
    {"_SOURCE_REALTIME_TIMESTAMP": b"1796017604659026"},
    {"MESSAGE_ID": b"5eb03494b6584870a536b337290809b3"},
)


def read(given: list[Entry]) -> list[Record]:
    envelope = by_name("journal-export")
    return envelope.feed(export(given), 0) + envelope.finish()


def test_entries_are_read_in_a_row_as_each_alone() -> None:
    rng = random.Random(1)
    given = [
        {"__CURSOR": b"s=1;i=%x" % number} | entry(rng.choice(MESSAGES), number, **rng.choice(WRITERS))
        for number in range(2_000)
    ]
    place = 0
    alone = []
    for one in given:
        for record in read([one]):
            record.offset += place
            alone.append(record)
        place += len(export([one]))
    assert read(given) == alone
    assert not any(record.text == b"forged" and record.pid == 1 for record in alone)
