"""Which logs are found where nobody named one: real processes called llama-server, each writing somewhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from sleepwatch.finding import Finding, Log, find_logs, server_words
from sleepwatch.hosts.access import why_unreadable
from sleepwatch.hosts.cgroups import Place
from sleepwatch.hosts.processes import find_servers
from tests.hosts.fake import program, running, write_server

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


def _find(pid: int) -> Finding:
    """What is found of this process and those below it."""
    servers = find_servers().servers
    return find_logs(one for one in servers if one.pid == pid or pid in (above.pid for above in one.ancestors))


def _words(pid: int) -> str:
    return f"llama-server (pid {pid})"


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return write_server(tmp_path)


def test_a_log_file(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with running([server, "-m", "x", "--log-file", log], directory=tmp_path) as process:
        assert _find(process.pid) == Finding(logs=(Log(str(log), _words(process.pid)),))


def test_a_log_file_named_from_where_it_was_started(server: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with running([server, "-m", "x", "--log-file", "a.log"], directory=tmp_path, cwd=tmp_path / "there") as process:
        assert [log.path for log in _find(process.pid).logs] == [str(tmp_path / "there" / "a.log")]


@pytest.mark.parametrize("redirection", [">> {log} 2>&1", "2>> {log}", "> {log} 2>&1"])
def test_a_shells_redirection(server: Path, tmp_path: Path, redirection: str) -> None:
    log = tmp_path / "a.log"
    command = f"exec {server} -m x {redirection.format(log=log)}"
    with running([program("sh"), "-c", command], directory=tmp_path) as process:
        assert [found.path for found in _find(process.pid).logs] == [str(log)]


def test_a_file_that_is_appended_to_goes_before_one_that_each_start_empties(server: Path, tmp_path: Path) -> None:
    emptied, appended = tmp_path / "emptied.log", tmp_path / "appended.log"
    with (
        appended.open("ab") as file,
        running([server, "-m", "x", "--log-file", emptied], directory=tmp_path, stderr=file) as process,
    ):
        assert [found.path for found in _find(process.pid).logs] == [str(appended)]


def test_two_servers_on_one_file_are_one_log(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    command = f"{server} -m x 2>> {log} & exec {server} -m y 2>> {log}"
    with running([program("sh"), "-c", command], directory=tmp_path) as process:
        assert len(_find(process.pid).logs) == 1


def test_lines_that_are_thrown_away(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x"], directory=tmp_path) as process:
        (unwatched,) = _find(process.pid).unwatched
    assert unwatched.server == _words(process.pid)
    assert unwatched.reason == "its lines go to /dev/null"


def test_a_pipe(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x"], directory=tmp_path, stderr=subprocess.PIPE) as process:
        (unwatched,) = _find(process.pid).unwatched
        assert process.stderr is not None
        process.stderr.close()
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
        (found,) = (one for one in find_servers().servers if one.pid == process.pid)
    log.unlink()  # root may read everything: what is not there cannot be read by root either
    (unwatched,) = find_logs([found]).unwatched
    assert why_unreadable(str(log)) == "no such file or directory"
    assert f"its lines go to --log-file {log}, which cannot be read (no such file or directory)" in unwatched.reason


def test_something_that_is_no_file(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x", "--log-file", tmp_path / "a.log"], directory=tmp_path) as process:
        (found,) = (one for one in find_servers().servers if one.pid == process.pid)
    (tmp_path / "a.log").unlink()
    os.mkfifo(tmp_path / "a.log")
    keep = os.open(tmp_path / "a.log", os.O_RDWR)  # so that opening it for reading does not wait
    (unwatched,) = find_logs([found]).unwatched
    os.close(keep)
    assert "a.log is not a regular file" in unwatched.reason


def test_a_container(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x", "--log-file", tmp_path / "a.log"], directory=tmp_path) as process:
        (found,) = (one for one in find_servers().servers if one.pid == process.pid)
    inside = msgspec.structs.replace(found, place=Place(container="0123456789ab", engine="docker"))
    (unwatched,) = find_logs([inside]).unwatched
    assert "out of reach after it ends" in unwatched.reason


def test_a_routers_children_are_in_the_routers_log(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "router.log"
    with (
        log.open("ab") as file,
        running([server], directory=tmp_path, stdout=file, stderr=file, models=["alpha", "beta"]) as process,
    ):
        found = _find(process.pid)
    assert found == Finding(logs=(Log(str(log), f"llama-server router (pid {process.pid})"),))


def test_a_router_whose_two_streams_go_to_two_files_has_two_logs(server: Path, tmp_path: Path) -> None:
    out, err = tmp_path / "out.log", tmp_path / "err.log"
    with (
        out.open("ab") as stdout,
        err.open("ab") as stderr,
        running([server], directory=tmp_path, stdout=stdout, stderr=stderr, models=["alpha"]) as process,
    ):
        found = _find(process.pid)
    assert {log.path for log in found.logs} == {str(out), str(err)}


def test_a_server_is_named_by_its_port(server: Path, tmp_path: Path) -> None:
    with running([server, "-m", "x", "--port", "0"], directory=tmp_path) as process:
        (found,) = (one for one in find_servers().servers if one.pid == process.pid)
    assert found.port is not None
    assert server_words(found) == f"llama-server on port {found.port} (pid {process.pid})"
