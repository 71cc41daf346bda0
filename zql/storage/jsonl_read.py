"""The SQL that reads JSON Lines with DuckDB.

Two ways. `read_json` with the wanted columns parses each line once and unpacks only these keys; it
matches keys exactly. It cannot name the empty key, nor two keys that differ in case only: then
every line is read as one JSON value, and the keys are taken out of it by JSON pointers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zql.expr.sql import quote_identifier, quote_literal
from zql.schema import DataType, InputFile
from zql.storage import compression, jsonl_checked, scan
from zql.storage.format import ReadColumn

LINE_BYTES = 16 * 2**20
"""The longest line that is read without being told of longer ones."""
_VIRTUAL = {"file_index", "filename"}


def unnameable(names: Sequence[str], *, virtual: bool = False) -> bool:
    """Whether DuckDB's reader cannot have these keys as columns side by side.

    `virtual`: the query uses a virtual column of DuckDB, which a key of that name would hide.
    """
    folded = {name.lower() for name in names}
    hidden = virtual and bool(folded & _VIRTUAL)
    return hidden or len(folded) < len(names) or any(not n or "\0" in n for n in names)


def pointer(key: str) -> str:
    """The JSON pointer of a top-level key, as SQL."""
    return quote_literal("/" + key.replace("~", "~0").replace("/", "~1"))


def reader(
    files: Sequence[InputFile], options: Mapping[str, Any], columns: Mapping[str, DataType] | None
) -> str:
    """A call of DuckDB's reader: these columns, or one column `json` for the whole line.

    All files must have the same compression.
    """
    arguments = [scan.path_list(files), "format='newline_delimited'"]
    kind = compression.chosen(files[0].path, options.get("compression")).duckdb or "none"
    arguments.append(f"compression={quote_literal('none' if files[0].local else kind)}")
    arguments.append(f"maximum_object_size={options.get('max_line_bytes', LINE_BYTES)}")
    if options.get("on_bad_line") == "skip":
        arguments.append("ignore_errors=true")
    arguments.append("hive_partitioning=false")
    if columns is None:
        return f"read_json_objects({', '.join(arguments)})"
    struct = ", ".join(f"{quote_identifier(n)}: {quote_literal(t)}" for n, t in columns.items())
    return f"read_json({', '.join(arguments)}, records=true, columns={{{struct}}})"


def same_reader(files: Sequence[InputFile], options: Mapping[str, Any]) -> list[list[InputFile]]:
    """The files in runs that one reader can take."""
    option = options.get("compression")
    return scan.runs(files, lambda f: (bool(f.local), compression.chosen(f.path, option).name))


def select(
    files: Sequence[InputFile],
    columns: Sequence[ReadColumn],
    options: Mapping[str, Any],
    first_row: int = 0,
) -> str:
    """A SELECT over files of one run, or one file when rows are numbered."""
    types = {c.source: c.type for c in columns if c.kind == "data"}
    checked = _checked(types, options)
    absent = [n for n in options.get("absent", ()) if types and n not in types]
    names = [*types, *absent]
    raw = (
        not types
        or unnameable(names, virtual=scan.needs_file_index(columns, files))
        or options.get("on_bad_line") == "skip"
        or any(c.type != types[c.source] for c in columns if c.kind == "data")
    )
    items = []
    for column in columns:
        if column.kind == "row":
            value = f"row_number() OVER () - 1 + {first_row}"
        elif column.kind != "data":
            value = scan.file_value(column, files)
        elif raw:
            value = extracted(column)
        else:
            value = checked.get(column.source) or quote_identifier(column.source)
        items.append(scan.as_alias(value, column))
    read_as = types | dict.fromkeys([*checked, *absent], "JSON")
    source = reader(files, options, None if raw else read_as)
    where = " WHERE json_type(json) = 'OBJECT'" if options.get("on_bad_line") == "skip" else ""
    return f"SELECT {', '.join(items) or '1'} FROM {source}{where}"


def _checked(types: Mapping[str, DataType], options: Mapping[str, Any]) -> dict[str, str]:
    """The columns that are read as JSON, and their checked values."""
    if "sampled" in options:
        sampled = [(n, t) for n, t in types.items() if n in options["sampled"]]
        absent = [n for n in options.get("absent", ()) if n not in types]
        return jsonl_checked.sampled(sampled, absent)
    if "columns" in options:
        wanted = {n: t for n, t in types.items() if jsonl_checked.is_checked(t)}
        return {n: jsonl_checked.declared(n, t) for n, t in wanted.items()}
    return {}


def extracted(column: ReadColumn) -> str:
    """A key taken out of the whole line, in the column's type."""
    path = pointer(column.source)
    if column.type == "VARCHAR":
        return f"json_extract_string(json, {path})"
    value = f"json_extract(json, {path})"
    value = f"CASE WHEN json_type(json, {path}) <> 'NULL' THEN {value} END"
    return value if column.type == "JSON" else f"CAST({value} AS {column.type})"
