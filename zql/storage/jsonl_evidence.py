"""Evidence of the columns of JSON Lines files, found by DuckDB in one pass over every row.

Values are looked at as JSON text: the first character tells the kind, and only numbers are looked
at closer. Objects and lists get a second pass by `json_structure`; where that may hide an integer
that a DOUBLE would round, a third one walks the values in Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zql.expr.sql import quote_identifier, quote_literal
from zql.schema import InputFile
from zql.storage import inference, jsonl_read
from zql.storage.format import SqlEngine
from zql.storage.inference import Evidence

_AT_ONCE = 64
"""Columns of one query; more would make DuckDB's plan slow to make."""


def keys_of(
    files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
) -> dict[InputFile, list[str]]:
    """The top-level keys of each file in the order in which they first appear."""
    found: dict[InputFile, list[str]] = {}
    for run in jsonl_read.same_reader(files, options):
        rows = engine.rows(
            "SELECT file_index, json_keys(json) AS keys, json_type(json) AS kind "
            f"FROM {jsonl_read.reader(run, options, None)} "
            "GROUP BY ALL"
        )
        seen: dict[InputFile, dict[str, None]] = {f: {} for f in run}
        # DuckDB groups in no order: the longest list first gives the most natural one.
        for index, keys, _kind in sorted(rows, key=lambda r: (-len(r[1] or ()), r[1] or ())):
            seen[run[index]].update(dict.fromkeys(keys or ()))
        found |= {file: list(keys) for file, keys in seen.items()}
    return found


def evidence_of(
    files: Sequence[InputFile],
    options: Mapping[str, Any],
    engine: SqlEngine,
    keys: Sequence[str],
) -> dict[InputFile, dict[str, Evidence]]:
    """Evidence of some top-level keys, per file."""
    found: dict[InputFile, dict[str, Evidence]] = {f: {} for f in files}
    for run in jsonl_read.same_reader(files, options):
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            for file, evidence in _scalars(run, options, engine, some).items():
                found[file].update(evidence)
    for file, evidence in found.items():
        for key, one in evidence.items():
            if one.items is not None or one.fields is not None:
                nested = _nested([file], options, engine, key)
                evidence[key] = inference.merge(_without_nested(one), nested)
    return found


def _without_nested(e: Evidence) -> Evidence:
    return replace(e, items=None, fields=None)


def _values(run: Sequence[InputFile], options: Mapping[str, Any], keys: Sequence[str]) -> str:
    """A SELECT of `file_index` and the JSON texts of keys as `c0`, `c1`, ...; JSON null is NULL."""
    raw = jsonl_read.unnameable(keys, virtual=True) or options.get("on_bad_line") == "skip"
    if raw:
        paths = [jsonl_read.pointer(key) for key in keys]
        items = [
            f"nullif(CAST(json_extract(json, {p}) AS VARCHAR), 'null') AS c{i}"
            for i, p in enumerate(paths)
        ]
    else:
        items = [f"CAST({quote_identifier(key)} AS VARCHAR) AS c{i}" for i, key in enumerate(keys)]
    source = jsonl_read.reader(run, options, None if raw else dict.fromkeys(keys, "JSON"))
    where = " WHERE json_type(json) = 'OBJECT'" if options.get("on_bad_line") == "skip" else ""
    return f"SELECT file_index, {', '.join(items)} FROM {source}{where}"


# First characters of a JSON value, as code points.
_TEXT, _LIST, _OBJECT, _BOOLS = 34, 91, 123, "(116, 102)"
_NOT_NUMBERS = "(34, 91, 123, 116, 102)"
_AGGREGATES = (
    f"bool_or(k{{i}} IN {_BOOLS})",
    f"bool_or(k{{i}} = {_TEXT})",
    f"bool_or(k{{i}} = {_LIST})",
    f"bool_or(k{{i}} = {_OBJECT})",
    "min(x{i})",
    "max(x{i})",
    (
        f"bool_and(CASE WHEN x{{i}} BETWEEN -{inference.EXACT} AND {inference.EXACT} THEN true "
        "ELSE CAST(CAST(x{i} AS DOUBLE) AS HUGEINT) = x{i} END)"
    ),
    "count(d{i}) - count(x{i})",
    "count(f{i})",
    "max(strpos(f{i}, '.') - 1)",
    "max(strlen(f{i}) - strpos(f{i}, '.'))",
    "bool_or(regexp_matches(f{i}, '[eEnN]'))",
)


