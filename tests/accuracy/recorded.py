"""The accuracy of ``scan`` on recordings of real servers, against what their clients saw.

``make accuracy`` runs it over tests/corpus (or over the directories given) and prints one line per recording; it ends
with status 1 if anything provable was missed, anything was invented, or any evidence does not stand at its place.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sleepwatch.model import Evidence, Incident, ScanResult
from sleepwatch.scan import scan
from sleepwatch.sources.archives import open_plain

CORPUS = Path(__file__).parent.parent / "corpus"
BEFORE_S, AFTER_S = 0.10, 0.40
"""A hung request was sent at most this long after and before its sleep began (tokenizing, and the placing's error)."""


class Comparison(NamedTuple):
    """One recording, compared."""

    name: str
    hung: int
    """Hung requests the clients saw."""
    hung_found: int
    crashed: int
    crashed_found: int
    expected: Counter[str]
    expected_found: Counter[str]
    faults: list[str]

    def line(self) -> str:
        """One line of the table."""
        other = ", ".join(f"{kind} {self.expected_found[kind]}/{n}" for kind, n in self.expected.items())
        verdict = "ok" if not self.faults else "; ".join(self.faults)
        found = f"{self.hung_found:3}/{self.hung:<3} {self.crashed_found:3}/{self.crashed:<3}"
        return f"{self.name:38} {found} {other:24} {verdict}"


def recordings(corpus: Path) -> Iterator[Path]:
    """The folders with a recording."""
    yield from sorted(meta.parent for meta in corpus.glob("*/meta.json"))


def compare(folder: Path) -> Comparison:
    """Scan one recording and hold what was found against its truth."""
    meta = json.loads((folder / "meta.json").read_text())
    log = folder / meta["logs"][0]
    result = scan([log])
    again = scan([log])
    faults = [f"not read: {why}" for _, why in result.failed]
    if [i.id for i in result.incidents] != [i.id for i in again.incidents]:
        faults.append("ids differ between two runs")
    sure = [i for i in result.incidents if i.confidence != "possible"]
    truth = _lines(folder / "truth.jsonl")
    hung = [t for t in truth if t["outcome"].startswith("hung")]
    crashed = [t for t in truth if t["outcome"] == "crashed"]
    expected = Counter(meta.get("expect") or ())
    provable = meta.get("provable", {})

    hangs = [i for i in sure if i.kind == "hung-request"]
    matched = _match_hangs(hung, hangs, _lines(folder / "lives.jsonl"))
    if matched is None:  # no clock tells which is which: their number must do
        hung_found = min(len(hung), len(hangs))
        if len(hangs) > len(hung):
            faults.append(f"{len(hangs) - len(hung)} hangs invented")
    else:
        hung_found = len(matched)
        faults += [f"hang at {i.log_opened_us} invented" for i in hangs if i.id not in matched]
    if provable.get("hung") and hung_found < len(hung):
        faults.append(f"{len(hung) - hung_found} hangs missed")

    crashes = [i for i in sure if i.kind == "sleep-crash"]
    crashed_found = min(len(crashed), len(crashes))
    if len(crashes) > len(crashed):
        faults.append(f"{len(crashes) - len(crashed)} sleep-crashes invented")
    if provable.get("crashed") and crashed_found < len(crashed):
        faults.append(f"{len(crashed) - crashed_found} sleep-crashes missed")

    others = Counter(i.kind for i in sure if i.kind not in ("hung-request", "sleep-crash"))
    if others != expected:
        faults.append(f"expected {dict(expected)}, found {dict(others)}")
    faults += _evidence_faults(log, result)
    return Comparison(
        folder.name, len(hung), hung_found, len(crashed), crashed_found, expected, others & expected, faults
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _match_hangs(hung: list[dict[str, Any]], hangs: list[Incident], lives: list[dict[str, Any]]) -> set[str] | None:
    """Incident ids that belong to one hung request each, by time; None where no clock places the incidents."""
    if all(i.opened_us is not None for i in hangs):
        coarse = all((i.opened_us or 0) % 1_000_000 == 0 for i in hangs)  # stamps to the second
        return _nearest(hung, {i.id: (i.opened_us or 0) / 1e6 + 0.5 * coarse for i in hangs}, 0.5 * coarse)
    if len(lives) != 1 or any(i.log_opened_us is None for i in hangs):
        return None
    # The log clock starts when the process has come to make its logger: at most some seconds after its start.
    best: set[str] = set()
    for shift in range(0, 50):
        start = lives[0]["start"] + shift / 10
        found = _nearest(hung, {i.id: start + (i.log_opened_us or 0) / 1e6 for i in hangs})
        best = found if len(found) > len(best) else best
    return best


def _nearest(hung: list[dict[str, Any]], moments: dict[str, float], error_s: float = 0.0) -> set[str]:
    matched: set[str] = set()
    for trial in sorted(hung, key=lambda t: float(t["sent"])):
        near = [
            (abs(at - trial["sent"]), id_)
            for id_, at in moments.items()
            if id_ not in matched and -BEFORE_S - error_s <= at - trial["sent"] <= AFTER_S + error_s
        ]
        if near:
            matched.add(min(near)[1])
    return matched


def _evidence_faults(log: Path, result: ScanResult) -> list[str]:
    """Evidence whose text does not stand at its offset."""
    with open_plain(log) as stream:
        data = stream.read()
    wrong = [e for i in result.incidents for e in i.evidence if not _stands(data, e)]
    bare = [i for i in result.incidents if not i.evidence]
    return [f"{len(wrong)} pieces of evidence not at their offset"] * bool(wrong) + [
        "an incident without evidence"
    ] * bool(bare)


def _stands(data: bytes, evidence: Evidence) -> bool:
    return data[evidence.offset : evidence.offset + len(evidence.text)].decode("utf-8", "replace") == evidence.text


def report(folders: Iterable[Path]) -> bool:
    """Print the table; True if every recording is right."""
    print(f"{'recording':38} {'hung':>7} {'crashed':>7} {'other':24} verdict")
    right = True
    for folder in folders:
        comparison = compare(folder)
        print(comparison.line(), flush=True)
        right = right and not comparison.faults
    return right


if __name__ == "__main__":
    chosen = [Path(name) for name in sys.argv[1:]] or [CORPUS]
    everything = [
        folder for place in chosen for folder in ([place] if (place / "meta.json").exists() else recordings(place))
    ]
    sys.exit(0 if report(everything) else 1)
