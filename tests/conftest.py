"""What every test shares: Hypothesis's profiles and the place of the recordings."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.system.booted import machine as machine  # one for the whole run

# "ci" draws the same examples on every run, so a red run is red again; "explore" looks further, anew each time.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs in real time is tried once more where it fails, which the run tells: the machine may be busy."""
    for item in items:
        if item.get_closest_marker("live") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The recordings of real servers, one folder each."""
    return Path(__file__).parent / "corpus"


# A shell that starts the tests in the background has them ignore SIGINT, and so would every program they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
