"""What the live system answered about one life's connections, entered into its ledger. Pure.

An answer is an event like a line of the log (``witness.snapshot``, ``witness.props``), so that it can be kept and given
to the engine again. It is about one sleep of one life, and names both.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sleepwatch.engine.ledger import Ledger, Pending, Phase, Sleep, is_stale
from sleepwatch.engine.verdicts import GRACE_US
from sleepwatch.model import Event

AGAIN_US = 5_000_000
"""While something waits in a sleeping server its connection is looked at this often."""
SOON_US = 250_000
"""… and after the wake, and until what has vanished is surely gone, this often."""
SOON_FOR_US = 10_000_000
IDLE_US = 3_000_000
"""A server that is awake for so long and has nothing to do has no request left."""
STOOD_US = 500_000
"""… and at one that falls asleep again after this: an answer leaves within milliseconds of its request's end."""
PROPS_US = 1_000_000
"""So long a sleep with something pending is worth the question whether the server sleeps."""


class Witnessed(msgspec.Struct, frozen=True, kw_only=True):
    """A connection as an answer shows it; times in milliseconds before the look."""

    cookie: int
    """The kernel's number of it."""
    peer: str
    pending: bool
    """Read before the sleep, nothing sent since: :func:`sleepwatch.witness.sockets.pending`."""
    received: int
    received_ms: int
    sent: int
    sent_ms: int

    @property
    def words(self) -> str:
        """What the kernel said, for people."""
        sent = f"{self.sent} bytes sent, the last {self.sent_ms} ms ago" if self.sent else "nothing sent"
        return f"client {self.peer}: {self.received} bytes received, the last {self.received_ms} ms ago; {sent}"


def snapshot(ledger: Ledger, sleep: Sleep, event: Event) -> None:
    """Enter a look at the connections.

    Fields: ``asleep_us`` how long it had slept (None: it is awake again), ``unseen`` why there is nothing to see, else
    ``connections``: those pending, and those asked for by their cookies, as far as they are there.
    """
    asleep_us: int | None = event.fields["asleep_us"]
    if event.fields.get("unseen") is not None:
        if sleep.snapshot is None:
            sleep.unseen = event.fields["unseen"]
        return
    seen = [msgspec.convert(one, Witnessed) for one in event.fields["connections"]]
    by_cookie = {one.cookie: one for one in seen}
    _whose_cancels(sleep, by_cookie, asleep=asleep_us is not None)
    known = set()
    for pending in [one for one in sleep.pendings if one.connection is not None]:
        known.add(_of(pending).cookie)
        if pending.followed:
            _follow(ledger, pending, by_cookie.get(_of(pending).cookie), event, asleep_us)
    if asleep_us is None and sleep.exit is not None:
        # Ours is answered soon: one token. What runs for longer is not ours.
        ours_is_over = sleep.waked is not None and event.fields.get("awake_us", 0) >= IDLE_US
        sleep.take_up(runs=ours_is_over and bool(ledger.busy))
    if asleep_us is None or ledger.phase is not Phase.ASLEEP or sleep.exit is not None:
        return
    if sleep.snapshot is None:
        sleep.snapshot, sleep.unseen = event, None
    fresh = [one for one in seen if one.pending and one.cookie not in known]
    fresh = [one for one in fresh if sleep.uploads.get(one.cookie) != one.received]
    # The requests that came last are those a line was printed of, if one was: an older arrival was more likely refused.
    unseen = [p for p in sleep.pendings if not (p.connection or p.cancelled or is_stale(sleep, p))]
    unseen = unseen[-len(fresh) :] if fresh else []
    for one in sorted(fresh, key=lambda one: (-one.received_ms, one.cookie)):
        pending = unseen.pop(0) if unseen else Pending(before=True)
        if pending not in sleep.pendings:
            sleep.pendings.append(pending)
        pending.connection = _shown(one, event)
        if asleep_us >= GRACE_US:
            pending.held = pending.connection


def _whose_cancels(sleep: Sleep, by_cookie: dict[int, Witnessed], *, asleep: bool) -> None:
    """Give a cancel that was taken for that of a client which waits on to one that has gone: it names no connection.

    The server prints it when it sees that its client has hung up, and closes the connection right behind that.
    """
    waiting: list[Pending] = []
    over: list[tuple[bool, bool, int, Pending]] = []
    for one in [pending for pending in sleep.pendings if pending.connection is not None]:
        now = by_cookie.get(_of(one).cookie)
        waits = now is not None and (now.pending or not asleep)
        if one.cancelled and waits:
            waiting.append(one)
        elif not (waits or one.cancelled or one.answered or one.resumed):
            over.append((one.gone is not None, now is not None, len(over), one))
    for one, (*_, other) in zip(waiting, sorted(over), strict=False):
        one.swap_connections(other)


