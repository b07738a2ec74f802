"""Verdicts and findings: facts in, judgement out. All facts here are made."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from sleepwatch.check import check
from sleepwatch.check.document import document, json_text, schema
from sleepwatch.check.facts import Facts, HostFacts, Preset, ServerFacts, Watcher
from sleepwatch.check.findings import Finding
from sleepwatch.check.restart import after_crash
from sleepwatch.check.text import performance, summary, text
from sleepwatch.check.verdicts import STATE_OF, STATES, Judged
from sleepwatch.hosts import presets
from sleepwatch.hosts.cgroups import Place
from sleepwatch.hosts.commandline import find
from sleepwatch.hosts.containers import Container
from sleepwatch.hosts.coredumps import CoreDumps
from sleepwatch.hosts.journald import Journald
from sleepwatch.hosts.logs import Target, output_target, targets
from sleepwatch.hosts.options import ServerOptions, parse_arguments, parse_environment
from sleepwatch.hosts.processes import Ancestor, Output, ServerProcess
from sleepwatch.hosts.units import Unit

DOCS = Path(__file__).parents[1] / "docs"
SLEEPING = "-m /models/a.gguf --sleep-idle-seconds 300"
HOST = HostFacts(
    user="root",
    uid=0,
    booted=True,
    journald=Journald(persistent=True, readable=True),
    coredumps=CoreDumps(pattern="|systemd-coredump", handler="systemd-coredump"),
    watchers=(Watcher(pid=9, everything=True),),
    sockets=True,
)


def process(arguments: str = SLEEPING, **changed: Any) -> ServerProcess:
    environment = changed.pop("environment", {})
    options = parse_arguments(arguments.split()).over(parse_environment(environment))
    given: dict[str, Any] = {
        "pid": 100, "parent": 1, "uid": 0, "started": 1, "arguments": tuple(arguments.split()), "options": options,
        "place": Place(unit="llama.service"), "error": Output("journal"), "output": Output("journal"),
        "core_limit": (-1, -1), "own_network": False, "listening_known": True,
    }  # fmt: skip
    return ServerProcess(**{**given, **changed})


def unit(**changed: Any) -> Unit:
    given: dict[str, Any] = {
        "name": "llama.service", "fragment": "/etc/systemd/system/llama.service", "restart": "on-failure",
        "restart_us": 5_000_000, "active": True, "enabled": True, "main_pid": 100, "read_from": "systemctl",
        "invocation": find(["/opt/llama-server", *SLEEPING.split()]),
    }  # fmt: skip
    return Unit(**{**given, **changed})


def server(one: ServerProcess | None = None, of: Unit | None = None, **changed: Any) -> ServerFacts:
    """A running server of a unit, with whatever is changed."""
    container = changed.get("container")
    options = one.options if one is not None else changed.pop("options", parse_arguments(SLEEPING.split()))
    given: dict[str, Any] = {
        "name": "llama.service", "process": one, "unit": of, "options": options,
        "targets": targets(options, one, of, container),
    }  # fmt: skip
    return ServerFacts(**{**given, **changed})


def judged(facts: ServerFacts, host: HostFacts = HOST) -> Judged:
    (one,) = check(Facts(host=host, servers=(facts,))).servers
    return one


def codes(one: Judged, level: str | None = None) -> list[str]:
    return [finding.code for finding in one.findings if level in (None, finding.level)]


def finding(one: Judged, code: str) -> Finding:
    return next(finding for finding in one.findings if finding.code == code)


# --- exposure -----------------------------------------------------------------------------------------------------


def test_a_server_without_sleep_mode_is_fine_and_nothing_is_said_about_it() -> None:
    one = judged(server(process("-m a --log-disable"), unit(restart="no")))
    assert (one.verdict, one.state, one.findings) == ("fine", 0, ())


def test_a_sleeping_server_that_is_restarted_seen_and_watched_is_exposed() -> None:
    one = judged(server(process(SLEEPING + " -lv 4"), unit()))
    assert (one.verdict, one.state) == ("exposed", 1)
    assert codes(one) == ["sleep-mode-on"]
    said = finding(one, "sleep-mode-on")
    assert "Sleeps after 300 s" in said.what
    assert "in /etc/systemd/system/llama.service remove: --sleep-idle-seconds 300" in (said.change or "")
    assert "systemctl daemon-reload && systemctl restart llama.service" in (said.change or "")


@pytest.mark.parametrize(
    ("arguments", "verdict", "code"),
    [
        ("-m a --sleep-idle-seconds -1", "fine", None),
        ("-m a --sleep-idle-seconds 0", "does not start", "sleep-value-refused"),
        ("-m a --sleep-idle-seconds ten", "does not start", "sleep-value-refused"),
        ("-m a --sleep-idle-seconds $N", "unknown", "sleep-mode-unknown"),
        ("-m a --sleep-idle-seconds=300", "exposed", "equals-sign"),
    ],
)
def test_values_of_the_option(arguments: str, verdict: str, code: str | None) -> None:
    one = judged(server(process(arguments), unit()))
    assert one.verdict == verdict
    assert code is None or code in codes(one)


def test_the_equals_sign_stops_a_server_that_does_not_run() -> None:
    options = parse_arguments(["-m", "a", "--sleep-idle-seconds=300"])
    one = judged(server(None, unit(active=False), options=options))
    assert (one.verdict, one.state) == ("does not start", 1)
    assert finding(one, "equals-sign").level == "warning"


def test_the_variable_that_is_ignored() -> None:
    one = judged(server(process("-m a", environment={"LLAMA_ARG_SLEEP_IDLE_SECONDS": "120"}), unit()))
    assert (one.verdict, codes(one)) == ("fine", ["ignored-environment"])
    said = finding(one, "ignored-environment")
    assert said.level == "warning"
    assert "--sleep-idle-seconds 120" in (said.change or "")
    one = judged(server(process(SLEEPING, environment={"LLAMA_ARG_SLEEP_IDLE_SECONDS": "120"}), unit()))
    assert finding(one, "ignored-environment").level == "info"


def test_what_makes_the_window_wider_and_the_chances_more() -> None:
    one = judged(server(process("-m a --mmproj p -md d --sleep-idle-seconds 1"), unit()))
    assert "takes images (--mmproj) and drafts tokens (-md)" in finding(one, "wider-window").what
    assert "short-idle-time" in codes(one)


@pytest.mark.parametrize(("build", "verdict"), [(None, "exposed"), (11368, "exposed"), (10000, "fine")])
def test_a_configuration_file_counts_from_the_build_on_that_reads_it(
    build: int | None, verdict: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.ini"
    path.write_text("sleep-idle-seconds = 60\n")
    config, _ = presets.config_options((path,), lambda one: one)
    running = process("-m a")
    running = msgspec.structs.replace(running, options=running.options.over(config))
    one = judged(server(running, unit(), build=build))
    assert one.verdict == verdict
    if verdict == "exposed":
        assert f"in {path} line 1: sleep-idle-seconds = -1" in (finding(one, "sleep-mode-on").change or "")
        assert ("from b10398 on" in finding(one, "sleep-mode-on").why) == (build is None)


def test_a_unit_that_was_changed_since_it_was_started() -> None:
    later = parse_arguments(["-m", "a"])
    one = judged(server(process(), unit(), would_start_with=later))
    assert finding(one, "changed-since-start").level == "info"
    one = judged(server(process("-m a"), unit(), would_start_with=parse_arguments(SLEEPING.split())))
    assert one.verdict == "fine"
    assert "From its next start on it sleeps after 300 s" in finding(one, "changed-since-start").what


# --- routers ------------------------------------------------------------------------------------------------------


def router(preset_text: str, arguments: str = "--models-preset /etc/m.ini", **changed: Any) -> ServerFacts:
    options = parse_arguments(arguments.split())
    file = presets.parse(preset_text, "/etc/m.ini")
    preset = Preset(
        path="/etc/m.ini",
        models=presets.models(file, options),
        everywhere=presets.global_options(file),
        problems=presets.problems(file),
    )
    others = presets.handed_down(options).over(preset.everywhere)
    running = process(arguments)
    given: dict[str, Any] = {
        "is_router": True,
        "preset": preset,
        "others": others,
        "output": output_target(running, None, None),
    }
    return server(running, unit(), **{**given, **changed})


def test_a_router_is_judged_by_its_models() -> None:
    one = judged(router("[*]\nsleep-idle-seconds = 300\n[a]\nsleep-idle-seconds = -1\n[b]\nm = b.gguf\n"))
    assert one.verdict == "exposed"
    said = finding(one, "sleep-mode-on")
    assert "b (300 s), every other model (300 s)" in said.what
    assert "in /etc/m.ini line 2: sleep-idle-seconds = -1" in (said.change or "")
    assert judged(router("[*]\nsleep-idle-seconds = -1\n[a]\nm = a\n")).verdict == "fine"


def test_what_stands_on_the_routers_command_line_reaches_every_model() -> None:
    one = judged(router("[a]\nm = a\n", "--models-preset /etc/m.ini --sleep-idle-seconds 60"))
    assert one.verdict == "exposed"
    assert "the router's command line" in finding(one, "sleep-mode-on").what


def test_a_preset_that_stops_the_router() -> None:
    broken = Preset(path="/etc/m.ini", error="/etc/m.ini line 3: is indented", refused=True)
    one = judged(router("[a]\n", preset=broken, others=ServerOptions()))
    assert finding(one, "preset-refused").level == "warning"
    one = judged(router("[a]\n", preset=broken, others=ServerOptions(), process=None))
    assert one.verdict == "does not start"
    assert finding(one, "preset-refused").level == "critical"
    unreadable = Preset(path="/etc/m.ini", error="/etc/m.ini: permission denied")
    assert judged(router("[a]\n", preset=unreadable, others=ServerOptions())).verdict == "unknown"


def test_keys_that_look_right_in_a_preset() -> None:
    one = judged(router("[a]\nLLAMA_ARG_SLEEP_IDLE_SECONDS = 300\n"))
    assert one.verdict == "fine"
    assert finding(one, "unknown-key").level == "warning"
    one = judged(router("sleep-idle-seconds = 300\n[a]\nm = a\n"))
    assert "top-level-sleep" in codes(one, "warning")


def child(**changed: Any) -> ServerFacts:
    running = process(SLEEPING + " --alias a", error=Output("pipe", readers=("llama-server",)), router=50)
    given: dict[str, Any] = {
        "router": "llama.service",
        "output": Target(kind="journal", words="the journal", unit="llama.service"),
    }
    return server(running, None, **{**given, **changed})


def test_a_routers_child_comes_back_at_the_next_request() -> None:
    one = judged(child())
    assert (one.verdict, one.restart.answer) == ("exposed", "yes")
    assert "child-waits-for-request" in codes(one, "info")
    one = judged(child(autoload=False))
    assert one.verdict == "exposed and unprotected"
    assert "child-not-restarted" in codes(one, "critical")


def test_a_routers_child_is_blind_where_the_routers_output_is_lost() -> None:
    one = judged(child(output=Target(kind="nowhere", words="/dev/null")))
    assert one.verdict == "blind"
    assert "prints its own lines on standard error" in finding(one, "output-nowhere").why


# --- would a crash be restarted -----------------------------------------------------------------------------------

# systemd.service(5), "Exit causes and the effect of Restart= settings on them": unclean signal, unclean exit code.
TABLE = {
    "no": (False, False),
    "on-success": (False, False),
    "on-failure": (True, True),
    "on-abnormal": (True, False),
    "on-watchdog": (False, False),
    "on-abort": (True, False),
    "always": (True, True),
}


@pytest.mark.parametrize("restart", TABLE)
def test_systemds_table(restart: str) -> None:
    by_signal, by_status = TABLE[restart]
    assert after_crash(unit(restart=restart), through_shell=False)[0] is by_signal
    assert after_crash(unit(restart=restart), through_shell=True)[0] is by_status


@pytest.mark.parametrize(
    ("changed", "restarted"),
    [
        ({"success": ("SEGV",)}, False),
        ({"success": ("SIGSEGV", "143")}, False),
        ({"success": ("11",)}, False),
        ({"success": ("143", "15")}, True),
        ({"success": ("SEGV",), "restart": "always"}, True),
        ({"success": ("SEGV",), "restart": "on-success"}, True),
        ({"restart_prevent": ("SEGV",)}, False),
        ({"restart_prevent": ("SEGV",), "restart": "always"}, False),
        ({"restart": "no", "restart_force": ("SIGSEGV",)}, True),
        ({"type": "oneshot", "restart": "always"}, False),
    ],
)
def test_statuses_that_count_otherwise(changed: dict[str, Any], restarted: bool) -> None:
    assert after_crash(unit(**changed), through_shell=False)[0] is restarted


def test_no_restart_names_the_file_that_decided_it_and_gives_the_drop_in() -> None:
    place = "/etc/systemd/system/llama.service.d/50-norestart.conf"
    one = judged(server(process(), unit(restart="no", places={"Restart": place})))
    assert (one.verdict, one.state) == ("exposed and unprotected", 2)
    said = finding(one, "not-restarted")
    assert f"Restart=no, from {place}" in said.what
    assert said.change is not None
    assert said.change.split("\n") == [
        "  systemctl edit llama.service", "      [Service]", "      Restart=on-failure", "      RestartSec=5",
    ]  # fmt: skip


def test_a_drop_in_that_would_win_is_to_be_changed_itself() -> None:
    place = "/etc/systemd/system/llama.service.d/zz-last.conf"
    one = judged(server(process(), unit(restart="no", places={"Restart": place})))
    assert (finding(one, "not-restarted").change or "").startswith(f"  in {place}\n")


def test_signal_11_as_success_is_taken_out_and_the_rest_kept() -> None:
    one = judged(server(process(), unit(success=("143", "SEGV"))))
    change = finding(one, "not-restarted").change or ""
    assert "SuccessExitStatus=\n      SuccessExitStatus=143" in change


def test_a_shell_between_systemd_and_the_server() -> None:
    shell = find(["/bin/sh", "-c", f"/opt/llama-server {SLEEPING}"])
    one = judged(server(process(), unit(main_pid=99, invocation=shell, restart="on-abnormal")))
    assert one.verdict == "exposed and unprotected"
    assert "exit status 139" in finding(one, "not-restarted").what
    assert judged(server(process(), unit(main_pid=99, invocation=shell))).verdict == "exposed"


def test_a_pipe_hides_the_crash() -> None:
    piped = find(["/bin/sh", "-c", f"/opt/llama-server {SLEEPING} | tee log"])
    one = judged(server(process(), unit(main_pid=99, invocation=piped)))
    assert one.verdict == "exposed and unprotected"
    assert "piped to tee" in finding(one, "pipe-hides-crash").what
    one = judged(server(process(), unit(main_pid=99, invocation=piped, restart="always")))
    assert (one.verdict, finding(one, "pipe-hides-crash").level) == ("exposed", "info")
    guarded = find(["/bin/sh", "-c", f"set -o pipefail; /opt/llama-server {SLEEPING} | tee log"])
    assert judged(server(process(), unit(main_pid=99, invocation=guarded))).verdict == "exposed"


def test_a_script_that_goes_on_or_loops() -> None:
    goes_on = find(["/bin/sh", "-c", f"/opt/llama-server {SLEEPING}; echo over"])
    one = judged(server(process(), unit(main_pid=99, invocation=goes_on)))
    assert (one.restart.answer, one.verdict) == ("unknown", "exposed")
    assert "script-hides-crash" in codes(one)
    loops = find(["/bin/sh", "-c", f"while :; do /opt/llama-server {SLEEPING}; done"])
    one = judged(server(process(), unit(main_pid=99, invocation=loops, restart="no")))
    assert (one.restart.answer, one.verdict) == ("yes", "exposed")


def test_slow_restarts_start_limits_and_actions() -> None:
    one = judged(server(process(), unit(restart_us=300_000_000, start_limit_action="reboot", restarts=3)))
    assert {"slow-restart", "start-limit-action", "was-restarted"} <= set(codes(one))
    assert "3 times" in finding(one, "was-restarted").what
    # 300 s of sleep lie between two crashes of this race: five in ten seconds cannot be.
    assert "start-limit" not in codes(judged(server(process(), unit(restart_us=100_000))))
    quick = process("-m a --sleep-idle-seconds 1")
    assert "start-limit" in codes(judged(server(quick, unit(restart_us=100_000))), "warning")
    assert "start-limit" not in codes(judged(server(quick, unit(restart_us=100_000, start_limit_interval_us=0))))


def test_units_of_a_user_get_their_own_commands() -> None:
    one = judged(server(process(), unit(restart="no", manager="user", owner="ann")))
    assert (finding(one, "not-restarted").change or "").startswith("  systemctl --user edit llama.service")


@pytest.mark.parametrize(
    ("ancestors", "place", "answer"),
    [
        ((), Place(session=True), "no"),
        ((Ancestor(5, "bash", "bash"), Ancestor(1, "systemd", "systemd")), Place(session=True), "no"),
        ((Ancestor(1, "systemd", "systemd"),), Place(), "no"),
        ((Ancestor(5, "tmux: server", "tmux: server"),), Place(session=True), "no"),
        ((Ancestor(5, "bash", "supervise-llama.sh"),), Place(), "unknown"),
        ((Ancestor(5, "supervisord", "supervisord"),), Place(), "unknown"),
        ((Ancestor(5, "node", "PM2"),), Place(), "unknown"),
        ((Ancestor(5, "llama-swap", "llama-swap"),), Place(), "yes"),
        ((Ancestor(5, "s6-supervise", "llama"),), Place(), "yes"),
        ((Ancestor(5, "runsv", "llama"),), Place(), "yes"),
        ((), Place(machine="box"), "unknown"),
    ],
)
def test_servers_that_no_unit_holds(ancestors: tuple[Ancestor, ...], place: Place, answer: str) -> None:
    one = judged(server(process(ancestors=ancestors, place=place, error=Output("file", "/var/log/l.log", append=True))))
    assert one.restart.answer == answer
    assert one.verdict == ("exposed and unprotected" if answer == "no" else "exposed")
    if answer == "no":
        assert "Restart=on-failure" in (finding(one, "no-supervisor").change or "")


def contained(**changed: Any) -> ServerFacts:
    container = Container(
        **{"id": "a" * 64, "engine": "docker", "name": "llama", "restart": "no", "log_driver": "json-file", **changed}
    )
    running = process(
        place=Place(container="a" * 64, engine="docker"), error=Output("pipe", readers=("containerd-shim",)),
        first_in_namespace=True, own_network=True,
    )  # fmt: skip
    return server(running, None, container=container, name="llama")


def test_containers() -> None:
    one = judged(contained())
    assert one.verdict == "exposed and unprotected"
    assert "docker update --restart=on-failure llama" in (finding(one, "container-not-restarted").change or "")
    assert {"abort-looks-like-crash", "sockets-not-seen"} <= set(codes(one, "info"))
    assert judged(contained(restart="unless-stopped")).restart.answer == "yes"
    one = judged(contained(restart=None, why_unknown="permission denied"))
    assert (one.restart.answer, one.verdict) == ("unknown", "exposed")
    assert "permission denied" in finding(one, "restart-unknown").what
    assert judged(contained(restart="always", log_driver="none")).verdict == "blind"


def test_a_container_that_a_unit_runs_is_restarted_by_the_unit() -> None:
    """The client ends with the container's status, 139, and systemd acts on that."""
    command = ["/usr/bin/docker", "run", "--rm", "--name", "llama", "ghcr.io/x/llama.cpp:server", *SLEEPING.split()]
    started = find(command)
    assert started is not None
    assert started.container_name == "llama"
    for restart, verdict in (
        ("on-failure", "exposed"),
        ("on-abnormal", "exposed and unprotected"),
        ("always", "exposed"),
    ):
        facts = msgspec.structs.replace(contained(), unit=unit(invocation=started, restart=restart, main_pid=77))
        one = judged(facts)
        assert one.verdict == verdict, restart
        assert "abort-looks-like-crash" in codes(one, "info")


