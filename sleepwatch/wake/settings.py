"""``[wake]``: whether the daemon wakes a server for a hung request, and within which bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec

from sleepwatch.config_keys import Problem, shown, words

Mode = Literal["off", "observe", "act"]
_Mode = Annotated[Mode, words('"off", "observe" or "act"')]
_File = Annotated[str, words("the path of a file")]
_Url = Annotated[str, words("http://HOST:PORT, https://HOST:PORT or unix:///PATH")]
_Kind = Annotated[Literal["completion", "chat", "embedding"], words('"completion", "chat" or "embedding"')]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_Seconds = Annotated[float, msgspec.Meta(ge=1, le=86_400)]


class WakeServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[wake.server]]``: what is different for the servers of this name. The first that fits counts."""

    name: Annotated[str, words("a server's name as incidents show it, or a pattern")]
    mode: _Mode | None = None
    url: _Url | None = None
    """Where it is reached; left out: where it says itself that it listens, on this machine only."""
    model: Annotated[str, words("a model's name")] | None = None
    """Of a router that is reached instead of its child."""
    kind: _Kind | None = None
    api_key_file: _File | None = None
    ca_file: _File | None = None
    insecure: bool = False


class Wake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[wake]``."""

    mode: _Mode = "off"
    per_incident: _Count = 3
    """Wakes for one hung request, at most."""
    per_hour: _Count = 20
    """Wakes of one server within an hour, at most: each loads the model."""
    back_off_seconds: _Seconds = 10.0
    """From a wake that freed nothing to the next for the same request; twice as long after each further one."""
    breaker_failures: _Count = 2
    """After so many wakes in a row that freed nothing, a server is left alone …"""
    breaker_seconds: _Seconds = 3600.0
    """… for this long."""
    timeout_seconds: _Seconds | None = None
    """How long a wake may take; left out: five times the longest reload seen, at least one minute, or ten minutes."""
    api_key_file: _File | None = None
    server: tuple[WakeServer, ...] = ()

    def of(self, server: str) -> WakeServer:
        """What holds for this server, with all that is left out filled in but the URL."""
        found = next((one for one in self.server if fnmatchcase(server, one.name)), WakeServer(name=server))
        return msgspec.structs.replace(
            found, mode=found.mode or self.mode, api_key_file=found.api_key_file or self.api_key_file
        )

    @property
    def on(self) -> bool:
        """Is there anything to do for any server?"""
        return any(mode not in (None, "off") for mode in (self.mode, *(one.mode for one in self.server)))

    def with_paths(self, absolute: Callable[[str], str]) -> Wake:
        """The same with absolute paths."""

        def of(name: str | None) -> str | None:
            return None if name is None else absolute(name)

        servers = tuple(
            msgspec.structs.replace(one, api_key_file=of(one.api_key_file), ca_file=of(one.ca_file))
            for one in self.server
        )
        return msgspec.structs.replace(self, api_key_file=of(self.api_key_file), server=servers)

    def problems(self) -> Iterator[Problem]:
        """What the types cannot tell."""
        from sleepwatch.client.target import TargetError, parse_target

        for at, one in enumerate(self.server):
            if not one.name.strip():
                yield Problem(f"wake.server[{at}].name", shown(one.name), "must be a server's name, or a pattern")
            if one.url is not None:
                try:
                    parse_target(one.url)
                except TargetError as error:
                    yield Problem(f"wake.server[{at}].url", None, error.message)
