"""Tables that a part of a script knows by name: WITH, and the table parameters of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zql.errors import BindError
from zql.logical.bind_source import bind_item
from zql.logical.context import Context, LocalTable
from zql.logical.scope import Scope
from zql.syntax import ast


def with_tables(
    context: Context, common: Sequence[ast.CommonQuery], outer: tuple[Scope, ...]
) -> None:
    """Adds the tables of a WITH; each sees those before it. Raises `BindError`."""
    for table in common:
        name = table.name.text
        if name in context.frame.here:
            raise BindError(
                f'WITH names "{name}" twice in this query',
                code="N217",
                span=table.name.span,
                hint="give one of them another name",
            )
        frame = context.frame
        item = ast.Aliased(
            ast.QuerySource(table.query, span=table.query.span),
            columns=table.columns,
            span=table.span,
        )
        inside = replace(frame, defining=(*frame.defining, name))
        with context.within(replace(context.place, frame=inside)):
            scope = bind_item(context, item, outer)
        tables = {**frame.tables, name: LocalTable(scope)}
        context.frame = replace(frame, tables=tables, here=frame.here | {name})
