"""Would we see it: what the log can prove, whether it is kept, and whether it can be read."""

from __future__ import annotations

import msgspec

from sleepwatch.check.facts import HostFacts, ServerFacts
from sleepwatch.check.findings import CRITICAL, INFO, NO, UNKNOWN, WARNING, YES, Finding, drop_in
from sleepwatch.hosts.coredumps import keeps_stack
from sleepwatch.hosts.logs import Target
from sleepwatch.hosts.options import LOUDEST, ServerOptions
from sleepwatch.hosts.spans import span_words
from sleepwatch.hosts.unitfiles import SYSLOG_LEVELS

_SLEEP_LINES = 3
"""The verbosity that prints the four lines of sleeping and waking, in every build (``LOG_INF``, llama.cpp
common/log.h)."""
_ARRIVALS = 4
"""The verbosity that prints a request's arrival, from b9971 on (tools/server/server-stream.cpp)."""
_ARRIVALS_SINCE = 9971
_TRACE_SINCE = 9151
"""From here on 4 is trace; before, it was debug and printed prompts (llama.cpp #23021)."""
_DEBUG = 5
_INFO_LEVEL = 6
_SMALL_BURST = 1_000


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    answer: str
    """``yes``, ``no`` (nothing would be left to see) or ``unknown``."""
    words: str
    proves: str
    """What the log can prove at its verbosity."""
    verbosity: int | None


def judge(server: ServerFacts, host: HostFacts) -> tuple[Evidence, list[Finding]]:
    """Whether a lost request or a crash would leave a trace that can be read, and what is to be said about it."""
    options = server.options
    findings: list[Finding] = []
    lost = _not_written(server) or _not_kept(server, host)
    if lost is not None:
        findings.append(lost)
    findings += _fragile(server, host)
    unreadable = _unreadable(server, host)
    findings += unreadable
    if lost is None and options is not None:
        findings += _verbosity(server, options)
    findings += _around(server, host)
    verbosity = None if options is None else options.verbosity
    proves = "nothing" if lost is not None else _proves(options, server.build)
    words = ", and ".join(dict.fromkeys(target.words for target in server.targets)) or "not known"
    if lost is not None:
        return Evidence(
            answer=NO, words=f"no: {lost.what[:1].lower()}{lost.what[1:]}", proves=proves, verbosity=verbosity
        ), findings
    if any(finding.level == CRITICAL for finding in unreadable):
        return Evidence(
            answer=NO, words=f"{words}, but it cannot be read", proves=proves, verbosity=verbosity
        ), findings
    known = any(target.kind in ("journal", "file", "container", "router") for target in server.targets)
    if not known:
        return Evidence(answer=UNKNOWN, words=words, proves=proves, verbosity=verbosity), findings
    return Evidence(answer=YES, words=words, proves=proves, verbosity=verbosity), findings


def _proves(options: ServerOptions | None, build: int | None) -> str:
    if options is None:
        return "unknown"
    if options.verbosity >= _DEBUG:
        return "everything, prompts included"
    if options.verbosity == _ARRIVALS and (build is None or build >= _TRACE_SINCE):
        since = "" if build is not None and build >= _ARRIVALS_SINCE else f" (from b{_ARRIVALS_SINCE})"
        return f"sleep, wake, arrivals{since}, who gave up"
    if options.verbosity == _ARRIVALS:
        return "everything, prompts included"
    return "sleep, wake, who gave up; not that a request arrived"


# --- nothing is written, or nothing is kept -----------------------------------------------------------------------


def _not_written(server: ServerFacts) -> Finding | None:
    options = server.options
    if options is None:
        return None
    if options.silent:
        place = options.settings["log-disable"].place
        return Finding(
            code="log-disabled",
            level=CRITICAL,
            what=f"It writes no log at all (--log-disable, {place})",
            why="Neither a lost request nor a sleep is told to anyone; of a crash only systemd or the kernel knows. "
            "No incident found here does not mean that there was none.",
            change=_option_change(server, "remove --log-disable", "log-disable"),
        )
    if options.verbosity < _SLEEP_LINES:
        setting = options.settings["verbosity"]
        return Finding(
            code="verbosity-too-low",
            level=CRITICAL,
            what=f"Its log is too quiet to show that it sleeps ({setting.spelling} {setting.value}, {setting.place})",
            why=f"The lines of falling asleep and waking need {_SLEEP_LINES}, the default. Below it nothing tells a "
            "hung request from a client that went away.",
            change=_option_change(server, f"{setting.spelling} 4", "verbosity"),
        )
    if options.flag("log-jsonl"):
        return Finding(
            code="log-as-json",
            level=CRITICAL,
            what=f"It logs as JSON lines ({options.settings['log-jsonl'].place}), which sleepwatch does not read",
            why="The lines are known by their text, and in this form it is written differently.",
            change=_option_change(server, "remove --log-jsonl", "log-jsonl"),
        )
    return None


