"""Which envelope a source has, judged by its first lines."""

from __future__ import annotations

import re

from sleepwatch.envelopes.bare import Bare
from sleepwatch.envelopes.base import HEAD_LIMIT, Envelope, Framed
from sleepwatch.envelopes.docker_json import DockerJson
from sleepwatch.envelopes.journal_export import JournalExport
from sleepwatch.envelopes.journal_json import JournalJson, JournalJsonPretty
from sleepwatch.envelopes.journal_text import (
    JournalShort,
    JournalShortFull,
    JournalShortIso,
    JournalShortMonotonic,
    JournalShortUnix,
    JournalText,
    SyslogFile,
    SyslogFileIso,
    cut_width,
)
from sleepwatch.envelopes.journal_verbose import JournalVerbose
from sleepwatch.errors import SleepwatchError
from sleepwatch.times import LocalTimes

# The more special one stands first: what it explains, a later one may explain too.
_STRICT: tuple[type[Framed], ...] = (
    DockerJson,
    JournalJson,
    JournalJsonPretty,
    JournalExport,
    JournalVerbose,
    JournalShortIso,
    JournalShortFull,
    JournalShortUnix,
    JournalShortMonotonic,
    JournalShort,
)
_OTHERS: tuple[type[Framed], ...] = (SyslogFile, SyslogFileIso, Bare)
_BY_NAME = {cls.name: cls for cls in (*_STRICT, *_OTHERS)}

_SHARE = 0.6
"""The part of the head's lines that an envelope must explain."""

# A line the server itself wrote, without any carrier (llama.cpp common/log.cpp, `[port] ` by a router).
_SERVER = re.compile(
    rb"^(?:\[ *\d{1,5}\] ?)*(?:\x1b\[\d*m)*\d{1,9}\.[0-5]\d\.\d{3}\.\d{3} (?:\x1b\[\d*m)*", re.MULTILINE
)
_ESCAPED = re.compile(rb"#0(?:12|33\[|11)| rsyslogd(?:\[\d+\])?: ")


def detect(head: bytes, *, local: LocalTimes | None = None) -> Envelope:
    """The envelope of a source from its first lines (at most 64 KiB are looked at); Bare where none clearly wins.

    ``local`` says how stamps without a zone or a year are read. The envelope looks at the source afresh when
    it does not fit any more, so two logs in one file are read each in its own way.
    """
    return _find(_whole_lines(head[:HEAD_LIMIT]), local) or Bare(local)


def by_name(name: str, *, local: LocalTimes | None = None) -> Envelope:
    """The envelope of that name, for the whole source. Raises SleepwatchError for a name that there is not."""
    cls = _BY_NAME.get(name)
    if cls is None:
        raise SleepwatchError(f"there is no envelope '{name}'", hint=f"choose one of: {', '.join(names())}")
    return cls(local)


def names() -> list[str]:
    """The names ``by_name`` knows."""
    return sorted(_BY_NAME)


def _find(head: bytes, local: LocalTimes | None) -> Envelope | None:
    cls = _strict(head)
    if cls is None:
        return None
    if cls is JournalShort and _ESCAPED.search(head):
        cls = SyslogFile
    elif cls is JournalShortIso and _ESCAPED.search(head):
        cls = SyslogFileIso
    envelope = cls(local)
    if isinstance(envelope, JournalText):
        envelope.cut_width = cut_width(head)
    envelope.redetect = lambda held: _find(held, local)
    return envelope


def _strict(head: bytes) -> type[Framed] | None:
    """The carrier that frames every line of the head. A server's unframed line speaks against all of them:

    its prompts can hold any carrier's lines.
    """
    lines = _count(head)
    if not lines:
        return None
    server = _SERVER.search(head)
    unframed = len(_SERVER.findall(head)) if server else 0
    for cls in _STRICT:
        explained = cls.explains(head)
        if explained < _SHARE * lines:
            continue
        if server is not None and (unframed * 10 >= lines or cls.explains(head[: server.start()]) == 0):
            continue
        return cls
    return None


def _count(head: bytes) -> int:
    """Lines that say something: not empty, not a pager's."""
    probe = JournalShort()
    return sum(bool(line.strip()) and not probe.foreign(line.rstrip(b"\r"), 0) for line in head.split(b"\n"))


def _whole_lines(head: bytes) -> bytes:
    """The head without the line it ends in the middle of, if there is another."""
    end = head.rfind(b"\n") + 1
    return head[:end] if end else head
