"""JOIN LATERAL: a query that is asked anew for each row of the left side, which it sees."""

from __future__ import annotations

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.scope import Scope
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk

WITHOUT_PYTHON = "a LATERAL query"


def is_lateral(item: ast.FromItem) -> bool:
    """Whether a FROM item, alias aside, is LATERAL."""
    while isinstance(item, ast.Aliased | ast.Sampled):
        item = item.item
    return isinstance(item, ast.LateralSource)


def check_kind(clause: ast.Join) -> None:
    """Raises `BindError` for a kind of JOIN that asks for right rows without a left one."""
    if clause.kind in ("RIGHT", "FULL"):
        raise BindError(
            f"{clause.kind} JOIN LATERAL: its rows come from those of the left side",
            code="P403",
            span=clause.span,
            hint="JOIN LATERAL, LEFT JOIN LATERAL or CROSS JOIN LATERAL",
        )
    if clause.kind not in ("INNER", "LEFT", "CROSS"):
        raise BindError(
            f"there is no {clause.kind} JOIN LATERAL",
            code="P403",
            span=clause.span,
            hint="WHERE [NOT] EXISTS (..) asks whether there are rows",
        )


def lateral_plan(
    left: Scope, right: Scope, kind: str, condition: ex.Expr | None, span: Span | None
) -> lp.Lateral:
    """The join of each left row with the rows that the query gives for it. Raises `BindError`."""
    if condition is not None and any(isinstance(n, ex.PythonCall) for n in walk(condition)):
        raise BindError(
            "a Python function in the condition of JOIN LATERAL",
            code="P408",
            span=condition.span or span,
            hint="|> WHERE behind the JOIN calls it",
        )
    if condition is None and kind == "LEFT":
        condition = ex.Literal(True)
    return lp.Lateral(left.plan, right.plan, "CROSS" if condition is None else kind, condition)
