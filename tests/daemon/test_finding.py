"""Which logs are found where nobody named one: real processes called llama-server, each writing somewhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from sleepwatch.daemon.finding import Finding, Log, find_logs, running_servers
from sleepwatch.hosts.access import why_unreadable
from sleepwatch.hosts.cgroups import Place
from sleepwatch.hosts.discovery import Discovered, assemble
from sleepwatch.hosts.logs import Target
from tests.hosts.fake import program, running, write_server

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


def _below(pid: int) -> list[Discovered]:
    """The servers of this process and those below it; others may run on this machine, too."""
    found = running_servers()
    return [one for one in found if pid in (one.process.pid, *(above.pid for above in one.process.ancestors))]


def _find(pid: int) -> Finding:
    return find_logs(_below(pid))


def _words(pid: int) -> str:
    return f"llama-server pid {pid}"


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return write_server(tmp_path)


def test_a_log_file(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with running([server, "-m", "x", "--log-file", log], directory=tmp_path) as process:
        assert _find(process.pid) == Finding(files=(Log(str(log), _words(process.pid)),))


def test_a_log_file_named_from_where_it_was_started(server: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with running([server, "-m", "x", "--log-file", "a.log"], directory=tmp_path, cwd=tmp_path / "there") as process:
        assert [log.place for log in _find(process.pid).files] == [str(tmp_path / "there" / "a.log")]


@pytest.mark.parametrize("redirection", [">> {log} 2>&1", "2>> {log}", "> {log} 2>&1"])
def test_a_shells_redirection(server: Path, tmp_path: Path, redirection: str) -> None:
    log = tmp_path / "a.log"
    command = f"exec {server} -m x {redirection.format(log=log)}"
    with running([program("sh"), "-c", command], directory=tmp_path) as process:
        assert [found.place for found in _find(process.pid).files] == [str(log)]


def test_a_file_that_is_appended_to_goes_before_one_that_each_start_empties(server: Path, tmp_path: Path) -> None:
    emptied, appended = tmp_path / "emptied.log", tmp_path / "appended.log"
    with (
        appended.open("ab") as file,
        running([server, "-m", "x", "--log-file", emptied], directory=tmp_path, stderr=file) as process,
    ):
        assert [found.place for found in _find(process.pid).files] == [str(appended)]


def test_two_servers_on_one_file_are_one_log(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    command = f"{server} -m x 2>> {log} & exec {server} -m y 2>> {log}"
    with running([program("sh"), "-c", command], directory=tmp_path) as process:
        assert len(_find(process.pid).files) == 1


def test_lines_that_are_thrown_away(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x"], directory=tmp_path) as process:
        (unwatched,) = _find(process.pid).unwatched
    assert unwatched.server == _words(process.pid)
    assert unwatched.reason == "its lines go to /dev/null"


def test_a_pipe(server: Path, tmp_path: Path) -> None:
    # Not a pipe into these tests: they may write a log of their own, and then that would be found.
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert reader.stdin is not None
    with reader, running([server, "-m", "x"], directory=tmp_path, stderr=reader.stdin) as process:
        reader.stdin.close()
        (unwatched,) = _find(process.pid).unwatched
    assert unwatched.reason.startswith("its lines go to a pipe")


def test_no_log_at_all(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x", "--log-disable"], directory=tmp_path) as process:
        (unwatched,) = _find(process.pid).unwatched
    assert unwatched.reason == "it writes no log (--log-disable)"


def test_a_file_that_was_deleted(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("ab") as file, running([server, "-m", "x"], directory=tmp_path, stderr=file) as process:
        log.unlink()
        (unwatched,) = _find(process.pid).unwatched
    assert unwatched.reason == f"its lines go to the file {log}, which has been deleted"


def test_a_file_that_cannot_be_read(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with running([server, "-m", "x", "--log-file", log], directory=tmp_path) as process:
        (found,) = _below(process.pid)
    log.unlink()  # root may read everything: what is not there cannot be read by root either
    (unwatched,) = find_logs([found]).unwatched
    assert why_unreadable(str(log)) == "no such file or directory"
    assert f"its lines go to --log-file {log}, which cannot be read (no such file or directory)" in unwatched.reason


def test_something_that_is_no_file(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x", "--log-file", tmp_path / "a.log"], directory=tmp_path) as process:
        (found,) = _below(process.pid)
    (tmp_path / "a.log").unlink()
    os.mkfifo(tmp_path / "a.log")
    keep = os.open(tmp_path / "a.log", os.O_RDWR)  # so that opening it for reading does not wait
    (unwatched,) = find_logs([found]).unwatched
    os.close(keep)
    assert "a.log is not a regular file" in unwatched.reason


def test_a_container(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x", "--log-file", tmp_path / "a.log"], directory=tmp_path) as process:
        (found,) = _below(process.pid)
    place = Place(container="0123456789ab", engine="docker")
    (unwatched,) = find_logs(assemble([msgspec.structs.replace(found.process, place=place)], ())).unwatched
    assert "out of reach after it ends" in unwatched.reason


def test_a_routers_children_are_in_the_routers_log(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "router.log"
    with (
        log.open("ab") as file,
        running([server], directory=tmp_path, stdout=file, stderr=file, models=["alpha", "beta"]) as process,
    ):
        found = _find(process.pid)
    assert found == Finding(files=(Log(str(log), _words(process.pid)),))


def test_a_router_whose_two_streams_go_to_two_files_has_two_logs(server: Path, tmp_path: Path) -> None:
    out, err = tmp_path / "out.log", tmp_path / "err.log"
    with (
        out.open("ab") as stdout,
        err.open("ab") as stderr,
        running([server], directory=tmp_path, stdout=stdout, stderr=stderr, models=["alpha"]) as process,
    ):
        found = _find(process.pid)
    assert {log.place for log in found.files} == {str(out), str(err)}


def test_a_server_is_named_by_its_port(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x", "--port", "0"], directory=tmp_path) as process:
        (found,) = _below(process.pid)
        (unwatched,) = _find(process.pid).unwatched
    assert found.process.port is not None
    assert unwatched.server == f"llama-server pid {process.pid} port {found.process.port}"


# -- the journal (made; with a booted systemd: tests/packaging/test_booted.py) --------------------------------------


def _in_journal(found: Discovered, **target: object) -> Discovered:
    place = Target(kind="journal", words="the journal, unit llama.service", unit="llama.service")
    return msgspec.structs.replace(
        found, name="llama.service", targets=(msgspec.structs.replace(place, **target), *found.targets)
    )


@pytest.fixture
def discarding(server: Path, tmp_path: Path) -> Discovered:
    """A server whose standard error goes nowhere."""
    with running([server, "-m", "x"], directory=tmp_path) as process:
        (found,) = _below(process.pid)
    return found


def test_a_units_lines_in_the_journal(discarding: Discovered) -> None:
    words = f"llama.service (pid {discarding.process.pid})"
    assert find_logs([_in_journal(discarding)]) == Finding(units=(Log("llama.service", words),))


@pytest.mark.parametrize("where", [{"user_journal": True}, {"namespace": "llama"}, {"unit": None}])
def test_lines_in_a_journal_that_is_not_read(discarding: Discovered, where: dict[str, object]) -> None:
    (unwatched,) = find_logs([_in_journal(discarding, **where)]).unwatched
    assert unwatched.reason.startswith("its lines go to the journal, unit llama.service")


def test_a_journal_that_is_not_read_leaves_the_file(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with running([server, "-m", "x", "--log-file", log], directory=tmp_path) as process:
        (found,) = _below(process.pid)
    assert [one.place for one in find_logs([_in_journal(found, user_journal=True)]).files] == [str(log)]
