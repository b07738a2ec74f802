"""Which envelope a source has, judged by its first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sleepwatch.envelopes.bare import Bare
from sleepwatch.envelopes.base import BOM, HEAD_LIMIT, Envelope, Framed
from sleepwatch.envelopes.compose import Compose
from sleepwatch.envelopes.cri import Cri
from sleepwatch.envelopes.docker_json import DockerJson
from sleepwatch.envelopes.docker_logs import DockerDesktop, DockerLogs, KubectlPrefix
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
from sleepwatch.envelopes.lemonade import Lemonade
from sleepwatch.envelopes.llama_swap import LlamaSwap
from sleepwatch.envelopes.lm_studio import LmStudio
from sleepwatch.envelopes.mail_quote import MailQuote, unquoted
from sleepwatch.envelopes.model_runner import ModelRunner
from sleepwatch.envelopes.ollama import Ollama
from sleepwatch.envelopes.supervision import Launchd, S6Log, S6Tai64n, Supervisord, Svlogd, Tai64n
from sleepwatch.envelopes.syslog import Syslog3164, Syslog5424
from sleepwatch.envelopes.ts import Ts
from sleepwatch.errors import SleepwatchError
from sleepwatch.times import LocalTimes

# Each of them frames every line. The more special one stands first: what it explains, a later one may explain too.
_STRICT: tuple[type[Framed], ...] = (
    DockerJson,
    JournalJson,
    JournalJsonPretty,
    JournalExport,
    JournalVerbose,
    Syslog5424,
    Syslog3164,
    Cri,
    ModelRunner,
    KubectlPrefix,
    Compose,
    Tai64n,
    Svlogd,
    S6Log,
    Lemonade,
    Launchd,
    LmStudio,
    Ts,
    JournalShortIso,
    JournalShortFull,
    JournalShortUnix,
    JournalShortMonotonic,
    JournalShort,
    DockerLogs,
    DockerDesktop,
    MailQuote,
)
# These frame their own lines only; the server's stand between them as they are.
_MIXED: tuple[type[Framed], ...] = (Supervisord, LlamaSwap, Ollama)
_OTHERS: tuple[type[Framed], ...] = (SyslogFile, SyslogFileIso, S6Tai64n, Bare)
_BY_NAME = {cls.name: cls for cls in (*_STRICT, *_MIXED, *_OTHERS)}

_SHARE = 0.6
"""The part of the head's lines that an envelope must explain."""

# A line the server itself wrote, without any carrier: a stamp (llama.cpp common/log.cpp), or as before b9151, when it
# wrote none by default, a tag or the name of what printed it. A router's `[port] ` may stand before either.
_SERVER = re.compile(
    rb"^(?:\[ *\d{1,5}\] ?)*(?:\x1b\[\d*m)*(?:\d{1,9}\.[0-5]\d\.\d{3}\.\d{3} |(?:srv|slot|que|res|cmn|spec) +\w+: "
    rb"|(?:main|build|build_info|system_info|device_info|print_info|init|start|load_\w+|register_\w+|llama_\w+|ggml_\w+"
    rb"|common_\w+): )",
    re.MULTILINE,
)
_BEGINNING = 100
"""Lines that are looked at on their own first: two logs may follow each other within one head."""

_LINES_OF_MIXED = 2
"""Lines of its own that show a mixed output, in a head of more than a few."""

_ESCAPED = re.compile(rb"#0(?:12|33\[|11)| rsyslogd(?:\[\d+\])?: ")


def detect(head: bytes, *, local: LocalTimes | None = None) -> Envelope:
    """The envelope of a source from its first lines (at most 64 KiB are looked at); Bare where none clearly wins.

    ``local`` says how stamps without a zone or a year are read. The envelope looks at the source afresh when
    it does not fit any more, so two logs in one file are read each in its own way.
    """
    return _find(_whole_lines(head[:HEAD_LIMIT].removeprefix(BOM)), local) or Bare(local)


def by_name(name: str, *, local: LocalTimes | None = None) -> Envelope:
    """The envelope of that name, for the whole source. Raises SleepwatchError for a name that there is not."""
    cls = _BY_NAME.get(name)
    if cls is None:
        raise SleepwatchError(f"there is no envelope '{name}'", hint=f"choose one of: {', '.join(names())}")
    return cls(local)


def restored(state: Mapping[str, Any], *, local: LocalTimes | None = None) -> Envelope:
    """The envelope :func:`~sleepwatch.envelopes.base.saved` was given, at the same place in its source.

    Raises SleepwatchError for a name that there is not, KeyError for a state that is none.
    """
    envelope = by_name(state["name"], local=local)
    assert isinstance(envelope, Framed)
    envelope.redetect = lambda held: _find(held, local)
    envelope.resume(state, lambda inner: restored(inner, local=local))
    return envelope


def names() -> list[str]:
    """The names ``by_name`` knows."""
    return sorted(_BY_NAME)


def _find(head: bytes, local: LocalTimes | None) -> Envelope | None:
    cls = _kind(head)
    if cls is None:
        return None
    envelope = cls(local)
    if isinstance(envelope, JournalText):
        envelope.cut_width = cut_width(head)
    if isinstance(envelope, MailQuote):
        inner = _find(unquoted(head), local)
        if inner is not None:
            envelope.contain(inner)
    envelope.redetect = lambda held: _find(held, local)
    return envelope


def _kind(head: bytes) -> type[Framed] | None:
    """The carrier that explains the head, or at least its beginning: what comes then is looked at when it is read.

    A line that the server itself wrote speaks against every carrier: its prompts can hold any carrier's lines. So the
    carrier's must come first, and where the carrier frames all lines, the server's may hardly occur.
    """
    server = _SERVER.search(head)
    before = head[: server.start()] if server else None
    if server is None or len(_SERVER.findall(head)) * 10 < _firsts(head).total():
        beginning = b"".join(head.splitlines(keepends=True)[:_BEGINNING])
        cls = _strict(beginning, before) or _strict(head, before)
        if cls is not None:
            return _escaping(cls, head)
    lines = _firsts(head).total()
    for mixed in _MIXED:
        if lines and mixed.explains(head) >= min(_LINES_OF_MIXED, lines) and (before is None or mixed.explains(before)):
            return mixed
    return None


def _strict(head: bytes, before: bytes | None) -> type[Framed] | None:
    """The first carrier that explains enough of the head, and something of what stands ``before`` a server's line."""
    firsts = _firsts(head)
    enough = max(1, _SHARE * firsts.total())
    for cls in _STRICT:
        if cls.begins and sum(firsts[byte] for byte in cls.begins) < enough:
            continue
        if cls.explains(head) >= enough and (before is None or cls.explains(before)):
            return cls
    return None


def _escaping(cls: type[Framed], head: bytes) -> type[Framed]:
    """rsyslog's files look like the journal's text but for their escapes."""
    if _ESCAPED.search(head):
        if cls is JournalShort:
            return SyslogFile
        if cls is JournalShortIso:
            return SyslogFileIso
    return cls


def _firsts(head: bytes) -> Counter[int]:
    """How many lines begin with each byte, of those that say something: not empty, not a pager's."""
    probe = JournalShort()
    lines = (line.rstrip(b"\r") for line in head.split(b"\n"))
    return Counter(line[0] for line in lines if line.strip() and not probe.foreign(line, 0))


def _whole_lines(head: bytes) -> bytes:
    """The head without the line it ends in the middle of, if there is another."""
    end = head.rfind(b"\n") + 1
    return head[:end] if end else head
