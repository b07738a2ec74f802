"""Keeps what a sweep saw: the server's log as it was written, and beside it what the clients met.

``server.log`` holds every byte of every life, one after the other. ``truth.jsonl`` has one line for each send, in
order, ``lives.jsonl`` one for each process, ``meta.json`` what the log is and what it is able to prove.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from sleepwatch.errors import SleepwatchError
from sleepwatch.printable import printable
from sleepwatch.race.log import Log
from sleepwatch.race.server import Server
from sleepwatch.race.trial import Trial

_VERBOSITY = re.compile(rb"verbosity = (\d+)")
_ERA_C_VERBOSITY = re.compile(rb"^cmn\b.*: verbosity = \d+")
_DEFAULT_VERBOSITY = 3


class Keeper:
    """A directory that fills as the sweep goes on. A context manager: leaving closes the files."""

    def __init__(self, directory: Path) -> None:
        """Make ``directory`` ready.

        Raises:
            SleepwatchError: it cannot be written, or it holds another sweep.

        """
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self.log: IO[bytes] = (directory / "server.log").open("xb")
            self._truth: IO[bytes] = (directory / "truth.jsonl").open("wb")
        except FileExistsError as problem:
            raise SleepwatchError(
                f"{printable(str(directory))} holds the logs of another sweep", hint="name a new directory"
            ) from problem
        except OSError as problem:
            raise self._unwritable(problem) from problem

    def _unwritable(self, problem: OSError) -> SleepwatchError:
        return SleepwatchError(
            f"{printable(str(self.directory))} cannot be written: {problem.strerror}", hint="name another directory"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.log.close()
        self._truth.close()

    def trial(self, trial: Trial, problem: OSError | None = None) -> None:
        """Note what the client of one send met; ``problem``: why the server's log could no longer be written.

        Raises:
            SleepwatchError: one of the two cannot be written.

        """
        try:
            if problem is not None:
                raise problem
            self._truth.write(msgspec.json.encode(truth(trial)) + b"\n")
            self._truth.flush()
        except OSError as error:
            raise self._unwritable(error) from error

    def finish(self, server: Server, *, build: str, patient: bool, note: str) -> None:
        """Write what is known at the end; the server has stopped."""
        lives = b"".join(msgspec.json.encode(life) + b"\n" for life in server.lives)
        (self.directory / "lives.jsonl").write_bytes(lives)
        era, verbosity = era_and_verbosity(server.log)
        meta = {
            "build": build,
            "era": era,
            "verbosity": verbosity,
            "note": note,
            "logs": ["server.log"],
            "provable": {
                # A client that gives up leaves its cancel inside the sleep. One that is served after all leaves a
                # proof only where arrivals (verbosity 4, b9971 and later) or posts (5; era A: 4) are printed.
                "hung": not patient or verbosity >= (4 if era == "A" else 5),
                "crashed": server.reports_deaths,
            },
        }
        (self.directory / "meta.json").write_bytes(msgspec.json.format(msgspec.json.encode(meta), indent=1) + b"\n")


def truth(trial: Trial) -> dict[str, Any]:
    """One line of ``truth.jsonl``; times in seconds, ``offset`` since the end of the task before."""
    known: dict[str, Any] = {
        "trial": trial.trial,
        "offset": round(trial.after_task_us / 1e6, 6),
        "relative": round(trial.offset_us / 1e6, 6),
        "sent": trial.sent_us / 1e6,
        "outcome": trial.outcome,
        "latency": round(trial.latency_us / 1e6, 6),
        "status": trial.status,
        "error": trial.error,
        "signal": trial.signal,
        "is_sleeping": trial.is_sleeping,
        "life": trial.life,
        "slept_clock_us": trial.slept_clock_us,
    }
    return {name: value for name, value in known.items() if value is not None}


def era_and_verbosity(log: Log) -> tuple[str, int]:
    """The era of a server's lines (llama.cpp b7492–b9150 A, b9151–b9828 B, from b9829 C) and what it prints."""
    era, verbosity = "A", _DEFAULT_VERBOSITY
    for line in log.since(0)[:200]:
        if found := _VERBOSITY.search(line.body):
            verbosity = int(found.group(1))
            era = "C" if line.says(_ERA_C_VERBOSITY) else "B"
            break
    return era, verbosity
