"""One placed send: a request that reaches the server a chosen time before or after it falls asleep.

The server sleeps a fixed time after its last task (llama.cpp tools/server/server-queue.cpp checks once a second). So a
short completion is sent, its end is read from the log, and the long request goes out at (end + that time + offset).
What is reported is the offset against the moment the server printed ``entering sleeping state``, not the aim.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Any

import msgspec

from sleepwatch import clock
from sleepwatch.errors import SleepwatchError
from sleepwatch.printable import printable
from sleepwatch.race import client
from sleepwatch.race.log import CANCELLED, ENTERING, EXITING, RELEASED, Line
from sleepwatch.race.server import Server

SHORT: dict[str, Any] = {"prompt": "hi", "n_predict": 1}
"""The 1-token completion: wakes a server, resets its idle timer, and has next to no window itself."""

ANSWERED = "answered"
HUNG = "hung"
HUNG_THEN_ANSWERED = "hung-then-answered"
CRASHED = "crashed"
SLOW = "slow"
REFUSED = "refused"

MET_SLEEP = frozenset({HUNG, HUNG_THEN_ANSWERED, CRASHED})
"""Outcomes that only a request which met the sleep can have."""

LOST = MET_SLEEP | {REFUSED}
"""Outcomes a client did not ask for."""

_CONNECT_AHEAD_NS = 60_000_000
_SPIN_NS = 1_500_000
_LOG_SECONDS = 1.0
_WORDS = 160
_CANCEL_SECONDS = 3.0
"""The server looks once a second whether a client has gone (HTTP_POLLING_SECONDS)."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one placed send."""

    trial: int
    life: int
    """Which process of this sweep it met, from 0."""
    offset_us: int
    """When it was sent, relative to the sleep; negative is before."""
    measured: bool
    """The offset is against the printed moment of the sleep; else against the moment it was due (it never came, because
    the request was served first, or its line was lost in a crash)."""
    slept: bool
    """The server fell asleep before it answered."""
    after_task_us: int
    """When it was sent, relative to the end of the task before."""
    sent_us: int
    """Wall time."""
    outcome: str
    latency_us: int
    """To the answer or the connection's end; where there was none, how long it was waited for."""
    status: int | None = None
    error: str | None = None
    """How the connection ended, or the server's own words where it refused."""
    signal: int | None = None
    """The signal the process died of; 0 where it exited by itself."""
    is_sleeping: bool | None = None
    """What ``/props`` said when no answer had come in time."""
    slept_clock_us: int | None = None
    """The server's log clock on the line that says it falls asleep."""

    @property
    def lost(self) -> bool:
        """Whether the request was lost, stuck or refused."""
        return self.outcome in LOST


