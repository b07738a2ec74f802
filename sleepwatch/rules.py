"""The rule files: what a program's lines mean (``rules/<program>.toml``) and the words of each incident.

A pattern file is data with its own proof: each pattern carries lines it must match, with the fields they must give, and
lines it must not match. Loading is all or nothing: a file that is wrong in any place is refused with the place and what
to write there, because a pattern that silently does not load is a server that silently is not watched. The form of the
files is described in docs/rules.md, the events in docs/events.md.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.resources
import json
import os
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from sleepwatch import prefix
from sleepwatch.errors import RuleError
from sleepwatch.model import KINDS, SEVERITIES
from sleepwatch.pattern import Match, Pattern, Sample
from sleepwatch.rulefile import line_of, parse_toml, read_patterns, refuse_unknown

__all__ = [
    "EVENTS",
    "IncidentWords",
    "Match",
    "Pattern",
    "Problem",
    "RuleSet",
    "Sample",
    "check",
    "load",
    "load_incidents",
]

INCIDENTS_FILE = "incidents.toml"

# What the engine knows: each event with its fields; a field with "?" may be missing.
EVENTS: dict[str, dict[str, str]] = {
    "process.start": {"build?": "int", "commit?": "text"},
    "process.verbosity": {"verbosity": "int", "form": "text"},
    "process.stopping": {"by?": "text", "unit?": "text", "pid?": "int", "signal?": "int"},
    "process.abort": {"what": "text", "detail?": "text"},
    "process.exit": {
        "by": "text",
        "pid?": "int",
        "signal?": "int",
        "status?": "int",
        "command?": "text",
        "core?": "bool",
        "unit?": "text",
        "cause?": "text",
        "library?": "text",
        "frames?": "text",
        "invocation?": "text",
        "container?": "text",
        "tid?": "int",
        "planned?": "bool",
    },
    "process.signal": {"signal": "int"},
    "process.frame": {"function": "text", "library?": "text"},
    "unit.started": {"unit": "text", "invocation?": "text"},
    "unit.stopping": {"unit": "text", "invocation?": "text"},
    "unit.ended": {"unit": "text", "invocation?": "text"},
    "unit.restarting": {"unit": "text", "restarts?": "int", "invocation?": "text"},
    "unit.failed": {"unit": "text", "limit?": "bool", "invocation?": "text"},
    "clock.jumped": {"cause": "text"},
    "gap": {"cause": "text", "unit?": "text", "pid?": "int", "count?": "int"},
    "load.begin": {"model?": "text"},
    "load.ready": {"slots": "int"},
    "load.done": {},
    "load.failed": {"what": "text", "model?": "text"},
    "server.listening": {"url": "text"},
    "sleep.enter": {},
    "sleep.entered": {},
    "sleep.exit": {},
    "sleep.exited": {},
    "wake.requested": {},
    "request.arrived": {"empty": "int"},
    "request.formatted": {"format": "text"},
    "request.posted": {"id": "int", "count": "int", "front": "int"},
    "request.internal": {"id": "int", "front": "int"},
    "request.deferred": {"id": "int"},
    "request.launched": {"slot": "int", "id": "int", "child?": "int"},
    "request.released": {"slot": "int", "id": "int"},
    "request.cancelled": {"id": "int"},
    "request.failed": {"id": "int"},
    "request.refused": {},
    "request.answered": {"status?": "int", "method?": "text", "path?": "text"},
    "loop.idle": {},
    "router.start": {},
    "router.spawned": {"model": "text", "port": "int"},
    "router.proxied": {"model": "text", "port": "int"},
    "router.stopping": {"model": "text"},
    "router.exited": {"model": "text", "status": "int"},
    "router.client_error": {"what": "text"},
}


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All patterns of a rule directory."""

    patterns: tuple[Pattern, ...]
    digest: str
    """SHA-256 (hex) over the files' content; comments and layout do not change it."""
    literals: tuple[bytes, ...]
    """What a fast search looks for; a line with none of them matches no pattern."""
    by_literal: tuple[tuple[Pattern, ...], ...]
    """``by_literal[i]``: the patterns whose lines contain ``literals[i]``."""
    message_ids: dict[str, tuple[Pattern, ...]]
    files: tuple[str, ...]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something a pattern file promises and does not keep."""

    file: str
    line: int
    pattern: str
    message: str
    hint: str = ""


class IncidentWords(msgspec.Struct, frozen=True, kw_only=True):
    """What a person reads about one kind of incident."""

    kind: str
    title: str
    severity: str
    grace_s: float
    """Seconds a request may wait in a sleeping server before that is an incident; 0 where it does not apply."""
    means: str
    next: str
    """The first thing to do, in one sentence."""
    do: str
    looks_like: str


def load(directory: Path | None = None) -> RuleSet:
    """Load every pattern file of a directory; None: the files shipped with the program.

    Raises RuleError, and then loads nothing, when any file is wrong.
    """
    patterns: list[Pattern] = []
    content: list[tuple[str, Any]] = []
    for file in _files(directory):
        text = _read(file)
        data = parse_toml(file.name, text)
        patterns.extend(read_patterns(file.name, text, data))
        content.append((file.name, data))
    if not patterns:
        raise RuleError(f"{directory}: no rule file", hint="give a directory that holds <program>.toml files")
    _refuse_twins(patterns)
    by_literal: dict[bytes, list[Pattern]] = {}
    message_ids: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        for literal in pattern.literals:
            by_literal.setdefault(literal, []).append(pattern)
        if pattern.message_id is not None:
            message_ids.setdefault(pattern.message_id, []).append(pattern)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return RuleSet(
        patterns=tuple(patterns),
        digest=hashlib.sha256(canonical.encode()).hexdigest(),
        literals=tuple(by_literal),
        by_literal=tuple(tuple(found) for found in by_literal.values()),
        message_ids={key: tuple(found) for key, found in message_ids.items()},
        files=tuple(name for name, _ in content),
    )


def check(ruleset: RuleSet) -> list[Problem]:
    """Run every sample of every pattern, and look for promises the patterns do not keep."""
    problems: list[Problem] = []
    for pattern in ruleset.patterns:
        found = [*_check_event(pattern)]
        for sample in pattern.samples:
            found += _check_sample(pattern, sample, ruleset)
        for sample in pattern.refusals:
            if _apply(pattern, sample) is not None:
                found.append(
                    (f"matches {_shown(sample)}, which it must not: {sample.why}", "make the template narrower")
                )
        problems += [
            Problem(file=pattern.file, line=pattern.line, pattern=pattern.name, message=message, hint=hint)
            for message, hint in found
        ]
    return problems


def load_incidents(directory: Path | None = None) -> dict[str, IncidentWords]:
    """The words of every kind of incident, from ``incidents.toml`` and in its order.

    Raises RuleError when one is missing or wrong.
    """
    file = _directory(directory).joinpath(INCIDENTS_FILE)
    text = _read(file)
    data = parse_toml(file.name, text)
    words: dict[str, IncidentWords] = {}
    refuse_unknown(file.name, text, 1, data, KINDS, "kind of incident")
    for kind in KINDS:
        if not isinstance(data.get(kind), dict):
            raise RuleError(f"{file.name}: [{kind}] is missing", hint="every kind of incident has its words")
    for kind, entry in data.items():
        line = line_of(text, rf"\[\s*{kind}\s*\]")
        refuse_unknown(
            file.name, text, line, entry, ("title", "severity", "grace_s", "means", "next", "do", "looks_like"), "key"
        )
        strings: dict[str, str] = {}
        for key in ("title", "severity", "means", "next", "do", "looks_like"):
            value = entry.get(key)
            if not isinstance(value, str) or not value.strip():
                raise RuleError(f"{file.name}, line {line}, [{kind}]: {key} is missing", hint=f'write {key} = "…"')
            strings[key] = value.strip()
        if strings["severity"] not in SEVERITIES:
            raise RuleError(
                f"{file.name}, line {line}, [{kind}]: severity {strings['severity']!r}",
                hint=f"one of {', '.join(SEVERITIES)}",
            )
        grace = entry.get("grace_s", 0.0)
        if isinstance(grace, bool) or not isinstance(grace, int | float) or grace < 0:
            raise RuleError(f"{file.name}, line {line}, [{kind}]: grace_s = {grace!r}", hint="seconds, 0 or more")
        words[kind] = IncidentWords(kind=kind, grace_s=float(grace), **strings)
    return words


# -- finding and reading the files -------------------------------------------------------------------------------------


def _directory(directory: Path | None) -> Traversable:
    if directory is not None:
        if not os.path.isdir(directory):
            raise RuleError(f"{directory}: not a directory", hint="give a directory that holds <program>.toml files")
        return directory
    shipped = importlib.resources.files("sleepwatch").joinpath("_rules")
    if shipped.is_dir():
        return shipped
    checkout = Path(__file__).resolve().parent.parent / "rules"
    if checkout.is_dir():
        return checkout
    raise RuleError("the program's rule files are missing", hint="install sleepwatch again")


def _files(directory: Path | None) -> list[Traversable]:
    found = [f for f in _directory(directory).iterdir() if f.name.endswith(".toml") and f.name != INCIDENTS_FILE]
    return sorted(found, key=lambda f: f.name)


def _read(file: Traversable) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(f"{file.name}: not UTF-8 (byte {error.start})", hint="save the file as UTF-8") from error
    except OSError as error:
        raise RuleError(
            f"{file.name}: cannot be read: {error.strerror}", hint="check that it exists and its mode"
        ) from error


def _refuse_twins(patterns: list[Pattern]) -> None:
    seen: dict[tuple[str, str], Pattern] = {}
    for pattern in patterns:
        other = seen.setdefault((pattern.program, pattern.name), pattern)
        if other is not pattern:
            raise RuleError(
                f"{pattern.file}, line {pattern.line}: pattern {pattern.name!r} exists already",
                hint=f"give it another name than that of {other.file}, line {other.line}",
            )


# -- running the samples -----------------------------------------------------------------------------------------------


def _apply(pattern: Pattern, sample: Sample) -> Match | None:
    if sample.record is not None:
        return pattern.match_record(sample.record.get("MESSAGE_ID"), sample.record)
    return pattern.match(_body(sample))


def _body(sample: Sample) -> bytes:
    assert sample.line is not None
    return prefix.split(sample.line.encode()).body


def _shown(sample: Sample) -> str:
    return repr(sample.line) if sample.line is not None else f"the record {sample.record!r}"


def _check_sample(pattern: Pattern, sample: Sample, ruleset: RuleSet) -> Iterator[tuple[str, str]]:
    match = _apply(pattern, sample)
    if match is None:
        yield f"does not match its sample {_shown(sample)}", "compare template and line, beginning at the tag"
        return
    if match.fields != sample.fields:
        yield (
            f"gives {match.fields!r} for {_shown(sample)}, not {sample.fields!r}",
            "correct the template or the sample's fields",
        )
    if sample.line is None:
        return
    if not any(literal in sample.line.encode() for literal in pattern.literals):
        yield (
            f"would not be found in {_shown(sample)}: it lacks {pattern.literal!r}",
            "give a literal that every line contains",
        )
    for other in ruleset.patterns:
        if other.program == pattern.program and other.event != pattern.event and other.match(_body(sample)) is not None:
            yield f"{_shown(sample)} is also claimed by {other.name!r} as {other.event}", "make one of the two narrower"


def _check_event(pattern: Pattern) -> Iterator[tuple[str, str]]:
    known = EVENTS.get(pattern.event)
    if known is None:
        close = difflib.get_close_matches(pattern.event, EVENTS, 1)
        hint = f"did you mean {close[0]!r}?" if close else "docs/events.md lists the events"
        yield f"means {pattern.event!r}, which nothing understands", hint
        return
    forms = []
    if pattern.regex is not None:
        forms.append(set(pattern.types))
    if pattern.message_id is not None:
        forms.append(set(pattern.record_fields))
    for form in forms:
        given = form | pattern.constants.keys()
        for field in sorted(given):
            if field not in known and f"{field}?" not in known:
                names = ", ".join(known) or "none"
                yield f"gives the field {field!r}, which {pattern.event} does not have", f"its fields are: {names}"
        for field in sorted(known.keys() - given):
            if not field.endswith("?"):
                yield f"lacks the field {field!r}, which {pattern.event} always has", "read it in the format, or set it"
