"""Lines quoted in a mail or a forum's answer: ``> > 0.08.631.071 I slot …``. Another envelope may stand behind it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sleepwatch.envelopes.base import Envelope, LineFramed, chomp, saved
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes

_MARKS = rb"^(?:> ?)+"


class MailQuote(LineFramed):
    """One ``>`` or several before each line."""

    name = "mail-quote"
    begins = b">"
    pattern = re.compile(_MARKS + rb"(.*)(?:\n|\Z)", re.MULTILINE)

    def __init__(self, local: LocalTimes | None = None) -> None:
        super().__init__(local)
        self._inner: Envelope | None = None

    def contain(self, inner: Envelope) -> None:
        """Read the quoted lines with that envelope."""
        self._inner = inner
        self.time_from = inner.time_from

    def record(self, match: re.Match[bytes], offset: int, out: list[Record]) -> bool:
        """See LineFramed."""
        text = chomp(match[1])
        at = offset + match.start(1)
        if self._inner is not None:
            out += self._inner.feed(text + b"\n", at)
        elif text:
            out.append(Record(text=text, offset=at))
        return True

    def settle(self, out: list[Record]) -> None:
        """See Framed."""
        if self._inner is not None:
            out += self._inner.pause()

    def state(self) -> dict[str, Any]:
        """See Framed."""
        state = super().state()
        inner = state["kept"].pop("_inner")
        return {**state, "inner": None if inner is None else saved(inner)}

    def resume(self, state: Mapping[str, Any], restore: Callable[[Mapping[str, Any]], Envelope]) -> None:
        """See Framed."""
        super().resume(state, restore)
        self._inner = None if state["inner"] is None else restore(state["inner"])

    def flush(self, out: list[Record]) -> None:
        """See Framed."""
        if self._inner is not None:
            out += self._inner.finish()


def unquoted(head: bytes) -> bytes:
    """The quoted lines of a head, without their marks."""
    return b"\n".join(match[1] for match in MailQuote.pattern.finditer(head))
