"""Reads one pattern file: TOML in, patterns out; or a refusal that names the place and what to write there."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sleepwatch.envelopes.journal_fields import KEPT
from sleepwatch.errors import RuleError
from sleepwatch.pattern import Pattern, Sample
from sleepwatch.template import END, LITERAL_BYTES, TYPES, Steps, compile_template, converter

ERAS = ("A", "B", "C")
"""llama-server's logging eras; what each changed stands in rules/llama-server.toml."""

_TOP = ("program", "pattern")
KEYS = (  # of a pattern; what each means: docs/rules.md
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


def parse_toml(name: str, text: str) -> dict[str, Any]:
    """The file's content. Raises RuleError with TOML's own word about line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(
            f"{name}: not valid TOML: {error}", hint="put text that holds quotes between ''' and '''"
        ) from error


def line_of(text: str, header: str, nth: int = 0) -> int:
    """Line number (from 1) of the n-th line that begins with this expression; 1 where the file writes it otherwise."""
    places = re.finditer(rf"(?m)^[ \t]*{header}", text)
    for at, place in enumerate(places):
        if at == nth:
            return text.count("\n", 0, place.end()) + 1
    return 1


def refuse_unknown(name: str, text: str, line: int, table: Mapping[str, Any], keys: tuple[str, ...], word: str) -> None:
    """Refuse keys nobody reads: a misspelt key is a rule that does something else than it says."""
    for key in table:
        if key in keys:
            continue
        close = difflib.get_close_matches(key, keys, 1)
        below = "\n".join(text.split("\n")[line - 1 :])
        at = line + line_of(below, rf"\[?\[?(?:pattern\.)?{re.escape(key)}\b") - 1
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(keys)}"
        raise RuleError(f"{name}, line {at}: unknown {word} {key!r}", hint=hint)


def read_patterns(name: str, text: str, data: dict[str, Any]) -> Iterator[Pattern]:
    """The patterns of one parsed file, in its order. Raises RuleError at the first that is wrong."""
    refuse_unknown(name, text, 1, data, _TOP, "key")
    program = data.get("program")
    if not isinstance(program, str) or not program:
        raise RuleError(f"{name}: program is missing", hint='begin the file with program = "llama-server"')
    entries = data.get("pattern")
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries) or not entries:
        raise RuleError(f"{name}: no pattern", hint="write at least one [[pattern]]")
    for at, entry in enumerate(entries):
        line = line_of(text, r"\[\[\s*pattern\s*\]\]", at)
        yield _Entry(name, text, line, program, entry).pattern()


class _LineForm(NamedTuple):
    """The shape of a pattern's lines."""

    expression: re.Pattern[bytes] | None
    types: dict[str, str]
    literals: tuple[bytes, ...]
    steps: Steps


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
        """Read it all. Raises RuleError."""
        refuse_unknown(self.file, self.text, self.line, self.table, KEYS, "key")
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
        expression, types, literals, steps = self._line_form(tags, choices)
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
            steps=steps,
        )

    # -- the line's shape

    def _line_form(self, tags: tuple[str, ...], choices: dict[str, dict[str, Any]]) -> _LineForm:
        text, raw = self._string("format"), self._string("regex")
        if text is not None and raw is not None:
            raise self._wrong("regex", "stands beside format", "keep one of the two")
        if text is None and raw is None:
            return _LineForm(None, {}, (), ())
        if "tag" not in self.table:
            raise self._wrong("tag", "is missing", 'write tag = "srv", or tag = "" for a message without one')
        head = self._tag_expression(tags)
        steps: Steps = ((f"{' or '.join(filter(None, tags))} and the name of a function", head),) if head else ()
        if raw is not None:
            return self._raw(head, raw, steps)
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
        expression = re.compile(head + template.expression, re.DOTALL)
        return _LineForm(expression, template.types, literals, steps + template.steps)

    def _raw(self, head: bytes, raw: str, steps: Steps) -> _LineForm:
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
        types = {field: given.get(field, "text") for field in expression.groupindex}
        return _LineForm(expression, types, (literal,), steps)

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
            found = re.fullmatch(r"([A-Z_][A-Z0-9_]*(?:\|[A-Z_][A-Z0-9_]*)*):([a-z]+)", str(place))
            if found is None or found.group(2) not in ("int", "text", "choice"):
                raise self._wrong(
                    "map", f"{field} = {place!r}", f'write {field} = "EXIT_STATUS:int" (int, text or choice)'
                )
            self._known("map", found.group(1).split("|"))
            fields[field] = (found.group(1), found.group(2))
        return message_id, fields

    def _known(self, key: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in KEPT:
                near = difflib.get_close_matches(name, KEPT, 1)
                hint = f"write {near[0]}" if near else f"one of {', '.join(KEPT)}"
                raise self._wrong(key, f"no journal reader hands on the field {name}", hint)

    def _needs(self) -> dict[str, tuple[str, ...]]:
        needs: dict[str, tuple[str, ...]] = {}
        for name, values in self._table("when").items():
            values = [values] if isinstance(values, str) else values
            if not isinstance(values, list) or not values or not all(isinstance(v, str) for v in values):
                raise self._wrong(
                    "when", f"{name} = {values!r}", f'write {name} = "killed" or {name} = ["killed", "dumped"]'
                )
            self._known("when", [name])
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
        refuse_unknown(self.file, self.text, self.line, entry, keys, f"key of [[pattern.{key}]]")
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
