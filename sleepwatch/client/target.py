"""The server to be woken: where it listens, and what it needs to be told so that it answers."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from sleepwatch.errors import SleepwatchError, os_words
from sleepwatch.printable import printable

_PORTS = {"http": 80, "https": 443}
_KEY_LIMIT = 4096


class TargetError(SleepwatchError):
    """A URL, an API key or a certificate that cannot be used."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One llama-server, or one model of a router."""

    url: str
    """As a person would write it, without secrets."""
    host: str = "localhost"
    port: int | None = None
    socket: str | None = None
    """The path of its unix socket; then there is no port."""
    tls: bool = False
    prefix: str = ""
    """What stands before every path (``--api-prefix``)."""
    model: str | None = None
    """A router passes on by this name; other servers ignore it."""
    kind: str | None = None
    """One of :data:`sleepwatch.wake.request.KINDS`; None finds out."""
    key_file: Path | None = None
    ca_file: Path | None = None
    """Trust what this certificate authority (or this very certificate) vouches for, instead of the system's."""
    insecure: bool = False
    """Take any certificate."""

    @property
    def is_here(self) -> bool:
        """It cannot be on another machine."""
        if self.socket is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def api_key(self) -> str | None:
        """The key, read anew each time since credentials are rotated. Raises TargetError."""
        return None if self.key_file is None else read_key(self.key_file)

    def tls_context(self) -> ssl.SSLContext | None:
        """How to speak TLS to it; None where it speaks plainly. Raises TargetError."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file is not None else None)
        except (OSError, ssl.SSLError) as error:
            raise TargetError(
                f"the certificate file {printable(str(self.ca_file))} cannot be used: {error.strerror or error}",
                hint="it must hold certificates in PEM form",
            ) from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def parse_target(
    url: str,
    *,
    model: str | None = None,
    kind: str | None = None,
    key_file: Path | None = None,
    ca_file: Path | None = None,
    insecure: bool = False,
) -> Target:
    """The target a URL names: ``http://127.0.0.1:8080``, ``https://host``, ``unix:///run/llama.sock``.

    ``localhost:8080`` is taken as people mean it, and so is the ``/v1`` that clients of the OpenAI API append. A server
    that listens on all addresses (``0.0.0.0``, ``::``) is reached on the loopback one. Raises TargetError.
    """
    text = url.strip()
    if "://" not in text and not text.startswith("unix:"):
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _wrong(url, str(error)) from error
    if parts.username is not None or parts.password is not None:
        raise TargetError(
            "the URL holds a user or a password, which other users of this machine could see",
            hint="give an API key in a file",
        )
    if parts.query or parts.fragment:
        raise _wrong(url, "it has a query or a fragment")
    if parts.scheme == "unix":
        if parts.netloc or not parts.path.startswith("/"):
            raise _wrong(url, "a socket's path begins with a slash")
        return Target(url=f"unix://{parts.path}", socket=parts.path, model=model, kind=kind, key_file=key_file)
    if parts.scheme not in _PORTS:
        raise _wrong(url, f"{parts.scheme}:// is not spoken here")
    if not parts.hostname:
        raise _wrong(url, "it names no host")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname, parts.hostname)
    port = _PORTS[parts.scheme] if port is None else port
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    shown = f"[{host}]" if ":" in host else host
    return Target(
        url=f"{parts.scheme}://{shown}:{port}{prefix}",
        host=host,
        port=port,
        tls=parts.scheme == "https",
        prefix=prefix,
        model=model,
        kind=kind,
        key_file=key_file,
        ca_file=ca_file,
        insecure=insecure,
    )


def read_key(file: Path) -> str:
    """The API key this file holds. Raises TargetError.

    Of several lines the first: the server's own ``--api-key-file`` has one key a line (llama.cpp ``common/arg.cpp``).
    """
    where = printable(str(file))
    try:
        with file.open("rb") as opened:
            lines = opened.read(_KEY_LIMIT).splitlines()
    except OSError as error:
        raise TargetError(
            f"the API key file {where} cannot be read: {os_words(error)}",
            hint="check its path, mode and owner",
        ) from error
    key = next((line.strip() for line in lines if line.strip()), b"")
    if not key or not all(0x20 < byte < 0x7F for byte in key):
        what = "holds something else than printable ASCII" if key else "is empty"
        raise TargetError(f"the API key file {where} {what}", hint="it must hold the key, alone on a line")
    return key.decode("ascii")


def _wrong(url: str, why: str) -> TargetError:
    return TargetError(
        f"{printable(url)!r} is not the address of a server: {why}",
        hint="write http://HOST:PORT, https://HOST:PORT or unix:///PATH",
    )
