"""Writing Parquet with pyarrow: row groups of a fixed number of rows, the same bytes on every run.

DuckDB's own COPY cuts row groups where its threads happen to end, so it is not used.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from zql.errors import StorageError, UsageError, did_you_mean, nearest
from zql.expr.sql import quote_identifier
from zql.schema import DataType
from zql.storage import parquet_bounds, parquet_join
from zql.storage.format import BatchWriter, WriteColumn
from zql.storage.threads import Threads

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 20_480
_BLOCK_ROWS = 1024
_MIB = 1 << 20
_ROOM = 1.25
"""How much larger than in memory a row group may be in its file before new memory is taken."""
_GROUP_BYTES = 256 << 20
"""A row group with this much in it ends, however few rows it has."""
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


class ParquetWriter(BatchWriter):
    """Writes batches; see `RowWriter`.

    Rows are collected in blocks, blocks in row groups: of a fixed number of rows, or fewer where
    they hold very much. Each group is encoded by a thread as a file of its own, and joined. Nothing
    in the file depends on how the rows were cut when they came, since blocks always begin at the
    same rows; they are copied only where one has rows of several batches.
    """

    def __init__(
        self,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        compression: str | None,
    ) -> None:
        import pyarrow as pa

        self.rows = 0
        if not columns:
            raise StorageError("a Parquet file needs at least one column", code="R728")
        fields = zip(columns, schema, strict=True)
        self._schema = pa.schema([pa.field(c.name, _arrow_type(f.type, c)) for c, f in fields])
        paths = parquet_bounds.leaves(self._schema)
        self._encode = partial(_encoded, self._schema, _page_options(options, compression), paths)
        self._group_rows = int(options.get("row_group_size", ROW_GROUP_ROWS))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._blocks: list[pa.RecordBatch] = []
        self._group_bytes = 0
        self._file = open(path, "wb")  # noqa: SIM115
        self._joiner = parquet_join.Joiner(self._file)
        self._threads = Threads()
        self._encoded: deque[Future[pa.Buffer]] = deque()
        self._spare: list[pa.Buffer] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """See `RowWriter`."""
        self.rows += batch.num_rows
        batch = _without_dictionaries(batch)
        start = 0
        while start < batch.num_rows:
            room = self._block_rows() - self._waiting_rows
            part = batch.slice(start, room)
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            start += part.num_rows
            if self._waiting_rows == self._block_rows():
                self._end_block()

    def _block_rows(self) -> int:
        done: int = sum(block.num_rows for block in self._blocks)
        return min(_BLOCK_ROWS, self._group_rows - done)

    def _end_block(self) -> None:
        block = _one_batch(self._waiting) if self._waiting[1:] else self._waiting[0]
        self._waiting, self._waiting_rows = [], 0
        self._blocks.append(block)
        self._group_bytes += block.nbytes
        full = sum(b.num_rows for b in self._blocks) >= self._group_rows
        if full or self._group_bytes >= _GROUP_BYTES:
            self._end_group()

    def _end_group(self) -> None:
        spare = self._spare.pop() if self._spare else None
        self._encoded.append(self._threads.submit(self._encode, self._blocks, spare))
        self._blocks, self._group_bytes = [], 0
        if self._threads.waiting(len(self._encoded)):
            self._join(self._encoded.popleft().result())

    def _join(self, group: pa.Buffer) -> None:
        import pyarrow as pa

        self._joiner.append(pa.BufferReader(group))
        self._spare.append(group if group.parent is None else group.parent)

    def close(self) -> None:
        """See `RowWriter`."""
        with self._file:
            try:
                if self._waiting:
                    self._end_block()
                if self._blocks:
                    self._end_group()
                if not self.rows:
                    self._join(self._encode([], None))
                while self._encoded:
                    self._join(self._encoded.popleft().result())
            finally:
                self._threads.close()
            self._joiner.finish()
            self._file.flush()
            os.fsync(self._file.fileno())

    def abandon(self) -> None:
        """See `BatchWriter`."""
        self._threads.close()
        with suppress(OSError):  # what is buffered may not fit on the disk
            self._file.close()


def _page_options(options: Mapping[str, Any], compression: str | None) -> dict[str, Any]:
    kind = page_compression(compression)
    level = options.get("compression_level", _LEVELS.get(kind))
    return {
        "compression": kind,
        "compression_level": level if kind in _LEVELS else None,
        "store_schema": False,
        "write_page_index": True,
    }


def _encoded(
    schema: pa.Schema,
    options: Mapping[str, Any],
    paths: Sequence[tuple[str, bool]],
    blocks: list[pa.RecordBatch],
    spare: pa.Buffer | None,
) -> pa.Buffer:
    """A Parquet file of one row group, or of none; the blocks are used up.

    It is put into `spare` memory if that is large enough: new memory costs as much as packing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_batches([_cast(block, schema) for block in blocks], schema)
    blocks.clear()
    group = partial(
        pq.write_table,
        table,
        row_group_size=max(table.num_rows, 1),
        write_statistics=parquet_bounds.bounded(paths, table),
        **options,
    )
    most = int(table.nbytes * _ROOM) + _MIB
    if spare is None or spare.size < most:
        spare = pa.allocate_buffer(most)
    try:
        out = pa.FixedSizeBufferWriter(spare)
        group(out)
        return spare.slice(0, out.tell())
    except OSError:  # types that are smaller in memory than packed
        grown = pa.BufferOutputStream()
        group(grown)
        return grown.getvalue()


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    # `cast` loads pyarrow.compute, which takes a while.
    pairs = zip(batch.columns, schema, strict=True)
    arrays = [a if a.type == f.type else a.cast(f.type) for a, f in pairs]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows in memory of their own, so that nothing of it depends on how they were cut."""
    import pyarrow as pa

    columns = range(batches[0].num_columns)
    arrays = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=batches[0].schema)


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Texts as texts: the dictionaries of two batches may differ."""
    import pyarrow as pa

    if not any(map(pa.types.is_dictionary, batch.schema.types)):
        return batch
    plain = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(plain, names=batch.schema.names)


def _arrow_type(type_: pa.DataType, column: WriteColumn) -> pa.DataType:
    import pyarrow as pa

    if stored_type(column.type) == "JSON" and hasattr(pa, "json_"):
        return pa.json_(pa.utf8())
    if pa.types.is_dictionary(type_):
        return type_.value_type
    if pa.types.is_null(type_):
        return pa.string()
    return type_
