"""The daemon tells real receivers, over HTTP and by mail, and by a command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec

from sleepwatch.config import FileSource, Metrics, Target
from tests.cases.deaths import SEGV
from tests.cases.hangs import woken
from tests.cases.made import log
from tests.daemon.driving import SECOND, Driven
from tests.notify.office import FakeCourier
from tests.notify.telling import desk, rows, said, sent, told, until, write
from tests.support.receivers import HttpReceiver, SmtpReceiver

ROOT = Path(__file__).parents[2]
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


def _fake(driven: Driven) -> FakeCourier:
    fake = FakeCourier(lambda parcel: "sent")
    desk(driven.service)._courier = fake  # type: ignore[assignment]
    return fake


PROGRAM = Target(name="program", command=("true",))


def test_1400_restarts_of_one_server_are_a_handful_of_messages(tmp_path: Path) -> None:
    """Each death with its signal, a second or more after the last; then it serves."""
    path = tmp_path / "server.log"
    with told(tmp_path, {}, PROGRAM) as driven:
        fake = _fake(driven)
        write(driven, path, log("0 start\n1 serve 0\n"))
        for number in range(1_400):
            # Two processes do not begin in the same microsecond.
            dying = log(f"{0.002 + number / 1e6:.6f} init\n0.008 load\n" + SEGV)
            write(driven, path, dying, for_us=SECOND if number % 100 else 5 * SECOND)
        write(driven, path, log("0 start\n1 serve 0\n"), for_us=600 * SECOND)
        assert len(fake.received) <= 6, [parcel.short for parcel in fake.received]
        loops = [row for row in rows(driven) if "dies again and again" in row["short"]]
        assert [row["what"] for row in loops] == ["escalated"]
        [last] = [row for row in rows(driven) if row["incident"] == loops[0]["incident"]][-1:]
        assert last["what"] == "recovered"
        assert "1400 times in a row" in last["short"]


def test_what_happened_before_the_first_start_is_told_if_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    # One request waits still; an earlier one was lost and is over.
    before = "0 start lv=5\n1 serve 0\n2.1 sleep\n2.15 post 1\n6.0 ask\n6.001 wake\n6.4 ready\n6.41 serve 1\n"
    path.write_bytes(log(before + "8 sleep\n8.05 post 3\n"))
    with told(tmp_path, {}, PROGRAM) as driven:
        fake = _fake(driven)
        driven.run_for(30 * SECOND)
        assert [parcel.short.split("\n")[0] for parcel in fake.received] == ["NEW: critical"]
        assert "task 3" in fake.received[0].short


def test_what_happened_while_it_was_not_running_is_one_summary(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    begin = "0 start\n1 serve 0\n"
    with told(tmp_path, {}, PROGRAM) as driven:
        write(driven, path, log(begin))
        clock = driven.clock
    missed = _rest("2.1 sleep\n9 cancel 2\n" + woken(20, 4) + "21.5 sleep\n31 cancel 6\n" + woken(40, 8), begin)
    with path.open("ab") as file:
        file.write(missed)
    clock.advance(3_600 * SECOND)
    with told(tmp_path, {}, PROGRAM, clock=clock) as driven:
        fake = _fake(driven)
        driven.run_for(60 * SECOND)
        [summary] = fake.received
        assert summary.title.endswith(": 2 incidents, none still open")
        assert summary.short.startswith("While sleepwatch was not running")
        assert summary.short.count("over, its client gave up unanswered") == 2
        # And now it watches again.
        write(driven, path, _rest("41.5 sleep\n51 cancel 10\n", ""), for_us=30 * SECOND)
        assert [row["what"] for row in rows(driven)] == ["summary", "passed"]


def test_what_is_found_in_a_log_that_comes_later_is_told_as_it_happens(tmp_path: Path) -> None:
    with told(tmp_path, {}, PROGRAM) as driven:
        driven.service.settings = msgspec.structs.replace(
            driven.service.settings, file=(FileSource(path=str(tmp_path / "*.log")),)
        )
        driven.service._watch_instead(driven.service.settings, driven.service._found, driven.clock.now())
        fake = _fake(driven)
        driven.run_for(10 * SECOND)
        (tmp_path / "later.log").write_bytes(log("0 start\n1 serve 0\n2.1 sleep\n" + SEGV + "0 start\n1 serve 0\n"))
        driven.run_for(20 * SECOND)
        assert [parcel.short.split("\n")[0] for parcel in fake.received] == [
            "HAPPENED, AND IS OVER: the server runs again"
        ]


def test_targets_are_taken_over_by_a_reload(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with told(tmp_path, {}, PROGRAM) as driven:
        fake = _fake(driven)
        service = driven.service
        more = (PROGRAM, msgspec.structs.replace(PROGRAM, name="another"))
        service._reload = lambda: msgspec.structs.replace(service.settings, target=more)
        service._take_over_settings()
        write(driven, path, log("0 start\n1 serve 0\n"))
        write(driven, path, log(SEGV))
        assert sorted(parcel.target for parcel in fake.received) == ["another", "program"]


def test_without_targets_nothing_is_loaded_that_tells(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from sleepwatch.daemon.service import Service\n"
        "from sleepwatch.config import Settings\n"
        "from sleepwatch.clock import SystemClock\n"
        "from pathlib import Path\n"
        f"service = Service(Settings(), Path({str(tmp_path / 'x.db')!r}), SystemClock(), say=print, complain=print)\n"
        "service.start(); service.step(); service.stop()\n"
        "assert not {'apprise', 'sleepwatch.notify.desk', 'requests'} & set(sys.modules)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "CREDENTIALS_DIRECTORY"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=environment, cwd=ROOT)


def test_it_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with told(tmp_path, {}, PROGRAM) as driven:
        fake = _fake(driven)
        outcomes = iter(["failed", "timeout"])
        fake.outcome = lambda parcel: next(outcomes, "sent")
        service = driven.service
        textfile = tmp_path / "figures.prom"
        service._publisher.offer(Metrics(textfile=str(textfile)), service._words)
        write(driven, path, log("0 start\n1 serve 0\n"))
        write(driven, path, log(SEGV), for_us=20 * SECOND)
        text = textfile.read_text()
        assert 'sleepwatch_notifications_total{outcome="failed"} 1.0' in text
        assert 'sleepwatch_notifications_total{outcome="sent"} 0.0' in text
        [oldest] = re.findall(r"^sleepwatch_outbox_oldest_seconds (.*)$", text, re.MULTILINE)
        assert 0 < float(oldest) <= 20
        driven.run_for(600 * SECOND)
        text = textfile.read_text()
        assert 'sleepwatch_notifications_total{outcome="timeout"} 1.0' in text
        assert 'sleepwatch_notifications_total{outcome="sent"} 1.0' in text
        assert "sleepwatch_outbox_oldest_seconds 0.0" in text


def test_the_dead_mans_url_is_asked_for_while_the_daemon_works(tmp_path: Path) -> None:
    with HttpReceiver() as http:
        url = f"http://127.0.0.1:{http.port}/alive"
        with told(tmp_path, {"ping": url}, ping_seconds=60.0) as driven:
            until(driven, lambda: http.asked == 1)
            driven.run_for(50 * SECOND)
            assert http.asked == 1
            until(driven, lambda: http.asked == 2, step_us=SECOND)
        assert driven.complained == []