class Placer:
    """Places sends against the sleeps of one server."""

    def __init__(
        self,
        server: Server,
        prompt: str,
        *,
        warm: bool = False,
        patient: bool = False,
        timeout_seconds: float = 3.0,
        patience_seconds: float = 60.0,
    ) -> None:
        """``warm`` sends the 1-token completion first; ``patient`` frees a hung request with a second one."""
        self.server = server
        self.timeout_seconds = timeout_seconds
        self._body = msgspec.json.encode({"prompt": prompt, "n_predict": 1})
        self._warm = warm
        self._patient = patient
        self._patience_seconds = patience_seconds
        self._sleep_after_ns: deque[int] = deque(maxlen=9)

    @property
    def sleep_after_us(self) -> int:
        """How long after its last task this server falls asleep, as measured so far."""
        return round(statistics.median(self._sleep_after_ns) / 1000)

    def measure_sleep(self, limit_seconds: float) -> int | None:
        """Let the server fall asleep once; how long after its last task it did (µs), or None within the limit."""
        ended_ns, since = self.end_of_task()
        entering = self.server.log.wait_for(ENTERING, since=since, seconds=limit_seconds)
        if entering is None:
            return None
        self._sleep_after_ns.append(self.server.log.written_ns(entering) - ended_ns)
        return self.sleep_after_us

    def end_of_task(self) -> tuple[int, int]:
        """Have a short task served now: when it ended (monotonic clock), and the log's length then.

        Wakes the server, or brings it back, if need be.

        Raises:
            SleepwatchError: it is not served.

        """
        for _ in range(3):
            if self.server.ended(0) is not None:
                self.server.revive()
            since = len(self.server.log)
            reply = client.post(self.server.port, "/completion", SHORT, self._patience_seconds)
            if reply is None:
                raise SleepwatchError(
                    f"a 1-token completion got no answer within {self._patience_seconds:.0f} s",
                    hint="nothing was placed near a sleep then: look at the server's log (--keep-logs)",
                )
            if reply.status is not None:
                released = self.server.log.wait_for(RELEASED, since=since, seconds=_LOG_SECONDS)
                if released is None:
                    raise SleepwatchError(
                        f"a 1-token completion got status {reply.status}, and the log shows no slot for it",
                        hint="the server must serve completions and log at verbosity 3; see its log (--keep-logs)",
                    )
                return self.server.log.written_ns(released), released.index + 1
            self.server.ended(_LOG_SECONDS)
        raise SleepwatchError(
            "a 1-token completion got no answer three times in a row, away from any sleep",
            hint="this is not the race: look at its log (--keep-logs)",
        )

    def place(self, number: int, aim_us: int) -> Trial:
        """Send at ``aim_us`` relative to the next sleep and judge what comes of it.

        Raises:
            SleepwatchError: the server cannot be brought to serve.

        """
        ended_ns, since = self.end_of_task()
        life = self.server.log.life
        due_ns = ended_ns + round(statistics.median(self._sleep_after_ns))
        target_ns = due_ns + aim_us * 1000
        _wait_until(target_ns - _CONNECT_AHEAD_NS)
        body = msgspec.json.encode(SHORT) if self._warm else self._body
        placed = client.Request(self.server.port, "/completion", body)
        try:
            _wait_until(target_ns)
            sent_us, at = clock.wall_us(), len(self.server.log)
            first_ns = placed.send()
            reply = placed.wait(self.timeout_seconds)
            if self._warm and reply is not None and self.served(reply, at):
                placed.close()
                placed = client.Request(self.server.port, "/completion", self._body)
                at = len(self.server.log)
                placed.send()
                reply = placed.wait(self.timeout_seconds)
            verdict = self._judge(placed, reply, since, at)
        finally:
            placed.close()
        if verdict.outcome == HUNG:
            # Until the server has noticed, the request lies in its queue and would be served into the next trial.
            self.server.log.wait_for(CANCELLED, since=verdict.log_index, seconds=_CANCEL_SECONDS)
        entering = self._entering(since, verdict)
        if entering is not None:
            slept_ns = self.server.log.written_ns(entering)
            self._sleep_after_ns.append(slept_ns - ended_ns)
        else:
            slept_ns = due_ns
        return Trial(
            trial=number,
            life=life,
            offset_us=(first_ns - slept_ns) // 1000,
            measured=entering is not None,
            slept=entering is not None or verdict.outcome in MET_SLEEP,
            after_task_us=(first_ns - ended_ns) // 1000,
            sent_us=sent_us,
            outcome=verdict.outcome,
            latency_us=verdict.latency_us,
            status=verdict.status,
            error=verdict.error,
            signal=verdict.signal,
            is_sleeping=verdict.is_sleeping,
            slept_clock_us=entering.clock_us if entering is not None else None,
        )

    def served(self, reply: client.Reply, at: int) -> bool:
        """Whether this is the answer of a slot to a request that was sent when the log was ``at`` long.

        A 400 for a prompt longer than the context is (tools/server/server-context.cpp, update_slots). A handler can
        refuse by itself too: a prompt tokenized with a vocabulary that was just freed has tokens that do not exist.
        """
        if reply.status is None or reply.status == 503:
            return False
        if reply.status == 200 or b"exceed_context_size_error" in reply.body:
            return True
        return self.server.log.wait_for(RELEASED, since=at, seconds=_LOG_SECONDS) is not None

    def _judge(self, request: client.Request, reply: client.Reply | None, since: int, at: int) -> _Verdict:
        """What the client of ``request`` meets, whose ``reply`` came in time or is None.

        ``since`` and ``at`` are the log's length before the awaited sleep, and when the request was sent.
        """
        if reply is not None:
            return self._judge_reply(reply, at)
        sleeping = client.is_sleeping(self.server.port)
        waking = self.server.log.find(EXITING, since) is not None
        if sleeping and not waking:
            if self._patient:
                client.post(self.server.port, "/completion", SHORT, self._patience_seconds)
                reply = request.wait(self._patience_seconds)
                if reply is not None:
                    judged = self._judge_reply(reply, at)
                    outcome = HUNG_THEN_ANSWERED if judged.outcome == ANSWERED else judged.outcome
                    return msgspec.structs.replace(judged, outcome=outcome, is_sleeping=True)
            return _Verdict(outcome=HUNG, latency_us=_since_us(request), is_sleeping=True, log_index=at)
        reply = request.wait(self._patience_seconds)
        if reply is None:
            return _Verdict(outcome=SLOW, latency_us=_since_us(request), is_sleeping=sleeping, log_index=at)
        judged = self._judge_reply(reply, at)
        outcome = SLOW if judged.outcome == ANSWERED else judged.outcome
        return msgspec.structs.replace(judged, outcome=outcome, is_sleeping=sleeping)

    def _judge_reply(self, reply: client.Reply, at: int) -> _Verdict:
        if reply.status is None:
            code = self.server.ended(2.0)
            if code is None:
                return _Verdict(outcome=REFUSED, latency_us=reply.latency_us, error=reply.error, log_index=at)
            return _Verdict(
                outcome=CRASHED, latency_us=reply.latency_us, error=reply.error, signal=max(0, -code), log_index=at
            )
        outcome, error = (ANSWERED, None) if self.served(reply, at) else (REFUSED, _words_of(reply.body))
        return _Verdict(outcome=outcome, latency_us=reply.latency_us, status=reply.status, error=error, log_index=at)

    def _entering(self, since: int, verdict: _Verdict) -> Line | None:
        """The line of the sleep this send was placed against; None where the request was served before it."""
        log = self.server.log
        if verdict.outcome in MET_SLEEP:
            return log.find(ENTERING, since)
        if verdict.outcome == REFUSED:  # no slot marks its end; the next sleep is far
            return log.wait_for(ENTERING, since=since, seconds=0.05)
        released = log.wait_for(RELEASED, since=verdict.log_index, seconds=_LOG_SECONDS)
        entering = log.find(ENTERING, since)
        if entering is not None and (released is None or entering.index < released.index):
            return entering
        return None


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    outcome: str
    latency_us: int
    log_index: int
    """The log's length when the request was sent."""
    status: int | None = None
    error: str | None = None
    """How the connection ended, or the server's own words where it refused."""
    signal: int | None = None
    is_sleeping: bool | None = None


class _Error(msgspec.Struct):
    message: str = ""


class _Refusal(msgspec.Struct):
    error: _Error


def _words_of(body: bytes) -> str | None:
    """The message of an error answer, cut to what a table can hold."""
    try:
        return printable(msgspec.json.decode(body, type=_Refusal).error.message[:_WORDS]) or None
    except msgspec.MsgspecError:
        return None


def _since_us(request: client.Request) -> int:
    return (time.monotonic_ns() - request.sent_ns) // 1000


def _wait_until(moment_ns: int) -> None:
    """Return at this moment, to a few µs: the operating system's sleep alone is late by up to a millisecond."""
    while (left := moment_ns - time.monotonic_ns()) > _SPIN_NS:
        time.sleep((left - _SPIN_NS) / 1e9)
    while time.monotonic_ns() < moment_ns:
        pass
