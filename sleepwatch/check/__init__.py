"""``sleepwatch check``: is this host exposed, would a crash be restarted, would we see it?

Facts are gathered by :mod:`sleepwatch.check.gather`, which never asks a server anything, and judged here by pure
functions: :func:`check` takes facts and gives verdicts with findings.
"""

from __future__ import annotations

from sleepwatch.check.verdicts import Judged, Report, check

__all__ = ["Judged", "Report", "check"]
