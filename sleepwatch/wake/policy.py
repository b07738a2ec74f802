"""Whether a hung request is worth a wake now. Pure: what is known goes in, one decision comes out.

All of it must hold: it is allowed for this server, the verdict is at least ``probable``, the request is still open,
its log has been read to the end, nothing is under way, and the budget, the back-off and the breaker allow it. What only
the moment of sending can tell (does ``/props`` say that it sleeps, is the connection still there) is asked then.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sleepwatch.engine.lives import Now
from sleepwatch.wake.attempt import CRASHED, NOT_RELEASED, REFUSED, TIMEOUT
from sleepwatch.wake.settings import Mode, Wake

HOUR_US = 3_600_000_000
FAILURES = frozenset({NOT_RELEASED, REFUSED, CRASHED, TIMEOUT})
"""Outcomes that speak against another try."""
_CONFIDENCES = frozenset({"probable", "confirmed"})


class Hang(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision needs to know of one hung request."""

    incident: str
    server: str
    confidence: str
    state: str
    caught_up: bool
    """Its log is read to the end: nothing that is written could still say that it is over."""
    asleep: bool
    """Its server sleeps, by its log."""


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One wake that was begun before."""

    incident: str
    server: str
    mode: Mode
    wall_us: int
    """When it was begun."""
    monotonic_us: int | None = None
    """The same; None where another process began it."""
    outcome: str | None = None
    """None: it is under way."""
    sent: bool = True
    """A request went out, or may have."""

    def age_us(self, now: Now) -> int:
        """How long ago it was begun, the shorter where clocks disagree: a clock that is set buys no wake."""
        by_wall = max(0, now.wall_us - self.wall_us)
        return by_wall if self.monotonic_us is None else min(by_wall, now.monotonic_us - self.monotonic_us)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one hung request."""

    act: bool = False
    observe: bool = False
    reason: str = ""
    """Why not, or why not yet."""
    again_us: int | None = None
    """When time alone may change the answer; None: it does not."""
    tell: bool = False
    """It will not be woken again soon: a person has to know."""


def decide(hang: Hang, settings: Wake, past: Sequence[Past], now: Now) -> Decision:
    """Wake for this request? ``past``: what was begun before for it and its server, in order."""
    mode = settings.of(hang.server).mode
    if mode == "off":
        return Decision(reason="waking is off for this server")
    if hang.confidence not in _CONFIDENCES:
        return Decision(reason=f"the verdict is only {hang.confidence}")
    if hang.state != "open":
        return Decision(reason=f"it is {hang.state}")
    if not hang.asleep:
        return Decision(reason="by its log the server does not sleep")
    if not hang.caught_up:
        return Decision(reason="its log is not read to the end yet")
    past = [one for one in past if one.mode == mode]
    here = [one for one in past if one.server == hang.server]
    own = [one for one in past if one.incident == hang.incident]
    if any(one.outcome is None for one in here):
        return Decision(reason="a wake of this server is under way")
    if mode == "observe":
        return Decision(observe=not own, reason="noted before" if own else "")
    if len(own) >= settings.per_incident:
        return Decision(reason=f"tried {len(own)} times for it, which is all it gets", tell=True)
    sent = [one for one in here if one.sent]
    within = [one.age_us(now) for one in sent if one.age_us(now) < HOUR_US]
    if len(within) >= settings.per_hour:
        # The budget has room again when so many have grown old that fewer than it are left.
        oldest = sorted(within, reverse=True)[len(within) - settings.per_hour]
        return Decision(
            reason=f"woken {len(within)} times within the hour, which is all this server gets",
            again_us=HOUR_US - oldest,
            tell=True,
        )
    failures = _failures_in_a_row(sent)
    if failures and len(failures) >= settings.breaker_failures:
        left_us = round(settings.breaker_seconds * 1e6) - failures[-1].age_us(now)
        if left_us > 0:
            words = f"{len(failures)} wakes of this server in a row freed nothing; it is left alone for now"
            return Decision(reason=words, again_us=left_us, tell=True)
    if own:
        wait_us = round(settings.back_off_seconds * 1e6) << min(len(own) - 1, 16)
        left_us = wait_us - own[-1].age_us(now)
        if left_us > 0:
            return Decision(reason="it was woken for a moment ago", again_us=left_us)
    return Decision(act=True)


def _failures_in_a_row(sent: Sequence[Past]) -> list[Past]:
    """The wakes since the last that did not fail."""
    row: list[Past] = []
    for one in sent:
        row = [*row, one] if one.outcome in FAILURES else []
    return row


def timeout_seconds(settings: Wake, reload_us: int) -> float:
    """How long a wake of a server may take whose longest reload took this long; 0: none was seen."""
    if settings.timeout_seconds is not None:
        return settings.timeout_seconds
    return max(60.0, 5 * reload_us / 1e6) if reload_us else 600.0