def test_a_program_of_the_unit_that_starts_servers_decides_itself() -> None:
    """llama-swap, a launcher in Python: the unit does not end when one of its servers dies."""
    swap = (Ancestor(50, "llama-swap", "llama-swap"), Ancestor(1, "systemd", "systemd"))
    one = judged(server(process(ancestors=swap), unit(main_pid=50, invocation=None, restart="no")))
    assert (one.restart.answer, one.verdict) == ("yes", "exposed")
    launcher = (Ancestor(50, "python3", "launch.py"), Ancestor(1, "systemd", "systemd"))
    one = judged(server(process(ancestors=launcher), unit(main_pid=50, invocation=None)))
    assert one.restart.words == "unknown: launch.py (pid 50) started it"


@pytest.mark.parametrize(
    ("ancestors", "first", "answer"),
    [
        ((), True, "unknown"),
        ((Ancestor(1, "bash", "entrypoint.sh"),), False, "unknown"),
        ((Ancestor(1, "tini", "llama-server"),), False, "unknown"),
    ],
)
def test_inside_a_container_the_engine_decides(ancestors: tuple[Ancestor, ...], first: bool, answer: str) -> None:
    running = process(ancestors=ancestors, place=Place(), first_in_namespace=first)
    assert judged(server(running)).restart.answer == answer


