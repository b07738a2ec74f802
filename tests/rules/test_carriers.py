"""What carriers and supervisors report about a death, read from whole logs: whose it is, of what, and what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sleepwatch.model import Incident, ScanResult
from sleepwatch.scan import Options, scan
from tests.cases.case import judge, rules, shown

SERVER = """\
0.00.001.845 I srv  llama_server: initializing ...
0.00.004.963 I cmn  common_param: common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)
0.00.006.412 I srv    load_model: loading model '/srv/models/wide.gguf'
0.00.410.927 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 98304, kv_unified = 'false'
0.00.450.810 I srv  llama_server: model loaded
0.00.450.911 I srv  llama_server: listening on http://127.0.0.1:8080
0.00.460.000 I srv  update_slots: all slots are idle
0.00.910.000 I slot launch_slot_: id  0 | task 0 | processing task, is_child = 0
0.00.990.000 I slot      release: id  0 | task 0 | stop processing: n_tokens = 23, truncated = 0
0.00.991.000 I srv  update_slots: all slots are idle
0.01.991.500 I que    start_loop: entering sleeping state
0.01.991.700 I srv  handle_sleep: server is entering sleeping state
"""
LINES = SERVER.splitlines()
SEGFAULT = "{}[444]: segfault at 18 ip 00007f6647aa0aed sp 00007f663eff9910 error 4 in libllama.so[ca0aed,7f66+eac]"
TRAP = "traps: llama-server[5141] general protection fault ip:7f27ca00d50f sp:7ffc80 error:0 in libc.so.6[2650f,7f+1]"
OLLAMA = 'time=2026-07-21T11:33:0{}.751+08:00 level=INFO source=sched.go:651 msg="Load failed" error="{}"\n'
SWAP = '[INFO] Request 10.0.0.1 "POST /v1/chat/completions HTTP/1.1" 200 41 "agent" 293.7ms\n'
ASSERT = "/src/ggml.c:12: GGML_ASSERT(x) failed\n"
ABNORMAL = "Process 40 (llama-server) of user 0 terminated abnormally with signal 11/SEGV, processing..."
EXITED = "llama.service: Main process exited, code=dumped, status=11/SEGV"
INSPECT = '            "OOMKilled": {},\n            "ExitCode": {},\n'
NSSM = "Program C:\\llama.cpp\\llama-server.exe for service llama exited with return code {}.\n"


def compose(name: str = "llama-1") -> str:
    return "".join(f"{name}  | {line}\n" for line in LINES)


def iso(second: float, who: str, text: str) -> str:
    return f"2026-11-30T05:46:{40 + second:09.6f}+0000 gpubox {who}: {text}\n"


def journal(pid: int = 40) -> str:
    """The server's lines as ``journalctl -o short-iso-precise`` shows them; its first is from 05:46:40."""
    return "".join(iso(int(line[2:4]) + int(line[5:8]) / 1000, f"llama-server[{pid}]", line) for line in LINES)


def found(log: str) -> tuple[ScanResult, list[Incident]]:
    result = judge(log.encode())
    assert not result.failed
    return result, list(result.incidents)


