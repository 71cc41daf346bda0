"""Evidence of the columns of JSON Lines files, found by DuckDB in one pass over every row.

Values are looked at as JSON text: the first character tells the kind, and only numbers are looked
at closer. Objects and lists get a second pass by `json_structure`; where that may hide an integer
that a DOUBLE would round, a third one walks the values in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from zql.errors import StorageError
from zql.expr.sql import quote_identifier
from zql.schema import InputFile
from zql.storage import inference, jsonl_failures, jsonl_read, schema_cache
from zql.storage.files import shown
from zql.storage.format import SqlEngine
from zql.storage.inference import Evidence
from zql.storage.schema_cache import Known

_AT_ONCE = 64
"""Columns of one query; more would make DuckDB's plan slow to make."""
LINE_BYTES = (jsonl_read.LINE_BYTES, 1 << 27, 1 << 30)
"""Line lengths that are tried one after the other: longer ones cost memory."""
READER_OPTIONS = ("compression", "on_bad_line", "on_error", "sample_size")
"""The options that decide what is seen of a file."""
MOST_KEYS = 10_000
"""Files with more different keys than this are not taken for tables."""


def known_of(
    files: Sequence[InputFile],
    options: Mapping[str, Any],
    engine: SqlEngine,
    names: Sequence[str] | None,
    *,
    keys: bool = False,
) -> dict[InputFile, Known]:
    """What must be known of each file for a schema of `names`, or of all keys when None.

    With `keys` the list of all keys is looked up in any case. Only what the cache does not tell is
    looked up, in all rows.
    """
    reader = schema_cache.fingerprint(options, READER_OPTIONS)
    known = {file: schema_cache.load(file, reader) for file in files}
    changed: set[InputFile] = set()
    if names is None or keys:
        lacking = [file for file in files if known[file].keys is None]
        for file, (found, rows, line_bytes) in _keys_of(lacking, options, engine).items():
            known[file] = replace(known[file], keys=found, rows=rows, line_bytes=line_bytes)
            changed.add(file)
    if names is None:
        names = list(dict.fromkeys(key for file in files for key in known[file].keys or ()))
    if len(names) > MOST_KEYS:
        raise StorageError(
            f"{shown(files[0].path)} and its like have {len(names)} different keys",
            code="R724",
            hint="name the columns to read: read_json('..', columns => {name: 'VARCHAR', ...})",
        )
    for lacked, group in _grouped(files, known, names):
        evidence, line_bytes = _evidence_of(group, options, engine, lacked)
        for file, columns in evidence.items():
            known[file] = replace(known[file].with_columns(columns), line_bytes=line_bytes)
            changed.add(file)
    for file in changed:
        schema_cache.save(file, reader, known[file])
    return known


def _grouped(
    files: Sequence[InputFile], known: Mapping[InputFile, Known], names: Sequence[str]
) -> list[tuple[list[str], list[InputFile]]]:
    """The files by the columns that they lack, so that one query serves many."""
    found: dict[tuple[str, ...], list[InputFile]] = {}
    for file in files:
        lacked = tuple(known[file].lacks(names))
        if lacked:
            found.setdefault(lacked, []).append(file)
    return [(list(lacked), group) for lacked, group in found.items()]


def _rows(
    engine: SqlEngine, options: Mapping[str, Any], sql: Callable[[Mapping[str, Any]], str]
) -> tuple[list[tuple[Any, ...]], int]:
    """Runs a query with the shortest line length that is enough, unless the options say one."""
    if "max_line_bytes" in options:
        return engine.rows(sql(options)), options["max_line_bytes"]
    for length in LINE_BYTES[:-1]:
        try:
            return engine.rows(sql({**options, "max_line_bytes": length})), length
        except Exception as error:
            if "maximum_object_size" not in str(error):
                raise
    return engine.rows(sql({**options, "max_line_bytes": LINE_BYTES[-1]})), LINE_BYTES[-1]


def _runs(files: Sequence[InputFile], options: Mapping[str, Any]) -> list[list[InputFile]]:
    """The files that one query looks at: one file when it is so many rows of each."""
    if options.get("sample_size", -1) > 0:
        return [[file] for file in files]
    return jsonl_read.same_reader(files, options)


def _keys_of(
    files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
) -> dict[InputFile, tuple[tuple[str, ...], int, int]]:
    """Top-level keys, the number of rows, and a line length that was enough, of each file."""
    found: dict[InputFile, tuple[tuple[str, ...], int, int]] = {}
    for run in _runs(files, options):
        rows, line_bytes = _rows(engine, options, partial(_keys_sql, run))
        if any(kind != "OBJECT" for *_, kind in rows if kind is not None):
            words = jsonl_failures.NO_OBJECT
            explained = jsonl_failures.explain(run, options, words)
            raise explained or StorageError(words, code="R723")
        seen: dict[int, dict[str, None]] = {i: {} for i in range(len(run))}
        counts = dict.fromkeys(seen, 0)
        # DuckDB groups in no order: the most frequent list of keys tells the order of columns.
        for index, keys, count, _ in sorted(rows, key=lambda r: (-r[2], r[1] or [])):
            seen[index].update(dict.fromkeys(keys or ()))
            counts[index] += count
        found |= {f: (tuple(seen[i]), counts[i], line_bytes) for i, f in enumerate(run)}
    return found


