"""Does the evidence of an incident still stand where it was found?

A piece of evidence is a place in a source (a byte offset in its decompressed bytes), the text that matched there, and
the length and hash of what followed on the line. Rotation renames and compresses files without moving a byte in them,
so the other pieces of the log are looked through as well. In a journal the place is the time at which journald received
the entry.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import msgspec

from sleepwatch.envelopes import detect
from sleepwatch.envelopes.base import HEAD_LIMIT
from sleepwatch.errors import SourceError
from sleepwatch.model import LIVE, Evidence, Incident
from sleepwatch.prefix import ANSI
from sleepwatch.printable import printable
from sleepwatch.reader.bare import NO_NEWLINE
from sleepwatch.reader.window import REACH
from sleepwatch.report.times import wall_words
from sleepwatch.sources.archives import open_plain, read_block
from sleepwatch.sources.journal import NAME as JOURNAL
from sleepwatch.sources.journal import Journal, Which
from sleepwatch.sources.journal_open import open_journal
from sleepwatch.sources.journal_units import Units
from sleepwatch.sources.sets import beside

STANDS, CHANGED, UNREADABLE, SEEN_LIVE = "stands", "changed", "unreadable", "seen live"

_BLOCK = 1 << 20
_ENTRY_TEXT = 512
"""Of an entry that is known by its fields, so much text is kept."""
_PREFIX = 256
"""A line begins at most this far before its evidence: the router's ports, colours."""


class Check(msgspec.Struct, frozen=True):
    """What became of one piece of evidence."""

    evidence: Evidence
    state: str
    """``stands``, ``changed``, ``unreadable``, or ``seen live``: it is in no log."""
    why: str | None = None
    """Where it does not stand: one sentence."""
    found_in: str | None = None
    """The file it stands in, where that is another one than it was found in."""


def verify(incident: Incident) -> list[Check]:
    """Read the place of each piece of evidence again, in the order of the evidence. Never raises."""
    by_source: dict[str, list[Evidence]] = {}
    for evidence in incident.evidence:
        by_source.setdefault(evidence.source, []).append(evidence)
    checks: dict[Evidence, Check] = {}
    for source, wanted in by_source.items():
        for check in _source(source, wanted):
            checks[check.evidence] = check
    return [checks[evidence] for evidence in incident.evidence]


def _source(source: str, wanted: list[Evidence]) -> Iterator[Check]:
    if source == "-":
        why = "it was read from standard input, which cannot be read again"
        yield from (Check(evidence, UNREADABLE, why) for evidence in wanted)
        return
    if source.startswith(LIVE):
        yield from (Check(evidence, SEEN_LIVE) for evidence in wanted)
        return
    if source.startswith(JOURNAL):
        yield from _journal(source, wanted)
        return
    path = Path(source)
    standing, trouble = _standing(path, wanted)
    yield from (Check(evidence, STANDS) for evidence in wanted if evidence in standing)
    missing = [evidence for evidence in wanted if evidence not in standing]
    for other in beside(path) if missing else ():
        found, _ = _standing(other, missing)
        yield from (Check(evidence, STANDS, found_in=str(other)) for evidence in missing if evidence in found)
        missing = [evidence for evidence in missing if evidence not in found]
    for evidence in missing:
        if trouble is not None:
            yield Check(evidence, UNREADABLE, trouble)
        else:
            yield Check(evidence, CHANGED, f"its text does not stand at byte {evidence.offset} of {source} any more")


def _journal(source: str, wanted: list[Evidence]) -> Iterator[Check]:
    """By the entries journald received at the time itself."""
    try:
        with closing(open_journal(Which.named(source), Units())) as journal:
            for evidence in wanted:
                journal.begin((), evidence.offset - _PREFIX)
                if any(_is_it(text, evidence) for text in _received(journal, evidence.offset)):
                    yield Check(evidence, STANDS)
                else:
                    why = f"no entry with its text was received at {wall_words(evidence.offset)} in {source} any more"
                    yield Check(evidence, CHANGED, why)
    except SourceError as error:
        yield from (Check(evidence, UNREADABLE, str(error)) for evidence in wanted)


