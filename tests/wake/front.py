"""``warm`` in front of a long prompt, swept over the whole window of a real server: is any lost?

``python tests/wake/front.py`` places ``warm`` at moments spread evenly from long before the sleep to long after it, and
sends the long prompt right behind it, as a script does. It ends with status 1 if one hung or crashed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sleepwatch.client.target import parse_target  # noqa: E402
from sleepwatch.clock import SystemClock  # noqa: E402
from sleepwatch.errors import SleepwatchError  # noqa: E402
from sleepwatch.race import client  # noqa: E402
from sleepwatch.race.log import ENTERING  # noqa: E402
from sleepwatch.wake.warm import Warmer  # noqa: E402
from tests.support import engine  # noqa: E402
from tests.wake.rescue import placer_of  # noqa: E402

LO_US, HI_US = -70_000, 30_000
PATIENCE_SECONDS = 10.0


class Front(NamedTuple):
    """One request with ``warm`` in front of it."""

    offset_us: int
    """When ``warm`` began, relative to the sleep (or to when it was due)."""
    outcome: str
    """``answered``, ``hung``, ``crashed``, or ``not warm`` with the words."""
    slept: bool
    """The server fell asleep before ``warm`` was done."""
    requests: int
    """How many ``warm`` sent."""


def fronts(directory: Path, count: int) -> Iterator[Front]:
    """Sweep; the server is one with a wide window."""
    with engine.start_real_server(directory, engine.WIDE, supervisor="shell") as server:
        placer, text = placer_of(server, PATIENCE_SECONDS)
        body = msgspec.json.encode({"prompt": text, "n_predict": 1})
        target = parse_target(f"127.0.0.1:{server.port}")
        done = 0
        while done < count:
            aim_us = LO_US + (HI_US - LO_US) * done // max(1, count - 1)
            try:
                ended_ns, since = placer.end_of_task()
            except SleepwatchError:  # a busy machine: its log came too late to place anything
                continue
            due_ns = ended_ns + placer.sleep_after_us * 1000
            time.sleep(max(0.0, (due_ns + aim_us * 1000 - time.monotonic_ns()) / 1e9))
            begun_ns = time.monotonic_ns()
            warmed = Warmer(target, SystemClock(), seconds=60, pause=time.sleep).warm()
            outcome = _send(server.port, body) if warmed.warm else f"not warm: {warmed.words}"
            entering = server.log.find(ENTERING, since)
            slept_ns = server.log.written_ns(entering) if entering is not None else due_ns
            slept = entering is not None and slept_ns - begun_ns < warmed.took_us * 1000
            yield Front((begun_ns - (slept_ns if slept else due_ns)) // 1000, outcome, slept, warmed.requests)
            done += 1


def _send(port: int, body: bytes) -> str:
    with client.Request(port, "/completion", body) as request:
        request.send()
        reply = request.wait(PATIENCE_SECONDS)
    if reply is None:
        return "hung" if client.is_sleeping(port) else "no answer"
    if reply.status is None:
        return "crashed"
    # A prompt longer than the context is refused by the slot it reached (tools/server/server-context.cpp).
    served = reply.status == 200 or b"exceed_context_size_error" in reply.body
    return "answered" if served else f"refused with {reply.status}"


def main(arguments: list[str]) -> int:
    """Sweep, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sends", type=int, default=123)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sleepwatch-front-") as temporary:
        seen = []
        for front in fronts(Path(temporary), options.sends):
            print("." if front.outcome == "answered" else "!", end="", flush=True, file=sys.stderr)
            seen.append(front)
    print(file=sys.stderr)
    print(f"`warm`, then a prompt of {engine.HANG_PROMPT_TOKENS:,} tokens, {len(seen)} times")
    print(f"{'warm began, relative to the sleep':34} {'sends':>5}  result")
    step_us = (HI_US - LO_US) // 5
    for lo_us in range(LO_US, HI_US, step_us):
        last = lo_us + step_us >= HI_US
        here = [
            one
            for one in seen
            if (lo_us <= one.offset_us or lo_us == LO_US) and (one.offset_us < lo_us + step_us or last)
        ]
        counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(one.outcome for one in here).items())
        woken = sum(one.slept for one in here)
        span = f"{lo_us / 1000:.0f} .. {(lo_us + step_us) / 1000:.0f} ms"
        print(f"{span:34} {len(here):>5}  {counts or '-'}{f' ({woken} behind a wake)' if woken else ''}")
    counts = Counter(one.outcome for one in seen)
    more = sum(one.requests > 1 for one in seen)
    print(
        f"{counts['answered']} answered, {counts['hung']} hung, {counts['crashed']} crashed; `warm` itself "
        f"met the sleep {more} times and freed itself"
    )
    return 0 if counts["answered"] == len(seen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
