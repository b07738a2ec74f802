"""The server's own word whether it sleeps (:mod:`sleepwatch.client.props`)."""

from __future__ import annotations

from pathlib import Path

from sleepwatch.client.exchange import Own
from sleepwatch.client.props import ask
from sleepwatch.client.target import parse_target
from sleepwatch.errors import SleepwatchError

SECONDS = 1.0


class PropsError(SleepwatchError):
    """The server did not say whether it sleeps."""


def is_sleeping(url: str, *, key_file: Path | None = None, seconds: float = SECONDS, own: Own | None = None) -> bool:
    """Ask the server that listens on ``url`` (``http://HOST:PORT``, ``https://…``, ``unix://PATH``).

    ``key_file`` holds the API key on its first line; ``own`` knows our connection. Raises SleepwatchError.
    """
    said = ask(parse_target(url, key_file=key_file), seconds=seconds, own=own)
    if said.asleep is None:
        hint = "an API key is named by witness.api_key_file"
        raise PropsError(f"{url} does not say is_sleeping: {said.words}", hint=hint)
    return said.asleep
