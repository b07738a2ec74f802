"""``sleepwatch run``: the daemon."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

import click

from sleepwatch.cli.options import db_option

EXIT_CANNOT = 3


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--config", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Configuration.")
@click.option("--file", "files", multiple=True, metavar="LOG", help="Follow this log or pattern. May be given again.")
@click.option(
    "--unit", "units", multiple=True, metavar="UNIT", help="Follow this systemd unit in the journal, or a pattern."
)
@db_option
def run(config: Path | None, files: tuple[str, ...], units: tuple[str, ...], db: Path | None) -> None:
    """Follow logs, and keep and print every incident as it opens, changes and closes.

    Reads /etc/sleepwatch/sleepwatch.toml, or the file given with -c; without one, what --file and --unit name. Where
    nothing names a log, it finds the llama-servers that run here and watches their logs, and says which of them it
    cannot watch. It goes on where the last run was, also in files that were rotated meanwhile; the first time, it
    begins at the start of the server's current life.

    \b
    Examples:
      sleepwatch run
      sleepwatch run --file /var/log/llama-server.log
      sleepwatch run --unit 'llama*'
      sleepwatch run -c sleepwatch.toml

    \b
    Signals:
      SIGTERM, SIGINT   finish what is begun and stop; a second one stops at once
      SIGHUP            read the configuration again; a wrong one is refused and said

    \b
    Exit codes:
      0  stopped as it was told
      2  a wrong option or configuration
      3  it could not start or go on: the database, or another run
    """
    from sleepwatch.clock import SystemClock
    from sleepwatch.config import (
        DEFAULT_PATH,
        ConfigError,
        FileSource,
        Settings,
        UnitSource,
        is_configured,
        load_settings,
    )
    from sleepwatch.daemon.service import Service
    from sleepwatch.daemon.surroundings import Surroundings
    from sleepwatch.errors import SleepwatchError
    from sleepwatch.hosts.processes import PROC
    from sleepwatch.printable import printable
    from sleepwatch.store import default_path
    from sleepwatch.witness.observing import Witnesses

    named = tuple(FileSource(path=str(Path(name).absolute())) for name in files)
    named_units = tuple(UnitSource(name=name) for name in units)
    given = bool(named or named_units)

    def say(line: str) -> None:
        click.echo(printable(line))

    def settings_now() -> Settings:
        import msgspec

        if config is not None:
            read = load_settings(config)
        else:
            read = load_settings(DEFAULT_PATH) if not given and is_configured() else Settings()
        return msgspec.structs.replace(read, file=(*read.file, *named), unit=(*read.unit, *named_units))

    settings = settings_now()
    if not settings.file and not settings.unit and not PROC.is_dir():
        raise ConfigError(
            "there is nothing to watch", hint="name a log with --file LOG, or [[file]] sections in a configuration"
        )
    database = db or (Path(settings.database.path) if settings.database.path else default_path())
    service = Service(
        settings,
        database,
        SystemClock(),
        say=say,
        complain=lambda line: click.echo(printable(f"sleepwatch: {line}"), err=True),
        reload=settings_now if config is not None or not given else None,
        surroundings=Surroundings() if PROC.is_dir() else None,
        witnesses=Witnesses(settings.witness, wake=lambda: service.wake()) if PROC.is_dir() else None,
    )

    def stop(number: int, frame: FrameType | None) -> None:
        if service.stopping:
            sys.exit(128 + number)
        service.stopping = True
        service.wake()

    def reload(number: int, frame: FrameType | None) -> None:
        service.reloading = True
        service.wake()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, reload)
    try:
        service.start()
        for source in settings.file:
            say(f"watching {source.path}, incidents go to {database}")
        for unit in settings.unit:
            say(f"watching {unit.name} in the journal, incidents go to {database}")
        service.run()
    except SleepwatchError as error:
        click.echo(f"sleepwatch: {error}", err=True)
        sys.exit(EXIT_CANNOT)
    finally:
        service.stop()