def test_the_command_to_be_typed_is_whole_and_without_keys() -> None:
    command = "/opt/llama-server -m '/m/my model.gguf' --api-key hunter2 --sleep-idle-seconds 5 --alias 100% | tee l"
    one = judged(server(process(), unit(main_pid=99, invocation=find(["/bin/sh", "-c", command]))))
    change = finding(one, "pipe-hides-crash").change or ""
    assert (
        'ExecStart=/opt/llama-server -m "/m/my model.gguf" --api-key … --sleep-idle-seconds 5 --alias 100%%' in change
    )
    assert "hunter2" not in change


# --- would we see it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--log-disable", "log-disabled"),
        ("-lv 2", "verbosity-too-low"),
        ("-lv 0", "verbosity-too-low"),
        ("--log-jsonl", "log-as-json"),
    ],
)
def test_a_log_that_cannot_show_it_is_blind(arguments: str, code: str) -> None:
    one = judged(server(process(f"{SLEEPING} {arguments}"), unit()))
    assert (one.verdict, one.state, one.evidence.answer) == ("blind", 2, "no")
    assert code in codes(one, "critical")
    both = judged(server(process(f"{SLEEPING} {arguments}"), unit(restart="no")))
    assert both.verdict == "exposed, unprotected and blind"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Output("null"), "/dev/null"),
        (Output("closed"), "nowhere: the stream is closed"),
        (Output("terminal", "/dev/pts/3"), "the terminal /dev/pts/3, which keeps nothing"),
    ],
)
def test_output_that_is_thrown_away(output: Output, words: str) -> None:
    one = judged(server(process(error=output), unit()))
    assert one.verdict == "blind"
    assert words in finding(one, "output-nowhere").what
    kept = judged(server(process(f"{SLEEPING} --log-file /var/log/l.log", error=output), unit()))
    assert kept.verdict == "exposed"
    assert "log-emptied-at-start" in codes(kept, "warning")


