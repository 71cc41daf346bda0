"""AST to logical plan: every name and type is resolved here and nowhere else.

Errors do not stop at the first: an operator with an error hands its input on, and the statement's
errors come together in an `ErrorList`.
"""

from __future__ import annotations

from dataclasses import replace

from zql.errors import BindError, ErrorList, Interrupted, ZqlError
from zql.logical import bind_operator as operators
from zql.logical import plan as lp
from zql.logical.bind_aggregate import aggregate
from zql.logical.bind_join import join
from zql.logical.bind_sample import sample
from zql.logical.bind_select import extend, select, set_columns
from zql.logical.bind_shards import distribute, keep_shards, shuffle
from zql.logical.bind_source import bind_item, bind_items, named, visible_only
from zql.logical.catalog import Catalog
from zql.logical.context import Context, Declarations, not_yet
from zql.logical.named_columns import named_columns
from zql.logical.scope import Scope, Visible
from zql.syntax import ast


def bind(query: ast.Query, catalog: Catalog, declarations: Declarations) -> lp.Write | lp.Query:
    """The plan of a query statement. Raises `BindError`, or `ErrorList` of all that is wrong."""
    try:
        return _Binder(catalog, declarations).statement(query)
    except Interrupted:
        raise
    except ZqlError:
        # Once more with all the columns of the files: the error then knows what could be meant.
        binder = _Binder(catalog, declarations)
        binder.context.only_named = False
        return binder.statement(query)


class _Binder:
    def __init__(self, catalog: Catalog, declarations: Declarations) -> None:
        self.context = Context(catalog, declarations, self.query)

    def statement(self, query: ast.Query) -> lp.Write | lp.Query:
        plan: lp.Write | lp.Query | None = None
        try:
            plan = self.root(query)
        except Interrupted:
            raise
        except ZqlError as error:
            self.context.errors.append(error)
        errors = _distinct_errors(self.context.errors)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ErrorList(errors)
        if plan is None:
            raise TypeError(query)
        return plan

    def root(self, query: ast.Query) -> lp.Write | lp.Query:
        last = query.operators[-1] if query.operators else None
        if isinstance(last, ast.Write):
            scope = self.query(replace(query, operators=query.operators[:-1]), ())
            return operators.write(self.context, scope, last)
        scope = visible_only(self.query(query, ()), query.span)
        named(scope, query.span)
        return lp.Query(scope.plan, scope.names)

    def query(self, query: ast.Query, outer: tuple[Scope, ...]) -> Scope:
        """The scope behind a query's last operator."""
        if not query.items:
            raise BindError(
                "there is no result to go on from",
                code="P405",
                span=query.span,
                hint="begin with FROM",
            )
        columns = named_columns(query, self.context.declarations.modules)
        scope = bind_items(self.context, query.items, outer, columns)
        for op in query.operators:
            after = self.context.attempt(lambda o=op, s=scope: self.operator(s, o, outer))  # type: ignore[misc]
            scope = after if after is not None else self.recovered(scope, op)
        return scope

    def recovered(self, scope: Scope, op: ast.Operator) -> Scope:
        """What goes on behind an operator with an error: its input, new names without a type."""
        if isinstance(op, ast.MapRows | ast.Aggregate | ast.Select | ast.Join | ast.SetOperation):
            raise ErrorList(self.context.errors) if self.context.errors else TypeError(op)
        names = []
        if isinstance(op, ast.Unnest) and op.alias and op.alias.text not in scope.names:
            names.append(op.alias.text)
        new = tuple(Visible(n, self.context.names.column(n, "")) for n in names)
        return replace(scope, visible=scope.visible + new)

    def operator(self, scope: Scope, op: ast.Operator, outer: tuple[Scope, ...]) -> Scope:
        """One operator over its input. Raises `BindError`."""
        return keep_shards(scope, self.bound(scope, op, outer))

    def bound(self, scope: Scope, op: ast.Operator, outer: tuple[Scope, ...]) -> Scope:
        """What an operator makes of its input, whatever was said of shards."""
        context = self.context
        match op:
            case ast.Where():
                return operators.where(context, scope, op, outer)
            case ast.Select():
                return select(context, scope, op, outer)
            case ast.Extend():
                return extend(context, scope, op, outer)
            case ast.Set():
                return set_columns(context, scope, op, outer)
            case ast.Drop():
                return operators.drop(context, scope, op)
            case ast.Rename():
                return operators.rename(context, scope, op)
            case ast.As():
                return scope.with_alias(op.alias.text)
            case ast.Aggregate():
                return aggregate(context, scope, op, outer)
            case ast.Distinct():
                return operators.distinct(context, scope, op, outer)
            case ast.OrderBy():
                return operators.order_by(context, scope, op, outer)
            case ast.Limit():
                return operators.limit(context, scope, op)
            case ast.Join():
                return join(context, scope, op, outer, bind_item)
            case ast.SetOperation():
                return operators.set_operation(context, scope, op, outer)
            case ast.Unnest():
                return operators.unnest(context, scope, op, outer)
            case ast.MapRows():
                return operators.map_rows(context, scope, op, outer)
            case ast.TableSample():
                return sample(context, scope, op.sample, outer)
            case ast.Shuffle():
                return shuffle(context, scope, op)
            case ast.Distribute():
                return distribute(context, scope, op, outer)
            case ast.Write():
                raise BindError(
                    "WRITE ends a pipeline: nothing can follow or enclose it",
                    code="P406",
                    span=op.span,
                )
            case _:
                raise not_yet(op)


def _distinct_errors(errors: list[ZqlError]) -> list[ZqlError]:
    """Errors without repetitions: one place has one error, nested lists are opened."""
    flat: list[ZqlError] = []
    for error in errors:
        flat += error.errors if isinstance(error, ErrorList) else [error]
    seen: dict[object, ZqlError] = {}
    for error in flat:
        key = (error.span, error.message) if error.span else (id(error), "")
        seen.setdefault(key, error)
    return list(seen.values())
