"""Running servers with their names and logs: what a daemon follows. Real processes; containers and units made."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sleepwatch.daemon.finding import running_servers
from sleepwatch.hosts.cgroups import Place
from sleepwatch.hosts.commandline import find
from sleepwatch.hosts.commands import Answer
from sleepwatch.hosts.containers import Container
from sleepwatch.hosts.discovery import Discovered, assemble
from sleepwatch.hosts.logs import Target, targets
from sleepwatch.hosts.options import parse_arguments
from sleepwatch.hosts.processes import Output, ServerProcess
from sleepwatch.hosts.units import Unit
from tests.hosts.fake import running, write_server

ID = "0123456789abcdef" * 4


def below(pid: int) -> list[Discovered]:
    return [
        one
        for one in running_servers()
        if one.process.pid == pid or pid in (above.pid for above in one.process.ancestors)
    ]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_real_router_and_the_file_that_holds_all_lines(tmp_path: Path) -> None:
    server = write_server(tmp_path)
    log = tmp_path / "router.log"
    with (
        log.open("ab") as file,
        running(
            [server, "--models-dir", "/m"], directory=tmp_path, models=["alpha"], stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        router, child = below(process.pid)
    assert [(one.kind, one.path, one.rewritten) for one in router.targets] == [("file", str(log), False)]
    assert router.output is not None
    assert router.output.path == str(log)
    assert child.name == f"{router.name}/alpha"
    assert child.router is not None
    assert child.router.pid == process.pid
    assert [one.kind for one in child.targets] == ["router"]
    assert child.output == router.output


def server(place: Place, arguments: str = "-m a --sleep-idle-seconds 5", **changed: object) -> ServerProcess:
    words = tuple(arguments.split())
    return ServerProcess(
        pid=100, parent=1, uid=0, started=1, arguments=words, options=parse_arguments(words), place=place, **changed
    )  # type: ignore[arg-type]


def unit(name: str, command: str) -> Unit:
    return Unit(name=name, invocation=find(command.split()))


def test_a_container_is_joined_to_the_unit_that_runs_it() -> None:
    inspected = Answer(json.dumps([{"Name": "/llama", "HostConfig": {"RestartPolicy": {"Name": "no"}}}]))
    place = Place(container=ID, engine="docker")
    by_name = unit("by-name.service", "/usr/bin/docker run --rm --name=llama x/llama.cpp:server -m other")
    by_arguments = unit(
        "by-arguments.service", "/usr/bin/docker run --rm x/llama.cpp:server -m a --sleep-idle-seconds 5"
    )
    (one,) = assemble([server(place)], [by_arguments, by_name], run=lambda argv: inspected)
    assert (one.name, one.container and one.container.name) == ("by-name.service", "llama")
    (one,) = assemble([server(place)], [by_arguments], run=lambda argv: Answer("", status=1, why="no"))
    assert one.name == "by-arguments.service"
    (one,) = assemble([server(place)], [by_arguments, by_arguments], run=lambda argv: inspected)
    assert (one.name, one.unit) == ("llama", None)
    (one,) = assemble([server(place)], [], run=None)
    assert one.name == f"container {ID[:12]}"


def test_names() -> None:
    def name(place: Place, units: list[Unit]) -> str:
        (one,) = assemble([server(place)], units)
        return one.name

    own = unit("llama.service", "/opt/llama-server -m a")
    assert name(Place(unit="llama.service"), [own]) == "llama.service"
    assert name(Place(unit="llama.service"), []) == "llama.service"
    assert name(Place(session=True), [own]) == "llama-server pid 100"
    assert name(Place(unit="llama.service", container=ID, engine="podman"), [own]) == "llama.service"


JOURNAL = Output("journal")


@pytest.mark.parametrize(
    ("arguments", "error", "held", "kinds"),
    [
        ("-m a", JOURNAL, None, ["journal"]),
        ("-m a --log-disable", JOURNAL, None, []),
        ("-m a --log-file /l.log", JOURNAL, None, ["journal", "file"]),
        ("-m a --log-file /l.log", Output("null"), None, ["file", "nowhere"]),
        ("-m a", Output("file", "/l.log", append=True), None, ["file"]),
        ("-m a", Output("pipe", readers=("tee",), written_to=("/t.log",)), None, ["file"]),
        ("-m a", Output("pipe", readers=("logger",)), None, ["journal"]),
        ("-m a", Output("pipe", readers=("svlogd",)), None, ["pipe"]),
        ("-m a", Output("pipe"), None, ["pipe"]),
        ("-m a", Output("pipe", readers=("containerd-shim",)), Container(id=ID, engine="docker"), ["container"]),
        ("-m a", Output("unknown"), Container(id=ID, engine="docker", log_driver="journald"), ["journal"]),
        ("-m a", Output("unknown"), Container(id=ID, engine="docker", log_driver="none"), ["nowhere"]),
        ("-m a", Output("unknown"), Unit(name="a.service"), ["journal"]),
        ("-m a", Output("unknown"), Unit(name="a.service", standard_output="null"), ["nowhere"]),
        ("-m a", Output("unknown"), Unit(name="a.service", standard_output="append:/a.log"), ["file"]),
        ("-m a", Output("socket"), Unit(name="a.service"), ["journal"]),
        ("-m a", Output("socket"), None, ["unknown"]),
        ("-m a", Output("unknown"), None, ["unknown"]),
    ],
)
def test_where_lines_go(arguments: str, error: Output, held: Unit | Container | None, kinds: list[str]) -> None:
    process = server(Place(), arguments, error=error)
    of_unit = held if isinstance(held, Unit) else None
    container = held if isinstance(held, Container) else None
    assert [one.kind for one in targets(process.options, process, of_unit, container)] == kinds


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Target(kind="journal", words="the journal, unit a.service", unit="a.service")),
        ({"standard_error": "null"}, Target(kind="nowhere", words="StandardError=null")),
        ({"standard_output": "null"}, Target(kind="nowhere", words="StandardOutput=null")),
        ({"standard_output": "append:/l"}, Target(kind="file", words="the file /l", path="/l")),
        ({"standard_output": "truncate:/l"}, Target(kind="file", words="the file /l", path="/l", rewritten=True)),
        ({"standard_output": "file:/l"}, Target(kind="file", words="the file /l", path="/l", rewritten=True)),
        ({"standard_output": "append"}, Target(kind="file", words="the file whose path systemctl does not tell")),
        ({"standard_output": "tty"}, Target(kind="nowhere", words="a terminal, which keeps nothing")),
        ({"standard_output": "socket"}, Target(kind="unknown", words="socket")),
        (
            {"log_namespace": "llm"},
            Target(
                kind="journal", words="the journal, namespace llm, unit a.service", unit="a.service", namespace="llm"
            ),
        ),
    ],
)
def test_where_a_units_lines_would_go(changed: dict[str, str], expected: Target) -> None:
    one = Unit(name="a.service", **changed)  # type: ignore[arg-type]
    assert targets(parse_arguments(["-m", "a"]), None, one, None) == (expected,)
