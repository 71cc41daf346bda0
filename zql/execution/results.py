"""Python values as columns: what a function of the user gave, exactly or not at all.

Arrow by itself would make 1 of 1.5, drop keys that the first record lacks, and mix times with and
without a zone. So values are checked, column by column and inside lists and records too.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from zql.execution import kinds
from zql.execution.checks import EXACT, Unfit, checker
from zql.execution.foreign import as_list, as_record, plain
from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit, show

if TYPE_CHECKING:
    import pyarrow as pa

Values = Sequence[Any]


def to_arrow(values: Values, kind: Kind) -> pa.Array:
    """Python values as a column of the kind's wire type; None is NULL. Raises `Misfit`."""
    match kind.name:
        case "LIST":
            return _list_array(values, kind)
        case "ARRAY":
            return _fixed_list_array(values, kind)
        case "STRUCT":
            return _struct_array(values, kind)
        case "MAP":
            return _map_array(values, kind)
        case _:
            return _scalar_array(values, kind)


def records_to_arrow(
    values: Values,
    names: Sequence[str],
    types: Sequence[Kind],
    known: frozenset[str] = frozenset(),
) -> list[pa.Array]:
    """Records as one column for each name. Raises `Misfit`: for None and for unknown keys too.

    Keys that are `known` may be there and are passed over.
    """
    records = [mapping_of(value, row) for row, value in enumerate(values)]
    if None in records:
        raise Misfit(records.index(None), None, "it is no record (a dict, say)")
    return _columns(records, values, list(zip(names, types, strict=True)), known)


def _scalar_array(values: Values, kind: Kind) -> pa.Array:
    import pyarrow as pa

    arrow_type = kinds.arrow_type(kinds.wire_type(kind))
    exact = EXACT.get(kind.name)
    if exact is not None and set(map(type, values)) <= {exact, type(None)}:
        try:
            return pa.array(values, arrow_type)
        except (pa.ArrowException, OverflowError, ValueError):
            pass  # some value is out of range: the checks below find which
    check = checker(kind)
    checked = []
    for row, value in enumerate(values):
        try:
            own = plain(value)
            checked.append(None if own is None else check(own))
        except Unfit as unfit:
            raise Misfit(row, value, unfit.why) from None
    try:
        return pa.array(checked, arrow_type)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise _first_refused(checked, arrow_type, error) from None


def _first_refused(values: Values, arrow_type: pa.DataType, error: Exception) -> Misfit:
    import pyarrow as pa

    for row, value in enumerate(values):
        try:
            pa.array([value], arrow_type)
        except (pa.ArrowException, OverflowError, ValueError) as found:
            return Misfit(row, value, str(found))
    return Misfit(0, None, str(error))


def _list_array(values: Values, kind: Kind) -> pa.Array:
    import pyarrow as pa

    lists = [None if v is None else _as_list(v, row) for row, v in enumerate(values)]
    starts = list(accumulate((len(items or ()) for items in lists), initial=0))
    flat = list(chain.from_iterable(items or () for items in lists))
    child = _inner(starts, lambda: to_arrow(flat, kind.element))
    return pa.ListArray.from_arrays(_offsets(lists, starts), child)


