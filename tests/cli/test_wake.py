"""`wake` and `warm` as commands: what they say, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sleepwatch.cli import main
from tests.support.fake_llama import FakeLlama


def call(*arguments: object) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_wake_says_what_it_does() -> None:
    with FakeLlama() as server:
        done = call("wake", server.url)
        again = call("wake", server.url)
    assert done.exit_code == again.exit_code == 0
    first, second = done.output.splitlines()
    assert first == f"{server.url} sleeps, and 0 connections wait for an answer; sending a completion of one token"
    assert second.startswith("awake after 0.")
    assert again.output == f"{server.url} is awake; nothing was sent\n"
    assert server.posts == ["/completion"]


def test_wake_that_wakes_nothing() -> None:
    with FakeLlama(manner="dies") as server:
        done = call("wake", server.url)
        again = call("wake", server.url)
    assert done.exit_code == again.exit_code == 1
    assert "not woken, the request: crashed-on-wake" in done.output
    assert again.output == f"not woken, nothing was sent: /props of {server.url}: connection refused\n"


def test_wake_as_json() -> None:
    with FakeLlama() as server:
        done = call("wake", "--json", server.url)
    said = json.loads(done.output)
    assert said.pop("took_s") >= 0
    assert said == {
        "url": server.url, "outcome": "woke", "words": "answered", "kind": "completion", "status": 200,
        "waiting": 0, "seen_answered": 0, "still_waiting": 0,
    }  # fmt: skip


@pytest.mark.parametrize("command", ["wake", "warm"])
def test_wrong_options(command: str, tmp_path: Path) -> None:
    for arguments in (["ftp://host"], ["host:1", "--api-key-file", tmp_path / "none"], ["host:1", "--kind", "x"], []):
        assert call(command, *arguments).exit_code == 2


@pytest.mark.parametrize("command", ["wake", "warm"])
def test_the_help_says_that_it_is_no_fix(command: str) -> None:
    said = " ".join(call(command, "--help").output.split())
    assert "a client-side mitigation of a defect in the server, not its fix" in said


def test_warm() -> None:
    with FakeLlama() as server:
        done, quiet, document = (call("warm", *more, server.url) for more in ([], ["-q"], ["--json"]))
    assert done.exit_code == quiet.exit_code == 0
    assert done.output.startswith(f"{server.url}: it is awake, with a whole idle period ahead (0.")
    assert quiet.output == ""
    assert json.loads(document.output)["warm"] is True


def test_warm_that_does_not_warm() -> None:
    with FakeLlama(key="right") as server:
        done = call("warm", "-q", server.url)
    assert done.exit_code == 1
    assert "is not ready: status 401: Invalid API Key" in done.stderr
