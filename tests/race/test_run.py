"""The order of a sweep, on the made server of test_trial.py."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sleepwatch.errors import SleepwatchError
from sleepwatch.race.server import Launch
from sleepwatch.race.sweep import Plan, Sweep, run
from sleepwatch.race.trial import Placer, Trial
from tests.race.test_trial import SLEEP_SECONDS, MadeServer

LAUNCH = Launch(program=Path("/nowhere/llama-server"), model=Path("model.gguf"))


class Told:
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.trials: list[Trial] = []

    def stage(self, words: str) -> None:
        self.stages.append(words)

    def trial(self, trial: Trial, done: int) -> None:
        self.trials.append(trial)
        assert done == len(self.trials)


def sweep(told: Told | None = None, prepare: Callable[[MadeServer], None] = lambda made: None, **plan: Any) -> Sweep:
    def server(launch: Launch, keep: object) -> Any:
        made = MadeServer("")
        prepare(made)
        return made

    return run(Plan(**{"launch": LAUNCH, "trials": 5, **plan}), told or Told(), server_class=server)


def placing_ends_with(error: BaseException, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    place = Placer.place

    def ending(self: Placer, number: int, aim_us: int) -> Trial:
        if number == after:
            raise error
        return place(self, number, aim_us)

    monkeypatch.setattr(Placer, "place", ending)


def test_every_send_is_told_and_returned() -> None:
    told = Told()
    measured = sweep(told)
    assert told.stages == ["starting the server", "measuring"]
    assert tuple(told.trials) == measured.trials
    assert [trial.trial for trial in measured.trials] == [0, 1, 2, 3, 4]
    assert measured.facts.sleep_after_us == pytest.approx(SLEEP_SECONDS * 1e6, abs=150_000)
    assert measured.facts.awake_status == 400
    assert (measured.facts.build, measured.facts.model) == ("unknown", {})
    assert measured.facts.prompt_counted
    assert not measured.ended_early


def test_a_prompt_that_cannot_be_counted_is_estimated() -> None:
    def uncounted(made: MadeServer) -> None:
        made.tokenizes = False

    facts = sweep(prepare=uncounted, trials=1).facts
    assert not facts.prompt_counted
    assert facts.prompt_tokens == pytest.approx(18_000, rel=0.05)


@pytest.mark.parametrize(
    ("stop", "number"), [(KeyboardInterrupt(), signal.SIGINT), (KeyboardInterrupt(int(signal.SIGTERM)), signal.SIGTERM)]
)
def test_an_interrupt_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stop: KeyboardInterrupt, number: int
) -> None:
    placing_ends_with(stop, monkeypatch, after=2)
    measured = sweep(keep=tmp_path / "kept")
    assert len(measured.trials) == 2
    assert measured.interrupted == number
    assert len((tmp_path / "kept" / "truth.jsonl").read_text().splitlines()) == 2
    assert json.loads((tmp_path / "kept" / "meta.json").read_text())["note"].endswith("; ended early")


def test_an_error_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    placing_ends_with(SleepwatchError("it broke", hint="look"), monkeypatch, after=2)
    measured = sweep()
    assert len(measured.trials) == 2
    assert measured.problem == ("it broke", "look")


def test_an_error_before_anything_was_measured_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    placing_ends_with(SleepwatchError("it broke"), monkeypatch, after=0)
    with pytest.raises(SleepwatchError, match="it broke"):
        sweep()


def test_a_request_that_is_refused_while_awake_cannot_be_measured() -> None:
    def refusing(made: MadeServer) -> None:
        made.fault = "garbage"

    with pytest.raises(SleepwatchError, match="a server that is awake gave status 400"):
        sweep(prepare=refusing)


def test_a_sleep_that_the_log_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sleepwatch.race.sweep._SLEEP_LATE_SECONDS", -0.5)

    def silent(made: MadeServer) -> None:
        say = made._say
        made._say = lambda text: None if "entering" in text else say(text)  # type: ignore[method-assign]

    with pytest.raises(SleepwatchError, match="the server sleeps, but its log does not say so"):
        sweep(prepare=silent)


def test_kept_directories_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "server.log").touch()
    with pytest.raises(SleepwatchError, match="holds the logs of another sweep"):
        sweep(keep=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SleepwatchError, match="cannot be written: Not a directory"):
        sweep(keep=tmp_path / "file" / "kept")
