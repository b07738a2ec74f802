"""The daemon tells real receivers, over HTTP and by mail, and by a command."""

from __future__ import annotations

import json
from pathlib import Path

from sleepwatch.config import Target
from tests.cases.deaths import SEGV
from tests.cases.hangs import woken
from tests.cases.made import log
from tests.notify.telling import rows, said, sent, told, until, write
from tests.service.driving import SECOND
from tests.support.receivers import HttpReceiver, SmtpReceiver

HANGS = "0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n"
FREED = "6.0 ask\n6.001 wake\n6.4 ready\n6.41 serve 1\n"
BEGIN = log("0 start lv=5\n1 serve 0\n")


def _rest(script: str, before: str) -> bytes:
    """What comes behind."""
    whole, first = log(before + script), log(before)
    assert whole.startswith(first)
    return whole[len(first) :]


def test_a_hang_is_told_and_so_is_its_end(tmp_path: Path) -> None:
    path, out = tmp_path / "server.log", tmp_path / "out"
    with HttpReceiver() as http, SmtpReceiver() as mail:
        command = Target(name="command", command=("sh", "-c", f"cat >> {out}"))
        targets = (Target(name="chat"), Target(name="mail"), command)
        with told(tmp_path, {"chat": http.url, "mail": mail.url}, *targets) as driven:
            write(driven, path, BEGIN)
            write(driven, path, _rest("2.1 sleep\n2.15 post 1\n", "0 start lv=5\n1 serve 0\n"), for_us=10 * SECOND)
            sent(driven)
            assert [one["type"] for one in http.received] == ["failure"]
            write(driven, path, _rest(FREED, HANGS))
            sent(driven)
            assert {state for _, _, state in said(driven)} == {"sent"}
        first, last = http.received
        assert first["message"].startswith("NEW: critical\n")
        assert last["message"].startswith("OVER after 4.310 s: another request woke the server\n")
        assert (first["type"], last["type"]) == ("failure", "success")
        assert first["title"] == last["title"]
        subjects = [one["Subject"] for one in mail.received]
        assert subjects == [first["title"]] * 2
        assert "What to do:" in mail.received[0].get_content()
        documents = [json.loads(line) for line in out.read_text().splitlines()]
        assert [one["what"] for one in documents] == ["opened", "recovered"]
        assert documents[0]["incident"]["state"] == "open"
        assert documents[1]["incident"]["state"] == "recovered"
        assert documents[0]["incident"]["key"] in first["message"]
        assert documents[0]["incident"]["key"] in last["message"]
    assert driven.complained == []


def test_a_crash_goes_at_once_and_includes_the_hang_of_its_life(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with HttpReceiver() as http, told(tmp_path, {"chat": http.url}) as driven:
        write(driven, path, BEGIN)
        write(driven, path, _rest("2.1 sleep\n2.15 post 1\n", "0 start lv=5\n1 serve 0\n"), for_us=3 * SECOND)
        assert said(driven) == [("chat", "opened", "waiting")]
        write(driven, path, _rest(SEGV, HANGS), for_us=SECOND)
        sent(driven)
        assert said(driven) == [("chat", "opened", "replaced"), ("chat", "opened", "sent")]
        [only] = http.received
        assert "the server crashed" in only["title"]
        assert "1 request that hung in it before is lost" in only["message"]
        write(driven, path, log("0 start lv=5\n1 serve 0\n"))
        sent(driven)
        assert [one["type"] for one in http.received] == ["failure", "success"]
        assert len(set(http.titles())) == 1


def test_a_hang_told_before_its_process_died_is_told_to_be_over(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with HttpReceiver() as http, told(tmp_path, {"chat": http.url}) as driven:
        write(driven, path, BEGIN)
        write(driven, path, _rest("2.1 sleep\n2.15 post 1\n", "0 start lv=5\n1 serve 0\n"), for_us=10 * SECOND)
        sent(driven)
        write(driven, path, _rest(SEGV, HANGS), for_us=SECOND)
        sent(driven)
        assert [row["what"] for row in rows(driven)] == ["opened", "opened", "recovered"]
        hang, crash, over = http.received
        assert over["title"] == hang["title"] != crash["title"]
        assert over["type"] == "success"


def test_what_is_over_when_it_is_seen_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    before = "0 start\n1 serve 0\n"
    with HttpReceiver() as http, told(tmp_path, {"chat": http.url}) as driven:
        write(driven, path, log(before))
        write(driven, path, _rest("2.1 sleep\n9 cancel 2\n" + woken(20, 4), before), for_us=10 * SECOND)
        sent(driven)
        [only] = http.received
        assert only["message"].startswith("HAPPENED, AND IS OVER")
        assert "Next: Repeat the request" in only["message"]


def test_what_is_only_possible_is_never_told(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    before = "0 start\n1 serve 0\n"
    with told(tmp_path, {}, Target(name="all", severity="info", command=("false",))) as driven:
        write(driven, path, log(before))
        # Two launches behind one wake: H7.
        write(driven, path, _rest("2.1 sleep\n20.0 wake\n20.4 ready\n20.41 launch 4\n20.42 launch 6\n", before))
        driven.run_for(20 * SECOND)
        assert rows(driven) == []


def test_the_dead_mans_url_is_asked_for_while_the_daemon_works(tmp_path: Path) -> None:
    with HttpReceiver() as http:
        url = f"http://127.0.0.1:{http.port}/alive"
        with told(tmp_path, {"ping": url}, ping_seconds=60.0) as driven:
            until(driven, lambda: http.asked == 1)
            driven.run_for(50 * SECOND)
            assert http.asked == 1
            until(driven, lambda: http.asked == 2, step_us=SECOND)
        assert driven.complained == []
