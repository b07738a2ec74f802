"""Containers as their engines describe them. Made, in the shape of ``docker inspect`` and ``podman inspect``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from sleepwatch.hosts.commands import Answer
from sleepwatch.hosts.containers import find_container

ID = "0123456789abcdef" * 4


def inspect(policy: str, **more: object) -> str:
    host = {"RestartPolicy": {"Name": policy, "MaximumRetryCount": 3}, "LogConfig": {"Type": "json-file"}, "Init": None}
    return json.dumps(
        [
            {
                "Name": "/llama",
                "Config": {"Image": "ghcr.io/x:server-b11368"},
                "LogPath": "/l.json",
                "HostConfig": {**host, **more},
            }
        ]
    )


def test_docker_inspect() -> None:
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> Answer:
        asked.append(argv)
        return Answer(inspect("on-failure", Init=True))

    found = find_container(ID, "docker", run=run)
    assert asked == [["docker", "inspect", "--type", "container", ID]]
    assert (found.name, found.restart, found.restart_limit, found.init) == ("llama", "on-failure", 3, True)
    assert (found.log_driver, found.log_path, found.image) == ("json-file", "/l.json", "ghcr.io/x:server-b11368")


@pytest.mark.parametrize(("policy", "expected"), [("", "no"), ("no", "no"), ("unless-stopped", "unless-stopped")])
def test_policies(policy: str, expected: str) -> None:
    assert find_container(ID, "podman", run=lambda argv: Answer(inspect(policy))).restart == expected


@pytest.mark.parametrize(
    "output", ["", "null", "[]", "[1]", "{", '[{"HostConfig": 3}]', '[{"HostConfig": {"RestartPolicy": []}}]']
)
def test_broken_answers_are_unknown(output: str, tmp_path: Path) -> None:
    found = find_container(ID, "docker", run=lambda argv: Answer(output), root=tmp_path)
    assert found.restart is None
    assert found.why_unknown


def test_a_refusal_is_said(tmp_path: Path) -> None:
    refusal = Answer("", status=1, why="permission denied while trying to connect to the Docker daemon socket")
    found = find_container(ID, "docker", run=lambda argv: refusal, root=tmp_path)
    assert found.why_unknown is not None
    assert "permission denied" in found.why_unknown


def test_dockers_own_files(tmp_path: Path) -> None:
    directory = tmp_path / "var/lib/docker/containers" / ID
    directory.mkdir(parents=True)
    (directory / "hostconfig.json").write_text(
        json.dumps({"RestartPolicy": {"Name": "always"}, "LogConfig": {"Type": "none"}})
    )
    (directory / "config.v2.json").write_text(json.dumps({"Name": "/box", "Config": {"Image": "i"}, "LogPath": ""}))
    found = find_container(ID, "container", run=None, root=tmp_path)
    assert (found.restart, found.name, found.log_driver, found.log_path) == ("always", "box", "none", None)
    (directory / "hostconfig.json").write_text("{broken")
    assert find_container(ID, "container", run=None, root=tmp_path).restart is None


def test_a_pods_policy_is_not_on_its_node(tmp_path: Path) -> None:
    found = find_container(ID, "kubernetes", run=lambda argv: Answer("", status=1, why="x"), root=tmp_path)
    assert found.why_unknown == "the cluster holds a pod's restart policy, not its node"
