"""Expressions bound: names become columns, calls functions; then DuckDB is asked for types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical.bind_call import CallBinder
from zql.logical.doubts import never_true
from zql.logical.instances import inlined
from zql.logical.plan import Assign, Project
from zql.tree import walk


class ExpressionBinder(CallBinder):
    """Binds the expressions of one operator over the scopes in reach, the innermost first."""

    def bind(self, expr: ex.Expr) -> ex.Expr:
        """The bound expression, not yet checked for types. Raises `BindError`."""
        match expr:
            case ex.Name():
                return self.name(expr)
            case ex.Parameter():
                return self.parameter(expr)
            case ex.Call():
                return self.call(expr)
            case ex.Method():
                args = (expr.receiver, *expr.args)
                return self.call(ex.Call((expr.name,), args, span=expr.span))
            case ex.Lambda():
                inner = self.inner(expr.parameters)
                names = tuple(inner.variables[p] for p in expr.parameters)
                return replace(expr, parameters=names, body=inner.bind(expr.body))
            case ex.Comprehension():
                inner = self.inner((expr.variable,))
                return replace(
                    expr,
                    variable=inner.variables[expr.variable],
                    items=self.bind(expr.items),
                    element=inner.bind(expr.element),
                    condition=inner.bind(expr.condition) if expr.condition else None,
                )
            case ex.Subquery():
                return self.subquery(expr)
            case ex.Try():
                with self.context.inside_try():
                    return self.rebuilt(expr)
            case ex.Cast(type="VARCHAR", safe=False):
                return self.cast_to_text(expr)
            case ex.In(negated=True) | ex.Unary(op="NOT", operand=ex.In(negated=False)):
                tested = expr if isinstance(expr, ex.In) else expr.operand
                never_true(self.context.doubts, tested)  # type: ignore[arg-type]
                return self.rebuilt(expr)
            case ex.Star() | ex.Columns():
                raise BindError(
                    "a star can only stand by itself in a select list", code="N209", span=expr.span
                )
            case _:
                return self.rebuilt(expr)

    def inner(self, variables: Sequence[str]) -> ExpressionBinder:
        """The binder for the body of a lambda or comprehension."""
        named = {v: f"{v}:{self.depth}" if self.depth else v for v in variables}
        return replace(self, variables={**self.variables, **named})

    def cast_to_text(self, cast: ex.Cast) -> ex.Expr:
        """A JSON string as text has no quotes; DuckDB's own CAST would keep them."""
        operand = self.bind(cast.operand)
        near_json = any(isinstance(n, ex.Column) and "JSON" in n.type for n in walk(operand))
        if near_json and self.types((operand,))[0] == "JSON":
            return ex.Binary("->>", operand, ex.Literal("$"), span=cast.span)
        return replace(cast, operand=operand)

    def subquery(self, subquery: ex.Subquery) -> ex.Expr:
        inner = self.context.bind_query(subquery.query, self.scopes)  # type: ignore[arg-type]
        inner = inlined(self.context, inner, subquery.span)
        plan, columns = inner.plan, tuple(v.column for v in inner.visible)
        if plan.columns != columns and columns:
            plan = Project(plan, tuple(Assign(c, c) for c in columns))
        if not columns and self.context.errors:
            raise self.context.errors[-1]  # which has left it without
        if subquery.kind in ("SCALAR", "IN") and len(columns) != 1:
            raise BindError(
                f"the subquery gives {len(columns)} columns where one is wanted",
                code="T304",
                span=subquery.span,
                hint="end it with |> SELECT of one column",
            )
        operand = self.bind(subquery.operand) if subquery.operand else None
        type_ = columns[0].type if subquery.kind == "SCALAR" else "BOOLEAN"
        return replace(subquery, query=plan, operand=operand, type=type_)
