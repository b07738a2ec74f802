"""The command line. Commands are imported when they are called, so that ``sleepwatch --version`` stays quick.

Exit codes common to all commands: 2 for anything that went wrong (a wrong option, a file that cannot be read, a
database that cannot be written), 130 after Ctrl-C, 141 when the reader of the output went away. 0 is done; what 1
means, each command says in its help.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from sleepwatch import __version__
from sleepwatch.errors import SleepwatchError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

COMMANDS = {
    "scan": "Find lost and crashed requests in logs.",
    "run": "Follow logs and keep what happens: the daemon.",
    "status": "Say how the daemon is and what it watches.",
    "notify": "Try the targets of notifications; list what has not arrived.",
    "silence": "For a while, let nobody be told of some incidents.",
    "config": "Check or show the daemon's configuration.",
    "incidents": "Look at incidents kept in a database.",
    "explain": "Show what is recognised in a line, and why.",
    "rules": "List and test the rules.",
    "check": "Say whether this host is exposed, protected and watched.",
    "wake": "Wake a server that sleeps, so that a hung request is answered.",
    "warm": "Make a server ready for a request, so that it cannot meet the sleep.",
    "sweep": "Drive a real server into the race and measure it.",
}
"""Command name and its line in the help; each is the object of that name in ``sleepwatch.cli.<name>``."""


class LazyGroup(click.Group):
    """A group whose commands are imported one by one, when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"sleepwatch.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table: help imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; every failure a person can cause ends in one sentence on standard error and a known code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here and not at exit, where a broken pipe can no longer be caught
            return result
        except SleepwatchError as error:
            click.echo(f"sleepwatch: {error.message}", err=True)
            if error.hint:
                click.echo(f"  {error.hint}", err=True)
            ctx.exit(EXIT_ERROR)
        except click.ClickException as error:
            error.show()
            ctx.exit(EXIT_ERROR)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            # Python flushes standard output once more at exit: let that go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(EXIT_BROKEN_PIPE)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sleepwatch")
def main() -> None:
    """Find requests that llama-server's sleep mode lost or crashed on.

    \b
    Examples:
      sleepwatch scan /var/log/llama-server.log
      journalctl -u llama-server -o export | sleepwatch scan -
      sleepwatch incidents list
    """
