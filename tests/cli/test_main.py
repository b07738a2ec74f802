"""The frame of the command line: start-up, exit codes, and what a person reads when something fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

import sleepwatch
from sleepwatch import cli
from sleepwatch.cli import main
from sleepwatch.errors import SourceError

HEAVY = (
    "apprise",
    "hyperscan",
    "msgspec",
    "rich",
    "sqlite3",
    "sqlite_utils",
    "sleepwatch.engine",
    "sleepwatch.model",
    "sleepwatch.report",
    "sleepwatch.store",
)


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(argument: str) -> None:
    script = (
        "import sys; from sleepwatch.cli import main\n"
        f"try: main([{argument!r}])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        f"print('loaded:', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.endswith("loaded: []\n")


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.output == f"sleepwatch, version {sleepwatch.__version__}\n"


def test_every_command_loads_and_explains_itself() -> None:
    overview = CliRunner().invoke(main, ["--help"]).output
    for name in cli.COMMANDS:
        assert f"\n  {name} " in overview
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0, result.output
        assert len(result.output.splitlines()) > 4


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["scna"])
    assert result.exit_code == 2
    assert "No such command 'scna'" in result.output


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Puts a function in the place of the command ``scan``."""

    def put(function: Callable[[], None]) -> None:
        module = types.ModuleType("sleepwatch.cli.scan")
        module.scan = click.command("scan")(function)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "sleepwatch.cli.scan", module)

    return put


def test_a_failure_is_one_sentence_and_a_hint_with_exit_code_2(
    command: Callable[[Callable[[], None]], None],
) -> None:
    def fail() -> None:
        click.echo("half a result")
        raise SourceError("a.log cannot be read: permission denied", hint="run as a member of group adm")

    command(fail)
    result = CliRunner().invoke(main, ["scan"])
    assert result.exit_code == 2
    assert result.stdout == "half a result\n"
    assert result.stderr == "sleepwatch: a.log cannot be read: permission denied\n  run as a member of group adm\n"


def test_clicks_own_failures_end_in_2_as_well(command: Callable[[Callable[[], None]], None]) -> None:
    def fail() -> None:
        raise click.ClickException("no")

    command(fail)
    result = CliRunner().invoke(main, ["scan"])
    assert (result.exit_code, result.stderr) == (2, "Error: no\n")


def test_a_bug_is_not_hidden(command: Callable[[Callable[[], None]], None]) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    command(fail)
    assert isinstance(CliRunner().invoke(main, ["scan"]).exception, ZeroDivisionError)


def test_a_commands_own_exit_code_is_kept(command: Callable[[Callable[[], None]], None]) -> None:
    def found_nothing() -> None:
        click.get_current_context().exit(1)

    command(found_nothing)
    assert CliRunner().invoke(main, ["scan"]).exit_code == 1


_FAKE_SCAN = """
import sys, types, click
from sleepwatch.cli import main
module = types.ModuleType("sleepwatch.cli.scan")
sys.modules["sleepwatch.cli.scan"] = module
@click.command()
def scan():
    {body}
module.scan = scan
main(["scan"], prog_name="sleepwatch")
"""


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    script = _FAKE_SCAN.format(body="[click.echo('x' * 100) for _ in range(100_000)]")
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (141, b"")


def test_a_reader_that_goes_away_before_a_short_answer() -> None:
    read, write = os.pipe()
    os.close(read)
    script = _FAKE_SCAN.format(body="sys.stdout.write('short')")
    process = subprocess.Popen([sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (141, b"")


def test_ctrl_c_ends_it_with_130_and_no_traceback() -> None:
    script = _FAKE_SCAN.format(body="print('ready', flush=True); import signal; signal.pause()")
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, b"")
