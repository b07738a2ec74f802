"""What the logs that were read are not able to show, in sentences for the person.

"Nothing found" in a log that cannot show it is not "all well", so every report ends with these. Which line needs which
verbosity: llama.cpp ``common/log.h`` and ``tools/server``: until b9150 (era A) ``-lv 4`` is debug; since then
``-lv 4`` is trace and 5 is debug; the arrival line ``conv_id=`` stands before the tokenizing from b9971.
"""

from __future__ import annotations

from collections.abc import Iterator

from sleepwatch.model import Gap, Life, ScanResult, SourceInfo
from sleepwatch.printable import printable
from sleepwatch.report.times import rfc3339

_DEFAULT_VERBOSITY = 3
_NAMED = 3


def blindness(result: ScanResult) -> list[str]:
    """One sentence for each thing the sources could not show; empty only where nothing is out of sight.

    A sentence that holds for several sources names them all (the first few by name).
    """
    sources_of: dict[str, list[str]] = {}
    for source in result.sources:
        lives = [life for life in result.lives if life.source == source.source]
        for words in _unseen_in(source, lives):
            sources_of.setdefault(words, []).append(printable(source.source))
    return [
        *(f"{printable(name)} was not read: {printable(why)}" for name, why in result.failed),
        *(f"{_names(names)}: {words}" for words, names in sources_of.items()),
        *(_gap(gap) for gap in result.gaps),
    ]


def _names(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _unseen_in(source: SourceInfo, lives: list[Life]) -> Iterator[str]:
    if not lives:
        yield "no llama-server line was recognised, so it proves nothing either way"
        return
    yield from unseen_by(lives)
    if source.time_from is None:
        yield "no wall time on the lines; times are the server's own clock, counted from each start"


def unseen_by(lives: list[Life]) -> list[str]:
    """What the lives of one source could not show, each said once, with how many lives it holds for."""
    counts: dict[str, int] = {}
    for life in lives:
        for words in (_requests(life), _answers(life), _exit(life)):
            if words:
                counts[words] = counts.get(words, 0) + 1
    return [
        words if count == len(lives) else f"{words} (so for {count} of {len(lives)} server lives)"
        for words, count in counts.items()
    ]


def _requests(life: Life) -> str | None:
    if life.can_see.queued:
        return None
    verbosity = _verbosity(life)
    if life.era == "A":
        return (
            f"{verbosity}: only chat requests show, by their 'Chat format' line; a hang of any other request whose "
            "client never gave up cannot be seen; -lv 4 would show it (debug in this build: it logs prompts too)"
        )
    if life.era == "B":
        return (
            f"{verbosity}: only chat requests show, by their 'Chat format' line; a hang of any other request whose "
            "client never gave up cannot be seen; -lv 5 would show it (debug: it logs prompts too)"
        )
    if life.can_see.arrival:
        return (
            f"{verbosity}: requests show as they arrive but not as they are queued; a hang whose client never gave up "
            "is at most probable, and embedding and rerank requests do not show at all; -lv 5 would prove it"
        )
    return (
        f"{verbosity}: requests are not logged; a hang whose client never gave up cannot be seen; -lv 4 would show it"
    )


def _answers(life: Life) -> str | None:
    if life.can_see.answered:
        return None
    return f"{_verbosity(life)}: requests that get a slot are not logged; -lv 3 would show which were worked on"


def _exit(life: Life) -> str | None:
    if life.can_see.exit:
        return None
    return (
        "no supervisor's record of how the process ended: a crash shows only as a log that stops; "
        "the journal (journalctl -u UNIT) or the container's log would tell the signal"
    )


def _verbosity(life: Life) -> str:
    if life.verbosity is None:
        return "verbosity not printed"
    if life.verbosity == _DEFAULT_VERBOSITY:
        return "default verbosity (-lv 3)"
    return f"verbosity {life.verbosity}"


def _gap(gap: Gap) -> str:
    where = _span(rfc3339(gap.from_us), rfc3339(gap.to_us), "")
    if not where:
        where = _span(gap.from_offset, gap.to_offset, "byte ")
    cause = printable(gap.cause)
    return f"{printable(gap.source)}: a stretch{where} could not be read ({cause}); its silence proves nothing"


def _span(begin: object, end: object, unit: str) -> str:
    if begin is None and end is None:
        return ""
    if end is None:
        return f" from {unit}{begin} on"
    if begin is None:
        return f" up to {unit}{end}"
    return f" from {unit}{begin} to {unit}{end}"
