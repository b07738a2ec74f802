"""No envelope: the server's own lines, as its standard error or ``--log-file`` has them."""

from __future__ import annotations

from sleepwatch.envelopes.base import Framed
from sleepwatch.model import Record


class Bare(Framed):
    """Every line is the program's own. Readers treat it specially, without a record for each line."""

    name = "bare"
    strict = False

    def read(self, block: bytes, offset: int, out: list[Record]) -> None:
        """See Framed."""
        for line in block.split(b"\n"):
            text = line[:-1] if line.endswith(b"\r") else line
            if text:
                out.append(Record(text=text, offset=offset))
            offset += len(line) + 1

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed. It fits every line, so that proves nothing."""
        return 0
