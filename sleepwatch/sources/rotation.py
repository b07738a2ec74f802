"""The names rotation gives: which files beside a log are its older pieces, and in which order they were written.

logrotate writes ``server.log.1``, ``server.log-20261130`` and, with ``extension``, ``server.1.log``; container runtimes
``0.log.20261130-120000``; loggers in programs one or the other; savelog and newsyslog begin at ``.0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

import msgspec

from sleepwatch.lognames import COMPRESSED, DATE, NUMBER
from sleepwatch.sources.disk import Entry

_NUMBER = re.compile(NUMBER)
_DATE = re.compile(DATE)


class Rotated(msgspec.Struct, frozen=True):
    """One older piece of a log."""

    name: str
    inode: int
    form: str
    """How the name is built; pieces of one rotation share it."""
    order: tuple[int, str]
    """Sorts the pieces of one form oldest first."""
    number: int | None
    """``1`` of ``server.log.1``; None where a date is written."""
    compressed: bool


def rotated(entries: Iterable[Entry], base: str) -> list[Rotated]:
    """The older pieces of the log named ``base`` among these files, oldest first.

    Of a piece that is there both plain and compressed (a compressor is at work), the plain one.
    """
    pieces: dict[tuple[str, tuple[int, str]], Rotated] = {}
    for entry in entries:
        piece = _rotated(entry, base)
        if piece is not None:
            known = pieces.get((piece.form, piece.order))
            if known is None or known.compressed:
                pieces[piece.form, piece.order] = piece
    return sorted(pieces.values(), key=lambda piece: (piece.order, piece.form))


def base_of(name: str) -> str:
    """The name this file's log has while it is written, by its own name alone.

    A number inside (``server.1.log``) can as well be another server's; a date inside cannot.
    """
    plain = _plain(name)
    suffix = PurePath(plain).suffix
    for stem, after, forms in ((plain, "", (_NUMBER, _DATE)), (plain.removesuffix(suffix), suffix, (_DATE,))):
        for form in forms:
            ends = [match for match in form.finditer(stem) if match.end() == len(stem) and match.start() > 0]
            if ends:
                return stem[: ends[0].start()] + after
    return plain


def age_of(name: str) -> tuple[int, str]:
    """Sorts the files of one log oldest first: dated ones, then numbered ones downwards, then the one being written."""
    piece = _by_its_name(name)
    return piece.order if piece is not None else (2, "")


def number_of(name: str) -> int | None:
    """``1`` of ``server.log.1``, 0 of ``server.log``; None where a date is written."""
    piece = _by_its_name(name)
    return 0 if piece is None or piece.form == "same" else piece.number


def is_rotated_name(name: str, base: str) -> bool:
    """Is this certainly a name that rotation gave to ``base``? (``server.1.log`` can be another server's log.)"""
    piece = _rotated(Entry(name, 0), base)
    return piece is not None and (piece.form != "inner number" or piece.compressed)


def possible_bases(name: str) -> set[str]:
    """The names a log may have had before it was rotated to this one."""
    plain = _plain(name)
    bases = {plain} if plain != name else set()
    for expression in (_NUMBER, _DATE):
        for match in expression.finditer(plain):
            if match.start() > 0:
                bases.add(plain[: match.start()] + plain[match.end() :])
    return bases


def _by_its_name(name: str) -> Rotated | None:
    return _rotated(Entry(name, 0), base_of(name))


def _rotated(entry: Entry, base: str) -> Rotated | None:
    plain = _plain(entry.name)
    if plain == base:
        return Rotated(entry.name, entry.inode, "same", (2, ""), None, True) if plain != entry.name else None
    suffix = PurePath(base).suffix
    stem = base.removesuffix(suffix)
    for form, before, after in (("end", base, ""), ("inner", stem, suffix)):
        if not (plain.startswith(before) and plain.endswith(after)) or len(plain) <= len(before) + len(after):
            continue
        middle = plain[len(before) : len(plain) - len(after)]
        number, date = _NUMBER.fullmatch(middle), _DATE.fullmatch(middle)
        if number is not None:
            value = int(number.group(1))
            order = (1, f"{9_999 - value:04}")
            return Rotated(entry.name, entry.inode, f"{form} number", order, value, plain != entry.name)
        if date is not None:
            digits = re.sub(r"\D", "", date.group(1))
            return Rotated(entry.name, entry.inode, f"{form} date", (0, digits), None, plain != entry.name)
    return None


def _plain(name: str) -> str:
    for suffix in COMPRESSED:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
