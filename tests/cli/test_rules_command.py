"""``sleepwatch rules``: list, show and test, on the shipped files and on a directory of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleepwatch.cli import main
from sleepwatch.model import KINDS
from sleepwatch.rules import load

GOOD = """
program = "dozer"

[[pattern]]
name = "sleep-enter"
event = "sleep.enter"
tag = ""
format = "dozer goes to sleep"
since = "b9000"
verbosity = {C = 3}
source = "dozer.c, doze"
[pattern.set]
[[pattern.sample]]
line = "dozer goes to sleep"
fields = {}
from = "made"
[[pattern.not]]
line = "the dozer goes to sleep"
why = "a sentence"
from = "made"

[[pattern]]
name = "unit-killed"
event = "process.exit"
message_id = "98e322203f7a4ed290d09fe03c09fe15"
ident = "systemd"
[pattern.set]
by = "systemd"
[pattern.map]
signal = "EXIT_STATUS:int"
[pattern.when]
EXIT_CODE = "killed"
[[pattern.sample]]
record = {MESSAGE_ID = "98e322203f7a4ed290d09fe03c09fe15", EXIT_CODE = "killed", EXIT_STATUS = "11"}
fields = {by = "systemd", signal = 11}
from = "made"
[[pattern.not]]
record = {MESSAGE_ID = "98e322203f7a4ed290d09fe03c09fe15", EXIT_CODE = "exited", EXIT_STATUS = "1"}
why = "it ended by itself"
from = "made"
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rules", *arguments])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "dozer.toml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def test_list_shows_every_pattern_and_kind() -> None:
    result = run("list")
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.splitlines() if line]
    names = {row[0] for row in rows}
    assert {f"{pattern.program}/{pattern.name}" for pattern in load().patterns} | set(KINDS) == names
    row = next(row for row in rows if row[0] == "llama-server/sleep-enter")
    assert row[1] == "sleep.enter"
    assert " ".join(row[2:]) == "que: entering sleeping state"


def test_list_as_json() -> None:
    document = json.loads(run("list", "--json").output)
    assert document["digest"] == load().digest
    entry = next(e for e in document["patterns"] if (e["program"], e["name"]) == ("shells", "bash"))
    assert entry["event"] == "process.exit"
    assert entry["constants"] == {"by": "shell"}
    assert entry["literals"]
    assert {words["kind"] for words in document["incidents"]} == set(KINDS)


def test_show_a_pattern(own: Path) -> None:
    result = run("show", "dozer/sleep-enter", "--rules", str(own))
    assert result.exit_code == 0
    for text in (
        "dozer/sleep-enter  (dozer.toml, line 4)",
        "dozer goes to sleep",
        "b9000-",
        "C>=3",
        "dozer.c, doze",
        "refuses    the dozer goes to sleep",
        "a sentence (made)",
    ):
        assert text in result.output


def test_show_a_pattern_without_text(own: Path) -> None:
    result = run("show", "unit-killed", "--rules", str(own))
    for text in ("MESSAGE_ID=98e3", "signal:int from EXIT_STATUS", "by='systemd'", "EXIT_CODE=killed EXIT_STATUS=11"):
        assert text in result.output
    entry = json.loads(run("show", "unit-killed", "--json", "--rules", str(own)).output)["patterns"][0]
    assert entry["record_fields"] == {"signal": "EXIT_STATUS:int"}
    assert entry["record_needs"] == {"EXIT_CODE": ["killed"]}
    assert entry["samples"][0]["record"]["EXIT_STATUS"] == "11"


def test_show_escapes_what_a_rule_file_could_do_to_a_terminal(own: Path) -> None:
    text = GOOD.replace('why = "a sentence"', 'why = "a \\u001b[2Jsentence"')
    (own / "dozer.toml").write_text(text, encoding="utf-8")
    output = run("show", "sleep-enter", "--rules", str(own)).output
    assert "a \\x1b[2Jsentence" in output
    assert "\x1b" not in output


def test_show_the_words_of_an_incident_with_commands_whole() -> None:
    output = run("show", "hung-request").output
    assert "hung-request: a request waits in a sleeping server (critical, after 2 s)" in output
    assert all(f"  {label}:\n" in output for label in ("means", "next", "do", "looks like"))
    assert """curl -s --max-time 120 http://HOST:PORT/completion -d '{"prompt":"hi","n_predict":1}'\n""" in output
    assert all(len(line) <= 100 for line in output.splitlines() if "curl" not in line)
    entry = json.loads(run("show", "hung-request", "--json").output)["incidents"][0]
    assert entry["severity"] == "critical"
    assert entry["grace_s"] == 2.0


@pytest.mark.parametrize(
    ("name", "hint"), [("hung", "hung-request"), ("sleep-entr", "sleep-enter"), ("xyzzy", "rules list")]
)
def test_show_a_name_nobody_has(name: str, hint: str) -> None:
    result = run("show", name)
    assert result.exit_code == 2
    assert f"named '{name}'" in result.stderr
    assert hint in result.stderr


def test_the_shipped_samples_hold() -> None:
    result = run("test")
    assert result.exit_code == 0, result.output
    for file in load().files:
        assert f"{file}: " in result.output
    assert "no failed" in result.output
    assert f"incidents.toml: {len(KINDS)} kinds" in result.output


def test_test_as_json(own: Path) -> None:
    result = run("test", "--json", "--rules", str(own))
    assert result.exit_code == 0
    document = json.loads(result.output)
    assert document["ok"] is True
    assert document["files"] == [{"file": "dozer.toml", "patterns": 2, "samples": 2, "refusals": 2, "problems": []}]


def test_a_failing_sample_ends_with_1_and_is_named(own: Path) -> None:
    text = GOOD.replace('line = "the dozer goes to sleep"', 'line = "dozer goes to sleep"')
    (own / "dozer.toml").write_text(text, encoding="utf-8")
    result = run("test", "--rules", str(own))
    assert result.exit_code == 1
    assert "dozer.toml: 2 patterns, 2 samples, 2 refusals: 1 failed" in result.output
    assert "line 4, sleep-enter: matches 'dozer goes to sleep', which it must not: a sentence" in result.output
    document = json.loads(run("test", "--json", "--rules", str(own)).output)
    assert document["ok"] is False
    assert document["files"][0]["problems"][0]["pattern"] == "sleep-enter"


def test_a_broken_file_ends_with_2_and_one_sentence(own: Path) -> None:
    (own / "dozer.toml").write_text(GOOD.replace("format =", "fromat ="), encoding="utf-8")
    result = run("test", "--rules", str(own))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "dozer.toml, line 8: unknown key 'fromat'" in result.stderr
    assert "did you mean 'format'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_directory_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    result = run("test", "--rules", str(tmp_path / "gone"))
    assert result.exit_code == 2
    assert "not a directory" in result.stderr


def test_a_directory_may_bring_its_own_words(own: Path) -> None:
    (own / "incidents.toml").write_text("[blind]\n", encoding="utf-8")
    result = run("test", "--rules", str(own))
    assert result.exit_code == 2
    assert "incidents.toml: [stalled-request] is missing" in result.stderr
