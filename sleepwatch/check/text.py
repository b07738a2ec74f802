"""Plain text for people and for monitoring systems: one summary line, then a block per server."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from sleepwatch.check.findings import CRITICAL, INFO, WARNING, Finding
from sleepwatch.check.verdicts import (
    BLIND,
    DOES_NOT_START,
    EXPOSED,
    FINE,
    NOT_KNOWN,
    STATE_OF,
    STATES,
    UNPROTECTED,
    UNPROTECTED_AND_BLIND,
    Judged,
    Report,
)
from sleepwatch.printable import printable
from sleepwatch.report.table import Style

_LONGEST = 80
"""Characters of the summary before its numbers: pagers and SMS cut longer ones (monitoring-plugins.org)."""
_COLOURS = {0: "1;32", 1: "1;33", 2: "1;31", 3: "1;35"}
_LEVELS = {CRITICAL: "1;31", WARNING: "1;33", INFO: "1;36"}
_BOLD = "1"
_DIM = "2"
_LABEL = 12


def summary(report: Report) -> str:
    """The one line that says it all, without numbers for graphs: at most 80 characters."""
    state = f"SLEEPWATCH {STATES[report.state]} - "
    counted = [one for one in report.servers if one.server.counted]
    if not counted:
        return state + (
            "no llama-server can be seen, but not all could be looked at" if report.state else "no llama-server"
        )
    worst = [one for one in counted if one.state == report.state]
    if report.state == 0:
        return f"{state}{len(counted)} llama-server{'' if len(counted) == 1 else 's'}, none exposed"
    verdict = worst[0].verdict if len({one.verdict for one in worst}) == 1 else "at risk"
    if verdict == NOT_KNOWN:
        verdict = "sleep mode not known"
    line = f"{state}{len(worst)} of {len(counted)} {verdict}: " if len(counted) > 1 else f"{state}{verdict}: "
    names = [printable(one.server.name) for one in worst]
    shown = list(names)
    while len(shown) > 1 and len(line + ", ".join(shown)) + len(f" +{len(names) - len(shown)}") > _LONGEST:
        shown.pop()
    more = f" +{len(names) - len(shown)}" if len(shown) < len(names) else ""
    room = _LONGEST - len(line) - len(more)
    listed = ", ".join(shown)
    return line + (listed if len(listed) <= room else listed[: max(room - 1, 8)] + "…") + more


def performance(report: Report) -> str:
    """Numbers for graphs, as monitoring plugins print them behind ``|``."""
    counted = [one.verdict for one in report.servers if one.server.counted]
    exposed = sum(verdict in (EXPOSED, UNPROTECTED, BLIND, UNPROTECTED_AND_BLIND) for verdict in counted)
    unprotected = sum(verdict in (UNPROTECTED, UNPROTECTED_AND_BLIND) for verdict in counted)
    blind = sum(verdict in (BLIND, UNPROTECTED_AND_BLIND) for verdict in counted)
    return (
        f"servers={len(counted)};;;0 exposed={exposed};0;;0 unprotected={unprotected};;0;0 blind={blind};;0;0 "
        f"fine={counted.count(FINE)};;;0 unknown={counted.count(NOT_KNOWN) + counted.count(DOES_NOT_START)};;;0"
    )


def text(report: Report, style: Style | None = None, *, only_summary: bool = False) -> Iterator[str]:
    """The whole report, line by line, without line feeds."""
    style = style or Style()
    yield f"{summary(report)} | {performance(report)}"
    if only_summary:
        return
    told: set[str] = set()
    for one in report.servers:
        yield ""
        yield from block(one, style, told)
    if report.host.unseen:
        yield ""
        yield style.paint(f"Not to be seen by {report.host.user}", _BOLD)
        for words in report.host.unseen:
            yield from _wrapped(words, "  - ", style)


def block(judged: Judged, style: Style, told: set[str] | None = None) -> Iterator[str]:
    """One server. ``told`` holds the sentences printed above, which are not printed again."""
    told = set() if told is None else told
    state = STATE_OF[judged.verdict]
    name = style.paint(printable(judged.server.name), _BOLD)
    aside = "" if judged.server.counted else "  (nothing starts it; not counted)"
    yield f"{style.paint(STATES[state], _COLOURS[state])}  {style.paint(judged.verdict, _BOLD)}  {name}{aside}"
    yield from _field("server", _facts(judged), style)
    yield from _field("sleep", _sleep_words(judged), style)
    known = judged.server.process is not None or judged.server.unit is not None
    if judged.verdict != FINE and known:
        yield from _field("restart", judged.restart.words, style)
        log = judged.evidence.words
        yield from _field(
            "log", log if judged.evidence.answer == "no" else f"{log}; proves {judged.evidence.proves}", style
        )
        yield from _field("watched", judged.watched.words, style)
    unseen = judged.server.unseen
    if unseen:
        yield from _field("not seen", ", ".join(unseen), style)
    for number, finding in enumerate(judged.findings, 1):
        yield ""
        yield from _finding(number, finding, style, told)


def _facts(judged: Judged) -> str:
    server, options = judged.server, judged.server.options
    facts = [f"running, pid {server.process.pid}" if server.process is not None else "not running"]
    if server.unit is not None and server.unit.name != server.name:
        facts.append(f"unit {server.unit.name}")
    if server.router is not None:
        facts.append(f"started by the router {server.router}")
    port = judged.server.port
    if port is not None:
        facts.append(f"port {port}")
    if options is not None:
        if server.is_router:
            facts.append("router")
        elif options.model:
            facts.append(f"model {options.model}")
        slots = options.slots
        if not server.is_router:
            facts.append("slots: its choice" if slots is None else f"{slots} slot{'' if slots == 1 else 's'}")
        timeout = options.number("timeout")
        if timeout is not None:
            facts.append(f"time-out {timeout} s")
    facts.append(f"build b{server.build}" if server.build else "build not known")
    return ", ".join(facts)


def _sleep_words(judged: Judged) -> str:
    sleep = judged.sleep
    source = f" ({sleep.setting.spelling} {sleep.setting.value}, {sleep.setting.place})" if sleep.setting else ""
    preset = judged.server.preset
    if preset is not None and preset.refused:
        return "not known: its preset file is refused"
    if judged.server.is_router and preset is not None and sleep.state != "unknown":
        return "; ".join(_model_words(judged)) or "no model named in its preset file"
    if sleep.state == "on":
        return f"after {sleep.seconds} s{source}"
    if sleep.state == "off":
        return f"off{source or ', the default'}"
    return f"{'refused' if sleep.state == 'refused' else 'not known'}{source}"


def _model_words(judged: Judged) -> Iterator[str]:
    server = judged.server
    groups = [(model.name, model.options.sleep) for model in (server.preset.models if server.preset else ())]
    if server.others is not None:
        groups.append(("any other model", server.others.sleep))
    for name, sleep in groups:
        where = f" ({sleep.setting.place})" if sleep.setting is not None else ""
        state = f"after {sleep.seconds} s" if sleep.state == "on" else sleep.state
        running = ", running" if name in server.running_models else ""
        yield f"{name}: {state}{where}{running}"


def _finding(number: int, finding: Finding, style: Style, told: set[str]) -> Iterator[str]:
    """What, why and what to do. Commands are printed always: those of another server have other names in them."""
    level = style.paint(finding.level, _LEVELS[finding.level])
    yield f"  {number}  {level}  {style.paint(f'[{finding.code}]', _DIM)}"
    yield from _field("", finding.what, style)
    if finding.why not in told:
        yield from _field("  why", finding.why, style)
    label = "  to do"
    for line in (finding.change or "").split("\n") if finding.change else ():
        if line.startswith(" "):
            yield f"{f'  {label}':<{_LABEL}}{printable(line)}"
        elif line not in told:
            yield from _field(label, line, style)
        else:
            continue
        label = ""
    told.add(finding.why)
    told.update(line for line in (finding.change or "").split("\n") if line and not line.startswith(" "))


def _field(label: str, words: str, style: Style) -> Iterator[str]:
    """A labelled field, wrapped behind its label."""
    yield from _wrapped(words, f"{f'  {label}':<{_LABEL}}", style)


def _wrapped(words: str, first: str, style: Style) -> list[str]:
    return textwrap.wrap(
        printable(words),
        style.width,
        initial_indent=first,
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]
