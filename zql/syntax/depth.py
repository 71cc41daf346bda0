"""Limits on nesting, so that no later stage can run out of stack."""

from __future__ import annotations

from zql.errors import ParseError
from zql.source import Span
from zql.syntax.tokens import Tokens, vocabulary
from zql.tree import Node, children

MAX_NESTING = 250
"""Parentheses, brackets and braces inside each other."""

MAX_OPERATORS = 400
"""Pipe operators in one pipeline: DuckDB takes about 480 subqueries inside each other."""

MAX_DEPTH = 500
"""Operators and calls inside each other in one expression; `a + b + c` is two deep."""


def check_tokens(tokens: Tokens, first: int, last: int) -> None:
    """Raise a ParseError where brackets nest too deep or a pipeline is too long."""
    words = vocabulary().number
    opening = {words["LPAR"], words["LSQB"], words["LBRACE"], words["HINT"]}
    closing = {words["RPAR"], words["RSQB"], words["RBRACE"]}
    pipe = words["PIPE"]
    operators = [0]
    for at in range(first, last):
        kind = tokens.kinds[at]
        if kind in opening:
            operators.append(0)
            if len(operators) > MAX_NESTING + 1:
                raise too_deep(
                    f"more than {MAX_NESTING} brackets inside each other", tokens.span(at)
                )
        elif kind in closing:
            if len(operators) > 1:
                operators.pop()
        elif kind == pipe:
            operators[-1] += 1
            if operators[-1] > MAX_OPERATORS:
                raise too_deep(
                    f"more than {MAX_OPERATORS} operators in one pipeline", tokens.span(at)
                )


def check_expressions(node: Node) -> None:
    """Raise a ParseError where a tree is deeper than later stages can take."""
    todo: list[tuple[Node, int, Span | None]] = [(node, 0, None)]
    while todo:
        current, depth, place = todo.pop()
        place = getattr(current, "span", None) or place
        if depth > MAX_DEPTH:
            raise too_deep(f"an expression of more than {MAX_DEPTH} levels", place)
        todo += [(child, depth + 1, place) for child in children(current)]


def too_deep(what: str, place: Span | None) -> ParseError:
    """The error for what nests too deep."""
    where = f" on line {place.line}" if place else ""
    return ParseError(
        f"too deep{where}: {what}",
        code="S110",
        span=place,
        hint="split it: EXTEND a column for a part, or CREATE TEMP VIEW for a part of the pipeline",
    )
