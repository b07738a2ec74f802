"""What rotation and compression add to the name of a log, as parts of expressions: for all who read such names."""

from __future__ import annotations

COMPRESSED = (".gz", ".xz", ".zst", ".bz2")
NUMBER = r"\.(\d{1,4})"
"""``server.log.1``."""
DATE = r"[-._](\d{4}-?\d\d-?\d\d(?:[-_.T]?\d\d(?:[-_:.]?\d\d){0,2}|[-_.]\d{1,10})?|\d{9,11})"
"""``server.log-20261130``, ``server.log.2026-11-30``, ``0.log.20261130-120000``, or seconds since the epoch."""
