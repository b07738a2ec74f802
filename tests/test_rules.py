"""The rule files: every sample they carry, what they must not match, and what the loader refuses."""

from __future__ import annotations

import gzip
import importlib.resources
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch import prefix
from sleepwatch.engine.verdicts import GRACE_US
from sleepwatch.errors import RuleError
from sleepwatch.model import KINDS
from sleepwatch.rulefile import KEYS
from sleepwatch.rules import EVENTS, Pattern, Sample, check, load, load_incidents
from sleepwatch.template import LITERAL_BYTES, TYPES

SHIPPED = load()
DOCS = Path(__file__).parent.parent / "docs"


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(pattern, sample, id=f"{pattern.program}/{pattern.name}-{at}")
        for pattern in SHIPPED.patterns
        for at, sample in enumerate(getattr(pattern, kind))
    ]


def body(line: str) -> bytes:
    return prefix.split(line.encode()).body


# -- what is shipped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "sample"), cases("samples"))
def test_a_sample_matches_with_its_fields(pattern: Pattern, sample: Sample) -> None:
    if sample.record is not None:
        match = pattern.match_record(sample.record.get("MESSAGE_ID"), sample.record)
    else:
        assert sample.line is not None
        match = pattern.match(body(sample.line))
        assert any(literal in sample.line.encode() for literal in pattern.literals)
    assert match is not None
    assert match.fields == sample.fields


@pytest.mark.parametrize(("pattern", "sample"), cases("refusals"))
def test_a_negative_sample_does_not_match(pattern: Pattern, sample: Sample) -> None:
    if sample.record is not None:
        assert pattern.match_record(sample.record.get("MESSAGE_ID"), sample.record) is None
    else:
        assert sample.line is not None
        assert pattern.match(body(sample.line)) is None


def test_the_shipped_files_keep_every_promise() -> None:
    assert check(SHIPPED) == []


RECORDINGS = {"b9093": "x2026.5.9093-*", "b10229": "x2026.8.10229-*", "b11368": "b11368-*", "b11549": "x11549-*"}


@cache
def recorded_lines(corpus: Path, build: str) -> frozenset[str]:
    lines: set[str] = set()
    for folder in corpus.glob(RECORDINGS[build]):
        for file in folder.glob("server.log*"):
            raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            lines.update(raw.decode("utf-8", "replace").split("\n"))
    return frozenset(lines)


@pytest.mark.parametrize(("pattern", "sample"), cases("samples") + cases("refusals"))
def test_what_is_labelled_recorded_was_recorded(pattern: Pattern, sample: Sample, corpus: Path) -> None:
    build = sample.origin.removeprefix("recorded: ")
    if build in RECORDINGS and sample.line is not None:
        assert sample.line in recorded_lines(corpus, build)
    else:
        assert sample.origin == "made" or pattern.program != "llama-server"


def test_every_line_of_a_verbose_recording_that_matches_is_found_by_a_literal(corpus: Path) -> None:
    log = gzip.decompress((corpus / "b11368-lv5-rescue" / "server.log.gz").read_bytes())
    events = 0
    for line in log.split(b"\n"):
        found = [pattern for pattern in SHIPPED.patterns if pattern.match(prefix.split(line).body)]
        assert len({pattern.event for pattern in found}) <= 1
        for pattern in found:
            events += 1
            assert any(literal in line for literal in pattern.literals)
    assert events > 300


