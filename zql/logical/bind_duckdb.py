"""`duckdb($$ SELECT .. $$)` in FROM: a query in DuckDB's own words, for what ZQL lacks."""

from __future__ import annotations

import re

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.catalog import QueryProblem
from zql.logical.context import Context
from zql.logical.scope import Scope, Visible
from zql.source import Span

_WORD = re.compile(r"\w+|\S?")
_TAG = re.compile(r"\$\w*\$")


def duckdb_query(context: Context, call: ex.Call) -> Scope:
    """The rows of the query. Raises `BindError` at the place in the text that DuckDB names."""
    text = call.args[0] if len(call.args) == 1 else None
    if not isinstance(text, ex.Literal) or not isinstance(text.value, str) or text.type:
        raise BindError(
            "duckdb(..) takes one text: a query, written in the script",
            code="T307",
            span=call.span,
            hint="FROM duckdb($$ SELECT .. $$)",
        )
    try:
        sql, schema = context.catalog.query(text.value)
    except QueryProblem as problem:
        span = _place(text.span, text.value, problem.position)
        raise BindError(problem.message, code="T330", span=span, hint=problem.hint) from None
    seen: set[str] = set()
    for name in schema.names:
        if name.casefold() in seen:
            raise BindError(
                f'the query gives two columns called "{name}"',
                code="N208",
                span=text.span,
                hint="give one of them another name with AS",
            )
        seen.add(name.casefold())
    columns = tuple(context.names.column(f.name, f.type) for f in schema)
    visible = tuple(Visible(f.name, c) for f, c in zip(schema, columns, strict=True))
    return Scope(lp.DuckdbQuery(sql, columns, schema.names, call.span), visible)


def _place(span: Span | None, text: str, offset: int | None) -> Span | None:
    """The word at an offset of a string's text, in the script; all of it when that is unknown."""
    if span is None or offset is None:
        return span
    written = span.text
    tag = _TAG.match(written)
    start = span.start + (tag.end() if tag else 1)
    body = written[start - span.start : start - span.start + len(text)]
    if body != text:  # with escapes in it
        return span
    word = _WORD.match(text, offset)
    return Span(span.source, start + offset, start + max(word.end() if word else 0, offset + 1))
