"""The service manager's notification socket (sd_notify(3)): state, status and the watchdog's food."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


class Notifier:
    """Sends to ``$NOTIFY_SOCKET``; silent where there is none, or where it cannot be reached."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        usec, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
        watched = usec.isdigit() and (not pid or pid == str(os.getpid()))
        self.watchdog_us = int(usec) if watched and self._address else None
        """How long the service manager waits for a sign of progress; None where it does not."""

    def send(self, *fields: str) -> None:
        """``READY=1``, ``STATUS=…``, ``WATCHDOG=1``, ``STOPPING=1`` …, in one message."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto("\n".join(fields).encode(), address)
