"""In which operator of a statement a place is, for messages: `operator 3: WHERE`."""

from __future__ import annotations

from zql.source import Span
from zql.syntax import ast


def operator_at(statement: ast.Statement, span: Span) -> str | None:
    """The operator of the statement's own pipeline around a place; None before the first.

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
            return f"operator {number}: {_name(op, around)}"
    return None


def _name(op: ast.Operator, span: Span) -> str:
    word = span.text.split(None, 1)[0].upper()
    if isinstance(op, ast.Join):
        return "JOIN"
    return f"{word} BY" if word in ("ORDER", "PARTITION") else word


def first_line(span: Span) -> Span:
    """The part of a span on its first line."""
    return Span(span.source, span.start, span.start + len(span.text.split("\n")[0]))