def test_a_unit_whose_output_is_null_says_how_to_change_it() -> None:
    one = judged(server(None, unit(standard_output="null", active=False)))
    assert "StandardOutput=journal" in (finding(one, "output-nowhere").change or "")
    assert "systemctl restart llama.service" in (finding(one, "output-nowhere").change or "")


def test_files_that_are_emptied_deleted_or_safe() -> None:
    def with_file(**changed: Any) -> Judged:
        return judged(server(process(error=Output("file", "/var/log/l.log", **changed)), unit()))

    assert "log-emptied-at-start" not in codes(with_file(append=True))
    emptied = with_file(append=False)
    assert "StandardOutput=append:/var/log/l.log" in (finding(emptied, "log-emptied-at-start").change or "")
    assert with_file(append=True, deleted=True).verdict == "blind"


@pytest.mark.parametrize(
    ("journald", "of", "code"),
    [
        (Journald(storage="none", readable=True), unit(), "journal-keeps-nothing"),
        (Journald(max_level_store=5, readable=True, persistent=True), unit(), "journal-drops-level"),
        (Journald(readable=True, persistent=True), unit(log_level_max=4), "journal-drops-level"),
        (Journald(readable=False, why_unreadable="no group", persistent=True), unit(), "log-not-readable"),
    ],
)
def test_a_journal_that_loses_its_lines_is_blind(journald: Journald, of: Unit, code: str) -> None:
    one = judged(server(process(), of), msgspec.structs.replace(HOST, journald=journald))
    assert one.verdict == "blind"
    assert code in codes(one, "critical")


