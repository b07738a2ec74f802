"""journald's settings, as far as they decide whether a server's lines are there to be read (journald.conf(5))."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sleepwatch.hosts.access import Reader
from sleepwatch.hosts.commands import Run
from sleepwatch.hosts.spans import parse_span_us
from sleepwatch.hosts.unitfiles import read_config, syslog_level

DEFAULT_RATE_INTERVAL_US = 30_000_000
DEFAULT_RATE_BURST = 10_000
_GROUPS = ("systemd-journal", "adm", "wheel")


class Journald(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force."""

    storage: str = "auto"
    persistent: bool = False
    """Entries outlive a reboot."""
    rate_interval_us: int = DEFAULT_RATE_INTERVAL_US
    rate_burst: int = DEFAULT_RATE_BURST
    max_level_store: int = 7
    places: dict[str, str] = {}
    """Which file decided a setting, by its key."""
    readable: bool | None = None
    """Whether this user can read other users' entries; None where it was not tried."""
    why_unreadable: str | None = None
    unseen: tuple[str, ...] = ()


def find_journald(*, root: Path = Path("/"), run: Run | None = None) -> Journald:
    """The settings on disk, and whether the journal can be read. ``run`` None: that is not tried."""
    config = read_config("journald.conf", root)
    places: dict[str, str] = {}

    def text(key: str) -> str:
        one = config.scalar("Journal", key)
        if one is None:
            return ""
        places[key] = one.path
        return one.value

    storage = text("Storage") or "auto"
    interval = parse_span_us(text("RateLimitIntervalSec")) if text("RateLimitIntervalSec") else None
    burst = text("RateLimitBurst")
    readable, why = _readable(run)
    return Journald(
        storage=storage,
        persistent=storage == "persistent" or (storage == "auto" and (root / "var/log/journal").is_dir()),
        rate_interval_us=DEFAULT_RATE_INTERVAL_US if interval is None else interval,
        rate_burst=int(burst) if burst.isdigit() else DEFAULT_RATE_BURST,
        max_level_store=syslog_level(text("MaxLevelStore"), 7),
        places=places,
        readable=readable,
        why_unreadable=why,
        unseen=config.unreadable,
    )


def readable_by(reader: Reader, root: Path = Path("/")) -> bool:
    """Whether another process may read the system's journal: root, or a member of one of its groups.

    systemd-journal owns the files; adm and wheel are given access by its tmpfiles rules (systemd-journald.service(8)).
    """
    if reader.uid == 0 or reader.reads_anything:
        return True
    try:
        lines = (root / "etc/group").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    fields = [line.split(":") for line in lines]
    known = {int(one[2]) for one in fields if len(one) > 2 and one[0] in _GROUPS and one[2].isdigit()}
    return bool(known & set(reader.groups))


def _readable(run: Run | None) -> tuple[bool | None, str | None]:
    """Ask for init's newest entry: an ordinary user sees only his own, and journalctl then finds none."""
    if run is None:
        return None, None
    answer = run(["journalctl", "--no-pager", "--quiet", "--output=cat", "--lines=1", "_PID=1"])
    if answer.status == -1:
        return None, answer.why
    if answer.output.strip():
        return True, None
    return False, answer.why or "journalctl shows this user no entries of the system"