def _scalars(
    run: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine, keys: Sequence[str]
) -> dict[InputFile, dict[str, Evidence]]:
    count = range(len(keys))
    kinds = ", ".join(f"unicode(c{i}) AS k{i}, c{i}" for i in count)
    numbers = ", ".join(
        f"k{i}, CASE WHEN k{i} NOT IN {_NOT_NUMBERS} THEN c{i} END AS n{i}" for i in count
    )
    split = ", ".join(
        f"k{i}, CASE WHEN NOT regexp_matches(n{i}, '[.eEnN]') THEN n{i} END AS d{i}, "
        f"CASE WHEN regexp_matches(n{i}, '[.eEnN]') THEN n{i} END AS f{i}"
        for i in count
    )
    cast = ", ".join(f"k{i}, d{i}, TRY_CAST(d{i} AS HUGEINT) AS x{i}, f{i}" for i in count)
    sums = ", ".join(a.format(i=i) for i in count for a in _AGGREGATES)
    rows = engine.rows(
        f"SELECT file_index, {sums} FROM (SELECT file_index, {cast} FROM (SELECT file_index, "
        f"{split} FROM (SELECT file_index, {numbers} FROM (SELECT file_index, {kinds} FROM "
        f"({_values(run, options, keys)}))))) GROUP BY file_index"
    )
    found = {file: dict.fromkeys(keys, inference.NOTHING) for file in run}
    width = len(_AGGREGATES)
    for index, *values in rows:
        for i, key in enumerate(keys):
            found[run[index]][key] = _scalar(values[i * width : (i + 1) * width])
    return found


def _scalar(row: Sequence[Any]) -> Evidence:
    bools, texts, lists, objects, low, high, exact, huge, floats, digits, scale, odd = row
    return Evidence(
        bools=bool(bools),
        texts=bool(texts),
        int_min=low,
        int_max=high,
        ints_exact=exact is not False and not huge,
        huge=bool(huge),
        floats=bool(floats),
        float_digits=max(digits or 0, 0),
        float_scale=scale or 0 if floats else 0,
        float_plain=not odd,
        items=inference.NOTHING if lists else None,
        fields=() if objects else None,
    )


def _nested(
    files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine, key: str
) -> Evidence:
    """Evidence of the objects and lists of one key."""
    values = f"({_values(files, options, [key])})"
    # A number of 16 digits or more beside floats may not be exact; texts may look like one, which
    # costs time and nothing else.
    rows = engine.rows(
        "SELECT s, bool_or(risky) FROM (SELECT CAST(json_structure(c0) AS VARCHAR) AS s, "
        f"regexp_matches(c0, '[0-9]{{16}}') AS risky FROM {values} "
        f"WHERE unicode(c0) IN ({_LIST}, {_OBJECT})) GROUP BY s"
    )
    structures = [json.loads(s) for s, _ in rows]
    if any(risky for _, risky in rows) or any(_mixes(s) for s in structures):
        texts = engine.rows(f"SELECT c0 FROM {values} WHERE unicode(c0) IN ({_LIST}, {_OBJECT})")
        return inference.merge_all(inference.of_value(_exactly(t)) for (t,) in texts)
    return inference.merge_all(map(inference.of_structure, structures))


def _mixes(structure: Any) -> bool:
    """Whether DuckDB gave up on a part: it says JSON for scalars of different kinds."""
    if isinstance(structure, list):
        return any(map(_mixes, structure))
    if isinstance(structure, dict):
        return any(map(_mixes, structure.values()))
    return bool(structure == "JSON")


def _exactly(text: str) -> Any:
    return json.loads(text, parse_float=inference.Number, parse_constant=inference.Number)


def literal_keys(keys: Sequence[str]) -> str:
    """A SQL list of keys."""
    return "[" + ", ".join(map(quote_literal, keys)) + "]"