def test_that_this_user_cannot_read_the_log_does_not_make_it_blind() -> None:
    """Somebody else may: only where the running sleepwatch cannot, nothing would be seen."""
    journald = Journald(readable=False, why_unreadable="no access", persistent=True)
    one = judged(server(process(), unit()), msgspec.structs.replace(HOST, journald=journald, watchers=()))
    assert one.verdict == "exposed"
    assert finding(one, "log-not-readable").level == "warning"


def test_rate_limits_matter_at_debug_only() -> None:
    assert "journal-rate-limit" not in codes(judged(server(process(), unit())))
    loud = judged(server(process(f"{SLEEPING} -v"), unit()))
    assert "more than 10000 in 30s" in finding(loud, "journal-rate-limit").what
    assert "LogRateLimitIntervalSec=0" in (finding(loud, "journal-rate-limit").change or "")
    assert "journal-rate-limit" not in codes(judged(server(process(f"{SLEEPING} -v"), unit(log_rate_interval_us=0))))
    few = msgspec.structs.replace(HOST, journald=Journald(rate_burst=100, persistent=True, readable=True))
    assert "journal-rate-limit" in codes(judged(server(process(), unit()), few))


@pytest.mark.parametrize(
    ("arguments", "build", "code", "change"),
    [
        ("", None, "arrivals-not-logged", "add -lv 4 (shows arrivals from b9971 on"),
        ("", 11368, "arrivals-not-logged", "In /etc/systemd/system/llama.service: add -lv 4"),
        ("", 9600, "arrivals-not-logged", "Update llama.cpp to b9971"),
        ("", 8672, "arrivals-not-logged", "In this build it prints prompts"),
        ("-lv 4", 8672, "prompts-in-log", "-lv 4"),
        ("-v", 11368, "prompts-in-log", "-lv 4"),
        ("-lv 5", None, "prompts-in-log", "-lv 4"),
    ],
)
def test_what_the_verbosity_proves_depends_on_the_build(
    arguments: str, build: int | None, code: str, change: str
) -> None:
    one = judged(server(process(f"{SLEEPING} {arguments}"), unit(), build=build))
    assert change in (finding(one, code).change or "")


