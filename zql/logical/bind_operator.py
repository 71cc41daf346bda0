"""The other pipe operators: what each makes of the scope it gets."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zql.errors import BindError, ZqlError
from zql.expr import expression as ex
from zql.expr.functions import ErrorPolicy
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_function_of_rows import (
    Handed,
    check_takes_rows,
    map_many,
    mapped,
    python_function,
    whole_record,
)
from zql.logical.bind_partition_by import by_partition, check_names, items_of
from zql.logical.bind_shards import dealt, shards_option
from zql.logical.bind_source import named, option_place, unique, visible_only
from zql.logical.catalog import WriteTarget
from zql.logical.common_types import clash, common_type
from zql.logical.constants import constant_value
from zql.logical.context import UNKNOWN, Context, unknown
from zql.logical.doubts import swapped
from zql.logical.plan import example_path
from zql.logical.python_arguments import bind_arguments
from zql.logical.scope import Scope, Visible, matching
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk


def where(context: Context, scope: Scope, op: ast.Where, outer: tuple[Scope, ...]) -> Scope:
    """Rows for which the predicate is TRUE."""
    binder = ExpressionBinder(context, (scope, *outer), row_by_row="WHERE")
    predicate = binder.boolean(binder.bind(op.predicate), "WHERE")
    return scope.over(lp.Filter(scope.plan, predicate))


def check(context: Context, scope: Scope, op: ast.Assert, outer: tuple[Scope, ...]) -> Scope:
    """ASSERT: the same rows, all of which must hold it."""
    binder = ExpressionBinder(context, (scope, *outer), row_by_row="ASSERT")
    condition = binder.boolean(binder.bind(op.condition), "ASSERT")
    payload = tuple(binder.bind(e) for e in op.payload)
    types = binder.types((condition, *payload))
    columns = tuple(context.names.column("check", t) for t in types)
    made = tuple(lp.Assign(c, e) for c, e in zip(columns, (condition, *payload), strict=True))
    passed = tuple(lp.Assign(c, c) for c in scope.kept_columns())
    context.checks += 1
    text = " ".join(op.condition.span.text.split()) if op.condition.span else "it"
    plan = lp.Check(
        lp.Project(scope.plan, passed + made), columns[0], columns[1:], text, context.checks,
        span=op.span,
    )  # fmt: skip
    return scope.over(lp.Project(plan, passed))


def drop(context: Context, scope: Scope, op: ast.Drop) -> Scope:
    """The scope without the named columns."""
    gone: set[str] = set()
    for name in op.columns:
        _one_part(name, "DROP")
        found = matching(scope.visible, name.parts[0])
        if not found and not op.if_exists:
            context.errors.append(unknown("column", name.parts[0], scope.names, name.span))
        if any(v.column.name in gone for v in found):
            text = f'DROP names "{name.parts[0]}" twice'
            context.errors.append(BindError(text, code="N208", span=name.span))
        gone.update(v.column.name for v in found)
    visible = tuple(v for v in scope.visible if v.column.name not in gone)
    if not visible:
        raise BindError(
            "DROP leaves no column",
            code="N215",
            span=op.span,
            hint="name what stays: |> SELECT column, ..",
        )
    return replace(scope, visible=visible)


def _one_part(name: ex.Name, operator: str) -> None:
    if len(name.parts) > 1:
        raise BindError(
            f"{operator} takes plain columns, not {'.'.join(name.parts)}",
            code="N216",
            span=name.span,
            hint="a column stands by its own name; a struct is built anew: "
            f"|> SET {name.parts[0]} = {{field: {name.parts[0]}.field, ..}}",
        )


def rename(context: Context, scope: Scope, op: ast.Rename) -> Scope:
    """The scope with other names; swaps are allowed."""
    new_names: dict[str, str] = {}
    for renaming in op.renamings:
        _one_part(renaming.old, "RENAME")
        old = renaming.old.parts[0]
        found = matching(scope.visible, old)
        if len(found) != 1:
            if found:
                both = " and ".join(f"{v.origin or 'the input'}.{v.name}" for v in found)
                raise BindError(
                    f'"{old}" is ambiguous: {both}',
                    code="N202",
                    span=renaming.old.span,
                    hint=f"|> SELECT the columns you want, each with its alias before it: "
                    f"{found[0].origin or 't'}.{old} AS {renaming.new.text}",
                )
            context.errors.append(unknown("column", old, scope.names, renaming.old.span))
            continue
        if found[0].column.name in new_names:
            raise BindError(
                f'"{old}" is renamed twice',
                code="N208",
                span=renaming.old.span,
                hint="one column has one name; |> EXTEND .. AS adds another",
            )
        new_names[found[0].column.name] = renaming.new.text
    visible = tuple(replace(v, name=new_names.get(v.column.name, v.name)) for v in scope.visible)
    for renaming in op.renamings:
        if sum(v.name == renaming.new.text for v in visible) > 1:
            raise BindError(
                f'RENAME to "{renaming.new.text}", which is there already',
                code="N214",
                span=renaming.new.span,
                hint="|> DROP that column first",
            )
    return replace(scope, visible=visible)


def distinct(context: Context, scope: Scope, op: ast.Distinct, outer: tuple[Scope, ...]) -> Scope:
    """Duplicates removed: whole rows, or the first row for each key."""
    if op.on:
        binder = ExpressionBinder(context, (scope, *outer), row_by_row="DISTINCT ON")
        on = tuple(binder.bind(e) for e in op.on)
        binder.types(on)
        keys = sort_keys(binder, op.order)
        return scope.over(lp.DistinctOn(scope.plan, on, keys))
    unique(scope, "in DISTINCT", op.span)
    inner = visible_only(scope, op.span)
    kept = {v.column.name for v in inner.visible}
    aliases = tuple(
        (alias, tuple(v for v in columns if v.column.name in kept))
        for alias, columns in scope.aliases
    )
    return Scope(lp.Distinct(inner.plan), scope.visible, aliases)


def sort_keys(binder: ExpressionBinder, keys: Sequence[ex.SortKey]) -> tuple[ex.SortKey, ...]:
    """ORDER BY's items bound; an integer literal is a position by mistake."""
    bound = []
    for key in keys:
        if isinstance(key.expr, ex.Literal) and isinstance(key.expr.value, int):
            binder.context.errors.append(
                BindError(
                    "ORDER BY takes expressions, not positions",
                    code="T310",
                    span=key.span or key.expr.span,
                    hint="write the column's name",
                )
            )
            continue
        expr = binder.context.attempt(lambda k=key: binder.bind(k.expr))  # type: ignore[misc]
        if expr is not None:
            bound.append(replace(key, expr=expr))
    types = binder.types([k.expr for k in bound])
    return tuple(replace(k, type=type_) for k, type_ in zip(bound, types, strict=True))


