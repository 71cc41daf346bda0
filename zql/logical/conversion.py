"""Which values fit a declared type by themselves: nothing is lost, nothing is guessed."""

from __future__ import annotations

import re

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical.catalog import TypeProblem
from zql.logical.context import UNKNOWN, Context

_KINDS = {
    "VARCHAR": "text",
    "BLOB": "bytes",
    "BOOLEAN": "boolean",
    "FLOAT": "float",
    "DOUBLE": "float",
    "DECIMAL": "float",
    "UINTEGER": "integer",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
}


def kind_of(type: str) -> str:
    """What values of a type are to Python; empty for types that take or are several things."""
    if type.endswith("]"):
        return "list"
    name = type.split("(", maxsplit=1)[0]
    return _KINDS.get(name.removeprefix("U") if name.endswith("INT") else name, "")


def as_parameter(
    context: Context, value: ex.Expr, have: str, want: str, function: str, parameter: str
) -> ex.Expr:
    """An argument in the type that a SQL function declares. Raises `BindError`.

    DuckDB's implicit casts, and integers to narrower ones: a value that does not fit these fails
    the run. Text for a number, or a DOUBLE for an INTEGER, is refused.
    """
    if have == UNKNOWN or (isinstance(value, ex.Column) and have == want):
        return value
    cast = ex.Cast(value, want, span=value.span)
    if have == want or have in ('"NULL"', "NULL") or _is_constant(context, value, cast):
        return cast
    if _fits(context, have, want):
        return cast
    raise BindError(
        f"{function} wants {want} for {parameter}, this is {have}",
        code="T321",
        span=value.span,
        hint=f"CAST(.. AS {want})",
    )


def _is_constant(context: Context, value: ex.Expr, cast: ex.Cast) -> bool:
    """Text as written in the script takes another type when it means a value of it."""
    if not isinstance(value, ex.Literal) or not isinstance(value.value, str) or value.type:
        return False
    try:
        context.catalog.evaluate(cast)
    except TypeProblem:
        return False
    return True


def _fits(context: Context, have: str, want: str) -> bool:
    kinds = kind_of(have), kind_of(want)
    if kinds in (("integer", "integer"), ("integer", "float")):
        return True
    if have.startswith("DECIMAL") and want.startswith("DECIMAL"):
        return _scale(have) <= _scale(want)
    if kinds[0] != kinds[1]:
        return False
    try:
        return context.catalog.common_type([have, want]) == want
    except TypeProblem:
        return False


def _scale(type: str) -> int:
    found = re.search(r",\s*(\d+)\)", type)
    return int(found[1]) if found else 0
