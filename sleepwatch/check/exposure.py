"""Is this server exposed: sleep mode, where it comes from, and what makes the window wider."""

from __future__ import annotations

import re

from sleepwatch.check.facts import Preset, ServerFacts
from sleepwatch.check.findings import CRITICAL, INFO, WARNING, Finding, quoted
from sleepwatch.hosts.options import SLEEP, SLEEP_ENVIRONMENT, Problem, ServerOptions, Setting, Sleep
from sleepwatch.hosts.presets import CONFIG_SINCE_BUILD

_SHORT_SECONDS = 60
_PRESET_WHYS = {
    "top-level-sleep": "Keys above all sections make a section of their own, as if they stood below [default] "
    "(llama.cpp common/preset.cpp).",
    "replaced-section": "A section that comes again does not add to the first, it takes its place (llama.cpp "
    "common/preset.cpp).",
    "blank-in-name": "Only blanks before the name are left out, not those behind it (llama.cpp common/preset.cpp).",
}


def sleep_of(server: ServerFacts) -> Sleep:
    """Sleep mode of a server; of a router: of the models it would start, the first that is on."""
    if server.options is None:
        return Sleep("unknown")
    if not server.is_router:
        return _by_build(server.options.sleep, server.build)
    sleeps = [model.options.sleep for model in (server.preset.models if server.preset else ())]
    if server.others is not None:
        sleeps.append(_by_build(server.others.sleep, server.build))
    if server.preset is not None and server.preset.error and not server.preset.refused:
        sleeps.append(Sleep("unknown"))
    return next((one for state in ("on", "unknown", "refused") for one in sleeps if one.state == state), Sleep("off"))


def _by_build(sleep: Sleep, build: int | None) -> Sleep:
    """A configuration file counts only for builds that read one."""
    from_config = sleep.setting is not None and sleep.setting.kind == "config"
    return Sleep("off") if from_config and build is not None and build < CONFIG_SINCE_BUILD else sleep


def judge(server: ServerFacts) -> list[Finding]:
    """What is to be said about sleep mode."""
    sleep = sleep_of(server)
    findings: list[Finding] = []
    if server.preset is not None:
        findings += _preset(server, server.preset)
    if sleep.state == "on":
        findings.append(_on(server, sleep))
        findings += _wider(server, sleep)
    elif sleep.state == "refused":
        findings.append(_refused(server, sleep))
    elif sleep.state == "unknown":
        findings.append(_unknown(server, sleep))
    for options in (server.options, server.others if server.is_router else None):
        if options is not None:
            findings += [_problem(problem, server, sleep) for problem in options.problems]
    findings += _changed(server, sleep)
    return list({(one.code, one.what): one for one in reversed(findings)}.values())[::-1]


def _on(server: ServerFacts, sleep: Sleep) -> Finding:
    assert sleep.setting is not None
    sources = _sources(server, sleep.setting)
    config = ""
    if sleep.setting.kind == "config" and server.build is None:
        config = f" This file is read by builds from b{CONFIG_SINCE_BUILD} on; which build this is cannot be seen."
    if server.is_router:
        names = _sleeping_models(server)
        who = (
            f"Models of this router sleep when idle: {', '.join(names)}"
            if names
            else "Models of this router sleep when idle"
        )
    else:
        who = f"Sleeps after {_seconds(sleep)} without a task"
    return Finding(
        code="sleep-mode-on",
        level=WARNING,
        what=f"{who} ({'; '.join(_said(one) for one in sources)})",
        why="A request that arrives while the server falls asleep waits for ever or crashes the server "
        "(ggml-org/llama.cpp#29689, no release with a fix known). The window is as long as the prompt takes to "
        f"tokenize.{config}",
        change="Any of these closes it for a client: send a 1-token completion right before the real request; or give "
        "clients a time-out and a retry, which wakes the server. To turn sleep mode off:\n"
        + "\n".join(f"  {_off(server, setting)}" for setting in sources),
    )


def _said(setting: Setting) -> str:
    return f"{setting.spelling} {setting.value}, {setting.place}"


def _sources(server: ServerFacts, setting: Setting) -> list[Setting]:
    """Everything that turns sleep mode on; of a router that can be several lines of its preset file."""
    if not server.is_router:
        return [setting]
    sleeps = [model.options.sleep for model in (server.preset.models if server.preset else ())]
    sleeps += [server.others.sleep] if server.others is not None else []
    found = [one.setting for one in sleeps if one.state == "on" and one.setting is not None]
    return list(dict.fromkeys(found))


def _sleeping_models(server: ServerFacts) -> list[str]:
    names = [
        f"{model.name} ({_seconds(model.options.sleep)})"
        for model in (server.preset.models if server.preset else ())
        if model.options.sleep.state == "on"
    ]
    if server.others is not None and server.others.sleep.state == "on":
        names.append(f"{'every other model' if names else 'every model'} ({_seconds(server.others.sleep)})")
    return names


def _seconds(sleep: Sleep) -> str:
    return f"{sleep.seconds} s"


def _off(server: ServerFacts, setting: Setting) -> str:
    """The exact change that turns sleep mode off, where it was turned on."""
    if setting.kind in ("preset", "config"):
        line = re.match(r".* line \d+(?=, )", setting.place)
        return f"in {line.group() if line else setting.place}: {SLEEP} = -1"
    unit = server.unit
    owner = "the router's command line" if setting.place.startswith("the router's") else "its command line"
    if unit is not None and unit.fragment is not None:
        manager = "systemctl --user" if unit.manager == "user" else "systemctl"
        where = unit.script or unit.places.get("ExecStart") or unit.fragment
        again = f"{manager} daemon-reload && {manager} restart {quoted(unit.name)}"
        return f"in {where} remove: {setting.spelling} {setting.value}\n  {again}"
    return f"from {owner} remove: {setting.spelling} {setting.value}"


