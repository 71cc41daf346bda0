"""REDUCE: a Python function that is called once for each group of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import ErrorPolicy, PythonFunction
from zql.logical import plan as lp
from zql.logical.bind_aggregate import grouping_key
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_function_of_rows import (
    Handed,
    Keywords,
    Record,
    arguments_of_many,
    check_takes_rows,
    computed,
    python_function,
    result_fields,
    whole_record,
    with_source,
)
from zql.logical.bind_operator import sort_keys
from zql.logical.context import Context
from zql.logical.python_arguments import bind_arguments
from zql.logical.scope import Scope, Visible
from zql.syntax import ast
from zql.tree import walk

_PROBED_ROWS = 100


def reduce(context: Context, scope: Scope, op: ast.Reduce, outer: tuple[Scope, ...]) -> Scope:
    """The columns are those of the records that the function gives."""
    context.check_python(op.function_span or op.span)
    function = python_function(context, op.function, op.function_span or op.span)
    combine = python_function(context, op.combine, op.span) if op.combine else None
    for each in (function, combine):
        if each is not None:
            check_takes_rows(each, "REDUCE", op.function_span or op.span)
    args, keywords = arguments_of_many(context, scope, op, function, outer, 2)
    _check_combine(op, combine, args)
    policy = context.policy
    told: Keywords = ()
    if combine is not None:
        binder = ExpressionBinder(context, (scope,))
        _, told = bind_arguments(binder, (), combine, op.span, record=2)
    record = () if args else whole_record(scope, "REDUCE", op.span)
    binder = ExpressionBinder(context, (scope, *outer))
    made = [grouping_key(binder, item) for item in op.keys]
    order = sort_keys(binder, op.order)
    _check_policy(policy, combine, (*args, *(m.expr for m in made), *(k.expr for k in order)))
    # COMBINE makes records anew, and may leave keys out: it has them as columns of their own.
    plan, keys = _as_columns(
        context, binder, scope.plan, [(m.name, m.expr) for m in made], combine is not None
    )
    plan, sorted_by = _as_columns(context, binder, plan, [("order", k.expr) for k in order], False)
    order = tuple(replace(k, expr=c) for k, c in zip(order, sorted_by, strict=True))
    plan, args, _ = computed(context, plan, args, ())
    first = lp.Sort(lp.Limit(plan, _PROBED_ROWS), order) if order else plan
    handed = Handed(function, "REDUCE", first, record, args, keywords, keys)
    fields = result_fields(context, op, handed)
    if combine is not None:
        plan, keys, record = _combined(context, plan, op, (combine, told), keys, record)
    columns = tuple(context.names.column(f.name, f.type) for f in fields)
    plan = lp.Reduce(
        plan,
        "REDUCE",
        with_source(op, function),
        keys,
        record,
        args,
        keywords,
        order,
        columns,
        fields.names,
        policy,
        op.span,
    )
    return Scope(plan, tuple(Visible(f.name, c) for f, c in zip(fields, columns, strict=True)))


def _check_combine(
    op: ast.Reduce, combine: PythonFunction | None, args: tuple[ex.Expr, ...]
) -> None:
    if combine is None:
        return
    if op.order:
        raise BindError(
            "COMBINE puts records in the place of rows: their ORDER BY would be lost",
            code="P451",
            span=op.span,
            hint="leave one of them out, or sort inside of the function",
        )
    if args:
        raise BindError(
            "COMBINE takes and gives whole rows, not values",
            code="P452",
            span=op.span,
            hint=f"|> SELECT the columns first, then |> REDUCE {'.'.join(op.function)}",
        )


def _check_policy(
    policy: ErrorPolicy | None, combine: PythonFunction | None, exprs: Sequence[ex.Expr]
) -> None:
    """With ON ERROR a group goes as a whole or not at all. Raises `BindError`."""
    if policy is None:
        return
    if combine is not None:
        raise BindError(
            "ON ERROR of REDUCE and COMBINE do not go together: COMBINE sees a part of a group, "
            "and a group without one of its parts would be another",
            code="P404",
            span=policy.span,
            hint="leave COMBINE out: REDUCE then gets the rows themselves",
        )
    calls = [n for e in exprs for n in walk(e) if isinstance(n, ex.PythonCall)]
    if calls:
        raise BindError(
            "ON ERROR of REDUCE is for its own function, not for calls in its arguments and keys",
            code="P416",
            span=calls[0].span or policy.span,
            hint="|> EXTEND the call first, with an ON ERROR of its own",
        )


def _as_columns(
    context: Context,
    binder: ExpressionBinder,
    plan: lp.LogicalPlan,
    named: Sequence[tuple[str, ex.Expr]],
    always: bool,
) -> tuple[lp.LogicalPlan, tuple[ex.Column, ...]]:
    """A plan that has each expression as a column; `always` a new one."""
    types = binder.types([e for _, e in named])
    columns: list[ex.Column] = []
    made: list[lp.Assign] = []
    for (name, expr), type_ in zip(named, types, strict=True):
        if isinstance(expr, ex.Column) and not always:
            columns.append(expr)
            continue
        columns.append(context.names.column(name, type_))
        made.append(lp.Assign(columns[-1], expr))
    if made:
        plan = lp.Project(plan, (*(lp.Assign(c, c) for c in plan.columns), *made))
    return plan, tuple(columns)


def _combined(
    context: Context,
    plan: lp.LogicalPlan,
    op: ast.Reduce,
    combine: tuple[PythonFunction, Keywords],
    keys: tuple[ex.Column, ...],
    record: Record,
) -> tuple[lp.LogicalPlan, tuple[ex.Column, ...], Record]:
    """The plan behind COMBINE, and where keys and records are there."""
    function, told = combine
    names = tuple(name for name, _ in record)
    new_keys = tuple(context.names.column(k.name, k.type) for k in keys)
    fields = tuple(context.names.column(name, c.type) for name, c in record)
    columns = (*new_keys, *fields)
    plan = lp.Reduce(
        plan, "COMBINE", function, keys, record, (), told, (), columns, names, span=op.span
    )
    return plan, new_keys, tuple(zip(names, fields, strict=True))
