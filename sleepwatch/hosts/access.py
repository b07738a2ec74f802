"""Whether a file can be read, by this process or by another that runs already."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import msgspec

from sleepwatch.errors import os_words

_READ_ANYTHING = (1 << 1) | (1 << 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (linux/capability.h)."""


class Reader(msgspec.Struct, frozen=True):
    """Who reads."""

    uid: int
    groups: tuple[int, ...]
    reads_anything: bool = False


def reader_of(pid: int, proc: Path = Path("/proc")) -> Reader | None:
    """The user, groups and capabilities of a running process; None where they cannot be read."""
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return None
    uid = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    gid = re.search(r"^Gid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    groups = re.search(r"^Groups:\s*([\d ]*)", status, re.MULTILINE)
    capabilities = re.search(r"^CapEff:\s+([0-9a-f]+)", status, re.MULTILINE)
    if not uid or not gid:
        return None
    listed = (int(word) for word in (groups.group(1).split() if groups else ()))
    strong = capabilities is not None and bool(int(capabilities.group(1), 16) & _READ_ANYTHING)
    return Reader(int(uid.group(1)), (int(gid.group(1)), *listed), strong)


def why_unreadable(path: str, reader: Reader | None = None) -> str | None:
    """One phrase why a file cannot be read, naming the file or directory in the way; None where it can.

    ``reader`` None is this process. Of another only owner, group, mode and capabilities are judged, no access lists.
    """
    if reader is None:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            return os_words(error)
        return None
    if reader.reads_anything:
        return None
    parts = Path(os.path.abspath(path))
    try:
        for directory in reversed(parts.parents):
            if not _allows(directory.stat(), reader, 1):
                return f"{directory} may not be entered by uid {reader.uid}"
        if not _allows(parts.stat(), reader, 4):
            return f"{parts} may not be read by uid {reader.uid}"
    except OSError as error:
        return os_words(error)
    return None


def _allows(status: os.stat_result, reader: Reader, wanted: int) -> bool:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == reader.uid:
        return bool(mode >> 6 & wanted)
    if status.st_gid in reader.groups:
        return bool(mode >> 3 & wanted)
    return bool(mode & wanted)
