"""The verdict about one server, and what it means for a monitoring system."""

from __future__ import annotations

import msgspec

from sleepwatch.check import evidence, exposure, restart, watching
from sleepwatch.check.evidence import Evidence
from sleepwatch.check.facts import Facts, HostFacts, ServerFacts
from sleepwatch.check.findings import NO, Finding, ordered
from sleepwatch.check.restart import Restart
from sleepwatch.check.watching import Watched
from sleepwatch.hosts.options import Sleep

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
"""Exit codes of monitoring plugins (monitoring-plugins.org, development guidelines), and their names."""
_WORST = {CRITICAL: 3, WARNING: 2, UNKNOWN: 1, OK: 0}

FINE = "fine"
EXPOSED = "exposed"
UNPROTECTED = "exposed and unprotected"
BLIND = "blind"
UNPROTECTED_AND_BLIND = "exposed, unprotected and blind"
DOES_NOT_START = "does not start"
NOT_KNOWN = "unknown"
STATE_OF = {
    FINE: OK,
    EXPOSED: WARNING,
    DOES_NOT_START: WARNING,
    UNPROTECTED: CRITICAL,
    BLIND: CRITICAL,
    UNPROTECTED_AND_BLIND: CRITICAL,
    NOT_KNOWN: UNKNOWN,
}
"""Every verdict and its state."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One server with its verdict."""

    server: ServerFacts
    verdict: str
    sleep: Sleep
    restart: Restart
    evidence: Evidence
    watched: Watched
    findings: tuple[Finding, ...]

    @property
    def state(self) -> int:
        """The exit code it stands for; one that nothing starts counts as fine."""
        return STATE_OF[self.verdict] if self.server.counted else OK


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole check."""

    servers: tuple[Judged, ...]
    host: HostFacts

    @property
    def state(self) -> int:
        """The worst of all: CRITICAL, WARNING, UNKNOWN, OK. UNKNOWN too where there is no server but not all
        could be seen."""
        states = [one.state for one in self.servers if one.server.counted]
        if not states and self.host.unseen:
            return UNKNOWN
        return max(states, key=_WORST.__getitem__, default=OK)


def check(facts: Facts) -> Report:
    """Judge everything: facts in, verdicts and findings out."""
    judged = [judge(server, facts.host) for server in facts.servers]
    judged.sort(key=lambda one: (not one.server.counted, -_WORST[STATE_OF[one.verdict]], one.server.name))
    return Report(servers=tuple(judged), host=facts.host)


def judge(server: ServerFacts, host: HostFacts) -> Judged:
    """One server."""
    sleep = exposure.sleep_of(server)
    exposed = sleep.state == "on"
    findings = exposure.judge(server)
    restarted, about_restart = restart.judge(server)
    seen, about_evidence = evidence.judge(server, host)
    watched, about_watching = watching.judge(server, host, exposed=exposed)
    known = server.process is not None or server.unit is not None  # a preset file alone is run by nobody we know
    if known and (exposed or sleep.state == "unknown"):
        findings += about_restart + about_evidence + about_watching
    return Judged(
        server=server,
        verdict=_verdict(server, sleep, restarted, seen),
        sleep=sleep,
        restart=restarted,
        evidence=seen,
        watched=watched,
        findings=ordered(findings),
    )


def _verdict(server: ServerFacts, sleep: Sleep, restarted: Restart, seen: Evidence) -> str:
    if server.preset is not None and server.preset.refused and not server.running:
        return DOES_NOT_START
    if sleep.state == "refused" or (
        not server.running and server.options is not None and any(one.fatal for one in server.options.problems)
    ):
        return DOES_NOT_START
    if sleep.state == "unknown":
        return NOT_KNOWN
    if sleep.state == "off":
        return FINE
    unprotected, blind = restarted.answer == NO, seen.answer == NO
    if unprotected and blind:
        return UNPROTECTED_AND_BLIND
    return UNPROTECTED if unprotected else BLIND if blind else EXPOSED