def _received(journal: Journal, time_us: int) -> Iterator[bytes]:
    """What stands behind a prefix of some bytes in the entries that were received so many microseconds earlier."""
    while not journal.at_end:
        for record in journal.read(16):
            if record.offset > time_us:
                return
            yield record.text[time_us - record.offset :]


def _standing(path: Path, wanted: list[Evidence]) -> tuple[set[Evidence], str | None]:
    """Which of the evidence stands in this file, and why the file could not be read to all of its places."""
    try:
        with open_plain(path) as stream:
            standing = _as_written(stream, wanted, path)
        missing = [evidence for evidence in wanted if evidence not in standing]
        if missing:
            with open_plain(path) as stream:
                standing |= _unwrapped(stream, missing, path)
    except SourceError as error:
        return set(), str(error)
    return standing, None


def _as_written(stream: BinaryIO, wanted: Iterable[Evidence], path: Path) -> set[Evidence]:
    """By the bytes at the place itself: right wherever the carrier leaves the text as it is."""
    standing: set[Evidence] = set()
    buffer, begin = b"", 0
    for evidence in sorted(wanted, key=lambda one: one.offset):
        while begin + len(buffer) < evidence.offset + 2 * REACH and (block := read_block(stream, _BLOCK, str(path))):
            passed = min(max(0, evidence.offset - begin), len(buffer))
            buffer, begin = buffer[passed:] + block, begin + passed
        at = evidence.offset - begin
        if _is_it(buffer[at : at + 2 * REACH].split(b"\n", 1)[0], evidence):
            standing.add(evidence)
    return standing


def _unwrapped(stream: BinaryIO, wanted: Iterable[Evidence], path: Path) -> set[Evidence]:
    """By the records of its carrier: where that escapes the text, or cuts it in pieces."""
    head = read_block(stream, HEAD_LIMIT, str(path))
    envelope = detect(head)
    standing: set[Evidence] = set()
    if envelope.name == "bare":
        return standing
    places = sorted(wanted, key=lambda one: one.offset)
    offsets = [evidence.offset for evidence in places]
    rest, at, block = b"", 0, head
    while block:
        data = rest + block
        cut = data.rfind(b"\n") + 1
        rest, records = data[cut:], envelope.feed(data[:cut], at) if cut else []
        at += cut
        block = read_block(stream, _BLOCK, str(path))
        if not block:
            records += (envelope.feed(rest, at) if rest else []) + envelope.finish()
        for record in records:
            for place in range(bisect_right(offsets, record.offset - 1), len(places)):
                begin = offsets[place] - record.offset
                if begin > len(record.text):
                    break
                if _is_it(record.text[begin:], places[place]):
                    standing.add(places[place])
    return standing


def _is_it(line: bytes, evidence: Evidence) -> bool:
    """Does the line begin with the evidence's text, go on with the rest that was hashed, and end there?"""
    plain = ANSI.sub(b"", line) if b"\x1b" in line else line
    plain = plain.removesuffix(b"\r")
    end = _end_of(evidence.text, plain)
    if end is None:
        return False
    behind = end + evidence.rest_bytes
    if evidence.rest_bytes and hashlib.sha256(plain[end:behind]).hexdigest() != evidence.rest_sha256:
        return False
    return (
        not plain[behind:].strip()
        or plain[:behind].endswith(NO_NEWLINE)  # the next line follows on this one
        or behind >= REACH - _PREFIX  # no more of the line was read
        or (not evidence.rest_bytes and end == _ENTRY_TEXT)
    )


def _end_of(text: str, line: bytes) -> int | None:
    """Where in the line the shown text ends; None where the line does not begin with it."""
    shown = 0
    characters = ""
    for character in line[: 4 * len(text)].decode("utf-8", "surrogateescape"):
        if shown >= len(text):
            break
        characters += character
        shown += len(printable(character))
    return len(characters.encode("utf-8", "surrogateescape")) if printable(characters) == text else None
