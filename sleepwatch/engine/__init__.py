"""Streams, ledgers and verdicts: what the recognised lines amount to. Pure."""

from sleepwatch.engine.engine import Ask, Engine, Now, Output, Transition, Words

__all__ = ["Ask", "Engine", "Now", "Output", "Transition", "Words"]
