"""SELECT, EXTEND, SET and the star: which columns an operator makes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from zql.errors import BindError, Interrupted, ZqlError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.context import UNKNOWN, Context, unknown
from zql.logical.scope import Scope, Visible, matching
from zql.source import Span
from zql.syntax import ast
from zql.tree import children, node, walk


@node
class Made:
    """A column that a select list makes: the user's name, the bound expression, its place."""

    name: str
    expr: ex.Expr
    span: Span | None
    origin: str = ""


def named_windows(binder: ExpressionBinder, windows: Sequence[ast.NamedWindow]) -> ExpressionBinder:
    """The binder with the windows of a WINDOW clause."""
    found = dict(binder.windows)
    for window in windows:
        if window.name.text in found:
            raise BindError(
                f'the window "{window.name.text}" is defined twice',
                code="N208",
                span=window.name.span,
                hint="give one of them another name",
            )
        found[window.name.text] = window.window
    return replace(binder, windows=found)


def select(context: Context, scope: Scope, op: ast.Select, outer: tuple[Scope, ...]) -> Scope:
    """Exactly the listed columns; aliases end here."""
    binder = named_windows(_binder(context, scope, op.items, outer), op.windows)
    made = made_columns(binder, op.items, "SELECT")
    check_unique(context, made, "SELECT")
    if not made and not context.errors:
        raise BindError(
            "SELECT leaves no column",
            code="N215",
            span=op.span,
            hint="name at least one column that stays",
        )
    columns = typed(binder, made)
    plan: lp.LogicalPlan = lp.Project(
        binder.scope.plan,
        tuple(lp.Assign(c, m.expr) for c, m in zip(columns, made, strict=True)),
    )
    if op.distinct:
        plan = lp.Distinct(plan)
    return Scope(
        plan, tuple(Visible(m.name, c, m.origin) for c, m in zip(columns, made, strict=True))
    )


def extend(context: Context, scope: Scope, op: ast.Extend, outer: tuple[Scope, ...]) -> Scope:
    """New columns at the right; a name that is there is an error."""
    binder = named_windows(_binder(context, scope, op.items, outer), op.windows)
    made = made_columns(binder, op.items, "EXTEND")
    for m in [m for m in made if m.name in scope.names]:
        made.remove(m)
        context.errors.append(
            BindError(
                f'EXTEND adds "{m.name}", which is there already',
                code="N214",
                span=m.span,
                hint=f"to change it: |> SET {m.name} = ..",
            )
        )
    check_unique(context, made, "EXTEND")
    inner = binder.scope.plan
    kept = scope.over(inner).kept_columns()
    columns = typed(binder, made, kept)
    added = ((c, m.expr) for c, m in zip(columns, made, strict=True))
    assigns = (*((c, c) for c in kept), *added)
    plan = lp.Project(inner, tuple(lp.Assign(c, e) for c, e in assigns))
    new = tuple(Visible(m.name, c) for c, m in zip(columns, made, strict=True))
    return replace(scope, plan=plan, visible=scope.visible + new)


def set_columns(context: Context, scope: Scope, op: ast.Set, outer: tuple[Scope, ...]) -> Scope:
    """Columns replaced in their places; every right side sees the input."""
    binder = ExpressionBinder(context, (scope, *outer), row_by_row="SET")
    changed: dict[str, tuple[Visible, ex.Expr]] = {}
    for assignment in op.assignments:
        context.attempt(lambda a=assignment: _assign(binder, a, changed))  # type: ignore[misc]
    targets = list(changed.values())
    types = binder.types([e for _, e in targets])
    made = {
        v.column.name: Visible(v.name, context.names.column(v.name, t), v.origin)
        for (v, _), t in zip(targets, types, strict=True)
    }
    visible = tuple(made.get(v.column.name, v) for v in scope.visible)
    after = replace(scope, visible=visible)
    plan = lp.Project(
        scope.plan,
        tuple(lp.Assign(c, c) for c in after.kept_columns())
        + tuple(lp.Assign(made[v.column.name].column, e) for v, e in targets),
    )
    return replace(after, plan=plan)


