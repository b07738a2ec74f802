"""``sleepwatch wake``: wake one server, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleepwatch.cli.options import target_of, target_options

if TYPE_CHECKING:
    from sleepwatch.client.target import Target
    from sleepwatch.wake.attempt import Attempt
    from sleepwatch.wake.sight import Sight

EXIT_NOT_AWAKE = 1


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("url", metavar="URL")
@target_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of sentences.")
@click.pass_context
def wake(
    ctx: click.Context,
    url: str,
    model: str | None,
    kind: str,
    key_file: Path | None,
    ca_file: Path | None,
    insecure: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Wake a llama-server that sleeps, once, so that requests stuck in its queue are answered.

    Asks /props whether it sleeps, which neither wakes it nor resets its idle timer. If it is awake, nothing is sent. If
    it sleeps, one completion of one token is sent, and what lay in the queue runs with it.

    This is a client-side mitigation of a defect in the server, not its fix (llama.cpp issue 29689).

    URL is http://HOST:PORT, https://HOST:PORT or unix:///PATH; for one model of a router, the router's with --model.

    \b
    Examples:
      sleepwatch wake http://127.0.0.1:8080
      sleepwatch wake http://127.0.0.1:8080 --api-key-file /etc/llama/key
      sleepwatch wake http://127.0.0.1:9090 --model gemma

    \b
    Exit codes:
      0  the server is awake: it was, or the request woke it
      1  it is not, or nothing tells
      2  a wrong option
    """
    from sleepwatch.client.exchange import Own
    from sleepwatch.clock import SystemClock
    from sleepwatch.wake import attempt
    from sleepwatch.wake.sight import Sight

    target = target_of(url, model, kind, key_file, ca_file, insecure)
    target.api_key()  # one that cannot be read is a wrong option
    own = Own()
    sight = Sight(target, own)

    def sending(kind: str, _now: object) -> None:
        sight.remember()
        if not as_json:
            waiting = sight.words_before()
            click.echo(f"{target.url} sleeps{waiting}; sending {_REQUESTS[kind]}")

    done = attempt.wake(target, SystemClock(), seconds=timeout, own=own, sending=sending)
    if done.outcome == attempt.WOKE:
        sight.follow(SystemClock())
        if sight.answered:
            done = _with_outcome(done, attempt.RELEASED)
    if as_json:
        _print_json(target, done, sight)
    else:
        click.echo(_sentence(target, done, sight))
    if done.outcome not in attempt.AWAKE:
        ctx.exit(EXIT_NOT_AWAKE)


_REQUESTS = {
    "completion": "a completion of one token",
    "chat": "a chat completion of one token",
    "embedding": "an embedding of one word",
}


def _with_outcome(done: Attempt, outcome: str) -> Attempt:
    import msgspec

    return msgspec.structs.replace(done, outcome=outcome)


def _sentence(target: Target, done: Attempt, sight: Sight) -> str:
    from sleepwatch.wake import attempt

    if done.outcome == attempt.ALREADY_AWAKE:
        return f"{target.url} is awake; nothing was sent"
    if done.outcome in attempt.AWAKE:
        told = "" if done.words == "answered" else f" (it answered {done.words})"
        return f"awake after {(done.took_us or 0) / 1e6:.1f} s{told}{sight.words_after()}"
    before = "nothing was sent" if done.sent is None else f"the request: {done.outcome}"
    return f"not woken, {before}: {done.words}"


def _print_json(target: Target, done: Attempt, sight: Sight) -> None:
    import json

    document = {
        "url": target.url,
        "outcome": done.outcome,
        "words": done.words,
        "kind": done.kind,
        "status": done.status,
        "took_s": None if done.took_us is None else done.took_us / 1e6,
        "waiting": sight.waiting,
        "seen_answered": sight.answered,
        "still_waiting": sight.still,
    }
    click.echo(json.dumps(document, indent=2))
