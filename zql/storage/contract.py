"""Types that a script declares for columns: a value that does not convert exactly is an error."""

from __future__ import annotations

import re

from zql.expr.sql import quote_literal
from zql.schema import DataType

MARK = "ZQL-CONTRACT"
"""Stands in DuckDB's message when a value breaks a declared type: before column, type and value."""
_INTEGER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT\Z|U?INTEGER\Z")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")
_FROM_TEXT = re.compile(r"DATE\Z|TIME|UUID\Z|INTERVAL\Z")


def is_checked(type_: DataType) -> bool:
    """Whether values of this declared type are checked.

    Text takes any value, and nested types are left to DuckDB, which checks their shape.
    """
    plain = _INTEGER.match(type_) or _DECIMAL.match(type_) or is_written_as_text(type_)
    return bool(plain) or type_ in {"DOUBLE", "FLOAT", "BOOLEAN"}


def is_written_as_text(type_: DataType) -> bool:
    """Whether JSON has this type as text only."""
    return _FROM_TEXT.match(type_) is not None


def converted(name: str, type_: DataType, text: str, shown: str, also: str = "true") -> str:
    """The value of a column in its declared type, or a failure with `MARK`.

    `text` is SQL of the value as text, `shown` of what a message shows, `also` of a condition.
    """
    wrong = f"error({quote_literal(f'{MARK} {name}{chr(10)}{type_}{chr(10)}')} || {shown})"
    fits = converts(type_, text, also)
    cast = f"CAST({text} AS {type_})"
    return f"CASE WHEN {text} IS NULL THEN NULL WHEN {fits} THEN {cast} ELSE {wrong} END"


def converts(type_: DataType, text: str, also: str = "true") -> str:
    """Whether a value that is not NULL converts exactly."""
    return f"{also} AND {_keeps_digits(text, type_)} AND TRY_CAST({text} AS {type_}) IS NOT NULL"


def fits(type_: DataType, text: str, also: str = "true") -> str:
    """Whether a value, or NULL, converts exactly; never NULL itself."""
    return f"({text} IS NULL OR coalesce({converts(type_, text, also)}, false))"


def _keeps_digits(text: str, type_: DataType) -> str:
    """Whether no digit is rounded away."""
    decimal = _DECIMAL.match(type_)
    if not decimal and not _INTEGER.match(type_):
        return "true"
    scale = decimal.group(2) if decimal else "0"
    pattern = r"\s*[-+]?[0-9]+(\.[0-9]{0," + scale + r"}0*)?\s*"
    return f"regexp_full_match({text}, {quote_literal(pattern)})"


def parts(message: str) -> tuple[str, str, str]:
    """Column, type and value of a message with `MARK`."""
    rest = message.partition(MARK + " ")[2]
    name, _, rest = rest.partition("\n")
    type_, _, value = rest.partition("\n")
    return name, type_, value.split("\n\nLINE ", 1)[0]
