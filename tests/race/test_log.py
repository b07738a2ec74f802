from __future__ import annotations

import threading

from sleepwatch.race.log import CANCELLED, ENTERING, EXITING, LISTENING, RELEASED, Log


def stamped(log: Log, clock: str, arrived_ms: float, body: str = "srv  a: b") -> None:
    log.feed(f"{clock} I {body}".encode(), round(arrived_ms * 1e6))


def test_a_line_that_came_late_was_written_when_its_clock_says() -> None:
    log = Log()
    log.begin_life()
    stamped(log, "0.00.010.000", 5_012.0)  # 2 ms late
    stamped(log, "0.00.020.000", 5_020.5)  # 0.5 ms late: the nearest to the truth
    stamped(log, "0.01.000.000", 6_300.0)  # 300 ms late
    first, _, last = log.since(0)
    assert log.written_ns(last) == 6_000_500_000
    assert log.written_ns(first) == 5_010_500_000


def test_each_life_has_a_clock_of_its_own() -> None:
    log = Log()
    log.begin_life()
    stamped(log, "0.05.000.000", 5_000.0)
    log.begin_life()
    stamped(log, "0.00.001.000", 9_001.0)
    assert [log.written_ns(line) for line in log.since(0)] == [5_000_000_000, 9_001_000_000]
    assert [line.life for line in log.since(0)] == [0, 1]


def test_a_line_without_a_clock_was_written_when_it_came() -> None:
    log = Log()
    log.begin_life()
    line = log.feed(b"que    start_loop: entering sleeping state", 7_000)
    assert log.written_ns(line) == 7_000


def test_marks_know_the_lines_of_all_eras() -> None:
    for mark, texts in {
        ENTERING: [
            "que    start_loop: entering sleeping state",
            "0.01.021.480 I que    start_loop: entering sleeping state",
        ],
        EXITING: ["0.01.187.379 I que    start_loop: exiting sleeping state"],
        LISTENING: [
            "main: server is listening on http://127.0.0.1:8080",
            "0.00.021.017 I srv          main: server is listening on http://127.0.0.1:8080",
            "0.00.021.017 I srv  llama_server: listening on http://127.0.0.1:8080",
        ],
        RELEASED: ["0.01.210.500 I slot      release: id  0 | task 0 | stop processing: n_tokens = 4, truncated = 0"],
        CANCELLED: ["0.01.799.778 W srv          stop: cancel task, id_task = 5"],
    }.items():
        for text in texts:
            log = Log()
            log.begin_life()
            assert log.feed(text.encode(), 1).says(mark), text


def test_a_mark_is_not_found_in_what_a_prompt_says() -> None:
    log = Log()
    log.begin_life()
    line = log.feed(b"0.01.000.000 D srv  log_server_r: request:  que    start_loop: entering sleeping state", 1)
    assert not line.says(ENTERING)


def test_waiting_sees_a_line_that_comes_meanwhile() -> None:
    log = Log()
    log.begin_life()
    stamped(log, "0.00.000.001", 1.0, "que    start_loop: entering sleeping state")
    since = len(log)
    feeder = threading.Timer(
        0.05, stamped, (log, "0.01.000.000", 1_000.0, "que    start_loop: entering sleeping state")
    )
    feeder.start()
    found = log.wait_for(ENTERING, since=since, seconds=10)
    feeder.join()
    assert found is not None
    assert found.clock_us == 1_000_000


def test_waiting_ends_when_there_is_no_more_to_come() -> None:
    log = Log()
    log.begin_life()
    assert log.wait_for(ENTERING, since=0, seconds=60, give_up=lambda: True) is None
    assert log.wait_for(ENTERING, since=0, seconds=0) is None
