"""The whole measurement: start a server, measure it awake, place the sends, say what came of them."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from sleepwatch import clock
from sleepwatch.errors import SleepwatchError
from sleepwatch.printable import printable
from sleepwatch.race import client, prompt
from sleepwatch.race.keep import Keeper
from sleepwatch.race.server import Launch, Server
from sleepwatch.race.trial import SHORT, Placer, Trial
from sleepwatch.race.window import Search

DEFAULT_HI_US = 30_000
_LO_US = -60_000
"""How early to begin where the prompt is short; a longer one begins at its own time to be served."""

_PATIENCE_SECONDS = 60.0
_SLEEP_LATE_SECONDS = 5.0
"""How much later than told a server may fall asleep (it looks once a second) before it counts as never sleeping."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    launch: Launch
    prompt_tokens: int = 18_000
    trials: int = 60
    lo_us: int | None = None
    """Earliest offset; None finds it, from the prompt's own time and from what is seen."""
    hi_us: int = DEFAULT_HI_US
    warm: bool = False
    patient: bool = False
    timeout_seconds: float = 3.0
    keep: Path | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The server as measured before the first placed send."""

    build: str
    prompt_tokens: int
    prompt_counted: bool
    """False where ``/tokenize`` gave no answer: then the number is the one asked for."""
    model: dict[str, Any]
    """What ``/v1/models`` says of the model: n_params, size, n_vocab …"""
    sleep_after_us: int
    """How long after its last task it falls asleep."""
    awake_us: int
    """How long the request takes while the server is awake."""
    awake_status: int
    wake_us: int
    """How long a 1-token completion takes that wakes it."""
    timeout_us: int
    """How long an answer is waited for before ``/props`` is asked."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    plan: Plan
    facts: Facts
    machine: dict[str, Any]
    started_us: int
    trials: tuple[Trial, ...]
    lives: int
    interrupted: int | None = None
    """The signal that ended it early."""
    problem: tuple[str, str | None] | None = None
    """What ended it early, after something was measured: the sentence and its hint."""

    @property
    def ended_early(self) -> bool:
        """Whether fewer sends were made than planned."""
        return self.interrupted is not None or self.problem is not None


class Progress(Protocol):
    """Told as the sweep goes on."""

    def stage(self, words: str) -> None:
        """A preparing step begins."""

    def trial(self, trial: Trial, done: int) -> None:
        """A send has been judged."""


def run(plan: Plan, progress: Progress, *, server_class: Callable[..., Server] = Server) -> Sweep:
    """Carry out ``plan``.

    A KeyboardInterrupt once the sends have begun, and an error after the first of them, end it with what was measured.

    Raises:
        SleepwatchError: the server cannot be started, never sleeps, or cannot be measured.

    """
    started_us = clock.wall_us()
    with contextlib.ExitStack() as stack:
        keeper = stack.enter_context(Keeper(plan.keep)) if plan.keep is not None else None
        progress.stage("starting the server")
        server = stack.enter_context(server_class(plan.launch, keep=keeper.log if keeper is not None else None))
        progress.stage("measuring")
        text, tokens, counted = _make_prompt(server, plan.prompt_tokens)
        placer = Placer(server, text, warm=plan.warm, patient=plan.patient, patience_seconds=_PATIENCE_SECONDS)
        facts = _measure(plan, server, placer, text, tokens, counted)
        placer.timeout_seconds = facts.timeout_us / 1e6
        search = _search(plan, facts)
        trials: list[Trial] = []
        interrupted: int | None = None
        problem: tuple[str, str | None] | None = None
        try:
            while (aim_us := search.next()) is not None:
                trial = placer.place(len(trials), aim_us)
                search.record(trial.offset_us, kind(trial), bad=trial.lost)
                trials.append(trial)
                if keeper is not None:
                    keeper.trial(trial, server.keep_problem)
                progress.trial(trial, len(trials))
        except KeyboardInterrupt as stop:
            interrupted = int(stop.args[0]) if stop.args else signal.SIGINT
        except SleepwatchError as error:
            if not trials:
                raise
            problem = (error.message, error.hint)
        server.stop()
        sweep = Sweep(
            plan=plan,
            facts=facts,
            machine=machine(),
            started_us=started_us,
            trials=tuple(trials),
            lives=len(server.lives),
            interrupted=interrupted,
            problem=problem,
        )
        if keeper is not None:
            keeper.finish(server, build=facts.build, patient=plan.patient, note=_note(sweep))
    return sweep


def kind(trial: Trial) -> str:
    """The outcome as the table groups it: an answer before the sleep and one after a wake are different things."""
    if trial.outcome == "answered":
        return "answered-woken" if trial.slept else "answered-awake"
    return trial.outcome


def _note(sweep: Sweep) -> str:
    how = "a 1-token completion in front of each send" if sweep.plan.warm else "one send against each sleep"
    after = "a second request frees each hung one" if sweep.plan.patient else "clients give up, the server sleeps on"
    end = "; ended early" if sweep.ended_early else ""
    return f"{len(sweep.trials)} sends of {sweep.facts.prompt_tokens} tokens: {how}; {after}{end}"


