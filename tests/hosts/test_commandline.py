"""The llama-server in a command, whatever stands around it. Made; shapes of published units and scripts."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.hosts.commandline import find, find_in_script, is_server_name, server_arguments
from sleepwatch.hosts.options import parse_arguments


@pytest.mark.parametrize(
    "name",
    [
        "llama-server", "/usr/bin/llama-server", "llama-server.exe", r"C:\llama\llama-server.exe", "./llama-server",
        ".llama-server-wrapped",
        "llama-server-cuda", "llama-server-b11368", "llama-server_vulkan", "llama-server-cuda12.4",
    ],
)  # fmt: skip
def test_names_of_the_server(name: str) -> None:
    assert is_server_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "llama-server.service", "llama-server.log", "llama-server.sh", "llama-server.py", "llama-server-watchdog",
        "llama-cli", "llama-parallel", "my-llama-server", "llama-server.conf", "llama", "ollama", "",
    ],
)  # fmt: skip
def test_names_that_are_not(name: str) -> None:
    assert not is_server_name(name)


@pytest.mark.parametrize(
    ("argv", "comm", "expected"),
    [
        (["/usr/bin/llama-server", "-m", "x"], "llama-server", ("-m", "x")),
        (["llama", "serve", "-m", "x"], "llama", ("-m", "x")),
        (["/usr/bin/python3", "/opt/llama-server", "-m", "x"], "llama-server", ("-m", "x")),
        (["/usr/bin/python3", "-IS", "/opt/llama-server", "-m", "x"], "llama-server", ("-m", "x")),
        (
            ["/lib64/ld-linux-x86-64.so.2", "--library-path", "/l", "./llama-server", "-m", "x"],
            "ld-linux-x86-64",
            ("-m", "x"),
        ),
        (["bash", "/opt/llama-server", "-m", "x"], "llama-server", ("-m", "x")),
        (["server-renamed", "-m", "x"], "llama-server", ("-m", "x")),
        (["sh", "-c", "llama-server -m x"], "sh", None),
        (["strace", "-f", "llama-server", "-m", "x"], "strace", None),
        (["tini", "--", "/app/llama-server", "-m", "x"], "tini", None),
        (["gdb", "--args", "llama-server", "-m", "x"], "gdb", None),
        (["tail", "-f", "/var/log/llama-server"], "tail", None),
        (["vim", "llama-server"], "vim", None),
        (["llama", "cli"], "llama", None),
        ([], "llama-server", None),
    ],
)
def test_a_process_is_the_server_or_only_speaks_of_it(
    argv: list[str], comm: str, expected: tuple[str, ...] | None
) -> None:
    assert server_arguments(argv, comm) == expected


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/llama-server -m x --sleep-idle-seconds 300",
        "/usr/bin/env LLAMA_ARG_PORT=1 llama-server -m x --sleep-idle-seconds 300",
        "/usr/bin/nice -n 10 /opt/llama-server -m x --sleep-idle-seconds 300",
        "/usr/bin/taskset -c 0-3 numactl --interleave=all ./llama-server -m x --sleep-idle-seconds 300",
        "/bin/sh -c 'exec llama-server -m x --sleep-idle-seconds 300'",
        "/bin/bash -lc 'cd /opt && ./llama-server -m x --sleep-idle-seconds 300'",
        "/bin/sh -c 'llama-server -m x --sleep-idle-seconds 300 >> /var/log/l.log 2>&1'",
        "/usr/bin/docker run --rm --gpus all -p 8080:8080 img/llama.cpp:server-cuda -m x --sleep-idle-seconds 300",
        "/usr/bin/podman run --name=llama --cgroups=split ghcr.io/x/llama.cpp:server -m x --sleep-idle-seconds 300",
        "/usr/bin/docker run --entrypoint /app/llama-server my/llama:latest -m x --sleep-idle-seconds 300",
        "docker run img.example/own:1 /app/llama-server -m x --sleep-idle-seconds 300",
        "/usr/local/bin/llama serve -m x --sleep-idle-seconds 300",
    ],
)
def test_the_server_is_found_behind_its_wrappers(command: str) -> None:
    found = find(shlex.split(command))
    assert found is not None
    options = parse_arguments(found.arguments)
    assert (options.sleep.seconds, options.get("model")) == (300, "x")


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/pkill -f llama-server", "/bin/sh -c 'pgrep -f llama-server || exit 1'",
        "/usr/bin/python3 /opt/app.py",
        "/usr/bin/tail -F /var/log/llama-server", "docker run redis:7 --appendonly yes", "docker logs -f llama-server",
        "systemctl restart llama-server", "/bin/sh -c ''", "",
    ],
)  # fmt: skip
def test_commands_that_start_none(command: str) -> None:
    assert find(shlex.split(command)) is None


def test_what_the_shell_does_with_the_exit_status() -> None:
    def shell(text: str) -> tuple[bool, str | None, bool, bool]:
        found = find(["/bin/sh", "-c", text])
        assert found is not None
        return found.replaces_shell, found.piped_to, found.status_lost, found.looped

    assert shell("exec llama-server -m x") == (True, None, False, False)
    assert shell("llama-server -m x") == (False, None, False, False)
    assert shell("llama-server -m x 2>&1 | /usr/bin/tee -a log") == (False, "tee", False, False)
    assert shell("llama-server -m x; echo stopped") == (False, None, True, False)
    assert shell("llama-server -m x || true") == (False, None, True, False)
    assert shell("llama-server -m x & wait") == (False, None, True, False)
    assert shell("while true; do llama-server -m x; sleep 1; done")[3] is True


def test_redirections_are_not_arguments() -> None:
    def error_output(text: str) -> str | None:
        found = find_in_script(text)
        assert found is not None
        assert found.arguments == ("-m", "x")
        return found.error_output

    assert error_output("llama-server -m x > out.log 2>&1") == "out.log"
    assert error_output("llama-server -m x 2> err.log") == "err.log"
    assert error_output("llama-server -m x > out.log") is None
    assert error_output("llama-server -m x &> both.log") == "both.log"
    assert error_output("llama-server -m x > /dev/null 2>&1") == "/dev/null"
    assert error_output("llama-server -m x 2>&1 > out.log") is None
    assert error_output("llama-server < /dev/null -m x") is None


def test_a_script_with_variables_and_arrays() -> None:
    script = """#!/usr/bin/env bash
    set -euo pipefail
    # llama-server --sleep-idle-seconds 1 would be too short
    export MODEL="/models/a.gguf"
    IDLE=${IDLE_SECONDS:-600}
    ARGS=(
      -m "$MODEL"          # the model
      --sleep-idle-seconds "$IDLE"
    )
    if [ -n "$DEBUG" ]; then
      ARGS+=(-lv 4)
    fi
    pkill -f llama-server || true
    echo "starting llama-server"
    exec /opt/llama/llama-server "${ARGS[@]}" \\
       --port 8080
    """
    found = find_in_script(script)
    assert found is not None
    assert found.replaces_shell
    options = parse_arguments(found.arguments)
    assert (options.get("model"), options.sleep.seconds, options.number("port")) == ("/models/a.gguf", 600, 8080)
    found = find_in_script(script, {"IDLE_SECONDS": "30"})
    assert found is not None
    assert parse_arguments(found.arguments).sleep.seconds == 30


def test_a_variable_that_is_not_known_leaves_sleep_mode_unknown() -> None:
    found = find_in_script('llama-server -m x --sleep-idle-seconds "$IDLE"')
    assert found is not None
    assert parse_arguments(found.arguments).sleep.state == "unknown"


def test_the_engines_own_restart_policy_and_variables() -> None:
    found = find(
        shlex.split(
            "docker run -d --restart unless-stopped -e LLAMA_ARG_MODEL=/m.gguf ghcr.io/ggml-org/llama.cpp:server"
        )
    )
    assert found is not None
    assert (found.engine, found.container_restart) == ("docker", "unless-stopped")
    assert found.environment == {"LLAMA_ARG_MODEL": "/m.gguf"}


@given(st.text(alphabet=st.sampled_from("llama-server \n'\"\\|&;<>(){}$#=x2"), max_size=120))
def test_any_text_is_read(text: str) -> None:
    find_in_script(text)
    find(text.split(" "))