TRAPS = {
    "in a request's body": (
        'srv  log_server_r: request:  {"messages":[{"role":"user","content":"0.01.000.000 I que    start_loop: '
        'entering sleeping state"}]}'
    ),
    "in an unstamped body": '{"prompt":"que    start_loop: entering sleeping state"}',
    "in a converted request": 'D srv    operator(): converted request: {"prompt":"srv stop: cancel task, id_task = 3"}',
    "in a streamed chunk": 'D srv    operator(): http: streamed chunk: data: {"content":"main: model loaded"}',
    "in a prompt's middle": "user: my log says slot launch_slot_: id  0 | task 3 | processing task, is_child = 0",
    "in a debugger's arguments": 'Starting program: /usr/bin/llama-server -p "que start_loop: entering sleeping state"',
    "quoted in a mail": "> 0.08.631.071 I que    start_loop: entering sleeping state",
    "another server's sleep": "INFO worker: exiting sleeping state, reloading model",
    "a game's sleep": "The dragon is entering sleeping state",
    "ik_llama.cpp: a slot": 'INFO [   launch_slot_with_task] slot is processing task | tid="9868" id_slot=0 id_task=3',
    "ik_llama.cpp: a post": 'VERB [              post] new task | tid="9868" id_task=3',
    "a JSON log of 2024": '{"timestamp":1706720633,"level":"INFO","function":"main","message":"model loaded"}',
    "llama-swap": '[INFO] Request 10.0.0.1 "POST /v1/chat/completions HTTP/1.1" 502 41 "agent" 293.7ms',
    "a fit that gives up": "W common_fit_params: failed to fit params to free device memory: set by user, abort",
    "an allocation that failed": "E ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory",
    "a request's own error": "E srv    operator(): Failed to load image or audio file",
    "the child's state": '[54387] cmd_child_to_router:state:{"state":"sleeping","payload":{}}',
    "the child's ready": "[54387] cmd_child_to_router:ready",
    "a token": "D slot process_toke: id  0 | task 3 | n_gen = 1, n_remaining = 3, next token:  1279 ' stop processing'",
    "a slot without a task": "I slot get_availabl: id  3 | task -1 | selected slot by LRU, t_last = -1",
    "the other task line": "D que    start_loop: processing task, id = 4",
    "a result": "D res          send: sending result for task id = 4",
    "a compiler": "ggml-cuda.cu:12:5: fatal error: cuda.h: No such file or directory",
    "a script's words": "exit 139",
    "a shell's complaint": "/opt/run.sh: line 3: llama-server: command not found",
    "a sentence": "I get Segmentation fault (core dumped) when the prompt is long",
    "empty": "",
    "a bare prefix": "0.00.001.845 I ",
}


