"""The server's own word whether it sleeps: ``GET /props``, which neither wakes it nor resets its idle timer.

``is_sleeping`` is there from llama.cpp b7492 on (tools/server/server-context.cpp). A reload answers late, which is
normal: no answer in time says nothing. Never ``/slots`` and never ``/metrics``: older builds wake for them.
"""

from __future__ import annotations

from pathlib import Path

from sleepwatch.errors import SleepwatchError
from sleepwatch.wake.attempt import ask
from sleepwatch.wake.exchange import Own
from sleepwatch.wake.target import parse_target

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