def test_trace_is_enough() -> None:
    one = judged(server(process(f"{SLEEPING} -lv 4"), unit(), build=11368))
    assert one.evidence.proves == "sleep, wake, arrivals, who gave up"
    assert not {"arrivals-not-logged", "prompts-in-log"} & set(codes(one))


def test_core_files_that_are_not_kept() -> None:
    one = judged(server(process(core_limit=(0, 0)), unit()))
    assert "LimitCORE=infinity" in (finding(one, "no-stack").change or "")
    off = msgspec.structs.replace(HOST, coredumps=CoreDumps(pattern="", handler="none"))
    assert "core_pattern is empty" in finding(judged(server(process(), unit()), off), "no-stack").what


def test_a_file_that_cannot_be_read() -> None:
    facts = server(
        process(error=Output("file", "/var/log/l.log", append=True)),
        unit(),
        unreadable={"/var/log/l.log": "permission denied"},
    )
    one = judged(facts)
    assert one.verdict == "blind"
    assert "permission denied" in finding(one, "log-not-readable").what


def test_a_routers_log_file_is_written_over_by_its_models() -> None:
    one = judged(router("[*]\nsleep-idle-seconds = 5\n[a]\n", "--models-preset /etc/m.ini --log-file /var/log/l.log"))
    assert "log-file-shared" in codes(one, "warning")