def _fixed_list_array(values: Values, kind: Kind) -> pa.Array:
    import pyarrow as pa

    (size,) = kind.numbers
    lists = [None if v is None else _as_list(v, row) for row, v in enumerate(values)]
    for row, items in enumerate(lists):
        if items is not None and len(items) != size:
            raise Misfit(row, values[row], f"it has {len(items)} elements")
    starts = list(range(0, size * len(lists) + 1, size))
    flat = list(chain.from_iterable([None] * size if v is None else v for v in lists))
    child = _inner(starts, lambda: to_arrow(flat, kind.element))
    mask = pa.array([items is None for items in lists], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(child, size, mask=mask)


def _struct_array(values: Values, kind: Kind) -> pa.Array:
    import pyarrow as pa

    records = [None if v is None else mapping_of(v, row) for row, v in enumerate(values)]
    columns = _columns(records, values, kind.parts)
    mask = pa.array([record is None for record in records], pa.bool_())
    fields = [pa.field(n, c.type) for (n, _), c in zip(kind.parts, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _columns(
    records: Sequence[Mapping[Any, Any] | None],
    values: Values,
    parts: Sequence[tuple[str, Kind]],
    others: frozenset[str] = frozenset(),
) -> list[pa.Array]:
    """One column for each part; a missing key is NULL, one that is in no list is refused."""
    known = others.union(name for name, _ in parts)
    for row, record in enumerate(records):
        if record is not None and not known.issuperset(record):
            extra = next(key for key in record if key not in known)
            raise Misfit(row, values[row], f"the key {show(extra)} is not among its columns")
    columns = []
    for name, kind in parts:
        column = [None if record is None else record.get(name) for record in records]
        try:
            columns.append(to_arrow(column, kind))
        except Misfit as misfit:
            raise Misfit(misfit.row, misfit.value, f'in "{name}": {misfit.why}') from None
    return columns


def _map_array(values: Values, kind: Kind) -> pa.Array:
    import pyarrow as pa

    maps = [None if v is None else _as_map(v, row) for row, v in enumerate(values)]
    starts = list(accumulate((len(entries or ()) for entries in maps), initial=0))
    (_, key), (_, value) = kind.parts
    keys = list(chain.from_iterable(entries or () for entries in maps))
    items = list(chain.from_iterable(entries.values() for entries in maps if entries))
    key_array = _inner(starts, lambda: to_arrow(keys, key))
    item_array = _inner(starts, lambda: to_arrow(items, value))
    return pa.MapArray.from_arrays(_offsets(maps, starts), key_array, item_array)


def _offsets(items: Sequence[Any], starts: list[int]) -> pa.Array:
    """Offsets of a list column; Arrow reads a NULL among them as a NULL list."""
    import pyarrow as pa

    offsets = [None if v is None else s for v, s in zip(items, starts, strict=False)]
    return pa.array([*offsets, starts[-1]], pa.int32())


def _inner(starts: list[int], build: Callable[[], pa.Array]) -> pa.Array:
    """Builds the column of elements; a misfit in it is one of the row that holds the element."""
    try:
        return build()
    except Misfit as misfit:
        row = bisect_right(starts, misfit.row) - 1
        raise Misfit(row, misfit.value, f"inside: {misfit.why}") from None


def _as_list(value: Any, row: int) -> Sequence[Any] | None:
    """The elements of a list or of what is like one; None for what libraries have for NULL."""
    found = as_list(value)
    if found is not None or plain(value) is None:
        return found
    if isinstance(value, Set):
        raise Misfit(row, value, f"{_article(value)} has no order: sorted(..) gives it one")
    raise Misfit(row, value, f"{_article(value)} is no list")


def _as_map(value: Any, row: int) -> Mapping[Any, Any] | None:
    if not isinstance(value, Mapping):
        if plain(value) is None:
            return None
        raise Misfit(row, value, f"{_article(value)} is no dict")
    if None in value:
        raise Misfit(row, value, "None is no key")
    return value


def mapping_of(value: Any, row: int) -> Mapping[Any, Any] | None:
    """A dict, or the fields of a dataclass or a NamedTuple, one level deep.

    None for what libraries have for NULL, but not for None itself.
    """
    if type(value) is dict or isinstance(value, Mapping):  # the first test is much quicker
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()  # type: ignore[no-any-return]
    found = as_record(value)
    if found is not None or (value is not None and plain(value) is None):
        return found
    raise Misfit(row, value, f"{_article(value)} is no record (a dict, say)")


def _article(value: Any) -> str:
    name = "None" if value is None else type(value).__name__
    return name if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
