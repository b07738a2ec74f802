"""The log files of Kubernetes' container runtimes (CRI): ``2026-11-30T05:46:44.659026123Z stderr F text``.

The tag is ``P`` for a piece of a line that goes on in the stream's next entry and ``F`` for its last or only piece
(kubernetes ``pkg/kubelet/kuberuntime/logs``); containerd and CRI-O cut at 16 KiB.
"""

from __future__ import annotations

import re

from sleepwatch.envelopes.base import DIGITS, LineFramed, Pieces
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes, rfc3339_us


class Cri(LineFramed):
    """``STAMP stdout|stderr P|F text``."""

    name = "cri"
    begins = DIGITS
    time_from = "the container runtime's stamps"
    pattern = re.compile(
        rb"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)"
        rb" (stdout|stderr) ([PF])(?::[^ \n]*)?(?: (.*))?(?:\n|\Z)",
        re.MULTILINE,
    )

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._pieces = Pieces()

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        day, clock, fraction, east, stream, tag, text = match.groups()
        wall = rfc3339_us(day, clock, fraction, east)
        if wall is None:
            return False
        if text is None:
            at, text = match.end(6), b""
        else:
            at = match.start(7)
        whole = tag == b"F"
        if whole and text[-1:] == b"\r":
            text = text[:-1]
        record = Record(text=text, offset=offset + at, wall_us=wall)
        if whole and not self._pieces.open:
            out.append(record)
        else:
            self._pieces.add(stream, record, out, more=not whole)
        return True

    def flush(self, out: list[Record]) -> None:
        """See Framed."""
        self._pieces.flush(out)
