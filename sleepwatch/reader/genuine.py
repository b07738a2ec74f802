"""Is a line a record the server wrote, or a copy inside printed text?

Prompts, templates and JSON bodies reach the log, and can hold perfect copies of log lines. What they cannot know is the
moment they will be printed. So in a stamped stream a line counts only if its clock fits between the lines around it,
and in an unstamped one it is doubtful wherever it stands beside text that is no log line. docs/verdicts.md, "What
never counts", says what follows from each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from sleepwatch.engine.streams import CLOCK_NOISE_US, STARTUP, Stream, fell
from sleepwatch.model import Event
from sleepwatch.prefix import Head

RETURN_US = 2 * CLOCK_NOISE_US
"""Text is printed in one go: behind it the server's own clock goes on within this time."""
REORDER_US = 1_000
"""Threads write their lines up to this much out of order."""
YOUNG_US = 50_000
"""A clock below this is a process's that has just started: it has printed no prompt yet."""
_LOOK = 64
_LOOK_FAR = 512
_LOOK_NEAR = 16

_LOG_SHAPED = re.compile(
    rb"(?:[IWED] )?(?:srv|slot|que|res|cmn|spec) +\S"  # tagged
    rb"|[A-Za-z_~][\w:~<>]*(?: ?\(\))?: "  # untagged: main: …, common_init_from_params: …
    rb"|[. \t\r]*$"  # load progress, empty
    rb"|\s*(?:prompt eval|eval|total) time = "  # the rest of print_timing until b9229
    rb"|\s*[a-z_ ]+ = "  # parameter tables
    rb"|(?:\x1b\[[\d;]*m)+(?:=== .* ===|Phase \d: .*|\w+: .*)?$|--- .* ---$"  # era A at -lv 4, per chat request
    rb"|Sequence\(|\), |parser generation prompt: |No parser definition detected|Parsed message: \{"
    rb"|build: |system info: |build_info: |system_info: |no implementations specified"
    rb"|\S+: line \d+: |\[\d+\] |Segmentation fault|Aborted|Killed|exit \d+"  # shells
    rb"|\[(?:New LWP|Thread debugging|Inferior) |#\d+ |\s*at \S+:\d+|\S+\.so|0x[0-9a-f]+|\S+:\d+: "  # stacks
)

_PRINTS_TEMPLATE = re.compile(rb"template|Generation prompt: '")
"""What a model's chat template begins with, where the server prints it by itself, mostly over several lines."""

_TAGGED = re.compile(rb"(?:srv|slot|que|res) {1,12}[\w~]+(?:\(\))?: ")


class Around:
    """The lines of the same writer around one line, nearest first; a bounded stretch of them."""

    __slots__ = ("ports",)

    def __init__(self) -> None:
        self.ports: str | None = None
        """The line's own ``[port]``: only lines with the same are its neighbours."""

    def next_clock(self) -> int | None:
        """The clock of the very next line where it is plainly of the same writer and stamped; else None."""
        return None

    def before(self) -> Iterable[Head]:
        """Lines before it, going back."""
        raise NotImplementedError

    def after(self) -> Iterable[Head]:
        """Lines after it."""
        raise NotImplementedError

    def clocks_after(self) -> Iterable[int]:
        """The clocks of the stamped lines after it."""
        return (head.clock_us for head in self.after() if head.clock_us is not None)


BEHIND_EARLIER = "the next line of its stream has an earlier clock"
JUMPS_AHEAD = "its clock jumps ahead, and the lines behind it go on from where the clock was before"
FALLS_BACK = "its clock falls back, and the lines behind it go on from where the clock was before"
WRITES_ON = "the lines behind it go on from where the clock was: the process it speaks of did not die"
START_IN_TEXT = "it is the start of a server copied with other lines: the text it was printed in goes on behind them"


