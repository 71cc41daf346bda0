"""AST to logical plan: every name and type is resolved here and nowhere else.

Errors do not stop at the first: an operator with an error hands its input on, and the statement's
errors come together in an `ErrorList`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from zql.errors import BindError, ErrorList, InternalError, Interrupted, ZqlError
from zql.expr.functions import PythonFunction
from zql.logical import bind_branch as branches
from zql.logical import bind_operator as operators
from zql.logical import plan as lp
from zql.logical.bind_aggregate import aggregate
from zql.logical.bind_definition import check_function, check_table_function
from zql.logical.bind_grouping import aggregate_sets, has_grouping_sets
from zql.logical.bind_hints import call_timeout, check_hints, resources_of, with_resources
from zql.logical.bind_join import join
from zql.logical.bind_partition import partition_by
from zql.logical.bind_pivot import pivot, unpivot
from zql.logical.bind_policy import add_readings, bring_places, check_policy, error_policy, in_mode
from zql.logical.bind_python_function import bind_python_function
from zql.logical.bind_recursion import recursive_union
from zql.logical.bind_reduce import reduce
from zql.logical.bind_sample import sample
from zql.logical.bind_select import extend, select, set_columns
from zql.logical.bind_select_query import select_query
from zql.logical.bind_shards import distribute, keep_shards, shuffle
from zql.logical.bind_source import bind_item, bind_items, named, unique, visible_only
from zql.logical.bind_table_function import call_table_function
from zql.logical.bind_unnest import unnest
from zql.logical.catalog import Catalog
from zql.logical.context import TOO_LARGE, Context, Declarations, not_yet
from zql.logical.declared import no_table_function, table_function
from zql.logical.doubts import Doubts
from zql.logical.local_tables import with_tables
from zql.logical.named_columns import named_columns
from zql.logical.scope import Scope, Visible
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk


def bind(
    query: ast.Query, catalog: Catalog, declarations: Declarations, doubts: Doubts | None = None
) -> lp.Root:
    """The plan of a query statement; `doubts` are those of its script, and get more.

    Raises `BindError`, or `ErrorList` of all that is wrong.
    """
    plan: lp.Root | None = None
    try:
        binder = _Binder(catalog, declarations, doubts)
        plan = binder.statement(query)
    except Interrupted:
        raise
    except ZqlError as error:
        if error.code == TOO_LARGE:
            raise
    if plan is None:  # outside of `except`, so that a program shows one error, not two
        # Once more with all the columns of the files: the error then knows what could be meant.
        binder = _Binder(catalog, declarations)
        binder.context.only_named = False
        plan = binder.statement(query)
    if doubts is not None:
        doubts.take(binder.context.doubts)
    return plan


_KEEPS_NAMES = (
    ast.Where, ast.Extend, ast.Set, ast.Drop, ast.Rename, ast.As, ast.Distinct, ast.OrderBy,
    ast.Limit, ast.Unnest, ast.TableSample, ast.Shuffle, ast.Distribute, ast.Assert,
)  # fmt: skip
"""Operators behind which the columns of their input are still there."""


def check_declaration(
    function: ast.CreateFunction | ast.CreateTableFunction,
    catalog: Catalog,
    declarations: Declarations,
) -> Doubts:
    """Checks a function before it is called; gives warnings. Raises `BindError`, `ErrorList`."""
    binder = _Binder(catalog, declarations)
    if isinstance(function, ast.CreateFunction):
        binder.collected(lambda: check_function(binder.context, function))
    else:
        binder.collected(lambda: check_table_function(binder.context, function))
    return binder.context.doubts


def declared_function(
    statement: ast.CreatePythonFunction, catalog: Catalog, declarations: Declarations
) -> PythonFunction:
    """The function that a CREATE FUNCTION .. LANGUAGE python declares. Raises `ZqlError`."""
    binder = _Binder(catalog, declarations)
    found = binder.collected(lambda: bind_python_function(binder.context, statement))
    if found is None:
        raise InternalError(f"{statement.name.text} was not bound")
    return found


T = TypeVar("T")


class _Binder:
    def __init__(
        self, catalog: Catalog, declarations: Declarations, doubts: Doubts | None = None
    ) -> None:
        self.context = Context(catalog, declarations, self.query)
        if doubts is not None:
            self.context.doubts.reads |= doubts.reads

    def statement(self, query: ast.Query) -> lp.Root:
        return self.collected(lambda: self.root(query))

    def collected(self, action: Callable[[], T]) -> T:
        """What the action gives; its error and those it reported are raised together."""
        try:
            result = action()
        except Interrupted:
            raise
        except ZqlError as error:
            # What the last operator would have mended is no mistake of its own.
            if error.code not in _OF_THE_WHOLE or not self.context.errors:
                self.context.errors.append(error)
            raise _one_or_list(_distinct_errors(self.context.errors)) from None
        errors = _distinct_errors(self.context.errors)
        if errors:
            raise _one_or_list(errors)
        return result

    def root(self, query: ast.Query) -> lp.Root:
        """The plan of a statement's query: one output, or all of them."""
        context = self.context
        scope = self.pipeline(self.source(query, ()), query.operators)
        if scope is not None:
            context.outputs.append(_rows(scope, query.span))
        add_readings(context)
        # Rejects are there when the rows of all others have been made.
        context.outputs += _in_mode_of_outputs(context)
        _check_targets(context)
        outputs = tuple(context.outputs)
        commons = _read(context.commons, outputs)
        if len(outputs) == 1 and not commons:
            return outputs[0]
        return lp.Program(commons, outputs)

    def pipeline(self, scope: Scope, operators: Sequence[ast.Operator]) -> Scope | None:
        """A statement's own pipeline; None when an operator ends it, its outputs noted."""
        context = self.context
        for place, op in enumerate(operators):
            check_hints(self.context, op)
            done = self.context.attempt(lambda o=op, s=scope: (self.step(s, o),))  # type: ignore[misc]
            after = done[0] if done is not None else self.recovered(scope, op)
            if after is None:
                if following := operators[place + 1 :]:
                    raise BindError(
                        f"{op.span.text.split()[0] if op.span else 'it'} ends a pipeline: "
                        "nothing can follow",
                        code="P406",
                        span=following[0].span,
                    )
                return None
            context.note_gone(scope.names, after.names, op.span)
            scope = after
        return scope

    def step(self, scope: Scope, op: ast.Operator) -> Scope | None:
        """One operator of a statement's own pipeline."""
        context = self.context
        match op:
            case ast.Tee() | ast.Fork():
                word = "TEE" if isinstance(op, ast.Tee) else "FORK"
                scope = context.at(op.span, lambda: branches.shared(context, scope, word, ()))
                for pipe in op.pipes or ((),):
                    self.branch(scope, pipe, op.span)
                return scope if isinstance(op, ast.Tee) else None
            case ast.Switch():
                ends = [
                    (self.subpipe(rows, pipe), _span_of(pipe, op))
                    for pipe, rows in branches.routed(context, scope, op, ())
                ]
                return self.together(ends, op)
            case ast.If():
                return self.subpipe(scope, branches.chosen(context, op))
            case ast.Finish():
                columns = tuple(dict.fromkeys(v.column for v in scope.visible))
                plan = lp.Project(scope.plan, tuple(lp.Assign(c, c) for c in columns))
                context.outputs.append(lp.Finish(plan))
                return None
            case ast.StoreTable():
                context.outputs.append(operators.store(context, scope, op))
                return None
            case ast.Write():
                context.outputs.append(operators.write(context, scope, op))
                return None
            case _:
                return self.operator(scope, op, ())

    def subpipe(self, scope: Scope, pipe: ast.Subpipe) -> Scope | None:
        """A part of a statement's own pipeline that is in parentheses."""
        with self.context.scoped():
            return self.pipeline(scope, pipe)

    def branch(self, scope: Scope, pipe: ast.Subpipe, span: Span | None) -> None:
        """A pipeline on the side; its rows are shown when nothing takes them."""
        end = self.subpipe(scope, pipe)
        if end is not None:
            self.context.outputs.append(_rows(end, pipe[-1].span if pipe else span))

    def together(
        self, ends: list[tuple[Scope | None, Span | None]], op: ast.Switch
    ) -> Scope | None:
        """What comes behind a SWITCH: the rows of all branches, or nothing when they all end."""
        sides = [(scope, span) for scope, span in ends if scope is not None]
        if sides and len(sides) < len(ends):
            raise BindError(
                "some branches of SWITCH end in an output, others give rows",
                code="P413",
                span=sides[0][1],
                hint="end all of them with WRITE or the like, or none",
            )
        if not sides:
            return None
        spans = [span for _, span in sides]
        return branches.merged(self.context, [scope for scope, _ in sides], spans, op)

    def source(self, query: ast.Query, outer: tuple[Scope, ...]) -> Scope:
        """The scope that a query's first operator sees; tables of its WITH are known from here."""
        with_tables(self.context, query.common, outer)
        if not query.items:
            raise BindError(
                "there is no result to go on from",
                code="P405",
                span=query.span,
                hint="begin with FROM",
            )
        columns = named_columns(query)
        first = query.items[0]
        if isinstance(first, ast.SelectSource):
            return select_query(self.context, first, outer, columns)
        return bind_items(self.context, query.items, outer, columns, query.on_error)

    def query(self, query: ast.Query, outer: tuple[Scope, ...]) -> Scope:
        """The scope behind the last operator of a query inside a statement."""
        with self.context.scoped():
            return self.through(self.source(query, outer), query.operators, outer)

    def inner(
        self, scope: Scope, operators: Sequence[ast.Operator], outer: tuple[Scope, ...]
    ) -> Scope:
        """The scope behind operators that give rows to what is around them."""
        with self.context.scoped():
            return self.through(scope, operators, outer)

    def through(
        self, scope: Scope, operators: Sequence[ast.Operator], outer: tuple[Scope, ...]
    ) -> Scope:
        """As `inner`, among the names that are known already."""
        for op in operators:
            check_hints(self.context, op)
            after = self.context.attempt(lambda o=op, s=scope: self.operator(s, o, outer))  # type: ignore[misc]
            after = after if after is not None else self.recovered(scope, op)
            self.context.note_gone(scope.names, after.names, op.span)
            scope = after
        return scope

    def recovered(self, scope: Scope, op: ast.Operator) -> Scope:
        """What goes on behind an operator with an error: its input, new names without a type."""
        if not isinstance(op, _KEEPS_NAMES):
            raise ErrorList(self.context.errors) if self.context.errors else TypeError(op)
        names = []
        if isinstance(op, ast.Unnest) and op.alias and op.alias.text not in scope.names:
            names.append(op.alias.text)
        new = tuple(Visible(n, self.context.names.column(n, "")) for n in names)
        return replace(scope, visible=scope.visible + new)

    def operator(self, scope: Scope, op: ast.Operator, outer: tuple[Scope, ...]) -> Scope:
        """One operator over its input, with its ON ERROR and `timeout`. Raises `BindError`."""
        policy = error_policy(self.context, scope, op)
        if policy is not None:
            scope, policy = bring_places(self.context, scope, policy)
        errors = len(self.context.errors)
        resources = resources_of(op)
        with self.context.policed(policy, call_timeout(op), resources):
            after = self.bound(scope, op, outer)
        if resources is not None:
            after = replace(after, plan=with_resources(after.plan, scope.plan, resources))
        if policy is not None and len(self.context.errors) == errors:
            check_policy(self.context, after, op, policy)
        return keep_shards(scope, after)

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
            case ast.Assert():
                return operators.check(context, scope, op, outer)
            case ast.Drop():
                return operators.drop(context, scope, op)
            case ast.Rename():
                return operators.rename(context, scope, op)
            case ast.As():
                return scope.with_alias(op.alias.text)
            case ast.Aggregate() if has_grouping_sets(op):
                return aggregate_sets(context, scope, op, outer)
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
                return unnest(context, scope, op, outer)
            case ast.MapRows():
                return operators.map_rows(context, scope, op, outer)
            case ast.Reduce():
                return reduce(context, scope, op, outer)
            case _:
                return self.arranged(scope, op, outer)

    def arranged(self, scope: Scope, op: ast.Operator, outer: tuple[Scope, ...]) -> Scope:
        """Operators that choose and deal out rows, or hold pipelines."""
        context = self.context
        match op:
            case ast.TableSample():
                return sample(context, scope, op.sample, outer)
            case ast.Shuffle():
                return shuffle(context, scope, op)
            case ast.Distribute():
                return distribute(context, scope, op, outer)
            case ast.PartitionBy():
                return partition_by(context, scope, op, outer, self.operator)
            case ast.With():
                with_tables(context, op.common, outer)
                return scope
            case ast.CallTable():
                return self.call(scope, op, outer)
            case ast.If():
                return self.inner(scope, branches.chosen(context, op), outer)
            case ast.Switch():
                routed = branches.routed(context, scope, op, outer)
                sides = [self.inner(rows, pipe, outer) for pipe, rows in routed]
                spans = [_span_of(pipe, op) for pipe, _ in routed]
                return branches.merged(context, sides, spans, op)
            case ast.DescribeRows():
                return branches.described(context, scope)
            case ast.Pivot():
                return pivot(context, scope, op, outer)
            case ast.Unpivot():
                return unpivot(context, scope, op)
            case ast.RecursiveUnion():
                return recursive_union(context, scope, op, outer)
            case ast.Write() | ast.Tee() | ast.Fork() | ast.Finish() | ast.StoreTable():
                word = op.span.text.split()[0].upper() if op.span else "this"
                raise BindError(
                    f"{word} stands in a statement's own pipeline: not in a subquery or a view",
                    code="P406",
                    span=op.span,
                    hint="put it behind the statement that reads this",
                )
            case _:
                raise not_yet(op)

    def call(self, scope: Scope, op: ast.CallTable, outer: tuple[Scope, ...]) -> Scope:
        """`|> CALL f(..)`: the input is the first table of a table function."""
        declared = table_function(self.context.declarations, op.function.parts)
        if declared is None:
            raise no_table_function(self.context, op.function, op.function.span)
        unique(scope, "in CALL", op.span)
        found = call_table_function(self.context, *declared, op, outer, bind_item, scope)
        result = visible_only(found, op.span)
        return result.with_alias(op.alias.text) if op.alias else result


