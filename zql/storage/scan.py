"""Pieces of SQL that the readers of all formats share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

from zql.errors import UsageError
from zql.expr.sql import quote_identifier, quote_literal
from zql.schema import DataType, InputFile
from zql.storage import hive, patterns
from zql.storage.format import ReadColumn, Source, Split, SqlEngine
from zql.storage.remote import shown

T = TypeVar("T")


def files_of(source: Source) -> tuple[InputFile, ...]:
    """The files of a source; one for a split."""
    return (source.file,) if isinstance(source, Split) else tuple(source)


def place(split: Split) -> str:
    """A file and which part of it, for people."""
    name = shown(split.file.path)
    if split.part:
        return f"{name}, part {(split.start or 0) + 1:,}"
    return name if not split.start else f"{name} (from {split.start:,} on)"


def duckdb_path(file: InputFile) -> str:
    """The name by which DuckDB opens exactly this file, in quotes: its own globbing finds it."""
    path = file.local or file.path
    if patterns.has_magic(path):
        path = patterns.escape(path.replace("\\", "\\\\"))
    return quote_literal(path)


def path_list(files: Iterable[InputFile]) -> str:
    """A SQL list of the files' names."""
    return "[" + ", ".join(duckdb_path(f) for f in files) + "]"


def runs(files: Sequence[T], key: Callable[[T], object]) -> list[list[T]]:
    """Neighbours with the same key, in order."""
    return [list(group) for _, group in groupby(files, key)]


def union_all(selects: Sequence[str]) -> str:
    """The rows of all, in order, as one parenthesised SELECT."""
    return "(" + " UNION ALL ".join(selects) + ")"


def per_file(values: Sequence[str | None], type_: DataType = "VARCHAR") -> str:
    """An expression that is the value of the row's file; needs DuckDB's `file_index`."""
    literals = ["NULL" if v is None else quote_literal(v) for v in values]
    if len(set(literals)) == 1:
        return f"CAST({literals[0]} AS {type_})"
    listed = ", ".join(literals)
    return f"list_extract(CAST([{listed}] AS {type_}[]), CAST(file_index AS BIGINT) + 1)"


VIRTUAL = {"filename": "filename", "file_row_number": "row"}
"""Names of columns that are not in the files, and their kinds."""


def with_kinds(columns: Sequence[ReadColumn], options: Mapping[str, Any]) -> tuple[ReadColumn, ...]:
    """The columns, those that an option (`filename => true`) put among the others told apart."""
    asked = {name: kind for name, kind in VIRTUAL.items() if options.get(name)}
    return tuple(
        replace(c, kind=asked[c.source]) if c.kind == "data" and c.source in asked else c
        for c in columns
    )


def needs_file_index(columns: Sequence[ReadColumn], files: Sequence[InputFile]) -> bool:
    """Whether the columns take values that differ from file to file."""
    return len(files) > 1 and any(c.kind in {"filename", "hive"} for c in columns)


def file_value(column: ReadColumn, files: Sequence[InputFile]) -> str:
    """The SQL of a column of kind `filename` or `hive`."""
    if column.kind == "filename":
        return per_file([f.path for f in files])
    return per_file([hive.folder_values(f.path).get(column.source) for f in files])


def as_alias(expression: str, column: ReadColumn) -> str:
    """`expression AS "alias"`."""
    return f"{expression} AS {quote_identifier(column.alias)}"


def canonical_types(
    columns: Mapping[str, str], engine: SqlEngine, option: str = "columns"
) -> dict[str, DataType]:
    """The types of a `columns` option in DuckDB's words; `UsageError` for one that is none.

    The user's text reaches DuckDB as data only.
    """
    if not columns:
        return {}
    calls = [
        f"typeof(json_transform('null', {quote_literal(json.dumps(t))}))" for t in columns.values()
    ]
    try:
        found = engine.rows(f"SELECT {', '.join(calls)}")[0]
    except Exception as error:  # noqa: BLE001  the engine has its own errors
        if len(columns) == 1:
            [(name, text)] = columns.items()
            raise UsageError(
                f'option "{option}": "{text}" is no type, for column "{name}"',
                code="U613",
                notes=(getattr(error, "message", str(error)).splitlines()[0],),
            ) from None
        # One by one, to find the one that is wrong.
        found = tuple(canonical_types({n: t}, engine, option)[n] for n, t in columns.items())
    return dict(zip(columns, map(str, found), strict=True))


def with_declared(options: Mapping[str, Any], engine: SqlEngine) -> Mapping[str, Any]:
    """The options; with the `declared` types in DuckDB's words, when rows are passed over."""
    if options.get("on_error") != "skip":
        return options
    types = canonical_types(options.get("columns", {}), engine)
    types |= canonical_types(options.get("types", {}), engine, "types")
    return {**options, "declared": types}


def empty(columns: Sequence[ReadColumn]) -> str:
    """A SELECT without rows."""
    items = ", ".join(as_alias(f"CAST(NULL AS {c.type})", c) for c in columns) or "1"
    return f"(SELECT {items} WHERE false)"


def options_without(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options but for these."""
    return {k: v for k, v in options.items() if k not in names}
