"""Which entries belong to a unit: its own lines and what others wrote about it, as ``journalctl --unit`` takes them.

The manager's words about a unit ("Main process exited, code=killed, status=11/SEGV") are not the unit's lines, nor are
its coredumps. On top of journalctl's come the kernel's lines, which name processes, journald's own, and what the host
did to its clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from sleepwatch.envelopes.journal_fields import UNIT_SUFFIXES

COREDUMP = "fc2e22bc6ee647b6b90729ab34a250b1"
OF_THE_HOST = (
    "6bbd95ee977941e497c48be27c254128",
    "8811e6df2a8e40f58a94cea26f8ebf14",
    "c7a787079b354eaaa9e77b371893cd27",
    "7c8a41f37b764941a0e1780b1be2f037",
)
"""The host goes to sleep, wakes, has its clock set, by hand or by a time server (systemd, sd-messages.h)."""
PROGRAM = "llama-server"
"""A process that is dying can lose its unit, but not the name its output stream was opened with."""

_NAMES = (
    "_SYSTEMD_UNIT",
    "UNIT",
    "COREDUMP_UNIT",
    "OBJECT_SYSTEMD_UNIT",
    "_SYSTEMD_USER_UNIT",
    "USER_UNIT",
    "COREDUMP_USER_UNIT",
    "OBJECT_SYSTEMD_USER_UNIT",
)
"""The fields that name a unit."""


class Units:
    """Units by name or pattern; none at all means every line of the journal."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = tuple(dict.fromkeys(_whole(name) for name in names))

    @property
    def patterns(self) -> bool:
        """Some of the names are patterns, whose matches come and go."""
        return any(_is_pattern(name) for name in self.names)

    def fits(self, unit: str | None) -> bool:
        """Is this unit one of them?"""
        return unit is not None and any(fnmatchcase(unit, name) for name in self.names)

    def wants(self, fields: Mapping[str, str]) -> bool:
        """Does an entry with these fields belong to one of them, or to all?"""
        if not self.names:
            return True
        get = fields.get
        if self.fits(get("_SYSTEMD_UNIT")) or self.fits(get("_SYSTEMD_USER_UNIT")):
            return True
        transport = get("_TRANSPORT")
        if transport in ("kernel", "driver"):
            return True
        if get("_SYSTEMD_UNIT") is None and get("SYSLOG_IDENTIFIER") == PROGRAM and transport == "stdout":
            return True
        if get("_PID") == "1" and self.fits(get("UNIT")):
            return True
        if get("MESSAGE_ID") in OF_THE_HOST:
            return True
        return any(self.fits(get(name)) for name in _NAMES[2:4]) or any(self.fits(get(name)) for name in _NAMES[5:])

    def terms(self, names: Iterable[str]) -> Sequence[Sequence[str]]:
        """The entries of these units, exact names, as a journal takes them. More than :meth:`wants`, never less."""
        units = sorted(names)

        def of(field: str) -> list[str]:
            return [f"{field}={unit}" for unit in units]

        return (
            of("_SYSTEMD_UNIT"),
            ["_PID=1", *of("UNIT")],
            [f"MESSAGE_ID={COREDUMP}", "_UID=0", *of("COREDUMP_UNIT")],
            ["_UID=0", *of("OBJECT_SYSTEMD_UNIT")],
            of("_SYSTEMD_USER_UNIT"),
            of("USER_UNIT"),
            [f"MESSAGE_ID={COREDUMP}", "_UID=0", *of("COREDUMP_USER_UNIT")],
            ["_UID=0", *of("OBJECT_SYSTEMD_USER_UNIT")],
            ["_TRANSPORT=kernel"],
            ["_TRANSPORT=driver"],
            [f"MESSAGE_ID={one}" for one in OF_THE_HOST],
            ["_TRANSPORT=stdout", f"SYSLOG_IDENTIFIER={PROGRAM}"],
        )


def field_names() -> tuple[str, ...]:
    """The fields in which a unit's name can stand."""
    return _NAMES


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _whole(name: str) -> str:
    """A unit's name as systemd completes it: ``llama`` is ``llama.service``."""
    return name if _is_pattern(name) or name.endswith(UNIT_SUFFIXES) else name + ".service"