def order_by(context: Context, scope: Scope, op: ast.OrderBy, outer: tuple[Scope, ...]) -> Scope:
    """Rows sorted."""
    binder = ExpressionBinder(context, (scope, *outer), row_by_row="ORDER BY")
    keys = sort_keys(binder, op.keys)
    return scope.over(lp.Sort(scope.plan, keys)) if keys else scope


def limit(context: Context, scope: Scope, op: ast.Limit) -> Scope:
    """The first rows."""
    count = _row_count(context, op.count, "LIMIT") if op.count is not None else None
    offset = _row_count(context, op.offset, "OFFSET") if op.offset is not None else 0
    return scope.over(lp.Limit(scope.plan, count, offset))


def _row_count(context: Context, expr: ex.Expr, word: str) -> int:
    if isinstance(expr, ex.Name) and expr.parts[0] not in context.frame.arguments:
        raise BindError(
            f"{word} takes a constant number of rows",
            code="T314",
            span=expr.span,
            hint=f"a number, or a parameter: {word} $n",
        )
    value = constant_value(context, expr)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BindError(
            f"{word} takes a number of rows, not {value!r}",
            code="T314",
            span=expr.span,
            hint="for the last rows: |> ORDER BY .. DESC |> LIMIT n"
            if isinstance(value, int)
            else f"a whole number from 0 on: {word} 10",
        )
    return value


