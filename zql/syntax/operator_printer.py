"""Pipe operators as documents: their clauses, each of which may begin a line."""

from __future__ import annotations

from zql.expr import expression as ex
from zql.syntax import ast
from zql.syntax.layout import LINE, Doc, block, group, indent, join
from zql.syntax.names import identifier_text
from zql.syntax.query_printer import hinted, join_parts, pipes, position
from zql.syntax.texts import (
    SYMBOL,
    Texts,
    any_name,
    as_alias,
    brackets,
    clause,
    column_text,
    nulls_text,
    renders,
    string_text,
)

# ---- columns -----------------------------------------------------------------------------------


@renders(ast.Where)
def _where(node: ast.Where, of: Texts) -> Doc:
    return (hinted("WHERE", node, of), " ", of(node.predicate), _on_error(node.on_error, of))


@renders(ast.Select)
def _select(node: ast.Select, of: Texts) -> Doc:
    words = (hinted("SELECT", node, of), " DISTINCT" if node.distinct else "")
    items = clause(words, of.list(node.items))
    return (items, _windows(node.windows, of), _on_error(node.on_error, of))


@renders(ast.Extend)
def _extend(node: ast.Extend, of: Texts) -> Doc:
    items = clause(hinted("EXTEND", node, of), of.list(node.items))
    return (items, _windows(node.windows, of), _on_error(node.on_error, of))


@renders(ast.SelectItem)
def _select_item(node: ast.SelectItem, of: Texts) -> Doc:
    return (of(node.expr), as_alias(node.alias))


def _windows(windows: tuple[ast.NamedWindow, ...], of: Texts) -> Doc:
    return (LINE, clause("WINDOW", of.list(windows))) if windows else ""


@renders(ast.NamedWindow)
def _named_window(node: ast.NamedWindow, of: Texts) -> Doc:
    return (f"{identifier_text(node.name.text)} AS ", brackets("(", of(node.window), ")"))


@renders(ast.OnError)
def _on_error_node(node: ast.OnError, of: Texts) -> Doc:
    into = f" INTO {string_text(node.into)}" if node.into is not None else ""
    doc: Doc = f"ON ERROR {node.action}{into}"
    if node.options:
        doc = (doc, LINE, "OPTIONS ", block("(", of.list(node.options), ")"))
    return (doc, LINE if node.options else " ", f"LIMIT {node.limit}") if node.limit else doc


def _on_error(node: ast.OnError | None, of: Texts) -> Doc:
    return (LINE, of(node)) if node is not None else ""


@renders(ast.Set)
def _set(node: ast.Set, of: Texts) -> Doc:
    assignments = clause(hinted("SET", node, of), of.list(node.assignments))
    return (assignments, _on_error(node.on_error, of))


@renders(ast.Assignment)
def _assignment(node: ast.Assignment, of: Texts) -> Doc:
    return (f"{column_text(node.target)} = ", of(node.expr))


@renders(ast.Drop)
def _drop(node: ast.Drop, of: Texts) -> Doc:
    words = (hinted("DROP", node, of), " IF EXISTS" if node.if_exists else "")
    return clause(words, join((",", LINE), [column_text(column) for column in node.columns]))


@renders(ast.Rename)
def _rename(node: ast.Rename, of: Texts) -> Doc:
    return clause(hinted("RENAME", node, of), of.list(node.renamings))


@renders(ast.Renaming)
def _renaming(node: ast.Renaming, _: Texts) -> Doc:
    return f"{column_text(node.old)} AS {any_name(node.new)}"


@renders(ast.As)
def _as_operator(node: ast.As, _: Texts) -> Doc:
    return f"AS {any_name(node.alias)}"


@renders(ast.Unnest)
def _unnest(node: ast.Unnest, of: Texts) -> Doc:
    word = ("LEFT " if node.outer else "", hinted("UNNEST", node, of), " ")
    return (word, of(node.list), as_alias(node.alias), position(node))


# ---- rows --------------------------------------------------------------------------------------


@renders(ast.Aggregate)
def _aggregate(node: ast.Aggregate, of: Texts) -> Doc:
    word = hinted("AGGREGATE", node, of)
    parts = [clause(word, of.list(node.items)) if node.items else word]
    if node.keys:
        words = "GROUP AND ORDER BY" if node.ordered else "GROUP BY"
        parts.append(clause(words, of.list(node.keys)))
    return join(LINE, parts)


@renders(ast.AggregateItem)
def _aggregate_item(node: ast.AggregateItem, of: Texts) -> Doc:
    order = f" {node.order}" if node.order else ""
    return (of(node.expr), as_alias(node.alias) + order + nulls_text(node.nulls_first))


