"""What the grammar's rules for statements make: `ast` nodes."""

from __future__ import annotations

from dataclasses import replace

from zql.errors import ParseError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.source import Span
from zql.syntax import ast
from zql.syntax.automaton import Token
from zql.syntax.function_clauses import FunctionActions
from zql.syntax.keywords import EXPLAIN_FORMATS
from zql.syntax.literals import string_value


class StatementActions(FunctionActions):
    """Queries and statements."""

    def query(
        self,
        span: Span,
        items: tuple[ast.FromItem, ...],
        operators: tuple[ast.Operator, ...] = (),
    ) -> ast.Query:
        return ast.Query(items, operators, span=span)

    def policed_query(
        self,
        span: Span,
        policed: tuple[ast.FromItem, ast.OnError],
        operators: tuple[ast.Operator, ...] = (),
    ) -> ast.Query:
        item, on_error = policed
        return ast.Query((item,), operators, on_error=on_error, span=span)

    def group_by_all(self, span: Span) -> tuple[bool, tuple[ast.AggregateItem, ...]]:
        return False, ()

    def limit_clause(self, span: Span, count: ex.Expr, offset: ex.Expr | None = None) -> ast.Limit:
        return ast.Limit(count, offset, span=span)

    def offset_clause(self, span: Span, offset: ex.Expr) -> ast.Limit:
        return ast.Limit(None, offset, span=span)

    def select_query(
        self,
        span: Span,
        distinct: bool | tuple[ex.Expr, ...],
        items: tuple[ast.SelectItem, ...],
        sources: tuple[ast.FromItem, ...],
        where: ex.Expr | None,
        group: tuple[bool, tuple[ast.AggregateItem, ...]] | None,
        having: ex.Expr | None,
        windows: tuple[ast.NamedWindow, ...],
        qualify: ex.Expr | None,
        order: tuple[ex.SortKey, ...],
        limit: ast.Limit | None,
    ) -> tuple[ast.FromItem, ...]:
        ordered, keys = group if group is not None else (False, None)
        return (
            ast.SelectSource(
                items, sources, distinct, where, keys, ordered, having, windows, qualify, order,
                limit, span=span,
            ),
        )  # fmt: skip

    def cte(
        self,
        span: Span,
        name: ast.Identifier,
        columns: tuple[ast.Identifier, ...],
        query: ast.Query,
    ) -> ast.CommonQuery:
        return ast.CommonQuery(name, query, columns, span=span)

    def with_query(
        self, span: Span, common: tuple[ast.CommonQuery, ...], query: ast.Query
    ) -> ast.Query:
        if query.common:
            query = ast.Query((ast.QuerySource(query, span=query.span),), span=query.span)
        return replace(query, common=common, span=span)

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

    def declare_shared(
        self, span: Span, name: ast.Identifier, factory: ex.Expr
    ) -> ast.DeclareShared:
        return ast.DeclareShared(name, factory, span=span)

    def create_view(
        self, span: Span, replace: bool, name: ast.Identifier, query: ast.Query
    ) -> ast.CreateView:
        return ast.CreateView(name, query, replace, span=span)

    def create_table(
        self, span: Span, replace: bool, name: ast.Identifier, query: ast.Query
    ) -> ast.CreateTable:
        return ast.CreateTable(name, query, replace, span=span)

    def function_parameter(
        self, span: Span, name: ast.Identifier, type: str, default: ex.Expr | None
    ) -> ast.FunctionParameter:
        return ast.FunctionParameter(name, type, default, span=span)

    def table_parameter(self, span: Span, name: ast.Identifier) -> ast.FunctionParameter:
        return ast.FunctionParameter(name, "TABLE", span=span)

    def create_function(
        self,
        span: Span,
        replace: bool,
        name: ast.Identifier,
        parameters: tuple[ast.FunctionParameter, ...],
        returns: str | None,
        body: ex.Expr,
    ) -> ast.CreateFunction:
        return ast.CreateFunction(name, parameters, body, returns, replace, span=span)

    def create_table_function(
        self,
        span: Span,
        replace: bool,
        name: ast.Identifier,
        parameters: tuple[ast.FunctionParameter, ...],
        query: ast.Query,
    ) -> ast.CreateTableFunction:
        return ast.CreateTableFunction(name, parameters, query, replace, span=span)

    def import_script(
        self, span: Span, token: Token, alias: ast.Identifier | None
    ) -> ast.ImportScript:
        return ast.ImportScript(string_value(token.text), alias, span=span)

    def summarize(self, span: Span, query: ast.Query) -> ast.Summarize:
        return ast.Summarize(query, span=span)

    def show(self, span: Span, what: str, operators: tuple[ast.Operator, ...] = ()) -> ast.Show:
        return ast.Show(what, operators, span=span)

    def assert_statement(
        self, span: Span, condition: ex.Expr, message: str | None
    ) -> ast.AssertStatement:
        return ast.AssertStatement(condition, message, span=span)

    def write_statement(
        self, span: Span, uri: ex.Expr, options: tuple[ast.Option, ...], query: ast.Query
    ) -> ast.QueryStatement:
        """`WRITE uri AS query` is the query with the operator at its end."""
        write = ast.Write(uri, options, span=span)
        whole = replace(query, operators=(*query.operators, write))
        return ast.QueryStatement(whole, span=span)

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

    def explain_format(self, span: Span, name: ast.Identifier) -> ast.Identifier:
        """The format, told from a level by its type."""
        word = name.text.upper()
        if word not in EXPLAIN_FORMATS:
            known = [each.lower() for each in EXPLAIN_FORMATS]
            near = did_you_mean(nearest(name.text.lower(), known))
            raise ParseError(
                f'EXPLAIN has no format "{name.text}"',
                code="S120",
                span=name.span or span,
                hint=near or f"formats: {', '.join(known)}",
            )
        return replace(name, text=word)

    def explain(self, span: Span, query: ast.Query) -> ast.Explain:
        return ast.Explain(query, span=span)

    def explain_with(
        self, span: Span, options: tuple[str | ast.Identifier, ...], query: ast.Query
    ) -> ast.Explain:
        levels = [option for option in options if isinstance(option, str)]
        formats = [option.text for option in options if not isinstance(option, str)]
        if len(levels) > 1 or len(formats) > 1:
            twice = levels if len(levels) > 1 else formats
            raise ParseError(
                f"EXPLAIN takes one of {' and '.join(twice)}",
                code="S120",
                span=Span(span.source, span.start, query.span.start if query.span else span.end),
                hint="write one level, and one format",
            )
        return ast.Explain(query, *(levels or ["STAGES"]), *formats, span=span)

    def describe(self, span: Span, query: ast.Query) -> ast.Describe:
        return ast.Describe(query, span=span)

    def described_name(self, span: Span, name: ast.Identifier) -> ast.Query:
        return ast.Query((ast.NameSource(name.text, span=span),), span=span)

    def described_path(self, span: Span, token: Token) -> ast.Query:
        return ast.Query((self.path_source(span, token),), span=span)
