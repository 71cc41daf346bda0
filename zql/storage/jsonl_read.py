"""The SQL that reads JSON Lines with DuckDB.

Two ways. `read_json` with the wanted columns parses each line once and unpacks only these keys; it
matches keys exactly. It cannot name the empty key, nor two keys that differ in case only: then
every line is read as one JSON value, and the keys are taken out of it by JSON pointers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zql.expr.sql import quote_identifier, quote_literal
from zql.schema import DataType, InputFile
from zql.storage import compression, contract, jsonl_checked, scan
from zql.storage.format import ReadColumn

LINE_BYTES = 1 << 24
"""Lines up to this length are always read: DuckDB's buffers, of twice this size, are no smaller."""
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
    arguments.append(f"maximum_object_size={max(options.get('max_line_bytes', 0), LINE_BYTES)}")
    if good(options):
        arguments.append("ignore_errors=true")
    arguments.append("hive_partitioning=false")
    if columns is None:
        return f"read_json_objects({', '.join(arguments)})"
    struct = ", ".join(f"{quote_identifier(n)}: {quote_literal(t)}" for n, t in columns.items())
    return f"read_json({', '.join(arguments)}, records=true, columns={{{struct}}})"


def good(options: Mapping[str, Any]) -> str:
    """A condition on the whole line `json` for lines that are read; empty when all must be.

    With `on_error` the types count that are `declared`.
    """
    skipped = options.get("on_error") == "skip"
    if not skipped and options.get("on_bad_line") != "skip":
        return ""
    conditions = ["json_type(json) = 'OBJECT'"]
    if skipped:
        conditions.append("len(json_keys(json)) = len(list_distinct(json_keys(json)))")
        conditions += declared_fits(options).values()
    return " AND ".join(conditions)


def declared_fits(options: Mapping[str, Any]) -> dict[str, str]:
    """For each column whose declared type is checked, whether the line `json` has such a value."""
    checked = {n: t for n, t in options.get("declared", {}).items() if contract.is_checked(t)}
    return {
        name: jsonl_checked.declared_fits(f"json_extract(json, {pointer(name)})", type_)
        for name, type_ in checked.items()
    }


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
    rest = options.get("rest")
    types = {c.source: c.type for c in columns if c.kind == "data" and c.source != rest}
    absent = [n for n in options.get("absent", ()) if types and n not in types]
    skip = bool(good(options))
    raw = (
        skip
        or not types
        or any(c.source == rest for c in columns)
        or unnameable([*types, *absent], virtual=scan.needs_file_index(columns, files))
    )
    cells = _cells([*types, *absent], raw=raw)
    checked = _checked(types, absent, cells, options, raw=raw)
    items = []
    for column in columns:
        if column.kind == "row":
            value = f"{'number' if skip else 'row_number() OVER ()'} - 1 + {first_row}"
        elif column.kind != "data":
            value = scan.file_value(column, files)
        elif column.source == rest:
            value = _rest(options)
        elif column.source in checked:
            value = checked[column.source]
        else:
            value = cells[column.source]
            value = _converted(value, column.type) if raw else value
        items.append(scan.as_alias(value, column))
    if raw:
        numbered = skip and any(column.kind == "row" for column in columns)
        source = f"({raw_cells(files, options, cells, numbered=numbered)})"
    else:
        read_as = types | dict.fromkeys([*checked, *absent], "JSON")
        read_as |= dict.fromkeys(_as_text(types, options), "VARCHAR")
        source = reader(files, options, read_as)
    return f"SELECT {', '.join(items) or '1'} FROM {source}"


def _cells(names: Sequence[str], *, raw: bool) -> dict[str, str]:
    """For each key the SQL of its value, as the source of the query has it."""
    return {name: f"r{i}" if raw else quote_identifier(name) for i, name in enumerate(names)}


def raw_cells(
    files: Sequence[InputFile],
    options: Mapping[str, Any],
    cells: Mapping[str, str],
    *,
    numbered: bool = False,
) -> str:
    """A SELECT of whole lines, of DuckDB's `file_index`, and of JSON values by keys.

    With `numbered` there is the `number` of the line too, which counts those that are left out.
    """
    items = ["json", "file_index"]
    for name, cell in cells.items():
        value = f"json_extract(json, {pointer(name)})"
        items.append(f"CASE WHEN CAST({value} AS VARCHAR) <> 'null' THEN {value} END AS {cell}")
    condition = good(options)
    where = f" WHERE {condition}" if condition else ""
    source = reader(files, options, None)
    if numbered:
        items.append("number")
        source = f"(SELECT json, file_index, row_number() OVER () AS number FROM {source})"
    return f"SELECT {', '.join(items)} FROM {source}{where}"


def _as_text(types: Mapping[str, DataType], options: Mapping[str, Any]) -> list[str]:
    """The sampled columns of text whose values need not be seen as JSON to be verified."""
    sampled = set(options.get("sampled", ())) - set(options.get("as_json", ()))
    return [name for name, type_ in types.items() if type_ == "VARCHAR" and name in sampled]


def _checked(
    types: Mapping[str, DataType],
    absent: Sequence[str],
    cells: Mapping[str, str],
    options: Mapping[str, Any],
    *,
    raw: bool,
) -> dict[str, str]:
    """The columns that are checked, and their values."""
    if "sampled" in options:
        texts = () if raw else _as_text(types, options)
        sampled = [
            jsonl_checked.Cell(name, cells[name], type_, name not in texts)
            for name, type_ in types.items()
            if name in options["sampled"]
        ]
        return jsonl_checked.sampled(sampled, [cells[name] for name in absent])
    if "columns" in options:
        wanted = {n: t for n, t in types.items() if contract.is_checked(t)}
        return {n: jsonl_checked.declared(n, cells[n], t) for n, t in wanted.items()}
    return {}


def _rest(options: Mapping[str, Any]) -> str:
    """The keys of a line that are no declared columns, as an object; NULL when there is none."""
    gone = quote_literal(json.dumps(dict.fromkeys(options["columns"])))
    left = f"json_merge_patch(json, {gone})"
    return f"CASE WHEN CAST({left} AS VARCHAR) <> '{{}}' THEN {left} END"


def _converted(value: str, type_: DataType) -> str:
    """A JSON value in the type of its column."""
    if type_ == "VARCHAR":
        return f"json_extract_string({value}, '$')"
    return value if type_ == "JSON" else f"CAST({value} AS {type_})"