def objection(stream: Stream, event: Event, around: Around) -> str | None:
    """In a stamped stream: why this line's clock does not fit between its neighbours'; None where it fits."""
    clock, last = event.clock_us, stream.clock_us
    if clock is None:
        return None
    near = around.next_clock()
    if near is not None and last is not None and last <= clock <= near and clock - last <= CLOCK_NOISE_US:
        return None
    following = near if near is not None else next(iter(around.clocks_after()), None)
    if last is None:  # the first line recognised: what stands before it tells the clock
        last = stream.clock_us = _clock_before(around)
    if last is None:
        fits = following is None or following >= clock - REORDER_US or fell(clock, following)
        return None if fits else BEHIND_EARLIER
    if clock >= last - REORDER_US:
        if following is not None and max(last - REORDER_US, YOUNG_US) <= following < clock - REORDER_US:
            return BEHIND_EARLIER
        if clock > last + CLOCK_NOISE_US and _runs_ahead(around, last, clock):
            return JUMPS_AHEAD
        return None
    # It is earlier than the line before it: a restart, a stepped clock, or a copy from another time.
    start = event.type in STARTUP
    if following is not None and last - REORDER_US <= following <= last + RETURN_US and not start:
        return FALLS_BACK
    if not _returns(around, last):
        return None
    if not start:
        return FALLS_BACK
    return START_IN_TEXT if _inside_text(around, last) else None


def writes_on(around: Around, last: int) -> bool:
    """Behind a line that reports a death: does the process go on to write, its clock where it was?"""
    fell_below = False
    behind = _Text()
    for head in islice(around.after(), _LOOK_FAR):
        if head.clock_us is not None and head.clock_us >= max(last - REORDER_US, YOUNG_US):
            if not fell_below:
                return True
            return head.clock_us <= last + RETURN_US and _printed(around, last, behind.near, head)
        fell_below = fell_below or head.clock_us is not None
        behind.passes(head)
    return False


def _clock_before(around: Around) -> int | None:
    """The latest clock of the lines before, so far as no text can stand before them; else of all of them."""
    latest = before_text = None
    for head in islice(around.before(), _LOOK_FAR):
        if head.clock_us is None:
            before_text = None if _loose(head) else before_text
            continue
        latest = max(latest or 0, head.clock_us)
        before_text = head.clock_us if head.level == "D" else max(before_text or 0, head.clock_us)
    return latest if before_text is None else before_text


def _runs_ahead(around: Around, last: int, clock: int) -> bool:
    """After a jump forward: does the clock soon come back to where it was before?

    That is a copy from a server that was up for longer, or another server's lines between. A clock that falls below
    that place and comes there later is a restart, or a copy that holds one: then the text around it must say so.
    """
    text = _may_be_text(around, last)
    look = _LOOK_FAR if text else _LOOK_NEAR  # clocks alone are quickly read, and mostly all there is to see
    if all(now >= clock - CLOCK_NOISE_US for now in islice(around.clocks_after(), look)):
        return False
    fell_below = False
    behind = _Text()
    for head in islice(around.after(), _LOOK_FAR):
        now = head.clock_us
        if now is not None and (fell_below or now < clock - CLOCK_NOISE_US):
            if now > last + RETURN_US or (not text and behind.begins_here):
                return False
            if now >= last - REORDER_US:
                return not fell_below or _printed(around, last, behind.near, head)
            if not text:
                return False
            fell_below = True
        behind.passes(head)
    return False


def _may_be_text(around: Around, last: int) -> bool:
    """Could printed text begin where the clock jumped? Text stands in a debug record, or behind other text."""
    for head in islice(around.before(), _LOOK):
        if head.clock_us is None:
            if _loose(head):
                return True
        elif head.clock_us <= last + CLOCK_NOISE_US:
            return head.level == "D"
    return True


def _returns(around: Around, last: int) -> bool:
    """After a fall: does the clock soon come back to right behind where it had been?

    That is a copy, or another server's lines between. A new process's clock comes there too, some time; a clock set
    back passes the place where it had been in the course of things, and mostly by far.
    """
    for now in islice(around.clocks_after(), _LOOK_FAR):
        if now >= last - REORDER_US:
            return now <= last + RETURN_US
    return False


