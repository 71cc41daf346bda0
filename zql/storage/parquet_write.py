"""Writing Parquet with pyarrow: row groups of a fixed number of rows, the same bytes on every run.

DuckDB's own COPY cuts row groups where its threads happen to end, so it is not used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zql.errors import StorageError, UsageError, did_you_mean, nearest
from zql.expr.sql import quote_identifier
from zql.schema import DataType
from zql.storage.format import WriteColumn

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 20_480
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
_SYNONYMS = {"zst": "zstd", "gz": "gzip", "uncompressed": "none", "lz4_raw": "lz4"}
_LEVELS = {"zstd": 3, "gzip": 6, "brotli": 4}
_QUOTED = re.compile(r'("(?:[^"]|"")*")')
# Types that Parquet, or pyarrow's writer, does not have.
_INSTEAD = (
    (re.compile(r"\bU?HUGEINT\b"), "DECIMAL(38,0)"),
    (re.compile(r"\b(?:TIME WITH TIME ZONE|INTERVAL|BIT|BIGNUM|VARINT)\b"), "VARCHAR"),
)


def page_compression(name: str | None) -> str:
    """The compression of pages, `zstd` when nothing is said; `UsageError` for an unknown one."""
    wanted = (name or "zstd").lower()
    wanted = _SYNONYMS.get(wanted, wanted)
    if wanted not in COMPRESSIONS:
        guess = nearest(wanted, COMPRESSIONS)
        raise UsageError(
            f'Parquet has no compression "{name}"',
            code="U620",
            hint=did_you_mean(guess) or "one of " + ", ".join(COMPRESSIONS),
            candidates=guess,
        )
    return wanted


def stored_type(type_: DataType) -> DataType:
    """The type in which a value is stored; what Parquet lacks becomes DECIMAL or text."""
    if type_.startswith("UNION("):
        return "JSON"
    parts = _QUOTED.split(type_)
    for pattern, instead in _INSTEAD:
        parts[::2] = [pattern.sub(instead, part) for part in parts[::2]]
    return "".join(parts)


def output_sql(query: str, columns: Sequence[WriteColumn]) -> str:
    """The rows of a query in types that Parquet has, as columns `c0`, `c1`, ..."""
    items = []
    for i, column in enumerate(columns):
        value = quote_identifier(column.alias)
        stored = stored_type(column.type)
        if stored == "JSON":
            value = (
                f"CAST(to_json({value}) AS VARCHAR)"
                if column.type != stored
                else (f"CAST({value} AS VARCHAR)")
            )
        elif stored != column.type:
            value = f"CAST({value} AS {stored})"
        items.append(f"{value} AS c{i}")
    return f"SELECT {', '.join(items)} FROM ({query})"


class ParquetWriter:
    """Writes batches; see `RowWriter`."""

    def __init__(
        self,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        compression: str | None,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.rows = 0
        names = [c.name for c in columns]
        if not names:
            raise StorageError("a Parquet file needs at least one column", code="R728")
        self._schema = pa.schema(
            [
                pa.field(n, _arrow_type(f.type, c))
                for n, f, c in zip(names, schema, columns, strict=True)
            ]
        )
        self._group_rows = int(options.get("row_group_size", ROW_GROUP_ROWS))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        kind = page_compression(compression)
        level = options.get("compression_level", _LEVELS.get(kind))
        self._file = open(path, "wb")  # noqa: SIM115
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression=kind,
            compression_level=level if kind in _LEVELS else None,
            store_schema=False,
            write_page_index=True,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """See `RowWriter`."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= self._group_rows:
            for group in self._full_groups():
                self._write_group(group)

    def _full_groups(self) -> Iterator[pa.Table]:
        import pyarrow as pa

        table = pa.Table.from_batches(self._waiting)
        whole = table.num_rows - table.num_rows % self._group_rows
        for start in range(0, whole, self._group_rows):
            yield table.slice(start, self._group_rows)
        # A slice would keep the whole table alive.
        self._waiting = [b for b in table.slice(whole).to_batches() if b.num_rows]
        self._waiting_rows = table.num_rows - whole

    def _write_group(self, table: pa.Table) -> None:
        import pyarrow as pa

        # One chunk a column: page and dictionary bounds must not depend on how batches were cut.
        arrays = [
            _one_chunk(c).cast(f.type) for c, f in zip(table.columns, self._schema, strict=True)
        ]
        whole = pa.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(whole, row_group_size=self._group_rows)

    def close(self) -> None:
        """See `RowWriter`."""
        import pyarrow as pa

        if self._waiting:
            self._write_group(pa.Table.from_batches(self._waiting))
            self._waiting = []
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    # Even a single chunk may be a slice, whose offset shows in how validity is stored.
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


def _arrow_type(type_: pa.DataType, column: WriteColumn) -> pa.DataType:
    import pyarrow as pa

    if stored_type(column.type) == "JSON" and hasattr(pa, "json_"):
        return pa.json_(pa.utf8())
    if pa.types.is_dictionary(type_):
        return type_.value_type
    if pa.types.is_null(type_):
        return pa.string()
    return type_
