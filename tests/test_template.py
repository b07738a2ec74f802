"""Templates: what each form matches, what it gives, and by which literal its lines are found."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sleepwatch.errors import RuleError
from sleepwatch.template import compile_template, converter

CHOICE = {"word": {"Bus error": 7, "Bus error: 10": 10, "Killed": 9}}


def fields(template: str, line: bytes) -> dict[str, Any] | None:
    """The fields the template gives for a whole message; None where it does not match."""
    compiled = compile_template(template, CHOICE)
    found = re.compile(compiled.expression, re.DOTALL).match(line)
    if found is None:
        return None
    return {
        name: converter(kind, CHOICE.get(name))(found[name])
        for name, kind in compiled.types.items()
        if found[name] is not None
    }


@pytest.mark.parametrize(
    ("template", "line", "expected"),
    [
        ("id_task = {id:int}", b"id_task = 97", {"id": 97}),
        ("id_task = {id:int}", b"id_task = -1", {"id": -1}),
        ("id_task = {id:int}", b"id_task =   97", {"id": 97}),
        ("id_task = {id:int}", b"id_task = 97 \r", {"id": 97}),
        ("id_task = {id:int}", b"id_task = 97x", None),
        ("id_task = {id:int}", b"id_task = 97, more", None),
        ("id_task = {id:int}", b"id_task = " + b"9" * 19, None),
        ("id_task = {id:int}{*}", b"id_task = " + b"9" * 19, None),
        ("id_task = {id:int}", b"xid_task = 97", None),
        ("exception code: {code:hex}", b"exception code: 0xC0000005", {"code": 0xC0000005}),
        ("exception code: {code:hex}", b"exception code: c0000409", {"code": 0xC0000409}),
        ("sim_best = {sim:float} end", b"sim_best = 0.125 end", {"sim": 0.125}),
        ("sim_best = {sim:float} end", b"sim_best = -inf end", {"sim": float("-inf")}),
        ("on commit {c:word} now", b"on commit 1a2b now", {"c": "1a2b"}),
        ("on commit {c:word} now", b"on commit 1a 2b now", None),
        ("listening on {u:url}", b"listening on unix:///run/l.sock", {"u": "unix:///run/l.sock"}),
        ("listening on {u:url}", b"listening on 127.0.0.1:6379", None),
        ("name={m:span} on port {p:int}", b"name=my own model on port 80", {"m": "my own model", "p": 80}),
        ("name={m:span} on port {p:int}", b"name= on port 80", None),
        ("loading model '{m:quoted}'", b"loading model '/m/it's.gguf'", {"m": "/m/it's.gguf"}),
        ("loading model '{m:quoted}'", b"loading model ''", {"m": ""}),
        ("loading model '{m:quoted}'", b"loading model '/m/x", None),
        ("client error: {w:text}", b"client error: Read timeout \r", {"w": "Read timeout"}),
        ("client error: {w:text}", b"client error: ", {"w": ""}),
        ("client error: {w:text}", b"client error: \xff\xfe", {"w": "\ufffd\ufffd"}),
        ("died: {word:choice}", b"died: Bus error: 10", {"word": 10}),
        ("died: {word:choice}", b"died: Bus error", {"word": 7}),
        ("died: {word:choice}", b"died: Bus", None),
        ("task {_:int} ended well", b"task 7 ended well", {}),
        ("processing task[[, is_child = {c:int}]]", b"processing task", {}),
        ("processing task[[, is_child = {c:int}]]", b"processing task, is_child = 1", {"c": 1}),
        ("processing task[[, is_child = {c:int}]]", b"processing task, id = 1", None),
        ("{fn}model loaded", b"main: model loaded", {}),
        ("{fn}model loaded", b"operator(): model loaded", {}),
        ("{fn}model loaded", b"operator ():model loaded", {}),
        ("{fn}model loaded", b"~Server: model loaded", {}),
        ("{fn}model loaded", b"model loaded", None),
        ("{fn}model loaded", b"the main: model loaded", None),
        ("[[{fn}]]cleaning up", b"cleaning up", {}),
        ("{{braces}} stay", b"{braces} stay", {}),
        ("rm [{p:int}, end)", b"rm [12, end)", {"p": 12}),
        ("error (a.b*c)", b"error (axbbc)", None),
        ("two  blanks here", b"two blanks here", {}),
        ("two  blanks here", b"two     blanks here", {}),
        ("one blank here", b"one  blank here", None),
    ],
)
def test_matches(template: str, line: bytes, expected: dict[str, Any] | None) -> None:
    assert fields(template, line) == expected


def test_what_follows_the_marker_is_not_part_of_the_match() -> None:
    compiled = compile_template("got exception: {*}", {})
    found = re.compile(compiled.expression, re.DOTALL).match(b'got exception: {"prompt":"secret"}')
    assert found is not None
    assert found.group() == b"got exception: "


@pytest.mark.parametrize(
    ("template", "literals"),
    [
        ("id {slot:int} | task {id:int} | processing task[[, is_child = {c:int}]]", (b"| processing task",)),
        ("build: {b:int} (x) with {*}", (b"(x) with",)),
        ("[[a very long optional part]]shorter part", (b"shorter part",)),
        ("two runs  of blanks", (b"of blanks",)),
        ("{word:choice}", (b"Bus error", b"Killed")),
        ("died: {word:choice}", (b"Bus error", b"Killed")),
        ("it has died: {word:choice}", (b"it has died:",)),
        ("{a:int} b {c:int}", ()),
        ("ümlaut {a:int}", ("ümlaut".encode(),)),
    ],
)
def test_literals(template: str, literals: tuple[bytes, ...]) -> None:
    assert compile_template(template, CHOICE).literals == literals


@pytest.mark.parametrize(
    ("template", "message", "hint"),
    [
        ("", "empty", "all slots are idle"),
        (" leading", "begins or ends with a blank", "leave it out"),
        ("trailing ", "begins or ends with a blank", "leave it out"),
        ("a [[b [[c]]]]", "'[[' inside '[['", "nested"),
        ("a [[b", "'[[' without ']]'", "close"),
        ("a [[]]b", "'[[]]' is empty", "between the brackets"),
        ("a {b", "a lone '{'", "'{{'"),
        ("a b}", "a lone '}'", "'}}'"),
        ("a {b}", "{b} is no field", "{name:type}"),
        ("a {B:int}", "{B:int} is no field", "{name:type}"),
        ("a {b:integer}", "{b:integer} is no field", "int, hex, float"),
        ("a {b:int} {b:int}", "field 'b' stands twice", "another name"),
        ("a {b:int}{c:int}", "fields 'b' and 'c' touch", "between them"),
        ("a {b:text} c", "{b:text} before the end", "last part"),
        ("a {*} c", "{*} before the end", "last part"),
        ("a {b:quoted}", "{b:quoted} without quotes", "'{b:quoted}'"),
        ("a {none:choice}", "{none:choice} has nothing to choose from", "[pattern.choice.none]"),
    ],
)
def test_a_wrong_template_says_what_to_write(template: str, message: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        compile_template(template, CHOICE)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "template", ["{_:word}:{_:int}: failed badly", "name={m:span} on port {p:int}", "x '{q:quoted}' yz"]
)
def test_a_long_line_costs_no_more_than_its_length(template: str) -> None:
    """No template may need quadratic time: lines of many megabytes exist, and every one of them could be a trap."""
    compiled = re.compile(compile_template(template, {}).expression, re.DOTALL)
    for filler in (b"a", b":1", b"'", b" on port ", b"name="):
        for start in (b"", b"name=x '", b"x '"):
            assert compiled.match(start + filler * 500_000) is None
