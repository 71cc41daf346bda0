"""The type that values have: for functions whose type nothing says, and for hints."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from functools import reduce
from typing import Any

from zql.execution.foreign import as_list, as_record, plain
from zql.execution.kinds import INTEGERS, Kind
from zql.execution.misfit import show

NULL = Kind("NULL")
EMPTY = Kind("STRUCT")
"""The type of an empty dict, as long as no other dict came."""
_NANOSECONDS = Kind("TIMESTAMP_NS")
_TEXT = Kind("VARCHAR")
_WIDTH = 38
_ORDER = ("BIGINT", "HUGEINT", "DECIMAL", "DOUBLE")
_SCALARS: tuple[tuple[type, str], ...] = (
    (bool, "BOOLEAN"),
    (float, "DOUBLE"),
    (str, "VARCHAR"),
    (bytes, "BLOB"),
    (bytearray, "BLOB"),
    (memoryview, "BLOB"),
    (dt.datetime, "TIMESTAMP"),
    (dt.date, "DATE"),
    (dt.time, "TIME"),
    (dt.timedelta, "INTERVAL"),
    (uuid.UUID, "UUID"),
)


class NoType(Exception):  # noqa: N818 - the caller says of which function
    """Values that have no type in common, or one that has none at all."""


def kind_of_all(values: Sequence[Any]) -> Kind:
    """The narrowest type that holds all values, NULL when all are None. Raises `NoType`."""
    return reduce(merged, (kind_of(value) for value in values), NULL)


def kind_of(value: Any) -> Kind:
    """The type of one value. Raises `NoType`."""
    value = plain(value)
    if value is None:
        return NULL
    if type(value).__name__ == "datetime64" or getattr(value, "nanosecond", None):
        return _NANOSECONDS
    for type_, name in _SCALARS:
        if isinstance(value, type_):
            aware = isinstance(value, dt.datetime | dt.time) and value.tzinfo is not None
            return Kind(f"{name} WITH TIME ZONE" if aware else name)
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, Decimal) and value.is_finite():
        exponent = value.as_tuple().exponent
        return Kind("DECIMAL", numbers=(_WIDTH, max(0, -int(exponent))))
    return _nested(value)


def _integer(value: int) -> Kind:
    for name in ("BIGINT", "HUGEINT"):
        low, high = INTEGERS[name]
        if low <= value <= high:
            return Kind(name)
    raise NoType(f"{show(value)} has more than 128 bits")


def _nested(value: Any) -> Kind:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    elif not isinstance(value, Mapping):
        value = as_record(value) or value
    items = as_list(value)
    if items is not None:
        return Kind("LIST", (("", kind_of_all(items)),))
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return _struct(value)
        return Kind(
            "MAP", (("key", kind_of_all(list(value))), ("value", kind_of_all(list(value.values()))))
        )
    why = "which has no order: sorted(..) gives it one" if isinstance(value, Set) else ""
    why = why or "which has no SQL type"
    raise NoType(f"{show(value)} is of the type {type(value).__name__}, {why}")


def _struct(value: Mapping[str, Any]) -> Kind:
    names: dict[str, str] = {}
    for name in value:
        if not name:
            raise NoType(f"{show(value)} has an empty key, which is no name of a column")
        other = names.setdefault(name.lower(), name)
        if other != name:
            raise NoType(f"the keys {show(other)} and {show(name)} differ in case only")
    return Kind("STRUCT", tuple((name, kind_of(item)) for name, item in value.items()))


def merged(a: Kind, b: Kind) -> Kind:
    """The narrowest type that holds the values of both. Raises `NoType`."""
    if b in (a, NULL):
        return a
    if a == NULL:
        return b
    if a.name in _ORDER and b.name in _ORDER:
        return _merged_numbers(a, b)
    if {a.name, b.name} == {"TIMESTAMP", _NANOSECONDS.name}:
        return _NANOSECONDS
    if EMPTY in (a, b) and {a.name, b.name} == {"STRUCT", "MAP"}:
        return a if b == EMPTY else b
    if a.name != b.name:
        raise NoType(f"both {a} and {b} came")
    if a.name == "STRUCT":
        fields = dict(a.parts)
        for name, kind in b.parts:
            fields[name] = merged(fields.get(name, NULL), kind)
        return Kind("STRUCT", tuple(fields.items()))
    parts = zip(a.parts, b.parts, strict=True)
    return Kind(a.name, tuple((n, merged(x, y)) for (n, x), (_, y) in parts))


def _merged_numbers(a: Kind, b: Kind) -> Kind:
    narrow, wide = sorted((a, b), key=lambda kind: _ORDER.index(kind.name))
    if wide.name == "DECIMAL" and narrow.name == "DECIMAL":
        return Kind("DECIMAL", numbers=(_WIDTH, max(a.numbers[1], b.numbers[1])))
    if wide.name == "DOUBLE" and narrow.name == "DECIMAL":
        raise NoType("both float and Decimal came")
    return wide


def settled(kind: Kind) -> Kind:
    """The type with VARCHAR wherever only None was seen."""
    if kind == NULL:
        return _TEXT
    if kind == EMPTY:
        return Kind("MAP", (("key", _TEXT), ("value", _TEXT)))
    parts = tuple((name, settled(part)) for name, part in kind.parts)
    return Kind(kind.name, parts, kind.numbers, kind.labels)


def wider(kind: Kind, value: Any) -> Kind | None:
    """A type that holds the values of `kind` and `value` too; None when there is no such type."""
    try:
        found = merged(kind, kind_of(value))
    except NoType:
        return None
    return found if found != kind else None
