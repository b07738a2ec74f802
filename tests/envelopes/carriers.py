"""Writes lines the way each carrier does, so that tests and measurements can put any log into any envelope."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 30, 5, 46, 44, 659026, tzinfo=UTC)
START_US = 1_796_017_604_659_026
STEP_US = 1_001
HOST = b"gpubox"
UNIT = b"llama-tiny.service"
PID = b"40"
BOOT = b"3208311b25654aa8aeeab7b051db82e3"
INVOCATION = b"39463157a54b4400ba607a0739bb3f96"
CUT = 16 << 10
"""Bytes at which container runtimes cut a line."""

Writer = Callable[[bytes, datetime], bytes]


def wall_us(index: int) -> int:
    """The time of the line with that index."""
    return START_US + index * STEP_US


def write(name: str, lines: Iterable[bytes]) -> bytes:
    """The lines in the envelope of that name, one STEP_US after the other."""
    writer = WRITERS[name]
    return b"".join(writer(line, START + timedelta(microseconds=index * STEP_US)) for index, line in enumerate(lines))


def _stamp(form: str) -> Callable[[datetime], bytes]:
    return lambda at: at.strftime(form).encode()


_iso = _stamp("%Y-%m-%dT%H:%M:%S.%f")
_second = _stamp("%Y-%m-%d %H:%M:%S")
_month = _stamp("%b %d %H:%M:%S")


def _json_string(line: bytes) -> bytes:
    return json.dumps(line.decode("utf-8", "replace"), ensure_ascii=False)[1:-1].encode()


def _pieces(line: bytes) -> Iterator[bytes]:
    """As a runtime cuts a line, but never inside a character."""
    while len(line) > CUT:
        end = CUT
        while line[end] & 0xC0 == 0x80:
            end -= 1
        yield line[:end]
        line = line[end:]
    yield line


def _docker_json(line: bytes, at: datetime) -> bytes:
    parts = list(_pieces(line))
    return b"".join(
        b'{"log":"%b%b","stream":"stderr","time":"%b123Z"}\n'
        % (_json_string(part), rb"\n" if index == len(parts) - 1 else b"", _iso(at))
        for index, part in enumerate(parts)
    )


def _cri(line: bytes, at: datetime) -> bytes:
    parts = list(_pieces(line))
    return b"".join(
        b"%b123Z stderr %b %b\n" % (_iso(at), b"F" if index == len(parts) - 1 else b"P", part)
        for index, part in enumerate(parts)
    )


def _fields(line: bytes, at: datetime) -> list[tuple[bytes, bytes]]:
    us = b"%d" % ((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
    return [
        (b"__CURSOR", b"s=0125bdf7d1954ed78501c7564d0f670c;i=42;b=" + BOOT + b";m=ea7a2bac;t=66177ef560bab;x=a6080ddd"),
        (b"__REALTIME_TIMESTAMP", us),
        (b"__MONOTONIC_TIMESTAMP", b"3933875116"),
        (b"_BOOT_ID", BOOT),
        (b"SYSLOG_FACILITY", b"3"),
        (b"PRIORITY", b"6"),
        (b"_UID", b"0"),
        (b"_GID", b"0"),
        (b"_SYSTEMD_SLICE", b"system.slice"),
        (b"_MACHINE_ID", b"3d1219c7c4c5404aaa1f6d2a48adfda4"),
        (b"_HOSTNAME", HOST),
        (b"_RUNTIME_SCOPE", b"system"),
        (b"_CAP_EFFECTIVE", b"fcecafff"),
        (b"_TRANSPORT", b"stdout"),
        (b"_STREAM_ID", b"663af43e81644b02a8045149e3f87925"),
        (b"SYSLOG_IDENTIFIER", b"llama-server"),
        (b"MESSAGE", line),
        (b"_PID", PID),
        (b"_COMM", b"llama-server"),
        (b"_EXE", b"/opt/llama/llama-server"),
        (b"_CMDLINE", b"/opt/llama/llama-server -m /srv/models/tiny.gguf --port 18202 --sleep-idle-seconds 1"),
        (b"_SYSTEMD_CGROUP", b"/system.slice/" + UNIT),
        (b"_SYSTEMD_UNIT", UNIT),
        (b"_SYSTEMD_INVOCATION_ID", INVOCATION),
    ]


def _plain(value: bytes) -> bool:
    """Whether journalctl prints a value as text (systemd's utf8_is_printable: no control character but the tab)."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(character == "\t" or character >= " " for character in text) and "\x7f" not in text


def _journal_json(line: bytes, at: datetime) -> bytes:
    pairs = (
        b'"%b":%b' % (name, b'"' + _json_string(value) + b'"' if _plain(value) else json.dumps(list(value)).encode())
        for name, value in _fields(line, at)
    )
    return b"{" + b",".join(pairs) + b"}\n"


def _journal_json_pretty(line: bytes, at: datetime) -> bytes:
    return json.dumps(json.loads(_journal_json(line, at)), indent="\t", separators=(",", " : ")).encode() + b"\n"


def _journal_export(line: bytes, at: datetime) -> bytes:
    return (
        b"".join(
            name + b"=" + value + b"\n"
            if _plain(value)
            else name + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
            for name, value in _fields(line, at)
        )
        + b"\n"
    )


def _journal_verbose(line: bytes, at: datetime) -> bytes:
    fields = _fields(line, at)
    head = at.strftime("%a %Y-%m-%d %H:%M:%S.%f UTC").encode() + b" [" + fields[0][1] + b"]\n"
    source = (b"_SOURCE_REALTIME_TIMESTAMP", fields[1][1])
    return head + b"".join(b"    " + name + b"=" + value + b"\n" for name, value in [*fields[3:], source])


def _tai64n(line: bytes, at: datetime) -> bytes:
    seconds = int(at.timestamp()) + (1 << 62) + 10
    return b"@%016x%08x %b\n" % (seconds, at.microsecond * 1000, line)


_WHO = HOST + b" llama-server[" + PID + b"]: "

WRITERS: dict[str, Writer] = {
    "compose": lambda line, at: b"llama-1  | " + line + b"\n",
    "cri": _cri,
    "docker-desktop": lambda line, at: _second(at) + b" " + line + b"\n",
    "docker-json": _docker_json,
    "docker-logs": lambda line, at: _iso(at) + b"123Z " + line + b"\n",
    "journal-export": _journal_export,
    "journal-json": _journal_json,
    "journal-json-pretty": _journal_json_pretty,
    "journal-short": lambda line, at: _month(at) + b" " + _WHO + line + b"\n",
    "journal-short-full": lambda line, at: _stamp("%a %Y-%m-%d %H:%M:%S UTC ")(at) + _WHO + line + b"\n",
    "journal-short-iso": lambda line, at: _iso(at) + b"+0000 " + _WHO + line + b"\n",
    "journal-short-monotonic": lambda line, at: b"[ 3933.%06d] " % at.microsecond + _WHO + line + b"\n",
    "journal-short-unix": lambda line, at: b"%.6f " % at.timestamp() + _WHO + line + b"\n",
    "journal-verbose": _journal_verbose,
    "kubectl-prefix": lambda line, at: b"[pod/llama-0/llama] " + _iso(at) + b"123Z " + line + b"\n",
    "lemonade": lambda line, at: _second(at) + b".659 [Info] (Process) " + line + b"\n",
    "lm-studio": lambda line, at: _second(at) + b" [DEBUG]\n " + line + b"\n",
    "mail-quote": lambda line, at: b"> > " + line + b"\n",
    "model-runner": lambda line, at: b"[" + _iso(at) + b"123Z][inference.inference-llama.cpp][W] " + line + b"\n",
    "s6-log": lambda line, at: _second(at) + b".659026123  " + line + b"\n",
    "svlogd": lambda line, at: _stamp("%Y-%m-%d_%H:%M:%S")(at) + b".65902 " + line + b"\n",
    "syslog-3164": lambda line, at: b"<30>" + _month(at) + b" " + _WHO + line + b"\n",
    "syslog-5424": lambda line, at: b"<30>1 " + _iso(at) + b"Z gpubox llama-server 40 - - " + line + b"\n",
    "tai64n": _tai64n,
    "ts": lambda line, at: _month(at)[: len("Nov 30 05:46:44")] + b" " + line + b"\n",
}
