"""Control groups and what they say: recorded from a booted systemd 252 where marked, else made as the engines do it."""

from __future__ import annotations

import pytest

from sleepwatch.hosts.cgroups import Place, parse

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0::/", Place()),
        ("", Place()),
        ("0::/system.slice/llama.service", Place(unit="llama.service")),
        # recorded: both hierarchies mounted
        (
            (
                "9:name=systemd:/system.slice/system-llm.slice/llm@gemma\\x2d3.service\n8:pids:/\n"
                "0::/system.slice/system-llm.slice/llm@gemma\\x2d3.service"
            ),
            Place(unit="llm@gemma\\x2d3.service"),
        ),
        ("3:cpu:/\n1:name=systemd:/system.slice/llama.service\n0::/", Place(unit="llama.service")),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/llama.service",
            Place(user_unit="llama.service", user=1000),
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-term.scope", Place(user=1000)),
        ("0::/user.slice/user-1000.slice/session-3.scope", Place(session=True)),
        (f"0::/system.slice/docker-{ID}.scope", Place(container=ID, engine="docker")),
        (f"4:cpu:/docker/{ID}\n1:name=systemd:/docker/{ID}", Place(container=ID, engine="docker")),
        (f"0::/machine.slice/libpod-{ID}.scope/container", Place(container=ID, engine="podman")),
        (
            f"0::/system.slice/llama.service/libpod-payload-{ID}",
            Place(unit="llama.service", container=ID, engine="podman"),
        ),
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
            Place(user=1000, container=ID, engine="podman"),
        ),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12.slice/cri-containerd-{ID}.scope",
            Place(container=ID, engine="kubernetes"),
        ),
        (f"0::/kubepods/besteffort/pod0f1e/{ID}", Place(container=ID, engine="kubernetes")),
        ("0::/lxc.payload.ct101/system.slice/llama.service", Place(machine="ct101")),
        ("0::/machine.slice/machine-my\\x2dbox.scope/payload/system.slice/llama.service", Place(machine="my-box")),
    ],
)
def test_places(text: str, expected: Place) -> None:
    assert parse(text) == expected
