"""AGGREGATE with GROUPING SETS, ROLLUP and CUBE, and what `grouping(..)` says of them.

Several such items, and plain keys beside them, give every combination of their sets, as in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import combinations

from zql.errors import BindError, ErrorList
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_aggregate import checked_item, grouping_key, typed_below_python
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_select import Made, check_unique
from zql.logical.bind_type import is_grouping
from zql.logical.context import Context
from zql.logical.scope import Scope, Visible
from zql.syntax import ast
from zql.tree import Node, map_children, record, walk

MOST_SETS = 4096
"""More sets than this are a mistake: each is a grouping of its own."""

Sets = list[tuple[ex.Expr, ...]]
Keys = Sequence[tuple[ex.Expr, ex.Column]]
"""Each key as it was written, and the column of the input that holds it."""


def has_grouping_sets(op: ast.Aggregate) -> bool:
    """Whether rows are grouped in more than one way, or an item asks how they are."""
    return any(is_sets(key.expr) for key in op.keys) or any(
        _word(n) in ("GROUPING", "GROUPING_ID") for item in op.items for n in walk(item.expr)
    )


def aggregate_sets(
    context: Context, scope: Scope, op: ast.Aggregate, outer: tuple[Scope, ...]
) -> Scope:
    """One row for each group of each set; keys outside of a set are NULL. Raises `BindError`.

    The empty set gives its one row even of no input.
    """
    siblings = tuple(i.alias.text for i in op.items + op.keys if i.alias)
    binder = ExpressionBinder(context, (scope, *outer), siblings=siblings, grouped=True)
    groups = Groups(binder)
    for key in op.keys:
        context.attempt(lambda k=key: groups.add(k))  # type: ignore[misc]
    binder, keys = groups.as_columns()
    made = [m for i in op.items if (m := context.attempt(lambda i=i: _item(binder, keys, i)))]  # type: ignore[misc]
    both = [replace(m, expr=column) for m, (_, column) in zip(groups.keys, keys, strict=True)]
    both += made
    count = len(both)
    check_unique(context, both, "AGGREGATE")
    if len(both) < count or len(made) < len(op.items):
        raise ErrorList(context.errors)
    types = binder.types([m.expr for m in both])
    columns = [context.names.column(m.name, t) for m, t in zip(both, types, strict=True)]
    assigns = tuple(lp.Assign(c, m.expr) for c, m in zip(columns, both, strict=True))
    sets, first = tuple(groups.sets), len(keys)
    plan: lp.LogicalPlan = lp.Aggregate(
        binder.scope.plan, assigns[:first], assigns[first:], sets if keys or len(sets) > 1 else ()
    )
    order = _order(op, groups, columns)
    if order:
        plan = lp.Sort(plan, order)
    return Scope(plan, tuple(Visible(m.name, c) for m, c in zip(both, columns, strict=True)))


@record
class Groups:
    """The keys found so far, each once, and the sets as their numbers."""

    binder: ExpressionBinder
    keys: list[Made] = field(default_factory=list)
    items: list[ast.AggregateItem] = field(default_factory=list)
    sets: list[tuple[int, ...]] = field(default_factory=lambda: [()])

    def add(self, item: ast.AggregateItem) -> None:
        """Takes one item of GROUP BY. Raises `BindError`."""
        choices = _sets(item.expr, item)
        if len(choices) * len(self.sets) > MOST_SETS:
            raise BindError(
                f"this makes more than {MOST_SETS} grouping sets",
                code="T327",
                span=item.expr.span,
                hint="list the ones you want: GROUPING SETS ((a, b), (a), ())",
            )
        numbers = [tuple(self.number(e, item) for e in choice) for choice in choices]
        self.sets = [tuple(dict.fromkeys(a + b)) for a in self.sets for b in numbers]

    def number(self, expr: ex.Expr, item: ast.AggregateItem) -> int:
        """The number of a key; a new one when it has not been seen."""
        made = grouping_key(self.binder, replace(item, expr=expr))
        for i, key in enumerate(self.keys):
            if key.expr == made.expr:
                return i
        self.keys.append(made)
        self.items.append(item)
        return len(self.keys) - 1

    def as_columns(self) -> tuple[ExpressionBinder, Keys]:
        """The keys as columns of the input, and a binder over it: the sets name each key."""
        scope = self.binder.scope
        types = self.binder.types([k.expr for k in self.keys])
        made: list[lp.Assign] = []
        pairs: list[tuple[ex.Expr, ex.Column]] = []
        for key, type_ in zip(self.keys, types, strict=True):
            column = key.expr
            if not isinstance(column, ex.Column) or column not in scope.plan.columns:
                column = self.binder.context.names.column(key.name, type_)
                made.append(lp.Assign(column, key.expr))
            pairs.append((key.expr, column))
        if not made:
            return self.binder, pairs
        passed = tuple(lp.Assign(c, c) for c in scope.plan.columns)
        wider = scope.over(lp.Project(scope.plan, (*passed, *made)))
        return replace(self.binder, scopes=(wider, *self.binder.scopes[1:])), pairs


def is_sets(expr: ex.Expr) -> bool:
    """Whether an item of GROUP BY stands for several sets of keys."""
    return isinstance(expr, ex.GroupingSets) or _word(expr) in ("ROLLUP", "CUBE")


def _word(expr: Node) -> str:
    return expr.name[0].upper() if isinstance(expr, ex.Call) and len(expr.name) == 1 else ""


def _sets(expr: ex.Expr, item: ast.AggregateItem) -> Sets:
    """The sets that an item stands for; those of one inside another are its own."""
    if not is_sets(expr):
        return [(expr,)]
    if item.alias:
        raise BindError(
            "an item of several grouping sets has no name of its own",
            code="T328",
            span=item.alias.span,
            hint="name a key in |> EXTEND before",
        )
    if isinstance(expr, ex.GroupingSets):
        return [
            found
            for one in expr.sets
            for found in (_sets(one[0], item) if len(one) == 1 and is_sets(one[0]) else [one])
        ]
    if not isinstance(expr, ex.Call) or not expr.args or expr.star:
        raise BindError(f"{_word(expr)} takes keys", code="T307", span=expr.span)
    parts = [_part(a, expr) for a in expr.args]
    if _word(expr) == "ROLLUP":
        chosen = [parts[:n] for n in range(len(parts), -1, -1)]
    elif 2 ** len(parts) > MOST_SETS:
        raise BindError(
            f"CUBE of {len(parts)} keys makes 2^{len(parts)} grouping sets",
            code="T327",
            span=expr.span,
            hint="list the ones you want: GROUPING SETS ((a, b), (a), ())",
        )
    else:
        sizes = range(len(parts), -1, -1)
        chosen = [list(c) for size in sizes for c in combinations(parts, size)]
    return [tuple(e for part in choice for e in part) for choice in chosen]


def _part(argument: ex.Expr | ex.NamedArgument, call: ex.Call) -> tuple[ex.Expr, ...]:
    """`a` or `(a, b)`: what comes and goes together."""
    if isinstance(argument, ex.NamedArgument):
        raise BindError(f"{_word(call)} takes keys", code="T307", span=argument.span)
    return argument.items if isinstance(argument, ex.Row) else (argument,)


# ---- aggregates --------------------------------------------------------------------------------


def _item(binder: ExpressionBinder, keys: Keys, item: ast.AggregateItem) -> Made:
    """An aggregate bound; `grouping(key, ..)` is one."""
    name = item.alias.text if item.alias else binder.column_name(item.expr)
    bound = binder.bind(item.expr)

    def visit(node: Node) -> Node:
        if isinstance(node, ex.Subquery):
            return node
        if isinstance(node, ex.Call) and is_grouping(node):
            return replace(node, args=tuple(key_column(a, node, keys) for a in node.args))
        return map_children(node, visit)

    made = Made(name, visit(bound), item.expr.span)  # type: ignore[arg-type]
    checked_item(made)
    return replace(made, expr=typed_below_python(made.expr, lambda e: binder.types((e,))[0]))


def key_column(argument: Node, call: ex.Call, keys: Keys) -> ex.Column:
    """The key that an argument of `grouping(..)` names. Raises `BindError`."""
    for expr, column in keys:
        if argument == expr:
            return column
    span = argument.span if isinstance(argument, ex.Expr) else call.span
    raise BindError(
        f"{span.text if span else 'this'} is no key: grouping(..) takes keys of GROUP BY",
        code="T329",
        span=span,
    )


def _order(
    op: ast.Aggregate, groups: Groups, columns: Sequence[ex.Column]
) -> tuple[ex.SortKey, ...]:
    """Keys with a suffix first, then aggregates; GROUP AND ORDER BY adds the other keys."""
    items = (*groups.items, *op.items)
    count = len(groups.items)
    chosen = [i for i in range(len(items)) if items[i].order]
    if op.ordered:
        chosen += [i for i in range(count) if i not in chosen]
    return tuple(
        ex.SortKey(columns[i], items[i].order == "DESC", items[i].nulls_first) for i in chosen
    )
