"""Parquet: typed columns in row groups, described by a footer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zql.errors import StorageError
from zql.expr.sql import quote_identifier
from zql.schema import DataType, Field, InputFile, Schema
from zql.storage import remote, scan
from zql.storage.files import shown
from zql.storage.format import (
    Copy,
    ReadColumn,
    RowWriter,
    Sample,
    Source,
    Split,
    SqlEngine,
    WriteColumn,
)
from zql.storage.options import FOR_ALL_READERS
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa


_MOST_PIECES = 16
_VECTOR = 2048
"""Rows that DuckDB reads at a time, or passes over."""


class ParquetFormat:
    """See the module."""

    name = "parquet"
    suffixes: tuple[str, ...] = (".parquet", ".pq", ".parq")
    writes_columns = True
    read_options: Mapping[str, str] = FOR_ALL_READERS
    write_options: Mapping[str, str] = {
        "compression": "VARCHAR",
        "compression_level": "BIGINT",
        "row_group_size": "BIGINT",
    }

    def schema(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        engine: SqlEngine,
        columns: Sequence[str] | None = None,
    ) -> Schema:
        """See `Format`; read from the footers alone."""
        from zql.storage import widening

        tables = _footers(files, engine)
        merged: dict[str, str] = {}
        for file in files:
            for field in tables[file.path]:
                known = merged.get(field.name)
                merged[field.name] = widening.widest(known, field.type) if known else field.type
        wanted = merged if columns is None else [n for n in merged if n in set(columns)]
        return Schema(tuple(Field(name, merged[name]) for name in wanted))

    def sample(
        self, files: Sequence[InputFile], options: Mapping[str, Any], columns: Sequence[str]
    ) -> Sample | None:
        """See `Format`: there is none."""
        return None

    def confirm(
        self, files: Sequence[InputFile], options: Mapping[str, Any], types: Mapping[str, DataType]
    ) -> None:
        """See `Format`: nothing is sampled."""

    def hints(self, files: Sequence[InputFile], options: Mapping[str, Any]) -> dict[str, Any]:
        """See `Format`: none."""
        return {}

    def splits(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        target_bytes: int,
        engine: SqlEngine,
    ) -> list[Split]:
        """See `Format`: spans of row groups, given as rows."""
        if not files:
            return []
        rows = engine.rows(
            "SELECT file_name, row_group_id, row_group_num_rows, "
            "coalesce(row_group_compressed_bytes, row_group_bytes) "
            f"FROM parquet_metadata({scan.path_list(files)}) WHERE column_id = 0 ORDER BY ALL"
        )
        groups: dict[str, list[tuple[int, int]]] = {}
        for name, _, count, size in rows:
            groups.setdefault(remote.key(name), []).append((count, size))
        return [s for f in files for s in _spans(f, groups.get(_key(f), []), target_bytes)]

    def why_whole(self, file: InputFile, options: Mapping[str, Any]) -> str:
        """See `Format`: it can be cut."""
        return ""

    def halves(self, split: Split, options: Mapping[str, Any]) -> tuple[Split, Split] | None:
        """See `Format`: between rows."""
        if split.start is None or split.stop is None or split.stop - split.start <= 1:
            return None
        middle = (split.start + split.stop) // 2
        return replace(split, stop=middle), replace(split, start=middle)

    @contextmanager
    def opened(
        self,
        source: Source,
        options: Mapping[str, Any],
        *,
        number_rows: bool = False,
    ) -> Iterator[Source]:
        """See `Format`: DuckDB reads Parquet as it is."""
        yield source

    def scan_sql(
        self,
        source: Source,
        columns: Sequence[ReadColumn],
        options: Mapping[str, Any],
        engine: SqlEngine,
    ) -> str:
        """See `Format`."""
        columns = scan.with_kinds(columns, options)
        found = scan.files_of(source)
        if not found:
            return scan.empty(columns)
        tables = _footers(found, engine)
        span = (source.start, source.stop) if isinstance(source, Split) else (None, None)
        numbers = any(c.kind in ("row", "place") for c in columns)
        apart = numbers or scan.needs_file_index(columns, found)
        runs = scan.runs(found, lambda f: (tables[f.path], apart and _hides(tables[f.path]) and f))
        selects, before = [], 0
        for run in runs:
            selects.append(_select(run, before, tables[run[0].path], columns, span))
            before += len(run)
        return scan.union_all(selects)

    def output_sql(
        self,
        query: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
    ) -> str:
        """See `Format`."""
        from zql.storage import parquet_write

        return parquet_write.output_sql(query, columns)

    def copy(
        self,
        query: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> Copy | None:
        """See `Format`: none, since COPY's row groups depend on its threads."""
        return None

    def writer(
        self,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        compression: str | None,
    ) -> RowWriter:
        """See `Format`."""
        from zql.storage import parquet_write

        return parquet_write.ParquetWriter(path, columns, schema, options, compression)

    def concatenate(
        self,
        parts: Sequence[str],
        target: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> None:
        """See `Format`: row groups are copied as they are."""
        from zql.storage import parquet_join

        parquet_join.concatenate(parts, target)

    def part_compression(self, compression: str | None) -> str | None:
        """See `Format`."""
        return compression

    def explain_failure(
        self, files: Sequence[InputFile], options: Mapping[str, Any], message: str
    ) -> StorageError | None:
        """See `Format`."""
        from zql.storage import failures

        named = failures.suspects(files, message)
        if len(named) == len(files) and len(files) > 1:
            return None
        if not any(word in message for word in _DAMAGE):
            return None
        reason = (
            message.split("\n", maxsplit=1)[0].partition("Error: ")[2]
            or message.split("\n", maxsplit=1)[0]
        )
        return StorageError(
            f"{shown(named[0].path)} is no Parquet file, or a damaged one: {reason}",
            code="R723",
            hint="the file may not have been written to its end",
        )


_DAMAGE = ("magic", "footer", "Footer", "too small", "TProtocol", "Parquet", "parquet", "corrupt")


@node
class _Column:
    """A top-level column of a file: its own name, DuckDB's name for it, DuckDB's type."""

    name: str
    duckdb_name: str
    type: str


_MOST_ROWS = 1 << 40
"""More than a file has: what one file is more than the one before in the places of rows."""


def _hides(table: tuple[_Column, ...]) -> bool:
    """Whether columns of a file have the names of DuckDB's own, which are then not to be had."""
    return any(c.name.lower() in {"file_index", "file_row_number"} for c in table)


_known: dict[InputFile, tuple[_Column, ...]] = {}
_MOST_KNOWN = 10_000


def _footers(inputs: Sequence[InputFile], engine: SqlEngine) -> dict[str, tuple[_Column, ...]]:
    """The top-level columns of each file by its path; each version of a file is read once."""
    unknown = [file for file in inputs if file not in _known or not file.version]
    if unknown:
        rows = engine.rows(
            "SELECT file_name, name, duckdb_type, num_children, column_id "
            f"FROM parquet_schema({scan.path_list(unknown)}) ORDER BY file_name, column_id"
        )
        by_name: dict[str, list[tuple[str, str, int | None]]] = {}
        for name, column, type_, children, _ in rows:
            by_name.setdefault(remote.key(name), []).append((column, type_, children))
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        _known.update((file, _top_level(file, by_name.get(_key(file), []))) for file in unknown)
    return {file.path: _known[file] for file in inputs}


def _key(file: InputFile) -> str:
    return remote.key(file.local or file.path)


def _top_level(file: InputFile, rows: Sequence[tuple[str, str, int | None]]) -> tuple[_Column, ...]:
    found: list[_Column] = []
    taken: set[str] = set()
    skip = 0
    for name, type_, children in rows[1:]:
        if skip:
            skip += (children or 0) - 1
            continue
        skip = children or 0
        if any(c.name == name for c in found):
            raise StorageError(
                f'{shown(file.path)} has two columns named "{name}"',
                code="R724",
                hint="write the file again with names that differ",
            )
        duckdb_name = _free(name, taken)
        taken.add(duckdb_name.lower())
        found.append(_Column(name, duckdb_name, type_))
    return tuple(found)


def _free(name: str, taken: set[str]) -> str:
    """DuckDB's name for a column when earlier ones have the same name but for case."""
    candidate, number = name, 0
    while candidate.lower() in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _select(
    run: Sequence[InputFile],
    before: int,
    table: tuple[_Column, ...],
    columns: Sequence[ReadColumn],
    span: tuple[int | None, int | None],
) -> str:
    """SQL that reads files with the same columns; `before` is how many come before them."""
    own_numbers = any(c.name.lower() == "file_row_number" for c in table)
    items = [scan.as_alias(_value(c, run, before, table, own_numbers), c) for c in columns]
    select = f"SELECT {', '.join(items) or '1'} FROM "
    select += f"read_parquet({scan.path_list(run)}, hive_partitioning=false)"
    start, stop = span
    if start is None or stop is None:
        return select
    if own_numbers:  # DuckDB's own column is hidden; a limit is the slower way to the same rows
        return f"(SELECT * FROM ({select}) LIMIT {stop - start} OFFSET {start})"
    return f"{select} WHERE file_row_number >= {start} AND file_row_number < {stop}"


def _value(
    column: ReadColumn,
    run: Sequence[InputFile],
    before: int,
    table: tuple[_Column, ...],
    own_numbers: bool,
) -> str:
    row = "row_number() OVER () - 1" if own_numbers else "file_row_number"
    if column.kind == "row":
        return row
    if column.kind == "place":
        file = str(before) if len(run) == 1 else f"(CAST(file_index AS BIGINT) + {before})"
        return f"{file} * {_MOST_ROWS} + {row}"
    if column.kind != "data":
        return scan.file_value(column, run)
    own = next((c for c in table if c.name == column.source), None)
    if own is None:
        return f"CAST(NULL AS {column.type})"
    value = quote_identifier(own.duckdb_name)
    if own.type == column.type:
        return value
    return f"to_json({value})" if column.type == "JSON" else f"CAST({value} AS {column.type})"


def _spans(file: InputFile, groups: Sequence[tuple[int, int]], target_bytes: int) -> list[Split]:
    """Row groups up to `target_bytes` together, and bigger ones in pieces.

    Who reads a piece passes over the rows before it, which is cheaper than to read them, and is
    not done too often.
    """
    found, start, stop, size = [], 0, 0, 0
    for count, group_bytes in groups:
        pieces = min(group_bytes // target_bytes, _MOST_PIECES, -(-count // _VECTOR))
        if pieces > 1:
            if stop > start:
                found.append(Split(file, start, stop))
            rows = -(-count // pieces)
            rows = -(-rows // _VECTOR) * _VECTOR
            ends = [*range(stop + rows, stop + count, rows), stop + count]
            starts = [stop, *ends[:-1]]
            found += [Split(file, *span) for span in zip(starts, ends, strict=True)]
            start = stop = stop + count
            size = 0
            continue
        stop += count
        size += group_bytes
        if size >= target_bytes:
            found.append(Split(file, start, stop))
            start, size = stop, 0
    if stop > start or not found:
        found.append(Split(file, start, stop))
    return found
