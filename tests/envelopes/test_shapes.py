"""Each carrier's shape: which envelope it is taken for and what becomes of its lines.

``recorded`` samples were written by the program itself (some shortened, names replaced); ``made`` ones follow its
documentation or source, since no log of a llama-server in that shape was at hand.
"""

from __future__ import annotations

import json
import struct

import pytest

from sleepwatch import envelopes
from sleepwatch.model import Record
from sleepwatch.times import LocalTimes, iso, parse_zone

REFERENCE_US = 1_798_000_000_000_000  # 2026-12-23
LOCAL = LocalTimes(reference_us=REFERENCE_US)


def read(data: bytes, name: str, local: LocalTimes = LOCAL) -> list[Record]:
    envelope = envelopes.detect(data, local=local)
    assert envelope.name == name
    return envelope.feed(data, 0) + envelope.finish()


def times(records: list[Record]) -> list[str | None]:
    return [None if record.wall_us is None else iso(record.wall_us)[:-4] + "Z" for record in records]


def texts(records: list[Record]) -> list[bytes]:
    return [record.text for record in records]


def at_offsets(records: list[Record], data: bytes) -> None:
    for record in records:
        assert data[record.offset : record.offset + len(record.text)] == record.text


# --- the journal as text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stamp", "name", "wall"),
    [
        pytest.param("Nov 30 05:46:44", "journal-short", "2026-11-30T05:46:44.000Z", id="short-recorded"),
        pytest.param("Nov 30 05:46:44.659026", "journal-short", "2026-11-30T05:46:44.659Z", id="short-precise-made"),
        pytest.param("Nov  3 05:46:44", "journal-short", "2026-11-03T05:46:44.000Z", id="syslog-day-made"),
        pytest.param("Nov 3 05:46:44", "journal-short", "2026-11-03T05:46:44.000Z", id="blank-lost-in-paste-made"),
        pytest.param("7月 24 15:40:33", "journal-short", "2026-07-24T15:40:33.000Z", id="chinese-recorded"),
        pytest.param(" 7月 24 15:40:33", "journal-short", "2026-07-24T15:40:33.000Z", id="japanese-made"),
        pytest.param("7월 24 15:40:33", "journal-short", "2026-07-24T15:40:33.000Z", id="korean-made"),
        pytest.param("Mär 24 15:40:33", "journal-short", "2026-03-24T15:40:33.000Z", id="german-made"),
        pytest.param("févr. 24 15:40:33", "journal-short", "2026-02-24T15:40:33.000Z", id="french-made"),
        pytest.param("ene 24 15:40:33", "journal-short", "2026-01-24T15:40:33.000Z", id="spanish-made"),
        pytest.param("giu 24 15:40:33", "journal-short", "2026-06-24T15:40:33.000Z", id="italian-made"),
        pytest.param("out 24 15:40:33", "journal-short", "2026-10-24T15:40:33.000Z", id="portuguese-made"),
        pytest.param("мая 24 15:40:33", "journal-short", "2026-05-24T15:40:33.000Z", id="russian-made"),
        pytest.param("2026-11-30T05:46:44+0000", "journal-short-iso", "2026-11-30T05:46:44.000Z", id="short-iso-made"),
        pytest.param(
            "2026-11-30T05:46:44.659026+0000", "journal-short-iso", "2026-11-30T05:46:44.659Z", id="precise-recorded"
        ),
        pytest.param(
            "2026-02-18T10:52:39+02:00", "journal-short-iso", "2026-02-18T08:52:39.000Z", id="offset-recorded"
        ),
        pytest.param(
            "Mon 2026-11-30 05:46:44 UTC", "journal-short-full", "2026-11-30T05:46:44.000Z", id="short-full-made"
        ),
        pytest.param(
            "Mo 2026-11-30 05:46:44 CET", "journal-short-full", "2026-11-30T04:46:44.000Z", id="german-weekday-made"
        ),
        pytest.param("1796017604.659026", "journal-short-unix", "2026-11-30T05:46:44.659Z", id="short-unix-made"),
        pytest.param("[ 3933.875116]", "journal-short-monotonic", None, id="short-monotonic-made"),
    ],
)
def test_journal_text(stamp: str, name: str, wall: str | None) -> None:
    line = "gpubox llama-server[40]: 0.00.002.670 I srv  llama_server: initializing ..."
    data = f"{stamp} {line}\n".encode() * 3
    records = read(data, name)
    assert texts(records) == [b"0.00.002.670 I srv  llama_server: initializing ..."] * 3
    assert times(records) == [wall] * 3
    assert {(r.host, r.unit, r.ident, r.pid) for r in records} == {("gpubox", None, "llama-server", 40)}
    at_offsets(records, data)


def test_journal_text_without_host_and_pid() -> None:  # made
    data = b"Nov 30 05:46:44 kernel: traps: llama-server[40] general protection fault ip:7f sp:7f error:0\n"
    (record,) = read(data, "journal-short")
    assert (record.host, record.ident, record.pid) == (None, "kernel", None)
    assert record.text == b"traps: llama-server[40] general protection fault ip:7f sp:7f error:0"


