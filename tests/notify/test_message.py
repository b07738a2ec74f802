"""The words: golden messages for each kind, and what names from outside cannot do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sleepwatch.engine.verdicts import NOT_FREED
from sleepwatch.model import Incident
from sleepwatch.notify.message import SPOKEN, About, Place, digest, key_of, message, neutral, title_of
from sleepwatch.notify.policy import What
from sleepwatch.rules import load_incidents
from tests.support.results import HANG

GOLDEN = Path(__file__).parent / "golden"
WORDS = load_incidents()
OPENED_US = 1_796_044_801_500_000
PLACE = Place(host="gpu-host-1", now_us=OPENED_US + 5_000_000)
SUMMARIES = {
    "hung-request": (
        "A request (task 2) was queued while the server slept; it still waits.",
        "H1: it was posted between the server's falling asleep and its waking",
    ),
    "sleep-crash": (
        "The server crashed (signal 11) as it fell asleep or slept.",
        "it died on signal 11 after falling asleep and before any wake; a request was in flight",
    ),
    "wake-failure": (
        "The server was asked to wake and died before it was awake (signal 11).",
        "it died (signal 11) between its waking and the first line only an awake server prints",
    ),
    "crash-in-flight": (
        "The server crashed (signal 11) with 1 request in flight.",
        "signal 11 while awake, with requests launched (or queued, or arrived) and not answered",
    ),
    "crash": ("The server died (signal 6).", "signal 6, nothing in flight"),
    "crash-loop": (
        "The server died 5 times in a row without serving a request.",
        "5 deaths in a row, none of which came to listen or served a request",
    ),
    "stalled-request": ("Task 7 was launched and not released for 31 min.", "a long prompt looks the same"),
    "blind": ("/var/log/llama.log cannot be watched: it may not be read.", "it may not be read"),
}
OVER: dict[str, dict[str, Any]] = {
    "hung-request": {
        "state": "recovered",
        "summary": "A request (task 2) was queued while the server slept; another request woke the server.",
    },
    "stalled-request": {"state": "recovered"},
    "blind": {"state": "recovered", "reason": "the source is read again"},
}


def incident(kind: str, **changes: Any) -> Incident:
    summary, reason = SUMMARIES[kind]
    made = Incident(
        id="4a5b6c7d8e9f0a1b2c3d",
        kind=kind,
        confidence="confirmed",
        state="open",
        severity=WORDS[kind].severity,
        server="llama-wide.service",
        life="9f8e7d6c5b4a3921",
        summary=summary,
        remedy=WORDS[kind].do,
        reason=reason,
        evidence=HANG.evidence,
        opened_us=OPENED_US,
    )
    return msgspec.structs.replace(made, **changes)


def about(one: Incident, **changes: Any) -> About:
    return About(incident=one, words=WORDS[one.kind], build="b11368", **changes)


def told(kind: str, what: What) -> About:
    if what in (What.OPENED, What.ESCALATED):
        hangs = (incident("hung-request", id="feedbeef00"),) if kind == "sleep-crash" else ()
        return about(incident(kind), hangs=hangs)
    return about(incident(kind, closed_us=OPENED_US + 3_040_000, **OVER.get(kind, {"state": "restarted"})))


def agrees(name: str, text: str) -> None:
    """As in the golden file; with SLEEPWATCH_ACCEPT=1 that is written instead."""
    path = GOLDEN / name
    if os.environ.get("SLEEPWATCH_ACCEPT"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n"


@pytest.mark.parametrize("what", [What.OPENED, What.RECOVERED])
@pytest.mark.parametrize("kind", SUMMARIES)
def test_a_message(kind: str, what: What) -> None:
    one = told(kind, what)
    title = title_of(one.incident, one.words, PLACE.host)
    made = message(what, one, PLACE, title)
    agrees(f"{kind}.{what}.short.txt", f"{made.title}\n\n{made.short}")
    agrees(f"{kind}.{what}.long.txt", f"{made.title}\n\n{made.long}")


@pytest.mark.parametrize("what", [What.PASSED, What.ESCALATED, What.WITHDRAWN])
def test_other_messages(what: What) -> None:
    kind = "crash-loop" if what is What.ESCALATED else "hung-request"
    one = about(incident(kind), withdrawn=what is What.WITHDRAWN)
    if what is What.PASSED:
        summary = "A request (task 2) was queued while the server slept; its client gave up unanswered."
        one = about(incident(kind, state="abandoned", summary=summary))
    made = message(what, one, PLACE, title_of(incident("crash"), WORDS["crash"], PLACE.host))
    agrees(f"{what}.short.txt", f"{made.title}\n\n{made.short}")
    agrees(f"{what}.long.txt", f"{made.title}\n\n{made.long}")


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, "Done: nothing so far, only this message."),
        ({"summary": f"It waits, and {NOT_FREED} (timeout)."}, "Done: sleepwatch woke the server; that did not free"),
        ({"state": "unstuck"}, "Done: sleepwatch woke the server with a completion of one token."),
        ({"state": "abandoned", "summary": f"It waits, and {NOT_FREED} (timeout)."}, None),
    ],
)
def test_what_was_done(changes: dict[str, Any], done: str | None) -> None:
    made = message(What.ESCALATED, about(incident("hung-request", **changes)), PLACE, "t")
    assert ("Done:" in made.short) == (done is not None)
    assert (done or "") in made.short and (done or "") in made.long


def test_a_digest() -> None:
    several = [
        about(incident("hung-request")),
        about(incident("crash-loop", count=588)),
        about(incident("crash", state="restarted")),
        about(incident("crash"), withdrawn=True),
    ]
    made = digest(What.DIGEST, several, PLACE, SPOKEN["storm"])
    assert made.type == "failure"
    agrees("digest.txt", f"{made.title}\n\n{made.long}")
    many = digest(
        What.SUMMARY, several * 20, msgspec.structs.replace(PLACE, show="sleepwatch incidents show --db x"), ""
    )
    assert "… and 50 more" in many.short
    assert many.short.endswith("More: sleepwatch incidents list --db x")


@pytest.mark.parametrize("kind", SUMMARIES)
def test_titles_are_the_same_and_keys_are_in_every_body(kind: str) -> None:
    first, last = told(kind, What.OPENED), told(kind, What.RECOVERED)
    title = title_of(first.incident, first.words, PLACE.host)
    assert title.encode() == title_of(last.incident, last.words, PLACE.host).encode()
    assert len(title) < 200
    for what, one in ((What.OPENED, first), (What.RECOVERED, last)):
        made = message(what, one, PLACE, title)
        for body in (made.short, made.long):
            assert body.splitlines()[-1] == f"Key: {key_of(one.incident)}"
        assert len(made.short) < 1_000, "too long for chat"


def test_types_are_those_that_close_alarms() -> None:
    def type_of(what: What, one: About) -> str:
        return message(what, one, PLACE, "t").type

    assert type_of(What.OPENED, about(incident("hung-request"))) == "failure"
    assert type_of(What.OPENED, about(incident("crash"))) == "warning"
    assert type_of(What.RECOVERED, about(incident("crash", state="restarted"))) == "success"
    assert type_of(What.WITHDRAWN, about(incident("crash"), withdrawn=True)) == "success"
    over = [about(incident("crash", state="restarted"))]
    assert digest(What.DIGEST, over, PLACE, "").type == "success"


def test_no_line_of_a_log_is_in_a_body() -> None:
    for kind in SUMMARIES:
        made = message(What.OPENED, told(kind, What.OPENED), PLACE, "t")
        for evidence in HANG.evidence:
            assert evidence.text not in made.short
            assert evidence.text not in made.long


def test_a_program_gets_the_whole_incident() -> None:
    made = message(What.OPENED, about(incident("crash")), PLACE, "the title")
    document = json.loads(made.document)
    assert document["what"] == "opened"
    assert document["title"] == "the title"
    assert document["incident"]["id"] == "4a5b6c7d8e9f0a1b2c3d"
    assert document["incident"]["build"] == "b11368"
    assert document["incident"]["evidence"][0]["text"] == HANG.evidence[0].text
    several = json.loads(digest(What.DIGEST, [about(incident("crash"))], PLACE, "").document)
    assert several["incident"] is None
    assert [one["kind"] for one in several["incidents"]] == ["crash"]


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("@everyone", "@\u200beveryone"),
        ("llama@everyone.service", "llama@\u200beveryone.service"),
        ("<@123456>", "‹@\u200b123456›"),
        ("<!channel>", "‹!channel›"),
        ("[click](https://evil.example)", "[click]\u200b(https:\u200b//evil.example)"),
        ("`rm -rf` **now** ||x||", "'rm -rf' ∗∗now∗∗ ¦¦x¦¦"),
        ("<b>bold</b><script>", "‹b›bold‹/b›‹script›"),
        ("a\x1b[31m\u202eb", "a\\x1b[31m\\u202eb"),
        ("llama@gpu0.service", "llama@gpu0.service"),
        ("/srv/models/wide_model-Q4_K_M.gguf", "/srv/models/wide_model-Q4_K_M.gguf"),
    ],
)
def test_names_from_outside_are_only_names(hostile: str, harmless: str) -> None:
    assert neutral(hostile) == harmless
    assert neutral(neutral(hostile)) == harmless
    one = about(incident("hung-request", server=hostile, summary=f"A request to {hostile} hangs."))
    made = message(What.OPENED, one, PLACE, title_of(one.incident, one.words, hostile))
    for text in (made.title, made.short, made.long):
        assert harmless in text
        assert hostile == harmless or hostile not in text


def test_a_very_long_name_makes_no_very_long_message() -> None:
    one = about(incident("crash", server="x" * 5_000, summary="y" * 5_000, reason="z" * 5_000))
    made = message(What.OPENED, one, PLACE, title_of(one.incident, one.words, PLACE.host))
    assert len(made.title) < 200
    assert len(made.short) < 1_500
