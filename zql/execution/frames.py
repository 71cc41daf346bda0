"""Batches of rows as tables of Arrow, pandas and polars, and what comes back as columns.

A type that Arrow lacks is handed over as text. What comes back must fit the columns as records
must: a number may become another kind of number when nothing is lost, never text.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_origin

from zql.execution import kinds
from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit, show
from zql.execution.refused import RefusedCallError
from zql.execution.results import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

_FORMS = {
    ("pyarrow", "Table"): "table",
    ("pyarrow", "RecordBatch"): "batch",
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
}
_SHORT = {"pa": "pyarrow", "pd": "pandas", "pl": "polars"}


def form_of(annotation: Any) -> str:
    """The kind of table that an annotation means: table, batch, pandas or polars; else empty."""
    if isinstance(annotation, str):  # of a module that is imported for type checkers only
        module, _, name = annotation.strip("\"'").rpartition(".")
        return _FORMS.get((_SHORT.get(module, module), name), "")
    if not isinstance(annotation, type):
        return ""
    return _FORMS.get((annotation.__module__.partition(".")[0], annotation.__name__), "")


def handed(batch: pa.RecordBatch, form: str) -> Any:
    """A batch of wire types as the kind of table that a function takes.

    Raises `RefusedCallError` for a column of a type that polars has not.
    """
    import pyarrow as pa

    if form == "batch":
        return batch
    table = pa.Table.from_batches([batch])
    if form == "pandas":
        return _pandas(table)
    return _polars(table) if form == "polars" else table


def _library(name: str) -> ModuleType:
    """A library whose objects a function takes. Raises `RefusedCallError` where it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        raise RefusedCallError(
            "R712",
            f"takes what {name} makes, which cannot be imported: {error}",
            hint=f"pip install {name}, or annotate the argument as pa.Table or as a list",
            fatal=True,
        ) from None


def _polars(table: pa.Table) -> Any:
    polars = _library("polars")
    for column in table.schema:
        if _has_interval(column.type):
            message = "cannot be handed an INTERVAL: polars has no type for it"
            raise RefusedCallError("R712", message, hint="CAST it to VARCHAR")
    return polars.from_arrow(table)


def _has_interval(type_: pa.DataType) -> bool:
    import pyarrow as pa

    if type_ == pa.month_day_nano_interval():
        return True
    return any(_has_interval(type_.field(i).type) for i in range(type_.num_fields))


def _pandas(table: pa.Table) -> Any:
    """A frame of pandas; integers among NULLs stay integers."""
    pandas = _library("pandas")
    nullable = {t: getattr(pandas, f"{k}Dtype")() for t, k in _integer_names().items()}
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def _integer_names() -> dict[pa.DataType, str]:
    import pyarrow as pa

    return {
        getattr(pa, f"{sign}int{bits}")(): f"{sign.upper()}Int{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }


def table_of(value: Any) -> pa.Table | None:
    """A table of any of the kinds as Arrow's; None for what is no table."""
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if form_of(type(value)) == "pandas":
        return pa.Table.from_pandas(value, preserve_index=False)
    if hasattr(value, "__arrow_c_stream__"):
        return pa.table(value)
    return None


def table_columns(table: pa.Table, names: Sequence[str], types: Sequence[Kind]) -> list[pa.Array]:
    """A table as one column for each name, in wire types. A missing one is NULL.

    Raises `Misfit` for a column that has no name here, and for values that do not fit.
    """
    import pyarrow as pa

    extra = [name for name in table.column_names if name not in names]
    if extra:
        raise Misfit(0, extra[0], f"the column {show(extra[0])} is not among its columns")
    columns = []
    for name, kind in zip(names, types, strict=True):
        if name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, kinds.arrow_type(kinds.wire_type(kind))))
            continue
        try:
            columns.append(_fitted(table.column(name), kind))
        except Misfit as misfit:
            raise Misfit(misfit.row, misfit.value, f'in "{name}": {misfit.why}') from None
    return columns


def _fitted(column: pa.ChunkedArray, kind: Kind) -> pa.Array:
    import pyarrow as pa

    target = kinds.arrow_type(kinds.wire_type(kind))
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if array.type == target:
        return array
    if _is_alike(array.type, target):
        try:
            return array.cast(target)
        except pa.ArrowException:
            pass  # some value does not fit: the checks below find which
    values = array.to_pylist()
    if pa.types.is_map(array.type):
        values = [None if pairs is None else dict(pairs) for pairs in values]
    return to_arrow(values, kind)


def _is_alike(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type may become those of the other when nothing is lost."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_null(given):
        return True
    if _is_list(given) and _is_list(target):
        return _is_alike(given.value_type, target.value_type)
    if types.is_struct(given) and types.is_struct(target):
        if {f.name for f in given} != {f.name for f in target}:
            return False
        return all(_is_alike(f.type, target.field(f.name).type) for f in given)
    if types.is_timestamp(given) and types.is_timestamp(target):
        return (given.tz is None) == (target.tz is None)
    if isinstance(given, pa.ExtensionType):
        return False
    families = (_is_number, _is_text, _is_binary, types.is_date, types.is_time)
    return given == target or any(of(given) and of(target) for of in families)


def _is_list(type_: pa.DataType) -> bool:
    from pyarrow import types

    return any(is_(type_) for is_ in (types.is_list, types.is_large_list, types.is_list_view))


def _is_number(type_: pa.DataType) -> bool:
    from pyarrow import types

    return any(is_(type_) for is_ in (types.is_integer, types.is_floating, types.is_decimal))


def _is_text(type_: pa.DataType) -> bool:
    from pyarrow import types

    return any(is_(type_) for is_ in (types.is_string, types.is_large_string, types.is_string_view))


def _is_binary(type_: pa.DataType) -> bool:
    from pyarrow import types

    return any(is_(type_) for is_ in (types.is_binary, types.is_large_binary, types.is_binary_view))


_ARRAYS = {
    ("pyarrow", "Array"): "arrow",
    ("pyarrow", "ChunkedArray"): "arrow",
    ("numpy", "ndarray"): "numpy",
    ("pandas", "Series"): "series",
    ("polars", "Series"): "polars series",
}


def array_form_of(annotation: Any) -> str:
    """The kind of array that an annotation means: arrow, numpy, or a series; else empty."""
    if isinstance(annotation, str):
        module, _, name = annotation.strip("\"'").partition("[")[0].rpartition(".")
        short = {"np": "numpy", **_SHORT}
        return _ARRAYS.get((short.get(module, module), name), "")
    annotation = get_origin(annotation) or annotation  # np.ndarray[..], NDArray[np.float32]
    if not isinstance(annotation, type):
        return ""
    for kind in annotation.__mro__:
        found = _ARRAYS.get((kind.__module__.partition(".")[0], kind.__name__), "")
        if found:
            return found
    return ""


def is_array(value: Any) -> bool:
    """Whether a value is an array of one of these libraries, with one dimension or more."""
    return array_form_of(type(value)) != "" and getattr(value, "ndim", 1) != 0


def array_of(values: Sequence[Any], form: str, kind: Kind) -> Any:
    """Python values as an array of the kind that a function takes."""
    array = to_arrow(values, kind)
    match form:
        case "arrow":
            return array
        case "numpy":
            _library("numpy")
            return array.to_numpy(zero_copy_only=False)
        case "series":
            return _pandas(_one_column(array))["x"].rename(None)
        case _:
            return _polars(_one_column(array))["x"].rename("")


def _one_column(array: pa.Array) -> pa.Table:
    import pyarrow as pa

    return pa.table({"x": array})