@pytest.mark.parametrize("line", TRAPS.values(), ids=TRAPS)
def test_no_pattern_of_any_program_falls_for(line: str) -> None:
    assert [pattern.name for pattern in SHIPPED.patterns if pattern.match(body(line))] == []


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[34m0.00.407.100\x1b[0m \x1b[32mI \x1b[0mque    start_loop: entering sleeping state",
        "\x1b[0m\x1b[34m0.00.407.100\x1b[0m \x1b[32mI \x1b[0mque    start_loop: entering sleeping state",
        "[ 8080] 121.57.649.356 I que    start_loop: entering sleeping state",
        "[51689] I que start_loop:  entering sleeping state",
        "I que start_loop: entering sleeping state",
        "que    start_loop: entering sleeping state\r",
        "431.37.755.194 I que  process_new_: entering sleeping state",
    ],
)
def test_the_same_line_in_every_dress_is_the_same_event(line: str) -> None:
    found = [pattern for pattern in SHIPPED.patterns if pattern.match(body(line))]
    assert [pattern.event for pattern in found] == ["sleep.enter"]


def test_the_rest_of_the_line_is_left_out_of_the_match() -> None:
    line = b'srv    operator(): got exception: {"error":{"message":"secret"}}'
    pattern = next(p for p in SHIPPED.patterns if p.event == "request.refused")
    match = pattern.match(line)
    assert match is not None
    assert line[: match.end] == b"srv    operator(): got exception: "


def test_the_literals_lead_to_their_patterns() -> None:
    assert len(set(SHIPPED.literals)) == len(SHIPPED.literals) == len(SHIPPED.by_literal)
    assert all(len(literal) >= LITERAL_BYTES for literal in SHIPPED.literals)
    for literal, patterns in zip(SHIPPED.literals, SHIPPED.by_literal, strict=True):
        assert patterns == tuple(pattern for pattern in SHIPPED.patterns if literal in pattern.literals)
    assert {p.name for found in SHIPPED.by_literal for p in found} >= {p.name for p in SHIPPED.patterns if p.regex}
    assert all(pattern.literal == pattern.literals[0] for pattern in SHIPPED.patterns if pattern.regex)


# -- for any bytes -----------------------------------------------------------------------------------------------------

LINES = [sample.line.encode() for p in SHIPPED.patterns for sample in p.samples if sample.line is not None]


@given(st.binary(max_size=300))
def test_any_bytes_can_be_matched_without_harm(line: bytes) -> None:
    assert_harmless(line)


@given(st.sampled_from(LINES), st.integers(0, 200), st.integers(0, 8), st.binary(max_size=12))
def test_a_damaged_line_is_harmless_and_still_found_where_it_matches(
    line: bytes, at: int, cut: int, put: bytes
) -> None:
    assert_harmless(line[:at] + put + line[at + cut :])


def assert_harmless(line: bytes) -> None:
    text = prefix.split(line).body
    for pattern in SHIPPED.patterns:
        match = pattern.match(text)
        if match is not None:
            assert any(literal in text for literal in pattern.literals)
            assert 0 < match.end <= len(text)
            assert match.fields.keys() <= {name.removesuffix("?") for name in EVENTS[pattern.event]}


@pytest.mark.parametrize("filler", [b"a", b": ", b"1 ", b"'", b" on port ", b"x:1: ", b" | task ", b" after "])
def test_a_line_of_a_megabyte_is_no_trap(filler: bytes) -> None:
    """The time for a line must grow with its length and no faster; this would take hours otherwise."""
    tail = filler * (1_000_000 // len(filler))
    for line in LINES:
        text = prefix.split(line + tail).body
        assert sum(pattern.match(text) is not None for pattern in SHIPPED.patterns) <= 2


# -- the loader --------------------------------------------------------------------------------------------------------

GOOD = """
program = "dozer"

[[pattern]]
name = "enter"
event = "sleep.enter"
tag = "que"
format = "entering sleeping state"
verbosity = {A = 3}
[[pattern.sample]]
line = "0.01.352.022 I que    start_loop: entering sleeping state"
fields = {}
from = "made"
[[pattern.not]]
line = "entering sleeping state"
why = "no tag"
from = "made"
"""

SAMPLES = """
[[pattern.sample]]
line = "x"
fields = {}
from = "made"
[[pattern.not]]
line = "y"
why = "z"
from = "made"
"""


def write(directory: Path, text: str, name: str = "dozer.toml") -> Path:
    (directory / name).write_text(text, encoding="utf-8")
    return directory


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_a_good_file_loads(tmp_path: Path) -> None:
    ruleset = load(write(tmp_path, GOOD))
    assert check(ruleset) == []
    (pattern,) = ruleset.patterns
    assert (pattern.program, pattern.name, pattern.event, pattern.tags) == ("dozer", "enter", "sleep.enter", ("que",))
    assert pattern.verbosity == {"A": 3}
    assert ruleset.files == ("dozer.toml",)
    assert (pattern.file, pattern.line) == ("dozer.toml", 4)


REFUSED = {
    "no TOML": ("program = ", "dozer.toml: not valid TOML", "'''"),
    "no program": (changed('program = "dozer"', ""), "dozer.toml: program is missing", "program ="),
    "no pattern": ('program = "dozer"', "dozer.toml: no pattern", "[[pattern]]"),
    "unknown key at the top": (
        changed("program", 'progam = "x"\nprogram'),
        "line 2: unknown key 'progam'",
        "'program'",
    ),
    "unknown key": (changed("verbosity", "verbosty"), "line 9: unknown key 'verbosty'", "'verbosity'"),
    "unknown sample key": (
        changed("fields =", "feilds ="),
        "line 12: unknown key of [[pattern.sample]] 'feilds'",
        "fields",
    ),
    "no name": (changed('name = "enter"', ""), "line 4, pattern '(no name)': name is missing", "sleep-enter"),
    "odd name": (
        changed('"enter"', '"En ter"'),
        "pattern 'En ter': name is missing or has other letters",
        "sleep-enter",
    ),
    "no event": (changed('event = "sleep.enter"', ""), "pattern 'enter': event is missing", "docs/events.md"),
    "no tag": (changed('tag = "que"', ""), "pattern 'enter': tag is missing", 'tag = ""'),
    "odd tag": (changed('tag = "que"', 'tag = "que "'), "tag is no tag", 'tag = "srv"'),
    "tag of the wrong kind": (changed('tag = "que"', "tag = 3"), "tag = 3", "a list of texts"),
    "no format": (changed('format = "entering sleeping state"', ""), "format is missing", "format ="),
    "wrong format": (changed("sleeping state", "{x}"), "format {x} is no field", "{name:type}"),
    "format of the wrong kind": (
        changed('format = "entering sleeping state"', "format = 3"),
        "format = 3",
        "between quotes",
    ),
    "no literal": (
        changed("entering sleeping state", "{_:int} in {_:int}"),
        "has no text of 6 bytes",
        "more of the printed text",
    ),
    "literal elsewhere": (
        changed("verbosity", 'literal = "other text"\nverbosity'),
        "literal 'other text' is not in",
        "leave it out",
    ),
    "literal too short": (
        changed("verbosity", 'literal = "state"\nverbosity'),
        "is shorter than 6 bytes",
        "leave it out",
    ),
    "verbosity of an unknown era": (changed("{A = 3}", "{D = 3}"), "verbosity D = 3", "levels 0 to 5"),
    "verbosity out of range": (changed("{A = 3}", "{A = 9}"), "verbosity A = 9", "levels 0 to 5"),
    "no positive sample": (
        re.sub(r"(?s)\[\[pattern.sample.*?(?=\[\[)", "", GOOD),
        "needs a positive sample",
        "[[pattern.sample]]",
    ),
    "no negative sample": (GOOD[: GOOD.index("[[pattern.not")], "needs a negative sample", "[[pattern.not]]"),
    "sample without fields": (changed("fields = {}", ""), "sample fields is missing", "fields = {}"),
    "sample without origin": (changed('from = "made"', ""), "sample from is missing", "recorded: "),
    "sample of unclear origin": (changed('"made"', '"somewhere"'), "sample from is missing", "recorded: "),
    "refusal without reason": (changed('why = "no tag"', ""), "not why is missing", "what the line is instead"),
    "sample without line": (changed("line =", "record = {}\nline ="), "needs either line or record", "line ="),
    "sample of two lines": (changed("022 I que", "022\\nI que"), "line is not one line of text", "line feed"),
    "choice for nothing": (
        changed("verbosity", 'choice = {x = {"a" = 1}}\nverbosity'),
        "choice is for 'x'",
        "{x:choice}",
    ),
    "choice that is empty": (
        changed("verbosity", "choice = {x = {}}\nverbosity"),
        "choice x is no table",
        "[pattern.choice.x]",
    ),
    "set and read": (
        changed('sleeping state"', 'state {x:int}"\nset = {x = 1}'),
        "set sets 'x', which the pattern also reads",
        "one of the two",
    ),
    "set of the wrong kind": (changed("verbosity", "set = 3\nverbosity"), "set = 3", "[pattern.set]"),
    "function refused without tag": (
        changed('tag = "que"', 'tag = ""\nexcept_function = "x"'),
        "except_function needs a tag",
        "tagged lines",
    ),
    "map without message id": (
        changed("verbosity", 'map = {x = "A:int"}\nverbosity'),
        "map without message_id",
        "32 hex",
    ),
    "odd message id": (
        changed("verbosity", 'message_id = "12"\nverbosity'),
        "message_id '12' is none",
        "32 lower-case",
    ),
    "odd map": (
        changed("verbosity", f'message_id = "{"0" * 32}"\nmap = {{x = "A"}}\nverbosity'),
        "map x = 'A'",
        "EXIT_STATUS:int",
    ),
    "map of a field that no reader hands on": (
        changed("verbosity", f'message_id = "{"0" * 32}"\nmap = {{x = "EXIT_STATUS|EXIT_STAT:int"}}\nverbosity'),
        "no journal reader hands on the field EXIT_STAT",
        "write EXIT_STATUS",
    ),
    "when of a field that no reader hands on": (
        changed("verbosity", f'message_id = "{"0" * 32}"\nwhen = {{QQQ = "x"}}\nverbosity'),
        "no journal reader hands on the field QQQ",
        "one of UNIT,",
    ),
    "odd when": (
        changed("verbosity", f'message_id = "{"0" * 32}"\nwhen = {{A = 3}}\nverbosity'),
        "when A = 3",
        '["killed", "dumped"]',
    ),
    "regex beside format": (
        changed("verbosity", "regex = 'x'\nverbosity"),
        "regex stands beside format",
        "one of the two",
    ),
    "regex without why": (changed("format =", "regex ="), "why is missing", "a format cannot express"),
    "regex without literal": (changed("format =", 'why = "x"\nregex ='), "literal is missing", "every match contains"),
    "wrong regex": (
        changed('format = "entering sleeping state"', 'why = "x"\nliteral = "sleeping"\nregex = "(sleeping"'),
        "regex is no regular expression",
        "backslash",
    ),
    "types without regex": (
        changed("verbosity", 'types = {x = "int"}\nverbosity'),
        "types belongs to regex",
        "{id:int}",
    ),
    "regex with a number that may be text": (
        changed(
            'format = "entering sleeping state"',
            "why = 'x'\nliteral = 'sleeping'\ntypes = {x = 'int'}\nregex = 'sleeping (?P<x>.*)'",
        ),
        "types x = 'int' over a group that may hold other text",
        "(?P<x>",
    ),
    "type for a group that is not there": (
        changed(
            'format = "entering sleeping state"',
            "why = 'x'\nliteral = 'sleeping'\ntypes = {y = 'int'}\nregex = 'sleeping'",
        ),
        "types y = 'int'",
        "(?P<y>",
    ),
    "the same name twice": (
        GOOD + GOOD[GOOD.index("[[pattern]]") :],
        "line 18: pattern 'enter' exists already",
        "line 4",
    ),
}


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_file_is_refused_with_the_place_and_what_to_write(
    text: str, message: str, hint: str, tmp_path: Path
) -> None:
    write(tmp_path, GOOD.replace("dozer", "good"), "a-good-one.toml")
    with pytest.raises(RuleError) as caught:
        load(write(tmp_path, text))
    assert caught.value.message.startswith("dozer.toml")
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dozer.toml").write_bytes(b"program = '\xff'")
    with pytest.raises(RuleError, match=r"dozer\.toml: not UTF-8"):
        load(tmp_path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dozer.toml").mkdir()
    with pytest.raises(RuleError, match=r"dozer\.toml: cannot be read"):
        load(tmp_path)


def test_a_directory_without_rules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no rule file"):
        load(tmp_path)
    with pytest.raises(RuleError, match="not a directory"):
        load(tmp_path / "gone")


def test_the_digest_is_of_the_content_not_of_its_layout(tmp_path: Path) -> None:
    digest = load(write(tmp_path, GOOD)).digest
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert load(write(tmp_path, "# a comment\n" + GOOD.replace("{A = 3}", "{ A = 3 }"))).digest == digest
    assert load(write(tmp_path, GOOD.replace("{A = 3}", "{A = 4}"))).digest != digest


def test_an_installed_program_uses_the_files_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_rules").mkdir()
    write(tmp_path / "_rules", GOOD)
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)
    assert [pattern.program for pattern in load().patterns] == ["dozer"]


# -- what a pattern can say --------------------------------------------------------------------------------------------


def one(directory: Path, lines: str) -> Pattern:
    (pattern,) = load(write(directory, f'program = "p"\n[[pattern]]\nname = "n"\n{lines}\n{SAMPLES}')).patterns
    return pattern


def given_fields(pattern: Pattern, line: bytes) -> dict[str, Any] | None:
    match = pattern.match(line)
    return match.fields if match is not None else None


def test_a_list_of_tags_with_none_among_them(tmp_path: Path) -> None:
    pattern = one(tmp_path, 'event = "load.done"\ntag = ["srv", "cmn", ""]\nformat = "model loaded"')
    for line in (
        b"model loaded",
        b"srv  llama_server: model loaded",
        b"cmn x:model loaded",
        b"srv main:   model loaded",
    ):
        assert given_fields(pattern, line) == {}
    for line in (
        b"que  x: model loaded",
        b"srv model loaded",
        b"srv  a-name-of-15-let: model loaded",
        b"srv  : model loaded",
    ):
        assert given_fields(pattern, line) is None


def test_a_function_can_be_refused(tmp_path: Path) -> None:
    pattern = one(tmp_path, 'event = "load.done"\ntag = "srv"\nformat = "model loaded"\nexcept_function = ["late"]')
    assert given_fields(pattern, b"srv  later: model loaded") == {}
    assert given_fields(pattern, b"srv          late: model loaded") is None


def test_an_expression_with_types(tmp_path: Path) -> None:
    pattern = one(
        tmp_path,
        'event = "request.cancelled"\ntag = "srv"\nliteral = "cancel"\nwhy = "two words for one thing"\n'
        "regex = '(?:cancel|cancelled) (?P<id>[+-]?\\d{1,18})'\ntypes = {id = 'int'}",
    )
    assert given_fields(pattern, b"srv  stop: cancelled 12") == {"id": 12}
    assert given_fields(pattern, b"srv  stop: cancel 12 \r") == {"id": 12}
    assert given_fields(pattern, b"srv  stop: cancel 12 more") is None


MESSAGE_ID = "98e322203f7a4ed290d09fe03c09fe15"
STRUCTURED = f'''
event = "process.exit"
message_id = "{MESSAGE_ID}"
ident = "systemd"
[pattern.set]
by = "systemd"
[pattern.map]
unit = "UNIT:text"
signal = "EXIT_STATUS:int"
core = "EXIT_CODE:choice"
[pattern.choice.core]
killed = false
dumped = true
[pattern.when]
UNIT_RESULT = ["signal", "core-dump"]
'''


def test_a_journal_entry_is_matched_by_its_fields(tmp_path: Path) -> None:
    pattern = one(tmp_path, STRUCTURED)
    entry = {"UNIT": "llama.service", "EXIT_CODE": "dumped", "EXIT_STATUS": "11", "UNIT_RESULT": "core-dump"}
    match = pattern.match_record(MESSAGE_ID, entry)
    assert match is not None
    assert match.fields == {"by": "systemd", "unit": "llama.service", "signal": 11, "core": True}
    assert pattern.idents == ("systemd",)
    assert pattern.match(b"anything") is None
    assert pattern.literal == b""
    assert pattern.match_record("0" * 32, entry) is None
    assert pattern.match_record(None, entry) is None
    assert pattern.match_record(MESSAGE_ID, entry | {"EXIT_CODE": "exited"}) is None
    assert pattern.match_record(MESSAGE_ID, entry | {"EXIT_STATUS": "many"}) is None
    assert pattern.match_record(MESSAGE_ID, entry | {"UNIT_RESULT": "success"}) is None
    del entry["UNIT"]
    match = pattern.match_record(MESSAGE_ID, entry)
    assert match is not None
    assert "unit" not in match.fields


def test_structured_patterns_are_found_by_their_message_id(tmp_path: Path) -> None:
    pattern = one(tmp_path, STRUCTURED)
    ruleset = load(tmp_path)
    assert [found.name for found in ruleset.message_ids[MESSAGE_ID]] == [pattern.name]
    assert ruleset.literals == ()


# -- running the samples -----------------------------------------------------------------------------------------------


BROKEN = {
    "a sample that does not match": (
        changed("I que    start_loop", "I srv    start_loop"),
        "does not match its sample",
    ),
    "fields that are others": (changed("fields = {}", "fields = {id = 3}"), "gives {} for"),
    "a negative sample that matches": (
        changed('line = "entering sleeping state"', 'line = "que  x: entering sleeping state"'),
        "which it must not: no tag",
    ),
    "an event nobody knows": (changed("sleep.enter", "sleep.entr"), "means 'sleep.entr', which nothing understands"),
    "a field the event does not have": (changed("verbosity", "set = {id = 3}\nverbosity"), "gives the field 'id'"),
    "a field the event lacks": (changed('"sleep.enter"', '"request.cancelled"'), "lacks the field 'id'"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_promise_is_found(text: str, message: str, tmp_path: Path) -> None:
    problems = check(load(write(tmp_path, text)))
    assert any(message in problem.message for problem in problems)
    assert all((p.file, p.line, p.pattern) == ("dozer.toml", 4, "enter") and p.hint for p in problems)


def test_a_literal_that_not_every_line_has_is_found(tmp_path: Path) -> None:
    text = changed(
        'format = "entering sleeping state"',
        "why = 'x'\nliteral = 'sleeping'\nregex = 'entering [a-z]+ state|exiting'",
    ).replace("entering sleeping state", "entering dozing state")
    assert any("would not be found" in problem.message for problem in check(load(write(tmp_path, text))))


def test_a_line_that_two_patterns_claim_is_found(tmp_path: Path) -> None:
    second = GOOD[GOOD.index("[[pattern]]") :].replace('"enter"', '"exit"').replace("sleep.enter", "sleep.exit")
    problems = check(load(write(tmp_path, GOOD + second)))
    assert len(problems) == 2
    assert "is also claimed by 'exit' as sleep.exit" in problems[0].message


# -- the incidents' words ----------------------------------------------------------------------------------------------


def test_every_kind_has_its_words() -> None:
    words = load_incidents()
    assert set(words) == set(KINDS)
    assert words["hung-request"].grace_s * 1_000_000 == GRACE_US
    assert {kind for kind, word in words.items() if word.severity == "warning"} == {"crash", "stalled-request", "blind"}
    assert {word.severity for word in words.values()} == {"critical", "warning"}


@pytest.mark.parametrize("kind", ["hung-request", "sleep-crash"])
def test_the_warm_up_is_called_a_mitigation(kind: str) -> None:
    words = load_incidents()[kind]
    assert "client-side mitigation" in words.do
    assert "defect in the server" in words.do


WORDS = "".join(
    f'[{kind}]\ntitle = "t"\nseverity = "info"\nmeans = "m"\nnext = "n"\ndo = "d"\nlooks_like = "l"\n'
    for kind in reversed(KINDS)
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[blind]", "[blnd]", "unknown kind of incident 'blnd'"),
        ("[crash-loop]\n", "[crash.loop]\n", "[crash-loop] is missing"),
        ('severity = "info"', 'severity = "bad"', "line 1, [crash-loop]: severity 'bad'"),
        ('do = "d"\n', "", "line 1, [crash-loop]: do is missing"),
        ('do = "d"', 'do = "d"\ngrace_s = -1', "grace_s = -1"),
        ('do = "d"', 'do = "d"\ngrace_s = true', "grace_s = True"),
        ('do = "d"', 'do = "d"\ntodo = "x"', "line 7: unknown key 'todo'"),
        ("title", "= title", "not valid TOML"),
    ],
)
def test_wrong_words_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, WORDS, "incidents.toml")
    assert tuple(load_incidents(tmp_path)) == KINDS[::-1], "in the file's order"
    with pytest.raises(RuleError) as caught:
        load_incidents(write(tmp_path, WORDS.replace(old, new, 1), "incidents.toml"))
    assert message in caught.value.message


def test_a_missing_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"incidents.toml: \[blind\] is missing"):
        load_incidents(write(tmp_path, WORDS[: WORDS.index("[blind]")], "incidents.toml"))


# -- the documentation -------------------------------------------------------------------------------------------------


def test_the_list_of_events_is_the_one_in_the_documentation() -> None:
    rows = re.findall(r"(?m)^\| `([a-z_.]+)` \| *([^|]*?) *\|", (DOCS / "events.md").read_text(encoding="utf-8"))
    documented = {name: dict(re.findall(r"`([a-z]+\??)` (int|text|bool)", fields)) for name, fields in rows}
    assert documented == EVENTS


def test_every_type_and_key_is_in_the_documentation() -> None:
    text = (DOCS / "rules.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`'?\{x:([a-z]+)\}'?`", text)) == set(TYPES)
    assert set(KEYS) <= set(re.findall(r"`([a-z_]+)`", text)) | {"sample", "not"}


def test_the_examples_in_the_documentation_hold(tmp_path: Path) -> None:
    blocks = re.findall(r"(?s)```toml\n(.*?)```", (DOCS / "rules.md").read_text(encoding="utf-8"))
    whole = [block for block in blocks if "[[pattern]]" in block]
    assert len(whole) == 2
    write(tmp_path, whole[0])
    write(tmp_path, 'program = "systemd"\n' + whole[1], "systemd.toml")
    ruleset = load(tmp_path)
    assert [pattern.name for pattern in ruleset.patterns] == ["sleep-enter", "launched", "unit-killed"]
    assert check(ruleset) == []