def test_snap_line_has_a_unit_but_no_host() -> None:  # recorded shape
    data = b"2026-02-18T10:52:39+02:00 gemma3.server[1234]: srv  update_slots: all slots are idle\n"
    (record,) = read(data, "journal-short-iso")
    assert (record.host, record.ident, record.pid) == (None, "gemma3.server", 1234)
    assert record.text == b"srv  update_slots: all slots are idle"


def test_with_unit_shows_units() -> None:  # made
    data = (
        b"Mon 2026-11-30 05:46:44 UTC gpubox init.scope[1]: Started llama-tiny.service - llama.cpp server.\n"
        b"Mon 2026-11-30 05:46:44 UTC gpubox llama-tiny.service[40]: 0.00.002.670 I srv  llama_server: x\n"
        b"Mon 2026-11-30 05:46:44 UTC gpubox user@1000.service/llama.service[41]: 0.00.1 I x\n"
    )
    records = read(data, "journal-short-full")
    assert [(r.unit, r.ident, r.pid) for r in records] == [
        ("init.scope", "systemd", 1),
        ("llama-tiny.service", None, 40),
        ("llama.service", None, 41),
    ]


def test_journalctl_and_pager_lines_are_skipped_and_boots_known() -> None:  # made
    boot = b"3208311b25654aa8aeeab7b051db82e3"
    data = (
        b"-- Logs begin at Sun 2026-11-01 10:00:00 UTC, end at Mon 2026-11-30 06:00:00 UTC. --\n"
        b"Nov 29 05:46:44 gpubox systemd[1]: Started x.\n"
        b"-- Boot " + boot + b" --\n"
        b"Nov 30 05:46:44 gpubox systemd[1]: Started y.\n"
        b"\n"
        b"lines 1-23\n"
        b"~\n"
        b"-- Reboot --\n"
        b"Nov 30 06:46:44 gpubox systemd[1]: Started z.\n"
        b"-- No entries --\n"
        b"lines 1-4/4 (END)\n"
    )
    records = read(data, "journal-short")
    assert [(r.text, r.boot) for r in records] == [
        (b"Started x.", None),
        (b"Started y.", boot.decode()),
        (b"Started z.", None),
    ]


def test_further_lines_of_a_message_keep_its_metadata() -> None:  # made
    head = b"Nov 30 05:46:44 gpubox systemd-coredump[99]: "
    data = (
        head
        + b"Process 40 (llama-server) of user 0 dumped core.\n"
        + b" " * len(head)
        + b"\n"
        + b" " * len(head)
        + b"Stack trace of thread 48:\n"
        + b" " * len(head)
        + b"#0  0x00007f n/a (libllama.so + 0x1)\n"
        + b"Nov 30 05:46:45 gpubox systemd[1]: next\n"
    )
    records = read(data, "journal-short")
    assert texts(records) == [
        b"Process 40 (llama-server) of user 0 dumped core.",
        b"Stack trace of thread 48:",
        b"#0  0x00007f n/a (libllama.so + 0x1)",
        b"next",
    ]
    assert [(r.ident, r.pid) for r in records[:3]] == [("systemd-coredump", 99)] * 3
    at_offsets(records, data)


def test_blob_data_is_cut() -> None:  # recorded shape
    head = b"Nov 30 05:46:44 gpubox llama-server[40]: "
    data = head + b"[71B blob data]\n" + head + b"x [1B blob data]\n"
    records = read(data, "journal-short")
    assert [r.cut for r in records] == [True, False]


def test_lines_cut_by_a_pager_are_marked() -> None:  # recorded shape: `journalctl | less -S` pasted
    width = 80
    heads = [
        f"Jun 09 10:29:{second:02} gpubox llama-server[40]: [34605] 440.59.380.{second:03} E " for second in range(6)
    ]
    cut = [f"{head}{'text that goes on and on and on':.<80}"[: width - 1] + ">" for head in heads]
    data = "\n".join([*cut, "Jun 09 10:29:22 gpubox llama-server[40]: short", ""]).encode()
    records = read(data, "journal-short")
    assert [r.cut for r in records] == [True] * 6 + [False]
    assert records[0].text.endswith(b">")  # so that no number at the end is taken for whole
    at_offsets(records, data)


def test_a_text_that_ends_in_an_arrow_is_not_cut() -> None:  # made
    data = b"".join(b"Jun 09 10:29:22 gpubox sh[40]: %s>\n" % (b"x" * n) for n in range(9))
    assert not any(r.cut for r in read(data, "journal-short"))


def test_a_line_longer_than_journalds_limit_is_joined() -> None:  # made
    piece = b"x" * (48 << 10)
    head = b"Nov 30 05:46:44 gpubox llama-server[40]: "
    other = b"Nov 30 05:46:44 gpubox llama-server[41]: other\n"
    data = (
        b"Nov 30 05:46:44 gpubox sh[1]: y\n" * 3
        + head
        + piece
        + b"\n"
        + other
        + head
        + b"0.01.000.000 I que    start_loop: entering sleeping state\n"
    )
    records = read(data, "journal-short")
    assert texts(records)[3:] == [b"other", piece + b"0.01.000.000 I que    start_loop: entering sleeping state"]


# --- the journal with its fields ----------------------------------------------------------------------------------

