"""Units that start a llama-server: from disk, and as a systemd that runs has them in force.

``recorded/`` holds what a booted systemd 252 said about exactly the files written here; everything else is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from sleepwatch.hosts.commands import Answer
from sleepwatch.hosts.options import parse_arguments
from sleepwatch.hosts.spans import INFINITY
from sleepwatch.hosts.units import PROPERTIES, Found, Unit, find_units, parse_show

RECORDED = Path(__file__).parent / "recorded"
FILES = {
    "etc/systemd/system/llama-plain.service": """\
[Unit]
Description=plain
[Service]
ExecStart=/opt/llm/llama-server -m /models/a.gguf --port 18101 --sleep-idle-seconds 300
Restart=on-failure
RestartSec=5
[Install]
WantedBy=multi-user.target
""",
    "etc/systemd/system/llama-none.service": """\
[Unit]
Description=no restart
[Service]
ExecStart=/opt/llm/llama-server -m "/models/my model.gguf" --port 18102 \\
  # a comment inside
  --sleep-idle-seconds 60
StandardOutput=null
StandardError=null
[Install]
WantedBy=multi-user.target
""",
    "etc/systemd/system/llama-over.service": """\
[Unit]
Description=restart, taken away by drop-ins
StartLimitIntervalSec=0
[Service]
Environment="NAME=two words" LLAMA_ARG_SLEEP_IDLE_SECONDS=30
EnvironmentFile=-/etc/default/llama-over
ExecStart=/opt/llm/llama-server -m ${MODEL} --port 18103 $EXTRA
Restart=always
SuccessExitStatus=143 SIGSEGV TEMPFAIL
RestartPreventExitStatus=3 SIGABRT
RestartForceExitStatus=SIGKILL
StandardOutput=append:/var/log/llama-over.log
LimitCORE=0
LogRateLimitIntervalSec=0
LogLevelMax=warning
[Install]
WantedBy=multi-user.target
""",
    "etc/default/llama-over": 'MODEL=/models/b.gguf\nEXTRA="--sleep-idle-seconds 45 -lv 4"\n',
    "etc/systemd/system/llama-over.service.d/50-norestart.conf": "[Service]\nRestart=no\n",
    "usr/lib/systemd/system/llama-over.service.d/20-vendor.conf": "[Service]\nRestart=on-abort\nRestartSec=1min 30s\n",
    "etc/systemd/system/llama-.service.d/10-all.conf": "[Service]\nNice=5\n",
    "etc/systemd/system/llm@.service": """\
[Service]
ExecStart=/opt/llm/llama-server -m /models/%i.gguf --alias %I --port 18104 --sleep-idle-seconds 600
Restart=on-abnormal
""",
    "etc/systemd/system/llama-shell.service": """\
[Service]
ExecStart=/bin/sh -c '/opt/llm/llama-server -m /models/c.gguf --port 18105 --sleep-idle-seconds 10 2>&1 \
| tee -a /var/log/llama-shell.log'
Restart=on-failure
StartLimitAction=reboot
[Install]
WantedBy=multi-user.target
""",
    "etc/systemd/system/llama-off.service": """\
