"""The accuracy of ``scan`` on a real server, driven into the race here and now.

``make live-accuracy`` runs a number of races (one placed request each) with kept logs, in three ways, and compares the
incidents that ``scan`` finds in those logs with what the clients saw. A hang must carry the very log clock of the sleep
its request met. It ends with status 1 if anything provable was missed, or anything was invented.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sleepwatch.model import Incident  # noqa: E402
from sleepwatch.race.server import Launch, Server  # noqa: E402
from sleepwatch.race.sweep import Plan, run  # noqa: E402
from sleepwatch.race.trial import Trial  # noqa: E402
from sleepwatch.scan import scan  # noqa: E402
from tests.support import engine  # noqa: E402
from tests.support.supervised import ShellServer  # noqa: E402


class Way(NamedTuple):
    """One way to race."""

    name: str
    shape: engine.ModelShape
    tokens: int
    server_class: Callable[..., Server]
    patient: bool = False
    verbosity: int | None = None
    timeout_seconds: float = 3.0
    """So long an answer is waited for before it counts as hung."""


WAYS = (
    Way("tiny, behind a shell", engine.TINY, engine.CRASH_PROMPT_TOKENS, ShellServer),
    Way("wide, behind a shell", engine.WIDE, engine.HANG_PROMPT_TOKENS, ShellServer),
    Way("wide, freed by a second request, -lv 5", engine.WIDE, engine.HANG_PROMPT_TOKENS, ShellServer, True, 5),
)
"""Behind a shell the log itself says how a process died; at -lv 5 it says what was posted."""


EARLIEST_US = -60_000
"""Most sends from here to the sleep meet it; the others are served, and nothing may be found for them."""


class Shown:
    """Progress on standard error, one character a race."""

    def stage(self, words: str) -> None:
        """Nothing to say."""

    def trial(self, trial: Trial, done: int) -> None:
        """One more is done."""
        print(".", end="", flush=True, file=sys.stderr)


def race(way: Way, races: int, directory: Path, kept: Path) -> None:
    """Race in one way; log and truth go into ``kept``."""
    launch = Launch(
        program=engine.write_llama_server(directory),
        model=engine.model(way.shape, directory),
        context=way.shape.context,
        verbosity=way.verbosity,
    )
    plan = Plan(
        launch=launch,
        prompt_tokens=way.tokens,
        trials=races,
        lo_us=EARLIEST_US,
        hi_us=0,
        patient=way.patient,
        timeout_seconds=way.timeout_seconds,
        keep=kept,
    )
    run(plan, Shown(), server_class=way.server_class)


class Compared(NamedTuple):
    """Truth and findings of one kept sweep."""

    races: int
    hung: int
    hung_found: int
    crashed: int
    crashed_found: int
    faults: list[str]


def compare(kept: Path) -> Compared:
    """What ``scan`` finds in the log of ``kept``, against its truth."""
    result = scan([kept / "server.log"])
    provable = json.loads((kept / "meta.json").read_bytes())["provable"]
    faults = [f"not read: {why}" for _, why in result.failed]
    # A request that was refused while the sleep began has arrived and was never launched, as one that hangs.
    return judge(kept, result.incidents, provable, faults, refused_looks_hung=True)


def judge(
    kept: Path,
    incidents: Iterable[Incident],
    provable: Mapping[str, bool],
    faults: list[str],
    *,
    refused_looks_hung: bool = False,
) -> Compared:
    """Incidents that were found, against the truth of the kept sweep."""
    truth = [json.loads(line) for line in (kept / "truth.jsonl").read_bytes().splitlines()]
    sure = [incident for incident in incidents if incident.confidence != "possible"]
    hangs = [incident for incident in sure if incident.kind == "hung-request"]
    crashes = [incident for incident in sure if incident.kind == "sleep-crash"]
    hung = [trial for trial in truth if trial["outcome"].startswith("hung")]
    crashed = [trial for trial in truth if trial["outcome"] == "crashed"]

    met = Counter(trial["slept_clock_us"] for trial in hung)
    found = Counter(clock for incident in hangs if (clock := sleep_clock(incident)) is not None)
    if len(hangs) > found.total():
        faults.append(f"{len(hangs) - found.total()} hangs name no sleep")
    refused = Counter(trial.get("slept_clock_us") for trial in truth if trial["outcome"] == "refused")
    if not refused_looks_hung:
        refused.clear()
    faults += [f"hang at log clock {clock} invented" for clock in (found - met - refused)]
    if provable["hung"]:
        faults += [f"hang at log clock {clock} missed" for clock in (met - found)]

    died = Counter(trial["slept_clock_us"] for trial in crashed if trial.get("slept_clock_us") is not None)
    seen = Counter(clock for incident in crashes if (clock := sleep_clock(incident)) is not None)
    faults += [f"sleep-crash at log clock {clock} invented" for clock in (seen - died)]
    if len(crashes) > len(crashed) or (provable["crashed"] and len(crashes) < len(crashed)):
        faults.append(f"{len(crashes)} sleep-crashes found of {len(crashed)}")
    others = Counter(incident.kind for incident in sure if incident not in hangs + crashes)
    faults += [f"{count} {kind} invented" for kind, count in others.items()]
    return Compared(len(truth), len(hung), (met & found).total(), len(crashed), len(crashes), faults)


def sleep_clock(incident: Incident) -> int | None:
    """The log clock of the sleep an incident names as evidence."""
    return next((item.clock_us for item in incident.evidence if item.role == "sleep"), None)


def main(arguments: list[str]) -> int:
    """Race, compare, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=12, help="placed requests in all (default 12)")
    parser.add_argument("--keep", type=Path, help="a new directory for the logs and truths")
    options: Any = parser.parse_args(arguments)
    right, total = True, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="sleepwatch-live-") as temporary:
        kept_in = options.keep or Path(temporary)
        print(f"{'way':40} {'races':>5} {'hung':>7} {'crashed':>7}  verdict", flush=True)
        for number, way in enumerate(WAYS):
            races = options.races // len(WAYS) + (number < options.races % len(WAYS))
            if not races:
                continue
            kept = kept_in / f"{number}-{way.shape.name}"
            race(way, races, Path(temporary) / "engine", kept)
            print(file=sys.stderr)
            one = compare(kept)
            total.update(races=one.races, hung=one.hung, crashed=one.crashed)
            verdict = "; ".join(one.faults) or "ok"
            hung, crashed = f"{one.hung_found}/{one.hung}", f"{one.crashed_found}/{one.crashed}"
            print(f"{way.name:40} {one.races:>5} {hung:>7} {crashed:>7}  {verdict}", flush=True)
            right = right and not one.faults
    print(f"{total['races']} races: {total['hung']} hung, {total['crashed']} crashed; found/seen by the clients.")
    if not total["hung"] and not total["crashed"]:
        print("No request was lost here, so nothing was proved: run more races.")
        return 1
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
