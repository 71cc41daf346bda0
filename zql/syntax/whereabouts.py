"""In which operator of a statement a place is, for messages: `operator 3: WHERE`."""

from __future__ import annotations

from collections.abc import Sequence

from zql.source import Span
from zql.syntax import ast


def operator_at(statement: ast.Statement, span: Span) -> tuple[str, Span] | None:
    """The operator of the statement's own pipeline around a place, and its span; None before it.

    Operators count from 1, as `|>` do; those of subqueries belong to the operator around them.
    """
    query = getattr(statement, "query", None)
    if not isinstance(query, ast.Query):
        return None
    for number, op in enumerate(query.operators, 1):
        around = op.span
        if around is None or around.source != span.source:
            continue
        if around.start <= span.start < max(around.end, around.start + 1):
            word = around.text.split(None, 1)[0].upper() if around.text else ""
            return f"operator {number}: {word}", around
    return None


def common_place(statement: ast.Statement, spans: Sequence[Span]) -> Span | None:
    """The first line of the operator that holds all these places; None when no single one does."""
    found = {operator_at(statement, span) for span in spans}
    if len(found) != 1:
        return None
    (operator,) = found
    if operator is None:
        return None
    return first_line(operator[1])


def first_line(span: Span) -> Span:
    """The part of a span on its first line."""
    return Span(span.source, span.start, span.start + len(span.text.split("\n")[0]))
