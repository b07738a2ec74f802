"""``docker compose logs`` and ``up``: ``name  | text``, the names padded to one width, coloured on a terminal.

With ``-t`` a stamp stands before the text. Compose's own word on a container's end has no bar:
``name exited with code 139``. Others have taken over the form: ``docker service logs`` (``llama.1.x7f@node | text``),
foreman and honcho (``17:03:02 name | text``), ``pm2 logs`` (``0|name | text``).
"""

from __future__ import annotations

import re
from collections import Counter

from sleepwatch.envelopes.base import LineFramed, chomp, name_of
from sleepwatch.envelopes.docker_logs import STAMP
from sleepwatch.model import Record
from sleepwatch.times import rfc3339_us

_COLOUR = rb"(?:\x1b\[[\d;]*m)*"
_STAMPED = re.compile(STAMP + rb"(?: |\Z)")


class Compose(LineFramed):
    """``name  | [STAMP ]text``."""

    name = "compose"
    time_from = "docker's stamps, where the lines have them"
    pattern = re.compile(
        rb"^"
        + _COLOUR
        + rb"(?:\d\d:\d\d:\d\d |\d{1,4}\|)?"
        + rb"([A-Za-z0-9][\w.-]{0,127}(?:@[\w.-]{1,64})?)(?: +\|"
        + _COLOUR
        + rb"(?: |(?=\r?(?:\n|\Z)))"
        + _COLOUR
        + rb"(.*)"
        rb"|( exited with code \d+).*)(?:\n|\Z)",
        re.MULTILINE,
    )

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        name, text, exited = match.groups()
        if exited is not None:
            line = chomp(match.group())
            at = offset + match.start()
            out.append(Record(text=line, offset=at, container=name_of(name), ident="compose"))
            return True
        at = match.start(2)
        if text[-1:] == b"\r":
            text = text[:-1]
        wall = None
        if text[4:5] == b"-":
            stamp = _STAMPED.match(text)
            if stamp:
                wall = rfc3339_us(*stamp.group(1, 2, 3, 4))
                if wall is not None:
                    text = text[stamp.end() :]
                    at += stamp.end()
        out.append(Record(text=text, offset=offset + at, wall_us=wall, container=name_of(name)))
        return True

    @classmethod
    def explains(cls, head: bytes) -> int:
        """See Framed. The bars of one run stand below each other."""
        columns: Counter[int] = Counter()
        exits = 0
        for match in cls.pattern.finditer(head):
            if match[3] is not None:
                exits += 1
            else:
                columns[head.index(b"|", match.end(1)) - match.start(1)] += 1
        return columns.most_common(1)[0][1] + exits if columns else 0
