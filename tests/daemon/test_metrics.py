"""Metrics: what is offered, that it is true, and that offering it never keeps the daemon from its work."""

from __future__ import annotations

import os
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sleepwatch import config
from sleepwatch.config import FileSource, Settings
from sleepwatch.daemon.metrics import CAUSES, OTHERS, SOURCES, WRITE_EVERY_US, Figures, Metrics, SourceFigures, cause
from sleepwatch.daemon.service import Service
from sleepwatch.engine import Now
from sleepwatch.errors import SleepwatchError
from sleepwatch.sources import piece
from sleepwatch.sources.journal_follow import VACUUMED
from sleepwatch.store import open_store

SECOND = 1_000_000
SOURCE = SourceFigures(
    source="/var/log/a.log", up=True, bytes=10, lines=2, events=1, rotations=3, unread=7, lag_us=500_000,
    read_until_us=2 * SECOND,
)  # fmt: skip
FIGURES = Figures(
    version="1.2.3",
    rules="0123456789abcdef",
    started_us=1 * SECOND,
    progress_us=3 * SECOND,
    saved_us=2 * SECOND,
    sources=(SOURCE,),
    gaps={"truncated": 2},
    incidents={("hung-request", "critical"): 4},
    open={("blind", "warning"): 1},
    wakes={"released": 2},
    notifications={"sent": 3},
    oldest_us=5 * SECOND,
)
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def _samples(text: str) -> Samples:
    """Every sample by name and labels; the text must be what Prometheus takes."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def _get(metrics: Metrics) -> Samples:
    assert metrics.address is not None
    with urllib.request.urlopen("http://{}:{}/metrics".format(*metrics.address), timeout=10) as answer:
        return _samples(answer.read().decode())


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics()
    yield made
    made.close()


def test_what_is_offered(metrics: Metrics) -> None:
    metrics.listen(0)
    metrics.publish(FIGURES, 0)
    source = (("source", "/var/log/a.log"),)
    expected: Samples = {
        ("sleepwatch_build_info", (("rules", "0123456789ab"), ("version", "1.2.3"))): 1,
        ("sleepwatch_start_timestamp_seconds", ()): 1,
        ("sleepwatch_last_progress_timestamp_seconds", ()): 3,
        ("sleepwatch_last_saved_timestamp_seconds", ()): 2,
        ("sleepwatch_bytes_read_total", source): 10,
        ("sleepwatch_lines_read_total", source): 2,
        ("sleepwatch_events_total", source): 1,
        ("sleepwatch_rotations_total", source): 3,
        ("sleepwatch_source_up", source): 1,
        ("sleepwatch_source_unread_bytes", source): 7,
        ("sleepwatch_source_lag_seconds", source): 0.5,
        ("sleepwatch_watermark_timestamp_seconds", source): 2,
        ("sleepwatch_gaps_total", (("cause", "truncated"),)): 2,
        ("sleepwatch_incidents_total", (("kind", "hung-request"), ("severity", "critical"))): 4,
        ("sleepwatch_incidents_open", (("kind", "blind"), ("severity", "warning"))): 1,
        ("sleepwatch_wakes_total", (("outcome", "released"),)): 2,
        ("sleepwatch_notifications_total", (("outcome", "sent"),)): 3,
        ("sleepwatch_outbox_oldest_seconds", ()): 5,
    }
    found = _get(metrics)
    assert {key: found[key] for key in found if not key[0].startswith("sleepwatch_process_")} == expected


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_the_process_itself_is_among_them_under_a_name_of_its_own(metrics: Metrics) -> None:
    metrics.listen(0)
    names = {name for name, _ in _get(metrics)}
    assert "sleepwatch_process_resident_memory_bytes" in names
    # node_exporter has metrics of these names itself: two of them in one scrape make it fail.
    assert not [name for name in names if not name.startswith("sleepwatch_")]


def test_the_page_of_the_docs_names_them_all(metrics: Metrics) -> None:
    metrics.listen(0)
    metrics.publish(FIGURES, 0)
    described = set(re.findall(r"^\| `(sleepwatch_\w+)", PAGE.read_text(), re.MULTILINE))
    offered = {name for name, _ in _get(metrics) if not name.startswith("sleepwatch_process_")}
    assert offered == described


def test_there_are_never_more_than_so_many_sources(metrics: Metrics) -> None:
    metrics.listen(0)
    many = [msgspec.structs.replace(SOURCE, source=f"/{n:04}", up=n != SOURCES + 5) for n in range(SOURCES + 20)]
    metrics.publish(msgspec.structs.replace(FIGURES, sources=tuple(many)), 0)
    found = _get(metrics)
    values = {key[1][0][1]: value for key, value in found.items() if key[0] == "sleepwatch_bytes_read_total"}
    assert len(values) == SOURCES + 1
    assert values[OTHERS] == 20 * SOURCE.bytes
    assert found["sleepwatch_source_up", (("source", OTHERS),)] == 0
    assert found["sleepwatch_source_lag_seconds", (("source", OTHERS),)] == 0.5


def test_a_name_that_is_no_text_is_escaped(metrics: Metrics) -> None:
    metrics.listen(0)
    odd = msgspec.structs.replace(SOURCE, source='/a"\n\x1b\udcff\\')
    metrics.publish(msgspec.structs.replace(FIGURES, sources=(odd,)), 0)
    assert ("sleepwatch_source_up", (("source", '/a"\\x0a\\x1b\\xff\\'),)) in _get(metrics)


def test_every_cause_of_a_gap_has_a_class() -> None:
    causes = {name: value for name, value in vars(piece).items() if name.isupper() and isinstance(value, str)}
    assert len(causes) >= 7
    for name, value in causes.items():
        assert cause(value) in ("truncated", "rotated"), name
    assert cause("rotated away: 2 files missing") == "rotated"
    assert cause(f"2 minutes {VACUUMED}") == "rotated"
    assert cause("could not be read: input/output error") == "unreadable"
    assert cause("a.log.1.gz could not be read: damaged") == "unreadable"
    assert cause("journald rate limit") == cause("rsyslog rate limit") == "dropped"
    assert cause("anything else") == "other"


# -- the port --------------------------------------------------------------------------------------------------------


def test_it_listens_on_the_loopback_address_only(metrics: Metrics) -> None:
    metrics.listen(0)
    assert metrics.address is not None
    assert metrics.address[0] == "127.0.0.1"
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((address, metrics.address[1]), timeout=2)


def test_a_port_that_is_taken_is_told_by_its_key(metrics: Metrics) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SleepwatchError, match=f"metrics.port = {port}: address already in use"):
            metrics.listen(port)
    assert metrics.address is None


def test_it_can_move_to_another_port(metrics: Metrics) -> None:
    metrics.listen(0)
    metrics.publish(FIGURES, 0)
    before = metrics.address
    metrics.listen(None)
    assert metrics.address is None
    assert before is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(before, timeout=2)
    metrics.listen(0)
    assert _get(metrics)


@pytest.mark.live
def test_a_client_that_asks_for_nothing_keeps_neither_the_loop_nor_others_waiting_for_long(metrics: Metrics) -> None:
    metrics.listen(0)
    assert metrics.address is not None
    with socket.create_connection(metrics.address, timeout=2):
        began = time.monotonic()
        metrics.publish(FIGURES, 0)
        assert time.monotonic() - began < 1
        assert _get(metrics)  # its turn comes when the other's time is over


def test_a_scrape_finds_the_last_figures_while_the_loop_stands_still(metrics: Metrics) -> None:
    metrics.listen(0)
    metrics.publish(FIGURES, 0)
    for _ in range(2):
        assert _get(metrics)["sleepwatch_last_progress_timestamp_seconds", ()] == 3


# -- the file --------------------------------------------------------------------------------------------------------


def test_the_file_is_whole_and_readable_by_others_whatever_the_umask(metrics: Metrics, tmp_path: Path) -> None:
    path = tmp_path / "sleepwatch.prom"
    before = os.umask(0o077)
    try:
        metrics.write_to(path)
        metrics.publish(FIGURES, 0)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    assert _samples(path.read_text())["sleepwatch_bytes_read_total", (("source", "/var/log/a.log"),)] == 10
    assert [one.name for one in tmp_path.iterdir()] == ["sleepwatch.prom"]


def test_the_file_is_replaced_and_never_written_in_place(metrics: Metrics, tmp_path: Path) -> None:
    path = tmp_path / "sleepwatch.prom"
    metrics.write_to(path)
    metrics.publish(FIGURES, 0)
    with path.open() as old:
        metrics.publish(msgspec.structs.replace(FIGURES, version="2"), WRITE_EVERY_US - 1)
        assert '"1.2.3"' in path.read_text()
        metrics.publish(msgspec.structs.replace(FIGURES, version="2"), WRITE_EVERY_US)
        assert 'version="2"' in path.read_text()
        assert 'version="1.2.3"' in old.read()


def test_the_file_does_not_outlive_the_daemon_or_its_setting(metrics: Metrics, tmp_path: Path) -> None:
    first, second = tmp_path / "a.prom", tmp_path / "b.prom"
    metrics.write_to(first)
    metrics.publish(FIGURES, 0)
    metrics.write_to(second)
    assert not first.exists()
    metrics.publish(FIGURES, 1)
    assert second.exists()
    metrics.close()
    assert not second.exists()


def test_a_file_that_cannot_be_written_is_told_by_its_key_and_the_port_goes_on(
    metrics: Metrics, tmp_path: Path
) -> None:
    metrics.listen(0)
    metrics.write_to(tmp_path / "none" / "a.prom")
    with pytest.raises(SleepwatchError, match=r"metrics\.textfile = .*no such file or directory"):
        metrics.publish(FIGURES, 0)
    assert _get(metrics)["sleepwatch_start_timestamp_seconds", ()] == 1


# -- fed by the daemon -----------------------------------------------------------------------------------------------


class Clock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.us = 100_000 * SECOND

    def now(self) -> Now:
        return Now(self.us, 1_800_000_000 * SECOND + self.us)


class Daemon:
    """A service that is looked at step by step, with its metrics in a file."""

    def __init__(self, directory: Path, log: Path) -> None:
        self.clock = Clock()
        self.textfile = directory / "a.prom"
        self.database = directory / "a.db"
        self.complaints: list[str] = []
        self.settings = Settings(file=(FileSource(path=str(log)),), metrics=config.Metrics(textfile=str(self.textfile)))
        self.service = Service(
            self.settings,
            self.database,
            self.clock,
            say=lambda line: None,
            complain=self.complaints.append,
            reload=lambda: self.settings,
        )

    def pass_time(self, seconds: int) -> Samples:
        for _ in range(seconds):
            self.service.step()
            self.clock.us += SECOND
        return _samples(self.textfile.read_text())


@pytest.fixture
def log(tmp_path: Path, corpus: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes((corpus / "b11368-default-gaveup" / "server.log").read_bytes())
    return path


@pytest.fixture
def daemon(tmp_path: Path, log: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, log)
    made.service.start()
    yield made
    made.service.stop()


HUNG = "sleepwatch_incidents_total", (("kind", "hung-request"), ("severity", "critical"))
TRUNCATED = "sleepwatch_gaps_total", (("cause", "truncated"),)


def test_the_daemons_figures_are_true(daemon: Daemon, log: Path) -> None:
    found = daemon.pass_time(20)
    source = (("source", str(log)),)
    content = log.read_bytes()
    assert found["sleepwatch_bytes_read_total", source] == len(content)
    assert found["sleepwatch_lines_read_total", source] == content.count(b"\n")
    assert found["sleepwatch_events_total", source] > 50
    assert found["sleepwatch_source_up", source] == 1
    assert found["sleepwatch_source_unread_bytes", source] == 0
    assert found["sleepwatch_watermark_timestamp_seconds", source] == pytest.approx(
        daemon.clock.now().wall_us / 1e6, abs=20
    )
    assert (
        found["sleepwatch_last_progress_timestamp_seconds", ()] >= found["sleepwatch_last_saved_timestamp_seconds", ()]
    )
    with open_store(daemon.database, read_only=True) as store:
        assert found[HUNG] == len(store.incidents(kinds=["hung-request"])) > 0
    assert found[TRUNCATED] == 0


def test_a_truncation_is_counted(daemon: Daemon, log: Path) -> None:
    daemon.pass_time(2)
    log.write_bytes(b"")
    daemon.pass_time(2)
    log.write_bytes(b"0.00.000.001 I srv  llama_server: initializing ...\n")
    found = daemon.pass_time(20)
    assert found[TRUNCATED] == 1
    assert found["sleepwatch_rotations_total", (("source", str(log)),)] == 1


def test_a_log_that_vanished_is_down_and_open(daemon: Daemon, log: Path) -> None:
    daemon.pass_time(2)
    log.unlink()
    found = daemon.pass_time(100)
    assert found["sleepwatch_source_up", (("source", str(log)),)] == 0
    blind = (("kind", "blind"), ("severity", "warning"))
    assert found["sleepwatch_incidents_open", blind] == 1
    assert found["sleepwatch_incidents_total", blind] == 1
    log.write_bytes(b"x\n")
    found = daemon.pass_time(20)
    assert ("sleepwatch_incidents_open", blind) not in found
    assert found["sleepwatch_incidents_total", blind] == 1


def test_an_incident_is_counted_once_over_restarts(tmp_path: Path, log: Path) -> None:
    counted = 0.0
    for _ in range(2):
        daemon = Daemon(tmp_path, log)
        daemon.service.start()
        counted += daemon.pass_time(20)[HUNG]
        daemon.service.stop()
        assert not daemon.textfile.exists()
    with open_store(tmp_path / "a.db", read_only=True) as store:
        assert counted == len(store.incidents(kinds=["hung-request"]))


def test_the_setting_can_change_while_it_runs(daemon: Daemon, tmp_path: Path) -> None:
    daemon.pass_time(2)
    daemon.settings = msgspec.structs.replace(
        daemon.settings, metrics=config.Metrics(textfile=str(tmp_path / "other.prom"))
    )
    daemon.service._take_over_settings()
    daemon.service.step()
    assert not daemon.textfile.exists()
    assert (tmp_path / "other.prom").exists()
    daemon.settings = msgspec.structs.replace(daemon.settings, metrics=config.Metrics())
    daemon.service._take_over_settings()
    assert not (tmp_path / "other.prom").exists()


def test_a_port_that_cannot_be_had_does_not_keep_it_from_watching(tmp_path: Path, log: Path) -> None:
    daemon = Daemon(tmp_path, log)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        daemon.service.settings = msgspec.structs.replace(
            daemon.settings, metrics=config.Metrics(port=port, textfile=str(daemon.textfile))
        )
        daemon.service.start()
        found = daemon.pass_time(20)
        daemon.service.stop()
    assert found[HUNG] > 0
    assert [line for line in daemon.complaints if line.startswith(f"metrics.port = {port}: ")]


def test_without_a_setting_nothing_is_offered(tmp_path: Path, log: Path) -> None:
    service = Service(
        Settings(file=(FileSource(path=str(log)),)),
        tmp_path / "a.db",
        Clock(),
        say=lambda _: None,
        complain=lambda _: None,
    )
    service.start()
    service.step()
    assert service._publisher.address is None
    service.stop()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.db", "a.db.lock", "a.log"]


def test_every_class_of_gap_begins_at_zero(metrics: Metrics) -> None:
    assert dict(metrics.gaps) == dict.fromkeys(CAUSES, 0)
