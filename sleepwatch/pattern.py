"""One pattern: the shape of a line (or of a journal entry) and the event it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sleepwatch.template import Steps


class Match(msgspec.Struct):
    """A line that a pattern recognised."""

    fields: dict[str, Any]
    end: int
    """How many bytes of the line matched; what follows is not the program's own text."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A line (or a structured record) with what the pattern must make of it."""

    line: str | None
    record: dict[str, str] | None
    """Structured fields of a journal entry, for patterns that need no text."""
    fields: dict[str, Any]
    origin: str
    """``recorded: <build>`` or ``made``."""
    why: str = ""
    """Of a line that must not match: what it is instead."""


class Pattern(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One compiled pattern: a line's shape and the event it means."""

    name: str
    program: str
    event: str
    tags: tuple[str, ...]
    format: str | None
    regex: re.Pattern[bytes] | None
    """Anchored at the body's first byte; None for a pattern that only knows structured records."""
    literals: tuple[bytes, ...]
    """Every matching line contains one of these."""
    types: dict[str, str]
    constants: dict[str, Any]
    """Fields that every match has with this value."""
    idents: tuple[str, ...]
    """Only lines whose carrier names one of these writers, or no writer; empty: any."""
    message_id: str | None
    record_fields: dict[str, tuple[str, str]]
    """Field -> (journal field, type), for matching by ``message_id``; of ``UNIT|USER_UNIT`` the first that is there."""
    record_needs: dict[str, tuple[str, ...]]
    """Journal field -> the values one of which it must have; the empty text stands for its absence."""
    verbosity: dict[str, int]
    """Era -> the lowest ``-lv`` that prints the line; an era that is not listed never prints it."""
    since: str | None
    until: str | None
    source: str | None
    why: str | None
    samples: tuple[Sample, ...]
    refusals: tuple[Sample, ...]
    file: str
    line: int
    captures: tuple[tuple[str, int, Callable[[bytes], Any]], ...]
    record_converters: dict[str, Callable[[bytes], Any]]
    steps: Steps = ()
    """The expression part by part, each with what is expected there: to tell where a line stops fitting."""

    @property
    def literal(self) -> bytes:
        """The gate literal: the first where the pattern chooses between texts; empty where it reads no lines."""
        return self.literals[0] if self.literals else b""

    def surely_ends(self, match: Match, line: bytes) -> bool:
        """Is what it matched in ``line`` whole, even if the line's end has not come yet?

        A number can get further digits, a text further words; a text of the program's own is whole when it is there.
        """
        if match.end < len(line):
            return True
        return self.format is not None and not self.format.removesuffix("{*}").endswith(("}", "]"))

    def match(self, line: bytes) -> Match | None:
        """Match a bare line from its tag (or untagged message) on. Never raises."""
        if self.regex is None:
            return None
        found = self.regex.match(line)
        if found is None:
            return None
        fields = dict(self.constants)
        for name, group, convert in self.captures:
            raw = found[group]
            if raw is not None:
                fields[name] = convert(raw)
        return Match(fields, found.end())

    def match_record(self, message_id: str | None, record: Mapping[str, str]) -> Match | None:
        """Match a journal entry by its MESSAGE_ID and structured fields, whatever its text says. Never raises."""
        if self.message_id is None or message_id != self.message_id:
            return None
        if any(record.get(name, "") not in values for name, values in self.record_needs.items()):
            return None
        fields = dict(self.constants)
        for name, (journal_fields, _type) in self.record_fields.items():
            raw = next((record[one] for one in journal_fields.split("|") if one in record), None)
            if raw is None:
                continue
            try:
                fields[name] = self.record_converters[name](raw.encode("utf-8", "replace"))
            except (ValueError, KeyError):  # not a number, or not one of the choices: another kind of entry
                return None
        return Match(fields, 0)