ENTRY = {
    "__REALTIME_TIMESTAMP": "1796017604699069",
    "_BOOT_ID": "3208311b25654aa8aeeab7b051db82e3",
    "_HOSTNAME": "gpubox",
    "_PID": "40",
    "SYSLOG_IDENTIFIER": "llama-server",
    "_SYSTEMD_UNIT": "llama-tiny.service",
    "_SYSTEMD_INVOCATION_ID": "39463157a54b4400ba607a0739bb3f96",
    "_STREAM_ID": "663af43e81644b02a8045149e3f87925",
    "_TRANSPORT": "stdout",
}
EXIT = {
    "__REALTIME_TIMESTAMP": "1796017607000001",
    "_SOURCE_REALTIME_TIMESTAMP": "1796017607000000",
    "_PID": "1",
    "SYSLOG_IDENTIFIER": "systemd",
    "_SYSTEMD_UNIT": "init.scope",
    "MESSAGE_ID": "98e322203f7a4ed290d09fe03c09fe15",
    "UNIT": "llama-tiny.service",
    "INVOCATION_ID": "39463157a54b4400ba607a0739bb3f96",
    "EXIT_CODE": "dumped",
    "EXIT_STATUS": "11",
    "MESSAGE": "llama-tiny.service: Main process exited, code=dumped, status=11/SEGV",
}


def as_json(*entries: dict[str, object]) -> bytes:
    return b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries)


def as_export(*entries: dict[str, object]) -> bytes:
    out = b""
    for entry in entries:
        for name, value in entry.items():
            raw = bytes(value) if isinstance(value, list) else str(value).encode()
            if isinstance(value, list) or b"\n" in raw:
                out += name.encode() + b"\n" + struct.pack("<Q", len(raw)) + raw + b"\n"
            else:
                out += name.encode() + b"=" + raw + b"\n"
        out += b"\n"
    return out


def as_verbose(*entries: dict[str, object]) -> bytes:
    out = ""
    for entry in entries:
        us = int(str(entry["__REALTIME_TIMESTAMP"]))
        out += f"Mo 2026-11-30 06:46:44.699069 CET [s=01;i=42;b=32;m=ea;t={us:x};x=a6]\n"
        for name, value in entry.items():
            lines = str(value).split("\n")
            indent = " " * (len(name) + 5)
            out += f"    {name}=" + f"\n{indent}".join(lines) + "\n"
    return out.encode()


@pytest.mark.parametrize(
    ("write", "name"),
    [(as_json, "journal-json"), (as_export, "journal-export"), (as_verbose, "journal-verbose")],
)
def test_fields_say_who_and_what(write, name) -> None:  # type: ignore[no-untyped-def]  # made
    line, ended = read(write({**ENTRY, "MESSAGE": "0.00.002.670 I srv  x"}, EXIT), name)
    assert line == Record(
        text=b"0.00.002.670 I srv  x",
        offset=line.offset,
        wall_us=1796017604699069,
        host="gpubox",
        unit="llama-tiny.service",
        ident="llama-server",
        pid=40,
        boot=ENTRY["_BOOT_ID"],
        invocation="39463157a54b4400ba607a0739bb3f96",
        fields={
            "_TRANSPORT": "stdout",
            "_STREAM_ID": "663af43e81644b02a8045149e3f87925",
            "SYSLOG_IDENTIFIER": "llama-server",
        },
    )
    assert ended.wall_us == 1796017607000000  # the sender's time, as journalctl shows it
    assert ended.message_id == "98e322203f7a4ed290d09fe03c09fe15"
    assert (ended.ident, ended.pid, ended.unit) == ("systemd", 1, "init.scope")
    assert ended.invocation == line.invocation
    assert ended.fields is not None
    assert ended.fields["UNIT"] == "llama-tiny.service"
    assert (ended.fields["EXIT_CODE"], ended.fields["EXIT_STATUS"]) == ("dumped", "11")


@pytest.mark.parametrize(
    ("write", "name"),
    [(as_json, "journal-json"), (as_export, "journal-export"), (as_verbose, "journal-verbose")],
)
def test_message_of_several_lines_becomes_several_records(write, name) -> None:  # type: ignore[no-untyped-def]  # made
    stack = (
        'Process 40 (llama-server) of user 0 dumped core.\n\nStack trace of thread 48:\n#0  0x7f "x\\y" (libllama.so)'
    )
    entry = {
        **ENTRY,
        "MESSAGE_ID": "fc2e22bc6ee647b6b90729ab34a250b1",
        "COREDUMP_SIGNAL": "11",
        "COREDUMP_UNIT": "llama-tiny.service",
        "MESSAGE": stack,
    }
    data = write(entry, {**ENTRY, "MESSAGE": "next"})
    records = read(data, name)
    assert texts(records) == [line.encode() for line in stack.split("\n") if line] + [b"next"]
    assert {r.message_id for r in records[:3]} == {"fc2e22bc6ee647b6b90729ab34a250b1"}
    assert all(r.fields is not None and r.fields["COREDUMP_SIGNAL"] == "11" for r in records[:3])
    places = [data.find(part) for part in (b"Process 40", b"Stack trace", b"#0  0x7f", b"next")]
    assert [r.offset for r in records] == places


