"""`fold_python_aggregates`: a grouping with aggregates of Python classes becomes a `Fold`.

What a class takes of a row becomes columns of the input, so that DuckDB computes it once. Native
aggregates beside it stay what they are, over the same groups; what is computed of both stands in a
projection behind. Equal aggregates are made once, unless the class is volatile.

This rule is no option: DuckDB cannot run such an aggregate.
"""

from __future__ import annotations

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import PythonFunction
from zql.logical import plan as lp
from zql.logical.scope import Names
from zql.optimizer.facts import has_subquery, is_volatile, unused_names
from zql.tree import Node, children, map_children, rewrite_up, walk


def fold_python_aggregates(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan without `PythonAggregateCall`s. Raises `BindError` for grouping sets."""
    if not any(isinstance(n, ex.PythonAggregateCall) for n in walk(plan)):
        return plan
    names = unused_names(plan)

    def visit(node: Node) -> Node:
        if not isinstance(node, lp.Aggregate) or not any(map(_first_call, node.aggregates)):
            return node
        return _Folding(node, names).plan()

    folded: lp.LogicalPlan = rewrite_up(plan, visit)
    return folded


def _first_call(node: Node) -> ex.PythonAggregateCall | None:
    """An aggregate of a Python class in an expression, those in plans of subqueries aside."""
    todo = [node]
    while todo:
        current = todo.pop()
        if isinstance(current, ex.PythonAggregateCall):
            return current
        if not isinstance(current, lp.LogicalPlan):
            todo += children(current)
    return None


class _Folding:
    """One grouping while it is taken apart."""

    def __init__(self, node: lp.Aggregate, names: Names) -> None:
        self.node = node
        self.names = names
        self.extra: list[lp.Assign] = []
        self.calls: dict[tuple[ex.PythonAggregateCall, int], lp.PythonAggregate] = {}
        self.natives: list[lp.Assign] = []

    def plan(self) -> lp.LogicalPlan:
        node = self.node
        if node.sets:
            call = next(c for a in node.aggregates if (c := _first_call(a)))
            raise BindError(
                f"{'.'.join(call.name)} is a Python aggregate, which has no grouping sets yet",
                code="P404",
                span=call.span,
                hint="|> FORK into an AGGREGATE for each set, or UNION ALL them",
            )
        made = tuple(lp.Assign(a.column, self.item(a)) for a in node.aggregates)
        here = set(node.input.columns)
        keys = tuple(k for k in node.keys if k.expr != k.column or k.column not in here)
        passed = tuple(lp.Assign(c, c) for c in node.input.columns)
        inner = lp.Project(node.input, (*passed, *keys, *self.extra))
        key_columns = tuple(k.column for k in node.keys)
        fold = lp.Fold(inner, key_columns, tuple(self.calls.values()), tuple(self.natives))
        return lp.Project(fold, (*(lp.Assign(k, k) for k in key_columns), *made))

    def item(self, assign: lp.Assign) -> ex.Expr:
        """An item over the columns of the groups."""
        if _first_call(assign.expr) is None:
            self.natives.append(assign)
            return assign.column
        alone = isinstance(assign.expr, ex.PythonAggregateCall)

        def visit(node: Node) -> Node:
            if isinstance(node, lp.LogicalPlan):
                return node
            if isinstance(node, ex.PythonAggregateCall):
                return self.call(node, assign.column if alone else None)
            if isinstance(node, ex.Cast) and _is_native_aggregate(node.operand):
                column = self.names.column("aggregate", node.type)
                self.natives.append(lp.Assign(column, node))
                return column
            return map_children(node, visit)

        return visit(assign.expr)  # type: ignore[return-value]

    def call(self, call: ex.PythonAggregateCall, wanted: ex.Column | None) -> ex.Column:
        """The column of an aggregate."""
        key = (call, id(call) if call.volatile else 0)
        if key not in self.calls:
            self.calls[key] = self.aggregate(call, wanted)
        return self.calls[key].column

    def aggregate(
        self, call: ex.PythonAggregateCall, wanted: ex.Column | None
    ) -> lp.PythonAggregate:
        function: PythonFunction = call.function  # type: ignore[assignment]
        column = wanted or self.names.column(call.name[-1], call.type)
        guard = None
        if call.filter is not None:
            guard = self.column(call.filter, "guard", "BOOLEAN")
        positional = (a for a in call.args if isinstance(a, ex.Expr))
        named = (a for a in call.args if isinstance(a, ex.NamedArgument))
        order = ((k, self.column(k.expr, "order")) for k in call.order if not _is_constant(k.expr))
        return lp.PythonAggregate(
            column,
            function,
            tuple(self.argument(a, call.filter) for a in positional),
            tuple((a.name, self.argument(a.value, call.filter)) for a in named),
            call.made_with,
            guard,
            call.distinct,
            tuple(ex.SortKey(by, k.descending, k.nulls_first) for k, by in order),
            call.span,
        )

    def argument(self, expr: ex.Expr, condition: ex.Expr | None) -> ex.Expr:
        """A constant, or a column; computed only where FILTER lets the row count."""
        if _is_constant(expr):
            return expr
        if condition is None or isinstance(expr, ex.Column) or is_volatile(condition):
            return self.column(expr, "argument")
        type_ = getattr(expr, "type", "")
        return self.column(ex.Case(None, ((condition, expr),)), "argument", type_)

    def column(self, expr: ex.Expr, wanted: str, type_: str = "") -> ex.Column:
        if isinstance(expr, ex.Column) and expr in self.node.input.columns:
            return expr
        found = (a.column for a in self.extra if a.expr == expr and not is_volatile(expr))
        known = next(found, None)
        if known is None:
            known = self.names.column(wanted, type_ or getattr(expr, "type", "") or "VARCHAR")
            self.extra.append(lp.Assign(known, expr))
        return known


def _is_native_aggregate(node: Node) -> bool:
    native = isinstance(node, ex.Call) and node.aggregate and node.window is None
    return native and not isinstance(node, ex.PythonAggregateCall)


def _is_constant(expr: ex.Expr) -> bool:
    """Whether it is one value for all rows, which need not be a column."""
    depends = any(isinstance(n, ex.Column) for n in walk(expr))
    return not depends and not is_volatile(expr) and not has_subquery(expr)
