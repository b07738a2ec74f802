"""The comparison that judges ``scan``: it must be able to say no. The kept sweeps here are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.live import compare

HUNG = {"outcome": "hung", "is_sleeping": True, "slept_clock_us": 1_041_591}
CRASHED = {"outcome": "crashed", "signal": 11, "slept_clock_us": 6_000_000}
ANSWERED = {"outcome": "answered", "status": 400}
START = """\
0.00.000.397 I srv          init: initializing ...
0.00.002.478 I cmn  common_param: common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)
0.00.027.496 I srv          init: model loaded
0.00.027.522 I srv          init: listening on http://127.0.0.1:18554
0.00.040.968 I slot launch_slot_: id  0 | task 0 | processing task, is_child = 0
0.00.041.438 I slot      release: id  0 | task 0 | stop processing: n_tokens = 2, truncated = 0
"""
A_HANG = """\
0.01.041.591 I que    start_loop: entering sleeping state
0.01.041.831 I srv  handle_sleep: server is entering sleeping state
0.04.100.000 W srv          stop: cancel task, id_task = 2
"""
A_CRASH = """\
0.05.000.000 I que    start_loop: exiting sleeping state
0.05.000.020 I srv  handle_sleep: server is exiting sleeping state
0.05.000.040 I srv    load_model: loading model '/srv/models/tiny.gguf'
0.05.012.000 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512, kv_unified = 'false'
0.05.013.000 I slot launch_slot_: id  0 | task 4 | processing task, is_child = 0
0.05.014.000 I slot      release: id  0 | task 4 | stop processing: n_tokens = 2, truncated = 0
0.06.000.000 I que    start_loop: entering sleeping state
0.06.000.200 I srv  handle_sleep: server is entering sleeping state
/opt/run.sh: line 6: 1519 Segmentation fault      llama-server -m model.gguf --port 8080 --sleep-idle-seconds 1
"""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "server.log").write_text(START + A_HANG + A_CRASH)
    (tmp_path / "meta.json").write_text(json.dumps({"provable": {"hung": True, "crashed": True}}))
    return tmp_path


def say(kept: Path, *trials: dict[str, Any]) -> list[str]:
    (kept / "truth.jsonl").write_text("".join(json.dumps(trial) + "\n" for trial in trials))
    return compare(kept).faults


def test_what_the_clients_saw_is_what_was_found(kept: Path) -> None:
    assert say(kept, ANSWERED, HUNG, CRASHED) == []
    one = compare(kept)
    assert (one.races, one.hung, one.hung_found, one.crashed, one.crashed_found) == (3, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("trials", "faults"),
    [
        ([ANSWERED, CRASHED], ["hang at log clock 1041591 invented"]),
        ([HUNG, {**HUNG, "slept_clock_us": 3_000_000}, CRASHED], ["hang at log clock 3000000 missed"]),
        (
            [{**HUNG, "slept_clock_us": 3_000_000}, CRASHED],
            ["hang at log clock 1041591 invented", "hang at log clock 3000000 missed"],
        ),
        ([HUNG, ANSWERED], ["sleep-crash at log clock 6000000 invented", "1 sleep-crashes found of 0"]),
        ([HUNG, CRASHED, CRASHED], ["1 sleep-crashes found of 2"]),
    ],
)
def test_every_difference_is_a_fault(kept: Path, trials: list[dict[str, Any]], faults: list[str]) -> None:
    assert say(kept, *trials) == faults


def test_what_the_log_cannot_prove_may_be_missed_but_not_invented(kept: Path) -> None:
    (kept / "meta.json").write_text(json.dumps({"provable": {"hung": False, "crashed": False}}))
    assert say(kept, HUNG, {**HUNG, "slept_clock_us": 3_000_000}, CRASHED, CRASHED) == []
    assert say(kept, CRASHED) == ["hang at log clock 1041591 invented"]


def test_a_request_that_was_refused_may_look_like_a_hang(kept: Path) -> None:
    refused = {"outcome": "refused", "status": 400, "slept_clock_us": 1_041_591}
    assert say(kept, refused, CRASHED) == []
