"""Looks at what the engine asks for, and at the ends of processes. All of it is this host's own knowledge.

One object for the whole daemon. It answers a question about connections at once, before anything else is done; what
takes longer (``/props``) comes back later. Nothing here is kept: what was seen is kept by who asked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

import msgspec

from sleepwatch.client.exchange import Own
from sleepwatch.config import Witness
from sleepwatch.engine import Ask, Now
from sleepwatch.engine.lives import LifeState
from sleepwatch.engine.witnesses import Witnessed, port_of
from sleepwatch.errors import SleepwatchError, os_words
from sleepwatch.hosts.processes import PROC, ServerProcess, find_servers
from sleepwatch.hosts.sockets import Address
from sleepwatch.model import LIVE, Event
from sleepwatch.printable import printable
from sleepwatch.witness.exits import End, ProcessHandle
from sleepwatch.witness.props import is_sleeping
from sleepwatch.witness.sockets import Connection, SocketsError, connections, listeners, pending, why_hidden, why_silent

HINT_US = 200_000
"""A look taken when the sleep line came is the answer to a question that comes within this time."""
SEARCH_US = 10_000_000
"""The processes are looked through for a server that was not found after this time, then ever more rarely."""
END_US = 2_000_000
"""How it ended is told once its parent has asked; for so long that is waited for."""
SETTLE_US = 500_000
"""For so long after an end its last lines are waited for, if something is still to be read."""
AGAIN_US = 20_000
TICKS = os.sysconf("SC_CLK_TCK")
CLOCK_NOISE_US = 2_000_000
OFF = "switched off in the configuration ([witness])"
ENDED = "its process had ended before its connections were looked at"
IN_CONTAINER = (
    "it runs in a container, and its process was not found; run sleepwatch as root, so that it sees in which network "
    "namespace it is, and in that namespace (--network container:NAME)"
)
UNKNOWN_PORT = (
    "it is not known on which port it listens: its log holds no such line, and its process was not found; run "
    "sleepwatch as root, or let it read the log from the server's start"
)


class Look(msgspec.Struct, frozen=True):
    """What the kernel showed of one port."""

    connections: tuple[Connection, ...] = ()
    unseen: str | None = None
    """Why it showed nothing."""
    listening: bool = True
    """Somebody still listened when it was over."""


class Watched(Protocol):
    """A source's watch, as far as this needs it."""

    caught_up: bool

    @property
    def settled(self) -> bool:
        """All that came has been read."""

    def servers(self) -> Iterator[LifeState]:
        """The lives that go on and are known by name."""

    def log_clock_us(self, life: LifeState, now: Now) -> int | None:
        """A life's log clock now, as far as that is known."""

    def witnessed(self, event: Event, ask: Ask | None = None) -> None:
        """Something about one of its lives was seen."""


class Server(msgspec.Struct, kw_only=True):
    """A life whose process was looked for."""

    life: str
    name: str
    port: int | None
    pid: int | None = None
    handle: ProcessHandle | None = None
    idle_s: int | None = None
    """Seconds after which it sleeps, by its command line; None where it never does, or that is not known."""
    hidden: str | None = None
    """Why its connections cannot be seen, and what to grant."""
    unwatched: str | None = None
    """Why its end cannot be told."""
    searched_us: int = 0
    searches: int = 0
    ended_us: int | None = None
    """When its end was noticed."""


