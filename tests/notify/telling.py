"""A daemon with targets, driven by hand, and what came of its messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sleepwatch.config import Notify, Target
from sleepwatch.daemon.service import Service
from sleepwatch.notify.desk import Desk
from sleepwatch.store import open_store
from tests.daemon.driving import SECOND, Driven, FakeClock, new_database

WAIT_SECONDS = 120


def told(place: Path, urls: dict[str, str], *targets: Target, clock: FakeClock | None = None, **notify: Any) -> Driven:
    """A daemon on ``server.log`` that tells these targets; those without a command have these URLs."""
    file = place / "urls.toml"
    file.write_text("".join(f'{name} = "{url}"\n' for name, url in urls.items()))
    file.chmod(0o600)
    named = targets or tuple(Target(name=name) for name in urls if name != "ping")
    database, log = place / "live.db", place / "server.log"
    if not database.exists():
        new_database(database)
    log.touch()
    settings = Notify(urls_file=str(file), **notify)
    return Driven(database, [log], clock, notify=settings, targets=named)


def desk(service: Service) -> Desk:
    assert service._desk is not None
    return service._desk


def until(driven: Driven, holds: Callable[[], bool], *, step_us: int = 0) -> None:
    """Look again and again, as the process that sends goes on; ``step_us`` of the daemon's time pass between."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, (rows(driven), driven.complained)
        driven.step()
        driven.clock.advance(step_us)
        if desk(driven.service)._courier.busy:
            desk(driven.service)._courier.wait(0.5)


def sent(driven: Driven) -> None:
    """Until nothing waits that is due now."""
    now_us = driven.clock.wall_us
    until(driven, lambda: not any(row["state"] == "sending" or row["due_us"] <= now_us for row in waiting(driven)))


def waiting(driven: Driven) -> list[dict[str, Any]]:
    return [row for row in rows(driven) if row["state"] in ("waiting", "sending")]


def rows(driven: Driven | Path) -> list[dict[str, Any]]:
    """Every delivery, with what it says and all attempts."""
    path = driven if isinstance(driven, Path) else driven.service.database
    with open_store(path, read_only=True) as store:
        found = store.connection.execute(
            "SELECT delivery.id, delivery.state, target, what, incident, title, short, tries, due_us, queued_us "
            "FROM delivery JOIN message ON message.id = delivery.message ORDER BY delivery.id"
        )
        names = [column[0] for column in found.description]
        deliveries = [dict(zip(names, row, strict=True)) for row in found]
        for one in deliveries:
            one["attempts"] = [
                row[0]
                for row in store.connection.execute(
                    "SELECT outcome FROM attempt WHERE delivery = ? ORDER BY id", (one["id"],)
                )
            ]
    return deliveries


def said(driven: Driven | Path) -> list[tuple[str, str, str]]:
    """Target, what, and state of every delivery, in order."""
    return [(row["target"], row["what"], row["state"]) for row in rows(driven)]


def write(driven: Driven, log: Path, data: bytes, *, for_us: int = 3 * SECOND) -> None:
    """These bytes come at once; then some time passes."""
    with log.open("ab") as file:
        file.write(data)
    driven.run_for(for_us)
