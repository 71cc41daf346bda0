"""Scalar functions with `batch_size`: many rows in a call, as lists or arrays, and a list back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from zql.execution.frames import array_of, is_array
from zql.execution.kinds import Kind
from zql.execution.misfit import show
from zql.execution.refused import RefusedCallError

Rows = Sequence[tuple[Any, ...]]


def with_lists(
    call: Callable[..., Any], kinds: Sequence[Kind], forms: Sequence[str]
) -> Callable[[Rows], Any]:
    """A function of columns as one of rows; `forms` say how each argument is handed over.

    An empty form is that of an argument with one value for all rows.
    """

    def make(rows: Rows) -> Any:
        columns = zip(*rows, strict=True)
        handed = [
            column_of(column, form, kind)
            for column, form, kind in zip(columns, forms, kinds, strict=True)
        ]
        return call(*handed)

    return make


def column_of(values: Sequence[Any], form: str, kind: Kind) -> Any:
    """The values of an argument in the form that its parameter takes."""
    match form:
        case "":
            return values[0]
        case "list":
            return list(values)
        case _:
            return array_of(values, form, kind)


def listed(found: Any, count: int) -> list[Any]:
    """What a call on so many rows gave, a value for each. Raises `RefusedCallError`."""
    values: list[Any] | None = None
    if isinstance(found, list | tuple):
        values = list(found)
    elif is_array(found):
        values = _elements(found)
    elif not isinstance(found, str | bytes | Mapping) and isinstance(found, Iterable):
        values = list(found)
    hint = "with batch_size it gives a list, or an array, with a value for each row"
    rows = f"{count} row{'s' * (count != 1)}"
    if values is None:
        raise RefusedCallError(
            "R711", f"gave {show(found)}, where a list for {rows} is wanted", hint
        )
    if len(values) != count:
        some = f"{len(values)} value{'s' * (len(values) != 1)}"
        raise RefusedCallError("R711", f"gave {some} for {rows}", hint)
    return values


def _elements(array: Any) -> list[Any]:
    """The elements of an array of any library; NULL is None."""
    import pyarrow as pa

    if isinstance(array, pa.Array | pa.ChunkedArray):
        return array.to_pylist()  # type: ignore[no-any-return]
    if type(array).__module__.startswith("pandas"):
        found = pa.Array.from_pandas(array)
        return found.to_pylist()  # type: ignore[no-any-return]
    if hasattr(array, "to_list"):
        return list(array.to_list())
    return list(array.tolist())
