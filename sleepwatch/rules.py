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
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from sleepwatch import prefix
from sleepwatch.errors import RuleError
from sleepwatch.template import END, LITERAL_BYTES, TYPES, compile_template, converter

INCIDENTS_FILE = "incidents.toml"
KINDS = (
    "hung-request",
    "sleep-crash",
    "wake-failure",
    "crash-in-flight",
    "crash",
    "crash-loop",
    "stalled-request",
    "blind",
)
"""The kinds of incident; their names are stable."""
SEVERITIES = ("critical", "warning", "info")
ERAS = ("A", "B", "C")

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
    },
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
    "router.argument": {"argument": "text"},
    "router.proxied": {"model": "text", "port": "int"},
    "router.stopping": {"model": "text"},
    "router.exited": {"model": "text", "status": "int"},
    "router.client_error": {"what": "text"},
}


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
    """Field -> (journal field, type), for matching by ``message_id``."""
    record_needs: dict[str, tuple[str, ...]]
    """Journal field -> the values one of which it must have."""
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

    @property
    def literal(self) -> bytes:
        """The gate literal (the first of several where the pattern chooses between texts); empty without a line form."""
        return self.literals[0] if self.literals else b""

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
        if any(record.get(name) not in values for name, values in self.record_needs.items()):
            return None
        fields = dict(self.constants)
        for name, (journal_field, _type) in self.record_fields.items():
            raw = record.get(journal_field)
            if raw is None:
                continue
            try:
                fields[name] = self.record_converters[name](raw.encode("utf-8", "replace"))
            except (ValueError, KeyError):  # not a number, or not one of the choices: another kind of entry
                return None
        return Match(fields, 0)


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
        data = _parse(file.name, text)
        patterns.extend(_File(file.name, text, data).patterns())
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
    """The words of every kind of incident, from ``incidents.toml``. Raises RuleError when one is missing or wrong."""
    file = _directory(directory).joinpath(INCIDENTS_FILE)
    text = _read(file)
    data = _parse(file.name, text)
    words: dict[str, IncidentWords] = {}
    _known(file.name, text, 1, data, KINDS, "kind of incident")
    for kind in KINDS:
        entry = data.get(kind)
        if not isinstance(entry, dict):
            raise RuleError(f"{file.name}: [{kind}] is missing", hint="every kind of incident has its words")
        line = _line_of(text, rf"\[\s*{kind}\s*\]")
        _known(file.name, text, line, entry, ("title", "severity", "grace_s", "means", "do", "looks_like"), "key")
        strings: dict[str, str] = {}
        for key in ("title", "severity", "means", "do", "looks_like"):
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


# -- finding and reading the files --------------------------------------------------------------------------------------


def _directory(directory: Path | None) -> Traversable:
    if directory is not None:
        if not directory.is_dir():
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


def _parse(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(
            f"{name}: not valid TOML: {error}", hint="put text that holds quotes between ''' and '''"
        ) from error


def _line_of(text: str, header: str, nth: int = 0) -> int:
    """Line number (from 1) of the n-th line that begins with this expression; 1 where the file writes it otherwise."""
    places = re.finditer(rf"(?m)^[ \t]*{header}", text)
    for at, place in enumerate(places):
        if at == nth:
            return text.count("\n", 0, place.end()) + 1
    return 1


def _known(name: str, text: str, line: int, table: Mapping[str, Any], keys: tuple[str, ...], word: str) -> None:
    """Refuse keys nobody reads: a misspelt key is a rule that does something else than it says."""
    for key in table:
        if key in keys:
            continue
        close = difflib.get_close_matches(key, keys, 1)
        below = "\n".join(text.split("\n")[line - 1 :])
        at = line + _line_of(below, rf"\[?\[?(?:pattern\.)?{re.escape(key)}\b") - 1
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(keys)}"
        raise RuleError(f"{name}, line {at}: unknown {word} {key!r}", hint=hint)


def _refuse_twins(patterns: list[Pattern]) -> None:
    seen: dict[tuple[str, str], Pattern] = {}
    for pattern in patterns:
        other = seen.setdefault((pattern.program, pattern.name), pattern)
        if other is not pattern:
            raise RuleError(
                f"{pattern.file}, line {pattern.line}: pattern {pattern.name!r} exists already ({other.file}, line {other.line})",
                hint="give it a name of its own",
            )


# -- from TOML to patterns ----------------------------------------------------------------------------------------------

