"""A finding: what is the matter, why it matters, and the exact change to make."""

from __future__ import annotations

import msgspec

CRITICAL = "critical"
WARNING = "warning"
INFO = "info"
YES = "yes"
NO = "no"
UNKNOWN = "unknown"
"""The answers to what the check asks."""
_ORDER = {CRITICAL: 0, WARNING: 1, INFO: 2}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing found about one server. ``code`` is stable; docs/check.md lists them all."""

    code: str
    level: str
    """``critical``, ``warning`` or ``info``."""
    what: str
    why: str
    change: str | None = None
    """What to do: prose, with indented lines to be copied as they stand; None where nothing can be done about it."""


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """The most useful first: by level, else in the order in which they were made."""
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.level]))


def drop_in(
    unit: str,
    *lines: str,
    section: str = "Service",
    user: bool = False,
    restart: bool = False,
    instead: str | None = None,
) -> str:
    """How to change a unit: what is to be typed, and how it gets into force.

    ``systemctl edit`` writes a drop-in and makes systemd read it; ``restart`` where the running process must be started
    anew to feel it. ``instead`` names a drop-in that would win over that one and has to be changed itself.
    """
    manager = "systemctl --user" if user else "systemctl"
    body = [f"      {line}" for line in (f"[{section}]", *lines)]
    if instead:
        opening, reload = f"  in {instead}", [f"  {manager} daemon-reload"]
    else:
        opening, reload = f"  {manager} edit {quoted(unit)}", []
    again = [f"  {manager} restart {quoted(unit)}"] if restart else []
    return "\n".join([opening, *body, *reload, *again])


def quoted(name: str) -> str:
    """A unit's name for a shell: escapes in it need quotes."""
    return f"'{name}'" if "\\" in name else name
