"""The engine's state as bytes and back, so that a restart goes on where the last run was.

A graph of plain objects (lives, ledgers, sleeps, events …) is written as one list of nodes that refer to one another by
number, so that shared objects stay shared. Only the classes listed here are ever made again: the bytes come from a
database, and a database can be damaged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from sleepwatch.engine.ledger import Ledger, Pending, Phase, Sleep
from sleepwatch.engine.lives import LifeState, Now, Row, Server
from sleepwatch.engine.streams import Stream
from sleepwatch.engine.verdicts import Exit
from sleepwatch.errors import SleepwatchError
from sleepwatch.model import Event, Evidence, Incident, Origin, Record
from sleepwatch.printable import restored, storable

FORMAT = 4
"""Grows whenever the classes change in a way that older bytes cannot be read as."""

_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        Event, Evidence, Exit, Incident, Ledger, LifeState, Now, Origin, Pending, Record, Row, Server,
        Sleep, Stream,
    )
}  # fmt: skip
_ENUMS: dict[str, type[Enum]] = {"Phase": Phase}

_Node = list[Any]


class StateError(SleepwatchError):
    """Saved state that cannot be read: of another version, or damaged."""


def dump(value: Any) -> bytes:
    """The bytes of a graph of known objects. Raises TypeError for an object of an unknown class."""
    writer = _Writer()
    root = writer.reference(value)
    return msgspec.msgpack.encode({"format": FORMAT, "root": root, "nodes": writer.nodes})


def restore(data: bytes) -> Any:
    """The graph :func:`dump` wrote. Raises StateError."""
    try:
        document = msgspec.msgpack.decode(data)
        if document["format"] != FORMAT:
            raise StateError(f"saved state has format {document['format']}, this version reads {FORMAT}")
        return _Reader(document["nodes"]).value(document["root"])
    except (msgspec.DecodeError, KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateError(f"the saved state is damaged ({type(error).__name__}: {error})") from error


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        """Keeps what was numbered alive: a number belongs to an object, not to its address."""

    def reference(self, value: Any) -> Any:
        """A value as it stands inside a node: scalars as they are, everything else as [number]."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str) and (value.isascii() or storable(value) == value):
            return value
        known = self._numbers.get(id(value))
        if known is None:
            known = len(self.nodes)
            self._numbers[id(value)] = known
            self._alive.append(value)
            node: _Node = []
            self.nodes.append(node)
            node.extend(self._node(value))
        return [known]

    def _node(self, value: Any) -> _Node:
        ref = self.reference
        if isinstance(value, bytes):
            return ["bytes", value]
        if isinstance(value, str):
            return ["text", storable(value)]
        if isinstance(value, Enum):
            return ["enum", type(value).__name__, value.value]
        if isinstance(value, dict):
            return ["dict", [[ref(k), ref(v)] for k, v in value.items()]]
        if isinstance(value, deque):
            return ["deque", value.maxlen, [ref(v) for v in value]]
        if isinstance(value, set):
            return ["set", [ref(v) for v in value]]
        name = type(value).__name__
        if _CLASSES.get(name) is type(value):
            return ["object", name, {field: ref(getattr(value, field)) for field in _fields(type(value))}]
        if isinstance(value, tuple):
            return ["tuple", [ref(v) for v in value]]
        if isinstance(value, list):
            return ["list", [ref(v) for v in value]]
        raise TypeError(f"{type(value).__name__} is no part of the engine's state")


class _Reader:
    def __init__(self, nodes: list[_Node]) -> None:
        self._nodes = nodes
        self._made: dict[int, Any] = {}

    def value(self, reference: Any) -> Any:
        if not isinstance(reference, list):
            return reference
        number = reference[0]
        if number in self._made:
            return self._made[number]
        kind, *rest = self._nodes[number]
        made: Any
        if kind == "bytes":
            made = rest[0]
        elif kind == "text":
            made = restored(rest[0])
        elif kind == "enum":
            made = _ENUMS[rest[0]](rest[1])
        elif kind == "tuple":
            made = tuple(self.value(v) for v in rest[0])
        elif kind == "object":
            return self._object(number, _CLASSES[rest[0]], rest[1])
        else:
            return self._container(number, kind, rest)
        self._made[number] = made
        return made

    def _container(self, number: int, kind: str, rest: list[Any]) -> Any:
        made: Any
        if kind == "dict":
            made = self._made[number] = {}
            for key, item in rest[0]:
                made[self.value(key)] = self.value(item)
        elif kind == "deque":
            made = self._made[number] = deque(maxlen=rest[0])
            made.extend(self.value(v) for v in rest[1])
        elif kind == "set":
            made = self._made[number] = set()
            made.update(self.value(v) for v in rest[0])
        elif kind == "list":
            made = self._made[number] = []
            made.extend(self.value(v) for v in rest[0])
        else:
            raise ValueError(f"node of kind {kind!r}")
        return made

    def _object(self, number: int, cls: type[Any], fields: Mapping[str, Any]) -> Any:
        wanted = _fields(cls)
        if set(fields) != set(wanted):
            raise ValueError(f"{cls.__name__} has other fields now")
        if issubclass(cls, tuple) or _frozen(cls):
            made = cls(**{name: self.value(fields[name]) for name in wanted})  # holds nothing that refers back to it
            self._made[number] = made
            return made
        # Made empty first: what it refers to may refer back to it.
        blank = cls(**dict.fromkeys(wanted)) if issubclass(cls, msgspec.Struct) else object.__new__(cls)
        made = self._made[number] = blank
        for name in wanted:
            setattr(made, name, self.value(fields[name]))
        return made


def _frozen(cls: type[Any]) -> bool:
    return issubclass(cls, msgspec.Struct) and cls.__struct_config__.frozen


def _fields(cls: type[Any]) -> tuple[str, ...]:
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    if issubclass(cls, tuple):
        return tuple(cls._fields)  # type: ignore[attr-defined]
    return tuple(cls.__slots__)
