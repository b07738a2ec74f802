"""How fast each envelope turns a carrier's bytes into records.

``python -m tests.bench.envelopes [--size small]``. The lines are those of a made default log (tests/bench/logs.py), put
into every envelope in turn and fed in blocks of 1 MiB; the best of three runs counts, in decimal megabytes of the
carrier's bytes per second of processor time. What comes out is compared with what went in.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from sleepwatch import envelopes
from sleepwatch.times import LocalTimes
from tests.bench import logs
from tests.envelopes import carriers

MEGABYTES = {"full": 16, "small": 4}
RUNS = 3
BLOCK = 1 << 20
LOCAL = LocalTimes(reference_us=carriers.START_US + 86_400_000_000)


def measure(name: str, data: bytes, lines: list[bytes]) -> float:
    """Megabytes per second of one envelope. Raises SystemExit where the records are not the lines."""
    best = 0.0
    for _ in range(RUNS):
        envelope = envelopes.by_name(name, local=LOCAL)
        texts = 0
        at = 0
        spent = 0.0
        while at < len(data):
            end = data.rfind(b"\n", at, at + BLOCK) + 1 or len(data)
            block = data[at:end]
            began = time.process_time()
            records = envelope.feed(block, at)
            spent += time.process_time() - began
            for record in records:
                if record.text != lines[texts]:
                    raise SystemExit(f"{name}: line {texts} is {lines[texts]!r} and came out as {record.text!r}")
                texts += 1
            at = end
        texts += len(envelope.finish())
        if texts != len(lines):
            raise SystemExit(f"{name}: {len(lines)} lines went in, {texts} came out")
        best = max(best, len(data) / spent / logs.MB)
    return best


def main() -> None:
    """Measure every envelope that a carrier can be written for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=MEGABYTES, default="full")
    megabytes = MEGABYTES[parser.parse_args().size]
    with tempfile.TemporaryDirectory() as scratch:
        log = logs.make("default", megabytes, Path(scratch))
        lines = [line for line in log.path.read_bytes().split(b"\n") if line]
    print(f"{'envelope':24} {'MB/s':>6} {'lines/s':>10}")
    for name in sorted(carriers.WRITERS):
        data = carriers.write(name, lines)
        speed = measure(name, data, lines)
        print(f"{name:24} {speed:6.0f} {speed * logs.MB / len(data) * len(lines):10,.0f}")


if __name__ == "__main__":
    main()
