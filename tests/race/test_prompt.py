from __future__ import annotations

import pytest

from sleepwatch.race import prompt


@pytest.mark.parametrize("wanted", [1, 100, 20_000])
@pytest.mark.parametrize("characters_per_token", [1, 4])
def test_a_prompt_has_about_the_tokens_that_are_wanted(wanted: int, characters_per_token: int) -> None:
    text, tokens = prompt.of_tokens(wanted, lambda text: -(-len(text) // characters_per_token))
    assert tokens == -(-len(text) // characters_per_token)
    assert tokens == pytest.approx(wanted, rel=0.05, abs=8)


def test_it_is_the_same_every_time() -> None:
    assert prompt.words(50) == prompt.words(50)
    assert prompt.words(50) != prompt.words(50, seed=2)
