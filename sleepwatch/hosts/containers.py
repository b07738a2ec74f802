"""Containers: what their engine would do when the process dies, and where it keeps the output.

Asked of the engine's own ``inspect`` where that is installed and allowed, else read from Docker's files, which root may
read. Kubernetes keeps the policy in the cluster, not on the node: it stays unknown here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sleepwatch.errors import os_words
from sleepwatch.hosts.commands import Run

_DOCKER_FILES = "var/lib/docker/containers"
_ASKED = {"docker": ("docker",), "podman": ("podman",), "nerdctl": ("nerdctl",), "container": ("docker", "podman")}


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """One container."""

    id: str
    engine: str
    name: str | None = None
    image: str | None = None
    restart: str | None = None
    """The engine's restart policy: ``no``, ``on-failure``, ``always``, ``unless-stopped``; None where not known."""
    restart_limit: int = 0
    """How often ``on-failure`` tries; 0 is without end."""
    log_driver: str | None = None
    log_path: str | None = None
    """The file on this host that holds its output (``json-file``)."""
    init: bool | None = None
    """Whether an init stands above the server in it."""
    why_unknown: str | None = None


def find_container(identity: str, engine: str, *, run: Run | None, root: Path = Path("/")) -> Container:
    """What can be learned of a container by its id."""
    whys: list[str] = []
    if run is not None:
        for program in _ASKED.get(engine, ()):
            answer = run([program, "inspect", "--type", "container", identity])
            if answer.status == 0:
                found = _from_inspect(answer.output, identity, program)
                if found is not None:
                    return found
            elif answer.why and "not installed" not in answer.why:
                whys.append(answer.why)
    try:
        from_files = _from_docker_files(root / _DOCKER_FILES / identity, identity)
    except OSError as error:
        whys.append(f"/{_DOCKER_FILES}: {os_words(error)}")
        from_files = None
    if from_files is not None:
        return from_files
    if engine == "kubernetes":
        whys = ["the cluster holds a pod's restart policy, not its node"]
    return Container(id=identity, engine=engine, why_unknown="; ".join(whys) or f"{engine} was not asked")


def _from_inspect(output: str, identity: str, engine: str) -> Container | None:
    try:
        answer = msgspec.json.decode(output)
    except msgspec.DecodeError:
        return None
    if not isinstance(answer, list) or not answer or not isinstance(answer[0], dict):
        return None
    one = answer[0]
    host = _dict(one.get("HostConfig"))
    image = one.get("ImageName") or _dict(one.get("Config")).get("Image")
    logs = _dict(host.get("LogConfig"))
    return _container(
        identity, engine, one.get("Name"), image, host, logs.get("Type"), one.get("LogPath") or logs.get("Path")
    )


def _from_docker_files(directory: Path, identity: str) -> Container | None:
    host_file, config_file = directory / "hostconfig.json", directory / "config.v2.json"
    if not host_file.exists():
        return None
    try:
        host = _dict(msgspec.json.decode(host_file.read_bytes()))
        config = _dict(msgspec.json.decode(config_file.read_bytes())) if config_file.exists() else {}
    except msgspec.DecodeError:
        return None
    driver = _dict(host.get("LogConfig")).get("Type")
    image = _dict(config.get("Config")).get("Image")
    return _container(identity, "docker", config.get("Name"), image, host, driver, config.get("LogPath"))


def _container(
    identity: str,
    engine: str,
    name: Any,
    image: Any,
    host: dict[str, Any],
    driver: Any,
    path: Any,
) -> Container:
    policy = _dict(host.get("RestartPolicy"))
    limit = policy.get("MaximumRetryCount")
    init = host.get("Init")
    return Container(
        id=identity,
        engine=engine,
        name=name.lstrip("/") if isinstance(name, str) else None,
        image=image if isinstance(image, str) else None,
        restart=str(policy["Name"] or "no") if "Name" in policy else None,
        restart_limit=limit if isinstance(limit, int) else 0,
        log_driver=driver if isinstance(driver, str) else None,
        log_path=path if isinstance(path, str) and path else None,
        init=init if isinstance(init, bool) else None,
        why_unknown=None if "Name" in policy else f"{engine} tells no restart policy",
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
