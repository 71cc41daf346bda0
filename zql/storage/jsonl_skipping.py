"""The lines of JSON Lines files that `on_error => 'skip'` passes over, and what is wrong with them.

DuckDB says which rows they are, by the very condition that keeps them out of a scan; their text and
the reason are found in the file itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zql.schema import DataType, InputFile
from zql.storage import failures, files, jsonl_failures, jsonl_read
from zql.storage.format import BadRow, SqlEngine

_AT_ONCE = 100_000
"""Rows of one query: more are looked up by the next one."""


def bad_rows(
    inputs: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
) -> Iterator[BadRow | int]:
    """See `SkippingFormat`; the options have the types that are `declared`."""
    good = jsonl_read.good(options)
    with files.readable(inputs, options) as found:
        for run in jsonl_read.same_reader(found, options):
            counts = engine.rows(
                f"SELECT file_index, count(*), count(CASE WHEN ({good}) IS NOT TRUE THEN 1 END) "
                f"FROM {jsonl_read.reader(run, options, None)} GROUP BY file_index"
            )
            for index, rows, bad in sorted(counts):
                if bad:
                    yield from _bad_lines(run[index], options, engine)
                yield int(rows)


def _bad_lines(file: InputFile, options: Mapping[str, Any], engine: SqlEngine) -> Iterator[BadRow]:
    declared: Mapping[str, DataType] = options.get("declared", {})
    lines = enumerate(failures.unpacked_lines(file, options), 1)
    rows = ((number, line) for number, line in lines if line.strip() or number == 1)
    row = 0
    for wanted, column in _numbers(file, options, engine):
        for number, line in rows:
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            row += bool(text.strip())
            if row == wanted:
                what = _misfit(text, column, declared) or jsonl_failures.what_is_wrong(
                    file, number, text
                )
                yield BadRow(file.path, number, _text(text), what)
                break


def _numbers(
    file: InputFile, options: Mapping[str, Any], engine: SqlEngine
) -> Iterator[tuple[int, str | None]]:
    """The numbers of the bad rows, from 1, each with the declared column that it does not fit."""
    fits = jsonl_read.declared_fits(options)
    whens = " ".join(f"WHEN NOT ({sql}) THEN {i}" for i, sql in enumerate(fits.values()))
    column = f"CASE {whens} END" if whens else "NULL"
    source = jsonl_read.reader([file], options, None)
    names = list(fits)
    last = 0
    while True:
        found = engine.rows(
            f"SELECT number, CASE WHEN json_type(json) = 'OBJECT' THEN {column} END "
            f"FROM (SELECT row_number() OVER () AS number, json FROM {source}) "
            f"WHERE ({jsonl_read.good(options)}) IS NOT TRUE AND number > {last} "
            f"ORDER BY number LIMIT {_AT_ONCE}"
        )
        yield from ((number, None if i is None else names[i]) for number, i in found)
        if len(found) < _AT_ONCE:
            return
        last = found[-1][0]


def _misfit(line: bytes, column: str | None, declared: Mapping[str, DataType]) -> str:
    """What is wrong with a value of a declared column; empty when it is not about one."""
    if column is None:
        return ""
    try:
        value = json.dumps(json.loads(line)[column], ensure_ascii=False)
    except (ValueError, KeyError, TypeError, RecursionError):
        return f'column "{column}" holds no {declared[column]}'
    shown = failures.excerpt(value.encode(errors="backslashreplace"))
    return f'column "{column}" holds {shown}, which is no {declared[column]}'


def _text(line: bytes) -> str:
    return line.rstrip(b"\r\n").decode(errors="backslashreplace")
