"""The server's own word whether it sleeps: ``GET /props``, which neither wakes it nor resets its idle timer.

``is_sleeping`` is there from llama.cpp b7492 on (tools/server/server-context.cpp). A reload answers late, which is
normal: no answer in time says nothing. Never ``/slots`` and never ``/metrics``: older builds wake for them.
"""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from sleepwatch.errors import SleepwatchError

SECONDS = 1.0
_MOST = 4 << 20
"""/props holds the chat template: some hundred kilobytes at most."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1"}


class PropsError(SleepwatchError):
    """The server did not say whether it sleeps."""


class _Props(msgspec.Struct):
    is_sleeping: bool


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def is_sleeping(url: str, *, key_file: Path | None = None, seconds: float = SECONDS) -> bool:
    """Ask the server that listens on ``url`` (``http://HOST:PORT``, ``https://…``, ``unix://PATH``).

    ``key_file`` holds the API key on its first line. Raises PropsError.
    """
    try:
        key = key_file.read_text().split("\n", 1)[0].strip() if key_file is not None else None
    except OSError as error:
        raise PropsError(
            f"{key_file}: {(error.strerror or str(error)).lower()}", hint="witness.api_key_file"
        ) from error
    connection = _connection(url, seconds)
    try:
        connection.request("GET", "/props", headers={"Authorization": f"Bearer {key}"} if key else {})
        answer = connection.getresponse()
        body = answer.read(_MOST)
    except (OSError, http.client.HTTPException) as error:
        raise PropsError(f"{url}/props gave no answer ({error or type(error).__name__})") from error
    finally:
        connection.close()
    if answer.status == 401:
        raise PropsError(f"{url}/props: 401, it wants a key", hint="name its file in witness.api_key_file")
    if answer.status != 200:
        raise PropsError(f"{url}/props: status {answer.status}")
    try:
        return msgspec.json.decode(body, type=_Props).is_sleeping
    except msgspec.MsgspecError as error:
        raise PropsError(f"{url}/props does not say is_sleeping") from error


def _connection(url: str, seconds: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return _Unix(parts.netloc + parts.path, seconds)
    host = _ANY.get(parts.hostname or "", parts.hostname or "127.0.0.1")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(host, parts.port, timeout=seconds)
