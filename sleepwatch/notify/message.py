"""The words of a message: title, a short body for chat, a long one for mail, and JSON for programs. Pure.

The title of all messages about an incident is the same, byte for byte, since services that close alarms by themselves
(PagerDuty, Opsgenie) know one by its title; every body ends in a line with the incident's key. Text of log lines is
never in a message, only names (of servers, tasks) and our own sentences; names cannot mark up the text, mention
anybody or become a link.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sleepwatch.model import Incident
from sleepwatch.notify.outbox import Message
from sleepwatch.notify.policy import HANGS, NOT_FREED_HANG, What, is_open, told_kind
from sleepwatch.printable import printable, printable_lines
from sleepwatch.report.document import incident_entry
from sleepwatch.report.times import duration_words, rfc3339, wall_words
from sleepwatch.rules import IncidentWords

SCHEMA_VERSION = 1
NAME_LENGTH = 60
"""Longest name of a server in a title."""
SENTENCE_LENGTH = 400
LISTED = 30
"""Incidents named one by one in a digest."""
_SHORT_ID = 8
_INVISIBLE = "\u200b"

_MENTION = re.compile(r"@(?=everyone|here|channel|all\b)|(?<!\w)@(?=\w)", re.IGNORECASE)
_MARKUP = str.maketrans({"<": "‹", ">": "›", "`": "'", "*": "∗", "|": "¦"})

_HEADS = {
    What.OPENED: "NEW",
    What.PASSED: "HAPPENED, AND IS OVER",
    What.ESCALATED: "WORSE THAN TOLD BEFORE",
    What.RECOVERED: "OVER",
    What.WITHDRAWN: "TAKEN BACK: it was no incident",
}
_ENDS = {
    "unstuck": "sleepwatch woke the server",
    "recovered": "another request woke the server",
    "abandoned": "its client gave up unanswered",
    "lost": "the process ended with it",
    "restarted": "the server runs again",
}


class About(msgspec.Struct, frozen=True, kw_only=True):
    """One incident, with what a message says beside it."""

    incident: Incident
    words: IncidentWords
    build: str | None = None
    hangs: tuple[Incident, ...] = ()
    """Requests that hung in the same server life, told with its death."""
    withdrawn: bool = False


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the message comes from."""

    host: str
    show: str = "sleepwatch incidents show"
    """The command that shows more, without the incident's id."""
    now_us: int


def neutral(text: str, *, links: bool = False) -> str:
    """Text with names in it that others gave, so that no service takes it for markup or a mention, or (unless
    ``links``) for a link. Zero-width spaces break what would be one; all else reads the same."""
    text = _MENTION.sub("@" + _INVISIBLE, printable_lines(text))
    if links:
        return text.translate({ord("<"): "‹", ord(">"): "›", ord("`"): "'"})
    return text.translate(_MARKUP).replace("://", f":{_INVISIBLE}//").replace("](", f"]{_INVISIBLE}(")


def title_of(incident: Incident, words: IncidentWords, host: str) -> str:
    """The title of every message about this incident to a target that was not told of it before."""
    return f"{_name(incident.server)} on {_name(host)}: {words.title} ({incident.id[:_SHORT_ID]})"


def key_of(incident: Incident) -> str:
    """What tells two messages about the same incident, also of two hosts, from others."""
    return f"sleepwatch-{incident.id}"


def message(what: What, about: About, place: Place, title: str) -> Message:
    """A message about one incident. ``title``: that of the first one about it."""
    incident = about.incident
    return Message(
        what=what,
        incident=incident.id,
        type="success" if what in (What.RECOVERED, What.WITHDRAWN) else _alarm([incident]),
        title=title,
        short=_short(what, about, place),
        long=_long(what, about, place),
        document=_document(what, title, place, [about]),
    )


def digest(what: What, about: Sequence[About], place: Place, reason: str) -> Message:
    """One message about several incidents; ``reason``: why they are told together, a sentence."""
    still = [one.incident for one in about if is_open(one.incident) and not one.withdrawn]
    count = f"{len(about)} incident{'s' * (len(about) != 1)}"
    title = f"{_name(place.host)}: {count}, {len(still) or 'none'} still open"
    lines = [reason, ""]
    lines += [_line(one) for one in about[:LISTED]]
    if len(about) > LISTED:
        lines.append(f"… and {len(about) - LISTED} more")
    lines += ["", "More: sleepwatch incidents list" + place.show.partition("show")[2]]
    text = "\n".join(lines)
    return Message(
        what=what,
        incident=None,
        type=_alarm(still) if still else "success",
        title=title,
        short=text,
        long=text,
        document=_document(what, title, place, about),
    )


def trial_message(host: str, now_us: int) -> Message:
    """What ``sleepwatch notify test`` sends."""
    place = Place(host=host, now_us=now_us)
    title = f"{_name(host)}: sleepwatch can reach you"
    text = f"This is a test, sent {wall_words(now_us)}. Incidents of llama-servers on {_name(host)} will come this way."
    return Message(
        what=What.TEST,
        incident=None,
        type="warning",
        title=title,
        short=text,
        long=text,
        document=_document(What.TEST, title, place, []),
    )


def _alarm(incidents: Sequence[Incident]) -> str:
    return "failure" if any(one.severity == "critical" for one in incidents) else "warning"


