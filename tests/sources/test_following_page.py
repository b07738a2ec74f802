"""docs/following.md names tests: are they there?"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).parent


def test_every_test_that_the_page_names_exists() -> None:
    page = (HERE.parents[1] / "docs" / "following.md").read_text()
    tests = re.findall(r"def (test_\w+)", "".join(file.read_text() for file in HERE.glob("test_*.py")))
    rows = [row for row in page.splitlines() if row.startswith("| ") and not row.startswith("| what happens")]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1])
        assert named, row
        for name in named:
            if name.endswith(".py"):
                assert (HERE / name).is_file(), name
            else:
                pattern = "test_*" + name.strip("…") + "*"
                assert any(fnmatchcase(test, pattern) for test in tests), name
