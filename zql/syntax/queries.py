"""What the grammar's rules for queries and FROM items make: `ast` nodes."""

from __future__ import annotations

from dataclasses import replace

from zql.errors import ParseError
from zql.expr import expression as ex
from zql.source import Span
from zql.syntax import ast
from zql.syntax.automaton import Token
from zql.syntax.expressions import (
    Arguments,
    ExpressionActions,
)
from zql.syntax.literals import string_value

Condition = tuple[str, ex.Expr | tuple[ast.Identifier, ...]] | None


class FromActions(ExpressionActions):
    """FROM items and joins."""

    def path_source(self, span: Span, token: Token) -> ast.PathSource:
        return ast.PathSource((string_value(token.text),), span=span)

    def strings(self, span: Span, *tokens: Token) -> tuple[str, ...]:
        return tuple(string_value(token.text) for token in tokens)

    def paths_source(self, span: Span, paths: tuple[str, ...]) -> ast.PathSource:
        return ast.PathSource(paths, span=span)

    def name_source(self, span: Span, path: ex.Name) -> ast.NameSource:
        if len(path.parts) == 2:
            return ast.NameSource(path.parts[1], path.parts[0], span=span)
        if len(path.parts) > 2:
            raise ParseError(
                f"{span.text} is no table: a table's name has one part, or two in a module",
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

    def lateral_source(self, span: Span, query: ast.Query) -> ast.LateralSource:
        return ast.LateralSource(query, span=span)

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

    def position_offset(
        self, span: Span, name: ast.Identifier | None
    ) -> tuple[ast.Identifier, bool]:
        return name or ast.Identifier("offset", span=span), False

    def position_ordinality(
        self, span: Span, name: ast.Identifier | None
    ) -> tuple[ast.Identifier, bool]:
        return name or ast.Identifier("ordinality", span=span), True

    def positioned(
        self, span: Span, item: ast.FromItem, position: tuple[ast.Identifier, bool]
    ) -> ast.FromItem:
        name, one_based = position
        source = item.item if isinstance(item, ast.Aliased) else item
        if not isinstance(source, ast.UnnestSource):
            raise ParseError(
                "WITH OFFSET and WITH ORDINALITY count the elements of UNNEST(list)",
                code="S122",
                span=name.span or span,
                hint="|> EXTEND row_number() OVER () AS i numbers rows",
            )
        counted = replace(source, position=name, one_based=one_based)
        return replace(item, item=counted, span=span) if isinstance(item, ast.Aliased) else counted

    def sample(
        self,
        span: Span,
        method: str,
        size: ex.Expr,
        unit: str,
        partition: tuple[ex.Expr, ...],
        seed: ex.Expr | None,
    ) -> ast.Sample:
        if (method, unit) not in (("BERNOULLI", "PERCENT"), ("RESERVOIR", "ROWS")):
            raise ParseError(
                f"there is no TABLESAMPLE {method} in {unit}",
                code="S122",
                span=span,
                hint="write BERNOULLI (10 PERCENT) or RESERVOIR (1000 ROWS)",
            )
        if partition and method == "BERNOULLI":
            raise ParseError(
                "BERNOULLI takes every row by itself: it has no PARTITION BY",
                code="S122",
                span=partition[0].span or span,
                hint="write RESERVOIR (1000 ROWS PARTITION BY ..)",
            )
        return ast.Sample(method, size, partition, seed, span=span)

    def sampled(self, span: Span, item: ast.FromItem, sample: ast.Sample) -> ast.Sampled:
        return ast.Sampled(item, sample, span=span)

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
        kind, natural, on, using = join_parts(words, right, condition)
        return ast.Joined(left, right, kind, on, using, natural, hints, span=span)

    def option(self, span: Span, name: ast.Identifier, value: ex.Expr) -> ast.Option:
        return ast.Option(name.text, value, span=span)


def join_parts(
    words: Token, right: ast.FromItem, condition: Condition
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
    if not natural and kind != "CROSS" and condition is None and not _is_lateral(right):
        raise ParseError(
            "JOIN needs ON or USING",
            code="S122",
            span=words.span,
            hint="add ON condition or USING (column, ..), or write CROSS JOIN for every pair",
        )
    on = condition[1] if condition and isinstance(condition[1], ex.Expr) else None
    using = condition[1] if condition and isinstance(condition[1], tuple) else ()
    return kind, natural, on, using


def _is_lateral(item: ast.FromItem) -> bool:
    """Whether a right side takes its rows from the left one, and so needs no condition."""
    while isinstance(item, ast.Aliased | ast.Sampled):
        item = item.item
    return isinstance(item, ast.LateralSource | ast.UnnestSource)