DEATHS = {
    # name: (log, kind, signal)
    "dmesg": (SERVER + "[ 2421.005394] " + SEGFAULT.format("llama-server") + "\n", "sleep-crash", 11),
    "dmesg: a wrapped program's name, cut": (SERVER + SEGFAULT.format(".llama-server-w") + "\n", "sleep-crash", 11),
    "dmesg: out of memory": (
        SERVER + "[78989.891201] Memory cgroup out of memory: Killed process 940 (llama-server) total-vm:1kB\n",
        "crash",
        9,
    ),
    "kernel: an abort as process 1": (SERVER + ASSERT + TRAP + "\n", "crash", 6),
    "container: an abort as process 1": (SERVER + ASSERT + INSPECT.format("false", 139), "crash", 6),
    "journal: the kernel names a thread": (
        journal(440) + iso(2.1, "kernel", SEGFAULT.format("llama-server")),
        "sleep-crash",
        11,
    ),
    "journal: systemd, the unit's start seen": (
        iso(0, "systemd[1]", "Started llama.service - llama.cpp.")
        + journal()
        + iso(2.1, "systemd[1]", EXITED),
        "sleep-crash",
        11,
    ),
    "journal: systemd of before v231": (
        iso(0, "systemd[1]", "Started llama.service - llama.cpp.")
        + journal()
        + iso(2.1, "systemd[1]", "llama.service: main process exited, code=killed, status=6/ABRT"),
        "crash",
        6,
    ),
    "journal: systemd and the OOM killer": (
        iso(0, "systemd[1]", "Started llama.service - llama.cpp.")
        + journal()
        + iso(2.1, "systemd[1]", "llama.service: A process of this unit has been killed by the OOM killer.")
        + iso(2.2, "systemd[1]", "llama.service: Main process exited, code=killed, status=9/KILL")
        + iso(2.2, "systemd[1]", "llama.service: Failed with result 'oom-kill'."),
        "crash",
        9,
    ),
    "journal: systemd-coredump": (
        journal()
        + iso(2.1, "systemd-coredump[99]", ABNORMAL)
        + iso(2.4, "systemd-coredump[99]", "Process 40 (llama-server) of user 0 dumped core."),
        "sleep-crash",
        11,
    ),
    "compose": (compose() + "llama-1 exited with code 139\n", "sleep-crash", 11),
    "docker inspect": (SERVER + INSPECT.format("false", 139), "sleep-crash", 11),
    "docker inspect: out of memory": (SERVER + INSPECT.format("true", 137), "crash", 9),
    "kubectl describe": (SERVER + "      Reason:       OOMKilled\n      Exit Code:    137\n", "crash", 9),
    "s6": (SERVER + "[15:57:36] INFO: Service exited with code 256 (by signal 11)\n", "sleep-crash", 11),
    "supervisord": (
        "2026-11-30 07:46:55,325 INFO spawned: 'llama' with pid 1766\n"
        + SERVER
        + "2026-11-30 07:46:57,825 WARN exited: llama (terminated by SIGSEGV (core dumped); not expected)\n",
        "sleep-crash",
        11,
    ),
    "launchd": (
        SERVER
        + "2026-11-30 05:46:44.6 (gui/501/local.llama [41]) <Notice>: "
        + "exited due to SIGSEGV | sent by exc handler[41], ran for 9ms\n",
        "sleep-crash",
        11,
    ),
    "nssm: access violation": (SERVER + NSSM.format(3221225477), "sleep-crash", 11),
    "nssm: fail fast": (SERVER + NSSM.format(3221226505), "crash", 6),
    "nssm: division by zero": (SERVER + NSSM.format(3221225620), "crash", 8),
    "ollama": (
        OLLAMA.format(1, "x")
        + SERVER
        + OLLAMA.format(9, "llama-server process has terminated: signal: segmentation fault (core dumped)"),
        "sleep-crash",
        11,
    ),
    "ollama on Windows": (
        OLLAMA.format(1, "x")
        + SERVER
        + OLLAMA.format(9, "llama-server process has terminated: exit status 0xc0000409"),
        "crash",
        6,
    ),
    "llama-swap": (
        SWAP * 3 + SERVER + "[WARN] <qwen3> ExitError >> signal: segmentation fault (core dumped), exit code: -1\n",
        "sleep-crash",
        11,
    ),
    "gdb": (SERVER + 'Thread 9 "llama-server" received signal SIGSEGV, Segmentation fault.\n', "sleep-crash", 11),
}  # fmt: skip


@pytest.mark.parametrize(("log", "kind", "signal"), DEATHS.values(), ids=DEATHS)
def test_a_reported_death_is_one_incident(log: str, kind: str, signal: int) -> None:
    result, incidents = found(log)
    assert [(one.kind, one.signal) for one in incidents] == [(kind, signal)], shown(result)