def _one_or_list(errors: list[ZqlError]) -> ZqlError:
    return errors[0] if len(errors) == 1 else ErrorList(errors)


_OF_THE_WHOLE = ("N208", "N218")


def _read(commons: Sequence[lp.Common], outputs: Sequence[lp.Output]) -> tuple[lp.Common, ...]:
    """Those that something reads: each may read the ones before it."""
    found: list[lp.Common] = []
    wanted = {n.number for o in outputs for n in walk(o) if isinstance(n, lp.CommonRows)}
    for common in reversed(commons):
        if common.number in wanted:
            found.insert(0, common)
            wanted |= {n.number for n in walk(common) if isinstance(n, lp.CommonRows)}
    return tuple(found)


def _rows(scope: Scope, span: Span | None) -> lp.Query:
    """The end of a pipeline whose rows are for the one who asked."""
    inner = visible_only(scope, span)
    named(inner, span)
    return lp.Query(inner.plan, inner.names)


def _span_of(pipe: ast.Subpipe, op: ast.Operator) -> Span | None:
    return pipe[-1].span if pipe else op.span


def _in_mode_of_outputs(context: Context) -> list[lp.Write]:
    """Rejects without a mode replace, or join, what is there as those of the main WRITE do.

    That is the last one: those of TEE stand before it.
    """
    modes = [output.mode for output in context.outputs if isinstance(output, lp.Write)]
    return [
        in_mode(context, rejects, modes[-1]) if modes and not own else rejects
        for rejects, own in context.rejects
    ]


def _check_targets(context: Context) -> None:
    """Two outputs of a statement in one place would overwrite each other."""
    seen: set[str] = set()
    for output in context.outputs:
        place = output.uri if isinstance(output, lp.Write) else ""
        place = f"the table {output.table}" if isinstance(output, lp.Store) else place
        if place in seen:
            raise BindError(
                f"two outputs go to {place}",
                code="P411",
                span=output.span if isinstance(output, lp.Write) else None,
                hint="give each a name of its own",
            )
        if place:
            seen.add(place)
    folders = [w.uri for w in context.outputs if isinstance(w, lp.Write) and _in_folders(w)]
    for output in context.outputs:
        if not isinstance(output, lp.Write):
            continue
        for folder in folders:
            below = output.uri.removeprefix(folder)
            if below != output.uri and "=" in below.partition("/")[0]:
                raise BindError(
                    f"this output goes into a folder that partition_by of another makes: {folder}",
                    code="P411",
                    span=output.span,
                    hint="give each a folder of its own",
                )


def _in_folders(write: lp.Write) -> bool:
    return bool(dict(write.options).get("partition_by")) and write.uri.endswith("/")


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