[Service]
ExecStart=/opt/llm/llama-server -m /models/d.gguf --port 18106
Type=idle
KillSignal=SIGINT
Restart=on-failure
RestartSec=300
""",
    "etc/systemd/system/llama-masked.service": "-> /dev/null",
    "etc/systemd/system/multi-user.target.wants/llama-plain.service": "-> ../llama-plain.service",
    "etc/systemd/system/multi-user.target.wants/llama-none.service": "-> ../llama-none.service",
    "etc/systemd/system/multi-user.target.wants/llama-over.service": "-> ../llama-over.service",
    "etc/systemd/system/multi-user.target.wants/llama-shell.service": "-> ../llama-shell.service",
    "etc/systemd/system/multi-user.target.wants/llm@gemma\\x2d3.service": "-> ../llm@.service",
    "etc/systemd/system/dbus.service": "[Service]\nExecStart=/usr/bin/dbus-daemon --system\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


def recorded(argv: Sequence[str]) -> Answer:
    """A systemctl that says what the recorded one said."""
    assert list(argv[:3]) == ["systemctl", "--no-pager", "show"]
    assert argv[3] == f"--property={','.join(PROPERTIES)}"
    names = argv[argv.index("--") + 1 :]
    name = "loaded" if list(names) == ["*.service"] else "named"
    return Answer((RECORDED / f"systemctl-show-{name}-252.txt").read_text())


def by_name(found: Found) -> dict[str, Unit]:
    return {unit.name: unit for unit in found.units}


def test_units_as_a_running_systemd_has_them(root: Path) -> None:
    units = by_name(find_units(root=root, run=recorded, booted=True))
    assert set(units) == {
        "llama-plain.service", "llama-none.service", "llama-over.service", "llama-shell.service", "llama-off.service",
        "llm@gemma\\x2d3.service",
    }  # fmt: skip
    assert {unit.read_from for unit in units.values()} == {"systemctl"}
    plain = units["llama-plain.service"]
    assert (plain.restart, plain.restart_us, plain.active, plain.enabled, plain.main_pid) == (
        "on-failure",
        5_000_000,
        True,
        True,
        46,
    )
    assert (plain.start_limit_interval_us, plain.start_limit_burst) == (10_000_000, 5)
    assert plain.error_target == "journal"
    over = units["llama-over.service"]
    assert (over.restart, over.restart_us) == ("no", 90_000_000)
    assert over.places["Restart"] == "/etc/systemd/system/llama-over.service.d/50-norestart.conf"
    assert over.places["RestartSec"] == "/usr/lib/systemd/system/llama-over.service.d/20-vendor.conf"
    assert (over.success, over.restart_prevent, over.restart_force) == (("75", "143", "SEGV"), ("3", "ABRT"), ("KILL",))
    assert (over.start_limit_interval_us, over.log_level_max, over.core_limit) == (0, 4, 0)
    assert over.standard_output == "append:/var/log/llama-over.log"
    assert over.log_rate_interval_us == 0
    assert units["llama-shell.service"].start_limit_action == "reboot"
    assert units["llama-none.service"].error_target == "null"
    off = units["llama-off.service"]
    assert (off.active, off.enabled, off.restart_us, off.main_pid) == (False, False, 300_000_000, None)


def test_the_files_alone_say_the_same(root: Path) -> None:
    """Where no systemd runs, the same verdicts must come out. Only what is not in files differs."""
    running = by_name(find_units(root=root, run=recorded, booted=True))
    alone = by_name(find_units(root=root, run=None, booted=False))
    assert set(alone) == set(running)
    for name, unit in alone.items():
        assert unit.read_from == "files"
        assert unit.active is None
        from_systemd = msgspec.to_builtins(running[name])
        from_files = msgspec.to_builtins(unit)
        for key in ("read_from", "active", "main_pid", "restarts", "drop_ins"):
            from_systemd.pop(key)
            from_files.pop(key)
        # systemd knows names of statuses and drops "SIG" from signals; what they mean is the same.
        for key in ("success", "restart_prevent", "restart_force"):
            names = {word.removeprefix("SIG").replace("TEMPFAIL", "75") for word in from_files.pop(key)}
            assert names == set(from_systemd.pop(key)), (name, key)
        assert from_files == from_systemd, name


def test_commands_are_read_word_by_word(root: Path) -> None:
    units = by_name(find_units(root=root, run=None, booted=False))

    def options(name: str) -> tuple[str | None, int | None]:
        invocation = units[name].invocation
        assert invocation is not None
        read = parse_arguments(invocation.arguments)
        return read.get("model"), read.sleep.seconds

    assert options("llama-none.service") == ("/models/my model.gguf", 60)
    assert options("llama-over.service") == ("/models/b.gguf", 45)
    assert options("llm@gemma\\x2d3.service") == ("/models/gemma\\x2d3.gguf", 600)
    assert options("llama-off.service") == ("/models/d.gguf", None)
    shell = units["llama-shell.service"].invocation
    assert shell is not None
    assert (shell.piped_to, shell.wrappers) == ("tee", ("sh",))
    assert units["llama-over.service"].environment["LLAMA_ARG_SLEEP_IDLE_SECONDS"] == "30"


def test_a_systemd_that_does_not_answer_is_said_and_the_files_are_read(root: Path) -> None:
    def refuses(argv: Sequence[str]) -> Answer:
        return Answer("", status=1, why="Failed to connect to bus: Permission denied")

    found = find_units(root=root, run=refuses, booted=True)
    assert found.unseen == ("systemd was not asked: Failed to connect to bus: Permission denied",)
    assert by_name(found)["llama-plain.service"].restart == "on-failure"


def test_broken_answers_of_systemctl() -> None:
    assert parse_show("") == {}
    assert parse_show("nonsense\n\nmore") == {}
    assert parse_show("Id=a.service\nRestart\nRestartUSec=\n\n\n\nId=b.service\n")["a.service"] == {
        "Id": "a.service", "RestartUSec": "",
    }  # fmt: skip


# How people deploy it: published units, shortened. The expected values: sleep seconds, Restart, error target, enabled.
DEPLOYED = {
    "a distribution's module that hides everything": (
        (
            "[Service]\nType=idle\nKillSignal=SIGINT\nDynamicUser=true\n"
            "ExecStart=/nix/store/abc-llama-cpp-9876/bin/llama-server --log-disable --host ::1 --port 80 -m /m.gguf\n"
            "Restart=on-failure\nRestartSec=300\n"
        ),
        (None, "on-failure", "journal"),
    ),
    "a router": (
        (
            "[Service]\nEnvironmentFile=-/etc/default/llama-router\n"
            "ExecStart=/m/llama.cpp/build/bin/llama-server --models-preset /m/models.ini --models-max 1 \\\n"
            "  --no-models-autoload --sleep-idle-seconds 900\nRestart=always\nRestartSec=5\n"
        ),
        (900, "always", "journal"),
    ),
    "a container by its unit": (
        (
            "[Service]\nExecStartPre=-/usr/bin/docker rm -f llama\n"
            "ExecStart=/usr/bin/docker run --rm --name llama -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server-cuda "
            "--models-preset /opt/p.ini --sleep-idle-seconds 600\nExecStop=/usr/bin/docker stop llama\n"
        ),
        (600, "no", "journal"),
    ),
    "a wrapper with a fixed name": (
        (
            "[Service]\nExecStart=@/usr/bin/nice nice -n 5 /opt/llama-server -m x --sleep-idle-seconds 77\n"
            "StandardOutput=file:/var/log/l.log\nStandardError=inherit\n"
        ),
        (77, "no", "file:/var/log/l.log"),
    ),
    "an older unit": (
        (
            "[Service]\nExecStart=-/opt/llama-server -m x --sleep-idle-seconds 1\nStartLimitInterval=60\n"
            "StartLimitBurst=3\n"
            "Restart=on-abort\nStandardError=null\n"
        ),
        (1, "on-abort", "null"),
    ),
}


@pytest.mark.parametrize("name", DEPLOYED)
def test_units_as_people_write_them(name: str, tmp_path: Path) -> None:
    text, (seconds, restart, target) = DEPLOYED[name]
    write(tmp_path, {"etc/systemd/system/llama.service": text})
    (unit,) = find_units(root=tmp_path, run=None, booted=False).units
    assert unit.invocation is not None
    sleep = parse_arguments(unit.invocation.arguments).sleep
    assert (sleep.seconds, unit.restart, unit.error_target) == (seconds, restart, target)


def test_limits_in_their_old_place(tmp_path: Path) -> None:
    text, _ = DEPLOYED["an older unit"]
    write(tmp_path, {"etc/systemd/system/llama.service": text})
    (unit,) = find_units(root=tmp_path, run=None, booted=False).units
    assert (unit.start_limit_interval_us, unit.start_limit_burst) == (60_000_000, 3)


SCRIPTED = "[Service]\nEnvironment=IDLE=120\nExecStart=/opt/run.sh\nLimitCORE=infinity\n"


def test_a_script_as_command(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/systemd/system/ai.service": SCRIPTED,
            "opt/run.sh": '#!/bin/bash\nexec /opt/bin/llama-server -m /m.gguf --sleep-idle-seconds "$IDLE"\n',
            "etc/systemd/system/other.service": "[Service]\nExecStart=/opt/other.sh\n",
            "opt/other.sh": "#!/bin/sh\npgrep -f llama-server && exit 1\n",
        },
    )
    (unit,) = find_units(root=tmp_path, run=None, booted=False).units
    assert (unit.name, unit.script, unit.core_limit) == ("ai.service", "/opt/run.sh", INFINITY)
    assert unit.invocation is not None
    assert unit.invocation.replaces_shell
    assert parse_arguments(unit.invocation.arguments).sleep.seconds == 120


OF_A_USER = """\
[Service]
ExecStart=%h/bin/llama-server --models-dir %h/Models --sleep-idle-seconds 300
Restart=on-failure
RestartSec=3
[Install]
WantedBy=default.target
"""


def test_units_of_a_user(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "home/ann/.config/systemd/user/llama.service": OF_A_USER,
            "home/ann/.config/systemd/user/default.target.wants/llama.service": "-> ../llama.service",
        },
    )
    (unit,) = find_units(root=tmp_path, run=None, booted=False, homes=[("ann", 1000, "/home/ann")]).units
    assert (unit.manager, unit.owner, unit.enabled) == ("user", "ann", True)
    assert unit.invocation is not None
    assert unit.invocation.program == "/home/ann/bin/llama-server"
    assert parse_arguments(unit.invocation.arguments).sleep.seconds == 300


def test_environment_files_that_are_missing_are_said(tmp_path: Path) -> None:
    text = "[Service]\nEnvironmentFile=/etc/none\nExecStart=/opt/llama-server -m x $OPTIONS\n"
    write(tmp_path, {"etc/systemd/system/llama.service": text})
    found = find_units(root=tmp_path, run=None, booted=False)
    assert found.unseen == ("/etc/none: no such file",)
    invocation = found.units[0].invocation
    assert invocation is not None
    assert invocation.arguments == ("-m", "x", "$OPTIONS")
