"""The servers beside their logs: a made ``/proc`` in which processor time is written by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sleepwatch.daemon.surroundings import (
    BUSY_US,
    FIND_EVERY_US,
    NEWCOMERS_EVERY_US,
    SAMPLE_EVERY_US,
    WINDOW_US,
    Surroundings,
)
from sleepwatch.sources.journal_units import Units
from tests.support.host import SECOND, START, MadeHost, made_server


@pytest.fixture
def world(tmp_path: Path) -> MadeHost:
    return MadeHost(tmp_path)


def test_a_server_that_works_and_writes_nothing(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(119, load=1.0)
    assert world.silent_s() is None
    world.run(11, load=1.0)
    assert world.silent_s() == 130
    world.run(70, load=1.0)
    assert world.silent_s() == 200


def test_the_silence_begins_with_the_last_line(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(300, load=1.0)
    assert world.silent_s(world.now_us - 121 * SECOND) == 121
    assert world.silent_s(world.now_us - 119 * SECOND) is None


def test_one_that_has_little_to_do_is_left_alone_however_long(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(1_000, load=0.4)  # 400 seconds in all, but never a minute within two
    assert world.silent_s() is None


def test_work_that_is_over_is_not_work(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(200, load=1.0)
    assert world.silent_s() is not None
    world.run(130, load=0.0)
    assert world.silent_s() is None


def test_a_routers_children_work_for_its_log(world: MadeHost) -> None:
    router = made_server(4, world.log, arguments="--models-max 2")
    world.start(router, made_server(5, "/dev/null", router=router), made_server(6, "/dev/null", router=router))
    world.run(140, load=0.3)
    assert world.silent_s() is not None  # 0.9 of a processor together


def test_a_log_without_amade_server(world: MadeHost) -> None:
    world.start(made_server(4, "/elsewhere.log"))
    world.run(200, load=1.0)
    assert world.silent_s() is None
    assert not world.surroundings.has_writer(world.log)
    assert world.surroundings.has_writer("/elsewhere.log")


def test_a_log_under_another_name(world: MadeHost, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    world.start(made_server(4, str(tmp_path / "link" / "a.log")))
    world.run(1)
    assert world.surroundings.has_writer(world.log)


def test_a_server_that_ended_is_gone_within_a_minute(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(200, load=1.0)
    world.end(4)
    world.run(11)
    assert world.silent_s() is None
    world.run(60)
    assert not world.surroundings.has_writer(world.log)


def test_another_process_of_the_same_number_is_another(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(200, load=1.0)
    world.use(4, 1_000, started=START + 1)
    world.surroundings.look(world.now_us + SAMPLE_EVERY_US)
    assert world.silent_s() is None


def test_a_zombie_does_not_work(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(200, load=1.0)
    world.use(4, 201, state="Z")
    world.surroundings.look(world.now_us + SAMPLE_EVERY_US)
    assert world.silent_s() is None


def test_a_new_server_begins_anew(world: MadeHost) -> None:
    world.start(made_server(4, world.log))
    world.run(200, load=1.0)
    world.start(made_server(5, world.log))
    world.run(61, load=1.0)
    assert world.silent_s() is None
    world.run(140, load=1.0)
    silent = world.silent_s()
    assert silent is not None
    assert silent < 205


def test_a_newcomer_is_found_within_a_minute_without_looking_at_everything_each_time(world: MadeHost) -> None:
    world.run(300)
    assert world.finds == 1
    world.start(made_server(4, world.log))
    world.run(NEWCOMERS_EVERY_US // SECOND + 10)
    assert world.finds == 2
    assert world.surroundings.has_writer(world.log)
    assert [log.place for log in world.surroundings.finding.files] == [world.log]


def test_everything_is_looked_at_now_and_then(world: MadeHost) -> None:
    world.run(2 * FIND_EVERY_US // SECOND + 70)
    assert world.finds == 3


def test_a_journal_is_written_by_the_servers_of_the_units_that_are_read_there(world: MadeHost) -> None:
    world.start(made_server(4, "", unit="llama.service"), made_server(5, "", unit="other.service"))
    world.run(10)
    assert not world.surroundings.has_writer("journal:system")
    world.surroundings.watch_units(Units(["llama"]), world.now_us)
    world.run(140, load=0.6)
    assert world.surroundings.silent_us("journal:system", None, world.now_us) is not None
    world.surroundings.watch_units(Units(["no-*"]), world.now_us)
    assert not world.surroundings.has_writer("journal:system")


def test_the_measures_fit_together() -> None:
    assert SAMPLE_EVERY_US < WINDOW_US
    assert BUSY_US < WINDOW_US


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_real_processs_time_is_read(tmp_path: Path) -> None:
    log = str(tmp_path / "a.log")
    Path(log).write_text("")
    text = Path("/proc/self/stat").read_text()
    started = int(text[text.rfind(")") + 1 :].split()[19])
    surroundings = Surroundings()
    used = surroundings._processor_us(os.getpid(), started)
    times = os.times()
    assert used == pytest.approx((times.user + times.system) * 1e6, rel=0.2, abs=200_000)
    assert surroundings._processor_us(os.getpid(), started + 1) is None
    assert surroundings._processor_us(2**22 + 1, started) is None