@renders(ast.Distinct)
def _distinct(node: ast.Distinct, of: Texts) -> Doc:
    word = hinted("DISTINCT", node, of)
    if not node.on:
        return word
    keys = (word, " ON ", block("(", of.list(node.on), ")"))
    return (keys, LINE, clause("ORDER BY", of.list(node.order))) if node.order else keys


@renders(ast.OrderBy)
def _order_by(node: ast.OrderBy, of: Texts) -> Doc:
    return clause((hinted("ORDER", node, of), " BY"), of.list(node.keys))


@renders(ast.Limit)
def _limit(node: ast.Limit, of: Texts) -> Doc:
    offset = of(node.offset) if node.offset is not None else ""
    if node.count is None:
        return (hinted("OFFSET", node, of), " ", offset)
    count = (hinted("LIMIT", node, of), " ", of(node.count))
    return (count, LINE, "OFFSET ", offset) if offset else count


@renders(ast.TableSample)
def _table_sample(node: ast.TableSample, of: Texts) -> Doc:
    return (hinted("TABLESAMPLE", node, of), " ", of(node.sample))


def _into_shards(shards: ex.Expr | None, of: Texts) -> Doc:
    return (LINE, "INTO ", of(shards), " SHARDS") if shards is not None else ""


@renders(ast.Shuffle)
def _shuffle(node: ast.Shuffle, of: Texts) -> Doc:
    seed = (LINE, "SEED ", of(node.seed)) if node.seed is not None else ""
    return (hinted("SHUFFLE", node, of), seed, _into_shards(node.shards, of))


@renders(ast.Distribute)
def _distribute(node: ast.Distribute, of: Texts) -> Doc:
    word = hinted("DISTRIBUTE", node, of)
    keys = clause((word, " BY"), of.list(node.keys)) if node.keys else word
    return (keys, _into_shards(node.shards, of))


@renders(ast.Assert)
def _assert(node: ast.Assert, of: Texts) -> Doc:
    return clause(hinted("ASSERT", node, of), of.list((node.condition, *node.payload)))


# ---- other tables ------------------------------------------------------------------------------


@renders(ast.Join)
def _join(node: ast.Join, of: Texts) -> Doc:
    return join_parts(node, of)


@renders(ast.SetOperation)
def _set_operation(node: ast.SetOperation, of: Texts) -> Doc:
    words = hinted(node.kind + _all(node.all), node, of)
    if node.by_name:
        words = (words, " BY NAME")
    return _behind(words, [block("(", of(query), ")") for query in node.queries])


def _all(every: bool | None) -> str:
    return "" if every is None else " ALL" if every else " DISTINCT"


def _behind(words: Doc, blocks: list[Doc]) -> Doc:
    """What stands in parentheses: one behind the words, several below when they do not fit."""
    return (words, " ", *blocks) if len(blocks) == 1 else clause(words, join((",", LINE), blocks))


@renders(ast.RecursiveUnion)
def _recursive_union(node: ast.RecursiveUnion, of: Texts) -> Doc:
    words = (hinted(f"RECURSIVE UNION{_all(node.all)}", node, of), " BY NAME" * node.by_name)
    return (words, " ", block("(", of(node.step), ")"), as_alias(node.alias))


@renders(ast.With)
def _with(node: ast.With, of: Texts) -> Doc:
    return _behind("WITH", [of(query) for query in node.common])


@renders(ast.CallTable)
def _call_table(node: ast.CallTable, of: Texts) -> Doc:
    args = block("(", of.list(node.args), ")") if node.args else ""
    return (hinted("CALL", node, of), " ", of(node.function), args, as_alias(node.alias))


@renders(ast.MapRows)
def _map_rows(node: ast.MapRows, of: Texts) -> Doc:
    doc: Doc = (hinted(node.kind, node, of), " ", _called(node, of))
    return (doc, _returns(node, of), _on_error(node.on_error, of))


def _called(node: ast.MapRows | ast.Reduce, of: Texts) -> Doc:
    name = _function_name(node.function)
    return block(f"{name}(", of.list(node.args), ")") if node.args else name


def _function_name(parts: tuple[str, ...]) -> str:
    first, *rest = parts
    name = f'"{first}"' if first.upper() in ("BATCHES", "SHARDS") else identifier_text(first)
    return ".".join([name, *(identifier_text(part, any_word=True) for part in rest)])


def _returns(node: ast.MapRows | ast.Reduce, of: Texts) -> Doc:
    if not node.returns:
        return ""
    return (LINE, "RETURNS ", block("(", of.list(node.returns), ")"))


