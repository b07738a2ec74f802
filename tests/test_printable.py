from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.printable import printable, printable_lines, restored, storable


def test_controls_directions_and_undecodable_bytes_are_escaped() -> None:
    assert printable("a\x1b[2J\r\n\x9b\u202e\u2028") == "a\\x1b[2J\\x0d\\x0a\\x9b\\u202e\\u2028"
    assert printable(os.fsdecode(b"\xff.log")) == "\\xff.log"
    assert printable("\ud800") == "\\ud800"


def test_our_own_lines_stay_lines() -> None:
    assert printable_lines("Do:\n  this\x07\r\n") == "Do:\n  this\\x07\\x0d\n"


def test_ordinary_text_of_any_language_stays() -> None:
    assert printable("Größe 大 🙂 \\x41") == "Größe 大 🙂 \\x41"


@given(st.text())
def test_it_can_be_written_anywhere_and_applied_twice(text: str) -> None:
    once = printable(text)
    once.encode()
    assert printable(once) == once
    assert not any(ord(character) < 0x20 for character in once)


@given(st.text(st.characters() | st.sampled_from(["\\", "\udcff", "\ud800", "x", "u", "0"])))
def test_what_is_stored_comes_back(text: str) -> None:
    stored = storable(text)
    stored.encode()
    assert restored(stored) == text


def test_ordinary_paths_are_stored_as_they_are() -> None:
    assert storable("/var/log/Größe/llama.log") == "/var/log/Größe/llama.log"