class Witnesses:
    """Everything that is seen beside the logs."""

    def __init__(
        self,
        settings: Witness,
        *,
        proc: Path = PROC,
        find: Callable[[Path], Collection[ServerProcess]] = lambda proc: find_servers(proc).servers,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """``wake`` ends the daemon's wait: an answer that took its time has come."""
        self.settings = settings
        self.ours = Own()
        """Our own sockets: what we ask for ourselves is no evidence."""
        self._proc = proc
        self._find = find
        self._wake = wake
        self._hints: dict[int, tuple[int, Look]] = {}
        self._servers: dict[tuple[int, str], Server] = {}
        """By watch and life."""
        self._silence: str | None = None
        """Why the kernel told of no connections at all when it was last asked."""
        self._answers: SimpleQueue[tuple[Watched, Event, Ask]] = SimpleQueue()

    # -- connections ----------------------------------------------------------------------------------------------

    def hint(self, ports: Collection[int], now: Now) -> None:
        """A server that listens on one of these is falling asleep: look now, whatever its line is worth."""
        if self.settings.connections:
            self._hints.update({port: (now.monotonic_us, look_at(port)) for port in ports})

    def answer(self, watched: Watched, ask: Ask, now: Now) -> Event | None:
        """The answer, if it is there at once; that of ``props`` is given to the watch when it comes."""
        if ask.what == "props":
            self._ask_props(watched, ask, now)
            return None
        if not self.settings.connections:
            return None
        server = self._servers.get((id(watched), ask.life))
        port = port_of(ask.port) or (server.port if server is not None else None)
        if port is None:
            return _answer(ask, now, f"{LIVE}connections", unseen=why_hidden(pid=None, url=ask.url) or UNKNOWN_PORT)
        look = self._hinted(port, ask, now) or look_at(port)
        source = f"{LIVE}connections to port {port}"
        self._silence = look.unseen
        hidden = server.hidden if server is not None else why_hidden(pid=ask.pid, url=ask.url, proc=self._proc)
        if hidden is not None or look.unseen is not None or not look.listening:
            return _answer(ask, now, source, unseen=hidden or look.unseen or ENDED)
        return _answer(ask, now, source, connections=shown(look.connections, ask, self.ours))

    def _hinted(self, port: int, ask: Ask, now: Now) -> Look | None:
        at_us, look = self._hints.pop(port, (0, None))
        return look if ask.asleep_us == 0 and now.monotonic_us - at_us <= HINT_US else None

    # -- the server's own word ------------------------------------------------------------------------------------

    def _ask_props(self, watched: Watched, ask: Ask, now: Now) -> None:
        if not self.settings.props or ask.url is None:
            return
        url = ask.url
        key_file = Path(self.settings.api_key_file) if self.settings.api_key_file else None

        def work() -> None:
            try:
                sleeping = is_sleeping(url, key_file=key_file, own=self.ours)
            except SleepwatchError:
                return  # no answer says nothing
            text = f"/props: is_sleeping is {'true' if sleeping else 'false'}"
            fields = {"life": ask.life, "sleep": ask.sleep, "sleeping": sleeping}
            self._answers.put((watched, _event(ask, now, "witness.props", LIVE + url, text, fields), ask))
            self._wake()

        threading.Thread(target=work, name="props", daemon=True).start()

    # -- processes ------------------------------------------------------------------------------------------------

    def attend(self, watched: Watched, now: Now) -> None:
        """Look for the processes of this source's lives, and note those that have ended."""
        if not watched.caught_up:
            return
        lives = {life.key: life for life in watched.servers()}
        for of, key in [one for one in self._servers if one[0] == id(watched) and one[1] not in lives]:
            self._forget((of, key))
        for key, life in lives.items():
            server = self._servers.get((id(watched), key))
            if server is None:
                server = Server(life=key, name=life.server.name, port=None, searched_us=now.monotonic_us - SEARCH_US)
                self._servers[id(watched), key] = server
            port = port_of(life.ledger.port or life.origin.port)
            told = port is not None and port != server.port
            patience_us = SEARCH_US << min(server.searches, 6)
            if server.pid is None and (told or now.monotonic_us - server.searched_us >= patience_us):
                server.searches = 1 if told else server.searches + 1
                server.searched_us, server.port = now.monotonic_us, port
                clock_us = watched.log_clock_us(life, now)
                self._search(server, life, clock_us if clock_us is not None else life.ledger.last.clock_us)

    def _search(self, server: Server, life: LifeState, clock_us: int | None) -> None:
        self._silence = why_silent() if self.settings.connections else None
        server.hidden = why_hidden(pid=None, url=life.ledger.url)
        process = self._process_of(server, life, clock_us)
        if process is None:
            if life.origin.container is not None:
                server.hidden = server.hidden or IN_CONTAINER
            server.unwatched = "its process was not found, or cannot be seen by this user"
            return
        server.pid, server.unwatched = process.pid, None
        server.idle_s = process.options.sleep.seconds if process.options.sleep.state == "on" else None
        server.port = server.port or process.port
        server.hidden = server.hidden or why_hidden(pid=process.pid, url=life.ledger.url, proc=self._proc)
        if self.settings.exits:
            try:
                server.handle = ProcessHandle(process.pid)
            except OSError as error:
                server.unwatched = os_words(error)

    def _process_of(self, server: Server, life: LifeState, clock_us: int | None) -> ServerProcess | None:
        processes = self._find(self._proc)
        if life.origin.pid is not None and life.origin.port is None:
            return next((one for one in processes if one.pid == life.origin.pid), None)
        here = [one for one in processes if server.port is not None and one.port == server.port]
        here = [one for one in here if not one.own_network] or here
        return here[0] if len(here) == 1 and self._is_old_enough(here[0], clock_us) else None

    def _is_old_enough(self, process: ServerProcess, clock_us: int | None) -> bool:
        """Can this process have written that log? Its log clock counts from its start."""
        if clock_us is None:
            return True
        try:
            up = float((self._proc / "uptime").read_text().split()[0])
        except (OSError, ValueError):
            return True
        return (up - process.started / TICKS) * 1e6 + CLOCK_NOISE_US >= clock_us

    def _forget(self, which: tuple[int, str]) -> None:
        server = self._servers.pop(which)
        if server.handle is not None:
            server.handle.close()

    def leave(self, watched: Watched) -> None:
        """This source is watched no more."""
        for which in [one for one in self._servers if one[0] == id(watched)]:
            self._forget(which)

    def filenos(self) -> list[int]:
        """Readable when a process has ended, each once."""
        return [s.handle.fd for s in self._servers.values() if s.handle is not None and s.ended_us is None]

    def wants_us(self) -> int | None:
        """How soon :meth:`deliver` should be called again; None where something will tell."""
        waits = any(server.ended_us is not None and server.handle is not None for server in self._servers.values())
        return AGAIN_US if waits else None

    def deliver(self, watched: Watched, now: Now, *, at_once: bool = False) -> None:
        """Give a source's watch the ends of its processes. ``at_once``: its next life is about to begin."""
        for life in list(watched.servers()):
            server = self._servers.get((id(watched), life.key))
            if server is None or server.handle is None:
                continue
            if server.ended_us is None and server.handle.ended:
                server.ended_us = now.monotonic_us
            if server.ended_us is None:
                continue
            ago, end = now.monotonic_us - server.ended_us, server.handle.end()
            if not at_once and ((end is None and ago < END_US) or (not watched.settled and ago < SETTLE_US)):
                continue
            server.handle.close()
            server.handle = None
            then = Now(server.ended_us, now.wall_us - ago)
            watched.witnessed(_ended(life, server, end or End(), watched.log_clock_us(life, then), then))

    def deliver_answers(self) -> None:
        """Give the watches what they asked for and what took its time."""
        while True:
            try:
                watched, event, ask = self._answers.get_nowait()
            except Empty:
                return
            watched.witnessed(event, ask)

    # -- for status -----------------------------------------------------------------------------------------------

    def servers(self) -> list[Server]:
        """What can be seen of each server."""
        servers = sorted(self._servers.values(), key=lambda one: (one.name, one.port or 0))
        return [
            msgspec.structs.replace(
                one,
                hidden=one.hidden or self._silence if self.settings.connections else OFF,
                unwatched=one.unwatched if self.settings.exits else OFF,
            )
            for one in servers
        ]

    def close(self) -> None:
        """Give all descriptors back."""
        for which in list(self._servers):
            self._forget(which)


def look_at(port: int) -> Look:
    """The connections of a port, and whether that answer is of a process that lived."""
    try:
        found = connections(port)
        return Look(found, listening=bool(listeners(port)))
    except SocketsError as error:
        return Look(unseen=str(error))


def shown(found: Collection[Connection], ask: Ask, ours: Collection[Address]) -> list[Witnessed]:
    """Of these connections those that wait, and those asked for."""
    waiting = set()
    if ask.asleep_us is not None:
        waiting = {one.cookie for one in pending(found, asleep_ms=ask.asleep_us // 1000, ours=ours)}
    return [
        Witnessed(
            cookie=one.cookie,
            peer=f"[{one.peer[0]}]:{one.peer[1]}" if ":" in one.peer[0] else f"{one.peer[0]}:{one.peer[1]}",
            pending=one.cookie in waiting,
            received=one.bytes_received,
            received_ms=one.last_received_ms,
            sent=one.bytes_sent,
            sent_ms=one.last_sent_ms,
        )
        for one in found
        if one.cookie in waiting or one.cookie in ask.cookies
    ]


def _answer(
    ask: Ask, now: Now, source: str, *, connections: list[Witnessed] | None = None, unseen: str | None = None
) -> Event:
    waiting = [one for one in connections or () if one.pending]
    text = f"{len(waiting)} waiting for an answer" if ask.asleep_us is not None else "looked at again after the wake"
    text = f"connections not seen: {unseen}" if unseen is not None else text
    fields: dict[str, object] = {
        "life": ask.life,
        "sleep": ask.sleep,
        "asleep_us": ask.asleep_us,
        "awake_us": ask.awake_us,
        "unseen": unseen,
        "connections": [msgspec.to_builtins(one) for one in connections or ()],
    }
    return _event(ask, now, "witness.snapshot", source, text, fields)


def _event(ask: Ask, now: Now, type_: str, source: str, text: str, fields: dict[str, object]) -> Event:
    return Event(
        type=type_,
        origin=ask.origin,
        offset=0,
        text=printable(text).encode(),
        fields=fields,
        clock_us=ask.clock_us,
        wall_us=now.wall_us,
        source=source,
    )


def _ended(life: LifeState, server: Server, end: End, clock_us: int | None, now: Now) -> Event:
    how = "signal and status are not told"
    if end.signal is not None or end.status is not None:
        how = f"signal {end.signal}" if end.signal is not None else f"status {end.status}"
    fields: dict[str, object] = {"by": "kernel", "life": life.key, "pid": server.pid}
    fields |= {name: value for name, value in (("signal", end.signal), ("status", end.status)) if value is not None}
    if server.idle_s is not None:  # no more of its command line: that can hold keys
        fields["command"] = f"llama-server --sleep-idle-seconds {server.idle_s}"
    return Event(
        type="process.exit",
        origin=life.origin,
        offset=0,
        text=f"process {server.pid} has ended: {how}".encode(),
        fields=fields,
        clock_us=clock_us,
        wall_us=now.wall_us,
        source=f"{LIVE}process {server.pid}",
    )
