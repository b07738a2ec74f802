"""zstd as the standard library has it from 3.14 on, and as its backport has it before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

__all__ = ["compress"]
