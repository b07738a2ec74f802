"""Real receivers that fail for hours, are slow, or take only a part; and a daemon that is killed while it sends."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sleepwatch.config import Target
from sleepwatch.daemon.status import read_status, reasons
from sleepwatch.notify.outbox import undelivered
from tests.notify.office import HOUR, MINUTE, SECOND, Office, incident
from tests.support.receivers import Answer, HttpReceiver, SmtpReceiver


def _number(document: dict[str, Any]) -> int:
    """Which incident a message is about, by its key."""
    return int(document["message"].rpartition("Key: sleepwatch-")[2], 16)


def test_an_outage_of_hours(tmp_path: Path) -> None:
    down = True
    with HttpReceiver(lambda document: Answer(503 if down else 200)) as http, SmtpReceiver() as mail:
        mail.refuses = True
        urls = {"chat": http.url, "mail": mail.url}
        office = Office(
            tmp_path, Target(name="chat"), Target(name="mail"), urls=urls, give_up_hours=2.0, storm_messages=100
        )
        given_up, stays, passes = (incident("crash", number) for number in (1, 2, 3))
        office.happens(given_up)
        office.pass_time(2 * HOUR - 5 * MINUTE)
        office.happens(stays, passes)
        office.pass_time(10 * MINUTE)
        office.happens(msgspec.structs.replace(passes, state="restarted"))
        states = {(row["incident"][-1], row["target"]): row["state"] for row in office.rows()}
        assert states["1", "chat"] == states["1", "mail"] == "undeliverable"
        assert states["2", "chat"] == states["2", "mail"] == "waiting"
        assert http.received == mail.received == []
        down = mail.refuses = False
        office.pass_time(2 * HOUR)
        assert sorted(map(_number, http.received)) == [2, 3]
        assert len(mail.received) == 2
        [once] = [one for one in http.received if _number(one) == 3]
        assert once["message"].startswith("HAPPENED, AND IS OVER")
        office.happens(msgspec.structs.replace(given_up, state="restarted"))
        office.happens(msgspec.structs.replace(stays, state="restarted"))
        office.pass_time(MINUTE)
        assert [_number(one) for one in http.received].count(1) == 1
        assert [one["type"] for one in http.received if _number(one) == 2] == ["warning", "success"]
        assert len(mail.received) == 4
        listed = [one for one in undelivered(office.store, 0) if one.state == "undeliverable"]
        assert {(one.target, one.incident) for one in listed} == {("chat", given_up.id), ("mail", given_up.id)}
        words = {one.target: one.last or "" for one in listed}
        assert "503" in words["chat"]
        assert not any("very-secret" in word for word in words.values())
        said = reasons(read_status(office.database, office.clock.wall_us))
        assert any(one.words == "2 messages undeliverable (chat, mail)" for one in said)


def test_a_slow_service_keeps_nobody_waiting(tmp_path: Path) -> None:
    answers = threading.Event()
    slow_one = Target(name="slow")
    with (
        HttpReceiver(lambda document: Answer(200, answers)) as slow,
        HttpReceiver() as quick,
        SmtpReceiver() as mail,
    ):
        urls = {"slow": slow.url, "quick": quick.url, "mail": mail.url}
        office = Office(tmp_path, slow_one, Target(name="quick"), Target(name="mail"), urls=urls)
        office.happens(incident("crash", 1))
        office.pass_time(SECOND)
        states = {row["target"]: (row["state"], row["attempts"]) for row in office.rows()}
        assert states["quick"] == states["mail"] == ("sent", ["sent"])
        assert states["slow"] == ("waiting", ["failed"])  # apprise waits for an answer for 4 s (``rto=``)
        answers.set()
        office.pass_time(MINUTE)
        assert {row["state"] for row in office.rows()} == {"sent"}
        assert [_number(one) for one in slow.received][-1] == 1
        assert len(quick.received) == len(mail.received) == 1


def test_no_answer_in_time_may_have_arrived(tmp_path: Path) -> None:
    answers = threading.Event()
    with HttpReceiver(lambda document: Answer(200, answers)) as http:
        urls = {"chat": f"{http.url}?rto=60"}
        office = Office(tmp_path, Target(name="chat"), urls=urls, timeout_seconds=1.0)
        office.happens(incident("crash", 1))
        office.pass_time(SECOND)
        assert office.rows()[0]["attempts"] == ["timeout"]
        answers.set()


def test_a_partial_failure_is_tried_again_where_it_failed_only(tmp_path: Path) -> None:
    fails = [Answer(500)]
    out = tmp_path / "out"
    command = Target(name="command", command=("sh", "-c", f"test -e {out} || {{ touch {out}; echo no >&2; exit 3; }}"))
    with HttpReceiver(lambda document: fails.pop() if fails else Answer()) as http, SmtpReceiver() as mail:
        urls = {"chat": http.url, "mail": mail.url}
        office = Office(tmp_path, Target(name="chat"), Target(name="mail"), command, urls=urls)
        office.happens(incident("crash", 1))
        office.pass_time(2 * MINUTE)
        attempts = {row["target"]: row["attempts"] for row in office.rows()}
        assert attempts == {"chat": ["failed", "sent"], "mail": ["sent"], "command": ["failed", "sent"]}
        assert len(http.received) == len(mail.received) == 1


def test_what_says_it_is_optional_is_not_taken_for_delivered(tmp_path: Path) -> None:
    with HttpReceiver(lambda document: Answer(500)) as http:
        office = Office(tmp_path, Target(name="chat"), urls={"chat": f"{http.url}?optional=yes"})
        office.happens(incident("crash", 1))
        office.pass_time(SECOND)
        assert [(row["state"], row["attempts"]) for row in office.rows()] == [("waiting", ["failed"])]


def test_a_command_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ > {pids}; wait"
    office = Office(tmp_path, Target(name="c", command=("sh", "-c", script)), urls={}, timeout_seconds=1.0)
    office.happens(incident("crash", 1))
    office.pass_time(SECOND)
    assert office.rows()[0]["attempts"] == ["timeout"]
    for pid in pids.read_text().split():
        assert not _runs(int(pid))


def _runs(pid: int) -> bool:
    """Whether it is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_a_process_that_hangs_is_ended_without_being_waited_for(tmp_path: Path) -> None:
    """Stopped by a signal, so that it can neither time out by itself nor end when it is asked to."""
    answers = threading.Event()
    with HttpReceiver(lambda document: Answer(200, answers)) as http:
        office = Office(tmp_path, Target(name="chat"), urls={"chat": http.url}, timeout_seconds=30.0)
        office.happens(incident("crash", 1))
        office.look()
        process = office.desk._courier._process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        office.look()
        assert office.desk._courier.busy
        for _ in range(2):
            office.clock.advance(2 * MINUTE)
            office.look()
        process.wait(60)
        answers.set()
        office.pass_time(SECOND)
        [row] = office.rows()
        assert row["attempts"] == ["interrupted"]
        office.pass_time(MINUTE)
        assert [row["state"] for row in office.rows()] == ["sent"]