def _keys_sql(run: Sequence[InputFile], options: Mapping[str, Any]) -> str:
    condition = jsonl_read.good(options)
    where = f" WHERE {condition}" if condition else ""
    return (
        "SELECT file_index, keys, count(*), max(CASE WHEN len(keys) = 0 THEN json_type(json) END) "
        "FROM (SELECT file_index, json, json_keys(json) AS keys "
        f"FROM {jsonl_read.reader(run, options, None)}{where}{_sample(options)}) "
        "GROUP BY file_index, keys"
    )


def _evidence_of(
    files: Sequence[InputFile],
    options: Mapping[str, Any],
    engine: SqlEngine,
    keys: Sequence[str],
) -> tuple[dict[InputFile, dict[str, Evidence]], int]:
    """Evidence of some top-level keys, per file, and a line length that was enough."""
    found: dict[InputFile, dict[str, Evidence]] = {f: {} for f in files}
    line_bytes = 0
    for run in _runs(files, options):
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            rows, enough = _rows(engine, options, partial(_scalars_sql, run, some))
            line_bytes = max(line_bytes, enough)
            for file, evidence in _scalars(run, some, rows).items():
                found[file].update(evidence)
    for file, evidence in found.items():
        for key, one in evidence.items():
            if one.items is not None or one.fields is not None:
                try:
                    nested = _nested(file, {**options, "max_line_bytes": line_bytes}, engine, key)
                except RecursionError:
                    nested = inference.OPAQUE
                evidence[key] = inference.merge(_without_nested(one), nested)
    return found, line_bytes


def _without_nested(e: Evidence) -> Evidence:
    return replace(e, items=None, fields=None)


def _values(run: Sequence[InputFile], options: Mapping[str, Any], keys: Sequence[str]) -> str:
    """A SELECT of `file_index` and the JSON texts of keys as `c0`, `c1`, ...; JSON null is NULL."""
    raw = jsonl_read.unnameable(keys, virtual=True) or bool(jsonl_read.good(options))
    if raw:
        cells = {key: f"r{i}" for i, key in enumerate(keys)}
        source = f"({jsonl_read.raw_cells(run, options, cells)})"
    else:
        cells = {key: quote_identifier(key) for key in keys}
        source = jsonl_read.reader(run, options, dict.fromkeys(keys, "JSON"))
    items = ", ".join(f"CAST({cell} AS VARCHAR) AS c{i}" for i, cell in enumerate(cells.values()))
    return f"SELECT file_index, {items} FROM {source}{_sample(options)}"


def _sample(options: Mapping[str, Any]) -> str:
    size = options.get("sample_size", -1)
    return f" LIMIT {size}" if size > 0 else ""


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
        "WHEN x{i} IS NOT NULL "
        "THEN coalesce(TRY_CAST(CAST(x{i} AS DOUBLE) AS HUGEINT) = x{i}, false) END)"
    ),
    "count(d{i}) - count(x{i})",
    "count(f{i})",
    "max(strpos(f{i}, '.') - 1)",
    "max(strlen(f{i}) - strpos(f{i}, '.'))",
    "bool_or(regexp_matches(f{i}, '[eEnN]'))",
)


def _scalars_sql(run: Sequence[InputFile], keys: Sequence[str], options: Mapping[str, Any]) -> str:
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
    return (
        f"SELECT file_index, {sums} FROM (SELECT file_index, {cast} FROM (SELECT file_index, "
        f"{split} FROM (SELECT file_index, {numbers} FROM (SELECT file_index, {kinds} FROM "
        f"({_values(run, options, keys)}))))) GROUP BY file_index"
    )


def _scalars(
    run: Sequence[InputFile], keys: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> dict[InputFile, dict[str, Evidence]]:
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


def _nested(file: InputFile, options: Mapping[str, Any], engine: SqlEngine, key: str) -> Evidence:
    """Evidence of the objects and lists of one key."""
    values = f"({_values([file], options, [key])})"
    # A number of 16 digits or more beside floats may not be exact; texts may look like one, which
    # costs time and nothing else.
    rows = engine.rows(
        "SELECT s, bool_or(risky), count(*) FROM (SELECT CAST(json_structure(c0) AS VARCHAR) AS s, "
        f"regexp_matches(c0, '[0-9]{{16}}') AS risky FROM {values} "
        f"WHERE unicode(c0) IN ({_LIST}, {_OBJECT})) GROUP BY s"
    )
    # The most frequent structure tells the order of fields.
    structures = [json.loads(s) for s, _, _ in sorted(rows, key=lambda r: (-r[2], r[0]))]
    if any(risky for _, risky, _ in rows) or any(_mixes(s) for s in structures):
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