# --- is it watched ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watcher", "answer"),
    [
        (Watcher(pid=9, everything=True), "yes"),
        (Watcher(pid=9, units=("llama*",)), "yes"),
        (Watcher(pid=9, units=("llama",)), "yes"),
        (Watcher(pid=9, units=("other.service",)), "no"),
        (Watcher(pid=9, files=("/var/log/*.log",)), "no"),
        (Watcher(pid=9, config="/etc/s.toml", config_error="permission denied"), "unknown"),
        (None, "no"),
    ],
)
def test_watched_in_the_journal(watcher: Watcher | None, answer: str) -> None:
    host = msgspec.structs.replace(HOST, watchers=(watcher,) if watcher else ())
    one = judged(server(process(), unit()), host)
    assert one.watched.answer == answer
    assert ("not-watched" in codes(one)) == (answer == "no")
    if answer == "no":
        assert finding(one, "not-watched").change == "  sleepwatch run --unit llama.service"


@pytest.mark.parametrize(
    ("facts", "goes"),
    [
        (
            server(process(place=Place(user_unit="llama.service")), unit(manager="user")),
            "unit llama.service, of a user",
        ),
        (server(process(), unit(log_namespace="llm")), "the journal, namespace llm, unit llama.service"),
        (server(process(error=Output("null"), output=Output("null")), unit()), "/dev/null"),
    ],
)
@pytest.mark.parametrize("watcher", [Watcher(pid=9, everything=True), Watcher(pid=9, units=("llama*",))])
def test_what_the_daemon_cannot_follow_is_not_watched(facts: ServerFacts, goes: str, watcher: Watcher) -> None:
    one = judged(facts, msgspec.structs.replace(HOST, watchers=(watcher,)))
    assert one.watched.answer == "no"
    assert (goes in one.watched.words) == watcher.everything
    assert finding(one, "not-watched").change is None


def test_watched_by_file() -> None:
    facts = server(process(error=Output("file", "/var/log/l.log", append=True)), unit())
    for pattern, answer in (("/var/log/*.log", "yes"), ("/var/log/l.log", "yes"), ("/var/log/other.log", "no")):
        host = msgspec.structs.replace(HOST, watchers=(Watcher(pid=9, files=(pattern,)),))
        assert judged(facts, host).watched.answer == answer


def test_a_routers_child_is_watched_with_its_router() -> None:
    for units, answer in ((("llama*",), "yes"), (("other*",), "no")):
        host = msgspec.structs.replace(HOST, watchers=(Watcher(pid=9, units=units),))
        one = judged(child(), host)
        assert one.watched.answer == answer
        if answer == "no":
            assert finding(one, "not-watched").change == "  sleepwatch run --unit llama.service"


# --- the whole ----------------------------------------------------------------------------------------------------


def fleet(*verdicts: ServerFacts, host: HostFacts = HOST) -> Facts:
    return Facts(
        host=host, servers=tuple(msgspec.structs.replace(one, name=f"s{at}") for at, one in enumerate(verdicts))
    )


FINE = server(process("-m a"), unit())
EXPOSED = server(process(), unit())
UNPROTECTED = server(process(), unit(restart="no"))
NOT_KNOWN = server(process("-m a --sleep-idle-seconds $N"), unit())


