"""What is handed to the process that sends, and what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # the process that sends needs neither
    from sleepwatch.config import Target
    from sleepwatch.notify.outbox import Message

PING = 0
"""The delivery number of the dead man's URL."""


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery: where, and what."""

    delivery: int
    target: str
    url: str | None = None
    command: tuple[str, ...] | None = None
    form: str | None = None
    type: str
    title: str
    short: str
    long: str
    document: str

    @classmethod
    def of(cls, message: Message, target: Target, *, delivery: int, url: str | None) -> Parcel:
        """A message to a target; ``url`` is of no use where a command takes it."""
        return cls(
            delivery=delivery,
            target=target.name,
            url=url if target.command is None else None,
            command=target.command,
            form=target.form,
            type=message.type,
            title=message.title,
            short=message.short,
            long=message.long,
            document=message.document,
        )


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What one process has to do."""

    parcels: tuple[Parcel, ...] = ()
    ping: str | None = None
    timeout_s: float
    """For each parcel."""
    total_s: float
    """For all of it; what is not begun by then is not tried."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a delivery."""

    delivery: int
    outcome: str
    """``sent``, ``failed``, ``timeout`` (it may have arrived), or ``not tried``."""
    words: str
    """What the service said, without secrets."""
    service: str
    took_s: float = 0.0
