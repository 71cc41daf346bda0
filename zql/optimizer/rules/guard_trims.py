r"""`guard_trims`: trim() is called for texts that begin or end with something to be trimmed.

DuckDB's trim goes through all characters of a text to find its last one. Whether the last is a
space (of the category Zs, which is what trim takes away) a pattern at the end says at once. The
text is looked at three times then, so it gets a column of its own; only where it is computed for
every row anyway, outside CASE and the like.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.scope import Names
from zql.optimizer.facts import columns_of, has_subquery, has_window, is_volatile, unused_names
from zql.tree import Node, map_children, rewrite_up, walk

_ENDS = (r"\p{Zs}\z", r"\A\p{Zs}")


def guard_trims(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with such calls guarded."""
    if not any(_is_trim(n) for n in walk(plan)):
        return plan
    names = unused_names(plan)

    def visit(node: Node) -> Node:
        return _guarded(node, names) if isinstance(node, lp.Project) else node

    guarded: lp.LogicalPlan = rewrite_up(plan, visit)
    return guarded


def _guarded(plan: lp.Project, names: Names) -> lp.Project:
    texts: dict[ex.Expr, ex.Column] = {}

    def visit(node: Any) -> Any:
        if _is_trim(node) and isinstance(node, ex.Call):
            text = node.args[0]
            if not isinstance(text, ex.Expr) or not _may_be_shared(text):
                return node
            if not isinstance(text, ex.Column) or text.type != "VARCHAR":
                text = texts.setdefault(text, names.column("text", "VARCHAR"))
            return _trimmed(replace(node, args=(text,)), text)
        return map_children(node, visit) if _computes_all(node) else node

    assigns = tuple(lp.Assign(a.column, visit(a.expr)) for a in plan.assigns)
    if not texts:
        return plan if assigns == plan.assigns else replace(plan, assigns=assigns)
    used = frozenset(name for a in assigns for name in columns_of(a.expr))
    passed = tuple(lp.Assign(c, c) for c in plan.input.columns if c.name in used)
    made = tuple(lp.Assign(column, ex.Cast(text, "VARCHAR")) for text, column in texts.items())
    return replace(plan, input=lp.Project(plan.input, passed + made), assigns=assigns)


def _trimmed(call: ex.Call, text: ex.Expr) -> ex.Expr:
    tests = tuple(ex.Call(("regexp_matches",), (text, ex.Literal(end))) for end in _ENDS)
    return ex.Case(None, ((ex.Logical("OR", tests), call),), text)


def _is_trim(node: Node) -> bool:
    return isinstance(node, ex.Call) and node.name == ("trim",) and len(node.args) == 1


def _may_be_shared(text: ex.Expr) -> bool:
    return not (is_volatile(text) or has_window(text) or has_subquery(text))


def _computes_all(node: Node) -> bool:
    """Whether the operands of an expression are computed whenever it is."""
    return isinstance(node, ex.Binary | ex.Cast) or (
        isinstance(node, ex.Call)
        and node.window is None
        and not node.aggregate
        and not any(isinstance(a, ex.Lambda) for a in node.args)
        and node.name[-1].lower() not in ("coalesce", "ifnull", "if", "nullif")
    )
