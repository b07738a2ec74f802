"""Real receivers of messages: an HTTP server and an SMTP server on loopback ports, each with a will of its own."""

from __future__ import annotations

import asyncio
import email
import email.policy
import json
import threading
from collections.abc import Callable
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiosmtpd.smtp import SMTP


class Answer(NamedTuple):
    """How the HTTP receiver answers."""

    status: int = 200
    wait_for: threading.Event | None = None
    """Answers only when this is set."""


class HttpReceiver:
    """Takes POSTs of JSON; ``answer`` says how each is answered. What was answered with 2xx counts as received."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer] | None = None) -> None:
        self.answer = answer or (lambda document: Answer())
        self.received: list[dict[str, Any]] = []
        self.asked = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._take(self)

            def do_GET(self) -> None:
                receiver.asked += 1
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        """As apprise wants it."""
        return f"json://user:very-secret@127.0.0.1:{self.port}/hook"

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        document = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        answer = self.answer(document)
        if answer.wait_for is not None:
            answer.wait_for.wait(60)
        if answer.status < 300:
            self.received.append(document)
        try:
            request.send_response(answer.status)
            request.send_header("Content-Length", "0")
            request.end_headers()
        except OSError:
            pass  # who asked is gone

    def titles(self) -> list[str]:
        return [one["title"] for one in self.received]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class SmtpReceiver:
    """Takes mail; while ``refuses`` is set, it answers 451."""

    def __init__(self) -> None:
        self.received: list[EmailMessage] = []
        self.refuses = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        serving = self._loop.create_server(lambda: SMTP(self), "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(30)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refuses:
            return "451 try again later"
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.received.append(message)
        return "250 OK"

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"mailto://127.0.0.1:{self.port}?from=sleepwatch@example.org&to=oncall@example.org&mode=insecure"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
