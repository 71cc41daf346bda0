"""The SQL that turns a row into a line of delimited text.

A value is quoted when it holds the delimiter, a quote or a line end, and when it is empty or is the
text that stands for NULL: so NULL, `''` and every other text are told apart when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zql.expr.sql import quote_identifier, quote_literal
from zql.schema import DataType
from zql.storage.format import WriteColumn

_NEVER_QUOTED = re.compile(
    r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BOOLEAN|DOUBLE|FLOAT|DECIMAL\(.*\)|DATE|TIME.*|UUID)\Z"
)
_USUAL_DELIMITERS = ",;|\t"


def output_sql(
    query: str, columns: Sequence[WriteColumn], options: Mapping[str, Any], end: str = "chr(10)"
) -> str:
    """The lines of a query's rows as text, `end` behind each; without the header."""
    values = [_value(c, options) for c in columns]
    delimiter = quote_literal(options["delimiter"])
    line = f" || {delimiter} || ".join(values) or "''"
    return f"SELECT {line} || {end} AS line FROM ({query})"


def copy_sql(query: str, columns: Sequence[WriteColumn], options: Mapping[str, Any]) -> str:
    """The lines without their ends, the header among them."""
    body = output_sql(query, columns, options, "''")
    head = header(columns, options).decode()
    return f"SELECT {quote_literal(head[:-1])} AS line UNION ALL ({body})" if head else body


def header(columns: Sequence[WriteColumn], options: Mapping[str, Any]) -> bytes:
    """The header line; empty when the options say that there is none."""
    if not options.get("header", True):
        return b""
    names = [_quoted(c.name, options) for c in columns]
    return (str(options["delimiter"]).join(names) + "\n").encode()


def _quoted(text: str, options: Mapping[str, Any]) -> str:
    quote = str(options["quote"])
    special = {options["delimiter"], quote, "\r", "\n"}
    odd = not text or text == options.get("null_str", "") or text.startswith("\ufeff")
    if not odd and not any(char in text for char in special):
        return text
    return quote + text.replace(quote, quote + quote) + quote


def _value(column: WriteColumn, options: Mapping[str, Any]) -> str:
    value = quote_identifier(column.alias)
    null = quote_literal(options.get("null_str", ""))
    text = _text(value, column.type)
    usual = options["delimiter"] in _USUAL_DELIMITERS and not options.get("null_str")
    if usual and _NEVER_QUOTED.match(column.type):
        return f"coalesce({text}, '')"
    quote = options["quote"]
    doubled = quote_literal(quote + quote)
    mark = quote_literal(quote)
    special = _character_class([options["delimiter"], quote, "\r", "\n"])
    return (
        f"CASE WHEN {value} IS NULL THEN {null} "
        f"WHEN {text} IN ('', {null}) OR regexp_matches({text}, {quote_literal(special)}) "
        f"THEN {mark} || replace({text}, {mark}, {doubled}) || {mark} ELSE {text} END"
    )


def _text(value: str, type_: DataType) -> str:
    """A value as text: nested ones as JSON, the rest as DuckDB writes them."""
    if type_ == "VARCHAR":
        return value
    nested = type_.endswith("]") or type_.startswith(("STRUCT", "MAP", "UNION"))
    return f"CAST({f'to_json({value})' if nested else value} AS VARCHAR)"


def _character_class(characters: Sequence[str]) -> str:
    return "[" + "".join(f"\\x{{{ord(c):X}}}" for c in characters) + "]"
