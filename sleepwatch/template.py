"""Templates: a printf format, written so that it can be read, becomes one anchored expression over bytes.

A server's lines are printed by formats such as ``new task, id = %d/%d, front = %d``. The template is the same text with
named fields, ``new task, id = {id:int}/{count:int}, front = {front:int}``. Everything the reader needs is derived from
it: the expression, the fields' types, and the literal pieces by which a fast search finds candidate lines.

======================  ==============================================================================================
``{x:int}``             digits, with an optional sign (at most 18: what a 64-bit integer surely holds)
``{x:hex}``             hexadecimal digits, with or without ``0x``; the value is an integer
``{x:float}``           a decimal number, ``inf`` or ``nan``
``{x:word}``            text without blanks
``{x:url}``             ``http://…``, ``https://…`` or ``unix://…``, without blanks
``{x:span}``            text, blanks included, up to what follows in the template (at least one byte)
``{x:unit}``            the name of a systemd service or scope, with its suffix
``{x:server}``          a llama-server's name as the kernel shows it: ``llama-server``, ``llama``, ``.llama-server-w``
``{x:named}``           a word with ``llama`` in it that is not ``ollama``: what people call the service or its program
``{x:quoted}``          text between single quotes; the quotes stand in the template; may be empty
``{x:text}``            the rest of the line, may be empty; only at the end
``{x:choice}``          one of the texts listed in the pattern's ``[pattern.choice.x]``; the value is what stands there
``{_:…}``               any of these, matched but not kept
``{fn}``                a function's name with its colon: ``main: ``, ``operator(): ``; never kept
``{*}``                 anything may follow; it is not part of the match; only at the end
``[[ … ]]``             a part that may be missing
``{{`` and ``}}``       a brace
======================  ==============================================================================================

A template that ends in neither ``{x:text}`` nor ``{*}`` reaches to the end of the line; blanks and a carriage return
may follow. A single blank between two words of the text is exactly one blank. Blanks beside a field or a bracket, and
runs of several, are one or more: printf pads numbers, and pasted text has lost the padding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from sleepwatch.errors import RuleError

LITERAL_BYTES = 6
"""A gate literal is at least this long: shorter ones are met in every other line."""

END = rb"[ \t\r]*\Z"
FUNCTION = rb"[A-Za-z_~][A-Za-z0-9_]{0,63}(?: ?\(\))?:[ \t]*"

_EXPRESSIONS = {
    "int": rb"[+-]?\d{1,18}(?!\d)",
    "hex": rb"(?:0[xX])?[0-9A-Fa-f]{1,16}(?![0-9A-Fa-f])",
    "float": rb"[+-]?(?:\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,4})?|inf|nan)",
    "word": rb"\S{1,4096}",
    "url": rb"(?:https?|unix)://\S{1,4096}",
    "span": rb".{1,4096}?",
    "unit": rb"[\w:.\\@-]{1,247}\.(?:service|scope)",  # systemd.unit(5)
    # The kernel cuts a process's name to 15 bytes; NixOS wraps programs as `.llama-server-wrapped`.
    "server": rb"\.?llama[-_]server[\w.+-]{0,3}|llama",
    "named": rb"\S{0,255}(?<![oO])[lL]lama\S{0,255}",
    "quoted": rb".{0,4096}",
    "text": rb".*",
}
TYPES = (*_EXPRESSIONS, "choice")

_TOKEN = re.compile(r"\{\{|\}\}|\{[^{}]*\}|\[\[|\]\]|[{}]|[^{}\[\]]+|[\[\]]")
_FIELD = re.compile(r"\{([a-z_][a-z0-9_]*):([a-z]+)\}")
_BLANKS = re.compile(r"([ \t]+)")

Steps = tuple[tuple[str, bytes], ...]
"""Parts of an expression, each behind what it stands for."""

Kind = Literal["literal", "field", "function", "anything", "open", "close"]


class _Part(msgspec.Struct):
    kind: Kind
    text: str
    type: str = ""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """What was derived from one template."""

    expression: bytes
    """For the message alone, from its first byte to its end; fields are named groups."""
    types: dict[str, str]
    """The kept fields and their types, in the order they stand."""
    literals: tuple[bytes, ...]
    """Every matching message contains one of these; empty where the template has no text long enough."""
    pieces: tuple[bytes, ...]
    """All text that every matching message contains, split where blanks may vary."""
    steps: Steps
    """The expression part by part, in order, each with what the template has there."""


def compile_template(text: str, choices: Mapping[str, Mapping[str, Any]]) -> Template:
    """Compile one template. Raises RuleError with what to write instead."""
    parts = _parse(text)
    _check_order(parts)
    expression: list[bytes] = []
    types: dict[str, str] = {}
    pieces: list[bytes] = []
    choosable: list[tuple[bytes, ...]] = []
    optional = False
    for at, part in enumerate(parts):
        match part.kind:
            case "open":
                optional = True
                expression.append(b"(?:")
            case "close":
                optional = False
                expression.append(b")?")
            case "function":
                expression.append(FUNCTION)
            case "anything":
                expression.append(b"")
            case "literal":
                body, found = _literal(part.text, at > 0, at + 1 < len(parts))
                expression.append(body)
                if not optional:
                    pieces.extend(found)
            case "field":
                if part.text in types:
                    raise RuleError(
                        f"field {part.text!r} stands twice", hint="use another name, or _ for what is not kept"
                    )
                body = _field(part, choices)
                if part.text == "_":
                    expression.append(b"(?:" + body + b")")
                else:
                    types[part.text] = part.type
                    expression.append(b"(?P<" + part.text.encode() + b">" + body + b")")
                if part.type == "choice" and not optional:
                    choosable.append(_telling(choices[part.text]))
    steps = _steps(parts, expression)
    if parts[-1].kind != "anything" and parts[-1].type != "text":
        expression.append(END)
        steps.append(("the end of the line", END))
    return Template(
        expression=b"".join(expression),
        types=types,
        literals=_literals(pieces, choosable),
        pieces=tuple(pieces),
        steps=tuple(steps),
    )


def _steps(parts: list[_Part], expression: list[bytes]) -> list[tuple[str, bytes]]:
    """Part by part; what may be missing is one step."""
    steps: list[tuple[str, bytes]] = []
    optional = False
    for part, body in zip(parts, expression, strict=True):
        words = f"{{{part.text}:{part.type}}}" if part.kind == "field" else part.text
        if optional:
            words, body = steps[-1][0] + words, steps[-1][1] + body
            steps.pop()
        optional = part.kind == "open" or (optional and part.kind != "close")
        steps.append((words, body))
    return steps


def converter(type_name: str, choice: Mapping[str, Any] | None = None) -> Callable[[bytes], Any]:
    """How the bytes a field matched become its value. Never raises on what the field's expression matches."""
    if type_name in ("int", "float"):
        return int if type_name == "int" else float
    if type_name == "hex":
        return _hex
    if type_name == "choice":
        table = {key.encode(): value for key, value in (choice or {}).items()}
        return table.__getitem__
    return _text


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").rstrip(" \t\r")


