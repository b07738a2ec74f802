"""What an incident means for each target, written down in the transaction that stores the incident."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sleepwatch.config import Settings, Target
from sleepwatch.engine import Now
from sleepwatch.model import Incident
from sleepwatch.notify import outbox
from sleepwatch.notify.message import SPOKEN, About, Place, digest, message, title_of
from sleepwatch.notify.outbox import Notice
from sleepwatch.notify.policy import HANGS, NEWS, TABLE, Event, State, Step, What, event, is_open, told_kind, wants
from sleepwatch.notify.silences import Silence, kept_back, silences
from sleepwatch.rules import IncidentWords
from sleepwatch.store.transaction import Transaction

HANG_WAITS_US = 5_000_000
"""News of a hang waits so long: what ends it at once, or the crash it was part of, is then told with it."""
TOGETHER_US = 60_000_000
"""What is collected is told after this time."""
_WHEN_ALL_IN_ONE = {What.RECOVERED: What.PASSED, What.ESCALATED: What.OPENED}
"""What a message says in the place of one of which nothing has arrived."""


class Teller:
    """Decides and words what targets are told."""

    def __init__(self, settings: Settings, words: Mapping[str, IncidentWords], host: str, show: str) -> None:
        self.settings = settings
        self._words = words
        self._host = host
        self._show = show

    def note(self, transaction: Transaction, incidents: Iterable[str], now: Now, *, hold: str | None = None) -> None:
        """Queue what is to be told of these incidents, as they are stored now.

        ``hold``: why news is not told one by one (``backfill``, ``downtime``); None where it is.
        """
        stored = [found for one in incidents if (found := outbox.stored_incident(transaction, one)) is not None]
        # A death first: the hangs of its life are told with it.
        stored.sort(key=lambda found: (found[0].kind in HANGS, found[0].opened_us or now.wall_us))
        for incident, withdrawn, build in stored:
            for target in self.settings.target:
                self._for(transaction, target, now).note(incident, withdrawn=withdrawn, build=build, hold=hold)

    def collect(self, transaction: Transaction, now: Now, *, caught_up: bool) -> None:
        """Tell what was collected and is ripe, and what a silence no longer covers."""
        for target in self.settings.target:
            self._for(transaction, target, now).collect(caught_up=caught_up)
        outbox.give_up_without(transaction, [target.name for target in self.settings.target], now.wall_us)

    def _for(self, transaction: Transaction, target: Target, now: Now) -> _One:
        place = Place(host=self._host, show=self._show, now_us=now.wall_us)
        storm = self.settings.notify.storm_messages, round(self.settings.notify.storm_minutes * 60e6)
        return _One(transaction, target, self._words, place, storm)


class _One:
    """One target, in one transaction."""

    def __init__(
        self,
        transaction: Transaction,
        target: Target,
        words: Mapping[str, IncidentWords],
        place: Place,
        storm: tuple[int, int],
    ) -> None:
        self._transaction = transaction
        self._target = target
        self._words = words
        self._place = place
        self._now_us = place.now_us
        self._storm_messages, self._storm_us = storm

    # -- one incident ---------------------------------------------------------------------------------------------

    def note(self, incident: Incident, *, withdrawn: bool, build: str | None, hold: str | None) -> None:
        """Queue what is to be said, and remember how far was told."""
        if withdrawn and incident.kind in HANGS and outbox.has_died(self._transaction, incident.life):
            incident, withdrawn = msgspec.structs.replace(incident, state="lost"), False  # it belongs to the death
        before = outbox.notice(self._transaction, incident.id, self._target.name)
        wanted = wants(self._target, incident)
        happened = event(incident, withdrawn=withdrawn, wanted=wanted, state=before.state, told=before.told)
        if happened is None:
            return
        step = TABLE[before.state, happened]
        if step.what in NEWS and self._is_told_with_death(incident):
            step = Step(None, State.OVER)
        elif step.what in NEWS or step.what is What.ESCALATED:
            silence = self._silence_of(incident)
            if silence is not None:
                kept_back(self._transaction, silence)
                silenced = State.SILENCED if before.state is State.NEW else before.state
                step = Step(None, silenced if is_open(incident) else State.OVER)
        cause = (hold or self._storm(incident)) if step.what in NEWS else None
        if cause is not None:
            self._keep(before, State.HELD, hold=cause)
        elif step.what is not None:
            self._send(step.what, step.state, before, self._about(incident, build, withdrawn=withdrawn))
        elif step.state is not before.state:
            self._keep(before, step.state, hold="storm" if step.state is State.CHANGED else None)

    def _send(self, what: What, state: State, before: Notice, about: About) -> None:
        """Queue a message of its own about one incident."""
        incident, title = about.incident, before.title or self._title(about.incident)
        due_us, queued_us, tries = self._now_us, self._now_us, 0
        says: What | None = what
        if what in NEWS:
            due_us += HANG_WAITS_US if incident.kind in HANGS else 0
            if _is_death(incident):
                self._take_hangs(incident)
        else:
            waiting = outbox.take_back(self._transaction, incident.id, self._target.name)
            if waiting is not None:
                says, queued_us, tries = _WHEN_ALL_IN_ONE.get(what), waiting.queued_us, waiting.tries
                due_us += outbox.wait_us(tries) if tries else 0
        if says is not None:
            number = outbox.write(self._transaction, message(says, about, self._place, title))
            outbox.queue(self._transaction, number, self._target.name, due_us=due_us, queued_us=queued_us, tries=tries)
        self._told(before, state, about, title)

    def _told(self, before: Notice, state: State, about: About, title: str) -> None:
        incident = None if about.withdrawn else about.incident
        after = msgspec.structs.replace(
            before,
            state=state,
            hold=None,
            title=title,
            kind=None if incident is None else told_kind(incident),
            severity=None if incident is None else incident.severity,
            since_us=self._now_us,
        )
        outbox.save_notice(self._transaction, after)

    def _keep(self, before: Notice, state: State, *, hold: str | None) -> None:
        """Remember it without a message."""
        after = msgspec.structs.replace(before, state=state, hold=hold, since_us=self._now_us)
        if state is State.NEW:
            after = msgspec.structs.replace(after, kind=None, severity=None)
        outbox.save_notice(self._transaction, after)

    def _storm(self, incident: Incident) -> str | None:
        """Whether this is to be told with others, since there are many."""
        since_us, name = self._now_us - self._storm_us, self._target.name
        # A server that dies again: this may become a loop.
        dies_again = (
            _is_death(incident)
            and incident.kind != "crash-loop"
            and outbox.told_of_another(self._transaction, name, incident, since_us)
        )
        many = outbox.recent(self._transaction, name, since_us) >= self._storm_messages
        return "storm" if dies_again or many else None

    def _silence_of(self, incident: Incident) -> Silence | None:
        found = silences(self._transaction, self._now_us)
        return next((one for one in found if one.covers(incident, self._now_us)), None)

    def _is_told_with_death(self, incident: Incident) -> bool:
        """Whether it is a hang that ended with its process, and the target was told of that."""
        if incident.kind not in HANGS or incident.state != "lost":
            return False
        told = outbox.notices_of_life(self._transaction, incident.life, self._target.name)
        return any(kind not in HANGS and notice.state is not State.NEW for kind, _, notice in told)

    def _take_hangs(self, death: Incident) -> None:
        """Of the hangs that ended with it, what was not sent yet: they are told with the death."""
        for kind, state, notice in outbox.notices_of_life(self._transaction, death.life, self._target.name):
            if kind not in HANGS or state != "lost":
                continue
            took = notice.state is State.TOLD and outbox.take_back(
                self._transaction, notice.incident, self._target.name
            )
            if took or notice.state in (State.HELD, State.SILENCED):
                self._keep(notice, State.OVER, hold=None)

    def _about(self, incident: Incident, build: str | None, *, withdrawn: bool) -> About:
        hangs = outbox.hangs_lost_with(self._transaction, incident.life) if _is_death(incident) else []
        words = self._words[incident.kind]
        return About(incident=incident, words=words, build=build, hangs=tuple(hangs), withdrawn=withdrawn)

    def _title(self, incident: Incident) -> str:
        return title_of(incident, self._words[incident.kind], self._place.host)

    # -- several --------------------------------------------------------------------------------------------------

    def collect(self, *, caught_up: bool) -> None:
        """Tell what was collected and is ripe, and what a silence no longer covers."""
        waiting = outbox.notices(self._transaction, self._target.name, (State.HELD, State.CHANGED))
        for hold in ("backfill", "downtime"):
            missed = [one for one in waiting if one.hold == hold]
            if missed and caught_up:
                self._tell_together(What.SUMMARY, missed, hold)
        storm = [one for one in waiting if one.hold == "storm"]
        if storm and self._is_ripe(storm[0]):
            self._tell_together(What.DIGEST, storm, "storm")
        for notice in outbox.notices(self._transaction, self._target.name, (State.SILENCED,)):
            incident, withdrawn, build = self._stored(notice)
            if is_open(incident) and not withdrawn and self._silence_of(incident) is None:
                self._keep(notice, State.NEW, hold=None)
                self.note(incident, withdrawn=False, build=build, hold=None)

    def _is_ripe(self, oldest: Notice) -> bool:
        last_us = outbox.last_digest_us(self._transaction, self._target.name)
        again = last_us is None or not 0 <= self._now_us - last_us < self._storm_us
        return again and not 0 <= self._now_us - oldest.since_us < TOGETHER_US

    def _tell_together(self, what: What, notices: Sequence[Notice], hold: str) -> None:
        told: list[tuple[Notice, About]] = []
        for notice in notices:
            incident, withdrawn, build = self._stored(notice)
            is_news = notice.state is State.HELD
            if is_news and hold == "backfill" and not is_open(incident):
                self._keep(notice, State.OVER, hold=None)
            elif is_news and (silence := self._silence_of(incident)) is not None:
                kept_back(self._transaction, silence)
                self._keep(notice, State.SILENCED if is_open(incident) else State.OVER, hold=None)
            else:
                told.append((notice, self._about(incident, build, withdrawn=withdrawn)))
        if len(told) == 1 and told[0][0].state is State.HELD:
            [(notice, about)] = told
            step = TABLE[State.NEW, Event.OPENS if is_open(about.incident) else Event.ENDS]
            assert step.what is not None
            self._send(step.what, step.state, notice, about)
        elif told:
            text = digest(what, [about for _, about in told], self._place, SPOKEN[hold])
            number = outbox.write(self._transaction, text)
            outbox.queue(self._transaction, number, self._target.name, due_us=self._now_us, queued_us=self._now_us)
            for notice, about in told:
                state = State.LISTED if is_open(about.incident) else State.OVER
                title = notice.title or self._title(about.incident)
                self._told(notice, State.NEW if about.withdrawn else state, about, title)

    def _stored(self, notice: Notice) -> tuple[Incident, bool, str | None]:
        stored = outbox.stored_incident(self._transaction, notice.incident)
        assert stored is not None  # a notice refers to it
        return stored


def _is_death(incident: Incident) -> bool:
    return incident.kind not in HANGS and incident.kind != "blind"
