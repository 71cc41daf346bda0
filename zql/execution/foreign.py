"""Values of libraries, and of Python's less plain types, as the plain ones that they stand for.

Nothing is imported for it: a value of numpy, pandas or pyarrow is known by what it can do.
"""

from __future__ import annotations

import datetime as dt
import enum
import os
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

_PLAIN = frozenset(
    [bool, int, float, str, bytes, Decimal, dt.date, dt.datetime, dt.time, dt.timedelta, dict, list]
)
_NOTHING = frozenset(["NAType", "NaTType"])
_TEXTS = (str, bytes, bytearray, memoryview)


def plain(value: Any) -> Any:
    """A scalar as Python's own; None for what libraries have for NULL; anything else as it is.

    Times of numpy that Python's own would round stay what they are.
    """
    if type(value) in _PLAIN or value is None:
        return value
    if type(value).__name__ in _NOTHING:
        return None
    if isinstance(value, enum.Enum) and not isinstance(value, int | str):
        return plain(value.value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item") and not _names(value):
        return _time(value) if _is_time(value) else value.item()
    if hasattr(value, "as_py"):  # a scalar of pyarrow
        return value.as_py()
    return value


def _is_time(value: Any) -> bool:
    """Whether it is of those types of numpy's that `item` and `tolist` may make numbers of."""
    return getattr(getattr(value, "dtype", None), "kind", "") in ("M", "m")


def _time(value: Any) -> Any:
    """A `datetime64` or `timedelta64` as Python's own when that is exact, None for NaT."""
    scalar = value[()]
    found = _UNIT.fullmatch(value.dtype.name)
    number = int(scalar.astype("int64"))
    if number == _NAT:
        return None
    if found is None or found["unit"] not in _ATTOSECONDS:  # years and months differ in length
        own = scalar.astype("datetime64[D]").item() if value.dtype.kind == "M" else None
        return own if isinstance(own, dt.date) else scalar
    length = int(found["count"] or 1) * _ATTOSECONDS[found["unit"]]
    microseconds, rest = divmod(number * length, _ATTOSECONDS["us"])
    try:
        delta = dt.timedelta(microseconds=microseconds)
        own = delta if value.dtype.kind == "m" else _EPOCH + delta
    except OverflowError:
        return scalar
    if rest:
        return scalar
    return own.date() if isinstance(own, dt.datetime) and found["unit"] in "DW" else own


_UNIT = re.compile(r"(datetime|timedelta)64\[(?P<count>\d*)(?P<unit>\w+)\]")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - numpy's times have no zone
_NAT = -(2**63)
_ATTOSECONDS = {
    "W": 604_800 * 10**18,
    "D": 86_400 * 10**18,
    "h": 3600 * 10**18,
    "m": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}


def as_list(value: Any) -> Sequence[Any] | None:
    """The elements of what is a list in all but name; None for anything else.

    A set is none: it has no order that would be the same in another process.
    """
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, _TEXTS):
        return None
    if getattr(value, "ndim", 0) >= 1 and hasattr(value, "tolist"):
        return list(value) if _is_time(value) or _names(value) else value.tolist()
    if isinstance(value, Sequence):
        return list(value)
    for name in ("to_pylist", "to_list"):  # of pyarrow, of polars
        if hasattr(value, name):
            found: list[Any] = getattr(value, name)()
            return found
    return None


def as_record(value: Any) -> dict[str, Any] | None:
    """A record of a structured array by its names; None for anything else."""
    names = _names(value) if getattr(value, "ndim", None) == 0 else ()
    return {name: value[name] for name in names} if names else None


def _names(value: Any) -> Iterable[str]:
    return getattr(getattr(value, "dtype", None), "names", None) or ()
