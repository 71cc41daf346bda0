"""What the grammar's rules for pipe operators make: `ast` nodes."""

from __future__ import annotations

from typing import NamedTuple

from zql.errors import ParseError
from zql.expr import expression as ex
from zql.source import Span
from zql.syntax import ast
from zql.syntax.automaton import Token
from zql.syntax.expressions import (
    Argument,
    Arguments,
    AsType,
    FromPart,
    plain_arguments,
)
from zql.syntax.literals import string_value
from zql.syntax.queries import Condition, FromActions, join_parts

Hints = tuple[ast.Option, ...]
Branch = tuple[ex.Expr, ast.Subpipe]
Change = tuple[str, tuple[object, ...], Span]


class FunctionName(NamedTuple):
    """The parts of a function's name, and where it stands."""

    parts: tuple[str, ...]
    span: Span


class OperatorActions(FromActions):
    """Pipe operators."""

    def where(
        self, span: Span, hints: Hints, predicate: ex.Expr, on_error: ast.OnError | None
    ) -> ast.Where:
        return ast.Where(predicate, on_error, hints=hints, span=span)

    def select(
        self,
        span: Span,
        hints: Hints,
        distinct: bool,
        items: tuple[ast.SelectItem, ...],
        windows: tuple[ast.NamedWindow, ...],
        on_error: ast.OnError | None,
    ) -> ast.Select:
        return ast.Select(items, distinct, windows, on_error, hints=hints, span=span)

    def extend(
        self,
        span: Span,
        hints: Hints,
        items: tuple[ast.SelectItem, ...],
        windows: tuple[ast.NamedWindow, ...],
        on_error: ast.OnError | None,
    ) -> ast.Extend:
        return ast.Extend(items, windows, on_error, hints=hints, span=span)

    def select_item(
        self, span: Span, expr: ex.Expr, alias: ast.Identifier | None
    ) -> ast.SelectItem:
        return ast.SelectItem(expr, alias, span=span)

    def star_item(self, span: Span, star: ex.Star) -> ast.SelectItem:
        return ast.SelectItem(star, span=span)

    def star(self, span: Span, changes: tuple[Change, ...]) -> ex.Star:
        return self.qualified_star(span, None, changes)

    def qualified_star(
        self, span: Span, qualifier: ex.Expr | None, changes: tuple[Change, ...]
    ) -> ex.Star:
        parts: dict[str, tuple[object, ...]] = {}
        for word, items, place in changes:
            if word in parts:
                raise ParseError(f"{word} stands twice behind *", code="S122", span=place)
            parts[word] = items
        return ex.Star(
            qualifier,
            parts.get("EXCLUDE", ()),  # type: ignore[arg-type]
            parts.get("REPLACE", ()),  # type: ignore[arg-type]
            parts.get("RENAME", ()),  # type: ignore[arg-type]
            span=span,
        )

    path_star = qualified_star

    def star_exclude(self, span: Span, columns: tuple[ex.Name, ...] | ex.Name) -> Change:
        return "EXCLUDE", columns if isinstance(columns, tuple) else (columns,), span

    def star_replace(self, span: Span, pairs: tuple[tuple[ex.Expr, ex.Name], ...]) -> Change:
        return "REPLACE", pairs, span

    def star_rename(self, span: Span, renamings: tuple[ast.Renaming, ...]) -> Change:
        return (
            "RENAME",
            tuple((r.old, self.path(r.new.span or span, r.new)) for r in renamings),
            span,
        )

    def named_window(self, span: Span, name: ast.Identifier, window: ex.Window) -> ast.NamedWindow:
        return ast.NamedWindow(name, window, span=span)

    def set(
        self,
        span: Span,
        hints: Hints,
        assignments: tuple[ast.Assignment, ...],
        on_error: ast.OnError | None,
    ) -> ast.Set:
        return ast.Set(assignments, on_error, hints=hints, span=span)

    def assignment(self, span: Span, target: ex.Name, expr: ex.Expr) -> ast.Assignment:
        return ast.Assignment(target, expr, span=span)

    def drop(self, span: Span, hints: Hints, columns: tuple[ex.Name, ...]) -> ast.Drop:
        return ast.Drop(columns, hints=hints, span=span)

    def drop_if_exists(self, span: Span, hints: Hints, columns: tuple[ex.Name, ...]) -> ast.Drop:
        return ast.Drop(columns, if_exists=True, hints=hints, span=span)

    def rename(self, span: Span, hints: Hints, renamings: tuple[ast.Renaming, ...]) -> ast.Rename:
        return ast.Rename(renamings, hints=hints, span=span)

    def renaming(self, span: Span, old: ex.Name, new: ast.Identifier) -> ast.Renaming:
        return ast.Renaming(old, new, span=span)

    def as_alias(self, span: Span, alias: ast.Identifier) -> ast.As:
        return ast.As(alias, span=span)

    def aggregate(
        self,
        span: Span,
        hints: Hints,
        items: tuple[ast.AggregateItem, ...],
        group: tuple[bool, tuple[ast.AggregateItem, ...]] = (False, ()),
    ) -> ast.Aggregate:
        return ast.Aggregate(items, group[1], group[0], hints=hints, span=span)

    def aggregate_keys(
        self,
        span: Span,
        hints: Hints,
        group: tuple[bool, tuple[ast.AggregateItem, ...]],
    ) -> ast.Aggregate:
        return self.aggregate(span, hints, (), group)

    def aggregate_item(
        self,
        span: Span,
        expr: ex.Expr,
        alias: ast.Identifier | None,
        order: str,
        nulls_first: bool | None,
    ) -> ast.AggregateItem:
        return ast.AggregateItem(expr, alias, order, nulls_first, span=span)

    def grouping_sets_item(
        self, span: Span, sets: tuple[tuple[ex.Expr, ...], ...]
    ) -> ast.AggregateItem:
        return ast.AggregateItem(ex.GroupingSets(sets, span=span), span=span)

    def grouping_set(self, span: Span, expr: ex.Expr) -> tuple[ex.Expr, ...]:
        return expr.items if isinstance(expr, ex.Row) else (expr,)

    def group_by(
        self, span: Span, keys: tuple[ast.AggregateItem, ...]
    ) -> tuple[bool, tuple[ast.AggregateItem, ...]]:
        return False, keys

    def group_and_order_by(
        self, span: Span, keys: tuple[ast.AggregateItem, ...]
    ) -> tuple[bool, tuple[ast.AggregateItem, ...]]:
        return True, keys

    def distinct(
        self,
        span: Span,
        hints: Hints,
        on: tuple[ex.Expr, ...] = (),
        order: tuple[ex.SortKey, ...] = (),
    ) -> ast.Distinct:
        return ast.Distinct(on, order, hints=hints, span=span)

    def order_by(self, span: Span, hints: Hints, *keys: ex.SortKey) -> ast.OrderBy:
        return ast.OrderBy(keys, hints=hints, span=span)

    def limit(
        self, span: Span, hints: Hints, count: ex.Expr, offset: ex.Expr | None = None
    ) -> ast.Limit:
        return ast.Limit(count, offset, hints=hints, span=span)

    def offset(self, span: Span, hints: Hints, offset: ex.Expr) -> ast.Limit:
        return ast.Limit(None, offset, hints=hints, span=span)

    def join(
        self,
        span: Span,
        words: Token,
        hints: Hints,
        right: ast.FromItem,
        condition: Condition,
    ) -> ast.Join:
        kind, natural, on, using = join_parts(words, right, condition)
        return ast.Join(right, kind, on, using, natural, hints=hints, span=span)

    def set_operation(
        self, span: Span, words: str, hints: Hints, by_name: bool, queries: tuple[ast.Query, ...]
    ) -> ast.SetOperation:
        kind, _, rest = words.partition(" ")
        every = rest == "ALL" if rest else None
        return ast.SetOperation(kind, queries, every, by_name, hints=hints, span=span)

    def unnest(
        self,
        span: Span,
        hints: Hints,
        items: ex.Expr,
        alias: ast.Identifier | None,
        position: tuple[ast.Identifier, bool] | None,
    ) -> ast.Unnest:
        name, one_based = position or (None, False)
        return ast.Unnest(items, alias, False, name, one_based, hints=hints, span=span)

    def left_unnest(
        self,
        span: Span,
        hints: Hints,
        items: ex.Expr,
        alias: ast.Identifier | None,
        position: tuple[ast.Identifier, bool] | None,
    ) -> ast.Unnest:
        name, one_based = position or (None, False)
        return ast.Unnest(items, alias, True, name, one_based, hints=hints, span=span)

    def function_name(self, span: Span, *parts: ast.Identifier) -> FunctionName:
        return FunctionName(tuple(part.text for part in parts), span)

    def map_rows(
        self,
        span: Span,
        kind: str,
        hints: Hints,
        function: FunctionName,
        arguments: tuple[Argument | AsType | FromPart, ...],
        returns: tuple[ast.ReturnColumn, ...],
        on_error: ast.OnError | None,
    ) -> ast.MapRows:
        return ast.MapRows(
            kind,
            function.parts,
            plain_arguments(ex.Name(function.parts), Arguments(arguments)),
            returns,
            on_error,
            hints=hints,
            span=span,
            function_span=function.span,
        )

    def reduce(  # noqa: PLR0913 - a rule of nine parts
        self,
        span: Span,
        hints: Hints,
        function: FunctionName,
        arguments: tuple[Argument | AsType | FromPart, ...],
        keys: tuple[ast.SelectItem, ...],
        order: tuple[ex.SortKey, ...],
        combine: FunctionName | None,
        returns: tuple[ast.ReturnColumn, ...],
        on_error: ast.OnError | None,
    ) -> ast.Reduce:
        return ast.Reduce(
            function.parts,
            plain_arguments(ex.Name(function.parts), Arguments(arguments)),
            keys,
            order,
            combine.parts if combine else (),
            returns,
            on_error,
            hints=hints,
            span=span,
            function_span=function.span,
        )

    def return_column(self, span: Span, name: ast.Identifier, type: str) -> ast.ReturnColumn:
        return ast.ReturnColumn(name.text, type, span=span)

    def into(
        self, span: Span, token: Token, options: tuple[ast.Option, ...]
    ) -> tuple[str, tuple[ast.Option, ...]]:
        return string_value(token.text), options

    def on_error(
        self,
        span: Span,
        action: str,
        into: tuple[str, tuple[ast.Option, ...]] | None,
        limit: str,
    ) -> ast.OnError:
        uri, options = into or (None, ())
        return ast.OnError(action, uri, limit.removeprefix("LIMIT "), options, span=span)

    def write(
        self, span: Span, hints: Hints, uri: ex.Expr, options: tuple[ast.Option, ...]
    ) -> ast.Write:
        return ast.Write(uri, options, hints=hints, span=span)

    def export_data(
        self, span: Span, to: ex.Expr | None, options: tuple[ast.Option, ...]
    ) -> ast.Write:
        uris = [option for option in options if option.name.lower() == "uri"]
        rest = tuple(option for option in options if option.name.lower() != "uri")
        targets = ([to] if to else []) + [option.value for option in uris]
        if len(targets) != 1:
            raise ParseError(
                "EXPORT DATA needs one place to write to",
                code="S122",
                span=span,
                hint="write EXPORT DATA OPTIONS (uri = 'out/') or WRITE 'out/'",
            )
        return ast.Write(targets[0], rest, span=span)

    # ---- several pipes, and what changes the shape ----

    def recursive_union(
        self,
        span: Span,
        words: str,
        hints: Hints,
        by_name: bool,
        step: ast.Query,
        alias: ast.Identifier | None,
    ) -> ast.RecursiveUnion:
        rest = words.partition(" ")[2]
        every = rest == "ALL" if rest else None
        return ast.RecursiveUnion(step, every, by_name, alias, hints=hints, span=span)

    def pivot(
        self,
        span: Span,
        hints: Hints,
        aggregates: tuple[ast.SelectItem, ...],
        input: ex.Expr,
        values: tuple[ast.SelectItem, ...],
        alias: ast.Identifier | None,
    ) -> ast.Pivot:
        return ast.Pivot(aggregates, input, values, alias, hints=hints, span=span)

    def unpivot(
        self,
        span: Span,
        hints: Hints,
        include_nulls: bool,
        value: ast.Identifier,
        name: ast.Identifier,
        columns: tuple[ast.UnpivotColumn, ...],
        alias: ast.Identifier | None,
    ) -> ast.Unpivot:
        return ast.Unpivot(value, name, columns, include_nulls, alias, hints=hints, span=span)

    def unpivot_column(
        self, span: Span, column: ex.Name, label: ast.Identifier | None = None
    ) -> ast.UnpivotColumn:
        return ast.UnpivotColumn(column, label.text if label else None, span=span)

    def unpivot_column_text(self, span: Span, column: ex.Name, token: Token) -> ast.UnpivotColumn:
        return ast.UnpivotColumn(column, string_value(token.text), span=span)

    def tablesample(self, span: Span, hints: Hints, sample: ast.Sample) -> ast.TableSample:
        return ast.TableSample(sample, hints=hints, span=span)

    def shuffle(
        self,
        span: Span,
        hints: Hints,
        seed: ex.Expr | None,
        shards: ex.Expr | None,
    ) -> ast.Shuffle:
        return ast.Shuffle(seed, shards, hints=hints, span=span)

    def distribute(
        self,
        span: Span,
        hints: Hints,
        keys: tuple[ex.Expr, ...],
        shards: ex.Expr | None,
    ) -> ast.Distribute:
        return ast.Distribute(keys, shards, hints=hints, span=span)

    def partition_by(
        self,
        span: Span,
        hints: Hints,
        keys: tuple[ast.SelectItem, ...],
        pipe: ast.Subpipe,
    ) -> ast.PartitionBy:
        return ast.PartitionBy(keys, pipe, hints=hints, span=span)

    def switch(
        self,
        span: Span,
        hints: Hints,
        branches: tuple[Branch, ...],
        otherwise: ast.Subpipe | None,
    ) -> ast.Switch:
        return ast.Switch(branches, otherwise, hints=hints, span=span)

    def if_(
        self,
        span: Span,
        hints: Hints,
        condition: ex.Expr,
        pipe: ast.Subpipe,
        more: tuple[Branch, ...],
        otherwise: ast.Subpipe | None,
    ) -> ast.If:
        return ast.If(((condition, pipe), *more), otherwise, hints=hints, span=span)

    def tee(self, span: Span, hints: Hints, pipes: tuple[ast.Subpipe, ...] = ()) -> ast.Tee:
        return ast.Tee(pipes, hints=hints, span=span)

    def fork(self, span: Span, hints: Hints, pipes: tuple[ast.Subpipe, ...]) -> ast.Fork:
        return ast.Fork(pipes, hints=hints, span=span)

    def with_(self, span: Span, common: tuple[ast.CommonQuery, ...]) -> ast.With:
        return ast.With(common, span=span)

    def call_operator(
        self,
        span: Span,
        hints: Hints,
        function: ex.Name,
        arguments: tuple[Argument | AsType | FromPart, ...],
        alias: ast.Identifier | None,
    ) -> ast.CallTable:
        args = plain_arguments(function, Arguments(arguments))
        return ast.CallTable(function, args, alias, hints=hints, span=span)

    def assert_(self, span: Span, hints: Hints, exprs: tuple[ex.Expr, ...]) -> ast.Assert:
        return ast.Assert(exprs[0], exprs[1:], hints=hints, span=span)

    def describe_operator(self, span: Span) -> ast.DescribeRows:
        return ast.DescribeRows(span=span)

    def finish(self, span: Span, hints: Hints) -> ast.Finish:
        return ast.Finish(hints=hints, span=span)

    def create_table_operator(
        self, span: Span, replace: bool, name: ast.Identifier
    ) -> ast.StoreTable:
        return ast.StoreTable(name, replace, span=span)
