"""What the commands that a monitoring system runs as a plug-in have in common (``check``, ``status``)."""

from __future__ import annotations

from typing import Any

import click

EXIT_UNKNOWN = 3
"""The plug-ins' own code for what could not be looked at; 2 is a critical state to them."""


class PluginCommand(click.Command):
    """A command whose wrong options end in :data:`EXIT_UNKNOWN`, with a first line as a plug-in's."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click does it, but for the exit code."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            error.show()
            click.echo(f"SLEEPWATCH UNKNOWN: {error.format_message()}")
            raise click.exceptions.Exit(EXIT_UNKNOWN) from error
