"""Prompts of a wanted length, made of generated words: they hold nothing from anywhere."""

from __future__ import annotations

import random
from collections.abc import Callable

_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"
_SAMPLE_WORDS = 2000


def words(count: int, *, seed: int = 1) -> str:
    """``count`` words of one to four syllables; the same for the same seed."""
    draw = random.Random(seed)
    return " ".join(
        "".join(draw.choice(_CONSONANTS) + draw.choice(_VOWELS) for _ in range(draw.randint(1, 4)))
        for _ in range(count)
    )


def of_tokens(wanted: int, count_tokens: Callable[[str], int]) -> tuple[str, int]:
    """A prompt of about ``wanted`` tokens and how many it has, as ``count_tokens`` counts them."""
    sample = count_tokens(words(_SAMPLE_WORDS))
    per_word = max(sample, 1) / _SAMPLE_WORDS
    prompt = words(max(1, round(wanted / per_word)))
    return prompt, count_tokens(prompt)
