"""One wake, from the look at ``/props`` to what came of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sleepwatch.client.exchange import Broken, NoAnswer, NoConnection, Own, Reply, exchange
from sleepwatch.client.props import ask
from sleepwatch.client.target import Target, TargetError
from sleepwatch.clock import Clock
from sleepwatch.engine.lives import Now
from sleepwatch.printable import printable
from sleepwatch.wake.request import is_wrong_kind, kinds_to_try, wake_request

RELEASED = "released"
"""The stuck connection was sent bytes, or its task launched, after our wake."""
WOKE = "woke"
"""It is awake by our request; whether something waited in it is not told, or not yet."""
NOT_RELEASED = "woke-not-released"
ALREADY_AWAKE = "already-awake"
"""Nothing was sent."""
ABANDONED = "abandoned"
"""Nobody waits any more; nothing was sent."""
UNREACHABLE = "unreachable"
"""Nothing was sent: it does not say that it sleeps, or says nothing."""
REFUSED = "refused"
"""It answered, and did not wake: a wrong key, no such route, no such model."""
CRASHED = "crashed-on-wake"
"""The connection ended without an answer."""
TIMEOUT = "timeout"
WOULD_WAKE = "would-wake"
"""All is as it must be, and nothing was sent because nothing was to be."""

AWAKE = frozenset({RELEASED, WOKE, NOT_RELEASED, ALREADY_AWAKE})
"""Outcomes after which the server is awake."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one wake."""

    outcome: str
    words: str
    kind: str | None = None
    """The kind of request that was sent; None: none was."""
    status: int | None = None
    sent: Now | None = None
    took_us: int | None = None
    """From sending to the answer, or to its missing."""


def wake(
    target: Target,
    clock: Clock,
    *,
    seconds: float,
    own: Own | None = None,
    still_waits: Callable[[], bool | None] = lambda: None,
    sending: Callable[[str, Now], None] = lambda kind, now: None,
    send: bool = True,
) -> Attempt:
    """Wake it if it sleeps, and if somebody still waits as far as ``still_waits`` can tell.

    ``sending`` is told the kind of request right before it goes out, and when. At most one request goes out for each
    kind that is tried, and a further one only where the server said that it is of another kind and sleeps on. Without
    ``send`` all is looked at, and nothing sent.
    """
    attempt = Attempt(outcome=UNREACHABLE, words="")
    for kind in kinds_to_try(target):
        before = ask(target, own=own)
        if not before.asleep:
            if attempt.sent is not None and before.asleep is not None:
                return msgspec.structs.replace(attempt, outcome=WOKE)
            outcome = ALREADY_AWAKE if before.asleep is False else before.failure
            return Attempt(outcome=outcome, words=before.words) if attempt.sent is None else attempt
        if still_waits() is False:
            return Attempt(outcome=ABANDONED, words="nobody waits any more")
        if not send:
            return Attempt(outcome=WOULD_WAKE, words=f"{target.url} sleeps, and a request waits")
        attempt = _send(target, clock, kind, seconds, own, sending)
        if attempt.outcome != REFUSED or attempt.status is None or not is_wrong_kind(attempt.status):
            return attempt
    return attempt


def _send(
    target: Target,
    clock: Clock,
    kind: str,
    seconds: float,
    own: Own | None,
    sending: Callable[[str, Now], None],
) -> Attempt:
    path, body = wake_request(kind, target.model)
    sent = clock.now()
    sending(kind, sent)
    status = None
    try:
        reply = exchange(target, "POST", path, body, seconds=seconds, own=own)
        status = reply.status
        outcome, words = _judge(target, reply, own)
    except TargetError as error:
        outcome, words = REFUSED, str(error)
    except NoConnection as error:
        outcome, words = UNREACHABLE, str(error)
    except NoAnswer as error:
        outcome, words = TIMEOUT, str(error)
    except Broken as error:
        outcome, words = CRASHED, str(error)
    took_us = clock.now().monotonic_us - sent.monotonic_us
    return Attempt(outcome=outcome, words=printable(words), kind=kind, status=status, sent=sent, took_us=took_us)


def _judge(target: Target, reply: Reply, own: Own | None) -> tuple[str, str]:
    if reply.status == 200:
        return WOKE, "answered"
    # A route that refuses has woken the server all the same, where the refusal comes behind the wake check.
    if reply.status not in (401, 403) and ask(target, own=own).asleep is False:
        return WOKE, reply.words
    return REFUSED, reply.words
