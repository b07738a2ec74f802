"""What becomes of a core file (core(5), coredump.conf(5)): its stack is the one proof that names the tokenizer."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sleepwatch.hosts.spans import parse_size
from sleepwatch.hosts.unitfiles import read_config

_DEFAULT_SIZE_64 = 32 << 30
"""ProcessSizeMax= and ExternalSizeMax= on 64-bit machines since systemd 246."""


class CoreDumps(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's and systemd's settings."""

    pattern: str | None = None
    """kernel.core_pattern; None where it cannot be read."""
    handler: str = "unknown"
    """``systemd-coredump``, ``apport``, ``abrt``, another program's name, ``file``, ``none`` or ``unknown``."""
    storage: str = "external"
    """systemd-coredump's: ``external``, ``journal`` or ``none`` (the stack is logged all the same)."""
    largest: int = _DEFAULT_SIZE_64
    """Processes above this many bytes leave no stack (ProcessSizeMax=); spans.INFINITY."""


def find_coredumps(root: Path = Path("/")) -> CoreDumps:
    """The settings in force."""
    try:
        pattern = (root / "proc/sys/kernel/core_pattern").read_text(errors="replace").strip()
    except OSError:
        return CoreDumps()
    config = read_config("coredump.conf", root)
    storage = config.scalar("Coredump", "Storage")
    largest = config.scalar("Coredump", "ProcessSizeMax")
    size = parse_size(largest.value) if largest else None
    return CoreDumps(
        pattern=pattern,
        handler=_handler(pattern),
        storage=storage.value if storage else "external",
        largest=_DEFAULT_SIZE_64 if size is None else size,
    )


def _handler(pattern: str) -> str:
    if not pattern:
        return "none"
    if not pattern.startswith("|"):
        return "file"
    program = os.path.basename(pattern[1:].split()[0]) if pattern[1:].split() else "none"
    return "abrt" if program.startswith("abrt") else program


def keeps_stack(dumps: CoreDumps, limit: int | None) -> bool | None:
    """Whether a crash would leave a stack; ``limit`` is the soft core limit in bytes, -1 unlimited, None not known.

    The kernel asks a handler program whatever the limit is (core(5)), but systemd-coredump keeps to it: with 0 it logs
    the crash without a stack (systemd ``src/coredump/coredump.c``). None where it cannot be told.
    """
    if dumps.handler == "none" or limit == 0:
        return False if dumps.handler in ("none", "file", "systemd-coredump") else None
    if dumps.handler == "systemd-coredump":
        return dumps.largest != 0
    if dumps.handler == "file":
        return None if limit is None else True
    return None