@pytest.mark.parametrize(
    ("servers", "state"),
    [
        ((), "OK"), ((FINE,), "OK"), ((FINE, EXPOSED), "WARNING"), ((NOT_KNOWN, FINE), "UNKNOWN"),
        ((NOT_KNOWN, EXPOSED), "WARNING"), ((NOT_KNOWN, EXPOSED, UNPROTECTED), "CRITICAL"),
    ],
)  # fmt: skip
def test_the_worst_counts(servers: tuple[ServerFacts, ...], state: str) -> None:
    report = check(fleet(*servers))
    assert STATES[report.state] == state
    line = summary(report)
    assert line.startswith(f"SLEEPWATCH {state} - ")
    assert len(line) <= 80
    assert "|" not in line
    assert re.fullmatch(r"(?:[a-z]+=\d+;\d*;\d*;\d*;?\d*(?: |$))+", performance(report))


def test_no_server_but_not_all_could_be_seen_is_unknown() -> None:
    report = check(Facts(host=msgspec.structs.replace(HOST, unseen=("/proc is mounted with hidepid=2",))))
    assert report.state == 3
    assert "not all could be looked at" in summary(report)


def test_what_nothing_starts_is_shown_and_not_counted() -> None:
    report = check(fleet(msgspec.structs.replace(UNPROTECTED, counted=False, process=None)))
    assert report.state == 0
    assert report.servers[0].verdict == "exposed and unprotected"
    assert "not counted" in "\n".join(text(report))


def test_long_names_keep_the_line_short() -> None:
    report = check(
        Facts(host=HOST, servers=tuple(msgspec.structs.replace(UNPROTECTED, name="x" * 70 + str(n)) for n in range(30)))
    )
    assert len(summary(report)) <= 80
    assert "30 of 30" in summary(report)


def test_the_worst_server_and_the_worst_finding_come_first() -> None:
    report = check(fleet(FINE, EXPOSED, UNPROTECTED))
    assert [one.verdict for one in report.servers] == ["exposed and unprotected", "exposed", "fine"]
    levels = [one.level for one in report.servers[0].findings]
    assert levels == sorted(levels, key=["critical", "warning", "info"].index)


def everything() -> Facts:
    return fleet(
        FINE, EXPOSED, UNPROTECTED, NOT_KNOWN, contained(), child(), child(autoload=False),
        router("sleep-idle-seconds = 1\n[*]\nsleep-idle-seconds = 300\n[a ]\nSLEEP-IDLE-SECONDS = 1\n[a]\nparalel=2\n"),
        server(process(f"{SLEEPING} --log-disable --nonsense"), unit(restart="no", start_limit_action="reboot")),
        server(None, None, options=None, targets=()),
        host=msgspec.structs.replace(HOST, watchers=(), unseen=("something",)),
    )  # fmt: skip


def test_the_document_fits_its_schema_and_the_schema_its_file() -> None:
    report = check(everything())
    content = json.loads(json_text(report))
    published = json.loads((DOCS / "check-schema.json").read_text())
    jsonschema.validate(content, published, jsonschema.Draft202012Validator)
    assert published["$defs"] == schema()["$defs"]
    assert content["exit_code"] == report.state
    assert document(report).summary == summary(report)


def test_no_key_and_no_token_gets_into_a_report() -> None:
    secret = "hunter2"
    running = process(
        f"{SLEEPING} --api-key {secret} --hf-token {secret} --log-disable", environment={"LLAMA_API_KEY": secret}
    )
    report = check(fleet(server(running, unit(restart="no"))))
    assert secret not in json_text(report)
    assert secret not in "\n".join(text(report))


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    report = check(Facts(host=HOST, servers=(msgspec.structs.replace(UNPROTECTED, name="evil\x1b[2J\nname"),)))
    printed = "\n".join(text(report))
    assert "\x1b" not in printed
    assert "evil\\x1b[2J\\x0aname" in printed


def test_the_same_sentence_is_not_printed_twice() -> None:
    printed = "\n".join(text(check(fleet(UNPROTECTED, UNPROTECTED))))
    assert printed.count("Nothing starts the server again") == 1
    assert printed.count("systemctl edit llama.service") == 2


def test_every_verdict_and_every_finding_is_in_the_manual() -> None:
    manual = (DOCS / "check.md").read_text()
    source = "".join(path.read_text() for path in (Path(check.__code__.co_filename).parent).glob("*.py"))
    source += "".join(path.read_text() for path in (Path(presets.__file__).parent).glob("*.py"))
    found = set(re.findall(r'(?:code=|Problem\()\s*"([a-z-]+)"', source))
    assert len(found) > 30
    assert {code for code in found if f"`{code}`" not in manual} == set()
    assert {verdict for verdict in STATE_OF if f"`{verdict}`" not in manual} == set()
