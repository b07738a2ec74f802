"""``sleepwatch check`` on real processes, unit files on disk and preset files; never on a server's port."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sleepwatch.check import check
from sleepwatch.check.document import json_text
from sleepwatch.check.facts import Facts
from sleepwatch.check.gather import gather
from sleepwatch.check.text import text
from sleepwatch.cli import main
from sleepwatch.hosts.processes import ServerProcess
from tests.hosts.fake import program, running, write_server
from tests.hosts.test_units import write
from tests.hosts.unprivileged import as_nobody

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["check", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, result.output


def entry_of(pid: int) -> dict[str, Any]:
    """This server in the JSON document; others may run on this machine."""
    _, output = run("--json")
    document = json.loads(output)
    (entry,) = (one for one in document["servers"] if one["pid"] == pid)
    assert isinstance(entry, dict)
    return entry


def test_a_server_started_by_hand(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    log = tmp_path / "l.log"
    with (
        log.open("ab") as file,
        running(
            [server, "-m", "/models/a.gguf", "--sleep-idle-seconds", "30", "-np", "1"], directory=tmp_path, stderr=file
        ) as process,
    ):
        entry = entry_of(process.pid)
    assert entry["sleep"] == {"state": "on", "seconds": 30, "from": "--sleep-idle-seconds 30, command line"}
    assert (entry["model"], entry["slots"], entry["running"], entry["counted"]) == ("a.gguf", 1, True, True)
    assert entry["evidence"]["targets"] == [f"the file {log}"]
    assert entry["verdict"] in ("exposed", "exposed and unprotected")
    assert {"sleep-mode-on", "arrivals-not-logged"} <= {one["code"] for one in entry["findings"]}


def test_a_blind_one(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    with running([server, "-m", "x", "--sleep-idle-seconds", "30"], directory=tmp_path) as process:
        entry = entry_of(process.pid)
    assert entry["evidence"]["answer"] == "no"
    assert "blind" in entry["verdict"]
    assert "output-nowhere" in {one["code"] for one in entry["findings"]}


def test_the_build_is_read_from_the_beginning_of_the_log(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    log = tmp_path / "l.log"
    log.write_text("build_info: b8672-1a2b3c4d\nsystem info: n_threads = 2\n")
    with (
        log.open("ab") as file,
        running([server, "-m", "x", "--sleep-idle-seconds", "30"], directory=tmp_path, stderr=file) as process,
    ):
        assert entry_of(process.pid)["build"] == 8672


def test_a_router_with_its_preset_and_its_children(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    (tmp_path / "models.ini").write_text(
        "[*]\nsleep-idle-seconds = 300\n[alpha]\nm = a\n[beta]\nsleep-idle-seconds = -1\n"
    )
    environment = {"FAKE_CHILD": "--sleep-idle-seconds 300"}
    command = [server, "--models-preset", "models.ini", "--no-models-autoload"]
    with running(command, directory=tmp_path, models=["alpha"], environment=environment) as process:
        document = json.loads(run("--json")[1])
    router = next(one for one in document["servers"] if one["pid"] == process.pid)
    child = next(one for one in document["servers"] if one["router"] == router["name"])
    assert router["is_router"]
    assert [(one["name"], one["sleep"]["state"], one["running"]) for one in router["models"]] == [
        ("alpha", "on", True),
        ("beta", "off", False),
    ]
    assert child["name"] == f"{router['name']}/alpha"
    assert "child-not-restarted" in {one["code"] for one in child["findings"]}


class Counter:
    """A server's port, kept by the test: counts who connects."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.count = 0
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.count += 1
            connection.close()

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port


@contextmanager
def counted() -> Iterator[Counter]:
    counter = Counter()
    try:
        yield counter
    finally:
        counter.socket.shutdown(socket.SHUT_RDWR)
        counter.socket.close()
        counter.thread.join()


