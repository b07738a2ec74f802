"""What to do, with the names of the server it is about.

The words of ``rules/incidents.toml`` say UNIT, CONTAINER, PID and HOST:PORT where a person has to put their own. What
the log tells of these is put in; what it does not tell stays a word. The names come from log lines, so what goes into a
command is quoted for the shell.
"""

from __future__ import annotations

import re
import shlex

from sleepwatch.engine.lives import LifeState

_PLACES = re.compile(r"http://HOST:PORT\b|\b(?:HOST:PORT|UNIT|CONTAINER|PID)\b")
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})/?")
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # what listens on all addresses answers on its own host


def filled(text: str, life: LifeState) -> str:
    """The text with what is known of this life in the place of its words."""
    names = _names(life)
    return _PLACES.sub(lambda place: names.get(place.group(), place.group()), text)


def _names(life: LifeState) -> dict[str, str]:
    names = {}
    if life.unit:
        names["UNIT"] = shlex.quote(life.unit)
    container = life.origin.container
    if container:
        names["CONTAINER"] = shlex.quote(container)
    pid = _pid(life)
    if pid is not None:
        names["PID"] = str(pid)
    url = _URL.fullmatch(life.ledger.url or "")
    if url is not None and not container:  # a container's port is another one from outside
        scheme, host, port = url.groups()
        names["HOST:PORT"] = f"{_ANY_ADDRESS.get(host, host)}:{port}"
        names["http://HOST:PORT"] = f"{scheme}://{names['HOST:PORT']}"
    return names


def _pid(life: LifeState) -> int | None:
    """The process's own id. A router's child writes through its router, whose pid stands on its lines."""
    if life.exit is not None and life.exit.event is not None and life.exit.recorded:
        told = life.exit.event.fields.get("pid")
        if isinstance(told, int):
            return told
    return life.origin.pid if life.origin.port is None else None
