"""The same lines found by general log watchers: the figures in docs/performance.md.

``python -m tests.bench.peers``. SEC, lnav and fail2ban-regex look for the lines about sleeping, cancelling, launching,
releasing and posting, with the patterns in tests/bench/peers. They only find lines; ``scan`` also does what has to be
done with them. A tool that is not installed is left out.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.bench import logs
from tests.bench.compare import SLEEPWATCH, measure, read_once, table

PATTERNS = Path(__file__).with_name("peers")
MEGABYTES = 50


def commands(log: str) -> dict[str, tuple[str, ...]]:
    """What each tool is run as."""
    lines = PATTERNS / "lines.re"
    return {
        "sleepwatch scan": (*SLEEPWATCH, "scan", "--json", log),
        "sec": ("sec", f"--conf={PATTERNS / 'sec.conf'}", f"--input={log}", "--notail", "--fromstart"),
        "lnav": ("lnav", "-n", "-c", f":filter-in {lines.read_text().strip()}", log),
        "fail2ban-regex": (
            *("fail2ban-regex", "--print-no-missed", "--print-no-ignored"),
            *(log, str(PATTERNS / "fail2ban.conf")),
        ),
        "rg -c -P": ("rg", "--no-config", "-c", "-P", "-f", str(lines), log),
        "grep -cP": ("grep", "-cP", "-f", str(lines), log),
    }


def main() -> None:
    """Measure each tool on a verbose and on a default log."""
    for kind in ("verbose", "default"):
        log = logs.make(kind, MEGABYTES)
        read_once(log.path)
        rows = []
        with tempfile.TemporaryDirectory() as scratch:
            for name, command in commands(str(log.path)).items():
                if shutil.which(command[0]):
                    rows.append((name, measure(command, Path(scratch) / "output")))
        print(f"\n{log.path.name}: {log.size / logs.MB:.0f} MB, {log.lines:,} lines")
        table(log, rows)


if __name__ == "__main__":
    main()