def test_no_connection_is_ever_opened_to_a_server(tmp_path: Path) -> None:
    """The port is inherited by a process called llama-server, and listened on by the test, which counts."""
    server = write_server(tmp_path)
    # SCRIPT opens --port itself; here it gets none and keeps the test's socket, so its inode is among its open files.
    with counted() as counter:
        os.set_inheritable(counter.socket.fileno(), True)
        command = [
            program("env"),
            f"LLAMA_ARG_PORT={counter.port}",
            str(server),
            "-m",
            "x",
            "--sleep-idle-seconds",
            "9",
        ]
        ready = tmp_path / "ready"
        process = subprocess.Popen(
            command, pass_fds=[counter.socket.fileno()], env={"FAKE_READY": str(ready), "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            from tests.hosts.fake import wait_for

            wait_for(ready)
            for arguments in ([], ["--json"], ["--summary"]):
                assert str(counter.port) in run(*arguments)[1] or arguments == ["--summary"]
            assert entry_of(process.pid)["port"] == counter.port
            assert counter.count == 0
            with socket.create_connection(("127.0.0.1", counter.port)) as connection:
                assert connection.recv(1) == b""
            assert counter.count == 1
        finally:
            process.terminate()
            process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its rights")
def test_an_ordinary_user_gets_answers_and_is_told_what_he_did_not_see(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    with running([server, "-m", "x", "--sleep-idle-seconds", "30"], directory=tmp_path) as process:

        def look() -> object:
            (one,) = (
                one for one in check(gather()).servers if one.server.process and one.server.process.pid == process.pid
            )
            assert isinstance(one.server.process, ServerProcess)
            return [one.sleep.seconds, one.evidence.answer, list(one.server.process.unseen)]

        seconds, evidence, unseen = as_nobody(look, reachable=tmp_path)
    assert (seconds, evidence) == (30, "unknown")
    assert "its open files" in unseen


def test_preset_files_by_name(tmp_path: Path) -> None:
    good, bad, off = tmp_path / "good.ini", tmp_path / "bad.ini", tmp_path / "off.ini"
    good.write_text("[*]\nsleep-idle-seconds = 300\n[a]\nm = a\n")
    bad.write_text("[*]\n  sleep-idle-seconds = 300\n")
    off.write_text("[*]\nsleep-idle-seconds = -1\n[a]\nm = a\n")
    expected = {
        good: ("exposed", 1),
        bad: ("does not start", 1),
        off: ("fine", 0),
        tmp_path / "none.ini": ("unknown", 3),
    }
    for path, (verdict, code) in expected.items():
        status, output = run("--json", "--server", str(path), str(path))
        (entry,) = json.loads(output)["servers"]
        assert (entry["verdict"], status) == (verdict, code), path


def facts(root: Path) -> Facts:
    """A host without processes and without a systemd that runs."""
    (root / "proc").mkdir(exist_ok=True)
    return gather(root=root, proc=root / "proc", run=None, booted=False, people=())


def test_units_on_disk_with_a_router_and_its_preset(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/systemd/system/router.service": (
                "[Service]\nWorkingDirectory=/srv\n"
                "ExecStart=/opt/llama-server --models-preset models.ini --models-max 1\n"
                "Restart=always\n[Install]\nWantedBy=multi-user.target\n"
            ),
            "etc/systemd/system/multi-user.target.wants/router.service": "-> ../router.service",
            "srv/models.ini": "[*]\nsleep-idle-seconds = 600\n[a]\nm = a.gguf\n",
            "etc/systemd/system/idle.service": "[Service]\nExecStart=/opt/llama-server -m x --sleep-idle-seconds 5\n",
        },
    )
    report = check(facts(tmp_path))
    found = {one.server.name: one for one in report.servers}
    assert found["router.service"].verdict == "exposed"
    assert found["router.service"].server.preset is not None
    assert found["idle.service"].verdict == "exposed and unprotected"
    assert not found["idle.service"].server.counted
    assert report.state == 1


DROP_IN = "etc/systemd/system/router.service.d/a.conf"

# Files as people break them: the check must say something, and never end in a traceback.
BROKEN = {
    "preset missing": {"srv/other.ini": ""},
    "preset malformed": {"srv/models.ini": "[*\n"},
    "preset empty": {"srv/models.ini": ""},
    "preset binary": {"srv/models.ini": "\x00\x01\x02"},
    "unit empty": {DROP_IN: ""},
    "drop-in without section": {DROP_IN: "Restart=no\n"},
    "drop-in resets the command": {DROP_IN: "[Service]\nExecStart=\n"},
    "drop-in is a link to nowhere": {DROP_IN: "-> /nowhere"},
    "value is nonsense": {DROP_IN: "[Service]\nRestartSec=soon\nLimitCORE=?\n"},
    "quotes never closed": {DROP_IN: "[Service]\nEnvironment=\"A=1\nExecStart=/x 'y\n"},
    "environment file is a directory": {
        DROP_IN: "[Service]\nEnvironmentFile=/srv\n",
        "srv/models.ini": "[a]\n",
    },
    "journald.conf is nonsense": {"etc/systemd/journald.conf": "Storage=none\n[Journal]\nRateLimitBurst=many\n"},
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_answered_for(case: str, tmp_path: Path) -> None:
    unit = "[Service]\nWorkingDirectory=/srv\nExecStart=/opt/llama-server --models-preset models.ini\nRestart=always\n"
    write(tmp_path, {"etc/systemd/system/router.service": unit, "srv/keep": "", **BROKEN[case]})
    report = check(facts(tmp_path))

    assert json.loads(json_text(report))["schema_version"] == 1
    assert "\n".join(text(report)).startswith("SLEEPWATCH ")
    expected = {"preset missing": "unknown", "preset malformed": "does not start", "preset empty": "fine"}
    if case in expected:
        assert [one.verdict for one in report.servers] == [expected[case]]


def test_a_drop_in_that_takes_the_restart_away(tmp_path: Path) -> None:
    unit = "[Service]\nExecStart=/opt/llama-server -m x --sleep-idle-seconds 5\nRestart=always\n"
    write(tmp_path, {"usr/lib/systemd/system/llama.service": unit})
    assert check(facts(tmp_path)).servers[0].restart.answer == "yes"
    write(tmp_path, {"etc/systemd/system/llama.service.d/override.conf": "[Service]\nRestart=no\n"})
    (one,) = check(facts(tmp_path)).servers
    assert one.verdict == "exposed and unprotected"
    assert "from /etc/systemd/system/llama.service.d/override.conf" in one.findings[0].what


def test_a_host_without_proc(tmp_path: Path) -> None:
    report = check(gather(root=tmp_path, proc=tmp_path / "none", run=None, booted=False, people=()))
    assert report.state == 3
    assert "running processes" in report.host.unseen[0]


def test_a_sleepwatch_that_watches_it_is_found(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    log = tmp_path / "l.log"
    watcher = write_server(tmp_path, "sleepwatch")
    command = [server, "-m", "x", "--sleep-idle-seconds", "30"]
    with log.open("ab") as file, running(command, directory=tmp_path, stderr=file) as process:
        assert "not-watched" in {one["code"] for one in entry_of(process.pid)["findings"]}
        with running([watcher, "run", "--file", "*.log", "--db", "x"], directory=tmp_path) as watching:
            entry = entry_of(process.pid)
            assert entry["watched"] == {"answer": "yes", "how": f"by sleepwatch, pid {watching.pid}"}
        (tmp_path / "s.toml").write_text(f'[[file]]\npath = "{log}"\n')
        with running([watcher, "run", "-c", "s.toml"], directory=tmp_path):
            assert entry_of(process.pid)["watched"]["answer"] == "yes"
        (tmp_path / "s.toml").write_text("nonsense")
        with running([watcher, "run", "-c", "s.toml"], directory=tmp_path):
            assert entry_of(process.pid)["watched"]["answer"] == "unknown"


def test_the_summary_is_one_line_and_wrong_options_are_unknown() -> None:
    status, output = run("--summary")
    assert status in (0, 1, 2, 3)
    assert output.startswith("SLEEPWATCH ")
    assert output.count("\n") == 1
    assert " | servers=" in output
    status, output = run("--no-such-option")
    assert status == 3
    assert "SLEEPWATCH UNKNOWN: No such option" in output
    status, output = run("--server", "no-such-server")
    assert status == 3
    assert output.startswith("SLEEPWATCH UNKNOWN - no server here is called no-such-server")


def test_the_help_names_the_exit_codes() -> None:
    status, output = run("--help")
    assert status == 0
    for words in ("0  OK", "1  WARNING", "2  CRITICAL", "3  UNKNOWN", "so 2 is no error here"):
        assert words in output


def test_a_check_loads_neither_the_engine_nor_the_store() -> None:
    script = (
        "import sys; from sleepwatch.cli import main\n"
        "try: main(['check', '--summary'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'sqlite3', 'hyperscan', 'sleepwatch.engine', 'sleepwatch.store'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200), st.text(alphabet=st.sampled_from("[]*=;#\n llama-server$%'\"\\"), max_size=80))
def test_any_text_in_a_unit_and_a_preset_is_answered_for(tmp_path: Path, preset: str, command: str) -> None:
    root = tmp_path / "host"
    shutil.rmtree(root, ignore_errors=True)
    unit = f"[Service]\nExecStart=/opt/llama-server --models-preset /m.ini {command}\nEnvironment={command}\n"
    (root / "etc/systemd/system").mkdir(parents=True)
    (root / "etc/systemd/system/a.service").write_text(unit, errors="surrogatepass")
    (root / "m.ini").write_text(preset, errors="surrogatepass")
    report = check(facts(root))
    assert report.state in (0, 1, 2, 3)
    json.loads(json_text(report))
    assert next(text(report)).startswith("SLEEPWATCH ")
