"""The accuracy of ``run`` beside a real server that races, at its default verbosity, where the log shows no hang.

A daemon follows the server's log and looks at what the kernel knows. What its database holds is compared with what the
clients saw: each hung request and each crash, none invented; when a hang was opened; and how many requests were in
flight at a crash, wherever a look at the connections came before it. ``make live-accuracy`` runs it; it ends with
status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sleepwatch.model import Incident  # noqa: E402
from sleepwatch.race.server import Server  # noqa: E402
from sleepwatch.store import open_store  # noqa: E402
from sleepwatch.store.witness import observations  # noqa: E402
from tests.accuracy.live import Compared, Way, judge, race, sleep_clock  # noqa: E402
from tests.support import engine  # noqa: E402
from tests.support.supervised import ShellServer  # noqa: E402

WAYS = (
    Way("tiny, no supervisor", engine.TINY, engine.CRASH_PROMPT_TOKENS, Server),
    Way("wide, no supervisor, clients give up", engine.WIDE, engine.HANG_PROMPT_TOKENS, Server),
    Way("wide, freed by a second request", engine.WIDE, engine.HANG_PROMPT_TOKENS, Server, True),
    Way("tiny, behind a shell", engine.TINY, engine.CRASH_PROMPT_TOKENS, ShellServer),
)
WAIT_SECONDS = 60.0
PROVABLE = {"hung": True, "crashed": True}


class Followed(NamedTuple):
    """What a daemon found beside one way of racing."""

    compared: Compared
    opened_s: list[float]
    """Of each hang: how long after the sleep it was stored."""
    counted: int
    """Crashes with a look at the connections before the death."""
    states: Counter[str]
    """Of the incidents, with their confidence."""


@contextmanager
def daemon(database: Path, log: Path, said: Path) -> Iterator[None]:
    """A daemon that follows a log. Raises RuntimeError if it does not end well."""
    command = [sys.executable, "-m", "sleepwatch", "run", "--db", str(database), "--file", str(log)]
    with said.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as process:
        try:
            wait_for(database.exists)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
    if process.returncode:
        raise RuntimeError(said.read_text())


def wait_for(holds: Callable[[], bool]) -> bool:
    """Whether it holds before the time is up."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def follow(way: Way, races: int, engines: Path, kept: Path) -> Followed:
    """Race in one way, with a daemon beside it."""
    kept.mkdir(parents=True)
    database = kept / "live.db"
    with daemon(database, kept / "server.log", kept / "said"):
        race(way, races, engines, kept)
        truth = [json.loads(line) for line in (kept / "truth.jsonl").read_bytes().splitlines()]
        lost = sum(one["outcome"].startswith("hung") or one["outcome"] == "crashed" for one in truth)
        wait_for(lambda: len(found(database)) >= lost)
    return compare(kept, database)


def found(database: Path) -> list[Incident]:
    """The incidents above ``possible``."""
    with open_store(database, read_only=True) as store:
        return store.incidents()


def compare(kept: Path, database: Path) -> Followed:
    """What the database holds, against what the clients saw."""
    incidents = found(database)
    faults: list[str] = []
    looks: dict[tuple[str, str], Any] = {}
    with open_store(database, read_only=True) as store:
        for one in observations(store):
            if one.type == "witness.snapshot" and one.sleep is not None:
                looks.setdefault((one.life, one.sleep), one)
        first = {one.id: store.timeline(one.id)[0].recorded_us for one in incidents}
    opened, counted = [], 0
    for incident in incidents:
        look = looks.get((incident.life, str(sleep_clock(incident))))
        if incident.kind == "hung-request" and look is not None:
            opened.append((first[incident.id] - look.wall_us) / 1e6)
        if incident.kind == "sleep-crash":
            seen = look is not None and look.fields["unseen"] is None
            counted += seen
            if incident.in_flight != (1 if seen else None):
                faults.append(f"{incident.in_flight} in flight at log clock {sleep_clock(incident)}")
    faults += [f"a hang was opened {s:.2f} s after the sleep" for s in opened if s < 2.0]
    states = Counter(f"{one.kind} {one.state} ({one.confidence})" for one in incidents)
    return Followed(judge(kept, incidents, PROVABLE, faults), opened, counted, states)


def main(arguments: list[str]) -> int:
    """Race, compare, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=60, help="placed requests in all (default 60)")
    parser.add_argument("--keep", type=Path, help="a new directory for logs, truths and databases")
    options: Any = parser.parse_args(arguments)
    total, right, states = Counter[str](), True, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="sleepwatch-followed-") as temporary:
        kept_in = options.keep or Path(temporary)
        head = f"{'way, default verbosity, run beside it':40} {'races':>5} {'hung':>7} {'crashed':>7} {'in flight':>9}"
        print(f"{head}  opened after  verdict", flush=True)
        for number, way in enumerate(WAYS):
            races = options.races // len(WAYS) + (number < options.races % len(WAYS))
            if not races:
                continue
            one = follow(way, races, Path(temporary) / "engine", kept_in / f"followed-{number}-{way.shape.name}")
            print(file=sys.stderr)
            of = one.compared
            total.update(races=of.races, hung=of.hung, crashed=of.crashed)
            states += one.states
            times = f"{min(one.opened_s):.2f}-{max(one.opened_s):.2f} s" if one.opened_s else "-"
            print(
                f"{way.name:40} {of.races:>5} {f'{of.hung_found}/{of.hung}':>7} "
                f"{f'{of.crashed_found}/{of.crashed}':>7} {f'{one.counted}/{of.crashed}':>9}  {times:>12}  "
                f"{'; '.join(of.faults) or 'ok'}",
                flush=True,
            )
            right = right and not of.faults
    print(f"{total['races']} races: {total['hung']} hung, {total['crashed']} crashed; found/seen by the clients.")
    print("in flight: crashes whose connections were looked at before the death; there the number must be right.")
    print("; ".join(f"{count} {state}" for state, count in sorted(states.items())))
    if not total["hung"] and not total["crashed"]:
        print("No request was lost here, so nothing was proved: run more races.")
        return 1
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
