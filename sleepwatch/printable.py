"""Text from outside, made safe to print and to store.

Names of files, units, containers and models, and the text of log lines, are written by others. On a terminal a control
byte in them could move the cursor or hide text; in JSON and SQLite a lone surrogate (a file name that is not UTF-8)
cannot be written at all.
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, delete, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks and overrides: they reorder what is shown
    "\u2028\u2029"  # line and paragraph separator
    "\ud800-\udfff"  # surrogates: bytes of a name that is not UTF-8 (os.fsdecode), or broken text
    "]"
)

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4}))")


def printable(text: str) -> str:
    """``text`` with every control, direction and surrogate character escaped as ``\\xNN`` or ``\\uNNNN``.

    What is already escaped stays as it is, so it may be applied twice.
    """
    return _UNPRINTABLE.sub(_escape, text)


def storable(text: str) -> str:
    """``text`` as UTF-8 can hold it; :func:`restored` gives it back. Paths need it, which may be any bytes."""
    if "\\" not in text and _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(_escape, text.replace("\\", "\\\\"))


def restored(text: str) -> str:
    """What :func:`storable` was given."""
    return _ESCAPED.sub(_unescape, text) if "\\" in text else text


def printable_lines(text: str) -> str:
    """The same for text of several lines that is ours (what to do): line feeds stay, all else is escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # os.fsdecode keeps byte 0xNN as U+DCNN
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _unescape(match: re.Match[str]) -> str:
    byte, code = match.groups()
    return chr(0xDC00 + int(byte, 16)) if byte else chr(int(code, 16)) if code else "\\"
