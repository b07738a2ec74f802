"""Which process is a life's, what is said of it, how its end comes back (made lives, real sockets and processes)."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sleepwatch.config import Witness
from sleepwatch.engine import Ask, Engine, Now
from sleepwatch.engine.lives import LifeState
from sleepwatch.hosts.options import parse_arguments
from sleepwatch.hosts.processes import ServerProcess
from sleepwatch.hosts.sockets import Listening
from sleepwatch.model import Event, Origin
from sleepwatch.rules import load_incidents
from sleepwatch.scan import engine_words
from sleepwatch.witness import observing, sockets
from sleepwatch.witness.observing import Witnesses, look_at
from tests.cases.made import log as made_log
from tests.engine.feeding import events
from tests.witness.test_sockets import Pair, _listening

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")


class Source:
    """A source's watch with one life: what it is given is kept."""

    def __init__(self, port: int | None) -> None:
        self.engine = Engine(engine_words(load_incidents()))
        script = "0 start port={port}\n1 serve 0\n" if port is not None else "1 serve 0\n1.5 serve 1\n"
        for event in events(made_log(script.format(port=port))):
            self.engine.feed(event)
        self.caught_up = True
        self.settled = True
        self.given: list[Event] = []
        self.clock_us: int | None = None

    def servers(self) -> Iterator[LifeState]:
        return iter(self.engine.lives)

    def log_clock_us(self, life: LifeState, now: Now) -> int | None:
        return self.clock_us

    def witnessed(self, event: Event, ask: Ask | None = None) -> None:
        self.given.append(event)


def process(pid: int, port: int | None = None, *, started: int = 0) -> ServerProcess:
    """A server that was found."""
    fields = {field.name: None for field in msgspec.structs.fields(ServerProcess) if field.required}
    made = ServerProcess(**{**fields, "pid": pid, "parent": 1, "uid": 0, "started": started, "arguments": ()})  # type: ignore[arg-type]
    listening = (Listening(1, 0, "127.0.0.1", port),) if port is not None else ()
    return msgspec.structs.replace(made, listening=listening, options=parse_arguments(()), own_network=False)


def now(second: float = 100) -> Now:
    return Now(round(second * 1e6), round(second * 1e6))


