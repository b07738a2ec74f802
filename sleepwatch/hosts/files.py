"""Reads small files that others made: never waits for a pipe, never reads a device, never more than it was told."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class NotRegularError(OSError):
    """A directory, pipe, socket or device where a file was expected."""


def read_regular(path: Path | str, most: int) -> bytes:
    """The first ``most`` bytes of a regular file. Raises OSError; opening a pipe without a writer does not hang."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotRegularError(None, "not a regular file", str(path))
        return file.read(most)