@pytest.mark.parametrize(("write", "name"), [(as_json, "journal-json"), (as_export, "journal-export")])
def test_message_as_bytes(write, name) -> None:  # type: ignore[no-untyped-def]  # made: colours
    coloured = b"\x1b[34m0.00.002.670\x1b[0m \x1b[32mI \x1b[0msrv  x\xff"
    data = write({**ENTRY, "MESSAGE": list(coloured)}, {**ENTRY, "MESSAGE": "plain"})
    records = read(data, name)
    assert texts(records) == [coloured, b"plain"]
    if name == "journal-export":
        at_offsets(records, data)
    else:
        assert data[records[0].offset :].startswith(b"27,")


def test_verbose_paste_with_a_shortened_cursor() -> None:  # recorded shape
    data = (
        b"Mon 2026-05-18 10:11:03.144988 EDT [s=..;i=..]\n"
        b"    PRIORITY=6\n    SYSLOG_IDENTIFIER=llama-swap\n"
        b"    MESSAGE=Received signal terminated, shutting down...\n    _PID=7\n"
    )
    (record,) = read(data, "journal-verbose")
    assert (record.ident, record.pid, record.text) == (
        "llama-swap",
        7,
        b"Received signal terminated, shutting down...",
    )
    assert iso(record.wall_us or 0) == "2026-05-18T14:11:03.144988Z"


def test_json_values_of_every_kind() -> None:  # made
    data = as_json(
        {**ENTRY, "MESSAGE": None},
        {**ENTRY, "MESSAGE": ["first", [115, 101, 99]], "_COMM": ["a", "b"]},
        {**ENTRY},
        {**ENTRY, "MESSAGE": 'tab\tquote" \\ ü €', "_CMDLINE": None},
    )
    records = read(data, "journal-json")
    assert texts(records) == [b"", b"first", b"sec", b"", 'tab\tquote" \\ ü €'.encode()]
    assert [r.cut for r in records] == [True, False, False, False, False]  # null: too long for journalctl


def test_json_pretty() -> None:  # made
    data = json.dumps({**ENTRY, "MESSAGE": "one"}, indent="\t", separators=(",", " : ")).encode() + b"\n"
    data += json.dumps({**ENTRY, "MESSAGE": [116, 119, 111]}, indent="\t", separators=(",", " : ")).encode() + b"\n"
    records = read(data, "journal-json-pretty")
    assert texts(records) == [b"one", b"two"]
    assert data[records[0].offset :].startswith(b"one")
    assert data[records[1].offset :].startswith(b"116")


@pytest.mark.parametrize(("write", "name"), [(as_json, "journal-json"), (as_export, "journal-export")])
def test_pieces_of_a_long_line_are_joined_by_stream(write, name) -> None:  # type: ignore[no-untyped-def]  # made
    other = {**ENTRY, "_STREAM_ID": "00", "_PID": "41"}
    data = write(
        {**ENTRY, "MESSAGE": "A" * 100, "_LINE_BREAK": "line-max"},
        {**other, "MESSAGE": "between"},
        {**ENTRY, "MESSAGE": "0.01.000.000 I que    start_loop: entering sleeping state"},
        {**other, "MESSAGE": "torn", "_LINE_BREAK": "pid-change"},
        {**other, "MESSAGE": "open", "_LINE_BREAK": "line-max"},
    )
    records = read(data, name)
    assert [(r.text[:4], r.partial) for r in records] == [
        (b"betw", False),
        (b"AAAA", False),
        (b"torn", True),
        (b"open", True),
    ]
    assert records[1].text.endswith(b"sleeping state")


def test_docker_journald_driver_names_containers_and_joins() -> None:  # made
    entry = {**ENTRY, "CONTAINER_NAME": "llama", "CONTAINER_ID": "0123456789ab"}
    data = as_json({**entry, "MESSAGE": "one, ", "CONTAINER_PARTIAL_MESSAGE": "true"}, {**entry, "MESSAGE": "two"})
    (record,) = read(data, "journal-json")
    assert (record.text, record.container) == (b"one, two", "llama")


def test_export_values_cannot_forge_entries() -> None:  # made
    sleeps = b"0.01.000.000 I que    start_loop: entering sleeping state"
    forged = b"x\n\n__CURSOR=s=1\n__REALTIME_TIMESTAMP=1\nMESSAGE=" + sleeps + b"\n\n"
    data = as_export({**ENTRY, "MESSAGE": list(forged)}, {**ENTRY, "MESSAGE": "after"})
    records = read(data, "journal-export")
    assert [r.wall_us for r in records] == [1796017604699069] * len(records)
    assert texts(records)[-1] == b"after"
    assert b"MESSAGE=" + sleeps in texts(records)  # a line of the text


def test_export_with_an_unreadable_entry_goes_on_behind_it() -> None:  # made
    core = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1\nCOREDUMP\n" + struct.pack("<Q", 1 << 40) + b"\x7fELF\nMESSAGE=x\n\n"
    data = (
        as_export({"__CURSOR": "s=0", **ENTRY, "MESSAGE": "a"})
        + core
        + as_export({"__CURSOR": "s=2", **ENTRY, "MESSAGE": "b"})
    )
    envelope = envelopes.by_name("journal-export")
    records = envelope.feed(data, 0) + envelope.finish()
    assert [(r.text, r.cut) for r in records] == [(b"a", False), (b"", True), (b"b", False)]