def _option_change(server: ServerFacts, change: str, option: str) -> str:
    setting = server.options.settings.get(option) if server.options else None
    if setting is not None and setting.kind in ("preset", "config"):
        return f"In {setting.place}: {change.replace('remove --', 'remove the key ').replace('-lv', 'verbosity =')}"
    if setting is not None and setting.kind == "environment":
        return f"In its environment ({setting.spelling}): {change}"
    where = "the router's command line" if server.router is not None else "its command line"
    unit = server.unit
    if unit is not None and unit.fragment is not None:
        where = unit.script or unit.places.get("ExecStart") or unit.fragment
    return f"In {where}: {change}"


def _not_kept(server: ServerFacts, host: HostFacts) -> Finding | None:
    """Every place the lines go to loses them."""
    if not server.targets:
        return None
    whys = [_lost(target, server, host) for target in server.targets]
    if any(why is None for why in whys):
        return None
    return whys[0]


def _lost(target: Target, server: ServerFacts, host: HostFacts) -> Finding | None:
    unit = server.unit
    user = unit is not None and unit.manager == "user"
    if target.kind == "nowhere":
        change = "Send its standard error to the journal or to a file."
        if unit is not None and not (unit.invocation and unit.invocation.error_output):
            change = drop_in(unit.name, "StandardOutput=journal", "StandardError=journal", user=user, restart=True)
        return Finding(
            code="output-nowhere",
            level=CRITICAL,
            what=f"Its log goes to {target.words}",
            why="What the server says is thrown away. No incident found here does not mean that there was none.",
            change=change,
        )
    if target.deleted:
        return Finding(
            code="log-file-deleted",
            level=CRITICAL,
            what=f"Its log goes to {target.words}",
            why="The server still writes to it, but nobody can open it any more, and it is gone when the server ends.",
            change="Restart the server, and let logrotate use copytruncate.",
        )
    if target.kind == "router" and server.output is not None and server.output.kind == "nowhere":
        return Finding(
            code="output-nowhere",
            level=CRITICAL,
            what=f"Its log goes to its router, whose standard output goes to {server.output.words}",
            why="A router prints its own lines on standard error, but those of its models on standard output.",
            change="Keep both streams of the router: 2>&1, or StandardOutput=journal.",
        )
    if target.kind == "journal":
        return _dropped_by_journal(server, host)
    return None


def _dropped_by_journal(server: ServerFacts, host: HostFacts) -> Finding | None:
    unit = server.unit
    user = unit is not None and unit.manager == "user"
    journald = host.journald
    level = unit.syslog_level if unit is not None else _INFO_LEVEL
    if unit is not None and unit.log_level_max < level:
        return Finding(
            code="journal-drops-level",
            level=CRITICAL,
            what=f"The journal drops its lines: LogLevelMax={SYSLOG_LEVELS[unit.log_level_max]}",
            why=f"Lines of a service have the level {SYSLOG_LEVELS[level]} unless they say otherwise, and "
            "llama-server's do not. Every one of them is above this limit.",
            change=drop_in(unit.name, "LogLevelMax=", user=user, restart=True),
        )
    if journald.max_level_store < level:
        return Finding(
            code="journal-drops-level",
            level=CRITICAL,
            what=f"journald drops its lines: MaxLevelStore={SYSLOG_LEVELS[journald.max_level_store]}",
            why=f"Lines of a service have the level {SYSLOG_LEVELS[level]} unless they say otherwise, and "
            "llama-server's do not.",
            change=f"In {journald.places.get('MaxLevelStore', '/etc/systemd/journald.conf')}:\n"
            "      [Journal]\n      MaxLevelStore=debug\n  systemctl restart systemd-journald",
        )
    if journald.storage == "none":
        return Finding(
            code="journal-keeps-nothing",
            level=CRITICAL,
            what="journald keeps nothing: Storage=none",
            why="It only passes lines on, to syslog for example. What is not kept there is gone.",
            change=f"In {journald.places.get('Storage', '/etc/systemd/journald.conf')}:\n"
            "      [Journal]\n      Storage=persistent\n  systemctl restart systemd-journald",
        )
    return None


# --- kept, but not safely -----------------------------------------------------------------------------------------


