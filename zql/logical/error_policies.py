"""What the clause ON ERROR says, whatever it is about: actions, limits, the facts of a reject."""

from __future__ import annotations

from zql.errors import BindError
from zql.expr.functions import ErrorPolicy
from zql.logical.context import Context
from zql.syntax import ast

FACTS = (
    ("_error", "VARCHAR"),
    ("_operator", "VARCHAR"),
    ("_file", "VARCHAR"),
    ("_row", "BIGINT"),
)
"""What a rejected row gets beside its own columns."""

FACTS_OF_LINES = (("_line", "VARCHAR"), *FACTS)
"""What is told of a row of a file that cannot be read: its text in place of columns."""


def new_policy(context: Context, clause: ast.OnError, word: str) -> ErrorPolicy:
    """What a clause says of the operator `word`, but for what INTO keeps. Raises `BindError`."""
    context.policies += 1
    most_rows, most_percent = _limit(clause)
    return ErrorPolicy(
        context.policies, clause.action, word, most_rows, most_percent, span=clause.span
    )


def check_fail(clause: ast.OnError) -> None:
    """Raises `BindError` for ON ERROR FAIL with what only makes sense when the run goes on."""
    if clause.into is not None or clause.limit:
        raise BindError(
            "ON ERROR FAIL stops at the first row: it takes neither INTO nor LIMIT",
            code="P416",
            span=clause.span,
            hint="write ON ERROR SKIP, which goes on with the other rows",
        )


def _limit(clause: ast.OnError) -> tuple[int | None, float | None]:
    """How many rows may fail, or how many in a hundred."""
    if not clause.limit:
        return None, None
    number, _, percent = clause.limit.replace("_", "").partition(" ")
    if percent:
        share = float(number)
        if share > 100:
            raise BindError(
                f"{number} PERCENT is more than all rows",
                code="P416",
                span=clause.span,
                hint="a number from 0 to 100, or no LIMIT at all",
            )
        return None, share
    if not number.isdecimal():
        raise BindError(
            f"LIMIT takes a whole number of rows, not {number}",
            code="P416",
            span=clause.span,
            hint=f"LIMIT {number} PERCENT is a share of the rows",
        )
    return int(number), None