def ask(source: Source, **fields: object) -> Ask:
    (life,) = source.engine.lives
    made = Ask(
        what="snapshot", life=life.key, server="server", port=life.ledger.port, pid=None, url=life.ledger.url,
        origin=Origin(source="server.log"), sleep="2100000", place=0, clock_us=2_100_000, asleep_us=0,
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def test_its_process_is_the_one_that_listens_there_and_its_end_comes_back() -> None:
    with subprocess.Popen(["sleep", "1000"]) as server:
        source = Source(8080)
        witnesses = Witnesses(Witness(), find=lambda proc: [process(1, 9090), process(server.pid, 8080)])
        witnesses.attend(source, now())
        (known,) = witnesses.servers()
        assert (known.pid, known.port, known.unwatched) == (server.pid, 8080, None)
        assert witnesses.filenos()
        witnesses.deliver(source, now())
        assert source.given == []
        server.send_signal(signal.SIGSEGV)
        server.wait()
        end = time.monotonic() + 20
        while not source.given:
            assert time.monotonic() < end
            witnesses.deliver(source, now(100 + 20 - (end - time.monotonic())))
    (event,) = source.given
    assert event.type == "process.exit"
    assert (event.fields["pid"], event.fields.get("signal", 11)) == (server.pid, 11)
    assert witnesses.filenos() == []
    witnesses.close()


def test_its_last_lines_are_waited_for() -> None:
    with subprocess.Popen(["true"]) as server:
        source = Source(8080)
        source.settled = False
        witnesses = Witnesses(Witness(), find=lambda proc: [process(server.pid, 8080)])
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        witnesses.attend(source, now())
    witnesses.deliver(source, now(100))
    assert source.given == []
    assert witnesses.wants_us() == observing.AGAIN_US
    witnesses.deliver(source, now(103))
    assert len(source.given) == 1
    witnesses.close()


def test_a_process_that_is_younger_than_the_log_is_another() -> None:
    source = Source(8080)
    source.clock_us = 10**12
    up = float(Path("/proc/uptime").read_text().split()[0])
    young = process(os.getpid(), 8080, started=round((up - 5) * observing.TICKS))
    witnesses = Witnesses(Witness(), find=lambda proc: [young])
    witnesses.attend(source, now())
    (known,) = witnesses.servers()
    assert known.pid is None
    assert known.unwatched is not None
    witnesses.close()


def test_a_kernel_that_tells_nothing_is_said_of_each_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> socket.socket:
        """A fake: what the rights record-only and notify come to."""
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    source = Source(8080)
    witnesses = Witnesses(Witness(), find=lambda proc: [process(os.getpid(), 8080)])
    with monkeypatch.context() as sandbox:
        sandbox.setattr(sockets, "_netlink", refused)
        witnesses.attend(source, now())
        (known,) = witnesses.servers()
        assert known.hidden is not None
        assert "RestrictAddressFamilies= must list AF_NETLINK" in known.hidden
        assert known.unwatched is None
    witnesses.answer(source, ask(source), now())  # type: ignore[arg-type]
    (known,) = witnesses.servers()
    assert known.hidden is None
    witnesses.close()


def test_what_is_switched_off_is_said_of_each_server() -> None:
    source = Source(8080)
    witnesses = Witnesses(Witness(connections=False, exits=False), find=lambda proc: [process(os.getpid(), 8080)])
    witnesses.attend(source, now())
    (known,) = witnesses.servers()
    assert (known.hidden, known.unwatched) == (observing.OFF, observing.OFF)
    witnesses.close()


def test_two_that_share_a_port_cannot_be_told_apart() -> None:
    source = Source(8080)
    witnesses = Witnesses(Witness(), find=lambda proc: [process(1, 8080), process(2, 8080)])
    witnesses.attend(source, now())
    assert [one.pid for one in witnesses.servers()] == [None]


def test_nothing_is_looked_for_in_a_log_that_is_not_read_to_its_end() -> None:
    source = Source(8080)
    source.caught_up = False
    Witnesses(Witness(), find=lambda proc: pytest.fail("looked")).attend(source, now())


def test_a_life_that_has_ended_is_let_go() -> None:
    source = Source(8080)
    witnesses = Witnesses(Witness(), find=lambda proc: [process(os.getpid(), 8080)])
    witnesses.attend(source, now())
    source.engine.finish()
    witnesses.attend(source, now())
    assert witnesses.servers() == []
    assert witnesses.filenos() == []


def test_a_look_and_a_hint() -> None:
    with _listening() as listener:
        pair = Pair(listener)
        pair.asks()
        source = Source(pair.port)
        witnesses = Witnesses(Witness(), find=lambda proc: [])
        answer = witnesses.answer(source, ask(source), now())
        assert answer is not None
        (one,) = answer.fields["connections"]
        assert (one["peer"], one["pending"], one["received"]) == (f"127.0.0.1:{pair.client.getsockname()[1]}", True, 16)
        witnesses.hint([pair.port], now())
        pair.answers()
        hinted = witnesses.answer(source, ask(source), now())
        assert hinted is not None
        assert len(hinted.fields["connections"]) == 1, "as it was when the words came"
        later = witnesses.answer(source, ask(source), now())
        assert later is not None
        assert later.fields["connections"] == []
        pair.close()


def test_our_own_sockets_are_no_evidence() -> None:
    with _listening() as listener:
        pair = Pair(listener)
        pair.asks()
        source = Source(pair.port)
        witnesses = Witnesses(Witness(), find=lambda proc: [])
        with witnesses.ours.holding(pair.client.getsockname()):
            answer = witnesses.answer(source, ask(source), now())
        assert answer is not None
        assert answer.fields["connections"] == []
        pair.close()


def test_what_cannot_be_seen_is_said_with_what_to_grant() -> None:
    with _listening() as listener:
        port = listener.getsockname()[1]
    source = Source(port)
    witnesses = Witnesses(Witness(), find=lambda proc: [])
    for fields, words in (
        ({}, "had ended"),
        ({"url": "unix:///run/llama.sock"}, "--host 127.0.0.1"),
        ({"port": None, "url": None}, "not known on which port"),
    ):
        answer = witnesses.answer(source, ask(source, **fields), now())
        assert answer is not None
        assert words in answer.fields["unseen"]
    assert not look_at(port).listening


def test_a_server_in_another_network_is_not_taken_for_whoever_has_its_port_here() -> None:
    with _listening() as listener:
        port = listener.getsockname()[1]
        source = Source(port)
        (life,) = source.engine.lives
        life.origin.container = "llama"
        witnesses = Witnesses(Witness(), find=lambda proc: [])
        witnesses.attend(source, now())
        answer = witnesses.answer(source, ask(source), now())
        assert answer is not None
        assert "--network container:NAME" in answer.fields["unseen"]


def test_one_that_is_not_found_is_looked_for_ever_more_rarely() -> None:
    source, looks = Source(8080), []
    witnesses = Witnesses(Witness(), find=lambda proc: looks.append(1) or [])
    for second in range(100, 100 + 3_600, 5):
        witnesses.attend(source, now(second))
    assert len(looks) <= 12


def test_props_are_not_asked_unless_that_is_set() -> None:
    source = Source(1)
    assert Witnesses(Witness(), find=lambda proc: []).answer(source, ask(source, what="props"), now()) is None


def test_its_end_tells_of_its_command_line_that_it_sleeps_and_no_more() -> None:
    with subprocess.Popen(["true"]) as server:
        source = Source(8080)
        options = parse_arguments(("--sleep-idle-seconds", "7", "--api-key", "secret"))
        made = msgspec.structs.replace(process(server.pid, 8080), options=options)
        witnesses = Witnesses(Witness(), find=lambda proc: [made])
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        witnesses.attend(source, now())
        witnesses.deliver(source, now(), at_once=True)
    (event,) = source.given
    assert event.fields["command"] == "llama-server --sleep-idle-seconds 7"
    assert "secret" not in str(event)
    witnesses.close()
