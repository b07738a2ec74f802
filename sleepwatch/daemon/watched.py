"""What a daemon watches: files and units, named by the settings or found on this host."""

from __future__ import annotations

import msgspec

from sleepwatch.config import FileSource, Settings, UnitSource
from sleepwatch.daemon.finding import Finding
from sleepwatch.sources.journal_units import Units


class Sources(msgspec.Struct, frozen=True):
    """What is watched."""

    files: tuple[FileSource, ...] = ()
    units: tuple[UnitSource, ...] = ()

    @classmethod
    def named(cls, settings: Settings) -> Sources:
        """What the settings name."""
        return cls(settings.file, settings.unit)

    def __bool__(self) -> bool:
        return bool(self.files or self.units)

    def units_here(self) -> Units | None:
        """The units of this machine's own journal; None where none is watched."""
        names = [one.name for one in self.units if one.directory is None]
        return Units(names) if names else None

    def and_found(self, finding: Finding, kept: set[str]) -> Sources:
        """What is to be watched after a look at the host: all that it found, these paths, and every unit found before.

        A unit costs nothing while its server does not run, and its next start is then seen from the first line.
        """
        paths = {*(log.place for log in finding.files), *kept}
        units = {*(log.place for log in finding.units), *(one.name for one in self.units)}
        return Sources(
            tuple(FileSource(path=path) for path in sorted(paths)),
            tuple(UnitSource(name=name) for name in sorted(units)),
        )
