"""Python functions that take rows and give rows: what they are handed, and what columns come back.

MAP BATCHES, MAP SHARDS and REDUCE hand over many rows at once: their named arguments are then one
value for all of them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import FIRST_ROWS, PythonFunction
from zql.logical import declared
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_source import unique
from zql.logical.catalog import ProbeWay
from zql.logical.context import UNKNOWN, Context
from zql.logical.python_arguments import bind_arguments, without_shared
from zql.logical.scope import Scope, Visible
from zql.schema import Field, Schema
from zql.source import Span
from zql.syntax import ast
from zql.tree import node, walk

Record = tuple[tuple[str, ex.Column], ...]
Keywords = tuple[tuple[str, ex.Expr], ...]


@node
class Handed:
    """What a function gets of the rows of `plan`: a record, or values of `args` in its place.

    `kind` is the operator; `keys` are what REDUCE groups by, `shard` the parameter that takes the
    shard.
    """

    function: PythonFunction
    kind: str
    plan: lp.LogicalPlan
    record: Record
    args: tuple[ex.Expr, ...]
    keywords: Keywords
    keys: tuple[ex.Column, ...] = ()
    shard: str = ""


def map_many(context: Context, scope: Scope, op: ast.MapRows, outer: tuple[Scope, ...]) -> Scope:
    """MAP BATCHES and MAP SHARDS."""
    function = python_function(context, op.function, op.function_span or op.span)
    shard = ""
    if op.kind == "MAP SHARDS":
        check_takes_rows(function, op.kind, op.function_span or op.span)
        given = {a.name for a in op.args if isinstance(a, ex.NamedArgument)}
        takers = [p.name for p in function.parameters[1:] if p.shard and p.name not in given]
        shard = takers[0] if takers else ""
    args, keywords = arguments_of_many(context, scope, op, function, outer, 1, shard)
    if args and function.form:
        raise BindError(
            f"{function.name} takes a table: it is handed whole rows, not values",
            code="P452",
            span=op.span,
            hint=f"|> SELECT the columns first, then |> {op.kind} {'.'.join(op.function)}",
        )
    record = () if args else whole_record(scope, op.kind, op.span)
    handed = Handed(function, op.kind, scope.plan, record, args, keywords, shard=shard)
    batch_rows = _batch_rows(op) or function.batch_size
    return mapped(context, op, handed, batch_rows if op.kind == "MAP BATCHES" else None)


def mapped(
    context: Context, op: ast.MapRows, handed: Handed, batch_rows: int | None = None
) -> Scope:
    """The records that a function gives for what it is handed, in batches of so many rows."""
    fields = result_fields(context, op, handed)
    columns = tuple(context.names.column(f.name, f.type) for f in fields)
    plan, args, keywords = computed(context, handed.plan, handed.args, handed.keywords)
    plan = lp.MapRows(
        plan,
        op.kind,
        with_source(op, handed.function),
        handed.record,
        args,
        keywords,
        columns,
        fields.names,
        on_error=context.policy,
        span=op.span,
        batch_rows=batch_rows,
        shard=handed.shard,
    )
    return Scope(plan, tuple(Visible(f.name, c) for f, c in zip(fields, columns, strict=True)))


def arguments_of_many(
    context: Context,
    scope: Scope,
    op: ast.MapRows | ast.Reduce,
    function: PythonFunction,
    outer: tuple[Scope, ...],
    taken: int,
    shard: str = "",
) -> tuple[tuple[ex.Expr, ...], Keywords]:
    """Expressions in place of the record, and named arguments: one value for all rows.

    The first `taken` parameters are handed by the operator, and `shard`. Raises `BindError`.
    """
    binder = ExpressionBinder(context, (scope, *outer))
    args = tuple(binder.bind(a) for a in op.args if not isinstance(a, ex.NamedArgument))
    args, _ = binder.typed_arguments(args, ())
    named = [a for a in op.args if isinstance(a, ex.NamedArgument)]
    parameters = tuple(p for p in function.parameters if p.name != shard)
    own = replace(function, parameters=parameters)
    _, keywords = bind_arguments(binder, named, own, op.span, record=taken)
    _, keywords = binder.typed_arguments((), keywords)
    _, keywords = binder.as_declared(own, (), keywords)
    for name, value in keywords:
        if any(isinstance(n, ex.Column | ex.PythonCall | ex.Subquery) for n in walk(value)):
            kind = op.kind if isinstance(op, ast.MapRows) else "REDUCE"
            place = next(a.span for a in named if a.name == name)
            raise BindError(
                f'"{name}" is one value for all rows of {kind}: it cannot depend on a row',
                code="P450",
                span=place or op.span,
                hint="the function finds columns in the rows themselves",
            )
    return args, keywords


def whole_record(scope: Scope, kind: str, span: Span | None) -> Record:
    """All visible columns as a record; their names must differ."""
    unique(scope, f"in {kind}", span)
    return tuple((v.name, v.column) for v in scope.visible)


def _batch_rows(op: ast.MapRows) -> int | None:
    """The hint `batch_size`; that it is a number from 1 is checked where all hints are."""
    for hint in op.hints:
        if hint.name.lower() == "batch_size" and isinstance(hint.value, ex.Literal):
            return hint.value.value if isinstance(hint.value.value, int) else None
    return None


def computed(
    context: Context,
    plan: lp.LogicalPlan,
    args: tuple[ex.Expr, ...],
    keywords: tuple[tuple[str, ex.Expr], ...],
) -> tuple[lp.LogicalPlan, tuple[ex.Expr, ...], tuple[tuple[str, ex.Expr], ...]]:
    """A plan that has each argument as a column, unless it is a constant."""
    made: list[lp.Assign] = []

    def as_column(expr: ex.Expr) -> ex.Expr:
        if isinstance(expr, ex.Column) or not any(isinstance(n, ex.Column) for n in walk(expr)):
            return expr
        column = context.names.column("argument", getattr(expr, "type", ""))
        made.append(lp.Assign(column, expr))
        return column

    args = tuple(as_column(a) for a in args)
    keywords = tuple((k, as_column(v)) for k, v in keywords)
    if made:
        passed = tuple(lp.Assign(c, c) for c in plan.columns)
        plan = lp.Project(plan, (*passed, *made))
    return plan, args, keywords


def python_function(context: Context, name: tuple[str, ...], span: Span | None) -> PythonFunction:
    """The function of that name, with the time limit of the operator.

    Raises `BindError`, for an aggregate class too.
    """
    function = declared.python_function(context.declarations, name)
    if function is None:
        raise declared.no_python_function(context.declarations, name, span)
    if function.aggregate is not None:
        raise BindError(
            f"{'.'.join(name)} is an aggregate class, and no function of rows",
            code="P453",
            span=span,
            hint=f"|> AGGREGATE {'.'.join(name)}(..) AS name GROUP BY ..",
        )
    return context.limited(function)


def check_takes_rows(function: PythonFunction, kind: str, span: Span | None) -> None:
    """Raises `BindError` for a function with `batch_size`, which takes lists of values."""
    if function.batch_size is not None:
        raise BindError(
            f"{function.name} has a batch_size: it takes lists of values, and {kind} hands over "
            "records",
            code="P460",
            span=span,
            hint="call it in an expression, in |> EXTEND say, or in MAP BATCHES",
        )


def result_fields(context: Context, op: ast.MapRows | ast.Reduce, handed: Handed) -> Schema:
    """The columns that a function gives: of RETURNS, of its annotations, or of a probe."""
    if op.returns:
        return _returned(op)
    function = handed.function
    if handed.kind == "MAP" and function.iterates:
        raise BindError(
            f"{function.name} gives many records for a row, MAP takes one",
            code="T317",
            span=op.span,
            hint=f"write |> FLATMAP {'.'.join(op.function)}",
        )
    if function.fields is None and (not function.returns or _gives_dicts(function.returns)):
        # dict[str, int] does not say which keys there are.
        untold = replace(function, returns="")
        probed = _probed(context, op, replace(handed, function=untold))
        if probed is None:
            return Schema((Field("value", UNKNOWN),))
        function = probed
    if function.fields is None:
        if function.batch_size is not None and function.returns:
            return Schema((Field("value", function.returns),))
        if handed.kind in _OF_VALUES and function.returns.endswith("[]"):
            return Schema((Field("value", function.returns.removesuffix("[]")),))
        hint = "return a dict"
        if handed.kind in ("MAP", "FLATMAP"):
            hint += f", or write |> EXTEND {'.'.join(op.function)}(..) AS name"
        raise BindError(
            f"{function.name} does not give records", code="T318", span=op.span, hint=hint
        )
    return function.fields


def with_source(op: ast.MapRows | ast.Reduce, function: PythonFunction) -> PythonFunction:
    """The function, with where the types of its columns come from."""
    if op.returns:
        return replace(function, told_by="RETURNS")
    known = function.fields is not None or function.returns
    return function if known else replace(function, told_by=FIRST_ROWS)


def _gives_dicts(returns: str) -> bool:
    """Whether it is the type of a dict, or of several: here that is a record."""
    return re.fullmatch(r"MAP\(.*\)(\[\])?", returns) is not None


_OF_VALUES = ("FLATMAP", "MAP BATCHES", "MAP SHARDS")
"""Operators whose functions may give values in place of records: those of one column."""


def _returned(op: ast.MapRows | ast.Reduce) -> Schema:
    seen: set[str] = set()
    for column in op.returns:
        if column.name in seen:
            raise BindError(f'RETURNS names "{column.name}" twice', code="N208", span=column.span)
        seen.add(column.name)
    return Schema(tuple(Field(c.name, c.type) for c in op.returns))


def _probed(
    context: Context, op: ast.MapRows | ast.Reduce, handed: Handed
) -> PythonFunction | None:
    """The function with its type, seen on the first rows; None over columns that had errors."""
    args, keywords, shared = without_shared(handed.args, handed.keywords)
    given = tuple(c for _, c in handed.record) or args
    exprs = (*given, *handed.keys, *(v for _, v in keywords))
    types = ExpressionBinder(context, (Scope(handed.plan, ()),)).types(exprs)
    if UNKNOWN in types:
        return None
    assigns = tuple(
        lp.Assign(context.names.column("argument", t), e)
        if handed.keys or not isinstance(e, ex.Column)
        else lp.Assign(e, e)
        for e, t in zip(exprs, types, strict=True)
    )
    plan = lp.Project(handed.plan, assigns)
    names, keys = tuple(n for n, _ in handed.record), tuple(k for k, _ in keywords)
    way = ProbeWay(handed.kind, len(handed.keys), handed.shard)
    return context.at(
        op.span, lambda: context.probe(handed.function, plan, names, keys, shared, way)
    )
