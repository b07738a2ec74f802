"""The report, from trials that are made after the article's own measurement."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from sleepwatch.race import report
from sleepwatch.race.server import Launch
from sleepwatch.race.sweep import Facts, Plan, Sweep
from sleepwatch.race.trial import Trial

SECRET = "/srv/secret/models/private-name.gguf"


def trial(offset_ms: float, outcome: str, **facts: object) -> Trial:
    values: dict[str, object] = {
        "trial": 0,
        "life": 0,
        "offset_us": round(offset_ms * 1000),
        "measured": True,
        "slept": True,
        "after_task_us": 1_000_000 + round(offset_ms * 1000),
        "sent_us": 1_796_023_805_521_974,
        "outcome": outcome,
        "latency_us": 45_000,
        **facts,
    }
    return msgspec.convert(values, Trial)


AWAKE = [trial(offset, "answered", status=400, slept=False, measured=False) for offset in (-60, -50.5)]
HUNG = [trial(offset, "hung", is_sleeping=True, latency_us=3_004_000) for offset in (-46, -40, -34)]
CRASHED = [trial(offset, "crashed", signal=11, error="RemoteDisconnected") for offset in (-34, -3)]
WOKEN = [trial(offset, "answered", status=400, latency_us=1_300_000) for offset in (-2, 29)]


def sweep(*trials: Trial, **changes: object) -> Sweep:
    plan: dict[str, object] = {"trials": 123, "warm": False, "patient": False, **changes}
    interrupted = plan.pop("interrupted", None)
    launch = Launch(
        program=Path("/srv/secret/bin/llama-server"),
        model=Path(SECRET),
        arguments=("--mmproj", "/srv/secret/projector.gguf", "-ngl", "99"),
    )
    return Sweep(
        plan=Plan(launch=launch, keep=Path("/srv/secret/kept"), **plan),  # type: ignore[arg-type]
        facts=Facts(
            build="b11368-0123abc",
            prompt_tokens=17_653,
            prompt_counted=True,
            model={"n_params": 999_885_952, "size": 799_525_120, "ftype": "Q4_K - Medium"},
            sleep_after_us=1_000_100,
            awake_us=45_000,
            awake_status=400,
            wake_us=1_300_000,
            timeout_us=3_900_000,
        ),
        machine={"cores": 6, "system": "Linux", "release": "6.1", "architecture": "x86_64"},
        started_us=1_796_023_800_000_000,
        trials=trials,
        lives=3,
        interrupted=interrupted,  # type: ignore[arg-type]
    )


def test_the_table_is_the_articles() -> None:
    assert report.table(sweep(*AWAKE, *HUNG, *CRASHED, *WOKEN)) == (
        "server:      b11368-0123abc\n"
        "model:       999,885,952 parameters, 799,525,120 bytes, Q4_K - Medium\n"
        "prompt:      17,653 tokens; served awake in 45 ms\n"
        "sleep:       1.00 s after a task (--sleep-idle-seconds 1); a wake takes 1.30 s\n"
        "machine:     6 cores, Linux x86_64\n"
        "\n"
        "sent relative to the sleep      count  result\n"
        "60.0 .. 50.5 ms before              2  answered before the timer fired (400, ~45 ms)\n"
        "46.0 .. 34.0 ms before              3  hung: no answer; /props says is_sleeping: true\n"
        "34.0 .. 3.0 ms before               2  crashed: connection closed with no response; server gone "
        "(signal 11, SIGSEGV)\n"
        "2.0 ms before .. 29.0 ms after      2  woke the server, answered (400, ~1.30 s)\n"
        "\n"
        "This server has the race: of 9 sends, 3 hung, 2 crashed the server (46.0 .. 3.0 ms before its sleep).\n"
        "Repeat with --warm to see whether a 1-token completion in front helps."
    )


def test_every_outcome_has_its_row_and_words() -> None:
    found = report.rows(
        (
            trial(-40, "hung-then-answered", status=200, latency_us=4_200_000),
            trial(-20, "slow", latency_us=9_000_000),
            trial(-10, "refused", status=503),
            trial(-5, "crashed", signal=0),
            trial(-0.3, "refused", status=400, error="range_check: 1074232696 >= 2000"),
            trial(-0.2, "refused", status=400, error="range_check: 7 >= 2000"),
        )
    )
    assert [(row.count, row.result) for row in found] == [
        (1, "hung, then answered (200) when a second request woke the server (~4.20 s)"),
        (1, "crashed: connection closed with no response; server gone (exited by itself)"),
        (3, "refused, and the server lives: status 400, 503; range_check"),
        (1, "slow: no answer in time, but the server was awake (~9.00 s)"),
    ]


@pytest.mark.parametrize(
    ("measured", "finding"),
    [
        (
            sweep(*AWAKE, *WOKEN, warm=True),
            "No send was lost with a 1-token completion in front: 4 sends, 60.0 ms before .. 29.0 ms after its sleep.",
        ),
        (
            sweep(*AWAKE, CRASHED[0], interrupted=2),
            "Ended early after 3 of 123 sends. This server has the race: of 3 sends, 1 crashed the server (34.0 ms",
        ),
        (sweep(interrupted=2), "Ended early after 0 of 123 sends. Nothing was measured."),
    ],
)
def test_the_finding(measured: Sweep, finding: str) -> None:
    assert finding in report.table(measured)


def test_the_document_holds_every_send() -> None:
    document = json.loads(json.dumps(report.document(sweep(*AWAKE, *HUNG, *CRASHED, *WOKEN))))
    assert document["schema_version"] == 1
    assert document["window_ms"] == [-46.0, -3.0]
    assert [(row["result"], row["count"]) for row in document["rows"]] == [
        ("answered-awake", 2),
        ("hung", 3),
        ("crashed", 2),
        ("answered-woken", 2),
    ]
    assert len(document["trials"]) == 9
    assert document["trials"][2]["outcome"] == "hung"
    assert document["trials"][2]["sent"] == "2026-11-30T07:30:05.521974Z"
    assert "secret" not in json.dumps(document)


def test_the_bug_report_names_no_path_and_no_model_file() -> None:
    text = report.bug_report(sweep(*AWAKE, *HUNG, *CRASHED, *WOKEN, patient=True))
    assert text.startswith(
        "## A request sent just before the server falls asleep hangs until the next one or crashes the server\n"
    )
    assert "| 46.0 .. 34.0 ms before | 3 | hung: no answer; /props says is_sleeping: true |" in text
    assert "`-np 1 -c 512 --sleep-idle-seconds 1 --no-warmup --mmproj … -ngl …`" in text
    assert "b11368-0123abc" in text
    assert "secret" not in text
    assert "private-name" not in text


def test_the_title_says_only_what_was_seen() -> None:
    assert report.bug_report(sweep(*CRASHED)).startswith(
        "## A request sent just before the server falls asleep crashes the server\n"
    )
    assert report.bug_report(sweep(*AWAKE)).startswith("## Requests around the server's sleep: none lost\n")
