"""What some tests need of the machine: root, a program, a booted systemd.

Without it they are skipped, and pytest's summary counts them with the reason. Where ``SLEEPWATCH_SKIP_NOTHING`` is set
(``.ci/run`` as root, which installs what is missing) a test that would be skipped fails.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

JOURNAL_REMOTE = "/lib/systemd/systemd-journal-remote"


def missing(what: str) -> NoReturn:
    """Skip this test for the want of something, or fail it where nothing may be skipped."""
    if os.environ.get("SLEEPWATCH_SKIP_NOTHING"):
        pytest.fail(f"this test needs {what}, and may not be skipped here", pytrace=False)
    pytest.skip(f"needs {what}")


def need_program(name: str, package: str) -> str:
    """The path of a program."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} (Debian package {package})")
    return path


def need_journal_remote() -> str:
    """The program that writes journal files from exported entries."""
    if not Path(JOURNAL_REMOTE).exists():
        missing(f"{JOURNAL_REMOTE} (Debian package systemd-journal-remote)")
    return JOURNAL_REMOTE


def need_module(name: str, package: str) -> None:
    """A Python module."""
    if importlib.util.find_spec(name) is None:
        missing(f"the Python package {package}")


def need_root() -> None:
    """To be root."""
    if os.geteuid() != 0:
        missing("root")