def _assign(
    binder: ExpressionBinder, a: ast.Assignment, changed: dict[str, tuple[Visible, ex.Expr]]
) -> None:
    first, rest = a.target.parts[0], a.target.parts[1:]
    found = matching(binder.scope.visible, first)
    if not found:
        error = unknown("column", first, list(binder.scope.names), a.target.span)
        if rest and binder.scope.alias(first) is not None:
            error.message = f'"{first}" is a table: SET changes columns'
            error.args, error.hint = (error.message,), f"write {rest[0]} = .. alone"
        error.hint = error.hint or f"to add a column: |> EXTEND .. AS {first}"
        raise error
    if len(found) > 1:
        binder.single(found, first, a.target.span)
    target = found[0]
    value = binder.bind(a.expr)
    if not rest and target.column.name in changed:
        raise BindError(
            f'SET changes "{first}" twice',
            code="N208",
            span=a.target.span,
            hint="a second |> SET sees what the first one made",
        )
    if rest:
        base = changed.get(target.column.name, (target, target.column))[1]
        value = _with_field(binder, base, rest, value, a.target.span)
    changed[target.column.name] = (target, value)


def _with_field(
    binder: ExpressionBinder,
    base: ex.Expr,
    path: tuple[str, ...],
    value: ex.Expr,
    span: Span | None,
) -> ex.Expr:
    """The struct rebuilt with one field replaced; NULL stays NULL."""
    fields = binder.context.catalog.fields(binder.types((base,))[0]).names
    found = [f for f in fields if f == path[0]] or [
        f for f in fields if f.casefold() == path[0].casefold()
    ]
    if not found:
        raise unknown("field", path[0], list(fields), span)
    entries = []
    for name in fields:
        old: ex.Expr = ex.FieldAccess(base, name)
        if name == found[0]:
            old = _with_field(binder, old, path[1:], value, span) if path[1:] else value
        entries.append((name, old))
    whole = ex.Struct(tuple(entries), span=span)
    return ex.Case(None, ((ex.Is(base, "NULL", negated=True), whole),), span=span)


def _binder(
    context: Context,
    scope: Scope,
    items: Sequence[ast.SelectItem],
    outer: tuple[Scope, ...],
) -> ExpressionBinder:
    siblings = tuple(i.alias.text for i in items if i.alias)
    return ExpressionBinder(context, (scope, *outer), siblings=siblings)


def made_columns(
    binder: ExpressionBinder, items: Sequence[ast.SelectItem], operator: str
) -> list[Made]:
    """The items bound, stars expanded; an item with an error is left out and reported.

    A star over a call (`f(r).*`) first makes the call a column of the input, so that it is made
    once: `binder.scopes` then holds the wider scope.
    """
    binder.row_by_row = operator
    return bound_items(binder, items)


def bound_items(binder: ExpressionBinder, items: Sequence[ast.SelectItem]) -> list[Made]:
    """As `made_columns`, with aggregates in them or not."""
    made: list[Made] = []
    for item in items:
        try:
            made += _item(binder, item)
        except Interrupted:
            raise
        except ZqlError as error:
            binder.context.errors.append(error)
            name = item.alias.text if item.alias else None
            if name is None and isinstance(item.expr, ex.Name):
                name = item.expr.parts[-1]
            if name is not None:
                made.append(Made(name, ex.Literal(None), item.span))
                binder.context.names.taken.discard(name.casefold())
    return made


def _item(binder: ExpressionBinder, item: ast.SelectItem) -> list[Made]:
    if isinstance(item.expr, ex.Star):
        return _star(binder, item.expr)
    if isinstance(item.expr, ex.Columns):
        pattern = item.expr.pattern
        try:
            found = [v for v in binder.scope.visible if re.search(pattern, v.name)]
        except re.error as error:
            raise BindError(
                f"{pattern!r} is no regular expression: {error}",
                code="T324",
                span=item.span,
                hint="a sign that stands for itself needs a backslash: COLUMNS('\\(')",
            ) from None
        if not found:
            raise BindError(
                f"no column matches {pattern!r}",
                code="N201",
                span=item.span,
                notes=(f"columns here: {', '.join(binder.scope.names)}",),
                hint="the pattern is a regular expression: '^x_' is what begins with x_",
            )
        return [Made(v.name, v.column, item.span, v.origin) for v in found]
    name = item.alias.text if item.alias else binder.column_name(item.expr)
    bound = binder.bind(item.expr)
    origin = ""
    if isinstance(bound, ex.Column):
        origin = next((v.origin for v in binder.scope.visible if v.column == bound), "")
    span = item.alias.span if item.alias and item.alias.span else item.expr.span
    return [Made(name, bound, span, origin)]


