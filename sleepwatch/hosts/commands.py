"""Runs the few programs whose answers are read: ``systemctl``, ``journalctl``, a container engine's ``inspect``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence

from sleepwatch.errors import os_words

Run = Callable[[Sequence[str]], "Answer"]
"""Runs a program and never raises: whatever went wrong is in the answer."""

_LONGEST_SECONDS = 10.0


class Answer:
    """What a program said."""

    def __init__(self, output: str, *, status: int = 0, why: str | None = None) -> None:
        self.output = output
        self.status = status
        """The exit status; -1 where it did not run to its end."""
        self.why = why
        """One phrase why there is no answer; None where it ran and ended with 0."""


def run(argv: Sequence[str]) -> Answer:
    """Run a program in the C locale, without a terminal or input, for at most ten seconds."""
    if shutil.which(argv[0]) is None:
        return Answer("", status=-1, why=f"{argv[0]} is not installed")
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer("", status=-1, why=f"{argv[0]} gave no answer in {_LONGEST_SECONDS:.0f} s")
    except OSError as error:
        return Answer("", status=-1, why=f"{argv[0]} does not start: {os_words(error)}")
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return Answer(
            output, status=done.returncode, why=said[-1] if said else f"{argv[0]} ended with {done.returncode}"
        )
    return Answer(output)