def test_export_whose_end_is_missing() -> None:  # made
    data = as_export({**ENTRY, "MESSAGE": "whole"}, {**ENTRY, "MESSAGE": "torn off"}).rstrip(b"\n")[:-3]
    records = read(data, "journal-export")
    assert [(r.text, r.partial) for r in records] == [(b"whole", False), (b"torn ", True)]


# --- containers ---------------------------------------------------------------------------------------------------


def test_docker_json_joins_pieces_by_stream() -> None:  # made
    def entry(log: str, stream: str, nanos: int) -> bytes:
        return json.dumps({"log": log, "stream": stream, "time": f"2026-11-30T05:46:44.{nanos:09}Z"}).encode() + b"\n"

    data = (
        b'{"log":"first \\u003c \\"q\\"\\r\\n","stream":"stderr","time":"2026-11-30T05:46:44Z"}\n'
        + entry("A" * 16384, "stderr", 1000)
        + entry("out\n", "stdout", 2000)
        + entry("tail\n", "stderr", 3000)
        + entry("no end", "stderr", 4000)
    )
    records = read(data, "docker-json")
    assert texts(records) == [b'first < "q"', b"out", b"A" * 16384 + b"tail", b"no end"]
    assert [r.partial for r in records] == [False, False, False, True]
    assert records[2].wall_us == 1796017604000001
    assert data[records[1].offset :].startswith(b"out")


def test_docker_json_names_the_container_where_a_log_option_does() -> None:  # made
    data = b'{"log":"x\\n","stream":"stderr","attrs":{"tag":"llama"},"time":"2026-11-30T05:46:44.1Z"}\n'
    (record,) = read(data, "docker-json")
    assert (record.container, record.wall_us) == ("llama", 1796017604100000)


def test_cri_joins_pieces() -> None:  # made
    data = (
        b"2026-11-30T05:46:44.659026123Z stderr P 0.00.1 I req\n"
        b"2026-11-30T05:46:44.659027123Z stdout F other\n"
        b"2026-11-30T05:46:44.659028123Z stderr P uest: \n"
        b"2026-11-30T05:46:44.659029123Z stderr F {}\n"
        b"2026-11-30T07:46:44.659030+02:00 stderr F \n"
        b"2026-11-30T05:46:44.7Z stderr P lost\n"
    )
    records = read(data, "cri")
    assert texts(records) == [b"other", b"0.00.1 I request: {}", b"", b"lost"]
    assert [r.partial for r in records] == [False, False, False, True]
    assert [r.wall_us for r in records] == [1796017604659027, 1796017604659026, 1796017604659030, 1796017604700000]


def test_docker_logs_with_stamps() -> None:  # recorded shape
    data = b"2025-01-06T01:31:06.683339658Z llama_model_loader: loaded meta data\n2025-01-06T01:31:06.683340Z \n"
    records = read(data, "docker-logs")
    assert texts(records) == [b"llama_model_loader: loaded meta data", b""]
    assert times(records) == ["2025-01-06T01:31:06.683Z"] * 2
    at_offsets(records, data)


def test_docker_logs_of_an_old_server_are_not_syslog() -> None:  # made
    data = b"2025-01-06T01:31:06.683339658Z slot launch_slot_: id  0 | task 0 | processing task\n" * 3
    assert texts(read(data, "docker-logs"))[0] == b"slot launch_slot_: id  0 | task 0 | processing task"


def test_docker_desktop_prefers_the_lines_own_time() -> None:  # recorded shape
    data = (
        b'2025-01-19 19:58:17 time=2025-01-19T17:58:17.608+08:00 level=ERROR source=x.go:1 msg="y"\n'
        b"2025-01-19 19:58:16 llama_model_loader: x\n"
    )
    local = LocalTimes(zone=parse_zone("+08:00"))
    records = read(data, "docker-desktop", local)
    assert times(records) == ["2025-01-19T09:58:17.608Z", "2025-01-19T11:58:16.000Z"]
    assert records[0].text.startswith(b"time=")


