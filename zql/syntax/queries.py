"""What the grammar's rules for statements, queries and pipe operators make: `ast` nodes."""

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
    ExpressionActions,
    FromPart,
    plain_arguments,
)
from zql.syntax.literals import string_value

Condition = tuple[str, ex.Expr | tuple[ast.Identifier, ...]] | None


class FunctionName(NamedTuple):
    """The parts of a function's name, and where it stands."""

    parts: tuple[str, ...]
    span: Span


Change = tuple[str, tuple[object, ...], Span]


class FromActions(ExpressionActions):
    """FROM items and joins."""

    def path_source(self, span: Span, token: Token) -> ast.PathSource:
        return ast.PathSource((string_value(token.text),), span=span)

    def strings(self, span: Span, *tokens: Token) -> tuple[str, ...]:
        return tuple(string_value(token.text) for token in tokens)

    def paths_source(self, span: Span, paths: tuple[str, ...]) -> ast.PathSource:
        return ast.PathSource(paths, span=span)

    def name_source(self, span: Span, path: ex.Name) -> ast.NameSource:
        if len(path.parts) > 1:
            raise ParseError(
                f"{span.text} is no table: a table's name has one part",
                code="S121",
                span=span,
                hint=f"a file's path stands in single quotes: '{span.text}'",
            )
        return ast.NameSource(path.parts[0], span=span)

    def call_source(self, span: Span, name: ex.Name, arguments: Arguments) -> ast.CallSource:
        call = self.call(span, name, arguments)
        if not isinstance(call, ex.Call):
            raise ParseError(f"{name.parts[0]} is no table function", code="S121", span=name.span)
        return ast.CallSource(call, span=span)

    def parameter_source(self, span: Span, token: Token) -> ast.ParameterSource:
        return ast.ParameterSource(token.text[1:], span=span)

    def query_source(self, span: Span, query: ast.Query) -> ast.QuerySource:
        return ast.QuerySource(query, span=span)

    def unnest_source(self, span: Span, items: ex.Expr) -> ast.UnnestSource:
        return ast.UnnestSource(items, span=span)

    def values(self, span: Span, *rows: tuple[ex.Expr, ...]) -> ast.ValuesSource:
        for row in rows[1:]:
            if len(row) != len(rows[0]):
                raise ParseError(
                    f"this row of VALUES has {len(row)} values, the first one {len(rows[0])}",
                    code="S122",
                    span=row[0].span.to(row[-1].span) if row[0].span and row[-1].span else span,
                )
        return ast.ValuesSource(rows, span=span)

    def aliased(
        self,
        span: Span,
        item: ast.FromItem,
        alias: ast.Identifier,
        columns: tuple[ast.Identifier, ...],
    ) -> ast.Aliased:
        return ast.Aliased(item, alias, columns, span=span)

    def join_kind(self, span: Span, *words: Token) -> Token:
        return Token(self.words(span, *words), span)

    def join_on(self, span: Span, condition: ex.Expr) -> Condition:
        return "ON", condition

    def join_using(self, span: Span, names: tuple[ast.Identifier, ...]) -> Condition:
        return "USING", names

    def joined(
        self,
        span: Span,
        left: ast.FromItem,
        words: Token,
        hints: tuple[ast.Option, ...],
        right: ast.FromItem,
        condition: Condition,
    ) -> ast.Joined:
        kind, natural, on, using = _join(words, condition)
        return ast.Joined(left, right, kind, on, using, natural, hints, span=span)

    def option(self, span: Span, name: ast.Identifier, value: ex.Expr) -> ast.Option:
        return ast.Option(name.text, value, span=span)


def _join(
    words: Token, condition: Condition
) -> tuple[str, bool, ex.Expr | None, tuple[ast.Identifier, ...]]:
    """Kind, NATURAL, ON and USING; what kind needs which condition is checked here."""
    parts = [word for word in words.text.split() if word not in ("JOIN", "OUTER")]
    natural = "NATURAL" in parts
    kind = " ".join(word for word in parts if word != "NATURAL") or "INNER"
    if (natural or kind == "CROSS") and condition is not None:
        raise ParseError(
            f"{'NATURAL' if natural else 'CROSS'} JOIN takes no {condition[0]}",
            code="S122",
            span=words.span,
        )
    if not natural and kind != "CROSS" and condition is None:
        raise ParseError(
            "JOIN needs ON or USING",
            code="S122",
            span=words.span,
            hint="add ON condition or USING (column, ..), or write CROSS JOIN for every pair",
        )
    on = condition[1] if condition and isinstance(condition[1], ex.Expr) else None
    using = condition[1] if condition and isinstance(condition[1], tuple) else ()
    return kind, natural, on, using


