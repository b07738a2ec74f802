"""``sleepwatch sweep``: drive a real server into the race between its sleep and a request, and measure it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from sleepwatch.errors import SleepwatchError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from sleepwatch.race.trial import Trial

_UNITS_US = {"us": 1, "ms": 1000, "s": 1_000_000}


class Offset(click.ParamType[int]):
    """A signed time with its unit, as microseconds: ``-60ms``, ``0.03s``."""

    name = "offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse ``value``; what is a number already is microseconds."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(us|ms|s)", value.strip())
        if found is None:
            self.fail(f"{value!r} is not a time with a unit, such as -60ms or 0.03s", param, ctx)
        return round(float(found.group(1)) * _UNITS_US[found.group(2)])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--server", "program", required=True, metavar="PATH", help="The llama-server to start.")
@click.option("--model", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The model to serve.")
@click.option(
    "--prompt-tokens",
    type=click.IntRange(1),
    default=18_000,
    show_default=True,
    help="Length of the placed request's prompt: the window is about as long as tokenizing it takes.",
)
@click.option(
    "--context",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    help="The server's context (-c). A longer prompt is refused at once with 400, which keeps a send short and still "
    "shows that it reached a slot.",
)
@click.option(
    "--sleep", "sleep_seconds", type=click.IntRange(1), default=1, show_default=True, help="--sleep-idle-seconds."
)
@click.option(
    "--lo",
    type=Offset(),
    metavar="TIME",
    help="Earliest send, relative to the sleep (such as -60ms).  [default: found by itself]",
)
@click.option("--hi", type=Offset(), default="30ms", show_default=True, metavar="TIME", help="Latest send.")
@click.option("--trials", type=click.IntRange(1), default=60, show_default=True, help="How many sends.")
@click.option("--warm", is_flag=True, help="Send a 1-token completion in front of each request.")
@click.option("--patient", is_flag=True, help="Free each hung request with a second one, and wait for its answer.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="No answer for so long, while the server sleeps: hung. Raised where a wake takes longer.",
)
@click.option(
    "--start-timeout",
    type=click.FloatRange(0.1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the server may take until it is ready.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Its port on 127.0.0.1.  [default: a free one]")
@click.option("--verbosity", type=click.IntRange(3), metavar="N", help="Its -lv.  [default: its own]")
@click.option(
    "--keep-logs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the server's log, and what each client met, in this new directory.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document with every send.")
@click.option(
    "--bug-report",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write a report for upstream (Markdown; no path, no prompt). '-' prints it instead of the table.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVER OPTIONS]")
@click.pass_context
def sweep(
    ctx: click.Context,
    program: str,
    model: Path,
    prompt_tokens: int,
    context: int,
    sleep_seconds: int,
    lo: int | None,
    hi: int,
    trials: int,
    warm: bool,
    patient: bool,
    timeout: float,
    start_timeout: float,
    port: int | None,
    verbosity: int | None,
    keep_logs: Path | None,
    as_json: bool,
    bug_report: Path | None,
    arguments: tuple[str, ...],
) -> None:
    """Measure whether a llama-server loses requests that reach it just before it falls asleep.

    Starts a server of its own on a free port of 127.0.0.1, never touches a running one, and leaves nothing behind. Each
    send is placed against the moment the server falls asleep; the offsets at which requests hang or crash the server
    are searched coarse, then fine. Ctrl-C ends it and prints what was measured so far.

    Exits with 0 when it has measured, whatever it found; with 2 when it could not.

    \b
    Examples:
      sleepwatch sweep --server ./llama-server --model model.gguf
      sleepwatch sweep --server ./llama-server --model model.gguf --warm
      sleepwatch sweep --server ./llama-server --model model.gguf --patient --json
    """
    from sleepwatch.printable import printable
    from sleepwatch.race import report
    from sleepwatch.race.server import Launch, find_program
    from sleepwatch.race.sweep import Plan, run

    if lo is not None and lo >= hi:
        raise click.UsageError("--lo must be earlier than --hi")
    if as_json and str(bug_report) == "-":
        raise click.UsageError("--json and --bug-report - both want standard output")
    if bug_report is not None and not os.path.isdir(bug_report.parent):
        raise SleepwatchError(f"{printable(str(bug_report))} cannot be written: no such directory for this user")
    if not os.path.isfile(model):
        raise SleepwatchError(f"the model {printable(str(model))} was not found", hint="--model takes a GGUF file")
    plan = Plan(
        launch=Launch(
            program=find_program(program),
            model=model,
            sleep_seconds=sleep_seconds,
            context=context,
            verbosity=verbosity,
            port=port,
            start_seconds=start_timeout,
            arguments=arguments,
        ),
        prompt_tokens=prompt_tokens,
        trials=trials,
        lo_us=lo,
        hi_us=hi,
        warm=warm,
        patient=patient,
        timeout_seconds=timeout,
        keep=keep_logs,
    )
    try:
        with _signals_interrupt(), Progress(trials) as progress:
            measured = run(plan, progress)
    except KeyboardInterrupt as stop:
        click.echo("sleepwatch: stopped before anything was measured", err=True)
        ctx.exit(128 + _number(stop))

    if bug_report is not None and str(bug_report) != "-":
        try:
            bug_report.write_text(report.bug_report(measured), encoding="utf-8")
        except OSError as problem:
            raise SleepwatchError(f"{printable(str(bug_report))} cannot be written: {problem.strerror}") from problem
    if as_json:
        import json

        click.echo(json.dumps(report.document(measured), indent=2))
    elif str(bug_report) == "-":
        click.echo(report.bug_report(measured), nl=False)
    else:
        click.echo(report.table(measured))
    if measured.problem is not None:
        message, hint = measured.problem
        raise SleepwatchError(message, hint=hint)
    if measured.interrupted is not None:
        ctx.exit(128 + measured.interrupted)


class Progress:
    """A bar on standard error with the time left, where that is a terminal; silent elsewhere."""

    def __init__(self, trials: int) -> None:
        self._trials = trials
        self._counts: Counter[str] = Counter()
        self._bar: Any = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("time left"),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=self._trials)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def stage(self, words: str) -> None:
        """A preparing step begins."""
        if self._bar is not None:
            self._bar.update(self._task, description=words)

    def trial(self, trial: Trial, done: int) -> None:
        """A send has been judged."""
        self._counts[trial.outcome] += 1
        if self._bar is not None:
            words = ", ".join(f"{count} {outcome}" for outcome, count in self._counts.items())
            self._bar.update(self._task, completed=done, description=words)


def _number(stop: KeyboardInterrupt) -> int:
    return int(stop.args[0]) if stop.args else signal.SIGINT


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """End a sweep on SIGTERM and SIGHUP as on Ctrl-C, so that they too leave nothing behind."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
