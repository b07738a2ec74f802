"""Hung requests of a real server, with ``sleepwatch run`` beside it: are they answered?

``python tests/wake/rescue.py`` races until so many requests with patient clients have hung, with ``[wake] mode =
"act"``, and prints for each how long it waited in all, when it was detected and when the wake went out; then the
control, with waking off. It ends with status 1 if one was not answered, or if one of the control was.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sleepwatch.errors import SleepwatchError  # noqa: E402
from sleepwatch.model import Incident  # noqa: E402
from sleepwatch.race import client, prompt  # noqa: E402
from sleepwatch.race.server import Server  # noqa: E402
from sleepwatch.race.trial import SHORT, Placer, Trial  # noqa: E402
from sleepwatch.store import open_store  # noqa: E402
from sleepwatch.store.actions import Action, actions  # noqa: E402
from tests.support import engine  # noqa: E402

AIMS = (0.8, 0.95, 0.65, 0.5, 0.87, 0.72, 0.58, 0.43)
"""So long before the sleep, of the time that tokenizing takes: most sends at these meet it."""
PATIENCE_SECONDS = 120.0
HANG_US = 2_000_000
LOOK_SECONDS = 60.0
MOST_RACES = 40
"""For one that hangs; every second or third does."""


class Rescue(NamedTuple):
    """One request that hung."""

    trial: Trial
    incident: Incident | None = None
    recorded_us: int | None = None
    """When the daemon first stored it."""
    action: Action | None = None

    @property
    def answered(self) -> bool:
        return self.trial.status is not None

    def row(self, number: int) -> str:
        sent = self.trial.sent_us
        found, action = self.incident, self.action

        def after(moment_us: int | None) -> str:
            return "-" if moment_us is None else f"{(moment_us - sent) / 1e6:.2f} s"

        return (
            f"{number:>3}  {'yes' if self.answered else 'no':>8}  {self.trial.latency_us / 1e6:>6.2f} s  "
            f"{after(self.recorded_us):>9}  {after(action.sent_us if action else None):>9}  "
            f"{found.confidence if found else '-':>9}  {found.state if found else '-':>9}  "
            f"{action.outcome if action else '-'}"
        )


HEAD = (
    f"{'':>3}  {'answered':>8}  {'waited':>8}  {'detected':>9}  {'wake sent':>9}  {'verdict':>9}  {'state':>9}  outcome"
)


@contextlib.contextmanager
def daemon(directory: Path, log: Path, mode: str) -> Iterator[Path]:
    """``sleepwatch run`` on this log; its database."""
    database, config = directory / f"{mode}.db", directory / f"{mode}.toml"
    config.write_text(
        f'file = [{{path = "{log}"}}]\n[database]\npath = "{database}"\n[wake]\nmode = "{mode}"\nper_hour = 1000\n'
    )
    command = [sys.executable, "-m", "sleepwatch", "run", "-c", str(config)]
    said = directory / f"{mode}.said"
    with said.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            _until(database.exists)
            yield database
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0, said.read_text()


def hung(
    directory: Path, mode: str, count: int, *, verbosity: int | None = None, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[Rescue]:
    """Race a real server until so many requests have hung; each with what the daemon made of it."""
    log = directory / f"{mode}.log"
    with (
        log.open("wb", buffering=0) as keep,
        engine.start_real_server(directory, engine.WIDE, supervisor="shell", verbosity=verbosity, keep=keep) as server,
        daemon(directory, log, mode) as database,
    ):
        placer, text = placer_of(server, patience_seconds)
        takes_us = tokenizing_us(server, text)
        found = 0
        for number, share in enumerate(itertools.islice(itertools.cycle(AIMS), MOST_RACES * count)):
            _until(lambda: client.healthy(server.port))  # the shell may be bringing it back
            try:
                trial = placer.place(number, -round(share * takes_us))
            except SleepwatchError:  # a busy machine: its log came too late to place anything
                continue
            if trial.slept_clock_us is None or trial.offset_us > 0 or trial.latency_us < HANG_US or trial.signal:
                continue
            found += 1
            yield _told(database, trial, wait=mode == "act")
            if found >= count:
                return
        raise SleepwatchError(f"of {MOST_RACES * count} requests only {found} met the sleep and hung")


def placer_of(server: Server, patience_seconds: float) -> tuple[Placer, str]:
    """Places a prompt that is long enough to meet the sleep, and waits for its answer for so long; the prompt."""

    def count(text: str) -> int:
        client.post(server.port, "/completion", SHORT, LOOK_SECONDS)
        return client.count_tokens(server.port, text)

    text, _ = prompt.of_tokens(engine.HANG_PROMPT_TOKENS, count)
    placer = Placer(server, text, timeout_seconds=patience_seconds, patience_seconds=PATIENCE_SECONDS)
    assert placer.measure_sleep(10) is not None
    return placer, text


def tokenizing_us(server: Server, text: str) -> int:
    """How long it takes until this prompt, which is too long for the server, is refused."""
    took = []
    for _ in range(3):
        client.post(server.port, "/completion", SHORT, LOOK_SECONDS)  # awake, and not about to sleep
        reply = client.post(server.port, "/completion", {"prompt": text, "n_predict": 1}, LOOK_SECONDS)
        assert reply is not None
        took.append(reply.latency_us)
    return min(took)


def _told(database: Path, trial: Trial, *, wait: bool) -> Rescue:
    """What the database tells of the request of this trial."""
    end = time.monotonic() + (LOOK_SECONDS if wait else 0)
    while True:
        told = _look(database, trial)
        if not wait or (told.action is not None and told.action.outcome) or time.monotonic() > end:
            return told
        time.sleep(0.05)


def _look(database: Path, trial: Trial) -> Rescue:
    with open_store(database, read_only=True) as store:
        store.connection.execute("BEGIN")  # one state of it, while the daemon goes on writing
        for incident in store.incidents(kinds=("hung-request",)):
            if any(one.role == "sleep" and one.clock_us == trial.slept_clock_us for one in incident.evidence):
                recorded = store.timeline(incident.id)[0].recorded_us
                done = next(iter(actions(store, incident=incident.id)), None)
                return Rescue(trial, incident, recorded, done)
    return Rescue(trial)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LOOK_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def main(arguments: list[str]) -> int:
    """Race, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hung", type=int, default=20, help="hung requests with waking on (default 20)")
    parser.add_argument("--control", type=int, default=5, help="and with waking off (default 5)")
    parser.add_argument("--seconds", type=float, default=10.0, help="patience of the control's clients (default 10)")
    parser.add_argument("--verbosity", type=int, help="the server's -lv; default: its own")
    options = parser.parse_args(arguments)
    right = True
    with tempfile.TemporaryDirectory(prefix="sleepwatch-rescue-") as temporary:
        for mode, count, patience in (
            ("act", options.hung, PATIENCE_SECONDS),
            ("off", options.control, options.seconds),
        ):
            print(f'[wake] mode = "{mode}", {count} hung requests, the clients wait up to {patience:g} s')
            print(HEAD, flush=True)
            answered = 0
            each = hung(Path(temporary), mode, count, verbosity=options.verbosity, patience_seconds=patience)
            for number, one in enumerate(each, 1):
                print(one.row(number), flush=True)
                answered += one.answered
            print(f"{answered} of {count} answered\n", flush=True)
            right = right and answered == (count if mode == "act" else 0)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
