"""``sleepwatch notify``: try the targets, and look at what has not arrived."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleepwatch import clock
from sleepwatch.cli.options import config_option, database_of, db_option, json_option

if TYPE_CHECKING:
    from sleepwatch.config import Settings, Target
    from sleepwatch.notify.job import Job, Result

EXIT_UNDELIVERED = 1
_PAST_US = 7 * 86_400_000_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def notify() -> None:
    """Try the targets of notifications, and look at what has not arrived.

    Targets stand in the configuration as [[target]] sections, their URLs in a file or credential of their own
    (docs/notify.md).
    """


@notify.command("test")
@config_option
@click.option("--target", "names", multiple=True, metavar="NAME", help="Only this target. May be given again.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only targets with this tag. May be given again.")
def try_targets(path: Path | None, names: tuple[str, ...], tags: tuple[str, ...]) -> None:
    """Send a real message to the targets, and print what each service answered.

    It is sent as the daemon sends, by the same process, with the same time-out, and it is not kept or tried again.
    A command gets a document whose "what" is "test".

    \b
    Examples:
      sleepwatch notify test
      sleepwatch notify test --tag night

    \b
    Exit codes:
      0  all took it
      1  at least one did not
      2  a wrong option or configuration, or no target
    """
    from sleepwatch.config import DEFAULT_PATH, load_settings
    from sleepwatch.errors import SleepwatchError
    from sleepwatch.notify.targets import read_urls

    settings = load_settings(path or DEFAULT_PATH)
    chosen = [
        target
        for target in settings.target
        if (not names or target.name in names) and (not tags or set(tags) & set(target.tags))
    ]
    unknown = set(names) - {target.name for target in settings.target}
    if unknown or not chosen:
        known = ", ".join(target.name for target in settings.target) or "none"
        what = f"there is no target {sorted(unknown)[0]}" if unknown else "there is no target that fits"
        raise SleepwatchError(what, hint=f"targets configured in {path or DEFAULT_PATH}: {known}")
    results = _send(_job(settings, chosen, read_urls(settings.notify)))
    for number, target in enumerate(chosen, start=1):
        result = results.get(number)
        service = f" ({result.service})" if result is not None and result.service else ""
        words = f"{result.outcome}: {result.words}, {result.took_s:.1f} s" if result is not None else "no answer"
        click.echo(f"{target.name}{service}: {words}")
    if any(results.get(number) is None or results[number].outcome != "sent" for number in range(1, len(chosen) + 1)):
        sys.exit(EXIT_UNDELIVERED)


def _job(settings: Settings, targets: list[Target], urls: dict[str, str]) -> Job:
    import os

    from sleepwatch.notify.job import Job, Parcel
    from sleepwatch.notify.message import trial_message

    message = trial_message(os.uname().nodename, clock.wall_us())
    return Job(
        parcels=tuple(
            Parcel.of(message, target, delivery=number, url=urls.get(target.name))
            for number, target in enumerate(targets, start=1)
        ),
        timeout_s=settings.notify.timeout_seconds,
        total_s=settings.notify.timeout_seconds * 2,
    )


def _send(job: Job) -> dict[int, Result]:
    from sleepwatch.clock import SystemClock
    from sleepwatch.notify.courier import Courier

    courier, results = Courier(), {}
    courier.start(job, SystemClock.now().monotonic_us)
    while courier.busy:
        courier.wait(1.0)
        for result in courier.poll(SystemClock.now().monotonic_us):
            results[result.delivery] = result
    if courier.last_words():
        click.echo(f"sleepwatch: the process that sends ended early: {courier.last_words()}", err=True)
    return results


@notify.command("list")
@json_option
@db_option
def list_undelivered(as_json: bool, db: Path | None) -> None:
    """List the messages that wait, and those given up within the last week, with each attempt.

    \b
    Exit codes:
      0  none was given up
      1  at least one was
    """
    from sleepwatch.notify.outbox import attempts, undelivered
    from sleepwatch.store import open_store
    from sleepwatch.store.database import explained

    database = database_of(db)
    now_us = clock.wall_us()
    with open_store(database, read_only=True) as store, explained(database):
        found = [(one, attempts(store, one.delivery)) for one in undelivered(store, now_us - _PAST_US)]
    if as_json:
        from sleepwatch.report import json_text
        from sleepwatch.report.times import rfc3339

        document = {
            "schema_version": 1,
            "messages": [
                {
                    "state": one.state,
                    "target": one.target,
                    "what": one.what,
                    "incident": one.incident,
                    "title": one.title,
                    "queued": rfc3339(one.queued_us),
                    "due": rfc3339(one.due_us) if one.state == "waiting" else None,
                    "given_up": rfc3339(one.done_us),
                    "attempts": [
                        {
                            "begun": rfc3339(each.begun_us),
                            "ended": rfc3339(each.ended_us),
                            "outcome": each.outcome,
                            "words": each.words,
                        }
                        for each in tried
                    ],
                }
                for one, tried in found
            ],
        }
        click.echo(json_text(document), nl=False)
    else:
        from sleepwatch.report.times import wall_words

        for one, tried in found:
            due = f", next try {wall_words(one.due_us)}" if one.state == "waiting" else ""
            click.echo(f"{one.state}: {one.what} to {one.target}, queued {wall_words(one.queued_us)}{due}")
            click.echo(f"  {one.title}")
            for each in tried:
                click.echo(f"  {wall_words(each.begun_us)}  {each.outcome or 'under way'}: {each.words or ''}")
        if not found:
            click.echo("Everything has arrived.", err=True)
    if any(one.state == "undeliverable" for one, _ in found):
        sys.exit(EXIT_UNDELIVERED)
