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

SURPRISE = "ZQL-SURPRISE"
"""Stands in DuckDB's message when a value contradicts the sample."""
_MISMATCHES = (SURPRISE, "maximum_object_size", "JSON transform error", "Malformed JSON")
VERIFIABLE = ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN")


def is_surprise(message: str) -> bool:
    """Whether a query over sampled schemas failed in a way that a full schema may mend."""
    return any(mark in message for mark in _MISMATCHES)


def sampled(
    columns: Sequence[tuple[str, str, DataType]], absent: Sequence[str] = ()
) -> dict[str, str]:
    """For each column an expression of its value in its type.

    Columns are given by name, SQL of the JSON value, and type; `absent` as SQL alone. Each
    expression fails when any of the columns of its row does not fit, or an absent one is there: a
    filter on one column must not keep the others from being looked at.
    """
    conditions = [_fits(cell, type_) for _, cell, type_ in columns]
    conditions += [f"{cell} IS NULL" for cell in absent]
    fits = " AND ".join(conditions)
    wrong = f"error({quote_literal(SURPRISE)})"
    return {
        name: f"CASE WHEN {fits} THEN {_value(cell, type_)} ELSE {wrong} END"
        for name, cell, type_ in columns
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


def declared(name: str, cell: str, type_: DataType) -> str:
    """The value of a column in the type that the script declares; `cell` is SQL of its JSON."""
    text = f"json_extract_string({cell}, '$')"
    first = f"unicode({_text(cell)})"
    if contract.is_written_as_text(type_):
        fits = f"{first} = 34"
    elif type_ == "BOOLEAN":
        fits = f"lower({text}) IN ('true', 'false')"
    else:
        fits = f"{first} NOT IN (116, 102, 91, 123)"
    return contract.converted(name, type_, text, _text(cell), fits)