TS_LINES = (
    b"0.00.002.670 I srv  llama_server: initializing ...",
    b"\x1b[34m0.01.352.022\x1b[0m \x1b[32mI \x1b[0mque    start_loop: entering sleeping state",
    b"slot launch_slot_: id  0 | task 0 | processing task",
)


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        (b"Nov 30 05:46:44 ", "2026-11-30T05:46:44.000Z"),
        (b"Nov  3 05:46:44.659026 ", "2026-11-03T05:46:44.659Z"),
        (b"2026-11-30T05:46:44 ", "2026-11-30T05:46:44.000Z"),
        (b"2026-11-30 05:46:44.659026 ", "2026-11-30T05:46:44.659Z"),
        (b"2026-11-30 06:46:44+0100 ", "2026-11-30T05:46:44.000Z"),
        (b"[2026-11-30 05:46:44] ", "2026-11-30T05:46:44.000Z"),
        (b"2026-11-30T05:46:44: ", "2026-11-30T05:46:44.000Z"),
        (b"2026-11-30 06:46:44 +01:00: ", "2026-11-30T05:46:44.000Z"),
        (b"1796017604.659026 ", "2026-11-30T05:46:44.659Z"),
        (b"05:46:44.659026 ", None),
        (b"00:00:09 ", None),
    ],
)
def test_a_filters_stamps(stamp: bytes, time: str | None) -> None:  # made: what ts and pm2 print
    data = b"".join(stamp + line + b"\n" for line in TS_LINES)
    assert envelopes.detect(data).name == "ts"
    records = read(data, "ts")
    assert texts(records) == list(TS_LINES)
    assert times(records) == [time] * len(TS_LINES)
    at_offsets(records, data)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"Nov 30 05:46:44 srv kernel: slot launch_slot_: id  0 | task 0 | x", "journal-short"),
        (b"Nov 30 05:46:44 llama-server[40]: srv    load_model: loading model", "journal-short"),
        (b"2026-11-30 05:46:44 srv    load_model: loading model", "docker-desktop"),
        (b"2026-11-30T05:46:44.659026123Z srv    load_model: loading model", "docker-logs"),
        (b"Nov 30 05:46:44 a program of its own, with a stamp", "bare"),
    ],
)
def test_what_is_no_filters(line: bytes, name: str) -> None:
    assert envelopes.detect((line + b"\n") * 20).name == name


@pytest.mark.parametrize("colour", [b"", b"\x1b[36m"], ids=["plain-recorded", "coloured-made"])
def test_compose(colour: bytes) -> None:
    end = b"\x1b[0m" if colour else b""
    data = (
        b"Attaching to llama-1, proxy\n"
        + b"".join(
            colour + line + end
            for line in (
                b"llama-1  | " + end + b"0.00.002.670 I srv  x\n",
                b"proxy    | " + end + b"GET /\n",
                b"llama-1  | " + end + b"2026-11-30T05:46:44.659026123Z 0.00.003.000 I srv  y\n",
                b"llama-1  | " + end + b"\n",
            )
        ).replace(b"\n" + end, b"\n")
        + b"llama-1 exited with code 139\n"
    )
    records = read(data, "compose")
    assert [(r.container, r.text, r.wall_us) for r in records if r.text][1:] == [
        ("llama-1", b"0.00.002.670 I srv  x", None),
        ("proxy", b"GET /", None),
        ("llama-1", b"0.00.003.000 I srv  y", 1796017604659026),
        ("llama-1", b"llama-1 exited with code 139", None),
    ]
    at_offsets(records, data)


@pytest.mark.parametrize(
    ("prefix", "container"),
    [
        (b"llama_server.1.x7f8k2m1q9wz@gpubox    | ", "llama_server.1.x7f8k2m1q9wz@gpubox"),
        (b"17:03:02 llama.1   | ", "llama.1"),
        (b"\x1b[36m17:03:02 llama.1   |\x1b[0m ", "llama.1"),
        (b"0|llama  | ", "llama"),
        (b"12|llama  | ", "llama"),
    ],
    ids=["docker service", "foreman", "foreman coloured", "pm2", "pm2, more of them"],
)
def test_others_in_the_form_of_compose(prefix: bytes, container: str) -> None:  # made
    data = b"".join(prefix + b"0.00.002.%03d I srv  x\n" % at for at in range(20))
    records = read(data, "compose")
    assert [(r.container, r.text) for r in records] == [(container, b"0.00.002.%03d I srv  x" % at) for at in range(20)]
    at_offsets(records, data)


def test_kubectl_prefix() -> None:  # made
    data = b"[pod/llama-0/llama] 0.00.002.670 I srv  x\n[pod/llama-0/llama] 2026-11-30T05:46:44.659026Z y\n"
    records = read(data, "kubectl-prefix")
    assert [(r.container, r.text, r.wall_us) for r in records] == [
        ("llama-0/llama", b"0.00.002.670 I srv  x", None),
        ("llama-0/llama", b"y", 1796017604659026),
    ]
    at_offsets(records, data)


# --- syslog -------------------------------------------------------------------------------------------------------


def test_rsyslog_escapes() -> None:  # recorded shape
    data = (
        b"2026-11-30T05:46:44.659026+00:00 gpubox systemd-coredump[99]: "
        b"Process 40 (llama-server) of user 0 dumped core."
        b"#012#012Stack trace of thread 48:#012#0  0x00007f n/a (libllama.so + 0x1)\n"
        b"2026-11-30T05:46:45.000000+00:00 gpubox llama-server[40]: #033[34m0.01.000.000#033[0m I x\n"
        b"2026-11-30T05:46:45.000000+00:00 gpubox llama-server[40]: body #0120.01.000.000 I que    start_loop: x\n"
        b"2026-11-30T05:46:45.000000+00:00 gpubox llama-server[40]: body #012que    start_loop: x\n"
    )
    records = read(data, "syslog-iso")
    assert texts(records) == [
        b"Process 40 (llama-server) of user 0 dumped core.",
        b"Stack trace of thread 48:",
        b"#0  0x00007f n/a (libllama.so + 0x1)",
        b"\x1b[34m0.01.000.000\x1b[0m I x",
        b"body #0120.01.000.000 I que    start_loop: x",  # a prompt cannot forge a server's line
        b"body #012que    start_loop: x",
    ]
    assert [data.find(text) for text in texts(records)[:3]] == [r.offset for r in records[:3]]


