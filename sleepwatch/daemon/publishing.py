"""What the daemon counts and offers as metrics, where it is told to; without that, nothing is loaded or kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sleepwatch import __version__
from sleepwatch.config import Metrics as Wanted
from sleepwatch.daemon.watching import Found, SourceWatch
from sleepwatch.engine import Now, Words
from sleepwatch.errors import SleepwatchError
from sleepwatch.printable import printable
from sleepwatch.sources.follow import FileFollower
from sleepwatch.sources.followers import Follower
from sleepwatch.store.daemon import Pulse

if TYPE_CHECKING:
    from sleepwatch.daemon.metrics import Metrics, SourceFigures
    from sleepwatch.notify.desk import Desk
    from sleepwatch.wake.responder import Responder


class Publisher:
    """Stands between the daemon's loop and its metrics."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, str], int] = {}
        """Open incidents by kind and severity, as stored; replaced, never changed."""
        self._metrics: Metrics | None = None

    def offer(self, wanted: Wanted, words: Mapping[str, Words]) -> list[str]:
        """Offer metrics as the settings say. A port that cannot be had is no reason not to watch: it is returned."""
        if self._metrics is None:
            if wanted.port is None and wanted.textfile is None:
                return []
            from sleepwatch.daemon.metrics import Metrics

            self._metrics = Metrics((kind, one.severity) for kind, one in words.items())
        self._metrics.write_to(Path(wanted.textfile) if wanted.textfile is not None else None)
        try:
            self._metrics.listen(wanted.port)
        except SleepwatchError as error:
            return [str(error)]
        return []

    @property
    def address(self) -> tuple[str, int] | None:
        """Where they can be had."""
        return None if self._metrics is None else self._metrics.address

    def count(self, found: Found, new: Collection[str]) -> None:
        """Count what was stored; ``new`` are the ids of the incidents that were not known before."""
        if self._metrics is not None:
            from sleepwatch.daemon.metrics import cause

            self._metrics.gaps.update(cause(gap.cause) for gap in found.gaps)
            incidents = found.incidents
            self._metrics.incidents.update((incidents[one].kind, incidents[one].severity) for one in new)

    def due(self, monotonic_us: int) -> bool:
        """Whether it is time to publish again."""
        return self._metrics is not None and self._metrics.due(monotonic_us)

    def publish(
        self,
        sources: Iterable[tuple[Follower, SourceWatch]],
        pulse: Pulse,
        rules_digest: str,
        now: Now,
        desk: Desk | None = None,
        responder: Responder | None = None,
    ) -> str | None:
        """Publish how everything stands; returns what went wrong."""
        if self._metrics is None:
            return None
        from sleepwatch.daemon.metrics import Figures

        figures = Figures(
            version=__version__,
            rules=rules_digest,
            started_us=pulse.started_us,
            progress_us=now.wall_us,
            saved_us=pulse.beat_us,
            sources=tuple(_source(follower, watch, now) for follower, watch in sources),
            gaps=dict(self._metrics.gaps),
            incidents=dict(self._metrics.incidents),
            open=self.open,
            notifications=None if desk is None else dict(desk.outcomes),
            oldest_us=0 if desk is None or desk.oldest_us is None else max(0, now.wall_us - desk.oldest_us),
            wakes=None if responder is None else dict(responder.outcomes),
        )
        try:
            self._metrics.publish(figures, now.monotonic_us)
        except SleepwatchError as error:
            return str(error)
        return None

    def close(self) -> None:
        """Offer nothing any more."""
        if self._metrics is not None:
            self._metrics.close()


def _source(follower: Follower, watch: SourceWatch, now: Now) -> SourceFigures:
    from sleepwatch.daemon.metrics import SourceFigures

    return SourceFigures(
        source=printable(str(follower.path)),
        up=follower.state.name == "following",
        bytes=watch.bytes,
        lines=watch.lines,
        events=watch.events,
        rotations=watch.rotations,
        unread=follower.unread if isinstance(follower, FileFollower) else 0,
        lag_us=watch.blindness.lag_us(now),
        read_until_us=watch.blindness.read_until_us,
    )
