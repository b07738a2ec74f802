"""``sleepwatch silence``: for a while, let nobody be told."""

from __future__ import annotations

from pathlib import Path

import click

from sleepwatch import clock
from sleepwatch.cli.options import database_of, db_option, json_option
from sleepwatch.model import KINDS


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def silence() -> None:
    """For a while, let nobody be told of some incidents. They are kept and shown all the same.

    What opened during a silence and is still open at its end is told then. Without --db these commands use the
    database of this host's daemon, as `sleepwatch status` does; they must be allowed to write it.
    """


@silence.command("add")
@click.option("--server", metavar="NAME", help="Of this server, or of those that match a pattern.")
@click.option("--kind", type=click.Choice(KINDS), help="Of this kind.")
@click.option("--until", required=True, metavar="TIME", help="Its end: +2h, +45min, tomorrow, '2026-10-03 04:00' …")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for whoever looks.")
@db_option
def add_silence(server: str | None, kind: str | None, until: str, reason: str, db: Path | None) -> None:
    """Begin a silence now.

    \b
    Examples:
      sleepwatch silence add --server llama-gpu0.service --until +2h --reason 'new driver'
      sleepwatch silence add --kind blind --until tomorrow --reason 'the log disk moves'
    """
    from sleepwatch.errors import SleepwatchError
    from sleepwatch.notify.silences import add
    from sleepwatch.printable import printable
    from sleepwatch.report.times import wall_words
    from sleepwatch.store import open_store
    from sleepwatch.times import parse_when

    if server is None and kind is None:
        raise SleepwatchError("a silence of everything", hint="say of what: --server NAME ('*' is all), or --kind KIND")
    now_us = clock.wall_us()
    until_us = parse_when(until, now_us=now_us, zone=clock.local_zone())
    if until_us <= now_us:
        raise SleepwatchError(f"--until {until} is in the past", hint="+2h is in two hours")
    with open_store(database_of(db), create=False) as store, store.transaction() as transaction:
        number = add(
            transaction,
            server=None if server is None else printable(server),
            kind=kind,
            reason=printable(reason),
            until_us=until_us,
        )
    click.echo(f"silence {number} until {wall_words(until_us)}")


@silence.command("list")
@json_option
@db_option
def list_silences(as_json: bool, db: Path | None) -> None:
    """List the silences in force, with how often each has kept something back."""
    from sleepwatch.notify.silences import silences
    from sleepwatch.report.times import rfc3339, wall_words
    from sleepwatch.store import open_store
    from sleepwatch.store.database import explained

    database = database_of(db)
    with open_store(database, read_only=True) as store, explained(database):
        found = silences(store, clock.wall_us())
    if as_json:
        from sleepwatch.report import json_text

        entries = [
            {
                "id": one.id,
                "server": one.server,
                "kind": one.kind,
                "reason": one.reason,
                "added": rfc3339(one.added_us),
                "until": rfc3339(one.until_us),
                "kept_back": one.kept_back,
            }
            for one in found
        ]
        click.echo(json_text({"schema_version": 1, "silences": entries}), nl=False)
        return
    for one in found:
        of = " ".join(filter(None, [one.kind, f"of {one.server}" if one.server else None]))
        times = "nothing kept back" if not one.kept_back else f"{one.kept_back} kept back"
        click.echo(f"{one.id}: {of}, until {wall_words(one.until_us)}, {times}: {one.reason}")
    if not found:
        click.echo("Nothing is silenced.", err=True)


@silence.command("remove")
@click.argument("number", type=int, metavar="ID")
@db_option
def remove_silence(number: int, db: Path | None) -> None:
    """End a silence now. What is still open is told within seconds."""
    from sleepwatch.errors import SleepwatchError
    from sleepwatch.notify.silences import end
    from sleepwatch.store import open_store

    with open_store(database_of(db), create=False) as store, store.transaction() as transaction:
        if not end(transaction, number):
            raise SleepwatchError(
                f"no silence {number} is in force", hint="`sleepwatch silence list` shows those that are"
            )
    click.echo(f"silence {number} has ended")
