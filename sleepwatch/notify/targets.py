"""Where targets are reached: their URLs, which are secrets, from a file or a systemd credential, read when needed."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from sleepwatch.config import Notify, Settings
from sleepwatch.errors import SleepwatchError, os_words

CREDENTIAL = "secret_notify-urls"
"""What the unit makes of :data:`CREDENTIAL_FILE` (packaging/systemd/sleepwatch.service)."""
CREDENTIAL_FILE = Path("/etc/sleepwatch/credentials/notify-urls")
_HOSTED = ("json", "xml", "form", "mailto", "http", "ntfy", "gotify", "matrix", "apprise")
"""URLs whose host is one, and no secret; with or without an ``s`` for TLS."""
_SHORTEST_SECRET = 4
_MASK = "(secret)"
_PIECES = re.compile(r"[^\w.~%+-]+")


def urls_place(settings: Notify, environment: Mapping[str, str] | None = None) -> Path | None:
    """The file that holds the URLs; None where there is none.

    The one the settings name; else the service's credential, and for root outside the service the file that is from.
    """
    if settings.urls_file is not None:
        return Path(settings.urls_file)
    directory = (os.environ if environment is None else environment).get("CREDENTIALS_DIRECTORY")
    place = CREDENTIAL_FILE if directory is None else Path(directory) / CREDENTIAL
    return place if os.access(place, os.R_OK) else None


def read_urls(settings: Notify, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The URLs by name. Raises SleepwatchError, which never shows a part of one."""
    place = urls_place(settings, environment)
    if place is None:
        return {}
    try:
        data = tomllib.loads(place.read_bytes().decode())
    except OSError as error:
        raise SleepwatchError(
            f"the URLs of targets in {place} cannot be read: {os_words(error)}",
            hint="notify.urls_file names the file; left out, it is the credential notify-urls",
        ) from error
    except UnicodeDecodeError as error:
        raise SleepwatchError(f"{place}: not UTF-8 (byte {error.start})", hint="save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"\(at .*\)$", str(error))  # the rest of its words can quote the line
        raise SleepwatchError(
            f"{place}: not valid TOML {where.group() if where else ''}".rstrip(), hint='each line is: name = "url"'
        ) from error
    for name, url in data.items():
        if not isinstance(url, str) or not url.strip():
            raise SleepwatchError(f"{place}: {name} is not a text", hint='each line is: name = "url"')
    return {name: url.strip() for name, url in data.items()}


def complaints(settings: Settings) -> Iterator[str]:
    """What would keep messages from being sent, or secrets from being kept. No part of a URL is shown."""
    place = urls_place(settings.notify)
    try:
        urls = read_urls(settings.notify)
    except SleepwatchError as error:
        yield str(error)
        return
    if place is not None and is_open_to_all(place):
        yield f"{place} holds secrets and may be read by every user: chmod 600"
    for target in settings.target:
        if target.command is None and target.name not in urls:
            where = place or "the credential notify-urls, which is not there"
            yield f"target {target.name} has neither a command nor a URL in {where}"


def is_open_to_all(place: Path) -> bool:
    """Whether every user may read the file."""
    try:
        return bool(place.stat().st_mode & 0o004)
    except OSError:
        return False


def masked(text: str, urls: Iterable[str]) -> str:
    """``text`` without these URLs and without any part of one that could be its secret."""
    for url in urls:
        text = text.replace(url, _MASK)
        scheme, _, rest = url.partition("://")
        shown = {scheme}
        if scheme.lower().removesuffix("s") in _HOSTED:
            host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
            shown |= {host, host.partition(":")[0]}
        for piece in sorted(set(_PIECES.split(rest)), key=len, reverse=True):
            for secret in {piece, unquote(piece)}:
                if len(secret) >= _SHORTEST_SECRET and not any(secret in one for one in shown):
                    text = text.replace(secret, _MASK)
    return text
