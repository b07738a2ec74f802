"""The daemon: start, run, stop. Follows logs, keeps what it finds, and says when it cannot see.

One thread. Everything found is stored in one transaction with how far each log was read and with the engine's state
there, so a kill at any moment changes nothing: the next start reads the rest again and finds the same.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from sleepwatch.clock import Clock
from sleepwatch.config import ConfigError, Settings
from sleepwatch.daemon.keeping import Keeper
from sleepwatch.daemon.lock import take_lock
from sleepwatch.daemon.printing import Complaints, Printer, Say
from sleepwatch.daemon.publishing import Publisher
from sleepwatch.daemon.sdnotify import Notifier
from sleepwatch.daemon.watched import Sources
from sleepwatch.daemon.watching import Found, LogWatch, SourceWatch
from sleepwatch.daemon.watching_journal import JournalWatch
from sleepwatch.engine import Now
from sleepwatch.engine.state import StateError
from sleepwatch.errors import StoreError
from sleepwatch.model import Incident
from sleepwatch.printable import printable
from sleepwatch.reader import Gate
from sleepwatch.rules import load, load_incidents
from sleepwatch.scan import engine_words
from sleepwatch.sources.follow import Piece
from sleepwatch.sources.follow_set import VANISHED_US, FollowSet
from sleepwatch.sources.followers import Follower, Followers
from sleepwatch.sources.identity import FileCheckpoint
from sleepwatch.sources.journal import NAME as JOURNAL
from sleepwatch.sources.journal import Place
from sleepwatch.sources.journal_follow import JournalFollower, JournalPiece
from sleepwatch.sources.journal_set import JournalSet
from sleepwatch.sources.tail import StartMarkers
from sleepwatch.sources.watch import Watch
from sleepwatch.store import Store, open_store
from sleepwatch.store.daemon import Checkpoint, WatchRow, open_blindness, open_counts
from sleepwatch.store.witness import WitnessRow
from sleepwatch.times import DAY_US

if TYPE_CHECKING:
    from sleepwatch.daemon.finding import Finding, Unwatched
    from sleepwatch.daemon.surroundings import Surroundings
    from sleepwatch.notify.desk import Desk
    from sleepwatch.wake.responder import Responder
    from sleepwatch.witness.observing import Witnesses

PUMP_BYTES = 4 << 20
"""Read of one log before the next has its turn."""
SEND_SECONDS = 5.0
"""At the end, messages that are being sent have so long."""
LISTEN_EVERY = 20
"""Steps after which the directories to listen to are looked at again."""


class Service:
    """Watches logs until it is told to stop."""

    def __init__(
        self,
        settings: Settings,
        database: Path,
        clock: Clock,
        *,
        say: Say,
        complain: Say,
        notifier: Notifier | None = None,
        reload: Callable[[], Settings] | None = None,
        surroundings: Surroundings | None = None,
        witnesses: Witnesses | None = None,
    ) -> None:
        self.settings = settings
        self._witnesses = witnesses
        self.database = database
        self._clock = clock
        self._say = say
        self._printer = Printer(say)
        self._complain = Complaints(complain)
        self._notifier = notifier or Notifier()
        self._reload = reload
        self._surroundings = surroundings
        self._found = Sources()
        """What to watch where the settings name nothing."""
        self._finding: Finding | None = None
        """What was last taken over of what runs here."""
        self._unwatched: tuple[Unwatched, ...] = ()
        self._publisher = Publisher()
        self._rules = load()
        self._incident_words = load_incidents()
        self._words = engine_words(self._incident_words)
        self._gate = Gate(self._rules.literals)
        self._store: Store | None = None
        self._lock: int | None = None
        self._followers: Followers | None = None
        self._notices: Watch | None = None
        self._watches: dict[str, SourceWatch] = {}
        self._keeping: Keeper | None = None
        self._blind: dict[str, list[Incident]] = {}
        """Sources that an earlier run left blind, as long as they were not taken up."""
        self._may_be_left = True
        """There may be open incidents that nothing followed here can end."""
        self._desk: Desk | None = None
        """Tells people, where there is somebody to tell."""
        self._behind: dict[str, str] = {}
        """Sources that were not read to their ends yet, with why what is found there is told in one summary."""
        self._looks_first = True
        """These sources have not been looked at before: what is in them was written while nobody watched."""
        self._responder: Responder | None = None
        """Wakes servers, where that is allowed."""
        self._whole = False
        """What is in memory is in step with how far was read: it may be stored."""
        self.stopping = False
        """Set by a signal: finish what is begun, then end."""
        self.reloading = False
        """Set by a signal: read the configuration again."""
        self.steps = 0

    # -- start ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take the lock, open the database, and go on where the last run was. Raises SleepwatchError."""
        self._lock = take_lock(self.database)
        self._store = open_store(self.database)
        now = self._clock.now()
        self._keeping = Keeper(self._store, self._rules.digest, self._complain, now)
        self._blind = open_blindness(self._store)
        before = self._keeping.before
        if before is not None and before.stopped_us is None:
            self._complain.say(f"the last run (pid {before.pid}) ended without stopping; nothing is lost by that", now)
        self._publisher.open = open_counts(self._store)
        self._offer_metrics(now)
        self._open_desk(now)
        self._allow_wakes(now)
        self._check_keys(now)
        self._follow(now)
        if self._surroundings is not None:
            self._surroundings.look(now.monotonic_us)
            self._watch_what_is_found(now)
        self._end_blindness_elsewhere(now)
        self._whole = True
        self._notifier.send("READY=1", f"STATUS={self._status()}")

    @property
    def _keeper(self) -> Keeper:
        """There since the start."""
        assert self._keeping is not None
        return self._keeping

    def _open_desk(self, now: Now) -> None:
        """Have somebody told from now on, as the settings say."""
        from sleepwatch.notify.targets import urls_place

        if self._desk is not None:
            self._desk.use(self.settings)
            self._desk.check(now)
        elif self.settings.target or urls_place(self.settings.notify) is not None:
            from sleepwatch.notify.desk import Desk, show_command

            show = show_command(self.database)
            self._desk = Desk(self.settings, self._incident_words, os.uname().nodename, show, self._complain.say)
            self._desk.start(self._keeper.store, now)
            self._keeper.desk = self._desk

    def _follow(self, now: Now) -> None:
        self._notices = Watch()
        self._followers = self._follow_all(self._sources, self._keeper.places())
        if self._surroundings is not None:
            self._surroundings.watch_units(self._sources.units_here(), now.monotonic_us)
        self._listen(now)

    @property
    def _sources(self) -> Sources:
        return Sources.named(self.settings) or self._found

    def _follow_all(self, sources: Sources, places: Mapping[str, FileCheckpoint | Place | None]) -> Followers:
        self._looks_first = True
        known = {name: place for name, place in places.items() if isinstance(place, FileCheckpoint)}
        paths = [one.path for one in sources.files]
        files = FollowSet(paths, known, backfill=True, starts=StartMarkers.of(self._rules))
        journals = {name: place for name, place in places.items() if isinstance(place, Place)}
        return Followers(files, JournalSet([(unit.name, unit.directory) for unit in sources.units], journals))

    def _listen(self, now: Now) -> None:
        """Ask the kernel for notices; where it gives none, that is said once and the poll does."""
        assert self._followers is not None
        assert self._notices is not None
        watched = self._followers.watched()
        for sentence in self._notices.sync(watched.files, watched.directories):
            self._complain.say(sentence, now)

    # -- run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until told to stop."""
        while not self.stopping:
            if self.reloading:
                self.reloading = False
                self._take_over_settings()
            wait_us = self.step()
            assert self._notices is not None
            assert self._followers is not None
            others = self._desk.filenos() if self._desk is not None else []
            others += self._witnesses.filenos() if self._witnesses is not None else []
            self._notices.wait(wait_us / 1e6, [*self._followers.filenos(), *others])

    def step(self) -> int:
        """Look at everything once; returns how long to wait, at most, until the next look, in microseconds."""
        with self._in_one_go():
            return self._step(self._clock.now())

    @contextlib.contextmanager
    def _in_one_go(self) -> Iterator[None]:
        """If this is broken off, what is in memory is not stored any more: a restart reads it again."""
        self._whole = False
        yield
        self._whole = True

    def _step(self, now: Now) -> int:
        self.steps += 1
        self._read(now)
        self._look_beside(now)
        self._save(now)
        if self._may_be_left and not any(watch.urgent for watch in self._watches.values()):
            self._leave_unresolved(now)
        for path in [path for path in self._behind if self._is_read_to_its_end(path)]:
            del self._behind[path]
        if self._desk is not None:
            well = self._keeper.is_well(now)
            self._desk.step(self._keeper.store, now, caught_up=not self._behind, well=well)
        wakes_in_us = self._wake_servers(now)
        if self._publisher.due(now.monotonic_us):
            self._publish(now)
        if self._notifier.watchdog_us is not None:
            self._notifier.send("WATCHDOG=1")
        return self._wait_us(now, wakes_in_us)

    def _read(self, now: Now) -> None:
        """Take what the logs give, then tell each watch the time: silence says something, too."""
        assert self._followers is not None
        following = self.settings.following
        partial_us, blind_us = round(following.partial_seconds * 1e6), round(following.blind_seconds * 1e6)
        for follower, pieces in self._followers.poll(now.monotonic_us, now.wall_us, PUMP_BYTES):
            watch = self._watch_of(follower, now)
            for piece in pieces:
                if self._responder is not None:
                    self._responder.hear(self._watches, now)
                if piece.kind != "idle":
                    _give(watch, piece, now)
        self._leave(set(self._followers.vanished) & set(self._watches), now)
        for path, follower in self._followers.followers.items():
            watch = self._watch_of(follower, now)
            watch.tick(now, partial_us=partial_us, unread=follower.unread)
            if not self._is_over(path, follower):
                watch.look_at_source(follower.state, follower.unread, now, blind_us=blind_us)
        self._looks_first = False

    def _look_beside(self, now: Now) -> None:
        """At what the machine knows beside the logs."""
        if self._witnesses is not None:
            self._witnesses.deliver_answers()
            for watch in self._watches.values():
                self._witnesses.deliver(watch, now)
                self._witnesses.attend(watch, now)
        if self.steps % LISTEN_EVERY == 0:
            self._listen(now)
        if self._surroundings is not None and self._surroundings.look(now.monotonic_us):
            self._look_at_servers(now, self._surroundings)
            self._watch_what_is_found(now)

    def _wait_us(self, now: Now, wakes_in_us: int | None) -> int:
        """How long nothing has to be looked at, unless something comes."""
        assert self._followers is not None
        if self._followers.full:
            return 0
        wants = [wakes_in_us, *(watch.wants_us() for watch in self._watches.values())]
        wants.append(self._desk.wants_us(now) if self._desk is not None else None)
        wants.append(self._witnesses.wants_us() if self._witnesses is not None else None)
        wants.append(self._notifier.watchdog_us // 3 if self._notifier.watchdog_us is not None else None)
        longest = round(self.settings.following.poll_seconds * 1e6)
        return min([longest, *(us for us in wants if us is not None)])

    def _is_read_to_its_end(self, path: str) -> bool:
        """Whether all that it held at the start was read, judged and stored."""
        assert self._followers is not None
        follower, watch = self._followers.followers.get(path), self._watches.get(path)
        return follower is None or watch is None or not (follower.unread or not watch.settled or watch.urgent)

    def _is_over(self, path: str, follower: Follower) -> bool:
        """Nobody named it, and it was removed after it had been read to its end: nothing is missed there."""
        if isinstance(follower, JournalFollower):
            return False
        if follower.state.name != "absent" or follower.unread or any(path == one.path for one in self.settings.file):
            return False
        return self._surroundings is None or not self._surroundings.has_writer(path)

    def _allow_wakes(self, now: Now) -> None:
        """As the settings say; without them nothing of it is loaded."""
        if self._responder is not None:
            self._responder.settings = self.settings.wake
        elif self.settings.wake.on:
            from sleepwatch.wake.responder import Responder

            self._responder = Responder(
                self.settings.wake,
                self._clock,
                own=self._witnesses.ours if self._witnesses is not None else None,
                say=self._say,
                complain=self._complain.say,
                nudge=self.wake,
            )
            self._responder.resume(self._keeper.store, now)

    def _check_keys(self, now: Now) -> None:
        """Say which API keys cannot be had, before one is wanted."""
        for file in self.settings.key_files:
            from sleepwatch.client.target import TargetError, read_key

            try:
                read_key(Path(file))
            except TargetError as error:
                self._complain.say(str(error), now)

    def _wake_servers(self, now: Now) -> int | None:
        if self._responder is None:
            return None
        from sleepwatch.wake.responder import View

        assert self._followers is not None
        followers = self._followers.followers
        views = [
            View(path, watch, followers[path].state.name == "following" and self._is_read_to_its_end(path))
            for path, watch in self._watches.items()
            if path in followers
        ]
        return self._responder.step(self._keeper.store, views, now)

    def _offer_metrics(self, now: Now) -> None:
        for sentence in self._publisher.offer(self.settings.metrics, self._words):
            self._complain.say(sentence, now)

    def _publish(self, now: Now) -> None:
        assert self._followers is not None
        followers = self._followers.followers
        pairs = [(followers[path], watch) for path, watch in self._watches.items() if path in followers]
        pulse = self._keeper.pulse
        sentence = self._publisher.publish(pairs, pulse, self._rules.digest, now, self._desk, self._responder)
        if sentence is not None:
            self._complain.say(sentence, now)

    def _watch_of(self, follower: Follower, now: Now) -> SourceWatch:
        path = str(follower.path)
        watch = self._watches.get(path)
        if watch is None:
            watch = self._watches[path] = self._new_watch(follower)
            saved = self._keeper.checkpoints.get(path)
            if self._looks_first:
                self._behind[path] = "backfill" if saved is None else "downtime"
            if saved is not None:
                self._go_on(watch, saved, now)
            watch.blindness.take_up(self._blind.pop(printable(path), ()))
        elif isinstance(watch, JournalWatch) and isinstance(follower, JournalFollower):
            watch.follow_with(follower)
        return watch

    def _end_blindness_elsewhere(self, now: Now) -> None:
        """What an earlier run could not see, and this one does not look at."""
        assert self._followers is not None
        elsewhere = set(self._blind) - set(map(printable, self._followers.followers))
        self._keeper.end_blindness([one for path in elsewhere for one in self._blind.pop(path)], now)

    def _new_watch(self, follower: Follower) -> SourceWatch:
        if isinstance(follower, JournalFollower):
            return JournalWatch(follower, self._rules, self._gate, self._words, witnesses=self._witnesses)
        path = str(follower.path)
        envelope = next((one.envelope for one in self._sources.files if fnmatchcase(path, one.path)), None)
        return LogWatch(path, self._rules, self._gate, self._words, envelope=envelope, witnesses=self._witnesses)

    def _go_on(self, watch: SourceWatch, saved: Checkpoint, now: Now) -> None:
        if saved.rules_digest != self._rules.digest:
            self._complain.say(f"{watch.path}: the rules have changed; they count from here on", now)
        try:
            watch.resume(saved.state, now)
        except StateError as error:
            self._complain.say(f"{watch.path}: {error}; open lives begin anew", now)

    def _take_over_settings(self) -> None:
        now = self._clock.now()
        if self._reload is None:
            self._complain.say("there is no configuration file to read again", now)
            return
        try:
            settings = self._reload()
        except ConfigError as error:
            self._complain.say(f"the new configuration is refused, the old one stays: {error}", now)
            return
        with self._in_one_go():
            self._watch_instead(settings, self._found, now)
            self._say("configuration read again")
            self._offer_metrics(now)
            self._open_desk(now)
            self._allow_wakes(now)
            self._check_keys(now)
            self._finding = None
            self._watch_what_is_found(now)

    def _watch_instead(self, settings: Settings, found: Sources, now: Now) -> None:
        """Take over other sources. What is among both is gone on with, open lives and all."""
        assert self._followers is not None
        self._save(now, always=True)
        self._keeper.look_up()
        places = {name: follower.checkpoint() for name, follower in self._followers.followers.items()}
        followers = self._follow_all(Sources.named(settings) or found, {**self._keeper.places(), **places})
        self._leave(set(self._watches) - set(followers.followers), now)
        self._followers.close()
        self.settings, self._found = settings, found
        self._followers = followers
        if self._surroundings is not None:
            self._surroundings.watch_units(self._sources.units_here(), now.monotonic_us)
        self._may_be_left = True
        self._keeper.hurry()
        self._listen(now)
        self._notifier.send(f"STATUS={self._status()}")

    # -- what runs beside ------------------------------------------------------------------------------------------

    def _look_at_servers(self, now: Now, surroundings: Surroundings) -> None:
        """Is there a server that works while its log stays silent?"""
        assert self._followers is not None
        for path, watch in self._watches.items():
            if not surroundings.has_writer(path):
                watch.blindness.not_mute("its server has ended", now)
                continue
            follower = self._followers.followers[path]
            silent_us = surroundings.silent_us(path, follower.grown_us, now.monotonic_us)
            allowed_us = watch.silence_allowed_us()
            if silent_us is not None and allowed_us is not None and silent_us >= allowed_us and not follower.unread:
                watch.blindness.mute(silent_us, now)

    def _watch_what_is_found(self, now: Now) -> None:
        """Where the settings name no log: watch those of the servers that run here, and say which cannot be watched."""
        if self._surroundings is None or Sources.named(self.settings):
            self._finding, self._unwatched = None, ()
            return
        finding = self._surroundings.finding
        if finding is self._finding:
            return
        self._finding = finding
        owners = {log.place: log.server for log in (*finding.files, *finding.units)}
        before = self._found
        found = before.and_found(finding, set(self._files_before(now)))
        for path in (one.path for one in found.files if one not in before.files):
            self._say(f"watching {printable(path)}, the log of {owners.get(path, 'a server that ran before')}")
        for name in (one.name for one in found.units if one not in before.units):
            self._say(f"watching {printable(name)} in the journal, the unit of {owners[name]}")
        for one in finding.unwatched:
            if one not in self._unwatched:
                self._say(f"not watching {one.server}: {printable(one.reason)}")
        self._unwatched = finding.unwatched
        if found != before:
            self._watch_instead(self.settings, found, now)
        if not found and not finding.unwatched:
            self._complain.say("no llama-server runs here that this user can see; it is looked for every minute", now)

    def _files_before(self, now: Now) -> Iterator[str]:
        """Logs found earlier that are still there: a server that has ended may have told the reason in its log."""
        assert self._followers is not None
        saved = {one for one in self._keeper.checkpoints if not one.startswith(JOURNAL)}
        for path in {one.path for one in self._found.files} or saved:
            follower = self._followers.followers.get(path)
            if follower is None or follower.state.name == "absent":
                since_us = follower.state.since_us if follower is not None else 0
                if not os.path.exists(path) and now.monotonic_us - since_us >= VANISHED_US:
                    continue
            yield path

    def _leave(self, paths: Collection[str], now: Now) -> None:
        """Watch these no more; what was open about watching them is over."""
        for path in paths:
            self._watches[path].blindness.leave(now)
            if self._witnesses is not None:
                self._witnesses.leave(self._watches[path])
        if paths:
            self._save(now, always=True)
        for path in paths:
            del self._watches[path]

    def _leave_unresolved(self, now: Now) -> None:
        """Incidents that are open, of servers whose lives are not followed any more, are told to be unresolved."""
        ended = self._keeper.leave_unresolved({one for watch in self._watches.values() for one in watch.followed}, now)
        if ended is not None:
            self._may_be_left = False
            self._printer.tell(Found(steps=ended))
            self._publisher.open = open_counts(self._keeper.store)

    def wake(self) -> None:
        """End the wait between two looks: called by a signal."""
        if self._notices is not None:
            self._notices.wake()

    # -- store ----------------------------------------------------------------------------------------------------

    def _save(self, now: Now, *, always: bool = False) -> None:
        """Store what was found, with how far everything was read: at once what is urgent, else every few seconds."""
        assert self._followers is not None
        every_us = round(self.settings.following.checkpoint_seconds * 1e6)
        if not always and not self._keeper.is_due(self._watches, now, every_us):
            return
        followers = self._followers.followers
        kept = self._keeper.save(
            self._watches,
            followers,
            now,
            over=[path for path, follower in followers.items() if self._is_over(path, follower)],
            others=self._unfollowed(),
            witnesses=self._witness_rows(),
            hold=self._behind,
            keep_us=round(self.settings.database.keep_days * DAY_US),
        )
        if not self._keeper.store.in_place:
            raise StoreError(
                f"the database {self.database} was removed or replaced while it was written to",
                hint="start again: the logs are read from their beginning, so what they still hold is found again",
            )
        for found, new in kept or ():
            self._printer.tell(found)
            self._publisher.count(found, new)
            if found.urgent:
                self._publisher.open = open_counts(self._keeper.store)

    def _unfollowed(self) -> dict[str, WatchRow]:
        """What is told of sources that cannot be followed."""
        assert self._followers is not None
        followers = self._followers.followers
        rows = {
            one.path: WatchRow(
                source=one.path,
                state="absent",
                reason="no file matches it",
                since_us=self._keeper.pulse.started_us,
            )
            for one in self._sources.files
            if one.path not in followers and not any(fnmatchcase(path, one.path) for path in followers)
        }
        for one in self._unwatched:
            rows[f"\0{one.server}"] = WatchRow(source=one.server, state="unwatched", reason=printable(one.reason))
        return rows

    def _witness_rows(self) -> list[WitnessRow]:
        """What can be seen of each server beside its log."""
        return [
            WitnessRow(server=one.name, port=one.port, pid=one.pid, hidden=one.hidden, unwatched=one.unwatched)
            for one in (self._witnesses.servers() if self._witnesses is not None else ())
        ]

    def _status(self) -> str:
        count = len(self._sources.files) + len(self._sources.units)
        return f"watching {count} source{'s' * (count != 1)}"

    # -- stop -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Save where everything stands and give everything back."""
        self._notifier.send("STOPPING=1")
        with contextlib.ExitStack() as ends:
            if self._lock is not None:
                ends.callback(os.close, self._lock)
            if self._store is not None:
                ends.callback(self._store.close)
            if self._notices is not None:
                ends.callback(self._notices.close)
            if self._responder is not None:
                ends.callback(self._responder.close)
            ends.callback(self._publisher.close)
            if self._witnesses is not None:
                ends.callback(self._witnesses.close)
            if self._followers is not None:
                ends.callback(self._followers.close)
            if self._whole:
                now = self._clock.now()
                self._keeper.end(now)
                self._save(now, always=True)
            if self._desk is not None and self._store is not None:
                self._desk.stop(self._store, self._clock.now(), SEND_SECONDS)


def _give(watch: SourceWatch, piece: Piece | JournalPiece, now: Now) -> None:
    if isinstance(watch, JournalWatch):
        assert isinstance(piece, JournalPiece)
        watch.take(piece, now)
    elif isinstance(watch, LogWatch):
        assert isinstance(piece, Piece)
        watch.take(piece, now)