def _wider(server: ServerFacts, sleep: Sleep) -> list[Finding]:
    findings = []
    groups: list[tuple[str, ServerOptions]] = [("", server.options)] if server.options is not None else []
    if server.is_router and server.preset is not None:
        groups = [(model.name, model.options) for model in server.preset.models if model.options.sleep.state == "on"]
    for label, options in groups:
        reasons = [
            f"{words} ({setting.spelling})"
            for words, setting in (("takes images", options.images), ("drafts tokens", options.drafting))
            if setting is not None
        ]
        if reasons:
            findings.append(
                Finding(
                    code="wider-window",
                    level=INFO,
                    what=f"{f'{label}: the' if label else 'The'} window is wider here: it {' and '.join(reasons)}",
                    why="An image is prepared in the same place where a prompt is tokenized. The report of the hang "
                    "came from a server with both, which met it one time in eight.",
                )
            )
    if sleep.seconds is not None and sleep.seconds < _SHORT_SECONDS:
        findings.append(
            Finding(
                code="short-idle-time",
                level=INFO,
                what=f"It falls asleep after only {sleep.seconds} s, so it does so often",
                why="Each time it falls asleep is one chance to meet the race.",
                change=f"Set a longer time, such as {SLEEP} 600, if the memory can wait.",
            )
        )
    return findings


def _refused(server: ServerFacts, sleep: Sleep) -> Finding:
    assert sleep.setting is not None
    return Finding(
        code="sleep-value-refused",
        level=WARNING,
        what=f"{sleep.setting.spelling} {sleep.setting.value} is refused ({sleep.setting.place}): the server does not "
        "start",
        why="Sleep mode takes a number of seconds from 1 on, or -1 for off (llama.cpp common/arg.cpp).",
        change=f"  {SLEEP} -1      for off",
    )


def _unknown(server: ServerFacts, sleep: Sleep) -> Finding:
    if sleep.setting is not None:
        what = (
            f"Sleep mode is set to {sleep.setting.value}, whose value cannot be told from here ({sleep.setting.place})"
        )
        change = "Look at the running server, or write the number itself."
    elif server.preset is not None and server.preset.error:
        what = f"Whether its models sleep cannot be told: {server.preset.error}"
        change = "Run this check as a user who can read the file, or as root."
    else:
        what = "Whether it sleeps cannot be told: its command line cannot be seen"
        change = "Run this check as root."
    return Finding(
        code="sleep-mode-unknown",
        level=WARNING,
        what=what,
        why="Only a server that sleeps can meet this race.",
        change=change,
    )


def _problem(problem: Problem, server: ServerFacts, sleep: Sleep) -> Finding:
    if problem.code == "ignored-environment":
        value = problem.setting.value if problem.setting else ""
        on = sleep.state == "on"
        return Finding(
            code="ignored-environment",
            level=INFO if on else WARNING,
            what=f"{SLEEP_ENVIRONMENT}={value} is set, and llama-server ignores it",
            why="This option has no environment variable (llama.cpp common/arg.cpp). "
            + (
                "What counts is the option that is set too."
                if on
                else "Whoever set it believes the server sleeps; it does not."
            ),
            change="Remove the variable." if on else f"Remove it, or, if it is to sleep, give --{SLEEP} {value}.",
        )
    running = server.running
    fatal = problem.fatal and not running
    return Finding(
        code=problem.code,
        level=WARNING if fatal else INFO,
        what=problem.what,
        why="The server refuses to start with this."
        if fatal
        else "It runs with this, so its build takes it or a wrapper does."
        if problem.fatal
        else "A build that does not know an option refuses to start.",
    )


def _preset(server: ServerFacts, preset: Preset) -> list[Finding]:
    findings = []
    if preset.error is not None and preset.refused:
        findings.append(
            Finding(
                code="preset-refused",
                level=WARNING if server.running else CRITICAL,
                what=preset.error,
                why="llama-server reads the whole preset file or none of it: "
                + (
                    "the router runs with what it read before, and will not start again."
                    if server.running
                    else "the router does not start."
                ),
                change=f"Correct the line and run:\n  sleepwatch check {preset.path}",
            )
        )
    return findings + [_preset_problem(preset, problem) for problem in preset.problems]


def _preset_problem(preset: Preset, problem: Problem) -> Finding:
    setting = problem.setting
    return Finding(
        code=problem.code,
        level=WARNING if problem.fatal or problem.code in ("top-level-sleep", "replaced-section") else INFO,
        what=problem.what if setting is None else f"{preset.path}: {problem.what}",
        why=_PRESET_WHYS.get(problem.code) or f"It stands in {setting.place if setting else preset.path}.",
    )


def _changed(server: ServerFacts, sleep: Sleep) -> list[Finding]:
    """The unit was changed since the server was started."""
    if server.would_start_with is None or server.unit is None or not server.running or server.is_router:
        return []
    then = server.would_start_with.sleep
    if (then.state, then.seconds) == (sleep.state, sleep.seconds) or then.state == "unknown":
        return []
    after = (
        f"after {then.seconds} s"
        if then.state == "on"
        else {"off": "not at all", "refused": "not: it refuses to start"}[then.state]
    )
    return [
        Finding(
            code="changed-since-start",
            level=WARNING if then.state in ("on", "refused") else INFO,
            what=f"From its next start on it sleeps {after}; {server.unit.fragment or 'its unit'} was changed since it "
            "was started",
            why="The running process keeps the options it was started with.",
            change=f"  systemctl restart {quoted(server.unit.name)}",
        )
    ]