def _follow(ledger: Ledger, pending: Pending, now: Witnessed | None, event: Event, asleep_us: int | None) -> None:
    before = _of(pending)
    if now is None:
        if pending.left is None:
            pending.left = event
        else:
            pending.gone = _said(event, f"client {before.peer}: its connection has ended")
        return
    pending.left = None
    shown = _shown(now, event)
    if pending.held is None and asleep_us is None and _waited_all_along(ledger, before, now, event):
        pending.held = shown if now.sent == before.sent else pending.connection
    if now.received != before.received:
        # After an answer the same connection may bring the next request: then nothing is known of the first.
        answered = now.sent != before.sent and asleep_us is None
        pending.resumed, pending.gone = (None, shown) if answered else (shown, None)
    elif now.sent != before.sent:
        pending.answered = shown
    elif asleep_us is not None:
        if asleep_us >= GRACE_US and pending.held is None:
            pending.held = shown
    elif ledger.phase is not Phase.AWAKE or ledger.busy:
        pending.still, pending.stood_us = None, 0
    else:
        awake_us = event.fields["awake_us"]
        pending.still = pending.still or event
        pending.stood_us = awake_us - pending.still.fields["awake_us"]
        if awake_us >= IDLE_US:
            pending.idle = shown


def _waited_all_along(ledger: Ledger, before: Witnessed, now: Witnessed, event: Event) -> bool:
    """After the wake: did it wait for longer than the grace, although nobody looked when that was over?"""
    slept_us = ledger.sleep.slept_us() if ledger.sleep is not None else None
    if slept_us is None or slept_us < GRACE_US or now.received != before.received:
        return False
    return now.sent == before.sent or now.sent_ms * 1000 <= event.fields["awake_us"]


def falls_asleep_again(ledger: Ledger) -> None:
    """It does so only when nothing runs and nothing is queued: what was seen to wait on beside that is no request."""
    sleep = ledger.sleep
    if sleep is None or sleep.exit is None:
        return
    for pending in sleep.pendings:
        if pending.followed and pending.still is not None and pending.stood_us >= STOOD_US:
            pending.idle = pending.still


def next_look_us(ledger: Ledger, waited_us: int) -> int | None:
    """After a look ``waited_us`` into its phase: when the next one is due; None where there is nothing to learn."""
    sleep = ledger.sleep
    followed = [one for one in sleep.pendings if one.followed] if sleep is not None else []
    if not followed:
        return None
    if ledger.phase is not Phase.ASLEEP or any(one.left is not None for one in followed):
        return waited_us + (SOON_US if waited_us < SOON_FOR_US else AGAIN_US)
    return GRACE_US if waited_us < GRACE_US else waited_us + AGAIN_US


def cookies(sleep: Sleep) -> tuple[int, ...]:
    """The connections of which more is to be learnt; with one that may have been taken for another's cancel."""
    if not any(one.followed for one in sleep.pendings):
        return ()
    return tuple(_of(one).cookie for one in sleep.pendings if one.followed or (one.connection and one.cancelled))


def wants_props(ledger: Ledger, waited_us: int) -> bool:
    """Does a verdict turn on whether the server sleeps, by nothing but the kernel's word so far?"""
    sleep = ledger.sleep
    if sleep is None or sleep.props_asked or ledger.phase is not Phase.ASLEEP or waited_us < PROPS_US:
        return False
    return any(one.followed and one.in_no_line for one in sleep.pendings)


def port_of(text: str | None) -> int | None:
    """A port as a log names it; of a router's child behind another router ``outer/inner``."""
    last = (text or "").rsplit("/", 1)[-1]
    return int(last) if last.isdigit() and 0 < int(last) < 65536 else None


def _of(pending: Pending) -> Witnessed:
    assert pending.connection is not None
    return msgspec.convert(pending.connection.fields, Witnessed)


def _shown(one: Witnessed, event: Event) -> Event:
    """One connection of a look, as an event of its own."""
    fields: dict[str, Any] = msgspec.to_builtins(one)
    return msgspec.structs.replace(_said(event, one.words), fields=fields)


def _said(event: Event, words: str) -> Event:
    return msgspec.structs.replace(event, type="witness.connection", fields={}, text=words.encode())
