"""Would a crash be restarted? Decided from systemd's rules (systemd.service(5), table "Exit causes and the effect
of Restart=")."""

from __future__ import annotations

import posixpath
import re

import msgspec

from sleepwatch.check.facts import ServerFacts
from sleepwatch.check.findings import CRITICAL, INFO, NO, UNKNOWN, WARNING, YES, Finding, drop_in, quoted
from sleepwatch.hosts.commandline import Invocation
from sleepwatch.hosts.spans import INFINITY, span_words
from sleepwatch.hosts.units import DEFAULT_LIMIT_INTERVAL_US, Unit

_AFTER_SIGNAL = {"always", "on-failure", "on-abnormal", "on-abort"}
_AFTER_FAILURE = {"always", "on-failure"}
_AFTER_SUCCESS = {"always", "on-success"}
_SEGV = {"SIGSEGV", "SEGV", "11"}
_SHELL_SEGV = "139"
"""What a shell ends with when the program it waited for died on signal 11 (128 + 11)."""
_SLOW_US = 30_000_000
_SHELLS = {
    "bash", "sh", "zsh", "dash", "fish", "ksh", "tmux: server", "screen", "sshd", "login", "nohup",
    "script", "su", "sudo",
}  # fmt: skip
_INITS = {"systemd", "init", "openrc-init", "runit", "dinit", "shepherd", "busybox", "procd"}
_ALWAYS = {
    "s6-supervise": "s6",
    "runsv": "runit",
    "supervise": "daemontools",
    "supervise-daemon": "OpenRC",
    "monit": "monit",
}
_AT_REQUEST = {"llama-swap": "llama-swap", "ollama": "ollama", "lemond": "lemonade", "lemonade-router": "lemonade"}
"""Programs that start a server again when one is asked for."""
_UNSURE = {
    "supervisord", "pm2", "PM2", "circusd", "foreman", "honcho", "overmind", "process-compose", "systemd-run",
}  # fmt: skip
_CONTAINER_INITS = {
    "tini", "dumb-init", "docker-init", "catatonit", "containerd-shim", "conmon", "s6-svscan",
}  # fmt: skip
_SECRET = {"--api-key", "-hft", "--hf-token"}


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    answer: str
    """``yes``, ``no`` or ``unknown``."""
    words: str
    """By whom and after what time, or why not."""


def judge(server: ServerFacts) -> tuple[Restart, list[Finding]]:
    """Whether this server would be there again after signal 11, and what is to be said about it."""
    restart, findings = _judge(server)
    if server.container is not None and server.process is not None and server.process.first_in_namespace:
        findings.append(_abort_finding())
    return restart, findings


def _judge(server: ServerFacts) -> tuple[Restart, list[Finding]]:
    if server.router is not None:
        return _child(server)
    if server.container is not None and (server.unit is None or server.container.restart not in (None, "no")):
        return _in_container(server)
    if server.unit is not None and _is_of(server, server.unit):
        return _by_unit(server, server.unit)
    return _by_ancestors(server)


def _is_of(server: ServerFacts, unit: Unit) -> bool:
    """Whether the end of the server is the end of the unit: not where another program of the unit has started it."""
    process = server.process
    if process is None or server.container is not None or process.pid == unit.main_pid:
        return True
    if unit.invocation is not None:
        return True
    above = process.ancestors[0] if process.ancestors else None
    return above is not None and above.pid == unit.main_pid and above.name in _SHELLS


def _child(server: ServerFacts) -> tuple[Restart, list[Finding]]:
    why = "A router does not start a dead child by itself: it waits for the next request for that model."
    if not server.autoload:
        finding = Finding(
            code="child-not-restarted",
            level=CRITICAL,
            what=f"After a crash this model stays down: its router {server.router} has --no-models-autoload",
            why=why + " Without autoload it does not do even that.",
            change="Remove --no-models-autoload from the router's command line, or load the model again by POST "
            "/models/load.",
        )
        return Restart(answer=NO, words="no: its router loads nothing by itself"), [finding]
    finding = Finding(
        code="child-waits-for-request",
        level=INFO,
        what="After a crash this model is down until someone asks for it",
        why=why + " The requests in flight are lost, and the next one waits for the whole load.",
    )
    return Restart(answer=YES, words=f"by its router {server.router}, at the next request"), [finding]


