"""What a sweep found: the table for people, the document for machines, the text for an upstream report."""

from __future__ import annotations

import signal
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from sleepwatch import __version__
from sleepwatch.race.server import Launch
from sleepwatch.race.sweep import Sweep, kind
from sleepwatch.race.trial import CRASHED, MET_SLEEP, REFUSED, Trial
from sleepwatch.report.times import rfc3339

SCHEMA_VERSION = 1

_ORDER = (
    "answered-awake",
    "hung",
    "hung-then-answered",
    "crashed",
    "refused",
    "answered-woken",
    "slow",
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of outcome and where it was met."""

    kind: str
    count: int
    first_us: int
    """The earliest offset, relative to the sleep."""
    last_us: int
    median_latency_us: int
    statuses: tuple[int, ...]
    signals: tuple[int, ...]
    errors: tuple[str, ...]
    """What the client was told, up to its particulars: without them the same error reads the same."""

    @property
    def result(self) -> str:
        """The outcome in words."""
        seconds = _span(self.median_latency_us)
        status = ", ".join(str(status) for status in self.statuses)
        match self.kind:
            case "answered-awake":
                late = "; the sleep was late" if self.last_us >= 0 else ""
                return f"answered before the timer fired ({status}, ~{seconds}{late})"
            case "answered-woken":
                return f"woke the server, answered ({status}, ~{seconds})"
            case "hung":
                return "hung: no answer; /props says is_sleeping: true"
            case "hung-then-answered":
                return f"hung, then answered ({status}) when a second request woke the server (~{seconds})"
            case "crashed":
                how = ", ".join(_signal_words(number) for number in self.signals)
                return f"crashed: connection closed with no response; server gone ({how})"
            case "slow":
                return f"slow: no answer in time, but the server was awake (~{seconds})"
            case _:
                why = "; ".join([f"status {status}"] * bool(status) + list(self.errors))
                return f"refused, and the server lives: {why}"

    @property
    def when(self) -> str:
        """The range of offsets in words."""
        return _range(self.first_us, self.last_us)


def rows(trials: tuple[Trial, ...]) -> list[Row]:
    """The trials grouped by outcome, in the order of a race: served early, lost, served late."""
    found = []
    for name in _ORDER:
        these = [trial for trial in trials if kind(trial) == name]
        if these:
            found.append(
                Row(
                    kind=name,
                    count=len(these),
                    first_us=min(trial.offset_us for trial in these),
                    last_us=max(trial.offset_us for trial in these),
                    median_latency_us=round(statistics.median(trial.latency_us for trial in these)),
                    statuses=tuple(sorted({trial.status for trial in these if trial.status is not None})),
                    signals=tuple(sorted({trial.signal for trial in these if trial.signal is not None})),
                    errors=tuple(sorted({trial.error.split(": ")[0] for trial in these if trial.error})),
                )
            )
    return found


def table(sweep: Sweep) -> str:
    """The table and what it was measured with, as plain text."""
    found = rows(sweep.trials)
    lines = [f"{name + ':':<12} {value}" for name, value in _measured_with(sweep)]
    lines.append("")
    width = max([len(row.when) for row in found] + [len("sent relative to the sleep")])
    lines.append(f"{'sent relative to the sleep':<{width}}  count  result")
    lines += [f"{row.when:<{width}}  {row.count:>5}  {row.result}" for row in found]
    if not found:
        lines.append("nothing was sent")
    advice = "Repeat with --warm to see whether a 1-token completion in front helps."
    affected = any(trial.lost for trial in sweep.trials)
    lines += ["", _finding(sweep), *([advice] if affected and not sweep.plan.warm else [])]
    return "\n".join(lines)


def _finding(sweep: Sweep) -> str:
    """What the table means, in one or two sentences."""
    total = len(sweep.trials)
    early = f"Ended early after {total} of {sweep.plan.trials} sends. " if sweep.ended_early else ""
    if not total:
        return f"{early}Nothing was measured."
    lost = [trial for trial in sweep.trials if trial.lost]
    if lost:
        parts = _losses(lost, hung="hung", crashed="crashed the server", refused="were refused")
        has = "has the race" if any(trial.outcome in MET_SLEEP for trial in lost) else "refuses requests near its sleep"
        return f"{early}This server {has}: of {total} sends, {parts} ({_all(lost)} its sleep)."
    front = " with a 1-token completion in front" if sweep.plan.warm else ""
    return f"{early}No send was lost{front}: {total} sends, {_all(sweep.trials)} its sleep."


def _losses(lost: Sequence[Trial], **words: str) -> str:
    """``3 hung, 2 crashed the server``."""
    counts = Counter("hung" if trial.outcome.startswith("hung") else trial.outcome for trial in lost)
    return ", ".join(f"{counts[kind]} {word}" for kind, word in words.items() if counts[kind])


def _all(trials: Sequence[Trial]) -> str:
    return _range(min(trial.offset_us for trial in trials), max(trial.offset_us for trial in trials))


def document(sweep: Sweep) -> dict[str, Any]:
    """The machine's form: settings, facts, rows and every trial."""
    plan, facts = sweep.plan, sweep.facts
    lost = [trial.offset_us for trial in sweep.trials if trial.lost]
    return {
        "schema_version": SCHEMA_VERSION,
        "sleepwatch": __version__,
        "started": rfc3339(sweep.started_us),
        "ended_early": sweep.ended_early,
        "problem": sweep.problem[0] if sweep.problem is not None else None,
        "server": {
            "build": facts.build,
            "model": facts.model,
            "context": plan.launch.context,
            "sleep_idle_seconds": plan.launch.sleep_seconds,
            "sleep_after_ms": _ms(facts.sleep_after_us),
            "awake_ms": _ms(facts.awake_us),
            "awake_status": facts.awake_status,
            "wake_ms": _ms(facts.wake_us),
            "timeout_ms": _ms(facts.timeout_us),
            "processes": sweep.lives,
        },
        "machine": sweep.machine,
        "prompt_tokens": facts.prompt_tokens,
        "prompt_counted": facts.prompt_counted,
        "warm": plan.warm,
        "patient": plan.patient,
        "window_ms": [_ms(min(lost)), _ms(max(lost))] if lost else None,
        "rows": [
            {
                "result": row.kind,
                "count": row.count,
                "first_ms": _ms(row.first_us),
                "last_ms": _ms(row.last_us),
                "median_latency_ms": _ms(row.median_latency_us),
                "statuses": row.statuses,
                "signals": row.signals,
                "errors": row.errors,
            }
            for row in rows(sweep.trials)
        ],
        "trials": [
            {
                "trial": trial.trial,
                "life": trial.life,
                "offset_ms": _ms(trial.offset_us),
                "offset_measured": trial.measured,
                "sent": rfc3339(trial.sent_us),
                "outcome": trial.outcome,
                "slept": trial.slept,
                "latency_ms": _ms(trial.latency_us),
                "status": trial.status,
                "error": trial.error,
                "signal": trial.signal,
                "is_sleeping": trial.is_sleeping,
            }
            for trial in sweep.trials
        ],
    }


def bug_report(sweep: Sweep) -> str:
    """Markdown for an upstream maintainer: no path, no name, no prompt, no log."""
    plan, facts = sweep.plan, sweep.facts
    measured_with = "\n".join(f"- {name}: {value}" for name, value in _measured_with(sweep))
    table_rows = "\n".join(f"| {row.when} | {row.count} | {row.result} |" for row in rows(sweep.trials))
    front = "- In front of each send, at the offset, a 1-token completion was served.\n" if plan.warm else ""
    second = "- A request without an answer was then freed by a second, short one.\n" if plan.patient else ""
    limit = _span(facts.timeout_us)
    return f"""\
## {_title(sweep)}

{_finding(sweep)}

{measured_with}
- options: `{_options(plan.launch)}`
- date: {(rfc3339(sweep.started_us) or "")[:10]}

| sent relative to `entering sleeping state` | count | result |
|---|---|---|
{table_rows}

### How it was measured

- Each send: a short completion is served; the server falls asleep {_span(facts.sleep_after_us)} after its end; one
  `POST /completion` with a prompt of generated words goes out at a chosen offset to that moment, on a connection that
  was opened before. Offsets are against the server's own log line.
{front}{second}- No answer within {limit} and `"is_sleeping": true` in `/props` counts as hung, a closed connection and
  a dead process as crashed. A 400 (longer than the context) means that the request reached a slot.

### Where it comes from

The response object's constructor waits until the server is awake (`wait_until_no_sleep`,
`tools/server/server-context.cpp`); then the handler tokenizes the prompt, then posts the task. Nothing in between keeps
the queue's loop (`tools/server/server-queue.cpp`) from entering the sleep. So the vocabulary can be freed under the
tokenizer (crash), or the task is posted into a queue that wakes only for `req_stop_sleeping` (hang). Waking for a queue
that is not empty would end the hang; counting requests between the check and the post, and not sleeping while there are
any, would end both.

Measured with `sleepwatch sweep`, sleepwatch {__version__}.
"""


def _title(sweep: Sweep) -> str:
    lost = [trial for trial in sweep.trials if trial.lost]
    if not lost:
        return "Requests around the server's sleep: none lost"
    what = []
    if any(trial.outcome.startswith("hung") for trial in lost):
        what.append("hangs until the next one")
    if any(trial.outcome == CRASHED for trial in lost):
        what.append("crashes the server")
    if any(trial.outcome == REFUSED for trial in lost):
        what.append("is refused")
    return f"A request sent just before the server falls asleep {' or '.join(what)}"


def _options(launch: Launch) -> str:
    verbosity = "" if launch.verbosity is None else f" -lv {launch.verbosity}"
    further = "".join(f" {word} …" for word in launch.arguments if word.startswith("-"))  # values can be paths
    return f"-np 1 -c {launch.context} --sleep-idle-seconds {launch.sleep_seconds} --no-warmup{verbosity}{further}"


def _measured_with(sweep: Sweep) -> list[tuple[str, str]]:
    facts, host = sweep.facts, sweep.machine
    counted = "" if facts.prompt_counted else " (estimated)"
    shape = ", ".join(
        f"{value:,} {words}" if isinstance(value, int) else f"{value}"
        for key, words in (("n_params", "parameters"), ("size", "bytes"), ("ftype", ""))
        if (value := facts.model.get(key)) is not None
    )
    sleep_seconds, wake = sweep.plan.launch.sleep_seconds, _span(facts.wake_us)
    return [
        ("server", facts.build),
        ("model", shape or "unknown"),
        ("prompt", f"{facts.prompt_tokens:,} tokens{counted}; served awake in {_span(facts.awake_us)}"),
        (
            "sleep",
            f"{_span(facts.sleep_after_us)} after a task (--sleep-idle-seconds {sleep_seconds}); a wake takes {wake}",
        ),
        ("machine", f"{host['cores']} cores, {host['system']} {host['architecture']}"),
    ]


def _signal_words(number: int) -> str:
    if not number:
        return "exited by itself"
    try:
        return f"signal {number}, {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def _range(first_us: int, last_us: int) -> str:
    first, last = _offset(first_us), _offset(last_us)
    if first == last:
        return f"{first[0]} ms {first[1]}"
    if first[1] == last[1]:
        return f"{first[0]} .. {last[0]} ms {first[1]}"
    return f"{first[0]} ms {first[1]} .. {last[0]} ms {last[1]}"


def _offset(offset_us: int) -> tuple[str, str]:
    return f"{abs(offset_us) / 1000:.1f}", "before" if offset_us < 0 else "after"


def _ms(microseconds: int) -> float:
    return microseconds / 1000


def _span(microseconds: int) -> str:
    return f"{microseconds / 1000:.0f} ms" if microseconds < 1_000_000 else f"{microseconds / 1e6:.2f} s"
