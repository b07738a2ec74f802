"""FakeLlama: a made server that does on demand what the real one does only by accident.

It listens, sleeps, keeps requests in a sleeping queue and prints the real one's lines (``-lv 5``), and on a wake it can
hang, die, refuse, take its time, or leave what lies in its queue. Everything else is shown on the real server.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal

CERTIFICATE = Path(__file__).with_name("made-tls.pem")
"""A key and its own certificate, for 127.0.0.1 and localhost, made for these tests with openssl."""
STUCK = "stuck"
"""A request with this prompt is queued into the sleeping server without waking it, as one that met the race."""

Manner = Literal["wakes", "hangs", "dies", "keeps", "restarts"]
"""On a wake: ``keeps`` answers the waker and leaves the queue; ``restarts`` dies, and is there again at once, awake."""

_ROUTES = {"/completion": "completion", "/v1/chat/completions": "chat", "/embedding": "embedding"}


class FakeLlama:
    """A context manager: listens while it is entered."""

    def __init__(
        self,
        *,
        manner: Manner = "wakes",
        asleep: bool = True,
        kinds: tuple[str, ...] = ("completion", "chat"),
        key: str | None = None,
        reload_seconds: float = 0.0,
        path: Path | None = None,
        log: IO[bytes] | None = None,
        router: bool = False,
        loading: int = 0,
        now: Callable[[], float] = time.monotonic,
        tls: bool = False,
    ) -> None:
        """``now`` gives the seconds its log's clock goes by; ``reload_seconds`` are real ones."""
        self.manner: Manner = manner
        self.asleep = asleep
        self.kinds = kinds
        self.key = key
        self.reload_seconds = reload_seconds
        self.router = router
        self.loading = loading
        """So many requests get a 503 first."""
        self.posts: list[str] = []
        """The path of every POST that reached a route, in order."""
        self.bodies: list[dict[str, object]] = []
        self.props_asked = 0
        self.waking = threading.Event()
        """A wake has reached it."""
        self._lock = threading.Condition()
        self._released = False
        self._dead = False
        self._log = log
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if self._tls is not None:
            self._tls.load_cert_chain(CERTIFICATE)
        self._now = now
        self._begun = now()
        self._task = -1
        self._connections: set[socket.socket] = set()
        self._path = path
        if path is not None:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen()
        else:
            self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = 0 if path is not None else int(self._listener.getsockname()[1])
        self.url = f"unix://{path}" if path is not None else f"http{'s' * tls}://127.0.0.1:{self.port}"
        self._say("I srv  llama_server: initializing ...")
        self._say("I cmn  common_param: common_params_print_info: verbosity = 5 (adjust with the `-lv N` CLI arg)")
        self._say("I srv    load_model: loading model '/srv/models/fake.gguf'")
        self._say("I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512, kv_unified = 'false'")
        self._say("I srv  llama_server: model loaded")
        self._say(f"I srv  llama_server: listening on {self.url}")
        if asleep:
            self._say_asleep()

    def __enter__(self) -> FakeLlama:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def fall_asleep(self) -> None:
        """As when the idle timer fires."""
        with self._lock:
            self.asleep = True
            self._released = False
            self.waking.clear()
            self._say_asleep()

    def die(self) -> None:
        """As on signal 11: every connection ends."""
        with self._lock:
            self._dead = True
            self._lock.notify_all()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    # -- what it says -------------------------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        if self._log is None:
            return
        micros = round((self._now() - self._begun) * 1e6)
        minutes, rest = divmod(micros, 60_000_000)
        stamp = f"{minutes}.{rest // 1_000_000:02}.{rest // 1000 % 1000:03}.{rest % 1000:03}"
        self._log.write(f"{stamp} {line}\n".encode())
        self._log.flush()

    def _say_asleep(self) -> None:
        self._say("I que    start_loop: entering sleeping state")
        self._say("I srv  handle_sleep: server is entering sleeping state")

    def _next_task(self) -> int:
        self._task += 1
        return self._task

    def _launch(self, task: int) -> None:
        self._say(f"I slot launch_slot_: id  0 | task {task} | processing task, is_child = 0")
        self._say(f"I slot      release: id  0 | task {task} | stop processing: n_tokens = 2, truncated = 0")

    # -- what it does -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.add(connection)
            threading.Thread(target=self._connection, args=(connection,), daemon=True).start()

    def _connection(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError), self._spoken(connection) as connection:
            head, body = _read(connection)
            answer = self._answer(head, body)
            if answer is not None:
                status, content = answer
                data = json.dumps(content).encode()
                connection.sendall(
                    f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data
                )
        self._connections.discard(connection)

    def _spoken(self, connection: socket.socket) -> socket.socket:
        return connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)

    def _answer(self, head: str, body: bytes) -> tuple[int, dict[str, object]] | None:
        method, path, _ = head.split(" ", 2)
        if self.key is not None and f"\r\nAuthorization: Bearer {self.key}\r\n" not in head:
            return 401, _error(401, "Invalid API Key")
        if method == "GET" and path.split("?")[0] == "/props":
            self.props_asked += 1
            if self.router and "model=" not in path:
                return 200, {"role": "router"}
            with self._lock:
                return 200, {"is_sleeping": self.asleep, "build_info": "fake"}
        if method != "POST" or path not in _ROUTES:
            return 404, _error(404, "File Not Found")
        asked = json.loads(body)
        if asked.get("prompt") == STUCK:
            return self._stuck()
        self.posts.append(path)
        self.bodies.append(asked)
        self.waking.set()
        if self.loading:
            self.loading -= 1
            return 503, _error(503, "Loading model")
        return self._wake(_ROUTES[path])

    def _stuck(self) -> tuple[int, dict[str, object]] | None:
        with self._lock:
            task = self._next_task()
            self._say(f"D que          post: new task, id = {task}/1, front = 0")
            self._lock.wait_for(lambda: self._released or self._dead)
            if self._dead:
                return None
            self._launch(task)
        return 200, {"content": "released"}

    def _wake(self, kind: str) -> tuple[int, dict[str, object]] | None:
        if self.manner == "hangs":
            with self._lock:
                self._lock.wait_for(lambda: self._dead)
            return None
        with self._lock:
            if self.asleep:
                self._say("I que    start_loop: exiting sleeping state")
                self._say("I srv  handle_sleep: server is exiting sleeping state")
                if self.manner == "dies":
                    threading.Thread(target=self.die, daemon=True).start()
                    self._lock.wait_for(lambda: self._dead)
                    return None
                if self.manner == "restarts":
                    self.manner, self.asleep = "wakes", False
                    return None
                self._lock.wait_for(lambda: self._dead, self.reload_seconds)
                self._say("I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512, kv_unified = 'false'")
                self.asleep = False
                self._released = self.manner != "keeps"
                self._lock.notify_all()
        if kind not in self.kinds:
            return 501, _error(501, f"This server does not support {kind}s")
        with self._lock:
            self._launch(self._next_task())
        return 200, {"content": "x"}


def _error(code: int, message: str) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "type": "made"}}


def _read(connection: socket.socket) -> tuple[str, bytes]:
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(1 << 16)
        if not more:
            raise OSError("the client has gone")
        got += more
    head, body = got.split(b"\r\n\r\n", 1)
    fields = head.lower().split(b"\r\n")
    length = next((int(line[15:]) for line in fields if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head.decode() + "\r\n", body
