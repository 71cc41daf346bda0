"""Queries and FROM items as documents."""

from __future__ import annotations

from collections.abc import Iterator

from zql.syntax import ast
from zql.syntax.layout import LINE, Doc, block, group, indent, join
from zql.syntax.names import identifier_text
from zql.syntax.texts import (
    Texts,
    as_alias,
    clause,
    names,
    renders,
    string_text,
)

PIPE_COLUMNS = 3
"""The clauses of an operator stand below its name, behind the width of `|> `."""


# ---- queries -----------------------------------------------------------------------------------


@renders(ast.Query)
def _query(node: ast.Query, of: Texts) -> Doc:
    parts: list[Doc] = [("WITH ", of.list(node.common))] if node.common else []
    if len(node.items) == 1 and isinstance(node.items[0], ast.ValuesSource | ast.SelectSource):
        parts.append(of(node.items[0]))
    elif node.items:
        parts.append(from_clause(node.items, of))
    if node.on_error is not None:
        parts[-1] = group(parts[-1], indent(LINE, of(node.on_error)))
    return join(LINE, [*parts, *pipes(node.operators, of)])


def pipes(operators: tuple[ast.Operator, ...], of: Texts) -> list[Doc]:
    """Pipe operators, each with its sign."""
    return [group("|> ", indent(of(operator), columns=PIPE_COLUMNS)) for operator in operators]


@renders(ast.CommonQuery)
def _common_query(node: ast.CommonQuery, of: Texts) -> Doc:
    head = (identifier_text(node.name.text), names(node.columns))
    return (head, " AS ", block("(", of(node.query), ")"))


@renders(ast.SelectSource)
def _select_source(node: ast.SelectSource, of: Texts) -> Doc:
    return group(join(LINE, _select_clauses(node, of)))


def _select_clauses(node: ast.SelectSource, of: Texts) -> Iterator[Doc]:
    words: Doc = "SELECT DISTINCT" if node.distinct else "SELECT"
    if isinstance(node.distinct, tuple):
        words = ("SELECT DISTINCT ON ", block("(", of.list(node.distinct), ")"))
    yield clause(words, of.list(node.items))
    if node.sources:
        yield from_clause(node.sources, of)
    if node.where is not None:
        yield ("WHERE ", of(node.where))
    if node.keys is not None:
        words = "GROUP AND ORDER BY" if node.ordered else "GROUP BY"
        yield clause(words, of.list(node.keys)) if node.keys else "GROUP BY ALL"
    if node.having is not None:
        yield ("HAVING ", of(node.having))
    if node.windows:
        yield clause("WINDOW", of.list(node.windows))
    if node.qualify is not None:
        yield ("QUALIFY ", of(node.qualify))
    if node.order:
        yield clause("ORDER BY", of.list(node.order))
    if node.limit is not None:
        yield of(node.limit)


def from_clause(items: tuple[ast.FromItem, ...], of: Texts) -> Doc:
    """`FROM` and its items; several stand below when they do not fit."""
    return ("FROM ", of(items[0])) if len(items) == 1 else clause("FROM", of.list(items))


@renders(ast.LateralSource)
def _lateral_source(node: ast.LateralSource, of: Texts) -> Doc:
    return ("LATERAL ", block("(", of(node.query), ")"))


@renders(ast.Sampled)
def _sampled(node: ast.Sampled, of: Texts) -> Doc:
    return (_operand(node.item, of), " TABLESAMPLE ", of(node.sample))


@renders(ast.Sample)
def _sample(node: ast.Sample, of: Texts) -> Doc:
    size: Doc = (of(node.size), " PERCENT" if node.method == "BERNOULLI" else " ROWS")
    if node.partition:
        size = (size, LINE, clause("PARTITION BY", of.list(node.partition)))
    doc: Doc = (f"{node.method} ", block("(", size, ")"))
    if node.seed is not None:
        doc = (doc, " REPEATABLE ", block("(", of(node.seed), ")"))
    return doc


# ---- FROM --------------------------------------------------------------------------------------


@renders(ast.PathSource)
def _path_source(node: ast.PathSource, _: Texts) -> Doc:
    paths = [string_text(path) for path in node.paths]
    return paths[0] if len(paths) == 1 else block("[", join((",", LINE), paths), "]")


@renders(ast.NameSource)
def _name_source(node: ast.NameSource, _: Texts) -> Doc:
    if not node.module:
        return identifier_text(node.name)
    return f"{identifier_text(node.module)}.{identifier_text(node.name, any_word=True)}"


@renders(ast.ParameterSource)
def _parameter_source(node: ast.ParameterSource, _: Texts) -> Doc:
    return f"${node.name}"


@renders(ast.CallSource)
def _call_source(node: ast.CallSource, of: Texts) -> Doc:
    return of(node.call)


@renders(ast.QuerySource)
def _query_source(node: ast.QuerySource, of: Texts) -> Doc:
    return block("(", of(node.query), ")")


@renders(ast.UnnestSource)
def _unnest_source(node: ast.UnnestSource, of: Texts) -> Doc:
    return (block("UNNEST(", of(node.list), ")"), position(node))


def position(node: ast.Unnest | ast.UnnestSource) -> str:
    """The column that counts the elements of UNNEST."""
    if node.position is None:
        return ""
    return f" WITH {'ORDINALITY' if node.one_based else 'OFFSET'}{as_alias(node.position)}"


@renders(ast.ValuesSource)
def _values_source(node: ast.ValuesSource, of: Texts) -> Doc:
    rows = [block("(", of.list(row), ")") for row in node.rows]
    return clause("VALUES", join((",", LINE), rows))


@renders(ast.Aliased)
def _aliased(node: ast.Aliased, of: Texts) -> Doc:
    alias = (as_alias(node.alias), names(node.columns))
    if isinstance(node.item, ast.UnnestSource):
        return (block("UNNEST(", of(node.item.list), ")"), alias, position(node.item))
    return (_operand(node.item, of), alias)


def _operand(item: ast.FromItem, of: Texts) -> Doc:
    return block("(", of(item), ")") if isinstance(item, ast.Joined) else of(item)


@renders(ast.Joined)
def _joined(node: ast.Joined, of: Texts) -> Doc:
    first, rest = of.links(node.left)
    return of.chain(node, first, (rest, LINE, group(indent(join_parts(node, of)))))


def join_parts(node: ast.Joined | ast.Join, of: Texts) -> Doc:
    """A join of FROM or of a pipe: its right side and its condition."""
    words = "NATURAL " if node.natural else ""
    words += "" if node.kind == "INNER" else f"{node.kind} "
    doc: Doc = (words, hinted("JOIN", node, of), " ", _operand(node.right, of))
    if node.on is not None:
        doc = (doc, LINE, "ON ", of(node.on))
    if node.using:
        doc = (doc, LINE, "USING ", names(node.using))
    return doc


def hinted(word: str, node: ast.PipeOperator | ast.Joined, of: Texts) -> Doc:
    """The word of an operator with the hints that follow it."""
    return (f"{word} ", block("@{", of.list(node.hints), "}")) if node.hints else word


@renders(ast.Option)
def _option(node: ast.Option, of: Texts) -> Doc:
    name = ".".join([identifier_text(part, any_word=True) for part in node.name.split(".")])
    return (f"{name} = ", of(node.value))


@renders(ast.Identifier)
def _identifier(node: ast.Identifier, _: Texts) -> Doc:
    return identifier_text(node.text)
