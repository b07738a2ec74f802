"""Where a server is reached: as configured, else only what surely runs here."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sleepwatch.client.target import TargetError
from sleepwatch.hosts import cgroups
from sleepwatch.hosts.options import parse_arguments
from sleepwatch.hosts.processes import ServerProcess
from sleepwatch.hosts.sockets import Listening
from sleepwatch.wake.place import Place, find_target
from sleepwatch.wake.settings import WakeServer

PLACE = Place(server="llama.service", here=True, url="http://127.0.0.1:8080", port="8080", pid=7)
ANY = WakeServer(name="*")


def process(pid: int = 7, *arguments: str, **more: object) -> ServerProcess:
    given = ("-m", "x.gguf", *(arguments or ("--port", "8080")))
    made = ServerProcess(
        pid=pid, parent=1, uid=0, started=1, arguments=given, options=parse_arguments(given), place=cgroups.Place()
    )
    return msgspec.structs.replace(made, **more)


def test_where_it_says_that_it_listens() -> None:
    target, found = find_target(PLACE, ANY, [process(9, "--port", "9090"), process()])
    assert (target.url, target.kind, found and found.pid) == ("http://127.0.0.1:8080", None, 7)
    target, _ = find_target(msgspec.structs.replace(PLACE, url="http://0.0.0.0:8080"), ANY, [process()])
    assert target.url == "http://127.0.0.1:8080"


def test_where_its_start_is_not_in_the_log_the_process_tells() -> None:
    target, _ = find_target(msgspec.structs.replace(PLACE, url=None, port=None), ANY, [process()])
    assert target.url == "http://127.0.0.1:8080"


def test_a_routers_child_by_its_port() -> None:
    place = msgspec.structs.replace(PLACE, url=None, port="1/8080", pid=None)
    target, _ = find_target(place, ANY, [process()])
    assert target.url == "http://127.0.0.1:8080"


def test_on_a_unix_socket() -> None:
    place = msgspec.structs.replace(PLACE, url="unix:///run/llama.sock", pid=None)
    here = process(listening=(Listening(inode=1, uid=0, address="/run/llama.sock"),))
    target, found = find_target(place, ANY, [process(9, "--port", "9090"), here])
    assert (target.socket, found and found.pid) == ("/run/llama.sock", 7)


@pytest.mark.parametrize("option", ["--embedding", "--reranking"])
def test_one_for_embeddings_is_asked_for_one(option: str) -> None:
    target, _ = find_target(PLACE, ANY, [process(7, "--port", "8080", option)])
    assert target.kind == "embedding"
    target, _ = find_target(PLACE, WakeServer(name="*", kind="chat"), [process(7, "--port", "8080", option)])
    assert target.kind == "chat"


@pytest.mark.parametrize(
    ("changes", "processes", "why"),
    [
        ({"url": "http://192.168.1.5:8080"}, [process()], "no loopback address"),
        ({"here": False}, [process()], "another machine"),
        ({}, [], "no llama-server is seen to run here"),
        ({"pid": None}, [process(9, "--port", "9090")], "no llama-server is seen to run here"),
        ({}, [process(own_network=True)], "another network namespace"),
        ({"url": None, "port": None, "pid": None}, [process()], "where it listens is not known"),
    ],
)
def test_anything_else_has_to_be_configured(
    changes: dict[str, object], processes: list[ServerProcess], why: str
) -> None:
    with pytest.raises(TargetError, match=why) as refused:
        find_target(msgspec.structs.replace(PLACE, **changes), ANY, processes)
    assert refused.value.hint == 'name its url in a [[wake.server]] section (name = "llama.service")'


def test_what_is_configured_counts(tmp_path: Path) -> None:
    settings = WakeServer(
        name="*", url="https://llama.example", model="m", kind="chat", api_key_file=str(tmp_path / "key"),
        ca_file=str(tmp_path / "ca"), insecure=True,
    )  # fmt: skip
    target, found = find_target(msgspec.structs.replace(PLACE, here=False), settings, [process()])
    assert (target.url, target.model, target.kind, target.insecure) == ("https://llama.example:443", "m", "chat", True)
    assert (target.key_file, target.ca_file, found) == (tmp_path / "key", tmp_path / "ca", None)