def set_operation(
    context: Context, scope: Scope, op: ast.SetOperation, outer: tuple[Scope, ...]
) -> Scope:
    """UNION, INTERSECT, EXCEPT by position or by name; types must fit."""
    sides = [visible_only(scope, op.span)]
    sides += [visible_only(context.bind_query(q, outer), q.span) for q in op.queries]
    spans = [op.span, *(q.span for q in op.queries)]
    names = _by_name(context, sides) if op.by_name else list(sides[0].names)
    if not op.by_name:
        for side, span in zip(sides[1:], spans[1:], strict=True):
            if len(side.visible) != len(names):
                raise BindError(
                    f"{op.kind} of {_columns(len(names))} with {_columns(len(side.visible))}",
                    code="T315",
                    span=span,
                    hint="|> UNION ALL BY NAME fills missing columns with NULL",
                )
            swapped(context.doubts, op.kind, names, side.names, span)
    columns = []
    for i, name in enumerate(names):
        types = [s.visible[i].column.type for s in sides]
        columns.append(
            context.names.column(name, common_type_of(context, op.kind, name, types, spans))
        )
    keep_all = op.all if op.all is not None else False
    plan = lp.SetOperation(op.kind, tuple(s.plan for s in sides), tuple(columns), keep_all)
    return Scope(plan, tuple(Visible(n, c) for n, c in zip(names, columns, strict=True)))


def _columns(count: int) -> str:
    return f"{count} column{'s' * (count != 1)}"


def _by_name(context: Context, sides: list[Scope]) -> list[str]:
    """Every name once, in the order of first sight; each side gets all, NULL where it has none."""
    names = list(dict.fromkeys(n for s in sides for n in s.names))
    for i, side in enumerate(sides):
        visible, assigns = [], []
        for name in names:
            found = [v for v in side.visible if v.name == name]
            if found:
                column, expr = found[0].column, found[0].column
            else:
                column, expr = context.names.column(name, '"NULL"'), ex.Literal(None)  # type: ignore[assignment]
            visible.append(Visible(name, column))
            assigns.append(lp.Assign(column, expr))
        sides[i] = Scope(lp.Project(side.plan, tuple(assigns)), tuple(visible))
    return names


def common_type_of(
    context: Context, what: str, name: str, types: list[str], spans: list[Span | None]
) -> str:
    """The type of a column that several queries give. Raises `BindError` when they do not fit."""
    found = common_type(context, types)
    if found is not None:
        return found
    known = [t for t in types if t not in (UNKNOWN, '"NULL"')]
    for type_, span in zip(types, spans, strict=True):
        if clash(known[0], type_):
            raise BindError(
                f'{what}: "{name}" is {known[0]} in one query and {type_} in another',
                code="T316",
                span=span,
                hint="CAST one of them",
            )
    raise BindError(
        f'{what}: the types of "{name}" do not fit: {", ".join(known)}',
        code="T316",
        span=spans[-1],
        hint="CAST one of them",
    )


def map_rows(context: Context, scope: Scope, op: ast.MapRows, outer: tuple[Scope, ...]) -> Scope:
    """MAP and its kinds: the columns are those of the records that the function gives."""
    context.check_python(op.function_span or op.span)
    if op.kind in ("MAP BATCHES", "MAP SHARDS"):
        return map_many(context, scope, op, outer)
    function = python_function(context, op.function, op.function_span or op.span)
    check_takes_rows(function, op.kind, op.function_span or op.span)
    binder = ExpressionBinder(context, (scope, *outer), row_by_row=op.kind)
    positional = [a for a in op.args if not isinstance(a, ex.NamedArgument)]
    takes_record = not positional and not op.is_source
    args, keywords = bind_arguments(
        binder, op.args, function, op.span, record=1 if takes_record else 0
    )
    args, keywords = binder.typed_arguments(args, keywords)
    args, keywords = binder.as_declared(function, args, keywords)
    record = whole_record(scope, op.kind, op.span) if takes_record else ()
    _no_failing_arguments(context.policy, (*args, *(v for _, v in keywords)), op)
    return mapped(context, op, Handed(function, op.kind, scope.plan, record, args, keywords))


def _no_failing_arguments(
    policy: ErrorPolicy | None, args: Sequence[ex.Expr], op: ast.MapRows
) -> None:
    """With NULL, a call among the arguments would have to make NULLs of all that MAP gives."""
    calls = [n for a in args for n in walk(a) if isinstance(n, ex.PythonCall)]
    if policy is not None and policy.action == "NULL" and calls:
        raise BindError(
            f"ON ERROR NULL of {op.kind} is for its own function, not for calls in its arguments",
            code="P416",
            span=calls[0].span,
            hint="|> EXTEND the call first, with an ON ERROR of its own",
        )


