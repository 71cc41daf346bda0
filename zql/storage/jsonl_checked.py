"""Reading a JSON value in a type while it is checked that nothing is lost by it.

Two uses. A schema taken from a sample is verified by the very query that relies on it: a value that
does not fit fails the query, which is then planned again over a schema from every row. And a
`columns` option is a contract: a value that does not convert exactly is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zql.expr.sql import quote_identifier, quote_literal
from zql.schema import DataType

SURPRISE = "ZQL-SURPRISE"
"""Stands in DuckDB's message when a value contradicts the sample."""
_MISMATCHES = (SURPRISE, "maximum_object_size", "JSON transform error", "Malformed JSON")
VERIFIABLE = ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN")

_INTEGER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT\Z|U?INTEGER\Z")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")
_FROM_TEXT = re.compile(r"DATE\Z|TIME|UUID\Z|INTERVAL\Z")
CONTRACT = "ZQL-CONTRACT"
"""Stands in DuckDB's message when a value breaks a `columns` option, before column and value."""


def is_surprise(message: str) -> bool:
    """Whether a query over sampled schemas failed in a way that a full schema may mend."""
    return any(mark in message for mark in _MISMATCHES)


def sampled(columns: Sequence[tuple[str, DataType]], absent: Sequence[str] = ()) -> dict[str, str]:
    """For each column, read as JSON, an expression of its value in its type.

    Each of them fails when any of the columns of its row does not fit, or one of the `absent` keys
    is there: a filter on one column must not keep the others from being looked at.
    """
    conditions = [_fits(quote_identifier(name), type_) for name, type_ in columns]
    conditions += [f"{quote_identifier(name)} IS NULL" for name in absent]
    fits = " AND ".join(conditions)
    wrong = f"error({quote_literal(SURPRISE)})"
    return {
        name: f"CASE WHEN {fits} THEN {_value(quote_identifier(name), type_)} ELSE {wrong} END"
        for name, type_ in columns
    }


def _text(column: str) -> str:
    return f"CAST({column} AS VARCHAR)"


def _value(column: str, type_: DataType) -> str:
    if type_ == "VARCHAR":
        return f"json_extract_string({column}, '$')"
    return f"CAST({_text(column)} AS {type_})"


def _fits(column: str, type_: DataType) -> str:
    """Whether a JSON value is one of those that make `inference` choose the type, or NULL."""
    text = _text(column)
    first = f"unicode({text})"
    if type_ == "VARCHAR":
        return f"coalesce({first} = 34, true)"
    if type_ == "BOOLEAN":
        return f"coalesce({first} IN (116, 102), true)"
    if type_ == "BIGINT":
        digits = f"ltrim({text}, '0123456789-') = ''"
        return f"coalesce(strlen({text}) <= 18 AND {digits}, true)"
    # A number, and if an integer then one that is exact in a DOUBLE.
    exact = f"(contains({text}, '.') OR strlen({text}) <= 15)"
    return f"coalesce({first} BETWEEN 45 AND 57 AND {exact}, true)"


def is_checked(type_: DataType) -> bool:
    """Whether a column of this type in a `columns` option is read as JSON and checked.

    Text takes any value, and nested types are left to DuckDB, which checks their shape.
    """
    plain = _INTEGER.match(type_) or _DECIMAL.match(type_) or _FROM_TEXT.match(type_)
    return bool(plain) or type_ in {"DOUBLE", "FLOAT", "BOOLEAN"}


def declared(name: str, type_: DataType) -> str:
    """The value of a column, read as JSON, in the type that the script declares for it."""
    column = quote_identifier(name)
    text = f"json_extract_string({column}, '$')"
    start = quote_literal(f"{CONTRACT} {name}\n{type_}\n")
    wrong = f"error({start} || {_text(column)})"
    fits = f"{_converts(column, text, type_)} AND TRY_CAST({text} AS {type_}) IS NOT NULL"
    cast = f"CAST({text} AS {type_})"
    return f"CASE WHEN {column} IS NULL THEN NULL WHEN {fits} THEN {cast} ELSE {wrong} END"


def _converts(column: str, text: str, type_: DataType) -> str:
    first = f"unicode({_text(column)})"
    if type_ == "BOOLEAN":
        return f"lower({text}) IN ('true', 'false')"
    if _FROM_TEXT.match(type_):
        return f"{first} = 34"
    decimal = _DECIMAL.match(type_)
    if decimal or _INTEGER.match(type_):
        scale = decimal.group(2) if decimal else "0"
        pattern = r"\s*[-+]?[0-9]+(\.[0-9]{0," + scale + r"}0*)?\s*"
        return f"regexp_full_match({text}, {quote_literal(pattern)})"
    return f"{first} NOT IN (116, 102, 91, 123)"