class OperatorActions(FromActions):
    """Pipe operators."""

    def where(self, span: Span, predicate: ex.Expr, on_error: ast.OnError | None) -> ast.Where:
        return ast.Where(predicate, on_error, span=span)

    def select(
        self,
        span: Span,
        distinct: bool,
        items: tuple[ast.SelectItem, ...],
        windows: tuple[ast.NamedWindow, ...],
        on_error: ast.OnError | None,
    ) -> ast.Select:
        return ast.Select(items, distinct, windows, on_error, span=span)

    def extend(
        self,
        span: Span,
        items: tuple[ast.SelectItem, ...],
        windows: tuple[ast.NamedWindow, ...],
        on_error: ast.OnError | None,
    ) -> ast.Extend:
        return ast.Extend(items, windows, on_error, span=span)

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
        assignments: tuple[ast.Assignment, ...],
        on_error: ast.OnError | None,
    ) -> ast.Set:
        return ast.Set(assignments, on_error, span=span)

    def assignment(self, span: Span, target: ex.Name, expr: ex.Expr) -> ast.Assignment:
        return ast.Assignment(target, expr, span=span)

    def drop(self, span: Span, columns: tuple[ex.Name, ...]) -> ast.Drop:
        return ast.Drop(columns, span=span)

    def drop_if_exists(self, span: Span, columns: tuple[ex.Name, ...]) -> ast.Drop:
        return ast.Drop(columns, if_exists=True, span=span)

    def rename(self, span: Span, renamings: tuple[ast.Renaming, ...]) -> ast.Rename:
        return ast.Rename(renamings, span=span)

    def renaming(self, span: Span, old: ex.Name, new: ast.Identifier) -> ast.Renaming:
        return ast.Renaming(old, new, span=span)

    def as_alias(self, span: Span, alias: ast.Identifier) -> ast.As:
        return ast.As(alias, span=span)

    def aggregate(
        self,
        span: Span,
        items: tuple[ast.AggregateItem, ...],
        group: tuple[bool, tuple[ast.AggregateItem, ...]] = (False, ()),
    ) -> ast.Aggregate:
        return ast.Aggregate(items, group[1], group[0], span=span)

    def aggregate_keys(
        self, span: Span, group: tuple[bool, tuple[ast.AggregateItem, ...]]
    ) -> ast.Aggregate:
        return self.aggregate(span, (), group)

    def aggregate_item(
        self,
        span: Span,
        expr: ex.Expr,
        alias: ast.Identifier | None,
        order: str,
        nulls_first: bool | None,
    ) -> ast.AggregateItem:
        return ast.AggregateItem(expr, alias, order, nulls_first, span=span)

    def group_by(
        self, span: Span, keys: tuple[ast.AggregateItem, ...]
    ) -> tuple[bool, tuple[ast.AggregateItem, ...]]:
        return False, keys

    def group_and_order_by(
        self, span: Span, keys: tuple[ast.AggregateItem, ...]
    ) -> tuple[bool, tuple[ast.AggregateItem, ...]]:
        return True, keys

    def distinct(
        self, span: Span, on: tuple[ex.Expr, ...] = (), order: tuple[ex.SortKey, ...] = ()
    ) -> ast.Distinct:
        return ast.Distinct(on, order, span=span)

    def order_by(self, span: Span, *keys: ex.SortKey) -> ast.OrderBy:
        return ast.OrderBy(keys, span=span)

    def limit(self, span: Span, count: ex.Expr, offset: ex.Expr | None = None) -> ast.Limit:
        return ast.Limit(count, offset, span=span)

    def offset(self, span: Span, offset: ex.Expr) -> ast.Limit:
        return ast.Limit(None, offset, span=span)

    def join(
        self,
        span: Span,
        words: Token,
        hints: tuple[ast.Option, ...],
        right: ast.FromItem,
        condition: Condition,
    ) -> ast.Join:
        kind, natural, on, using = _join(words, condition)
        return ast.Join(right, kind, on, using, natural, hints, span=span)

    def set_operation(
        self, span: Span, words: str, by_name: bool, queries: tuple[ast.Query, ...]
    ) -> ast.SetOperation:
        kind, _, rest = words.partition(" ")
        every = rest == "ALL" if rest else None
        return ast.SetOperation(kind, queries, every, by_name, span=span)

    def unnest(
        self,
        span: Span,
        items: ex.Expr,
        alias: ast.Identifier | None,
        position: tuple[ast.Identifier, bool] | None,
    ) -> ast.Unnest:
        name, one_based = position or (None, False)
        return ast.Unnest(items, alias, False, name, one_based, span=span)

    def left_unnest(
        self,
        span: Span,
        items: ex.Expr,
        alias: ast.Identifier | None,
        position: tuple[ast.Identifier, bool] | None,
    ) -> ast.Unnest:
        name, one_based = position or (None, False)
        return ast.Unnest(items, alias, True, name, one_based, span=span)

    def position_offset(
        self, span: Span, name: ast.Identifier | None
    ) -> tuple[ast.Identifier, bool]:
        return name or ast.Identifier("offset", span=span), False

    def position_ordinality(
        self, span: Span, name: ast.Identifier | None
    ) -> tuple[ast.Identifier, bool]:
        return name or ast.Identifier("ordinality", span=span), True

    def function_name(self, span: Span, *parts: ast.Identifier) -> FunctionName:
        return FunctionName(tuple(part.text for part in parts), span)

    def map_rows(
        self,
        span: Span,
        kind: str,
        hints: tuple[ast.Option, ...],
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
            hints,
            span=span,
            function_span=function.span,
        )

    def return_column(self, span: Span, name: ast.Identifier, type: str) -> ast.ReturnColumn:
        return ast.ReturnColumn(name.text, type, span=span)

    def on_error(self, span: Span, action: str, into: str | None, limit: str) -> ast.OnError:
        return ast.OnError(action, into, limit.removeprefix("LIMIT "), span=span)

    def write(self, span: Span, uri: ex.Expr, options: tuple[ast.Option, ...]) -> ast.Write:
        return ast.Write(uri, options, span=span)

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


