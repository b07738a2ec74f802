"""``sleepwatch rules``: look at the rules, and run the samples they carry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleepwatch.cli.options import json_option
from sleepwatch.errors import RuleError

if TYPE_CHECKING:
    from sleepwatch.rules import IncidentWords, Pattern, Problem, RuleSet, Sample

EXIT_FAILED = 1
WIDTH = 100

_directory_option = click.option(
    "--rules",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Rule files to use instead of the shipped ones.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def rules() -> None:
    """List and test the rules: what lines mean, and the words of each incident.

    Rule files are TOML and carry their own proof, lines that must match and lines that must not. A new server program
    is a new file: docs/rules.md says how.
    """


@rules.command("list")
@json_option
@_directory_option
def list_rules(as_json: bool, directory: Path | None) -> None:
    """List every pattern with the event it means, and every kind of incident.

    \b
    Examples:
      sleepwatch rules list
      sleepwatch rules list --rules ./my-rules
    """
    from sleepwatch.rules import load

    ruleset = load(directory)
    words = _words(directory)
    if as_json:
        _print_json(
            {
                "digest": ruleset.digest,
                "patterns": [_pattern_entry(pattern) for pattern in ruleset.patterns],
                "incidents": [_words_entry(word) for word in words.values()],
            }
        )
        return
    names = [f"{pattern.program}/{pattern.name}" for pattern in ruleset.patterns]
    width = max(map(len, [*names, *words]))
    events = max(len(pattern.event) for pattern in ruleset.patterns)
    for name, pattern in zip(names, ruleset.patterns, strict=True):
        _print(f"{name:<{width}}  {pattern.event:<{events}}  {_template(pattern)}".rstrip())
    click.echo()
    for word in words.values():
        _print(f"{word.kind:<{width}}  {word.severity:<{events}}  {word.title}")


@rules.command()
@click.argument("name")
@json_option
@_directory_option
def show(name: str, as_json: bool, directory: Path | None) -> None:
    """Show one pattern (NAME or PROGRAM/NAME), or the words of one kind of incident.

    \b
    Examples:
      sleepwatch rules show sleep-enter
      sleepwatch rules show shells/bash
      sleepwatch rules show hung-request
    """
    from sleepwatch.rules import load

    ruleset = load(directory)
    words = _words(directory)
    found = [p for p in ruleset.patterns if name in (p.name, f"{p.program}/{p.name}")]
    if not found and name not in words:
        raise _no_such(name, ruleset, words)
    if as_json:
        entries = [_pattern_entry(pattern) for pattern in found]
        _print_json({"patterns": entries, "incidents": [_words_entry(words[name])] if name in words else []})
        return
    if name in words:
        _print_words(words[name])
    for at, pattern in enumerate(found):
        if at or name in words:
            click.echo()
        _print_pattern(pattern)


@rules.command()
@json_option
@_directory_option
def test(as_json: bool, directory: Path | None) -> None:
    """Run every sample of every rule file.

    Ends with 1 when a sample fails or a pattern means an event nobody knows, and with 2 when a file cannot be loaded.

    \b
    Examples:
      sleepwatch rules test
      sleepwatch rules test --rules ./my-rules
    """
    from sleepwatch.rules import check, load

    ruleset = load(directory)
    words = _words(directory)
    problems = check(ruleset)
    if as_json:
        files = [_file_entry(file, ruleset, problems) for file in ruleset.files]
        _print_json({"ok": not problems, "files": files, "incidents": list(words)})
    else:
        for file in ruleset.files:
            entry = _file_entry(file, ruleset, problems)
            counted = ", ".join(f"{entry[key]} {key}" for key in ("patterns", "samples", "refusals"))
            _print(f"{file}: {counted}: {len(entry['problems']) or 'no'} failed")
            for problem in entry["problems"]:
                _print(f"  line {problem['line']}, {problem['pattern']}: {problem['message']}")
                _print(f"    {problem['hint']}")
        click.echo(f"incidents.toml: {len(words)} kinds")
    if problems:
        raise click.exceptions.Exit(EXIT_FAILED)


def _words(directory: Path | None) -> dict[str, IncidentWords]:
    """The incidents' words of this directory; a directory that only has patterns uses the shipped ones."""
    from sleepwatch.rules import INCIDENTS_FILE, load_incidents

    own = directory is not None and os.path.exists(directory / INCIDENTS_FILE)
    return load_incidents(directory if own else None)


def _no_such(name: str, ruleset: RuleSet, words: dict[str, IncidentWords]) -> RuleError:
    import difflib

    names = [*(pattern.name for pattern in ruleset.patterns), *words]
    close = [one for one in names if name in one] or difflib.get_close_matches(name, names)
    hint = f"did you mean {', '.join(close[:5])}?" if close else "`sleepwatch rules list` lists them"
    return RuleError(f"no pattern and no kind of incident is named {name!r}", hint=hint)


# -- as data ----------------------------------------------------------------------------------------------------------


