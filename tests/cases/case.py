"""A case: one small log and all that must be found in it, as data."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from sleepwatch.model import Incident, ScanResult
from sleepwatch.rules import RuleSet, load
from sleepwatch.scan import Options, scan


class Found(msgspec.Struct, frozen=True):
    """An incident that must be found; ``more`` holds any further fields of it."""

    kind: str
    confidence: str
    state: str
    more: dict[str, Any]

    def fits(self, incident: Incident) -> bool:
        """Is it this one?"""
        mine = {"kind": self.kind, "confidence": self.confidence, "state": self.state, **self.more}
        return all(getattr(incident, name) == value for name, value in mine.items())


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A log with everything that must be found in it, ``possible`` incidents too; nothing else may be found."""

    name: str
    why: str
    """Why this and nothing else is right, in one sentence."""
    log: bytes
    found: tuple[Found, ...] = ()
    lives: tuple[dict[str, Any], ...] | None = None
    """What must be said of each life, in order; None: not looked at."""
    origin: str = "made"
    """``made`` by hand, or ``recorded``."""


def found(kind: str, confidence: str, state: str, **more: Any) -> Found:
    """An expected incident."""
    return Found(kind, confidence, state, more)


def judge(log: bytes, *, name: str = "server.log", vectorised: bool = True) -> ScanResult:
    """Read a log as ``scan`` reads a file."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(log)
        return scan([path], Options(vectorised=vectorised), rules=rules())


@functools.cache
def rules() -> RuleSet:
    """The shipped rules, loaded once."""
    return load()


def shown(result: ScanResult) -> str:
    """What was found, for a failed test's message."""
    incidents = "\n".join(
        f"  {i.kind} {i.confidence} {i.state} task={i.task} signal={i.signal} in_flight={i.in_flight} count={i.count}"
        f" server={i.server}\n    {i.summary}\n    {i.reason}"
        for i in result.incidents
    )
    lives = "\n".join(
        f"  {life.server} exit={life.exit} sleeps={life.sleeps} freed={life.freed_in_grace}" for life in result.lives
    )
    return f"incidents:\n{incidents or '  none'}\nlives:\n{lives}"
