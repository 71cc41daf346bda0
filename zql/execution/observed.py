"""The type that values have: for functions whose type nothing says, and for hints."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

from zql.execution.kinds import INTEGERS, Kind
from zql.execution.misfit import show

NULL = Kind("NULL")
_TEXT = Kind("VARCHAR")
_WIDTH = 38
_ORDER = ("BIGINT", "HUGEINT", "DECIMAL", "DOUBLE")
_SCALARS: tuple[tuple[type, str], ...] = (
    (bool, "BOOLEAN"),
    (float, "DOUBLE"),
    (str, "VARCHAR"),
    (bytes, "BLOB"),
    (bytearray, "BLOB"),
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
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if value is None:
        return NULL
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
    elif getattr(value, "ndim", 0) >= 1 and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return Kind("LIST", (("", kind_of_all(value)),))
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return Kind("STRUCT", tuple((key, kind_of(v)) for key, v in value.items()))
        return Kind(
            "MAP", (("key", kind_of_all(list(value))), ("value", kind_of_all(list(value.values()))))
        )
    raise NoType(f"{show(value)} is of the type {type(value).__name__}, which has no SQL type")


def merged(a: Kind, b: Kind) -> Kind:
    """The narrowest type that holds the values of both. Raises `NoType`."""
    if b in (a, NULL):
        return a
    if a == NULL:
        return b
    if a.name in _ORDER and b.name in _ORDER:
        return _merged_numbers(a, b)
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
    parts = tuple((name, settled(part)) for name, part in kind.parts)
    return Kind(kind.name, parts, kind.numbers, kind.labels)


def wider(kind: Kind, value: Any) -> Kind | None:
    """A type that holds the values of `kind` and `value` too; None when there is no such type."""
    try:
        found = merged(kind, kind_of(value))
    except NoType:
        return None
    return found if found != kind else None