@pytest.mark.parametrize("recorded", [False, True])
def test_a_daemon_killed_between_sending_and_recording_sends_again(tmp_path: Path, recorded: bool) -> None:
    """``kill -9``, in a child process, when the service has taken the message and nothing of that is recorded."""
    crash = incident("crash", 1)
    with HttpReceiver() as http:
        urls = {"chat": http.url}

        def first() -> None:
            office = Office(tmp_path, Target(name="chat"), urls=urls)
            office.happens(crash)
            if not recorded:

                def killed(*_: object) -> None:
                    os.kill(os.getpid(), signal.SIGKILL)

                office.desk._record_all = killed  # type: ignore[assignment, method-assign]
            office.pass_time(SECOND)
            os.kill(os.getpid(), signal.SIGKILL)

        assert _in_a_child(first) == -signal.SIGKILL
        assert len(http.received) == 1
        again = Office(tmp_path, Target(name="chat"), urls=urls)
        again.happens(msgspec.structs.replace(crash, state="restarted"))
        again.pass_time(MINUTE)
        whats = [one["message"].split("\n")[0] for one in http.received]
        assert whats == ["NEW: warning", *([] if recorded else ["NEW: warning"]), "OVER: the server runs again"]
        assert len(set(http.titles())) == 1
        assert [row["attempts"] for row in again.rows()] == [
            ["sent"] if recorded else ["interrupted", "sent"],
            ["sent"],
        ]


def _in_a_child(work: Any) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
