"""``sleepwatch warm``: the 1-token completion in front of a real request."""

from __future__ import annotations

import time
from pathlib import Path

import click

from sleepwatch.cli.options import target_of, target_options

EXIT_NOT_WARM = 1


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("url", metavar="URL")
@target_options
@click.option("-q", "--quiet", is_flag=True, help="Say nothing when it is done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a sentence.")
@click.pass_context
def warm(
    ctx: click.Context,
    url: str,
    model: str | None,
    kind: str,
    key_file: Path | None,
    ca_file: Path | None,
    insecure: bool,
    timeout: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make a llama-server with sleep mode ready for a request that must not be lost.

    Sends a completion of one token and waits for its answer. When this ends with 0 the server is awake with a whole
    idle period ahead, so a request sent right behind it cannot meet the sleep. A server that sleeps is woken; one that
    loads its model is waited for. Do not let more time pass than --sleep-idle-seconds between the two.

    This is a client-side mitigation of a defect in the server, not its fix (llama.cpp issue 29689).

    \b
    Examples:
      sleepwatch warm -q http://127.0.0.1:8080 && curl -s http://127.0.0.1:8080/completion -d @request.json
      sleepwatch warm http://127.0.0.1:9090 --model gemma

    \b
    Exit codes:
      0  it is awake, and its idle period has just begun
      1  it is not, or nothing tells
      2  a wrong option
    """
    import json

    from sleepwatch.clock import SystemClock
    from sleepwatch.wake.warm import Warmer

    target = target_of(url, model, kind, key_file, ca_file, insecure)
    done = Warmer(target, SystemClock(), seconds=timeout, pause=time.sleep).warm()
    if as_json:
        document = {"url": target.url, "warm": done.warm, "words": done.words, "kind": done.kind}
        document |= {"requests": done.requests, "took_s": done.took_us / 1e6}
        click.echo(json.dumps(document, indent=2))
    elif not done.warm:
        click.echo(f"sleepwatch: {target.url} is not ready: {done.words}", err=True)
    elif not quiet:
        more = f", by {done.requests} requests" if done.requests > 1 else ""
        click.echo(f"{target.url}: {done.words} ({done.took_us / 1e6:.2f} s{more})")
    if not done.warm:
        ctx.exit(EXIT_NOT_WARM)
