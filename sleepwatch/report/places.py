"""Where evidence stands in its source: line numbers and the unshown rest of a line, looked up only to be printed.

Reading works with byte offsets. A person wants a line number; counting one costs a second look at the source up to the
last evidence in it, so it is done once per source and only for what is shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from sleepwatch.model import Evidence, ScanResult
from sleepwatch.sources.lines import LONGEST_LINE, count_lines

Opener = Callable[[str], BinaryIO | None]
"""Opens a source by its name, decompressed, at its first byte; None where it cannot be read a second time."""


def line_numbers(result: ScanResult, opener: Opener, *, block_bytes: int = 1 << 20) -> ScanResult:
    """The same result with ``line`` set on all evidence whose source ``opener`` can open. The first line is 1."""
    numbers: dict[tuple[str, int], int] = {}
    for source, evidence in _by_source(result):
        stream = opener(source)
        if stream is None:
            continue
        with stream:
            offsets = sorted({one.offset for one in evidence})
            numbers.update({(source, offset): line for offset, line in count_lines(stream, offsets, block_bytes)})

    def numbered(evidence: Evidence) -> Evidence:
        return msgspec.structs.replace(evidence, line=numbers.get((evidence.source, evidence.offset), evidence.line))

    incidents = tuple(
        msgspec.structs.replace(incident, evidence=tuple(numbered(one) for one in incident.evidence))
        for incident in result.incidents
    )
    return msgspec.structs.replace(result, incidents=incidents)


def raw_texts(result: ScanResult, opener: Opener) -> dict[tuple[str, int], str]:
    """What follows the matched part on each evidence line, by (source, offset), read again from its source.

    Only a rest whose length and hash are those recorded is returned: where a carrier escaped the line, or the source
    has changed since, there is none. Bytes that are not UTF-8 are shown as ``\\xNN``.
    """
    texts: dict[tuple[str, int], str] = {}
    for source, evidence in _by_source(result):
        wanted = {one.offset: one for one in evidence if one.rest_bytes and one.rest_sha256}
        stream = opener(source) if wanted else None
        if stream is None:
            continue
        with stream:
            for offset in sorted(wanted):
                rest = _rest(stream, wanted[offset])
                if rest is not None:
                    texts[source, offset] = rest.decode("utf-8", "backslashreplace")
    return texts


def _by_source(result: ScanResult) -> Iterator[tuple[str, list[Evidence]]]:
    sources: dict[str, list[Evidence]] = {}
    for incident in result.incidents:
        for evidence in incident.evidence:
            sources.setdefault(evidence.source, []).append(evidence)
    yield from sources.items()


def _rest(stream: BinaryIO, evidence: Evidence) -> bytes | None:
    """The rest of the evidence's line, if it is still the one that was hashed."""
    stream.seek(evidence.offset)
    line = stream.readline(evidence.rest_bytes + LONGEST_LINE)
    ends = (
        len(evidence.text.encode()) + evidence.rest_bytes,  # also where two lines stand glued together
        len(line.rstrip(b"\n")),  # where escapes make the shown text longer than the matched one
        len(line.rstrip(b"\r\n")),
    )
    for end in ends:
        rest = line[max(0, end - evidence.rest_bytes) : end]
        if hashlib.sha256(rest).hexdigest() == evidence.rest_sha256:
            return rest
    return None
