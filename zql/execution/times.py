"""Times on their way to Python: in units that it has, and refused where it has no such time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from zql.execution.kinds import Kind

if TYPE_CHECKING:
    import pyarrow as pa

_DAY = 86_400_000_000
_ENDLESS_DAYS, _ENDLESS_MICROSECONDS = 2**31 - 1, 2**63 - 1


def readable(array: pa.Array, kind: Kind) -> pa.Array:
    """The column with its times in microseconds, at any depth, and without zones.

    Arrow would look for zones in a database that may not be installed, and make objects of pandas
    of nanoseconds. Raises `ValueError` for times that Python has not.
    """
    if not _has_times(kind):
        return array
    wanted = _in_microseconds(array.type)
    if wanted != array.type:
        array = array.cast(wanted)
    for leaf in _leaves(array, kind):
        _refuse_midnight_at_the_end(leaf)
    return array


@cache
def _has_times(kind: Kind) -> bool:
    return kind.name.startswith("TIME") or any(_has_times(part) for _, part in kind.parts)


@cache
def _in_microseconds(type_: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    def part(field: pa.Field) -> pa.Field:
        return field.with_type(_in_microseconds(field.type))

    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if pa.types.is_list(type_):
        return pa.list_(part(type_.value_field))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(part(type_.value_field), type_.list_size)
    if pa.types.is_struct(type_):
        return pa.struct([part(field) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(part(type_.key_field), part(type_.item_field))
    return type_


def _leaves(array: pa.Array, kind: Kind) -> Iterator[pa.Array]:
    """The values of type TIME in a column."""
    if kind.name == "TIME":
        yield array
    elif kind.name in ("LIST", "ARRAY"):
        yield from _leaves(array.flatten(), kind.element)
    elif kind.name == "STRUCT":
        for part, (_, inner) in zip(array.flatten(), kind.parts, strict=True):
            yield from _leaves(part, inner)
    elif kind.name == "MAP":
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        for part, (_, inner) in zip((array.keys, array.items), kind.parts, strict=True):
            yield from _leaves(part.slice(start, stop - start), inner)


def _refuse_midnight_at_the_end(array: pa.Array) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(array):
        return
    last = pc.max(array.view(pa.int64())).as_py()
    if last is not None and last >= _DAY:
        raise ValueError("24:00:00 is no time of a day there")


def told(array: pa.Array, kind: Kind) -> str:
    """What a value of one row is, for a message; empty when it cannot be told."""
    import pyarrow as pa

    try:
        scalar = array[0]
        if kind.name == "DATE":
            return _date(scalar.value)
        if kind.name.startswith("TIMESTAMP") and array.type.unit == "us":
            return _timestamp(scalar.value)
        if kind.name == "TIME" and scalar.value >= _DAY:
            return "24:00:00"
        return str(array.cast(pa.string()).to_pylist()[0])
    except (pa.ArrowException, ValueError, AttributeError):
        return ""


def _timestamp(microseconds: int) -> str:
    if abs(microseconds) == _ENDLESS_MICROSECONDS:
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{_date(days)} {clock}{f'.{fraction:06}' if fraction else ''}"


def _date(days: int) -> str:
    """A date by its days since 1970, in years before 1 and after 9999 too."""
    if abs(days) == _ENDLESS_DAYS:
        return "infinity" if days > 0 else "-infinity"
    # Years that begin in March have their odd day at the end; 400 of them are 146,097 days.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += era * 400 + (month <= 2)
    return (
        f"{year:04}-{month:02}-{day:02}" if year > 0 else f"{1 - year:04}-{month:02}-{day:02} (BC)"
    )
