"""The keys of a configuration, one by one: what is wrong with each, what it is set to, what it allows.

Works on any tree of msgspec structs: tables are structs, lists of tables are tuples of them.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect


def words(allowed: str) -> msgspec.Meta:
    """``Annotated[str, words("a path")]`` says what is allowed where the type alone does not."""
    return msgspec.Meta(extra={"allowed": allowed})


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    key: str
    """Its path: ``following.poll_seconds``, ``file[0].path``."""
    value: str | None
    """What stands there, as it would be written; None where nothing does."""
    allowed: str
    """What may stand there."""

    def __str__(self) -> str:
        return f"{self.key}{'' if self.value is None else f' = {self.value}'}: {self.allowed}"


class Key(msgspec.Struct, frozen=True):
    """One key as it stands."""

    key: str
    value: str
    allowed: str
    given: bool
    """The configuration says so; else it is the default."""


def problems(data: object, cls: type[msgspec.Struct], at: str = "") -> Iterator[Problem]:
    """Everything in ``data`` that a struct of this class does not allow."""
    if not isinstance(data, dict):
        yield Problem(at, shown(data), "must be a table")
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    for name, value in data.items():
        key = _join(at, name)
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield Problem(key, None, f"there is no such key{meant}; known here: {', '.join(fields)}")
            continue
        kind = inspect.type_info(fields[name].type)
        table, rows = _table(kind), _rows(kind)
        if table is not None:
            yield from problems(value, table, key)
        elif rows is not None and not isinstance(value, list):
            yield Problem(key, shown(value), f"must be a list of tables: write [[{key}]]")
        elif rows is not None:
            for number, row in enumerate(value):
                yield from problems(row, rows, f"{key}[{number}]")
        elif not _fits(value, fields[name].type):
            yield Problem(key, shown(value), f"must be {allowed(kind)}")
    for name, field in fields.items():
        if field.required and name not in data:
            kind = inspect.type_info(field.type)
            yield Problem(_join(at, name), None, f"is missing; must be {allowed(kind)}")


def keys(settings: msgspec.Struct, data: Mapping[str, Any], at: str = "") -> Iterator[Key]:
    """Every key of these settings, in their order. ``data`` is what was written down."""
    for field in msgspec.structs.fields(settings):
        key, value, kind = _join(at, field.encode_name), getattr(settings, field.name), inspect.type_info(field.type)
        written = data.get(field.encode_name)
        if _table(kind) is not None:
            yield from keys(value, written or {}, key)
        elif _rows(kind) is not None:
            for number, row in enumerate(value):
                known = written[number] if written is not None and number < len(written) else {}
                yield from keys(row, known, f"{key}[{number}]")
        else:
            yield Key(key, shown(value), allowed(kind), field.encode_name in data)


def shown(value: object) -> str:
    """A value as TOML would have it; ``not set`` for none."""
    if value is None:
        return "not set"
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else str(value)
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else str(value)


def allowed(kind: inspect.Type) -> str:
    """What a type takes, in words."""
    if isinstance(kind, inspect.Metadata):
        return (kind.extra or {}).get("allowed") or allowed(kind.type)
    if isinstance(kind, inspect.UnionType):
        choices = [allowed(one) for one in kind.types if not isinstance(one, inspect.NoneType)]
        return ", or ".join([*choices, "left out"])
    if isinstance(kind, inspect.LiteralType):
        return f"one of {', '.join(shown(one) for one in kind.values)}"
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return ("a whole number" if isinstance(kind, inspect.IntType) else "a number") + _bounds(kind)
    return "text"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    signs = (("above", kind.gt), ("from", kind.ge), ("below", kind.lt), ("up to", kind.le))
    return "".join(f" {sign} {bound:g}" for sign, bound in signs if bound is not None)


def _fits(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    # A number that is not one passes every bound.
    return not isinstance(value, float) or math.isfinite(value)


def _table(kind: inspect.Type) -> type[msgspec.Struct] | None:
    return kind.cls if isinstance(kind, inspect.StructType) else None


def _rows(kind: inspect.Type) -> type[msgspec.Struct] | None:
    return _table(kind.item_type) if isinstance(kind, inspect.VarTupleType) else None


def _join(at: str, name: str) -> str:
    bare = name if name and all(c.isalnum() or c in "-_" for c in name) else json.dumps(name, ensure_ascii=False)
    return f"{at}.{bare}" if at else bare
