"""Columns as Python values: what a function of the user is handed."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit
from zql.execution.times import readable, told

if TYPE_CHECKING:
    import pyarrow as pa

Decode = Callable[[Any], Any]


def to_python(array: pa.Array, kind: Kind) -> list[Any]:
    """The values of a column (in its wire type) as Python sees them; NULL is None.

    Raises `Misfit` for what Python has no value for, as an infinite date.
    """
    refused = _refused(kind)
    if refused:
        raise Misfit(0, f"a {kind}", refused)
    decode = _decoder(kind)
    try:
        values = _as_list(array, kind)
        return values if decode is None else [None if v is None else decode(v) for v in values]
    except (OverflowError, ValueError) as error:
        raise _first_unreadable(array, kind, decode, error) from None


@cache
def _refused(kind: Kind) -> str:
    """Why Python has no values of a type; empty when it has some."""
    if kind.name == "VARIANT":
        return "Python has no such type"
    if kind.name == "MAP" and kind.parts[0][1].parts:
        return f"a dict takes no keys of type {kind.parts[0][1]}"
    return next((found for _, part in kind.parts if (found := _refused(part))), "")


def _as_list(array: pa.Array, kind: Kind) -> list[Any]:
    # Arrow is several times quicker when it is not told what to do with maps.
    maps = "strict" if _has_map(kind) else None
    values: list[Any] = readable(array, kind).to_pylist(maps_as_pydicts=maps)
    return values


def _has_map(kind: Kind) -> bool:
    return kind.name == "MAP" or any(_has_map(part) for _, part in kind.parts)


def _first_unreadable(
    array: pa.Array, kind: Kind, decode: Decode | None, error: Exception
) -> Misfit:
    for row in range(len(array)):
        try:
            for value in _as_list(array.slice(row, 1), kind):
                if decode is not None and value is not None:
                    decode(value)
        except (OverflowError, ValueError) as found:
            shown = told(array.slice(row, 1), kind) or f"a value of type {kind}"
            return Misfit(row, shown, f"Python has no such {kind}: {found}")
    return Misfit(0, None, str(error))


def _decoder(kind: Kind) -> Decode | None:
    """What turns a value as Arrow gives it into the one the user gets; None when it is the same."""
    match kind.name:
        case "HUGEINT" | "UHUGEINT" | "BIGNUM":
            return int
        case "UUID":
            return uuid.UUID
        case "TIME WITH TIME ZONE":
            return dt.time.fromisoformat
        case "TIMESTAMP WITH TIME ZONE":
            return lambda value: value.replace(tzinfo=dt.UTC)
        case "INTERVAL":
            return _timedelta
        case "LIST" | "ARRAY":
            element = _decoder(kind.element)
            return None if element is None else _each(element)
        case "STRUCT":
            decoders = [(name, d) for name, part in kind.parts if (d := _decoder(part))]
            return _fields(decoders) if decoders else None
        case "MAP":
            key, value = (_decoder(part) for _, part in kind.parts)
            return _entries(key, value) if key or value else None
        case _:
            return None


def _each(decode: Decode) -> Decode:
    return lambda values: [None if v is None else decode(v) for v in values]


def _fields(decoders: list[tuple[str, Decode]]) -> Decode:
    def decode(record: dict[str, Any]) -> dict[str, Any]:
        for name, field in decoders:
            if record[name] is not None:
                record[name] = field(record[name])
        return record

    return decode


def _entries(key: Decode | None, value: Decode | None) -> Decode:
    def decode(entries: dict[Any, Any]) -> dict[Any, Any]:
        return {
            (key(k) if key else k): (value(v) if value and v is not None else v)
            for k, v in entries.items()
        }

    return decode


def _timedelta(value: Any) -> dt.timedelta:
    if value.months:
        raise ValueError("it counts months; CAST it to VARCHAR")
    return dt.timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
