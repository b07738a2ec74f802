"""Services share the compiled rules: each of the many that are started here would compile them anew."""

from __future__ import annotations

import pytest

from tests.daemon.driving import share_rules


@pytest.fixture(autouse=True)
def _shared_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    share_rules(monkeypatch)