@renders(ast.Reduce)
def _reduce(node: ast.Reduce, of: Texts) -> Doc:
    doc: Doc = (hinted("REDUCE", node, of), " ", _called(node, of))
    if node.keys:
        doc = (doc, LINE, clause("GROUP BY", of.list(node.keys)))
    if node.order:
        doc = (doc, LINE, clause("ORDER BY", of.list(node.order)))
    if node.combine:
        doc = (doc, LINE, f"COMBINE {_function_name(node.combine)}")
    return (doc, _returns(node, of), _on_error(node.on_error, of))


@renders(ast.ReturnColumn)
def _return_column(node: ast.ReturnColumn, _: Texts) -> Doc:
    return f"{identifier_text(node.name, any_word=True)} {node.type}"


@renders(ast.Write)
def _write(node: ast.Write, of: Texts) -> Doc:
    doc: Doc = (hinted("WRITE", node, of), " ", of(node.uri))
    return (doc, LINE, "OPTIONS ", block("(", of.list(node.options), ")")) if node.options else doc


@renders(ast.StoreTable)
def _store_table(node: ast.StoreTable, _: Texts) -> Doc:
    words = "CREATE OR REPLACE TEMP TABLE" if node.replace else "CREATE TEMP TABLE"
    return f"{words} {identifier_text(node.name.text)}"


# ---- several pipes, and what changes the shape -------------------------------------------------


def _subpipe(pipe: ast.Subpipe, of: Texts) -> Doc:
    return brackets("(", join(LINE, pipes(pipe, of)), ")")


@renders(ast.PartitionBy)
def _partition_by(node: ast.PartitionBy, of: Texts) -> Doc:
    keys = clause((hinted("PARTITION", node, of), " BY"), of.list(node.keys))
    return (keys, " THEN ", _subpipe(node.pipe, of))


@renders(ast.Switch)
def _switch(node: ast.Switch, of: Texts) -> Doc:
    branches = [_branch("WHEN", when, pipe, of) for when, pipe in node.branches]
    return group(
        hinted("SWITCH", node, of), indent(LINE, join(LINE, [*branches, *_otherwise(node, of)]))
    )


@renders(ast.If)
def _if(node: ast.If, of: Texts) -> Doc:
    words = [hinted("IF", node, of), *["ELSEIF"] * (len(node.branches) - 1)]
    branches = [
        _branch(word, when, pipe, of)
        for word, (when, pipe) in zip(words, node.branches, strict=True)
    ]
    return join(LINE, [*branches, *_otherwise(node, of)])


def _branch(word: Doc, condition: ex.Expr, pipe: ast.Subpipe, of: Texts) -> Doc:
    return (word, " ", of(condition), " THEN ", _subpipe(pipe, of))


def _otherwise(node: ast.Switch | ast.If, of: Texts) -> list[Doc]:
    return [] if node.otherwise is None else [("ELSE ", _subpipe(node.otherwise, of))]


@renders(ast.Tee)
def _tee(node: ast.Tee, of: Texts) -> Doc:
    word = hinted("TEE", node, of)
    return _behind(word, [_subpipe(pipe, of) for pipe in node.pipes]) if node.pipes else word


@renders(ast.Fork)
def _fork(node: ast.Fork, of: Texts) -> Doc:
    return _behind(hinted("FORK", node, of), [_subpipe(pipe, of) for pipe in node.pipes])


@renders(ast.DescribeRows)
def _describe_rows(_node: ast.DescribeRows, _: Texts) -> Doc:
    return "DESCRIBE"


@renders(ast.Finish)
def _finish(node: ast.Finish, of: Texts) -> Doc:
    return hinted("FINISH", node, of)


@renders(ast.Pivot)
def _pivot(node: ast.Pivot, of: Texts) -> Doc:
    values = (LINE, "FOR ", of(node.input, SYMBOL), " IN ", block("(", of.list(node.values), ")"))
    columns = block("(", (of.list(node.aggregates), values), ")")
    return (hinted("PIVOT", node, of), " ", columns, as_alias(node.alias))


@renders(ast.Unpivot)
def _unpivot(node: ast.Unpivot, of: Texts) -> Doc:
    words = (hinted("UNPIVOT", node, of), " INCLUDE NULLS " if node.include_nulls else " ")
    values = (f"FOR {any_name(node.name)} IN ", block("(", of.list(node.columns), ")"))
    columns = block("(", (any_name(node.value), LINE, values), ")")
    return (words, columns, as_alias(node.alias))


@renders(ast.UnpivotColumn)
def _unpivot_column(node: ast.UnpivotColumn, _: Texts) -> Doc:
    label = f" AS {string_text(node.label)}" if node.label is not None else ""
    return column_text(node.column) + label
