"""The one machine that all tests of a run share: booting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.needs import missing, need_program, need_root
from tests.system.machine import CannotBootError, Machine, remove_tmpfs, tmpfs


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A booted machine. Each module of tests adds its units, under names of their own, and leaves none running."""
    need_root()
    need_program("systemd-nspawn", "systemd-container")
    need_program("nsenter", "util-linux")
    room = tmp_path_factory.mktemp("machine") / "room"
    booted = None
    try:
        tmpfs(room)
        booted = Machine(room, {})
        booted.boot()
        yield booted
    except CannotBootError as why:
        missing(f"a systemd booted in a container, which this machine cannot do: {why}")
    finally:
        if booted is not None:
            booted.shut_down()
        remove_tmpfs(room)
