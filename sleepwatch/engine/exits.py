"""How did it end? What records tell of one life's end, put together as they come, in any order. Pure."""

from __future__ import annotations

import re

from sleepwatch.engine import routers
from sleepwatch.engine.ends import near, same_host
from sleepwatch.engine.lives import LifeState, own_clock
from sleepwatch.engine.verdicts import Exit
from sleepwatch.model import Event

_TOKENIZER = re.compile(
    r"llm_tokenizer|llama_vocab::(?:impl::)?(?:tokenize|text_to_token)|tokenize_input_prompts|common_tokenize"
)
"""Frames of a thread that was reading the vocabulary (llama.cpp ``src/llama-vocab.cpp``, server-common.cpp)."""


def enter(life: LifeState, event: Event) -> Exit:
    """Enter a record of this life's end (``process.exit``): the first, or a further one of the same death."""
    fields = event.fields
    signal, status = fields.get("signal"), fields.get("status")
    if signal is None and isinstance(status, int) and 128 < status < 128 + 65:
        signal = status - 128
    sure = (
        "life" in fields
        or fields.get("invocation") is not None
        or (fields.get("pid") is not None and fields["pid"] == life.origin.pid)
    )
    end = life.exit
    if end is not None and end.recorded:
        # The same death, told again: keep what each tells.
        end.others.append(event)
        if end.event is not None and "life" in end.event.fields:
            # The kernel told that it ended, and may not have told how; whether it was wanted others know.
            end.planned = end.planned or bool(fields.get("planned"))
            end.status = status if end.signal is None and end.status is None else end.status
        end.sure = end.sure or sure
        end.at_us = end.at_us if end.at_us is not None else own_clock(life, event.wall_us)
        end.signal = end.signal if end.signal is not None else signal
    else:
        end = life.exit = Exit(
            event=event,
            by=str(fields.get("by", "shell")),
            signal=signal,
            status=status,
            planned=bool(fields.get("planned")) or routers.is_being_stopped(life),
            at_us=event.clock_us if "life" in fields else own_clock(life, event.wall_us),
            sure=sure,
            others=[],
        )
    end.tokenizer = end.tokenizer or bool(_TOKENIZER.search(str(fields.get("frames", ""))))
    end.oom = end.oom or fields.get("cause") == "oom"
    end.aborted = end.aborted or fields.get("cause") == "trap-in-libc"
    return end


def adopt(unclaimed: list[Event], life: LifeState, end: Exit, event: Event) -> None:
    """What the kernel or a coredump said of a thread or child that could not be told apart belongs to this end.

    What is taken leaves ``unclaimed``; ``event`` is the record that tells the moment.
    """
    for other in [one for one in unclaimed if near(event, one) and same_host(one.origin, life.origin)]:
        signal = other.fields.get("signal")
        if end.signal is None or signal in (None, end.signal):
            unclaimed.remove(other)
            end.signal = end.signal if end.signal is not None else signal
            end.aborted = end.aborted or other.fields.get("cause") == "trap-in-libc"
            end.others.append(other)
