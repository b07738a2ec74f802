"""The smallest request that each kind of server accepts and that makes it wake.

Whatever constructs a response in llama-server's inference routes first passes the wake check, also where the route then
refuses (llama.cpp ``tools/server/server-context.cpp``, ``server_res_generator``; seen: a 501 for embeddings wakes a
server that has none). ``/health`` and ``/props`` do not; ``/slots`` and, before b10519, ``/metrics`` do.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sleepwatch.client.target import Target

KINDS = ("completion", "chat", "embedding")
"""``embedding`` also serves rerankers: ``/embedding`` answers for every kind of pooling."""

_WRONG_KIND = frozenset({404, 405, 501})
"""No such route here, or 'This server does not support completions' (or embeddings)."""


def wake_request(kind: str, model: str | None) -> tuple[str, bytes]:
    """Path and body."""
    content: dict[str, Any] = {} if model is None else {"model": model}
    if kind == "chat":
        content |= {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        return "/v1/chat/completions", msgspec.json.encode(content)
    if kind == "embedding":
        return "/embedding", msgspec.json.encode(content | {"content": "hi"})
    return "/completion", msgspec.json.encode(content | {"prompt": "hi", "n_predict": 1})


def kinds_to_try(target: Target) -> tuple[str, ...]:
    """The kind that is known, else all in the order of how common they are."""
    return KINDS if target.kind is None else (target.kind,)


def is_wrong_kind(status: int) -> bool:
    """Whether this answer means that the server is of another kind."""
    return status in _WRONG_KIND
