"""UNNEST: the elements of a list as rows, as an operator, in FROM, and behind JOIN."""

from __future__ import annotations

from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_type import element_type
from zql.logical.context import Context
from zql.logical.scope import Scope, Visible
from zql.syntax import ast
from zql.syntax.printer import expression_name
from zql.tree import node


def unnest(context: Context, scope: Scope, op: ast.Unnest, outer: tuple[Scope, ...]) -> Scope:
    """One row for each element of a list."""
    name = op.alias.text if op.alias else expression_name(op.list)
    wanted = [name] + ([op.position.text] if op.position else [])
    for n in wanted:
        if n in scope.names:
            raise BindError(
                f'UNNEST adds "{n}", which is there already',
                code="N214",
                span=op.span,
                hint="name the element: UNNEST .. AS other",
            )
    elements = Elements(op.list, name, op.position, op.one_based)
    return elements.beside(context, scope, outer, keep=op.outer)


@node
class Elements:
    """A list whose elements become rows: the column for them, and the one that counts them."""

    list: ex.Expr
    name: str
    position: ast.Identifier | None = None
    one_based: bool = False
    table: str = ""
    """The alias of a table of both, when there is one."""

    def beside(
        self, context: Context, left: Scope, outer: tuple[Scope, ...], *, keep: bool
    ) -> Scope:
        """Each row of the left side with each element; `keep` keeps those without any."""
        binder = ExpressionBinder(context, (left, *outer), row_by_row="UNNEST")
        items = binder.bind(self.list)
        column = context.names.column(self.name, element_type(binder, items, self.list.span))
        new: tuple[Visible, ...] = (Visible(self.name, column, self.table),)
        position = None
        if self.position is not None:
            position = context.names.column(self.position.text, "BIGINT")
            new += (Visible(self.position.text, position, self.table),)
        plan = lp.Unnest(left.plan, items, column, position, 1 if self.one_based else 0, keep)
        aliases = left.aliases + (((self.table, new),) if self.table else ())
        return replace(left, plan=plan, visible=left.visible + new, aliases=aliases)


def elements_of(item: ast.FromItem) -> Elements | None:
    """What `UNNEST(list) AS x WITH OFFSET AS i` in FROM stands for; None for other items.

    Its alias is the name of the elements; in `AS t (x)` it is that of a table.
    """
    aliased = item if isinstance(item, ast.Aliased) else None
    source = aliased.item if aliased else item
    if not isinstance(source, ast.UnnestSource):
        return None
    name, table = "unnest", ""
    if aliased and aliased.alias:
        name = aliased.alias.text
    if aliased and aliased.columns:
        if len(aliased.columns) > 1:
            raise BindError(
                "UNNEST gives one column",
                code="N210",
                span=aliased.columns[1].span,
                hint="name the elements' places with WITH OFFSET AS i",
            )
        name, table = aliased.columns[0].text, name
    return Elements(source.list, name, source.position, source.one_based, table)


def from_unnest(context: Context, elements: Elements, outer: tuple[Scope, ...]) -> Scope:
    """UNNEST with nothing to its left."""
    row = lp.Values((context.names.column("_row", "INTEGER"),), ((ex.Literal(0),),))
    return elements.beside(context, Scope(row, ()), outer, keep=False)


def join_unnest(
    context: Context, left: Scope, clause: ast.Join, elements: Elements, outer: tuple[Scope, ...]
) -> Scope:
    """UNNEST behind JOIN: its list may be a column of the left side. Raises `BindError`."""
    plain = clause.on is None or clause.on == ex.Literal(True)
    if clause.kind not in ("CROSS", "INNER", "LEFT") or not plain or clause.using or clause.natural:
        raise BindError(
            "UNNEST is joined with CROSS JOIN or LEFT JOIN, without ON",
            code="P403",
            span=clause.span,
            hint="filter with |> WHERE behind it",
        )
    return elements.beside(context, left, outer, keep=clause.kind == "LEFT")
