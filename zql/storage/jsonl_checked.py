"""Reading a JSON value in a type while it is checked that nothing is lost by it.

Two uses. A schema taken from a sample is verified by the very query that relies on it: a value that
does not fit fails the query, which is then planned again over a schema from every row. And a
`columns` option is a contract: a value that does not convert exactly is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from zql.expr.sql import quote_literal
from zql.schema import DataType
from zql.storage import contract
from zql.tree import node

SURPRISE = "ZQL-SURPRISE"
"""Stands in DuckDB's message when a value contradicts the sample."""
_MISMATCHES = (SURPRISE, "maximum_object_size", "JSON transform error", "Malformed JSON")
VERIFIABLE = ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN")


def is_surprise(message: str) -> bool:
    """Whether a query over sampled schemas failed in a way that a full schema may mend."""
    return any(mark in message for mark in _MISMATCHES)


@node
class Cell:
    """SQL of the value of a key. `is_json`: as JSON; else as DuckDB's reader gives it as text."""

    name: str
    sql: str
    type: DataType
    is_json: bool = True


def sampled(cells: Sequence[Cell], absent: Sequence[str] = ()) -> dict[str, str]:
    """For each column an expression of its value in its type; `absent` are cells as SQL alone.

    Each expression fails when any of the columns of its row does not fit, or an absent one is
    there: a filter on one column must not keep the others from being looked at.
    """
    fits = [f"({cell.sql} IS NULL OR {_fits(cell)})" for cell in cells]
    fits += [f"{sql} IS NULL" for sql in absent]
    wrong = f"error({quote_literal(SURPRISE)})"
    return {
        cell.name: f"CASE WHEN {' AND '.join(fits)} THEN {_value(cell)} ELSE {wrong} END"
        for cell in cells
    }


def _text(column: str) -> str:
    return f"CAST({column} AS VARCHAR)"


def _value(cell: Cell) -> str:
    if cell.type == "VARCHAR":
        return f"json_extract_string({cell.sql}, '$')" if cell.is_json else cell.sql
    return f"CAST({_text(cell.sql)} AS {cell.type})"


def _fits(cell: Cell) -> str:
    """Whether a value that is not NULL is one of those that make `inference` choose the type."""
    text = _text(cell.sql)
    first = f"unicode({text})"
    if cell.type == "VARCHAR":
        if cell.is_json:
            return f"{first} = 34"
        # A scalar of another kind stays text in any case. An object or a list would not: and as
        # text it is JSON, which a text that begins like one seldom is.
        return f"({first} NOT IN (91, 123) OR NOT json_valid({cell.sql}))"
    if cell.type == "BOOLEAN":
        return f"{first} IN (116, 102)"
    if cell.type == "BIGINT":
        return f"CAST(TRY_CAST({text} AS BIGINT) AS VARCHAR) = {text}"
    # A number, and if an integer then one that is exact in a DOUBLE.
    return f"({first} BETWEEN 45 AND 57 AND (contains({text}, '.') OR strlen({text}) <= 15))"


def declared(name: str, cell: str, type_: DataType) -> str:
    """The value of a column in the type that the script declares; `cell` is SQL of its JSON."""
    return contract.converted(name, type_, _string(cell), _text(cell), _is_of_kind(cell, type_))


def declared_fits(cell: str, type_: DataType) -> str:
    """Whether the value of a column is one of the type that the script declares, or NULL."""
    return contract.fits(type_, _string(cell), _is_of_kind(cell, type_))


def _string(cell: str) -> str:
    return f"json_extract_string({cell}, '$')"


def _is_of_kind(cell: str, type_: DataType) -> str:
    """Whether a value is written as JSON writes values of the type."""
    first = f"unicode({_text(cell)})"
    if contract.is_written_as_text(type_):
        return f"{first} = 34"
    if type_ == "BOOLEAN":
        return f"lower({_string(cell)}) IN ('true', 'false')"
    return f"{first} NOT IN (116, 102, 91, 123)"
