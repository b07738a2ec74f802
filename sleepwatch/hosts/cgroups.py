"""What a process's control group tells: its unit, its container, the machine it runs in (cgroups(7),
systemd.unit(5))."""

from __future__ import annotations

import re

import msgspec

_ID = r"([0-9a-f]{12,64})"
# How each engine names a container's group. The engine that made a bare id (kubernetes with cgroupfs) is not told.
_CONTAINERS = (
    (re.compile(rf"docker-{_ID}\.scope"), "docker"),
    (re.compile(rf"/docker/{_ID}"), "docker"),
    (re.compile(rf"libpod(?:-payload|-conmon)?-{_ID}"), "podman"),
    (re.compile(rf"cri-containerd-{_ID}\.scope"), "kubernetes"),
    (re.compile(rf"crio-{_ID}"), "kubernetes"),
    (re.compile(rf"nerdctl-{_ID}\.scope"), "nerdctl"),
    (re.compile(rf"/kubepods[^/]*/(?:[^/]+/)*(?:pod[^/]+/)?{_ID}"), "kubernetes"),
    (re.compile(rf"/(?:[^/]+/)*{_ID}(?:/|$)"), "container"),
)
_MACHINES = (
    re.compile(r"/machine\.slice/(?:machine-|systemd-nspawn@)([^/]+?)\.(?:scope|service)(?:/payload)?(?=/|$)"),
    re.compile(r"/lxc(?:\.payload)?[./]([^/]+)"),
)
_ENGINES_OWN = {
    "docker.service",
    "containerd.service",
    "podman.service",
    "crio.service",
    "kubelet.service",
    "k3s.service",
}
_USER = re.compile(r"/user@(\d+)\.service(?:/|$)")


class Place(msgspec.Struct, frozen=True):
    """Where a process belongs."""

    unit: str | None = None
    """The system service, with its suffix; None in a login session, a scope or a container without one."""
    user_unit: str | None = None
    """The service of a user's own manager."""
    user: int | None = None
    """The uid of that manager."""
    session: bool = False
    """In a login session: started by hand from a terminal or over ssh."""
    container: str | None = None
    """The container's id."""
    engine: str | None = None
    """``docker``, ``podman``, ``kubernetes``, ``nerdctl`` or ``container`` (which one is not told)."""
    machine: str | None = None
    """A virtual environment with its own init (systemd-nspawn, LXC): its units are not this host's."""


def parse(text: str) -> Place:
    """The content of ``/proc/PID/cgroup``: the unified hierarchy's line, else that of systemd's own."""
    path = None
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, where = rest.partition(":")
        if controllers == "name=systemd" or (controllers == "" and (path is None or path == "/")):
            path = where if path in (None, "/") else path
    return place(path or "/")


def place(path: str) -> Place:
    """What one control group path says."""
    machine = next((found.group(1) for pattern in _MACHINES if (found := pattern.search(path))), None)
    if machine is not None:
        return Place(machine=_unescaped(machine))
    container, engine = None, None
    for pattern, name in _CONTAINERS:
        found = pattern.search(path)
        if found:
            container, engine = found.group(1), name
            break
    user = _USER.search(path)
    services = re.findall(r"/([^/]+\.service)(?=/|$)", path[user.end() - 1 :] if user else path)
    unit = next((name for name in services if not (container and name in _ENGINES_OWN)), None)
    if user:
        return Place(user_unit=unit, user=int(user.group(1)), container=container, engine=engine)
    session = re.search(r"/session-[^/]+\.scope(?:/|$)", path) is not None
    return Place(unit=unit, session=session, container=container, engine=engine)


def _unescaped(name: str) -> str:
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found.group(1), 16)), name)