NONE = {
    "another program of the family": SERVER + SEGFAULT.format("llama-parallel") + "\n",
    "another program's name that ends alike": SERVER + SEGFAULT.format("ollama") + "\n",
    "another victim of the OOM killer": SERVER + "Out of memory: Killed process 8 (python3) total-vm:1kB\n",
    "the one that asked for memory": SERVER + "llama-server invoked oom-killer: gfp_mask=0x140cca, order=0\n",
    "another unit": iso(0, "systemd[1]", "Started llama.service - llama.cpp.")
    + journal()
    + iso(2.1, "systemd[1]", "ollama.service: Main process exited, code=dumped, status=11/SEGV"),
    "another writer's words": journal() + iso(2.1, "sshd[9]", EXITED),
    "a planned stop": iso(0, "systemd[1]", "Started llama.service - llama.cpp.")
    + journal()
    + iso(2.1, "systemd[1]", "Stopping llama.service - llama.cpp...")
    + iso(2.3, "systemd[1]", "llama.service: Main process exited, code=killed, status=9/KILL"),
    "another core": journal()
    + iso(2.1, "systemd-coredump[99]", "Process 77 (slick-greeter) of user 113 dumped core."),
    "another container": compose() + "web-1 exited with code 139\n",
    "a container that was stopped": compose() + "llama-1 exited with code 143\n",
    "a container that runs": SERVER + INSPECT.format("false", 0),
    "another supervised program": "2026-11-30 07:46:55,325 INFO spawned: 'llama' with pid 1766\n"
    + SERVER
    + "2026-11-30 07:46:57,825 WARN exited: nginx (terminated by SIGSEGV; not expected)\n",
    "supervisord was asked to": "2026-11-30 07:46:55,325 INFO spawned: 'llama' with pid 1766\n"
    + SERVER
    + "2026-11-30 07:46:57,825 WARN stopped: llama (terminated by SIGKILL)\n",
    "s6 was asked to": SERVER + "[15:57:36] INFO: Service exited with code 256 (by signal 15)\n",
    "Ctrl-C on Windows": SERVER + NSSM.format(3221225786),
    "llama-swap unloads": SWAP * 3 + SERVER + "[DEBUG] <qwen3> process stopped by llama-swap: signal: killed\n",
    "a report in a prompt": "\n".join([*LINES[:9], SEGFAULT.format("llama-server"), *LINES[9:], ""]),
    "a report in a request's body": SERVER + f'{{"prompt":"{EXITED}"}}\n',
}  # fmt: skip


@pytest.mark.parametrize("log", NONE.values(), ids=NONE)
def test_what_is_no_death_of_the_server(log: str) -> None:
    result, incidents = found(log)
    assert not incidents, shown(result)


def test_the_tokenizer_in_the_stack_makes_it_certain() -> None:
    core = iso(2.1, "systemd-coredump[99]", ABNORMAL)
    stack = iso(2.4, "systemd-coredump[99]", "Process 40 (llama-server) of user 0 dumped core.")
    indent = " " * len(iso(2.4, "systemd-coredump[99]", "").rstrip("\n"))
    frame = f"{indent}#0  0x00007f6647aa0aed _ZNK11llama_vocab13text_to_tokenERKNSt7 (libllama.so + 0xca0aed)\n"
    assert [one.confidence for one in found(journal() + core + stack)[1]] == ["probable"]
    assert [one.confidence for one in found(journal() + core + stack + frame)[1]] == ["confirmed"]


SHAPES = ("short", "short-iso-precise", "json", "export", "verbose")


def test_five_shapes_of_one_journal_give_the_same_incidents(corpus: Path) -> None:
    seen = {}
    for shape in SHAPES:
        source = next((corpus / f"journal-two-units-{shape}").glob("journal.*"))
        result = scan([source], Options(), rules=rules())
        seen[shape] = {(one.id, one.kind, one.server, one.signal) for one in result.incidents}
        assert sorted((one.kind, one.server) for one in result.incidents) == [
            *[("hung-request", "llama-wide.service")] * 2,
            *[("sleep-crash", "llama-tiny.service")] * 4,
        ], shape
    assert all(seen[shape] == seen["short"] for shape in SHAPES)


def test_lines_that_journald_dropped_are_a_gap() -> None:
    def entry(at_us: int, **fields: str) -> str:
        stamp = str(1_796_017_604_000_000 + at_us)
        return json.dumps({"__REALTIME_TIMESTAMP": stamp, "_HOSTNAME": "gpubox", **fields}) + "\n"

    server = "".join(
        entry(
            at * 1000,
            MESSAGE=line,
            _PID="40",
            SYSLOG_IDENTIFIER="llama-server",
            _SYSTEMD_UNIT="llama.service",
            _SYSTEMD_INVOCATION_ID="a" * 32,
        )
        for at, line in enumerate(LINES)
    )
    dropped = entry(
        2_500_000,
        MESSAGE="Suppressed 14 messages from llama.service",
        MESSAGE_ID="a596d6fe7bfa4994828e72309e95d61e",
        SYSLOG_IDENTIFIER="systemd-journald",
        N_DROPPED="14",
        OBJECT_SYSTEMD_UNIT="llama.service",
    )
    result, incidents = found(server + dropped)
    assert [gap.cause for gap in result.gaps] == ["journald rate limit"]
    assert not incidents
