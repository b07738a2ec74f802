"""The made logs are what the measurements take them for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleepwatch import prefix
from tests.bench import logs

UNSTAMPED = re.compile(rb"\t\w+ = ")  # the sampler's parameters, continued below their line


@pytest.mark.parametrize("kind", logs.TOKENS)
def test_clocks_and_task_ids_only_rise(kind: str, tmp_path: Path) -> None:
    log = logs.make(kind, 2, tmp_path)
    clock = task = -1
    with log.path.open("rb") as file:
        for line in file:
            head = prefix.split(line.rstrip(b"\n"))
            if head.clock_us is None:
                assert UNSTAMPED.match(line)
                continue
            assert head.clock_us >= clock
            clock = head.clock_us
            launched = re.search(rb"task (\d+) \| processing task", head.body)
            if launched:
                assert int(launched[1]) > task
                task = int(launched[1])
    assert task > 0


def test_the_counts_are_those_of_the_log(tmp_path: Path) -> None:
    log = logs.make("default", 2, tmp_path)
    text = log.path.read_bytes()
    assert log.size == len(text) >= 2 * logs.MB
    assert log.lines == text.count(b"\n")
    assert log.requests == text.count(b"processing task")
    assert log.sleeps == text.count(b"que    start_loop: entering sleeping state") > 20
    asleep = re.findall(rb"handle_sleep: server is entering sleeping state\n(.*)\n", text)
    assert log.hung == sum(b"cancel task" in line for line in asleep) > 0


def test_the_same_bytes_are_made_again_and_a_finished_log_is_kept(tmp_path: Path) -> None:
    one, two = (logs.make("verbose", 1, tmp_path / name) for name in ("one", "two"))
    assert one.path.read_bytes() == two.path.read_bytes()
    made = one.path.stat().st_mtime_ns
    assert logs.make("verbose", 1, tmp_path / "one") == one
    assert one.path.stat().st_mtime_ns == made


def test_a_verbose_log_carries_the_prompts_and_some_of_them_quote_the_log(tmp_path: Path) -> None:
    log = logs.make("verbose", 4, tmp_path)
    long = [line for line in log.path.read_bytes().split(b"\n") if len(line) > logs.PROMPT_BYTES]
    assert len(long) == log.requests
    assert any(b"\\n0.17.131.692 I que    start_loop: entering sleeping state" in line for line in long)