def _inside_text(around: Around, last: int) -> bool:
    """A start marker among old clocks: does the stretch they make up stand in printed text?"""
    behind = _Text()
    for head in islice(around.after(), _LOOK_FAR):
        if head.clock_us is not None and last - REORDER_US <= head.clock_us <= last + RETURN_US:
            return _printed(around, last, behind.near, head)
        behind.passes(head)
    return False


def _printed(around: Around, last: int, text_behind: bool, behind: Head) -> bool:
    """Is the stretch of strange clocks between ``last`` and the line ``behind`` printed text?

    Servers that crash again and again at the same uptime look much like it, so both sides must say so: text or a
    debug record before the stretch; right behind it text, or where text led to it a debug record.
    """
    led = False
    for head in islice(around.before(), _LOOK_FAR):
        if head.clock_us is None:
            led = led or _loose(head)
        elif head.clock_us >= last - REORDER_US:
            return text_behind if not led and head.level == "D" else led and (text_behind or behind.level == "D")
    return False


class _Text:
    """Follows lines, and knows whether there is text that no log line looks like behind the last stamped one."""

    __slots__ = ("_level", "_template", "near")

    def __init__(self) -> None:
        self.near = False
        self._level: str | None = None
        self._template = False

    @property
    def begins_here(self) -> bool:
        """Can strange lines that follow now be text? It stands in debug records, or behind other text."""
        return self.near or self._level == "D"

    def passes(self, head: Head) -> None:
        if head.clock_us is not None:
            self.near = False
            self._level = head.level
            self._template = _PRINTS_TEMPLATE.search(head.body) is not None
        elif not self._template:
            self.near = self.near or _loose(head)


def _loose(head: Head) -> bool:
    return head.clock_us is None and not _LOG_SHAPED.match(head.body)


def is_doubtful(around: Around, *, deep: bool) -> bool:
    """In an unstamped stream: does the line stand beside, or ``deep`` inside, text that no log line looks like?

    Pasted logs are longer than a line, so a line that much depends on is looked at more closely: with text somewhere
    before it and somewhere behind it, it is doubtful too. By themselves servers print such text when they start, and
    in a shape that is known.
    """
    if any(_loose(head) for side in (around.before(), around.after()) for head in islice(side, 1)):
        return True
    if not deep or not _text_before(around):
        return False
    after = list(islice(around.after(), _LOOK))
    # A log that ends soon may end inside the text.
    return len(after) < _LOOK or any(_loose(head) for head in after)


def _text_before(around: Around) -> bool:
    """In an unstamped stream: text somewhere before the line, other than a chat template the server prints itself."""
    text = False
    for nth, head in enumerate(islice(around.before(), _LOOK_FAR)):
        if head.clock_us is not None:
            return True  # stamped, in a stream that is not
        loose = _loose(head)
        if nth >= _LOOK and not (text and loose):  # the first line of what stands there tells what it is
            return text and not _PRINTS_TEMPLATE.search(head.body)
        if loose:
            text = True
        elif text and _PRINTS_TEMPLATE.search(head.body):
            text = False
    return text


def is_torn(around: Around) -> bool:
    """The first line of all, without a stamp that the next one has: the log begins in the middle of it."""
    behind = next(iter(around.after()), None)
    return behind is not None and behind.clock_us is not None and next(iter(around.before()), None) is None


def keeps_prefix(around: Around, *, stamped: bool) -> bool:
    """A start whose prefix is not its stream's: do the lines behind it keep the new one, as a process's lines do?"""
    for head in islice(around.after(), _LOOK):
        if not stamped and head.clock_us is not None:
            return False
        if stamped and head.clock_us is None and _TAGGED.match(head.body):
            return False
    return True
