"""Which columns of a Parquet file say their least and largest values.

Arrow leaves NaN out of them, as Parquet asks writers to. DuckDB, for which NaN is larger than all
numbers, takes them for the bounds of all values: it would not find the NaNs of such a column.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_FEW = 4096
"""So many values are looked at in less time than it takes to load `pyarrow.compute`."""
_FLOATS = frozenset({"FLOAT", "DOUBLE"})


@lru_cache
def leaves(schema: pa.Schema) -> tuple[tuple[str, bool], ...]:
    """The path of each column in a file, those within lists and structs too, and whether it has
    floating-point numbers; none when no column has.
    """
    import pyarrow.parquet as pq

    empty = io.BytesIO()
    pq.write_table(schema.empty_table(), empty)
    found = pq.ParquetFile(empty).schema
    columns = [found.column(number) for number in range(len(found))]
    told = tuple((column.path, column.physical_type in _FLOATS) for column in columns)
    return told if any(is_float for _, is_float in told) else ()


def bounded(paths: Sequence[tuple[str, bool]], table: pa.Table | None = None) -> list[str] | bool:
    """The paths of columns that may say their bounds; True for all.

    Without a table none of floating-point numbers may, else those of it in which no value is NaN.
    """
    if not paths:
        return True
    found = [path for path, is_float in paths if not is_float or _has_no_nan(table, path)]
    return True if len(found) == len(paths) else found


def _has_no_nan(table: pa.Table | None, path: str) -> bool:
    if table is None or "." in path:  # within another column, or one that looks like it
        return False
    column = table.column(path)
    if len(column) <= _FEW:
        return not any(value is not None and isnan(value) for value in column.to_pylist())
    import pyarrow.compute as pc

    return not pc.any(pc.is_nan(column)).as_py()