def _star(binder: ExpressionBinder, star: ex.Star) -> list[Made]:
    made = _star_columns(binder, star)
    excluded = _listed(made, star.exclude, "EXCLUDE")
    made = [m for m in made if m.name not in excluded]
    replaced = _listed(made, [target for _, target in star.replace], "REPLACE")
    for name, (expr, _) in zip(replaced, star.replace, strict=True):
        bound = binder.bind(expr)
        made = [replace(m, expr=bound) if m.name == name else m for m in made]
    renamed = _listed(made, [old for old, _ in star.rename], "RENAME")
    renames = {old: new.parts[-1] for old, (_, new) in zip(renamed, star.rename, strict=True)}
    return [replace(m, name=renames.get(m.name, m.name)) for m in made]


def _listed(made: Sequence[Made], wanted: Sequence[ex.Name], what: str) -> list[str]:
    """The star's columns that a list of changes names, each once. Raises `BindError`."""
    names = [m.name for m in made]
    listed: list[str] = []
    for each in wanted:
        name = each.parts[-1]
        same = [n for n in names if n.casefold() == name.casefold()]
        found = [n for n in same if n == name] or same
        if not found:
            error = unknown("column", name, names, each.span)
            error.label = f"{what} of a column that the star does not have"
            raise error
        if found[0] in listed:
            raise BindError(f'{what} names "{name}" twice', code="N208", span=each.span)
        listed.append(found[0])
    return listed


def _star_columns(binder: ExpressionBinder, star: ex.Star) -> list[Made]:
    scope = binder.scope
    if star.qualifier is None:
        return [Made(v.name, v.column, star.span, v.origin) for v in scope.visible]
    if isinstance(star.qualifier, ex.Name) and len(star.qualifier.parts) == 1:
        alias = scope.alias(star.qualifier.parts[0])
        if alias is not None:
            return [Made(v.name, v.column, star.span, v.origin) for v in alias if not v.hidden]
    bound = binder.bind(star.qualifier)
    type_ = binder.types((bound,))[0]
    fields = binder.context.catalog.fields(type_)
    if not fields and type_ != UNKNOWN:
        raise BindError(
            f".* needs a struct, this is {type_}",
            code="T303",
            span=star.span,
            hint="a column that is no struct is written without .*",
        )
    if not isinstance(bound, ex.Column):
        column = binder.context.names.column("_star", type_)
        kept = tuple(lp.Assign(c, c) for c in scope.plan.columns)
        plan = lp.Project(scope.plan, (*kept, lp.Assign(column, bound)))
        binder.scopes = (replace(scope, plan=plan), *binder.scopes[1:])
        bound = column
    return [Made(f.name, ex.FieldAccess(bound, f.name), star.span) for f in fields]


def first_aggregate(expr: ex.Expr) -> ex.Call | None:
    """The first aggregate call without OVER in an expression, outside its subqueries."""
    todo: list[object] = [expr]
    while todo:
        node = todo.pop()
        if isinstance(node, ex.Subquery):
            continue
        if isinstance(node, ex.Call) and node.window is None and node.aggregate:
            return node
        if isinstance(node, ex.Expr | ex.SortKey | ex.Window | ex.NamedArgument):
            todo.extend(children(node))
    return None


def check_unique(context: Context, made: list[Made], operator: str) -> None:
    """Two columns of one list with one name are an error; the second one is taken out."""
    seen: dict[str, Made] = {}
    for m in list(made):
        if m.name in seen:
            origins = [x.origin for x in (seen[m.name], m)]
            notes = (f"{origins[0]}.{m.name} and {origins[1]}.{m.name}",) if all(origins) else ()
            context.errors.append(
                BindError(
                    f'{operator} makes two columns called "{m.name}"',
                    code="N208",
                    span=m.span,
                    hint="give one of them another name with AS",
                    notes=notes,
                )
            )
            made.remove(m)
        seen.setdefault(m.name, m)


def typed(
    binder: ExpressionBinder, made: Sequence[Made], kept: Sequence[ex.Column] = ()
) -> list[ex.Column]:
    """A column of the plan for each; one that is only passed on, and not `kept`, keeps its own."""
    types = binder.types([m.expr for m in made])
    columns: list[ex.Column] = []
    used = {c.name for c in kept}
    for m, type_ in zip(made, types, strict=True):
        passed = m.expr in binder.scope.plan.columns
        if isinstance(m.expr, ex.Column) and passed and m.expr.name not in used:
            column = m.expr
        else:
            column = binder.context.names.column(m.name, type_)
        used.add(column.name)
        columns.append(column)
    return columns


def has_window(expr: ex.Expr) -> bool:
    """Whether an expression holds a window function."""
    return any(isinstance(n, ex.Call) and n.window is not None for n in walk(expr))
