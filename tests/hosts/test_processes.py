"""Real processes called llama-server, started in every way people start them, and damaged copies of /proc."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sleepwatch.hosts import processes
from sleepwatch.hosts.processes import ServerProcess, children, find_servers
from tests.hosts.fake import program, running, write_server
from tests.hosts.unprivileged import as_nobody

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


def mine(pid: int) -> list[ServerProcess]:
    """The servers of this process and below it; others may run on this machine too."""
    found = find_servers().servers
    return [one for one in found if one.pid == pid or pid in (above.pid for above in one.ancestors)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# Every way to give the option, and what is in force then.
WAYS = {
    "{server} -m x --sleep-idle-seconds 300": ("on", 300),
    "{server} -m x --sleep_idle_seconds 300": ("on", 300),
    "{server} -m x --sleep-idle-seconds=300": ("on", 300),
    "{server} -m x --sleep-idle-seconds 60 --sleep-idle-seconds 300": ("on", 300),
    "{server} -m x --sleep-idle-seconds -1": ("off", -1),
    "{server} -m x --sleep-idle-seconds 0": ("refused", 0),
    "{server} -m x": ("off", None),
    "{env} LLAMA_ARG_SLEEP_IDLE_SECONDS=300 {server} -m x": ("off", None),
    "{env} nice -n 1 {server} -m x --sleep-idle-seconds 300": ("on", 300),
    "{sh} -c 'exec {server} -m x --sleep-idle-seconds 300'": ("on", 300),
    "{sh} -c '{server} -m x --sleep-idle-seconds 300; true'": ("on", 300),
    "{sh} -c '{server} -m x --sleep-idle-seconds 300 | cat'": ("on", 300),
    "{python} -IS {server} -m x --sleep-idle-seconds 300": ("on", 300),
    "{nohup} {server} -m x --sleep-idle-seconds 300": ("on", 300),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_giving_the_option(way: str, tmp_path: Path) -> None:
    server = write_server(tmp_path)
    command = way.format(
        server=server, env=program("env"), sh=program("sh"), python=sys.executable, nohup=program("nohup")
    )
    with running(shlex.split(command), directory=tmp_path) as process:
        (found,) = mine(process.pid)
        sleep = found.options.sleep
        assert (sleep.state, sleep.seconds) == WAYS[way]
        ignored = [one for one in found.options.problems if one.code == "ignored-environment"]
        assert bool(ignored) == ("LLAMA_ARG_SLEEP" in way)


@pytest.mark.parametrize("name", ["llama-server-cuda", ".llama-server-wrapped", "llama-server-b11368"])
def test_the_server_under_other_names(name: str, tmp_path: Path) -> None:
    server = write_server(tmp_path, name)
    with running([server, "-m", "x", "--sleep-idle-seconds", "5"], directory=tmp_path) as process:
        (found,) = mine(process.pid)
        assert found.options.sleep.seconds == 5


def test_a_wrapper_script_of_the_servers_name_is_not_a_second_server(tmp_path: Path) -> None:
    real = write_server(tmp_path / "real")
    wrapper = tmp_path / "llama-server"
    wrapper.write_text(f'#!{program("sh")}\n{real} "$@" --sleep-idle-seconds 9\n')
    wrapper.chmod(0o755)
    with running([wrapper, "-m", "x"], directory=tmp_path) as process:
        (found,) = mine(process.pid)
        assert found.options.sleep.seconds == 9
        assert found.ancestors[0].pid == process.pid


def test_what_a_process_shows(tmp_path: Path) -> None:
    server = write_server(tmp_path / "llama-b11368" / "bin")
    port = free_port()
    log = tmp_path / "server.log"
    arguments = f"-m /models/gemma.gguf -np 2 --port {port} --log-file run.log -lv 4 --api-key secret"
    environment = {"LLAMA_ARG_TIMEOUT": "60", "LLAMA_API_KEY": "secret", "OTHER": "secret", "HF_TOKEN": "secret"}
    with (
        log.open("ab") as file,
        running([server, *arguments.split()], directory=tmp_path, stderr=file, environment=environment) as process,
    ):
        (found,) = mine(process.pid)
    assert (found.parent, found.uid) == (os.getpid(), os.geteuid())
    assert (found.port, found.listening_known) == (port, True)
    assert [one.address for one in found.listening] == ["127.0.0.1"]
    assert (found.error.kind, found.error.path, found.error.append) == ("file", str(log), True)
    assert found.output.kind == "null"
    assert found.log_file is not None
    assert (found.log_file.path, found.log_file.append, found.log_file.deleted) == (
        str(tmp_path / "run.log"),
        False,
        False,
    )
    assert found.options.number("timeout") == 60
    assert found.environment == {"HOME": str(tmp_path), "LLAMA_ARG_TIMEOUT": "60"}
    assert "secret" not in str(found.environment)
    assert found.own_network is False
    assert found.directory == str(tmp_path)
    assert not found.is_router
    assert found.unseen == ()
    assert found.core_limit is not None


def test_the_build_is_read_from_the_programs_path() -> None:
    def build(path: str) -> int | None:
        one = ServerProcess(
            pid=1, parent=0, uid=0, started=0, arguments=(), options=processes.parse_arguments(()),
            place=processes.cgroups.Place(), executable=path,
        )  # fmt: skip
        return one.build

    assert build("/opt/llama-b11368/bin/llama-server") == 11368
    assert build("/opt/llama.cpp/b9971/llama-server") == 9971
    assert build("/nix/store/abc-llama-cpp-9876/bin/llama-server") == 9876
    assert build("/opt/homebrew/Cellar/llama.cpp/10240/bin/llama-server") == 10240
    assert build("/usr/bin/llama-server") is None


def test_outputs_of_every_kind(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    with running([server, "-m", "x"], directory=tmp_path, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        (found,) = mine(process.pid)
        assert (found.error.kind, found.error.readers) == ("pipe", (Path("/proc/self/comm").read_text().strip(),))
        process.stderr.close()
    log = tmp_path / "teed.log"
    command = [program("sh"), "-c", f"{server} -m x 2>&1 | {program('tee')} -a {log}"]
    with running(command, directory=tmp_path) as process:
        (found,) = mine(process.pid)
        assert (found.error.kind, found.error.readers, found.error.written_to) == ("pipe", ("tee",), (str(log),))
    with (
        (tmp_path / "gone.log").open("wb") as file,
        running([server, "-m", "x"], directory=tmp_path, stderr=file) as process,
    ):
        (tmp_path / "gone.log").unlink()
        (found,) = mine(process.pid)
        assert (found.error.kind, found.error.deleted, found.error.append) == ("file", True, False)
    left, right = socket.socketpair()
    with left, right:
        here = os.fstat(right.fileno())
        environment = {"JOURNAL_STREAM": f"{here.st_dev}:{here.st_ino}"}
        with running([server], directory=tmp_path, stderr=right.fileno(), environment=environment) as process:
            (found,) = mine(process.pid)
            assert found.error.kind == "journal"
            assert found.is_router
        with running([server, "-m", "x"], directory=tmp_path, stderr=right.fileno()) as process:
            (found,) = mine(process.pid)
            assert found.error.kind == "socket"
    terminal, other = os.openpty()
    with running([server, "-m", "x"], directory=tmp_path, stderr=other) as process:
        (found,) = mine(process.pid)
        assert (found.error.kind, (found.error.path or "")[:9]) == ("terminal", "/dev/pts/")
    os.close(terminal)
    os.close(other)
    with running([program("sh"), "-c", f"exec {server} -m x 2>&-"], directory=tmp_path) as process:
        (found,) = mine(process.pid)
        assert found.error.kind in ("closed", "other", "null")


def test_a_router_and_its_children(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    port = free_port()
    command = [server, "--models-preset", "m.ini", "--port", str(port), "--models-max", "2"]
    environment = {"FAKE_CHILD": "--sleep-idle-seconds 30"}
    with running(command, directory=tmp_path, models=["alpha", "beta"], environment=environment) as process:
        found = mine(process.pid)
        router = next(one for one in found if one.pid == process.pid)
        assert router.is_router
        assert (router.router, router.port) == (None, port)
        below = children(router, found)
        assert sorted(one.options.model or "" for one in below) == ["alpha", "beta"]
        assert {one.router for one in below} == {process.pid}
        assert {one.options.sleep.seconds for one in below} == {30}
        assert not any(one.is_router for one in below)
        assert {one.error.readers for one in below} == {("llama-server",)}


def test_a_configuration_file_of_the_user_counts(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    config = tmp_path / ".config/llama.cpp/config.ini"
    config.parent.mkdir(parents=True)
    config.write_text("sleep-idle-seconds = 44\n")
    with running([server, "-m", "x"], directory=tmp_path) as process:
        (found,) = mine(process.pid)
        assert found.options.sleep.seconds == 44
        assert found.options.sleep.setting is not None
        assert found.options.sleep.setting.kind == "config"
        config.write_text("nonsense\n")
        (found,) = mine(process.pid)
        assert found.options.sleep.state == "off"
        assert found.config_unread == (f"{config} line 1: has no '='",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its rights")
def test_an_ordinary_user_sees_the_command_line_and_says_what_he_does_not_see(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    port = free_port()
    with running([server, "-m", "x", "--sleep-idle-seconds", "30", "--port", str(port)], directory=tmp_path) as process:

        def look() -> object:
            (found,) = mine(process.pid)
            return [
                found.options.sleep.seconds, found.port, found.listening_known, found.error.kind, found.environment,
                list(found.unseen),
            ]  # fmt: skip

        seconds, seen_port, known, error, environment, unseen = as_nobody(look, reachable=tmp_path)
    assert (seconds, seen_port, known, error, environment) == (30, port, False, "unknown", None)
    assert set(unseen) == {
        "its environment", "its working directory", "its file system", "its program's path", "its open files",
        "its network namespace",
    }  # fmt: skip


# --- copies of /proc, some of them damaged: made ------------------------------------------------------------------


@contextmanager
def proc(root: Path, *entries: tuple[int, str, str, str, int]) -> Iterator[Path]:
    """A /proc with processes (pid, comm, command line, state, parent)."""
    for pid, comm, command, state, parent in entries:
        directory = root / str(pid)
        directory.mkdir(parents=True)
        fields = [state, str(parent), *["0"] * 17, str(pid * 10), "0"]
        (directory / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)}\n")
        (directory / "cmdline").write_bytes(command.replace(" ", "\0").encode() + (b"\0" if command else b""))
        (directory / "cgroup").write_text("0::/system.slice/llama.service\n")
        (directory / "status").write_text(f"Name:\t{comm}\nUid:\t7\t7\t7\t7\nNSpid:\t{pid}\t1\n")
    yield root


def test_names_with_parentheses_and_blanks_do_not_shift_the_fields(tmp_path: Path) -> None:
    with proc(tmp_path, (5, "we) (ird 1 S", "/x/llama-server -m y", "S", 1), (1, "init", "/init", "S", 0)) as root:
        (found,) = find_servers(root).servers
        assert (found.pid, found.parent, found.started, found.uid) == (5, 1, 50, 7)
        assert found.first_in_namespace
        assert found.place.unit == "llama.service"


@pytest.mark.parametrize("missing", ["status", "cgroup"])
def test_entries_that_are_missing_leave_the_rest(missing: str, tmp_path: Path) -> None:
    with proc(tmp_path, (5, "llama-server", "llama-server -m y --sleep-idle-seconds 3", "S", 1)) as root:
        (root / "5" / missing).unlink()
        (found,) = find_servers(root).servers
        assert found.options.sleep.seconds == 3


@pytest.mark.parametrize("stat", ["", "5", "5 (x", "5 (llama-server) S", "5 (llama-server) S one " + "0 " * 30])
def test_a_broken_stat_is_no_server(stat: str, tmp_path: Path) -> None:
    with proc(tmp_path, (5, "llama-server", "llama-server", "S", 1)) as root:
        (root / "5" / "stat").write_text(stat)
        assert find_servers(root).servers == ()


def test_entries_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    with proc(
        tmp_path, (5, "llama-server", "llama-server", "S", 1), (6, "llama-server", "llama-server", "S", 1)
    ) as root:
        (root / "6" / "cmdline").unlink()
        (root / "6" / "cmdline").mkdir()
        found = find_servers(root)
        assert [one.pid for one in found.servers] == [5]
        assert found.unseen == ("1 processes could not be looked at",)


def test_a_process_that_vanishes_half_way_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with proc(
        tmp_path, (5, "llama-server", "llama-server", "S", 1), (6, "llama-server", "llama-server", "S", 1)
    ) as root:
        whole = processes._Look.descriptors

        def vanish(look: processes._Look) -> dict[int, str] | None:
            if look.pid == 5:
                for entry in list((root / "5").iterdir()):
                    entry.unlink()
                (root / "5").rmdir()
            return whole(look)

        monkeypatch.setattr(processes._Look, "descriptors", vanish)
        assert [one.pid for one in find_servers(root).servers] == [6]


def test_a_pid_that_is_used_again_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with proc(tmp_path, (5, "llama-server", "llama-server", "S", 1)) as root:
        whole = processes._Look.descriptors

        def reuse(look: processes._Look) -> dict[int, str] | None:
            (root / "5" / "stat").write_text(f"5 (bash) S 1 {'0 ' * 17}99 0\n")
            return whole(look)

        monkeypatch.setattr(processes._Look, "descriptors", reuse)
        assert find_servers(root).servers == ()


def test_a_server_that_has_ended_and_was_not_asked_about(tmp_path: Path) -> None:
    with proc(tmp_path, (5, "llama-server", "", "Z", 1)) as root:
        found = find_servers(root)
        assert (found.servers, found.defunct) == ((), (5,))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    with proc(tmp_path, (5, "llama-server", "llama-server", "S", 1)) as root:
        (root / "5" / "cmdline").write_bytes(b"llama-server\0-m\0\xff\xfe.gguf\0--sleep-idle-seconds\0" + b"8\0")
        (root / "5" / "environ").write_bytes(b"LLAMA_ARG_TIMEOUT=\xff\0=\0\0HOME=/x\0")
        (found,) = find_servers(root).servers
        assert found.options.sleep.seconds == 8
        assert found.environment == {"LLAMA_ARG_TIMEOUT": "\ufffd", "HOME": "/x"}


def test_parents_that_form_a_ring_end(tmp_path: Path) -> None:
    with proc(tmp_path, (5, "llama-server", "llama-server", "S", 6), (6, "bash", "bash", "S", 5)) as root:
        (found,) = find_servers(root).servers
        assert [one.pid for one in found.ancestors] == [6]


def test_a_child_of_a_router_is_known_by_its_parent_where_its_environment_is_hidden(tmp_path: Path) -> None:
    entries = [
        (5, "llama-server", "llama-server --models-dir /m", "S", 1),
        (6, "llama-server", "llama-server -m x", "S", 5),
    ]
    with proc(tmp_path, *entries) as root:
        found = find_servers(root).servers
        assert [(one.pid, one.router) for one in found] == [(5, None), (6, 5)]


def test_hidden_processes_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with proc(tmp_path) as root:
        root.mkdir(exist_ok=True)
        (root / "self").mkdir()
        (root / "self" / "mounts").write_text("proc /proc proc rw,nosuid,hidepid=invisible 0 0\n")
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        assert "hidepid=invisible" in find_servers(root).unseen[0]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["stat", "cmdline", "environ", "cgroup", "status", "limits"]), st.binary(max_size=80)
    )
)
def test_any_bytes_in_any_entry_are_survived(tmp_path: Path, entries: dict[str, bytes]) -> None:
    root = tmp_path / "proc"
    shutil.rmtree(root, ignore_errors=True)
    with proc(root, (5, "llama-server", "llama-server -m x", "S", 1), (6, "llama-server", "llama-server", "S", 5)):
        (root / "5" / "net").mkdir()
        (root / "5" / "net" / "tcp").write_bytes(entries.get("limits", b""))
        for name, content in entries.items():
            (root / "5" / name).write_bytes(content)
        assert 6 in {one.pid for one in find_servers(root).servers}