def _make_prompt(server: Server, wanted: int) -> tuple[str, int, bool]:
    def count(text: str) -> int:
        # Counting posts no task: without one just before, the server may fall asleep under the tokenizer here too.
        client.post(server.port, "/completion", SHORT, _PATIENCE_SECONDS)
        return client.count_tokens(server.port, text)

    try:
        text, tokens = prompt.of_tokens(wanted, count)
    except SleepwatchError:
        if server.ended(0.5) is not None:
            raise
        text, tokens = prompt.of_tokens(wanted, lambda text: len(text) // 4)
        return text, tokens, False
    return text, tokens, True


def _measure(plan: Plan, server: Server, placer: Placer, text: str, tokens: int, counted: bool) -> Facts:
    awake = sorted((_served_awake(server, placer, text) for _ in range(3)), key=lambda reply: reply.latency_us)[1]
    sleep_after_us = placer.measure_sleep(plan.launch.sleep_seconds + _SLEEP_LATE_SECONDS)
    if sleep_after_us is None:
        raise _never_slept(plan, server)
    at = len(server.log)
    wake = client.post(server.port, "/completion", SHORT, _PATIENCE_SECONDS)
    if wake is None or not placer.served(wake, at):
        raise SleepwatchError("the server did not wake for a 1-token completion", hint="look at its log (--keep-logs)")
    return Facts(
        build=_build(server, plan.launch.program),
        prompt_tokens=tokens,
        prompt_counted=counted,
        model=_model(server),
        sleep_after_us=sleep_after_us,
        awake_us=awake.latency_us,
        awake_status=awake.status or 0,
        wake_us=wake.latency_us,
        timeout_us=max(round(plan.timeout_seconds * 1e6), 3 * wake.latency_us),
    )


def _served_awake(server: Server, placer: Placer, text: str) -> client.Reply:
    placer.end_of_task()
    at = len(server.log)
    reply = client.post(server.port, "/completion", {"prompt": text, "n_predict": 1}, _PATIENCE_SECONDS)
    if reply is not None and placer.served(reply, at):
        return reply
    what = "no answer" if reply is None else reply.error or f"status {reply.status}"
    raise SleepwatchError(
        f"the request cannot be measured: a server that is awake gave {what}",
        hint="a prompt longer than the context is answered at once, which keeps sends short: see --context",
    )


def _never_slept(plan: Plan, server: Server) -> SleepwatchError:
    if client.is_sleeping(server.port):
        return SleepwatchError(
            "the server sleeps, but its log does not say so",
            hint="sends are placed against that line: its log must be on, at verbosity 3 or more",
        )
    return SleepwatchError(
        f"the server did not fall asleep within {plan.launch.sleep_seconds + _SLEEP_LATE_SECONDS:.0f} s "
        f"although it was told --sleep-idle-seconds {plan.launch.sleep_seconds}",
        hint="it has no sleep mode, or something keeps it awake (builds before b10519: any reader of /metrics)",
    )


def _search(plan: Plan, facts: Facts) -> Search:
    # The window is the time between the wake check and the post: about the time the request takes when it is refused.
    lowest_us = -round(0.85 * facts.sleep_after_us)
    found_us = min(plan.hi_us, max(lowest_us, min(_LO_US, -round(1.3 * facts.awake_us))))
    lo_us = found_us if plan.lo_us is None else plan.lo_us
    if plan.warm:
        # The 1-token completion has a window too, a fraction of a millisecond wide. A search would find it and stay in
        # it; what is asked is how often a request that is sent at any time is lost.
        return Search(lo_us, plan.hi_us, plan.trials, even=True)
    return Search(lo_us, plan.hi_us, plan.trials, lowest_us=lowest_us if plan.lo_us is None else None)


def _build(server: Server, program: Path) -> str:
    """What the server calls itself: ``/props``, or ``--version`` where that holds no number."""
    said = str((client.props(server.port) or {}).get("build_info") or "")
    if said and not said.startswith("b0-"):
        return said
    try:
        done = subprocess.run(
            [str(program), "--version"], capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return said or "unknown"
    found = re.search(rb"^version: (.+)$", done.stdout + done.stderr, re.MULTILINE)
    return printable(found.group(1).decode(errors="replace")) if found else said or "unknown"


def _model(server: Server) -> dict[str, Any]:
    answer = client.get(server.port, "/v1/models", 5.0)
    try:
        return msgspec.json.decode(answer[1], type=_Models).data[0].meta if answer is not None else {}
    except (msgspec.MsgspecError, IndexError):
        return {}


class _Model(msgspec.Struct):
    meta: dict[str, int | float | str | None] = {}


class _Models(msgspec.Struct):
    data: list[_Model]


def machine() -> dict[str, Any]:
    """The machine as far as it matters to a race: cores this process may use, system, architecture."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
    }