def _fragile(server: ServerFacts, host: HostFacts) -> list[Finding]:
    options, unit = server.options, server.unit
    user = unit is not None and unit.manager == "user"
    findings: list[Finding] = []
    safe = [
        target for target in server.targets if not target.rewritten and target.kind in ("journal", "file", "container")
    ]
    for target in server.targets:
        if target.rewritten and not target.deleted and not safe:
            change = "Send standard error to the journal or append it to a file, and leave --log-file away."
            if unit is not None and target.path:
                change = drop_in(
                    unit.name, f"StandardOutput=append:{target.path}", "StandardError=inherit", user=user, restart=True
                )
                if options is not None and options.get("log-file"):
                    change = f"Leave --log-file away, and:\n{change}"
            findings.append(
                Finding(
                    code="log-emptied-at-start",
                    level=WARNING,
                    what=f"{target.words[:1].upper()}{target.words[1:]} is emptied each time the server starts",
                    why="After a crash the restart removes the very lines that show it. Only a sleepwatch that was "
                    "reading at that moment has them.",
                    change=change,
                )
            )
    if server.is_router and options is not None and options.get("log-file"):
        findings.append(
            Finding(
                code="log-file-shared",
                level=WARNING,
                what=f"Its models all write to the same --log-file {options.get('log-file')} as the router",
                why="A router hands --log-file down, and every process opens it anew from the beginning, over what "
                "the others wrote (tools/server/server-models.cpp, common/log.cpp).",
                change="Leave --log-file away and keep the router's standard output and error, which hold all lines.",
            )
        )
    journal = next((target for target in server.targets if target.kind == "journal"), None)
    if journal is not None:
        findings += _journal_limits(server, host)
    if journal is not None and journal.namespace:
        findings.append(
            Finding(
                code="journal-namespace",
                level=INFO,
                what=f"Its lines are in the journal namespace {journal.namespace}",
                why="journalctl shows them only when asked for that namespace; exits that systemd reports are in the "
                "main one.",
                change=f"  journalctl --namespace={journal.namespace} -u {unit.name if unit else 'UNIT'}",
            )
        )
    if options is not None and not (options.flag("log-prefix", True) and options.flag("log-timestamps", True)):
        findings.append(
            Finding(
                code="no-log-clock",
                level=INFO,
                what="Its lines carry no time of their own",
                why="The order of a sleep and a request then rests on the order of lines alone, and copies of log "
                "lines inside prompts are harder to tell from real ones.",
                change=_option_change(server, "remove --no-log-prefix and --no-log-timestamps", "log-prefix"),
            )
        )
    return findings


def _journal_limits(server: ServerFacts, host: HostFacts) -> list[Finding]:
    unit, options, journald = server.unit, server.options, host.journald
    findings = []
    interval = (
        unit.log_rate_interval_us
        if unit is not None and unit.log_rate_interval_us is not None
        else journald.rate_interval_us
    )
    burst = unit.log_rate_burst if unit is not None and unit.log_rate_burst is not None else journald.rate_burst
    loud = options is not None and options.verbosity >= _DEBUG
    limited = interval > 0 and burst > 0
    if limited and (loud or burst < _SMALL_BURST):
        reason = "At this verbosity the server prints several lines for every token" if loud else "That is few"
        findings.append(
            Finding(
                code="journal-rate-limit",
                level=WARNING,
                what=f"journald drops lines of a service that writes more than {burst} in {span_words(interval)}",
                why=f"{reason}, and what is dropped can be the line that proves an incident. Each such stretch is a "
                "gap in which nothing can be judged.",
                change=drop_in(unit.name, "LogRateLimitIntervalSec=0", user=unit.manager == "user", restart=True)
                if unit is not None
                else "In /etc/systemd/journald.conf:\n      [Journal]\n      RateLimitIntervalSec=0",
            )
        )
    if not journald.persistent and journald.storage != "none":
        findings.append(
            Finding(
                code="journal-lost-at-boot",
                level=INFO,
                what=f"The journal does not outlive a reboot (Storage={journald.storage})",
                why="After a power cut or a crash of the machine there is nothing left to look at.",
                change="  mkdir -p /var/log/journal && systemctl restart systemd-journald",
            )
        )
    return findings