def _by_unit(server: ServerFacts, unit: Unit) -> tuple[Restart, list[Finding]]:
    findings = _was_restarted(unit)
    invocation = unit.invocation
    if invocation is not None and invocation.engine and invocation.container_restart not in (None, "no"):
        words = f"by {invocation.engine} (--restart={invocation.container_restart})"
        return Restart(answer=YES, words=words), findings
    held = _held_by_shell(server, unit)
    scripted = _by_script(server, unit) if held else None
    if scripted is not None:
        restart, about = scripted
        return restart, [*about, *findings]
    user = unit.manager == "user"
    where = _place(unit, "Restart")
    restarted, reason = after_crash(unit, through_shell=held)
    if not restarted:
        return Restart(answer=NO, words=f"no: {reason}"), [_not_restarted(unit, reason, where, held, user), *findings]
    findings += _start_limit(server, unit, user)
    if unit.restart_us >= _SLOW_US:
        findings.append(
            Finding(
                code="slow-restart",
                level=WARNING,
                what=f"After a crash it is away for RestartSec={span_words(unit.restart_us)}"
                + _place(unit, "RestartSec"),
                why="systemd waits that long before it starts the server again, and then the model has to be loaded.",
                change=drop_in(unit.name, "RestartSec=5", user=user),
            )
        )
    words = f"by systemd after {span_words(unit.restart_us)} (Restart={unit.restart}{where})"
    return Restart(answer=YES, words=words), findings


def _was_restarted(unit: Unit) -> list[Finding]:
    if not unit.restarts:
        return []
    times = f"{unit.restarts} time{'' if unit.restarts == 1 else 's'}"
    return [
        Finding(
            code="was-restarted",
            level=INFO,
            what=f"systemd has restarted it {times} since it was last started by hand or at boot",
            why="Each of these was an exit nobody asked for, and may have been this crash.",
            change=f"  sleepwatch scan --journal -u {quoted(unit.name)}",
        )
    ]


def _by_script(server: ServerFacts, unit: Unit) -> tuple[Restart, list[Finding]] | None:
    """What the shell around the server makes of a crash; None where it ends with the server's own status."""
    invocation = unit.invocation
    if invocation is None:
        return None
    if invocation.looped:
        return Restart(answer=YES, words="by a loop in its own script"), [_loop_finding()]
    if invocation.piped_to and not invocation.pipefail:
        # As after any end: the unit ends well, whatever the server did.
        anyway = unit.restart in _AFTER_SUCCESS and not unit.remain_after_exit
        words = (
            f"yes, as after any end (Restart={unit.restart})" if anyway else "no: the pipe hides the crash from systemd"
        )
        return Restart(answer=YES if anyway else NO, words=words), [_pipe_finding(server, unit, anyway)]
    if invocation.status_lost:
        finding = Finding(
            code="script-hides-crash",
            level=WARNING,
            what="Whether systemd sees the crash depends on the script around the server",
            why="The script goes on after the server, so the unit ends with the status of what comes last.",
            change="Make the server the last thing the script does, with exec before it, and let Restart= do the rest.",
        )
        answer = YES if unit.restart == "always" else UNKNOWN
        return Restart(answer=answer, words=f"{answer}: its script decides (Restart={unit.restart})"), [finding]
    return None


def _pipe_finding(server: ServerFacts, unit: Unit, anyway: bool) -> Finding:
    invocation = unit.invocation
    assert invocation is not None
    command = f"ExecStart={_command(invocation)}"
    restart = () if unit.restart in _AFTER_SIGNAL else ("Restart=on-failure", "RestartSec=5")
    return Finding(
        code="pipe-hides-crash",
        level=INFO if anyway else CRITICAL,
        what=f"systemd would not see the crash: the server's output is piped to {invocation.piped_to}",
        why=f"A pipeline ends with the status of its last program. {invocation.piped_to} ends well, so the unit ends "
        f"well, and Restart={unit.restart} {'starts it as after any end' if anyway else 'does nothing'}.",
        change="Let systemd keep the output instead of a pipe, and start the server without a shell:\n"
        + drop_in(unit.name, "ExecStart=", command, *restart, user=unit.manager == "user", restart=True),
    )


