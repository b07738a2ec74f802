"""``sleepwatch scan``: find lost and crashed requests in old logs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from sleepwatch.cli.options import journal_options, output_options, reading, reading_options
from sleepwatch.errors import SourceError

if TYPE_CHECKING:
    from sleepwatch.model import ScanResult
    from sleepwatch.replay import Replay
    from sleepwatch.scan import Options
    from sleepwatch.sources.journal import Way, Which

EXIT_INCIDENTS = 1
EXIT_FAILED = 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, metavar="[PATH... | -]")
@journal_options
@output_options
@click.option("--fail-on-incident", is_flag=True, help="Exit 1 when an incident above 'possible' was found.")
@click.option(
    "-S", "--since", metavar="TIME", help="Only incidents open at this time or later (as journalctl takes it)."
)
@click.option("-U", "--until", metavar="TIME", help="Only incidents open at this time or earlier.")
@click.option(
    "--observations",
    "observed",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="DB",
    help="Put in what `sleepwatch run` saw beside these logs, kept in its database.",
)
@reading_options
@click.option("--ungated", is_flag=True, hidden=True, help="Do not use the vectorised search.")
def scan(
    paths: tuple[str, ...],
    journal: bool,
    directories: tuple[str, ...],
    journal_files: tuple[str, ...],
    units: tuple[str, ...],
    boot: str | None,
    journal_way: str,
    output: str,
    possible: bool,
    raw: bool,
    db: Path | None,
    fail_on_incident: bool,
    since: str | None,
    until: str | None,
    observed: Path | None,
    tz: str | None,
    year: int | None,
    envelope: str | None,
    ungated: bool,
) -> None:
    """Find requests that llama-server's sleep mode lost or crashed on, in old logs.

    Reads files (also .gz, .xz, .zst), directories of rotated files, or standard input (-), bare or as journald, docker,
    Kubernetes, syslog and others kept them, and systemd's journal itself. Prints one block per incident: what happened,
    the lines that prove it, and what to do. Nothing is written unless --db names a database.

    \b
    Examples:
      sleepwatch scan /var/log/llama-server.log
      sleepwatch scan --json old/*.log.gz > found.json
      docker logs llama 2>&1 | sleepwatch scan -
      sleepwatch scan --journal -u 'llama*' -b 0
      sleepwatch scan -D /var/log/journal/remote --since yesterday
      sleepwatch scan --db sleepwatch.db --fail-on-incident server.log

    \b
    Exit codes:
      0  done
      1  incidents were found (only with --fail-on-incident)
      2  an error: a wrong option, a source or database that cannot be used
    """
    from sleepwatch.scan import Scan
    from sleepwatch.sources.journal_parts import Selection
    from sleepwatch.sources.journal_units import Units

    journals = _journals(journal, directories, journal_files)
    if (units or boot is not None) and not journals:
        raise click.UsageError("--unit and --boot choose from a journal: name it with --journal or --directory")
    if not paths and not journals:
        raise click.UsageError("name a log, or --journal")
    options = _options(reading(tz, year, envelope), since, until, tz, vectorised=not ungated)
    work = Scan(options, watch=_replay(observed) if observed is not None else None)
    if not work.vectorised and not ungated:
        click.echo("sleepwatch: the hyperscan library does not load here; reading is slower, not different", err=True)
    with _Progress() as progress:
        work.read_paths(paths, progress=progress.show if progress.wanted else None)
    for which in journals:
        work.read_journal(which, Selection(units=Units(units), boot=boot), way=cast("Way", journal_way))
    result = work.result()
    if db is not None:
        from sleepwatch.store import open_store

        with open_store(db) as store:
            store.record(result, work.rules.digest)
    _print(result, output, possible=possible, raw=raw, in_time=since is not None or until is not None)
    for name, why in result.failed:
        click.echo(f"sleepwatch: {why}" if name in why else f"sleepwatch: {name}: {why}", err=True)
    if result.failed:
        sys.exit(EXIT_FAILED)
    if fail_on_incident and any(incident.confidence != "possible" for incident in result.incidents):
        sys.exit(EXIT_INCIDENTS)


def _replay(database: Path) -> Replay:
    from sleepwatch.replay import Replay
    from sleepwatch.store import open_store
    from sleepwatch.store.witness import observations

    with open_store(database, read_only=True) as store:
        return Replay(observations(store))


def _journals(journal: bool, directories: tuple[str, ...], files: tuple[str, ...]) -> list[Which]:
    from sleepwatch.sources.journal import Which

    which = [Which()] if journal and not directories and not files else []
    which += [Which(directory=directory) for directory in directories]
    return which + ([Which(files=files)] if files else [])


def _options(options: Options, since: str | None, until: str | None, tz: str | None, *, vectorised: bool) -> Options:
    import msgspec

    from sleepwatch import clock
    from sleepwatch.times import parse_when

    now, zone = clock.wall_us(), clock.local_zone() if tz is None else options.zone
    return msgspec.structs.replace(
        options,
        vectorised=vectorised,
        since_us=None if since is None else parse_when(since, now_us=now, zone=zone),
        until_us=None if until is None else parse_when(until, now_us=now, zone=zone),
    )


def _print(result: ScanResult, output: str, *, possible: bool, raw: bool, in_time: bool) -> None:
    from sleepwatch import report

    if not result.sources:
        return
    undated = [s.source for s in result.sources if s.first_us is None]
    if in_time and undated:
        click.echo(f"sleepwatch: no wall times in {', '.join(undated)}: nothing there is left out by time", err=True)
    texts = report.raw_texts(result, _open_again) if raw else None
    if output == "jsonl":
        for line in report.jsonl(report.line_numbers(result, _open_again), possible=possible, raw=texts):
            click.echo(line)
    elif output == "json":
        numbered = report.line_numbers(result, _open_again)
        click.echo(report.json_text(report.document(numbered, possible=possible, raw=texts)), nl=False)
    else:
        from sleepwatch.report.table import Style

        style = Style.of(sys.stdout, dict(os.environ))
        numbered = report.line_numbers(result, _open_again)
        for line in report.table(numbered, possible=possible, raw=texts, style=style):
            click.echo(line, color=True)


def _open_again(source: str) -> BinaryIO | None:
    """A source for a second look; standard input has none, and a journal no lines to count."""
    from sleepwatch.model import LIVE
    from sleepwatch.sources.archives import open_plain
    from sleepwatch.sources.journal import NAME

    if source == "-" or source.startswith((NAME, LIVE)):
        return None
    try:
        return open_plain(Path(source))
    except SourceError:
        return None


class _Progress:
    """A progress bar on standard error, where that is a terminal."""

    def __init__(self) -> None:
        self.wanted = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        if self.wanted:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._tasks: dict[str, Any] = {}
        return self

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            self._bar.stop()

    def show(self, source: str, done: int, size: int | None) -> None:
        """How far one source is."""
        if source not in self._tasks:
            self._tasks[source] = self._bar.add_task(Path(source).name, total=size)
        self._bar.update(self._tasks[source], completed=done, total=size)