def _verbosity(server: ServerFacts, options: ServerOptions) -> list[Finding]:
    level, build = options.verbosity, server.build
    if level >= _DEBUG or (level == _ARRIVALS and build is not None and build < _TRACE_SINCE):
        shown = "-v" if level == LOUDEST else f"-lv {level}"
        return [
            Finding(
                code="prompts-in-log",
                level=INFO,
                what=f"At {shown} its log holds prompts and answers",
                why="It proves everything, and it is large and private. Trace (4) from b9151 on proves an arrival "
                "without them.",
                change=_option_change(server, "-lv 4", "verbosity"),
            )
        ]
    if level > _SLEEP_LINES:
        return []
    if build is not None and build < _TRACE_SINCE:
        change = (
            "Update llama.cpp: from b9971 on, -lv 4 shows arrivals without prompts. In this build it prints prompts."
        )
    elif build is not None and build < _ARRIVALS_SINCE:
        change = "Update llama.cpp to b9971 or newer and start it with -lv 4."
    else:
        change = _option_change(server, "add -lv 4", "verbosity") + (
            f" (shows arrivals from b{_ARRIVALS_SINCE} on; before b{_TRACE_SINCE} it also prints prompts)"
            if build is None
            else ""
        )
    return [
        Finding(
            code="arrivals-not-logged",
            level=INFO,
            what="Its log does not show that a request arrived",
            why="At the default verbosity a hung request leaves no line until its client gives up, and none at all if "
            "it never does. A sleepwatch that runs on this host can see it in the kernel's socket table instead.",
            change=change,
        )
    ]


# --- can it be read, and what else would tell ------------------------------------------------------------------------


def _unreadable(server: ServerFacts, host: HostFacts) -> list[Finding]:
    findings = []
    places = [target for target in server.targets if target.kind in ("journal", "file", "container")]
    whys: list[tuple[Target, str]] = []
    for target in places:
        if target.path is not None and target.path in server.unreadable:
            whys.append((target, server.unreadable[target.path]))
        elif target.kind == "journal" and host.journald.readable is False and not target.user_journal:
            whys.append((target, host.journald.why_unreadable or "no access"))
    for target, why in whys:
        if target.kind == "journal":
            change = "  usermod -a -G systemd-journal USER      (and log in again, or restart sleepwatch)"
        elif target.kind == "container":
            change = "Run sleepwatch as root, or let the container log to journald (--log-driver=journald)."
        else:
            change = f"  setfacl -m u:USER:r {target.path}      (and u:USER:x on the directories above it)"
        findings.append(
            Finding(
                code="log-not-readable",
                level=(CRITICAL if host.watchers else WARNING) if len(whys) == len(places) else INFO,
                what=f"{host.reader[:1].upper()}{host.reader[1:]} cannot read {target.words}: {why}",
                why="What cannot be read cannot be judged.",
                change=change,
            )
        )
    return findings


def _around(server: ServerFacts, host: HostFacts) -> list[Finding]:
    findings = []
    process = server.process
    if process is not None and process.own_network:
        findings.append(
            Finding(
                code="sockets-not-seen",
                level=INFO,
                what="Its connections are in a network namespace of their own",
                why="The socket table of this host does not show a request that hangs in it.",
                change="Start the container with the host's network (--network=host), or run sleepwatch inside it.",
            )
        )
    elif host.sockets is False:
        findings.append(
            Finding(
                code="sockets-not-seen",
                level=INFO,
                what="The kernel's socket table cannot be asked from here",
                why="A hung request that leaves no line in the log cannot be seen then.",
            )
        )
    stack = _stack(server, host)
    return findings if stack is None else [*findings, stack]


def _stack(server: ServerFacts, host: HostFacts) -> Finding | None:
    """What is to be said where a crash would leave no stack."""
    process, unit = server.process, server.unit
    limit = process.core_limit[0] if process is not None and process.core_limit else unit.core_limit if unit else None
    if keeps_stack(host.coredumps, limit) is not False:
        return None
    handler = host.coredumps.handler
    change = "  apt-get install systemd-coredump      (or your distribution's package: it logs the stack)"
    if handler == "systemd-coredump":
        change = "Raise its core limit (ulimit -c unlimited), or ProcessSizeMax= in /etc/systemd/coredump.conf."
        if limit == 0 and unit is not None:
            user = unit.manager == "user"
            change = drop_in(unit.name, "LimitCORE=infinity", user=user, restart=True)
    because = "its core limit is 0" if limit == 0 else f"kernel.core_pattern is {host.coredumps.pattern or 'empty'}"
    return Finding(
        code="no-stack",
        level=INFO,
        what=f"A crash would leave no stack: {because}",
        why="Frames of the tokenizer are the one proof by itself that a crash was this race. Without them a signal 11 "
        "at the moment of the sleep is probable.",
        change=change,
    )
