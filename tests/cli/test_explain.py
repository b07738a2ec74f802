"""``sleepwatch explain``: its arguments, its exit codes, and what goes where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleepwatch.cli import main

ABANDON = "b11368-default-abandon/server.log"


def _run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["explain", *map(str, arguments)], input=stdin)


def test_the_whole_a_line_and_an_incident(corpus: Path) -> None:
    log = corpus / ABANDON
    whole = _run(log)
    assert (whole.exit_code, whole.stderr) == (0, "")
    assert whole.stdout.startswith(f"{log} (bare): 1 life, 11 sleeps\n")
    line = _run(f"{log}:42")
    assert "\n> 42\n  text    0.07.427.019 W srv          stop: cancel task, id_task = 7\n" in line.stdout
    story = _run(log, "--incident", "5c7a")
    assert story.stdout.startswith("hung-request 5c7afa6c13c3a210dd36  confirmed, abandoned  server\n")


def test_json(corpus: Path) -> None:
    document = json.loads(_run("--json", f"{corpus / ABANDON}:42").stdout)
    assert document["line"] == 42
    assert [step["line"] for step in document["steps"]] == [39, 40, 41, 42, 43, 44, 45]
    document = json.loads(_run("--json", corpus / ABANDON, "--incident", "5c7a").stdout)
    assert document["incident"]["id"] == "5c7afa6c13c3a210dd36"
    roles = [one["role"] for step in document["steps"] for one in step["proves"]]
    assert roles == ["sleep", "wake", "cancel", "launch"]


def test_standard_input(corpus: Path) -> None:
    data = gzip.compress((corpus / ABANDON).read_bytes())
    story = _run("-", "--incident", "5c7a", stdin=data)
    assert story.exit_code == 0
    assert "proof (cancel): 0.07.427.019 W srv" in story.stdout
    assert "> 42\n" in _run("--", "-:42", stdin=data).stdout


def test_raw_shows_the_whole_line(corpus: Path) -> None:
    line = f"{corpus / ABANDON}:43"
    assert "bytes not shown; --raw shows them" in _run(line).stdout
    assert "llama threadpool init, n_threads = 2" in _run(line, "--raw").stdout


def test_a_file_whose_name_ends_like_a_line(corpus: Path, tmp_path: Path) -> None:
    odd = tmp_path / "server.log:42"
    odd.write_bytes((corpus / ABANDON).read_bytes())
    assert " ".join(_run(odd).stdout.split()).startswith(f"{odd} (bare): 1 life")
    assert "> 42\n" in _run(f"{odd}:42").stdout


def test_the_pieces_of_a_rotated_log(corpus: Path, tmp_path: Path) -> None:
    data = (corpus / ABANDON).read_bytes()
    cut = data.index(b"\n", data.index(b"entering sleeping state")) + 1
    (tmp_path / "server.log.1").write_bytes(data[:cut])
    (tmp_path / "server.log").write_bytes(data[cut:])
    answer = _run(tmp_path / "server.log.1", f"{tmp_path / 'server.log'}:3")
    assert answer.exit_code == 0
    assert "> 3\n" in answer.stdout
    assert "life    server (0041348b2043b06bd506)" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{log}:999",), "server.log has no line 999"),
        (("{log}:0",), "server.log has no line 0"),
        (("{log}", "--incident", "ffff"), "no incident of this log has an id that begins with 'ffff'"),
        (("{log}:1", "--incident", "5c7a"), "name either a line or --incident, not both"),
        (("{log}", "--envelope", "none"), "there is no envelope 'none'"),
        (("{log}", "--tz", "Nowhere/Else"), "Nowhere/Else"),
        (("{dir}/none.log",), "none.log: no such file or directory"),
        (("{dir}/none.log:7",), "none.log: no such file or directory"),
        ((), "Missing argument"),
    ],
)
def test_what_goes_wrong_is_told_in_a_sentence(corpus: Path, arguments: tuple[str, ...], sentence: str) -> None:
    log = corpus / ABANDON
    result = _run(*(argument.format(log=log, dir=log.parent) for argument in arguments))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output
