"""Runs a function as a user without rights, in a child process of its own."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOBODY = 65534


def as_nobody(look: Callable[[], object], *, reachable: Path) -> Any:
    """What ``look`` returns (as JSON) when called by uid 65534. Only root can do this.

    ``reachable``: a directory whose parents that user may enter for the test.
    """
    for parent in reachable.parents:
        if parent.owner() == "root" and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            answer = json.dumps(look())
        except BaseException:
            answer = json.dumps({"failed": traceback.format_exc()})
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    if isinstance(answer, dict) and "failed" in answer:
        raise AssertionError(answer["failed"])
    return answer
