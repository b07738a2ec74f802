"""With a real server: hung requests are answered, and `warm` keeps requests from hanging. Short forms of rescue.py and
front.py, which `make evidence` runs at length.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wake.front import fronts
from tests.wake.rescue import hung

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def _engine() -> None:
    pytest.importorskip("xllamacpp", reason="the extra `race` brings the engine")
    pytest.importorskip("gguf", reason="the extra `race` brings the writer of models")


def test_hung_requests_are_answered(tmp_path: Path) -> None:
    rescued = list(hung(tmp_path, "act", 2))
    for one in rescued:
        assert one.answered
        assert one.incident is not None and one.action is not None
        assert (one.incident.state, one.action.outcome) == ("unstuck", "released")
        assert one.action.waited_us == one.incident.duration_us
        assert one.trial.latency_us >= 2_000_000  # it would not have been told before the grace was over
        assert "a wake completion freed it after" in one.incident.summary


def test_without_waking_they_are_not(tmp_path: Path) -> None:
    [one] = hung(tmp_path, "off", 1, patience_seconds=5)
    assert not one.answered
    assert one.action is None


def test_warm_in_front_of_a_long_prompt(tmp_path: Path) -> None:
    seen = list(fronts(tmp_path, 6))
    assert [one.outcome for one in seen] == ["answered"] * 6