_TOP = ("program", "pattern")
_KEYS = (
    "name",
    "event",
    "tag",
    "format",
    "regex",
    "types",
    "why",
    "literal",
    "except_function",
    "choice",
    "set",
    "ident",
    "message_id",
    "map",
    "when",
    "since",
    "until",
    "verbosity",
    "source",
    "sample",
    "not",
)


class _File:
    """One pattern file while it is being read."""

    def __init__(self, name: str, text: str, data: dict[str, Any]) -> None:
        self.name = name
        self.text = text
        self.data = data

    def patterns(self) -> Iterator[Pattern]:
        _known(self.name, self.text, 1, self.data, _TOP, "key")
        program = self.data.get("program")
        if not isinstance(program, str) or not program:
            raise RuleError(f"{self.name}: program is missing", hint='begin the file with program = "llama-server"')
        entries = self.data.get("pattern")
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries) or not entries:
            raise RuleError(f"{self.name}: no pattern", hint="write at least one [[pattern]]")
        for at, entry in enumerate(entries):
            line = _line_of(self.text, r"\[\[\s*pattern\s*\]\]", at)
            yield _Entry(self.name, self.text, line, program, entry).pattern()


class _Entry:
    """One [[pattern]] while it is being read. Every refusal names file, line, pattern and key."""

    def __init__(self, file: str, text: str, line: int, program: str, table: dict[str, Any]) -> None:
        self.file = file
        self.text = text
        self.line = line
        self.program = program
        self.table = table
        self.name = str(table.get("name", "(no name)"))

    def pattern(self) -> Pattern:
        _known(self.file, self.text, self.line, self.table, _KEYS, "key")
        name = self._string("name")
        if name is None or not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
            raise self._wrong("name", "is missing or has other letters", 'write name = "sleep-enter"')
        event = self._string("event")
        if event is None:
            raise self._wrong("event", "is missing", 'write event = "sleep.enter" (docs/events.md lists them)')
        tags = self._strings("tag")
        if not all(re.fullmatch(r"[a-z]{0,5}", tag) for tag in tags):
            raise self._wrong("tag", "is no tag", 'write tag = "srv", or tag = "" for a message without one')
        choices = self._choices()
        expression, types, literals = self._line_form(tags, choices)
        message_id, record_fields = self._record_form()
        if expression is None and message_id is None:
            raise self._wrong("format", "is missing", 'write format = "entering sleeping state"')
        in_format = re.findall(r"\{(\w+):choice\}", self._string("format") or "")
        for field in choices:
            if field not in in_format and record_fields.get(field, ("", ""))[1] != "choice":
                raise self._wrong(
                    "choice", f"is for {field!r}, which is no choice", f"write {{{field}:choice}} in the format"
                )
        constants = self._table("set")
        twice = sorted(constants.keys() & (types.keys() | record_fields.keys()))
        if twice:
            raise self._wrong("set", f"sets {twice[0]!r}, which the pattern also reads", "keep one of the two")
        captures: tuple[tuple[str, int, Callable[[bytes], Any]], ...] = ()
        if expression is not None:
            captures = tuple(
                (field, expression.groupindex[field], converter(kind, choices.get(field)))
                for field, kind in types.items()
            )
        return Pattern(
            name=name,
            program=self.program,
            event=event,
            tags=tags,
            format=self._string("format"),
            regex=expression,
            literals=literals,
            types=types,
            constants=constants,
            idents=self._strings("ident"),
            message_id=message_id,
            record_fields=record_fields,
            record_needs=self._needs(),
            verbosity=self._verbosity(),
            since=self._string("since"),
            until=self._string("until"),
            source=self._string("source"),
            why=self._string("why"),
            samples=self._samples("sample"),
            refusals=self._samples("not"),
            file=self.file,
            line=self.line,
            captures=captures,
            record_converters={f: converter(kind, choices.get(f)) for f, (_, kind) in record_fields.items()},
        )

    # -- the line's shape

    def _line_form(
        self, tags: tuple[str, ...], choices: dict[str, dict[str, Any]]
    ) -> tuple[re.Pattern[bytes] | None, dict[str, str], tuple[bytes, ...]]:
        text, raw = self._string("format"), self._string("regex")
        if text is not None and raw is not None:
            raise self._wrong("regex", "stands beside format", "keep one of the two")
        if text is None and raw is None:
            return None, {}, ()
        if "tag" not in self.table:
            raise self._wrong("tag", "is missing", 'write tag = "srv", or tag = "" for a message without one')
        head = self._tag_expression(tags)
        if raw is not None:
            return self._raw(head, raw)
        if "types" in self.table:
            raise self._wrong("types", "belongs to regex", "give the types in the format: {id:int}")
        assert text is not None
        try:
            template = compile_template(text, choices)
        except RuleError as error:
            raise self._wrong("format", error.message, error.hint or "") from error
        literals = template.literals
        given = self._string("literal")
        if given is not None:
            literals = (given.encode(),)
            if len(literals[0]) < LITERAL_BYTES or not any(literals[0] in piece for piece in template.pieces):
                raise self._wrong(
                    "literal",
                    f"{given!r} is not in every line that matches, or is shorter than {LITERAL_BYTES} bytes",
                    "leave it out, or take it from the text of the format that is never optional",
                )
        if not literals:
            raise self._wrong(
                "format",
                f"has no text of {LITERAL_BYTES} bytes by which its lines could be found",
                "put more of the printed text into the format",
            )
        return re.compile(head + template.expression, re.DOTALL), template.types, literals

    def _raw(self, head: bytes, raw: str) -> tuple[re.Pattern[bytes], dict[str, str], tuple[bytes, ...]]:
        if self._string("why") is None:
            raise self._wrong("why", "is missing", "say why a format cannot express this regex")
        literal = (self._string("literal") or "").encode()
        if len(literal) < LITERAL_BYTES:
            raise self._wrong(
                "literal", "is missing or too short", f"give {LITERAL_BYTES} bytes or more that every match contains"
            )
        try:
            expression = re.compile(head + b"(?:" + raw.encode() + b")" + END, re.DOTALL)
        except re.error as error:
            raise self._wrong(
                "regex", f"is no regular expression: {error}", "mind that a backslash needs ''' quotes"
            ) from error
        given = self._table("types")
        for field, kind in given.items():
            if field not in expression.groupindex or kind not in TYPES:
                raise self._wrong(
                    "types", f"{field} = {kind!r}", f"name a (?P<{field}>…) group and one of {', '.join(TYPES)}"
                )
            if kind not in ("text", "word", "span"):
                self._number_group(raw, field, kind)
        return expression, {field: given.get(field, "text") for field in expression.groupindex}, (literal,)

    def _number_group(self, raw: str, field: str, kind: str) -> None:
        """A group that becomes a number may hold nothing else, so that reading it can never fail."""
        allowed = {"int": r"[+-]?\d{1,18}", "hex": "[0-9a-f]{1,16}"}
        if kind not in allowed or f"(?P<{field}>{allowed[kind]})" not in raw:
            raise self._wrong(
                "types",
                f"{field} = {kind!r} over a group that may hold other text",
                " or ".join(f"write (?P<{field}>{body}) for {name}" for name, body in allowed.items()),
            )

    def _tag_expression(self, tags: tuple[str, ...]) -> bytes:
        refused = self._strings("except_function")
        named = [tag.encode() for tag in tags if tag]
        if not named:
            if refused:
                raise self._wrong(
                    "except_function", "needs a tag", "only tagged lines name their function in a fixed place"
                )
            return b""
        unless = b"(?!(?:" + b"|".join(re.escape(name.encode()) for name in refused) + b"):)" if refused else b""
        head = b"(?:" + b"|".join(named) + rb")[ \t]+" + unless + rb"[^: \t][^:]{0,13}:[ \t]*"
        return b"(?:" + head + b")?" if "" in tags else head

    # -- the structured record's shape

    def _record_form(self) -> tuple[str | None, dict[str, tuple[str, str]]]:
        message_id = self._string("message_id")
        mapping = self._table("map")
        if message_id is None:
            for key in ("map", "when"):
                if key in self.table:
                    raise self._wrong(key, "without message_id", 'write message_id = "32 hex digits"')
            return None, {}
        if not re.fullmatch(r"[0-9a-f]{32}", message_id):
            raise self._wrong("message_id", f"{message_id!r} is none", "32 lower-case hex digits, without dashes")
        fields: dict[str, tuple[str, str]] = {}
        for field, place in mapping.items():
            found = re.fullmatch(r"([A-Z_][A-Z0-9_]*):([a-z]+)", str(place))
            if found is None or found.group(2) not in ("int", "text", "choice"):
                raise self._wrong(
                    "map", f"{field} = {place!r}", f'write {field} = "EXIT_STATUS:int" (int, text or choice)'
                )
            fields[field] = (found.group(1), found.group(2))
        return message_id, fields

    def _needs(self) -> dict[str, tuple[str, ...]]:
        needs: dict[str, tuple[str, ...]] = {}
        for name, values in self._table("when").items():
            values = [values] if isinstance(values, str) else values
            if not isinstance(values, list) or not values or not all(isinstance(v, str) for v in values):
                raise self._wrong(
                    "when", f"{name} = {values!r}", f'write {name} = "killed" or {name} = ["killed", "dumped"]'
                )
            needs[name] = tuple(values)
        return needs

    # -- the rest

    def _choices(self) -> dict[str, dict[str, Any]]:
        choices = self._table("choice")
        for field, table in choices.items():
            if not isinstance(table, dict) or not table or not all(_plain(value) for value in table.values()):
                raise self._wrong(
                    "choice", f"{field} is no table of values", f'write [pattern.choice.{field}] "Bus error" = 7'
                )
        return choices

    def _verbosity(self) -> dict[str, int]:
        levels = self._table("verbosity")
        for era, level in levels.items():
            if era not in ERAS or isinstance(level, bool) or not isinstance(level, int) or not 0 <= level <= 5:
                raise self._wrong(
                    "verbosity", f"{era} = {level!r}", "write verbosity = {A = 3, B = 3, C = 3}, levels 0 to 5"
                )
        return levels

    def _samples(self, key: str) -> tuple[Sample, ...]:
        entries = self.table.get(key)
        kind = "positive" if key == "sample" else "negative"
        keys = ("line", "record", "from", "fields" if key == "sample" else "why")
        if not isinstance(entries, list) or not entries or not all(isinstance(e, dict) for e in entries):
            wanted = ", ".join(f"{k} = …" for k in keys if k != "record")
            raise self._wrong(key, f"is missing: a pattern needs a {kind} sample", f"write [[pattern.{key}]] {wanted}")
        return tuple(self._sample(key, keys, entry) for entry in entries)

    def _sample(self, key: str, keys: tuple[str, ...], entry: dict[str, Any]) -> Sample:
        _known(self.file, self.text, self.line, entry, keys, f"key of [[pattern.{key}]]")
        line, record = entry.get("line"), entry.get("record")
        if (line is None) == (record is None):
            raise self._wrong(
                key, "needs either line or record", "line = '…' for text, record = {EXIT_CODE = …} for a journal entry"
            )
        if line is not None and (not isinstance(line, str) or "\n" in line):
            raise self._wrong(key, "line is not one line of text", "leave the line feed out")
        if record is not None and not (isinstance(record, dict) and all(isinstance(v, str) for v in record.values())):
            raise self._wrong(
                key, "record is no table of texts", 'write record = {MESSAGE_ID = "…", EXIT_STATUS = "11"}'
            )
        origin = entry.get("from")
        if not isinstance(origin, str) or not re.fullmatch(r"made|recorded: \S.*", origin):
            raise self._wrong(key, "from is missing", 'write from = "recorded: b11368" or from = "made"')
        fields = entry.get("fields", {})
        why = entry.get("why", "")
        if key == "sample" and (not isinstance(entry.get("fields"), dict)):
            raise self._wrong(key, "fields is missing", "list the fields the line gives, fields = {} for none")
        if key == "not" and (not isinstance(why, str) or not why):
            raise self._wrong(key, "why is missing", "say what the line is instead")
        return Sample(line=line, record=record, fields=fields, origin=origin, why=why)

    def _string(self, key: str) -> str | None:
        value = self.table.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self._wrong(key, f"= {value!r}", "write a text between quotes")
        return value

    def _strings(self, key: str) -> tuple[str, ...]:
        value = self.table.get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise self._wrong(key, f"= {value!r}", "write a text or a list of texts")
        return tuple(values)

    def _table(self, key: str) -> dict[str, Any]:
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, f"= {value!r}", f"write a table: [pattern.{key}]")
        return value

    def _wrong(self, key: str, what: str, hint: str) -> RuleError:
        return RuleError(f"{self.file}, line {self.line}, pattern {self.name!r}: {key} {what}", hint=hint)


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


# -- running the samples ------------------------------------------------------------------------------------------------


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
        yield (
            f"means {pattern.event!r}, which nothing understands",
            f"did you mean {close[0]!r}?" if close else "see docs/events.md",
        )
        return
    for field in sorted(pattern.types.keys() | pattern.constants.keys() | pattern.record_fields.keys()):
        if field not in known and f"{field}?" not in known:
            names = ", ".join(known) or "none"
            yield f"gives the field {field!r}, which {pattern.event} does not have", f"its fields are: {names}"
    for field in known:
        if field.endswith("?") or field in pattern.constants:
            continue
        if (pattern.regex is not None and field not in pattern.types) or (
            pattern.message_id is not None and field not in pattern.record_fields
        ):
            yield (
                f"does not give the field {field!r}, which {pattern.event} always has",
                "read it in the format, or set it",
            )
