"""The JSON document of ``check --json``. Schema: docs/check-schema.json, made from these structs.

Names stay; a later version may add some. No command line and no value of an option but those shown here is in it: keys
and tokens stand on command lines.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sleepwatch.check.findings import Finding
from sleepwatch.check.text import summary
from sleepwatch.check.verdicts import STATES, Judged, Report
from sleepwatch.hosts.options import LOUDEST
from sleepwatch.printable import printable, printable_lines

SCHEMA_VERSION = 1


class SleepEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Sleep mode."""

    state: str
    """``on``, ``off``, ``refused`` or ``unknown``."""
    seconds: int | None
    from_: str | None = msgspec.field(name="from")
    """Who set it; null where nobody did."""


class AnswerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question."""

    answer: str
    """``yes``, ``no`` or ``unknown``."""
    how: str


class EvidenceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an incident would be seen."""

    answer: str
    how: str
    proves: str
    verbosity: int | None
    """The level of the log; null where it is not known. ``-v`` is 2147483647."""
    targets: list[str]
    """Where the lines go."""


class FindingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One finding."""

    code: str
    level: str
    what: str
    why: str
    change: str | None


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a router."""

    name: str
    sleep: SleepEntry
    running: bool


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One server."""

    name: str
    verdict: str
    """``fine``, ``exposed``, ``exposed and unprotected``, ``blind``, ``exposed, unprotected and blind``,
    ``does not start`` or ``unknown``."""
    counted: bool
    """Whether it counts for the state of the whole: it runs, or something starts it."""
    running: bool
    pid: int | None
    unit: str | None
    container: str | None
    router: str | None
    is_router: bool
    port: int | None
    model: str | None
    build: int | None
    slots: int | None
    """Null where the server chooses."""
    timeout_s: int | None
    """Null for the build's default."""
    images: bool
    drafting: bool
    models: list[ModelEntry]
    sleep: SleepEntry
    restart: AnswerEntry
    evidence: EvidenceEntry
    watched: AnswerEntry
    findings: list[FindingEntry]
    not_seen: list[str]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The whole check."""

    schema_version: int
    state: str
    """``OK``, ``WARNING``, ``CRITICAL`` or ``UNKNOWN``."""
    exit_code: int
    summary: str
    user: str
    """Who looked: another user may see more."""
    servers: list[ServerEntry]
    not_seen: list[str]
    """What could not be looked at."""


def document(report: Report) -> Document:
    """The report as one document."""
    return Document(
        schema_version=SCHEMA_VERSION,
        state=STATES[report.state],
        exit_code=report.state,
        summary=summary(report),
        user=report.host.user,
        servers=[_server(one) for one in report.servers],
        not_seen=[printable(words) for words in report.host.unseen],
    )


def json_text(report: Report) -> str:
    """The document as indented JSON with a line feed at its end."""
    return msgspec.json.format(msgspec.json.encode(document(report)), indent=2).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sleepwatch check --json",
        **msgspec.json.schema(Document),
    }


def _server(judged: Judged) -> ServerEntry:
    server, options, process = judged.server, judged.server.options, judged.server.process
    return ServerEntry(
        name=printable(server.name),
        verdict=judged.verdict,
        counted=server.counted,
        running=server.running,
        pid=process.pid if process else None,
        unit=server.unit.name if server.unit else None,
        container=server.container.id if server.container else None,
        router=server.router,
        is_router=server.is_router,
        port=judged.server.port,
        model=_text(options.model) if options else None,
        build=server.build,
        slots=options.slots if options else None,
        timeout_s=options.number("timeout") if options else None,
        images=bool(options and options.images),
        drafting=bool(options and options.drafting),
        models=_models(judged),
        sleep=_sleep(judged.sleep),
        restart=AnswerEntry(answer=judged.restart.answer, how=printable(judged.restart.words)),
        evidence=EvidenceEntry(
            answer=judged.evidence.answer,
            how=printable(judged.evidence.words),
            proves=judged.evidence.proves,
            verbosity=min(judged.evidence.verbosity, LOUDEST) if judged.evidence.verbosity is not None else None,
            targets=[printable(target.words) for target in server.targets],
        ),
        watched=AnswerEntry(answer=judged.watched.answer, how=printable(judged.watched.words)),
        findings=[_finding(finding) for finding in judged.findings],
        not_seen=[printable(words) for words in judged.server.unseen],
    )


def _models(judged: Judged) -> list[ModelEntry]:
    preset = judged.server.preset
    return [
        ModelEntry(
            name=printable(model.name),
            sleep=_sleep(model.options.sleep),
            running=model.name in judged.server.running_models,
        )
        for model in (preset.models if preset else ())
    ]


def _sleep(sleep: Any) -> SleepEntry:
    setting = sleep.setting
    source = None if setting is None else printable(f"{setting.spelling} {setting.value}, {setting.place}")
    return SleepEntry(state=sleep.state, seconds=sleep.seconds, from_=source)


def _finding(finding: Finding) -> FindingEntry:
    return FindingEntry(
        code=finding.code,
        level=finding.level,
        what=printable(finding.what),
        why=printable(finding.why),
        change=None if finding.change is None else printable_lines(finding.change),
    )


def _text(text: str | None) -> str | None:
    return None if text is None else printable(text)
