"""Streams, ledgers and verdicts: what the recognised lines amount to. Pure."""

from sleepwatch.engine.engine import Ask, Engine, Output, Transition, Words
from sleepwatch.engine.lives import Now

__all__ = ["Ask", "Engine", "Now", "Output", "Transition", "Words"]