def store(context: Context, scope: Scope, op: ast.StoreTable) -> lp.Store:
    """The end of a pipeline that becomes a table of the script."""
    name = op.name.text
    if name in context.declarations.views or (
        name in context.declarations.tables and not op.replace
    ):
        kind = "view" if name in context.declarations.views else "table"
        raise BindError(
            f'the {kind} "{name}" is there already',
            code="N217",
            span=op.name.span,
            hint="CREATE OR REPLACE TEMP TABLE" if kind == "table" else "take another name",
        )
    inner = visible_only(scope, op.span)
    named(inner, op.span)
    return lp.Store(inner.plan, name, inner.names)


def write(context: Context, scope: Scope, op: ast.Write) -> lp.Write:
    """The end of a pipeline that writes files. Raises before anything is touched."""
    uri = constant_value(context, op.uri)
    if not isinstance(uri, str):
        raise BindError("WRITE takes one path as text", code="T303", span=op.uri.span)
    options: dict[str, Any] = {}
    for option in op.options:
        if option.name.lower() in options:
            raise BindError(
                f'the option "{option.name}" is given twice',
                code="N208",
                span=option.span,
                hint="leave one of them away",
            )
        if option.name.lower() == "partition_by":
            check_names(option.value)
        options[option.name.lower()] = constant_value(context, option.value)
    spans = {o.name.lower(): o.span for o in op.options}
    asked = shards_option(scope, uri, options, spans)
    if scope.shards is not None:
        spans.setdefault("shards", scope.shards.span)
    target: WriteTarget = _checked_target(context, uri, asked, spans, op)
    inner = visible_only(scope, op.span)
    named(inner, op.span)
    places = {o.name.lower(): _named_in(o.value) for o in op.options}.get("partition_by", {})
    places = {**places, "": spans.get("partition_by")}
    target = by_partition(target, inner.names, inner.plan.columns, places)
    folders = dict(target.options).get("partition_by", ())
    check_inputs(inner.plan, uri, target.format, op.uri.span or op.span, folders)
    plan, shard = dealt(context, scope, inner.plan, dict(target.options))
    return lp.Write(
        plan,
        uri,
        target.format,
        inner.names,
        target.mode,
        target.options,
        op.span,
        shard,
        target.own,
    )


def _named_in(value: ex.Expr) -> dict[str, Span | None]:
    """The places of the names in a list of columns."""
    items = items_of(value)
    named = [(i.parts[0], i.span) for i in items if isinstance(i, ex.Name) and len(i.parts) == 1]
    quoted = [(str(i.value), i.span) for i in items if isinstance(i, ex.Literal)]
    return dict([*named, *quoted])


def check_inputs(
    plan: lp.LogicalPlan,
    uri: str,
    format: str,
    span: Span | None,
    folders: Sequence[str] = (),
) -> None:
    """A pattern that is read and matches what is written would make the next run read that too."""
    example = posixpath.normpath(example_path(uri, format, folders))
    for scan in walk(plan):
        if not isinstance(scan, lp.Scan):
            continue
        for pattern in scan.name.split(", "):
            whole = pattern + "*" if pattern.endswith("/") else pattern
            if any(c in whole for c in "*?[") and _matches(example, posixpath.normpath(whole)):
                raise BindError(
                    f"{uri} matches the input {pattern}: the next run would read it",
                    code="P410",
                    span=span,
                    hint="write into another folder",
                )


def _matches(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern whose `*` stay within one folder, and `**` do not."""
    parts = [
        ".*" if part == "**" else fnmatch.translate(part)[4:-3].replace(".*", "[^/]*")
        for part in pattern.split("/")
    ]
    return re.fullmatch("/".join(parts).replace(".*/", "(?:.*/)?"), path) is not None


def _checked_target(
    context: Context,
    uri: str,
    options: Mapping[str, Any],
    spans: Mapping[str, Span | None],
    op: ast.Write,
) -> WriteTarget:
    """The catalog's answer; an error that names an option points at it."""
    try:
        return context.catalog.write_target(uri, options)
    except ZqlError as error:
        if error.span is None:
            error.span = option_place(error, options, spans) or op.uri.span or op.span
        raise
