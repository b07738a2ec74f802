"""Opening a journal: by the first way of reading one that is there (:mod:`sleepwatch.sources.journal`)."""

from __future__ import annotations

import importlib.util
import os
import shutil

from sleepwatch.errors import SourceError
from sleepwatch.sources.journal import LOCAL, Journal, Way, Which, journal_files
from sleepwatch.sources.journal_units import Units


def open_journal(which: Which, units: Units, *, follow: bool = False, way: Way = "auto") -> Journal:
    """Open a journal. Raises SourceError where it is not there, may not be read, or nothing here can read it.

    Of what is read, only lines of or about ``units`` are given out. ``follow``: further entries will be waited for.
    """
    _look_at(which)
    if way != "command" and has_native():
        from sleepwatch.sources.journal_native import NativeJournal

        return NativeJournal(which, units)
    if way == "native":
        raise SourceError(
            "the package systemd-python is not installed", hint="pip install 'sleepwatch[journal]', or use journalctl"
        )
    if shutil.which("journalctl") is None:
        raise SourceError(
            f"{which.name}: nothing here can read a journal",
            hint="install systemd (for journalctl), or pip install 'sleepwatch[journal]'",
        )
    from sleepwatch.sources.journal_command import CommandJournal

    return CommandJournal(which, units, follow=follow)


_MAY_READ = "run it as root or as a member of the group systemd-journal"


def has_native() -> bool:
    """Is systemd-python installed?"""
    return importlib.util.find_spec("systemd") is not None and importlib.util.find_spec("systemd._reader") is not None


def _look_at(which: Which) -> None:
    """Raise the SourceError that tells why there is nothing to read, before a library tells less."""
    if which.directory is not None and _is_closed(which.directory):
        raise SourceError(f"{which.name}: permission denied", hint=_MAY_READ)
    if which.directory is not None and not os.path.isdir(which.directory):
        raise SourceError(f"{which.name}: no such directory", hint="name a directory of journal files")
    for name in which.files:
        if not os.path.lexists(name):
            closed = _is_closed(os.path.dirname(name) or ".")
            raise SourceError(f"{which.name}: {'permission denied' if closed else 'no such file'}")
    files = journal_files(which)
    if not files:
        where = "" if which.directory else f" in {' or '.join(LOCAL)}"
        raise SourceError(f"{which.name}: there are no journal files{where}", hint="is it kept in another directory?")
    chief = [path for path in files if path.name.startswith("system")] if not which.files else []
    for some in (files, chief):
        unreadable = [str(path) for path in some if not os.access(path, os.R_OK)]
        if unreadable and len(unreadable) == len(some):
            raise SourceError(
                f"{which.name}: permission denied ({unreadable[0]})",
                hint=_MAY_READ,
            )


def _is_closed(directory: str) -> bool:
    """Whether this user may not look into it, though it may be there."""
    try:
        os.stat(directory)
    except PermissionError:
        return True
    except OSError:
        return False
    return os.path.isdir(directory) and not os.access(directory, os.R_OK | os.X_OK)