class StatementActions(OperatorActions):
    """Queries and statements."""

    def query(
        self,
        span: Span,
        items: tuple[ast.FromItem, ...],
        operators: tuple[ast.Operator, ...] = (),
    ) -> ast.Query:
        return ast.Query(items, operators, span=span)

    def values_query(self, span: Span, values: ast.ValuesSource) -> tuple[ast.FromItem, ...]:
        return (values,)

    def nested_query(
        self, span: Span, query: ast.Query, operators: tuple[ast.Operator, ...]
    ) -> ast.Query:
        return ast.Query((ast.QuerySource(query, span=query.span),), operators, span=span)

    def continuation(self, span: Span, operators: tuple[ast.Operator, ...]) -> ast.Query:
        return ast.Query((), operators, span=span)

    def query_statement(self, span: Span, query: ast.Query) -> ast.QueryStatement:
        return ast.QueryStatement(query, span=span)

    def declare(
        self, span: Span, name: ast.Identifier, type: str, default: ex.Expr | None
    ) -> ast.Declare:
        return ast.Declare(name, type, default, span=span)

    def create_view(
        self, span: Span, replace: bool, name: ast.Identifier, query: ast.Query
    ) -> ast.CreateView:
        return ast.CreateView(name, query, replace, span=span)

    def import_path(
        self, span: Span, token: Token, alias: ast.Identifier | None
    ) -> ast.ImportPython:
        return ast.ImportPython(string_value(token.text), True, alias, span=span)

    def import_module(
        self, span: Span, parts: tuple[ast.Identifier, ...], alias: ast.Identifier | None
    ) -> ast.ImportPython:
        return ast.ImportPython(".".join(p.text for p in parts), False, alias, span=span)

    def set_option(self, span: Span, name: ast.Identifier, value: ex.Expr) -> ast.SetOption:
        return ast.SetOption(name, value, span=span)

    def explain(self, span: Span, level: str, query: ast.Query) -> ast.Explain:
        return ast.Explain(query, level or "STAGES", span=span)

    def describe(self, span: Span, query: ast.Query) -> ast.Describe:
        return ast.Describe(query, span=span)

    def described_name(self, span: Span, name: ast.Identifier) -> ast.Query:
        return ast.Query((ast.NameSource(name.text, span=span),), span=span)

    def described_path(self, span: Span, token: Token) -> ast.Query:
        return ast.Query((self.path_source(span, token),), span=span)
