"""The SQL that turns a row into a line of JSON.

DuckDB's own JSON writer is right in nearly all: exact integers and decimals, nested values, text
for dates, times and blobs. Two things are done here: keys stay as they are when they differ in case
only, and NaN and infinity, which JSON cannot say, are an error, NULL or a text, as the option says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zql.errors import UsageError
from zql.expr.sql import quote_identifier, quote_literal
from zql.storage.format import WriteColumn

NAN_CHOICES = ("error", "null", "text")
_ODD = "-?Infinity|NaN"
_TEXTS = r'"(?:[^"\\]|\\.)*"'


def output_sql(
    query: str, columns: Sequence[WriteColumn], options: Mapping[str, Any], end: str = "chr(10)"
) -> str:
    """The lines of a query's rows as text, `end` behind each."""
    choice = str(options.get("nan", "error")).lower()
    if choice not in NAN_CHOICES:
        raise UsageError(
            f'option "nan" must be one of {", ".join(NAN_CHOICES)}, not "{choice}"', code="U612"
        )
    pairs = ", ".join(f"{quote_literal(c.name)}, {_value(c, choice)}" for c in columns)
    return f"SELECT CAST(json_object({pairs}) AS VARCHAR) || {end} AS line FROM ({query})"


def _value(column: WriteColumn, choice: str) -> str:
    value = quote_identifier(column.alias)
    if "FLOAT" not in column.type and "DOUBLE" not in column.type:
        return value
    json = f"CAST(to_json({value}) AS VARCHAR)"
    if column.type in {"FLOAT", "DOUBLE"}:
        fine = f"isfinite({value}) OR {value} IS NULL"
        odd = json
    else:
        # Texts that hold such a word are seldom: they are looked at only when it is there at all.
        plain = f"regexp_replace({json}, {quote_literal(_TEXTS)}, '', 'g')"
        fine = f"NOT regexp_matches({json}, '{_ODD}') OR NOT regexp_matches({plain}, '{_ODD}')"
        odd = json
    return f"CASE WHEN {fine} THEN to_json({value}) ELSE {_instead(column, odd, choice)} END"


def _instead(column: WriteColumn, json: str, choice: str) -> str:
    """What stands for a value with NaN or infinity in it, given as JSON text."""
    if choice == "error":
        message = quote_literal(
            f'column "{column.name}" holds NaN or infinity, which JSON cannot say: replace it, or '
            "write with nan = 'null' or nan = 'text'; the value is "
        )
        return f"CAST(error({message} || {json}) AS JSON)"
    word = "null" if choice == "null" else r'"\0"'
    parts = f"regexp_extract_all({json}, {quote_literal(_TEXTS + '|[^' + chr(34) + ']+')})"
    replaced = f"regexp_replace(part, '{_ODD}', {quote_literal(word)}, 'g')"
    mended = f"CASE WHEN part[1] = chr(34) THEN part ELSE {replaced} END"
    return f"CAST(array_to_string(list_transform({parts}, lambda part: {mended}), '') AS JSON)"
