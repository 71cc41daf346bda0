"""Types of the columns of delimited text, from every row.

A column is a number only when each of its values is a plain number: no leading zero, no sign but a
minus, no exponent, nothing that would be lost. `00123`, `1e5`, `3,14` keep their text, and so does
every other value of their column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zql.schema import DataType, InputFile
from zql.storage import compression, delimited_read, inference, scan, schema_cache
from zql.storage.format import SqlEngine
from zql.storage.inference import Evidence

_WHOLE = "'(0|-?[1-9][0-9]*)'"
_FRACTION = r"'-?(0|[1-9][0-9]*)\.[0-9]+'"
_AGGREGATES = (
    "count(CASE WHEN k{i} = 0 THEN 1 END)",
    "count(CASE WHEN k{i} = 3 THEN 1 END)",
    "min(x{i})",
    "max(x{i})",
    "count(CASE WHEN k{i} = 1 AND x{i} IS NULL THEN 1 END)",
    "count(CASE WHEN k{i} = 2 THEN 1 END)",
    (
        "count(CASE WHEN k{i} = 2 AND strlen(c{i}) > 16 "
        "AND CAST(TRY_CAST(c{i} AS DOUBLE) AS VARCHAR) <> c{i} THEN 1 END)"
    ),
)


def same_reader(
    files: Sequence[InputFile],
    headers: Mapping[InputFile, Sequence[str]],
    options: Mapping[str, Any],
    *,
    apart: bool = False,
) -> list[list[InputFile]]:
    """The files in runs that one reader can take; each for itself when `apart`."""
    option = options.get("compression")
    if apart:
        return [[file] for file in files]
    return scan.runs(
        files,
        lambda f: (bool(f.local), compression.chosen(f.path, option).name, headers[f]),
    )


_READER_OPTIONS = (
    "delimiter", "quote", "escape", "header", "null_str", "encoding", "null_padding",
    "strict_mode", "compression", "on_error", "declared",
)  # fmt: skip


def types_of(
    files: Sequence[InputFile],
    headers: Mapping[InputFile, Sequence[str]],
    columns: Sequence[str],
    options: Mapping[str, Any],
    engine: SqlEngine,
) -> dict[str, DataType]:
    """The types of some columns over all files; only what the cache does not tell is looked up."""
    reader = schema_cache.fingerprint(options, _READER_OPTIONS)
    known = {}
    lacking: dict[tuple[str, ...], list[InputFile]] = {}
    for file in files:
        known[file] = replace(schema_cache.load(file, reader), keys=tuple(headers[file]))
        lacked = known[file].lacks(columns)
        if lacked:
            lacking.setdefault(tuple(lacked), []).append(file)
    for lacked_columns, group in lacking.items():
        for run in same_reader(group, headers, options):
            found = _evidence(run, headers[run[0]], lacked_columns, options, engine)
            for file, evidence in found.items():
                known[file] = known[file].with_columns(evidence)
                schema_cache.save(file, reader, known[file])
    return {
        name: type_of(
            inference.merge_all(known[f].columns.get(name, inference.NOTHING) for f in files)
        )
        for name in columns
    }


def type_of(e: Evidence) -> DataType:
    """As in JSON, but a column that is neither BOOLEAN nor all numbers of one kind is text."""
    found = inference.type_of(e)
    return "VARCHAR" if found.startswith("DECIMAL") else found


def _evidence(
    run: Sequence[InputFile],
    names: Sequence[str],
    columns: Sequence[str],
    options: Mapping[str, Any],
    engine: SqlEngine,
) -> dict[InputFile, dict[str, Evidence]]:
    places = [names.index(name) for name in columns]
    kinds = ", ".join(
        f"c{i}, CASE WHEN regexp_full_match(c{i}, {_WHOLE}) THEN 1 "
        f"WHEN regexp_full_match(c{i}, {_FRACTION}) THEN 2 "
        f"WHEN c{i} IN ('true', 'false') THEN 3 WHEN c{i} IS NOT NULL THEN 0 END AS k{i}"
        for i in places
    )
    numbers = ", ".join(
        f"c{i}, k{i}, CASE WHEN k{i} = 1 THEN TRY_CAST(c{i} AS HUGEINT) END AS x{i}" for i in places
    )
    sums = ", ".join(a.format(i=i) for i in places for a in _AGGREGATES)
    source = delimited_read.good_rows(run, names, options)
    rows = engine.rows(
        f"SELECT file_index, {sums} FROM (SELECT file_index, {numbers} FROM "
        f"(SELECT file_index, {kinds} FROM {source})) GROUP BY file_index"
    )
    width = len(_AGGREGATES)
    found = {file: dict.fromkeys(columns, inference.NOTHING) for file in run}
    for index, *values in rows:
        for i, name in enumerate(columns):
            found[run[index]][name] = _one(values[i * width : (i + 1) * width])
    return found


def _one(row: Sequence[Any]) -> Evidence:
    texts, bools, low, high, huge, floats, lossy = row
    exact = all(abs(n or 0) <= inference.EXACT for n in (low, high))
    return Evidence(
        bools=bool(bools),
        texts=bool(texts or lossy),
        int_min=low,
        int_max=high,
        ints_exact=exact and not huge,
        huge=bool(huge),
        floats=bool(floats),
    )
