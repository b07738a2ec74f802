"""Streams, ledgers and verdicts: what the recognised lines amount to. Pure."""

from sleepwatch.engine.engine import Engine
from sleepwatch.engine.lives import Now
from sleepwatch.engine.output import Ask, Output, Transition, Words

__all__ = ["Ask", "Engine", "Now", "Output", "Transition", "Words"]