def _command(invocation: Invocation) -> str:
    """The server's command for ``ExecStart=``, keys and tokens left out."""
    words = [invocation.program, *invocation.arguments]
    shown = ["…" if at and words[at - 1] in _SECRET else _systemd_word(word) for at, word in enumerate(words)]
    return " ".join(shown)


def _systemd_word(word: str) -> str:
    word = word.replace("%", "%%").replace("$", "$$")
    if word and not re.search(r"[\s\"'\\;]", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def after_crash(unit: Unit, *, through_shell: bool) -> tuple[bool, str]:
    """Whether systemd starts the unit again when its server dies on signal 11, and the reason in words.

    ``through_shell``: systemd's main process is a shell, which does not die but ends with status 139.
    """
    codes = {_SHELL_SEGV} if through_shell else _SEGV
    seen = "exit status 139 from what holds it" if through_shell else "signal 11"
    if codes & set(unit.restart_force):
        return True, f"RestartForceExitStatus= names {seen}"
    if unit.restart == "no":
        return False, "Restart=no"
    if codes & set(unit.restart_prevent):
        return False, f"RestartPreventExitStatus= names {seen}"
    if unit.type == "oneshot" and unit.restart in ("always", "on-success"):
        return False, f"Type=oneshot does not allow Restart={unit.restart}"
    if codes & set(unit.success):
        return unit.restart in _AFTER_SUCCESS, f"SuccessExitStatus= makes {seen} a success, and Restart={unit.restart}"
    allowed = _AFTER_FAILURE if through_shell else _AFTER_SIGNAL
    if unit.restart in allowed:
        return True, f"Restart={unit.restart}"
    if through_shell and unit.restart in _AFTER_SIGNAL:
        return False, f"Restart={unit.restart} wants a signal, and what stands between turns that into exit status 139"
    return False, f"Restart={unit.restart}"


def _held_by_shell(server: ServerFacts, unit: Unit) -> bool:
    """Whether systemd's main process is a shell, a script or a container's monitor, and not the server itself."""
    if server.container is not None or (unit.invocation is not None and unit.invocation.engine):
        return True
    if server.process is not None and unit.main_pid:
        return unit.main_pid != server.process.pid
    invocation = unit.invocation
    if invocation is None:
        return False
    shell = any(name in ("sh", "bash", "dash", "zsh", "ash", "busybox") for name in invocation.wrappers) or bool(
        unit.script
    )
    return shell and not invocation.replaces_shell


def _not_restarted(unit: Unit, reason: str, where: str, shell: bool, user: bool) -> Finding:
    named = {*_SEGV, _SHELL_SEGV}
    lines = (
        []
        if reason.startswith("RestartPrevent") and unit.restart in _AFTER_FAILURE
        else ["Restart=on-failure", "RestartSec=5"]
    )
    for key, codes in (("SuccessExitStatus", unit.success), ("RestartPreventExitStatus", unit.restart_prevent)):
        if named & set(codes):
            others = " ".join(code for code in codes if code not in named)
            lines += [f"{key}=", *([f"{key}={others}"] if others else [])]
    return Finding(
        code="not-restarted",
        level=CRITICAL,
        what=f"A crash would leave it down: {reason}{where if reason.startswith('Restart=') else ''}",
        why="The crash of this race is signal 11 in the tokenizer. "
        + ("What stands between reports that to systemd as status 139. " if shell else "")
        + "Nothing starts the server again, and every later request is refused until someone does.",
        change=drop_in(unit.name, *lines, user=user, instead=_stronger_drop_in(unit, "Restart")),
    )


def _stronger_drop_in(unit: Unit, key: str) -> str | None:
    """The drop-in that decided a setting, where it sorts behind what ``systemctl edit`` writes (``override.conf``)."""
    path = unit.places.get(key, "")
    return path if ".d/" in path and posixpath.basename(path) > "override.conf" else None


def _place(unit: Unit, key: str) -> str:
    return f", from {unit.places[key]}" if key in unit.places else ", the default"


def _start_limit(server: ServerFacts, unit: Unit, user: bool) -> list[Finding]:
    findings = []
    if unit.start_limit_action not in ("none", ""):
        findings.append(
            Finding(
                code="start-limit-action",
                level=WARNING,
                what=f"Crashes in quick succession would end in StartLimitAction={unit.start_limit_action}",
                why="A request that crashes the server and is sent again by its client can do that to the whole "
                "machine.",
                change=drop_in(unit.name, "StartLimitAction=none", section="Unit", user=user),
            )
        )
    interval, burst = unit.start_limit_interval_us, unit.start_limit_burst
    if interval == 0 or burst <= 0 or interval == INFINITY:
        return findings
    idle = server.options.sleep.seconds if server.options is not None and server.options.sleep.state == "on" else None
    # The race needs a sleep, so two crashes of it are at least one idle time apart.
    fastest_us = unit.restart_us + (idle or 0) * 1_000_000
    if fastest_us * burst < interval:
        usual = " (systemd's default)" if interval == DEFAULT_LIMIT_INTERVAL_US else ""
        findings.append(
            Finding(
                code="start-limit",
                level=WARNING if idle else INFO,
                what=f"After {burst} starts within {span_words(interval)}{usual} systemd gives up",
                why=f"With RestartSec={span_words(unit.restart_us)}{f' and a sleep after {idle} s' if idle else ''} "
                "that can be reached by a client that sends its request again, and then the server stays down.",
                change=drop_in(unit.name, "StartLimitIntervalSec=0", section="Unit", user=user),
            )
        )
    return findings


def _loop_finding() -> Finding:
    return Finding(
        code="restarted-by-loop",
        level=INFO,
        what="A loop in its own script starts it again",
        why="systemd sees none of the crashes, so neither its exit records nor its restart count tell of them.",
        change="Start the server itself in ExecStart= and let Restart=on-failure do what the loop does.",
    )


def _in_container(server: ServerFacts) -> tuple[Restart, list[Finding]]:
    container = server.container
    assert container is not None
    name = container.name or container.id[:12]
    findings: list[Finding] = []
    if container.restart is None:
        why = container.why_unknown or "its engine does not tell"
        findings.append(
            Finding(
                code="restart-unknown",
                level=WARNING,
                what=f"Whether container {name} would be started again cannot be seen: {why}",
                why="A crash ends the container's main process, and only its engine or cluster can start it again.",
                change=_look_up(container.engine, name),
            )
        )
        return Restart(answer=UNKNOWN, words=f"unknown: {why}"), findings
    if not _main_process(server):
        findings.append(
            Finding(
                code="restart-unknown",
                level=WARNING,
                what=f"It is not the main process of container {name}: whether it is started again is up to what is",
                why=f"The engine's policy ({container.restart}) acts when the main process ends, and that may outlive "
                "the server.",
                change="Let the server be the container's main process, or see to it that its supervisor starts it "
                "again.",
            )
        )
        return Restart(answer=UNKNOWN, words="unknown: another process is the container's main one"), findings
    if container.restart in ("always", "unless-stopped", "on-failure"):
        limit = f", at most {container.restart_limit} times" if container.restart_limit else ""
        return Restart(answer=YES, words=f"by {container.engine} ({container.restart}{limit})"), findings
    findings.insert(
        0,
        Finding(
            code="container-not-restarted",
            level=CRITICAL,
            what=f"A crash would leave container {name} stopped: its restart policy is '{container.restart}'",
            why="The crash ends the container's main process. Nothing starts it again, and later requests are refused.",
            change=f"  {container.engine} update --restart=on-failure {name}      (compose: restart: on-failure)",
        ),
    )
    return Restart(answer=NO, words=f"no: container restart policy '{container.restart}'"), findings


def _abort_finding() -> Finding:
    return Finding(
        code="abort-looks-like-crash",
        level=INFO,
        what="It is process 1 of its container, so an abort would be reported as exit code 139, like signal 11",
        why="Process 1 ignores SIGABRT; abort() then ends in a trap that the kernel reports as a segmentation fault. "
        "The two can be told apart only by what was printed before.",
        change="Run the container with an init:\n  docker run --init …      (compose: init: true)",
    )


def _main_process(server: ServerFacts) -> bool:
    """Whether the end of the server ends its container: it is process 1 there, or only an init stands above it."""
    process = server.process
    if process is None or process.first_in_namespace or not process.ancestors:
        return True
    return process.ancestors[0].name in _CONTAINER_INITS


def _look_up(engine: str, name: str) -> str | None:
    if engine == "kubernetes":
        return "  kubectl get pod NAME -o jsonpath='{.spec.restartPolicy}'"
    program = engine if engine in ("docker", "podman", "nerdctl") else "docker"
    form = "'{{.HostConfig.RestartPolicy.Name}}'"
    return f"As root, or as a member of the engine's group:\n  {program} inspect --format {form} {name}"


def _by_ancestors(server: ServerFacts) -> tuple[Restart, list[Finding]]:
    process = server.process
    if process is None:
        return Restart(answer=UNKNOWN, words="unknown: nothing that would start it is known"), []
    if process.place.machine is not None:
        words = f"unknown: it runs in {process.place.machine}, a machine with an init of its own"
        return Restart(answer=UNKNOWN, words=words), [_elsewhere(process.place.machine)]
    for above in process.ancestors:
        for name in (above.name, above.command):
            if name in _AT_REQUEST:
                return Restart(answer=YES, words=f"by {_AT_REQUEST[name]}, at the next request"), []
            if name in _ALWAYS:
                return Restart(answer=YES, words=f"by {_ALWAYS[name]}"), []
            if name in _UNSURE or name.startswith("PM2"):
                return Restart(answer=UNKNOWN, words=f"unknown: {name} decides"), [_up_to(name)]
    first = process.ancestors[0] if process.ancestors else None
    if process.first_in_namespace:
        words = "unknown: it is process 1 of a container, whose engine decides"
        return Restart(answer=UNKNOWN, words=words), [_up_to("the container's engine")]
    if first is None or (first.pid == 1 and first.name in _INITS) or first.name == "systemd":
        return Restart(answer=NO, words="no: started by hand, nobody above it"), [_no_supervisor("nobody")]
    plain = first.command == first.name and first.pid != 1
    if plain and (first.name in _SHELLS or process.place.session):
        who = f"{first.name} (pid {first.pid})"
        return Restart(answer=NO, words=f"no: started by hand, {who} above it"), [_no_supervisor(who)]
    return Restart(answer=UNKNOWN, words=f"unknown: {first.command} (pid {first.pid}) started it"), [
        _up_to(first.command)
    ]


def _elsewhere(machine: str) -> Finding:
    return Finding(
        code="restart-unknown",
        level=WARNING,
        what=f"Its supervisor is inside {machine} and cannot be seen from here",
        why="A container with an init of its own has its own units, journal and restart rules.",
        change=f"Run sleepwatch check inside {machine}.",
    )


def _up_to(program: str) -> Finding:
    return Finding(
        code="restart-unknown",
        level=WARNING,
        what=f"Whether it would be started again is up to {program}",
        why="Its rules are in its own configuration, which is not read here.",
        change=f"See that {program} starts it again after signal 11 or exit status 139.",
    )


def _no_supervisor(who: str) -> Finding:
    return Finding(
        code="no-supervisor",
        level=CRITICAL,
        what=f"Nothing would start it again after a crash: {who} stands above it",
        why="The crash of this race takes the whole process with signal 11. Every later request is refused until "
        "someone starts the server by hand.",
        change="Run it as a service:\n"
        "  /etc/systemd/system/llama-server.service\n"
        "      [Service]\n"
        "      ExecStart=/path/to/llama-server …\n"
        "      Restart=on-failure\n"
        "      RestartSec=5\n"
        "      [Install]\n"
        "      WantedBy=multi-user.target\n"
        "  systemctl enable --now llama-server",
    )
