"""The server's own word whether it sleeps: ``GET /props``, which neither wakes it nor resets its idle timer.

``is_sleeping`` is there from llama.cpp b7492 on (tools/server/server-context.cpp). A reload answers late, which is
normal: no answer in time says nothing. Never ``/slots`` and never ``/metrics``: older builds wake for them.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

import msgspec

from sleepwatch.client.exchange import Broken, NoAnswer, NoConnection, Own, exchange
from sleepwatch.client.target import Target, TargetError

PROPS_SECONDS = 5.0
"""A server that sleeps answers ``/props`` at once; one that loads or unloads its model answers when it is done."""


class Sleeping(msgspec.Struct, frozen=True):
    """What ``/props`` says of the sleep."""

    asleep: bool | None
    """None: it does not say."""
    words: str
    failure: Literal["unreachable", "refused", "timeout"] = "unreachable"
    """Why it does not say."""


def ask(target: Target, *, seconds: float = PROPS_SECONDS, own: Own | None = None) -> Sleeping:
    """Ask ``/props`` whether it sleeps; that neither wakes a server nor resets its idle timer."""
    try:
        reply = exchange(target, "GET", props_path(target), seconds=seconds, own=own)
    except TargetError as error:
        return Sleeping(None, str(error), "refused")
    except NoAnswer as error:
        return Sleeping(None, f"/props: {error}; a server that loads its model answers when it is done", "timeout")
    except (NoConnection, Broken) as error:
        return Sleeping(None, f"/props of {target.url}: {error}")
    if reply.status in (401, 403):
        missing = "" if target.key_file is not None else "; it wants an API key"
        return Sleeping(None, f"/props: {reply.words}{missing}", "refused")
    if reply.status != 200:
        return Sleeping(None, f"/props: {reply.words}", "refused")
    try:
        said = msgspec.json.decode(reply.body, type=_Props)
    except msgspec.MsgspecError:
        return Sleeping(None, "/props: the answer is not llama-server's", "refused")
    if said.is_sleeping is not None:
        return Sleeping(said.is_sleeping, "asleep" if said.is_sleeping else "awake")
    if said.role == "router" and target.model is None:
        return Sleeping(None, "/props: this is a router, which itself does not sleep; name a model", "refused")
    return Sleeping(None, "/props does not tell of sleep: this server has no sleep mode", "refused")


class _Props(msgspec.Struct):
    is_sleeping: bool | None = None
    role: str | None = None


def props_path(target: Target) -> str:
    """``/props``, of a router that of the model, without loading it."""
    return "/props" if target.model is None else f"/props?model={quote(target.model, safe='')}&autoload=false"
