"""The command's own part: options, messages, and the progress bar. What it measures: test_sweep.py."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from sleepwatch.cli import main
from sleepwatch.cli.sweep import Offset, Progress
from tests.race.test_report import AWAKE, CRASHED, HUNG, sweep


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("-60ms", -60_000), ("30ms", 30_000), ("+0.03s", 30_000), ("-500us", -500), ("-0.25ms", -250)],
)
def test_offsets_have_a_sign_and_a_unit(text: str, microseconds: int) -> None:
    assert Offset().convert(text, None, None) == microseconds


@pytest.mark.parametrize("text", ["", "60", "ms", "-60 minutes", "1e3ms", "--5ms"])
def test_what_is_no_offset_is_told(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a time with a unit, such as -60ms or 0\.03s"):
        Offset().convert(text, None, None)


def call(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["sweep", *map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    (tmp_path / "model.gguf").touch()
    return ["--server", program, "--model", tmp_path / "model.gguf"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lo", "30ms", "--hi", "-60ms"], "--lo must be earlier than --hi"),
        (["--json", "--bug-report", "-"], "--json and --bug-report - both want standard output"),
        (["--bug-report", "/nowhere/report.md"], "/nowhere/report.md cannot be written"),
        (["--trials", "0"], "--trials"),
        (["--lo", "-60"], "'-60' is not a time with a unit"),
    ],
)
def test_wrong_options_are_told_before_anything_starts(files: list[object], options: list[str], message: str) -> None:
    done = call(*files, *options)
    assert done.exit_code == 2
    assert message in done.output


def test_a_negative_offset_is_no_option(files: list[object]) -> None:
    done = call(*files, "--lo", "-60ms")
    assert (done.exit_code, done.output) == (
        2,
        "sleepwatch: the server ended before it was ready, with exit code 0\n  it printed nothing\n",
    )


def test_a_server_that_is_not_there(files: list[object]) -> None:
    done = call(*files, "--server", "/nowhere/llama-server")
    assert done.exit_code == 2
    assert done.output.startswith("sleepwatch: the server /nowhere/llama-server was not found\n")


def test_the_plan_is_what_the_options_say(files: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plans = []

    def run(plan: Any, progress: Any) -> Any:
        plans.append(plan)
        return sweep(*AWAKE, *HUNG)

    monkeypatch.setattr("sleepwatch.race.sweep.run", run)
    report = tmp_path / "report.md"
    options = ["--sleep", 2, "--trials", 9, "--patient", "--lo", "-0.1s", "--verbosity", 4, "--bug-report", report]
    done = call(*files, *options, "--", "-ngl", "99")
    assert done.exit_code == 0
    assert "3 hung" in done.output
    assert report.read_text().startswith("## A request sent just before")
    (plan,) = plans
    assert (plan.trials, plan.patient, plan.warm, plan.lo_us, plan.hi_us) == (9, True, False, -100_000, 30_000)
    assert (plan.launch.sleep_seconds, plan.launch.verbosity, plan.launch.arguments) == (2, 4, ("-ngl", "99"))


@pytest.mark.parametrize(
    ("changes", "code", "last"),
    [
        ({"interrupted": 2}, 130, "help"),
        ({"interrupted": 15}, 143, "help"),
        ({"problem": ("the server broke", "look")}, 2, "sleepwatch: the server broke\n  look\n"),
    ],
)
def test_an_early_end_prints_what_there_is(
    files: list[object], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], code: int, last: str
) -> None:
    measured = msgspec.structs.replace(sweep(*AWAKE, *CRASHED), **changes)
    monkeypatch.setattr("sleepwatch.race.sweep.run", lambda plan, progress: measured)
    done = call(*files)
    assert done.exit_code == code
    assert "Ended early after 4 of 123 sends." in done.output
    assert last in done.output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_with_the_time_left_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress(4) as progress:
            progress.stage("measuring")
            for done, trial in enumerate((HUNG[0], HUNG[1], CRASHED[0]), start=1):
                progress.trial(trial, done)
        assert ("2 hung, 1 crashed" in stream.getvalue()) is shown
        assert ("3/4" in stream.getvalue()) is shown
        assert ("time left" in stream.getvalue()) is shown
        assert bool(stream.getvalue()) is shown