def test_core_dump_in_a_file_that_shows_no_escape_at_first() -> None:  # made
    data = b"Nov 30 05:46:44 gpubox sh[7]: x\n" * 3000
    data += b"Nov 30 05:46:44 gpubox systemd-coredump[99]: Process 40 (llama-server) of user 0 dumped core.#012Stack\n"
    assert texts(read(data, "journal-short"))[-2:] == [b"Process 40 (llama-server) of user 0 dumped core.", b"Stack"]


def test_syslog_rfc_3164() -> None:  # made
    data = b"<30>Nov 30 05:46:44 gpubox llama-server[40]: x\n<6>Nov 30 05:46:44 gpubox kernel: [ 12.5] y\n"
    records = read(data, "syslog-3164")
    assert [(r.ident, r.pid, r.text) for r in records] == [("llama-server", 40, b"x"), ("kernel", None, b"[ 12.5] y")]
    at_offsets(records, data)


def test_syslog_rfc_5424() -> None:  # made
    data = (
        b"<30>1 2026-11-30T05:46:44.659026Z gpubox llama-server 40 - - \xef\xbb\xbf0.00 I srv\n"
        b'86 <30>1 2026-11-30T06:46:44.659026+01:00 gpubox systemd 1 ID [x@1 a="b\\"]c"][y] z\n'
        b"<30>1 - - - - - -\n"
    )
    records = read(data, "syslog-5424")
    assert [(r.host, r.ident, r.pid, r.text) for r in records] == [
        ("gpubox", "llama-server", 40, b"0.00 I srv"),
        ("gpubox", "systemd", 1, b"z"),
        (None, None, None, b""),
    ]
    assert [r.wall_us for r in records] == [1796017604659026, 1796017604659026, None]
    at_offsets(records, data)


# --- programs that drive the server -------------------------------------------------------------------------------


def test_lemonade() -> None:  # recorded shape
    data = (
        b"2026-06-18 23:58:06.948 [Info] (Process) 0.11.102.312 I common_init_result: x\n"
        b"2026-06-18 23:58:06.950 [Info] (Server) loaded\n"
    )
    records = read(data, "lemonade")
    assert [(r.ident, r.text) for r in records] == [
        (None, b"0.11.102.312 I common_init_result: x"),
        ("lemonade", b"loaded"),
    ]
    assert times(records)[0] == "2026-06-18T23:58:06.948Z"
    at_offsets(records, data)


def test_docker_model_runner() -> None:  # recorded shape
    data = b"[2026-02-05T07:15:17.900894100Z][inference.inference-llama.cpp][W] srv  stop: cancel task, id_task = 0\n"
    (record,) = read(data, "model-runner")
    assert (record.text, record.ident) == (b"srv  stop: cancel task, id_task = 0", "inference.inference-llama.cpp")
    assert times([record]) == ["2026-02-05T07:15:17.900Z"]
    at_offsets([record], data)


def test_lm_studio_has_the_stamp_a_line_above() -> None:  # recorded shape
    data = (
        b"2026-05-11 21:48:42 [DEBUG]\n slot update_slots: id  3 | task 0 | new prompt\n"
        b"2026-05-11 21:48:43 [DEBUG]\n srv  x: a\n{\n  body\n}\n"
        b"2026-05-11 21:48:44  [INFO] [LM STUDIO SERVER] Running\n"
    )
    records = read(data, "lm-studio", LocalTimes(zone=parse_zone("+02:00")))
    assert texts(records) == [
        b"slot update_slots: id  3 | task 0 | new prompt",
        b"srv  x: a",
        b"{",
        b"  body",
        b"}",
        b"[LM STUDIO SERVER] Running",
    ]
    assert times(records)[0] == "2026-05-11T19:48:42.000Z"
    assert times(records)[1:5] == ["2026-05-11T19:48:43.000Z"] * 4
    at_offsets(records, data)


def test_llama_swap_lines_stand_between_the_servers() -> None:  # recorded shape
    data = (
        b'[INFO] Request 10.0.0.1 "POST /v1/chat/completions HTTP/1.1" 502 41 "agent" 293.7ms\n'
        b"0.00.002.670 I srv  llama_server: initializing ...\n"
        b"[DEBUG] <gemma> cmd.Wait() returned error: signal: aborted (core dumped)\n"
        b'[llama-swap] 10.0.0.1 [2025-03-20 20:41:16] "GET /v1/models HTTP/1.1" 200\n'
        b"2026-07-21T11:33:06+08:00 [WARN] metrics: empty body\n"
    )
    records = read(data, "llama-swap")
    assert [r.ident for r in records] == ["llama-swap", None, "llama-swap", "llama-swap", "llama-swap"]
    assert times(records)[3:] == ["2025-03-20T20:41:16.000Z", "2026-07-21T03:33:06.000Z"]
    assert records[2].text == b"[DEBUG] <gemma> cmd.Wait() returned error: signal: aborted (core dumped)"
    assert records[4].text == b"[WARN] metrics: empty body"
    at_offsets(records, data)