def _hex(raw: bytes) -> int:
    return int(raw, 16)


def _parse(text: str) -> list[_Part]:
    if not text:
        raise RuleError(
            "the template is empty", hint='write the message as the program prints it: "all slots are idle"'
        )
    if text != text.strip():
        raise RuleError(
            "the template begins or ends with a blank",
            hint="leave it out: blanks behind the function's name and at the end of a line are always allowed",
        )
    parts: list[_Part] = []
    depth = 0
    for token in _TOKEN.findall(text):
        if token == "[[":
            if depth:
                raise RuleError("'[[' inside '[['", hint="parts that may be missing cannot be nested")
            depth = 1
            parts.append(_Part("open", token))
        elif token == "]]" and depth:
            depth = 0
            if parts[-1].kind == "open":
                raise RuleError(
                    "'[[]]' is empty", hint="put between the brackets what may be missing, or leave them out"
                )
            parts.append(_Part("close", token))
        elif token in ("{{", "}}"):
            _add_literal(parts, token[0])
        elif token in ("{", "}"):
            raise RuleError(f"a lone {token!r}", hint=f"write {token * 2!r} for a brace the program prints")
        elif token == "{fn}":
            parts.append(_Part("function", token))
        elif token == "{*}":
            parts.append(_Part("anything", token))
        elif token.startswith("{"):
            field = _FIELD.fullmatch(token)
            if field is None or field.group(2) not in TYPES:
                raise RuleError(f"{token} is no field", hint=f"write {{name:type}} with a type of {', '.join(TYPES)}")
            parts.append(_Part("field", field.group(1), field.group(2)))
        else:
            _add_literal(parts, token)
    if depth:
        raise RuleError("'[[' without ']]'", hint="close the part that may be missing")
    return parts