def _pattern_entry(pattern: Pattern) -> dict[str, Any]:
    return {
        "name": pattern.name,
        "program": pattern.program,
        "file": pattern.file,
        "line": pattern.line,
        "event": pattern.event,
        "tags": list(pattern.tags),
        "format": pattern.format,
        "expression": pattern.regex.pattern.decode() if pattern.regex is not None else None,
        "literals": [literal.decode() for literal in pattern.literals],
        "fields": pattern.types,
        "constants": pattern.constants,
        "idents": list(pattern.idents),
        "message_id": pattern.message_id,
        "record_fields": {name: f"{journal}:{kind}" for name, (journal, kind) in pattern.record_fields.items()},
        "record_needs": {name: list(values) for name, values in pattern.record_needs.items()},
        "since": pattern.since,
        "until": pattern.until,
        "verbosity": pattern.verbosity,
        "source": pattern.source,
        "why": pattern.why,
        "samples": [_sample_entry(sample) for sample in pattern.samples],
        "refusals": [_sample_entry(sample) for sample in pattern.refusals],
    }


def _sample_entry(sample: Sample) -> dict[str, Any]:
    entry: dict[str, Any] = {"line": sample.line} if sample.line is not None else {"record": sample.record}
    entry["from"] = sample.origin
    entry.update({"why": sample.why} if sample.why else {"fields": sample.fields})
    return entry


def _words_entry(words: IncidentWords) -> dict[str, Any]:
    return {key: getattr(words, key) for key in words.__struct_fields__}


def _file_entry(file: str, ruleset: RuleSet, problems: list[Problem]) -> dict[str, Any]:
    patterns = [pattern for pattern in ruleset.patterns if pattern.file == file]
    return {
        "file": file,
        "patterns": len(patterns),
        "samples": sum(len(pattern.samples) for pattern in patterns),
        "refusals": sum(len(pattern.refusals) for pattern in patterns),
        "problems": [
            {"line": p.line, "pattern": p.pattern, "message": p.message, "hint": p.hint}
            for p in problems
            if p.file == file
        ],
    }


def _print_json(document: dict[str, Any]) -> None:
    import json

    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


# -- for people -------------------------------------------------------------------------------------------------------


def _print(text: str) -> None:
    """A line that may hold what others wrote: a rule file can come from anywhere."""
    from sleepwatch.printable import printable

    click.echo(printable(text))


def _template(pattern: Pattern) -> str:
    if pattern.format is not None:
        tags = "|".join(tag or "(no tag)" for tag in pattern.tags)
        return f"{tags}: {pattern.format}"
    if pattern.regex is not None:
        return f"regex {pattern.regex.pattern.decode()}"
    return f"MESSAGE_ID={pattern.message_id}"


def _print_pattern(pattern: Pattern) -> None:
    _print(f"{pattern.program}/{pattern.name}  ({pattern.file}, line {pattern.line})")
    levels = " ".join(f"{era}>={level}" for era, level in sorted(pattern.verbosity.items()))
    fields = [f"{name}:{kind}" for name, kind in pattern.types.items()]
    fields += [f"{name}={value!r}" for name, value in pattern.constants.items()]
    fields += [f"{name}:{kind} from {journal}" for name, (journal, kind) in pattern.record_fields.items()]
    builds = f"{pattern.since or ''}-{pattern.until or ''}"
    for label, text in (
        ("event", pattern.event),
        ("line", _template(pattern) if pattern.regex is not None else ""),
        ("record", f"MESSAGE_ID={pattern.message_id}" if pattern.message_id is not None else ""),
        ("fields", " ".join(fields)),
        ("found by", ", ".join(repr(literal.decode()) for literal in pattern.literals)),
        ("writer", ", ".join(pattern.idents)),
        ("builds", builds if builds != "-" else ""),
        ("verbosity", levels),
        ("source", pattern.source or ""),
        ("why", pattern.why or ""),
    ):
        if text:
            _print(f"  {label:<10} {text}")
    for sample in pattern.samples:
        _print(f"  matches    {_sample(sample)}")
        _print(f"             {sample.fields!r} ({sample.origin})")
    for sample in pattern.refusals:
        _print(f"  refuses    {_sample(sample)}")
        _print(f"             {sample.why} ({sample.origin})")


def _sample(sample: Sample) -> str:
    if sample.line is not None:
        return sample.line
    return " ".join(f"{name}={value}" for name, value in (sample.record or {}).items())


def _print_words(words: IncidentWords) -> None:
    grace = f", after {words.grace_s:g} s" if words.grace_s else ""
    _print(f"{words.kind}: {words.title} ({words.severity}{grace})")
    for label in ("means", "next", "do", "looks_like"):
        click.echo(f"  {label.replace('_', ' ')}:")
        for line in getattr(words, label).split("\n"):
            # A line that begins with a blank is a command: it stays whole, to be copied.
            command = line.startswith(" ")
            wrapped = [line] if command else click.wrap_text(line, WIDTH - 4).split("\n")
            for part in wrapped:
                _print(f"    {part}")
