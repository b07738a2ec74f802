"""journald's and core dumps' settings, and who may read what. Made from the manual pages' rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sleepwatch.hosts.access import Reader, reader_of, why_unreadable
from sleepwatch.hosts.commands import Answer, run
from sleepwatch.hosts.coredumps import CoreDumps, find_coredumps, keeps_stack
from sleepwatch.hosts.journald import find_journald, readable_by


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_journald_defaults_and_settings(tmp_path: Path) -> None:
    found = find_journald(root=tmp_path)
    assert (found.storage, found.persistent, found.rate_burst, found.max_level_store) == ("auto", False, 10_000, 7)
    (tmp_path / "var/log/journal").mkdir(parents=True)
    assert find_journald(root=tmp_path).persistent
    write(
        tmp_path, "etc/systemd/journald.conf", "[Journal]\nStorage=none\nRateLimitIntervalSec=0\nMaxLevelStore=notice\n"
    )
    write(tmp_path, "etc/systemd/journald.conf.d/a.conf", "[Journal]\nRateLimitBurst=500\n")
    found = find_journald(root=tmp_path)
    assert (found.storage, found.persistent, found.rate_interval_us, found.rate_burst) == ("none", False, 0, 500)
    assert found.max_level_store == 5
    assert found.places["RateLimitBurst"] == "/etc/systemd/journald.conf.d/a.conf"


@pytest.mark.parametrize(
    ("answer", "readable"),
    [
        (Answer("Started llama.\n"), True),
        (Answer("", status=1, why="No journal files were opened due to insufficient permissions."), False),
        (Answer(""), False),
        (Answer("", status=-1, why="journalctl is not installed"), None),
    ],
)
def test_whether_the_journal_can_be_read(answer: Answer, readable: bool | None, tmp_path: Path) -> None:
    def journalctl(argv: Sequence[str]) -> Answer:
        assert argv[0] == "journalctl"
        return answer

    found = find_journald(root=tmp_path, run=journalctl)
    assert found.readable is readable
    assert bool(found.why_unreadable) == (readable is not True)


def test_who_may_read_the_journal(tmp_path: Path) -> None:
    write(tmp_path, "etc/group", "root:x:0:\nadm:x:4:syslog\nsystemd-journal:x:101:\nbroken\nusers:x:100:\n")
    may = {groups: readable_by(Reader(4711, groups), tmp_path) for groups in ((4711, 101), (4,), (100,), ())}
    assert may == {(4711, 101): True, (4,): True, (100,): False, (): False}
    assert readable_by(Reader(0, ()), tmp_path)
    assert not readable_by(Reader(4711, (4,)), tmp_path / "none")


@pytest.mark.parametrize(
    ("pattern", "handler"),
    [
        ("|/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h", "systemd-coredump"),
        ("|/usr/share/apport/apport -p%p -s%s", "apport"),
        ("|/usr/libexec/abrt-hook-ccpp %s", "abrt"),
        ("|/bin/false", "false"),
        ("core", "file"),
        ("/var/crash/core.%e.%p", "file"),
        ("", "none"),
    ],
)
def test_what_becomes_of_a_core_file(pattern: str, handler: str, tmp_path: Path) -> None:
    write(tmp_path, "proc/sys/kernel/core_pattern", pattern + "\n")
    write(tmp_path, "etc/systemd/coredump.conf", "[Coredump]\nStorage=none\nProcessSizeMax=1G\n")
    found = find_coredumps(tmp_path)
    assert (found.handler, found.storage, found.largest) == (handler, "none", 1 << 30)


def test_no_core_pattern_is_unknown(tmp_path: Path) -> None:
    assert find_coredumps(tmp_path).handler == "unknown"


@pytest.mark.parametrize(
    ("handler", "limit", "kept"),
    [
        ("systemd-coredump", -1, True), ("systemd-coredump", None, True), ("systemd-coredump", 0, False),
        ("file", -1, True), ("file", 0, False), ("file", None, None), ("none", -1, False), ("apport", -1, None),
        ("apport", 0, None), ("unknown", -1, None),
    ],
)  # fmt: skip
def test_whether_a_stack_is_kept(handler: str, limit: int | None, kept: bool | None) -> None:
    assert keeps_stack(CoreDumps(handler=handler), limit) is kept


def test_who_may_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("x")
    log.chmod(0o640)
    tmp_path.chmod(0o755)
    owner, group = log.stat().st_uid, log.stat().st_gid
    assert why_unreadable(str(log)) is None
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "a.log").write_text("x")
    stranger = Reader(owner + 1, (group + 1,))
    assert "may not be " in (why_unreadable(str(closed / "a.log"), stranger) or "")
    assert why_unreadable(str(log), Reader(4711, (), reads_anything=True)) is None
    assert why_unreadable(str(log), Reader(owner, (group,))) is None
    assert why_unreadable(str(tmp_path / "none")) == "no such file or directory"
    os.mkfifo(tmp_path / "pipe")
    assert why_unreadable(str(tmp_path / "pipe")) is None


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_reader_is_read_from_its_process() -> None:
    found = reader_of(os.getpid())
    assert found is not None
    assert found.uid == os.geteuid()
    assert os.getegid() in found.groups
    assert found.reads_anything == (os.geteuid() == 0)
    assert reader_of(2**22 + 1) is None


def test_programs_that_do_not_answer_are_answered_for() -> None:
    assert run(["no-such-program-here"]).why == "no-such-program-here is not installed"
    assert run(["false"]).status == 1
    assert run(["sh", "-c", "echo out; echo why >&2; exit 3"]).why == "why"
    assert run(["sh", "-c", "echo $LC_ALL"]).output == "C.UTF-8\n"