def _add_literal(parts: list[_Part], text: str) -> None:
    if parts and parts[-1].kind == "literal":
        parts[-1].text += text
    else:
        parts.append(_Part("literal", text))


def _check_order(parts: list[_Part]) -> None:
    last = len(parts) - 1
    for at, part in enumerate(parts):
        if at < last and (part.kind == "anything" or part.type == "text"):
            name = "{*}" if part.kind == "anything" else f"{{{part.text}:text}}"
            raise RuleError(
                f"{name} before the end of the template", hint="only the last part can be the rest of the line"
            )
        if part.kind == "field" and at < last and parts[at + 1].kind == "field":
            raise RuleError(
                f"fields {part.text!r} and {parts[at + 1].text!r} touch",
                hint="put the text between them that is printed there",
            )
        if part.type == "quoted" and not (_ends_quoted(parts, at) and _begins_quoted(parts, at)):
            raise RuleError(f"{{{part.text}:quoted}} without quotes around it", hint=f"write '{{{part.text}:quoted}}'")


def _ends_quoted(parts: list[_Part], at: int) -> bool:
    return at > 0 and parts[at - 1].kind == "literal" and parts[at - 1].text.endswith("'")


def _begins_quoted(parts: list[_Part], at: int) -> bool:
    return at + 1 < len(parts) and parts[at + 1].kind == "literal" and parts[at + 1].text.startswith("'")


def _literal(text: str, something_before: bool, something_behind: bool) -> tuple[bytes, list[bytes]]:
    """One stretch of text: its expression, and the pieces a matching line contains byte for byte."""
    expression: list[bytes] = []
    pieces = [b""]
    runs = [run for run in _BLANKS.split(text) if run]
    for at, run in enumerate(runs):
        edge = (at == 0 and something_before) or (at == len(runs) - 1 and something_behind)
        if run.isspace() and (edge or len(run) > 1):
            expression.append(rb"[ \t]+")
            pieces.append(b"")
        else:
            expression.append(re.escape(run.encode()))
            pieces[-1] += run.encode()
    return b"".join(expression), [piece for piece in pieces if piece]


def _field(part: _Part, choices: Mapping[str, Mapping[str, Any]]) -> bytes:
    if part.type != "choice":
        return _EXPRESSIONS[part.type]
    if part.text not in choices:
        raise RuleError(
            f"{{{part.text}:choice}} has nothing to choose from",
            hint=f'list the texts and their values: [pattern.choice.{part.text}] "Bus error" = 7',
        )
    longest_first = sorted(choices[part.text], key=len, reverse=True)
    return b"|".join(re.escape(key.encode()) for key in longest_first)


def _telling(choice: Iterable[str]) -> tuple[bytes, ...]:
    """The texts of a choice without those that hold another of them: finding that one finds both."""
    return tuple(key.encode() for key in choice if not any(other != key and other in key for other in choice))


def _literals(pieces: Iterable[bytes], choosable: Iterable[tuple[bytes, ...]]) -> tuple[bytes, ...]:
    """The most telling of what every match contains: the longest text, or a choice all of whose texts are longer."""
    candidates = [(piece,) for piece in pieces] + list(choosable)
    candidates = [c for c in candidates if min(map(len, c)) >= LITERAL_BYTES]
    return max(candidates, key=lambda c: min(map(len, c)), default=())