def _short(what: What, about: About, place: Place) -> str:
    incident = about.incident
    lines = [_head(what, about), _sentence(incident.summary)]
    lines.append(f"Since {_since(incident, place)}, {_sure(incident)}")
    lines += [*_hangs(about), *_done(incident), *_next(what, about)]
    lines += [f"More: {place.show} {incident.id[:_SHORT_ID]}", f"Key: {key_of(incident)}"]
    return "\n".join(lines)


def _long(what: What, about: About, place: Place) -> str:
    incident, words = about.incident, about.words
    build = f", build {neutral(about.build)}" if about.build else ""
    rows = [
        ("server", f"{neutral(incident.server)} on {neutral(place.host)}{build}"),
        ("since", _since(incident, place)),
        ("severity", incident.severity),
        ("sure", _sure(incident)),
    ]
    parts = [_head(what, about), _sentence(incident.summary)]
    parts.append("\n".join(f"{label:<9} {text}" for label, text in rows))
    parts += [*_hangs(about), *_done(incident), *_next(what, about)]
    if what in (What.OPENED, What.ESCALATED, What.PASSED):
        parts += [words.means, f"What to do:\n{neutral(incident.remedy, links=True)}"]
        parts.append(f"What looks like it: {words.looks_like}")
    parts.append(f"More: {place.show} {incident.id[:_SHORT_ID]}\nKey: {key_of(incident)}")
    return "\n\n".join(parts)


def _head(what: What, about: About) -> str:
    incident = about.incident
    if what is What.OPENED:
        return f"{_HEADS[what]}: {incident.severity}"
    if what is What.ESCALATED:
        return f"{_HEADS[what]}: {incident.severity}, {about.words.title}"
    if what in (What.RECOVERED, What.PASSED):
        lasted_us = incident.duration_us if incident.kind in (*HANGS, "blind") else None  # a death is a moment
        lasted = f" after {duration_words(lasted_us)}" if lasted_us is not None else ""
        return f"{_HEADS[what]}{lasted}: {_end(incident)}"
    return _HEADS[what]


def _end(incident: Incident) -> str:
    if incident.kind == "blind":
        return _sentence(incident.reason)
    return _ENDS.get(incident.state, incident.state)


def _next(what: What, about: About) -> list[str]:
    """What to do first. Of a hang that is over, what its request needs is left."""
    incident = about.incident
    if what is What.WITHDRAWN:
        return []
    if incident.kind in HANGS and not is_open(incident):
        lost = incident.state in ("abandoned", "lost")
        return ["Next: Repeat the request: it was never answered."] if lost else []
    return [f"Next: {about.words.next}"] if what is not What.RECOVERED else []


def _since(incident: Incident, place: Place) -> str:
    if incident.opened_us is not None:
        return wall_words(incident.opened_us) or "an unknown time"
    return f"some time before {wall_words(place.now_us)} (its log has no wall time)"


def _sure(incident: Incident) -> str:
    return f"{incident.confidence} ({_sentence(incident.reason)})"


def _done(incident: Incident) -> list[str]:
    if incident.state == "unstuck":
        return ["Done: sleepwatch woke the server with a completion of one token."]
    if told_kind(incident) == NOT_FREED_HANG and is_open(incident):
        return ["Done: sleepwatch woke the server; that did not free the request."]
    return ["Done: nothing so far, only this message."] if is_open(incident) else []


def _hangs(about: About) -> list[str]:
    if not about.hangs:
        return []
    ids = ", ".join(one.id[:_SHORT_ID] for one in about.hangs)
    count = len(about.hangs)
    return [f"{count} request{'s' * (count != 1)} that hung in it before {'is' if count == 1 else 'are'} lost ({ids})."]


def _line(about: About) -> str:
    """An incident in a digest."""
    incident = about.incident
    state = "taken back" if about.withdrawn else "open" if is_open(incident) else f"over, {_end(incident)}"
    opened = f" since {wall_words(incident.opened_us)}" if incident.opened_us is not None else ""
    times = f" ({incident.count} deaths)" if incident.count > 1 else ""
    return (
        f"- {incident.severity} {incident.kind}{times} of {_name(incident.server)}{opened}: {state} "
        f"[{incident.id[:_SHORT_ID]}]"
    )


def _document(what: What, title: str, place: Place, about: Sequence[About]) -> str:
    """What a command gets on its standard input."""
    entries: list[Mapping[str, Any]] = [
        {**incident_entry(one.incident), "build": one.build, "withdrawn": one.withdrawn, "key": key_of(one.incident)}
        for one in about
    ]
    one_only = len(about) == 1 and what not in (What.DIGEST, What.SUMMARY)
    document = {
        "schema_version": SCHEMA_VERSION,
        "what": str(what),
        "title": title,
        "host": printable(place.host),
        "time": rfc3339(place.now_us),
        "incident": entries[0] if one_only else None,
        "incidents": [] if one_only else entries,
    }
    return msgspec.json.encode(document).decode()


def _name(name: str) -> str:
    text = neutral(name)
    return text if len(text) <= NAME_LENGTH else f"…{text[1 - NAME_LENGTH :]}"


def _sentence(text: str) -> str:
    text = neutral(text)
    return text if len(text) <= SENTENCE_LENGTH else f"{text[: SENTENCE_LENGTH - 1]}…"


SPOKEN = {
    "storm": "Many incidents within a short time: these are told together.",
    "downtime": "While sleepwatch was not running, or was reading what was written meanwhile:",
    "backfill": "sleepwatch has begun to watch, and found these still open:",
}
"""Why incidents are told together."""