def test_ollama_gives_times_for_its_own_lines_only() -> None:  # recorded shape
    own = (
        b"time=2026-07-21T11:33:06.751+08:00 level=INFO source=sched.go:651 "
        b'msg="Load failed" error="llama-server process has terminated: signal: aborted"'
    )
    data = own + b"\n0.00.002.670 I srv  x\n" + own + b"\n"
    records = read(data, "ollama")
    assert [(r.ident, r.text) for r in records] == [("ollama", own), (None, b"0.00.002.670 I srv  x"), ("ollama", own)]
    assert times(records) == ["2026-07-21T03:33:06.751Z", None, "2026-07-21T03:33:06.751Z"]
    at_offsets(records, data)


def test_mail_quote_around_nothing_and_around_a_journal() -> None:  # recorded shape
    data = (
        b"> > 0.08.631.071 I slot operator(): id 3 | task 0 | cached n_tokens = 320,\n> > memory_seq_rm [320, end)\n>\n"
    )
    records = read(data, "mail-quote")
    assert texts(records)[0] == b"0.08.631.071 I slot operator(): id 3 | task 0 | cached n_tokens = 320,"
    at_offsets(records, data)
    data = b"> Nov 30 05:46:44 gpubox llama-server[40]: x\n> Nov 30 05:46:45 gpubox systemd[1]: y\n"
    records = read(data, "mail-quote")
    assert [(r.ident, r.text, r.wall_us) for r in records][1] == ("systemd", b"y", 1796017605000000)
    at_offsets(records, data)


# --- supervisors --------------------------------------------------------------------------------------------------


def test_tai64n_labels() -> None:  # made
    data = b"@400000006b0bbac52747c250 x\n@400000006b0bbac52747c250\n"
    records = read(data, "tai64n")
    assert texts(records) == [b"x", b""]
    us = (0x6B0BBAC5 - 10) * 1_000_000 + 0x2747C250 // 1000
    assert records[0].wall_us == us
    forced = envelopes.by_name("s6-tai64n")
    assert forced.feed(data, 0)[0].wall_us == us - 27_000_000


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"2026-11-30_05:46:44.65902 x\n", "svlogd"),
        (b"2026-11-30T05:46:44.65902 x\n", "svlogd"),
        (b"2026-11-30 05:46:44.659020123  x\n", "s6-log"),
        (b"2026-11-30 05:46:44.659020 (gui/501/local.llama [41]) <Notice>: exited due to SIGSEGV\n", "launchd"),
        (b"2026-11-30 05:46:44,659 INFO exited: llama (terminated by SIGSEGV; not expected)\n", "supervisord"),
    ],
)
def test_supervisors_stamps(data: bytes, name: str) -> None:  # made
    (record,) = read(data, name)
    assert record.wall_us is not None
    assert record.wall_us // 1000 == 1796017604659
    at_offsets([record], data)


def test_launchd_and_supervisord_lines_keep_what_they_are_about() -> None:  # made
    (record,) = read(
        b"2026-11-30 05:46:44.659020 (gui/501/local.llama [41]) <Notice>: exited due to SIGSEGV\n", "launchd"
    )
    assert (record.text, record.ident, record.pid) == (
        b"(gui/501/local.llama [41]) <Notice>: exited due to SIGSEGV",
        "launchd",
        41,
    )
    data = b"2026-11-30 05:46:44,659 INFO spawned: 'llama' with pid 41\n0.00.002.670 I srv  x\n"
    data += b"2026-11-30 05:46:45,659 WARN exited: llama (exit status 1; not expected)\n"
    records = read(data, "supervisord")
    assert [(r.ident, r.text) for r in records] == [
        ("supervisord", b"spawned: 'llama' with pid 41"),
        (None, b"0.00.002.670 I srv  x"),
        ("supervisord", b"exited: llama (exit status 1; not expected)"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"[15:57:36] INFO: Service exited with code 256 (by signal 11)",  # s6 (recorded shape)
        b"s6-supervise llama: warning: finish script takes too long",  # s6 (made)
        b"Program C:\\llama-server.exe for service llama exited with return code 3221225794.",  # NSSM (recorded shape)
        b"last exit code = 1",  # launchctl print (recorded shape)
        b" * llama-server: crashed",  # OpenRC (made)
        b"Faulting application name: llama-server.exe, version: 0.0.0.0, time stamp: 0x0",  # Windows (recorded shape)
        b'INFO [            update_slots] kv cache rm [p0, end) | tid="1397" timestamp=1762478090 id_slot=0',
        b'{"timestamp":1706720633,"level":"INFO","function":"main","line":2427,"message":"build info","build":2036}',
        b"[152970.213392] llama-parallel[398992]: segfault at 8 ip 0 sp 0 error 4 in libllama.so[0,1000]",  # dmesg
        b'srv  log_server_r: request:  {"messages":[{"role":"system"}]}',
        b"| model | size |",
    ],
)
def test_lines_without_a_carrier_are_bare(line: bytes) -> None:
    data = (line + b"\n") * 5
    records = read(data, "bare")
    assert texts(records) == [line] * 5
    at_offsets(records, data)
