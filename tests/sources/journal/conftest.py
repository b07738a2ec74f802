from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from sleepwatch.sources.journal import Way
from tests.sources.journal.making import Entries, append, parse
from tests.support.needs import need_journal_remote, need_module, need_program

Make = Callable[[Path, Entries], Path]


@pytest.fixture(scope="session")
def recorded(corpus: Path) -> Entries:
    """Two units under a real systemd: 490 entries, two hung requests, four crashes."""
    return parse(gzip.decompress((corpus / "journal-two-units-export/journal.export.gz").read_bytes()))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes entries into a real journal file, behind those it has already."""
    need_journal_remote()

    def write(path: Path, entries: Entries) -> Path:
        return append(path, entries)

    return write


@pytest.fixture(params=["native", "command"])
def way(request: pytest.FixtureRequest) -> Way:
    """Each way of reading a journal that this machine has."""
    if request.param == "native":
        need_module("systemd", "systemd-python")
    else:
        need_program("journalctl", "systemd")
    way: Way = request.param
    return way
