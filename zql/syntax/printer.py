"""AST to canonical text: names of unnamed columns, EXPLAIN SYNTAX, and whatever shows ZQL."""

from __future__ import annotations

from zql.expr import expression as ex
from zql.syntax import ast
from zql.syntax.expression_printer import (
    Texts,
    column_text,
    nulls_text,
    renders,
    string_text,
)
from zql.syntax.names import identifier_text
from zql.tree import Node, walk


def expression_text(expr: Node) -> str:
    """An expression (or any other node but a bound plan) on one line."""
    texts = Texts()
    for node in reversed(list(walk(expr))):
        texts.add(node)
    return texts(expr)


def expression_name(expr: ex.Expr) -> str:
    """What a column without alias is called: the last part of a path, else the text."""
    match expr:
        case ex.Name(parts):
            return parts[-1]
        case ex.FieldAccess(field_name=name):
            return name
        case _:
            return expression_text(expr)


def print_query(query: ast.Query) -> str:
    """A query with one operator on each line."""
    operators = [f"|> {expression_text(operator)}" for operator in query.operators]
    head = expression_text(ast.Query(query.items)) if query.items else None
    return "\n".join(([head] if head else []) + operators)


def print_statement(statement: ast.Statement) -> str:
    """A statement without its `;`."""
    match statement:
        case ast.QueryStatement(query):
            return print_query(query)
        case ast.CreateView(name, query, replace):
            words = "CREATE OR REPLACE TEMP VIEW" if replace else "CREATE TEMP VIEW"
            return f"{words} {identifier_text(name.text)} AS\n{print_query(query)}"
        case ast.Explain(query, level):
            return f"EXPLAIN{'' if level == 'STAGES' else ' ' + level}\n{print_query(query)}"
        case ast.Describe(query):
            return f"DESCRIBE\n{print_query(query)}"
        case ast.Declare(name, type, default):
            value = f" DEFAULT {expression_text(default)}" if default is not None else ""
            return f"DECLARE {identifier_text(name.text)} {type}{value}"
        case ast.ImportPython(target, is_path, alias):
            what = string_text(target) if is_path else target
            return f"IMPORT PYTHON {what}{_as(alias)}"
        case ast.SetOption(name, value):
            return f"SET {_any(name)} = {expression_text(value)}"


def print_script(script: ast.Script) -> str:
    """A script: each statement with its `;`, an empty line between."""
    return "\n\n".join([print_statement(s) + ";" for s in script.statements]) + "\n"


def _any(name: ast.Identifier) -> str:
    return identifier_text(name.text, any_word=True)


def _as(alias: ast.Identifier | None) -> str:
    return f" AS {_any(alias)}" if alias else ""


def _names(names: tuple[ast.Identifier, ...]) -> str:
    return f"({', '.join([_any(name) for name in names])})"


# ---- queries and FROM --------------------------------------------------------------------------


@renders(ast.Query)
def _query(node: ast.Query, of: Texts) -> str:
    parts = []
    if len(node.items) == 1 and isinstance(node.items[0], ast.ValuesSource):
        parts.append(of(node.items[0]))
    elif node.items:
        parts.append(f"FROM {of.list(node.items)}")
    parts += [f"|> {of(operator)}" for operator in node.operators]
    return " ".join(parts)


@renders(ast.PathSource)
def _path_source(node: ast.PathSource, _: Texts) -> str:
    paths = ", ".join([string_text(path) for path in node.paths])
    return paths if len(node.paths) == 1 else f"[{paths}]"


@renders(ast.NameSource)
def _name_source(node: ast.NameSource, _: Texts) -> str:
    return identifier_text(node.name)


@renders(ast.ParameterSource)
def _parameter_source(node: ast.ParameterSource, _: Texts) -> str:
    return f"${node.name}"


@renders(ast.CallSource)
def _call_source(node: ast.CallSource, of: Texts) -> str:
    return of(node.call)


@renders(ast.QuerySource)
def _query_source(node: ast.QuerySource, of: Texts) -> str:
    return f"({of(node.query)})"


@renders(ast.UnnestSource)
def _unnest_source(node: ast.UnnestSource, of: Texts) -> str:
    return f"UNNEST({of(node.list)})"


@renders(ast.ValuesSource)
def _values_source(node: ast.ValuesSource, of: Texts) -> str:
    return "VALUES " + ", ".join([f"({of.list(row)})" for row in node.rows])


@renders(ast.Aliased)
def _aliased(node: ast.Aliased, of: Texts) -> str:
    columns = _names(node.columns) if node.columns else ""
    return f"{_operand(node.item, of)}{_as(node.alias)}{columns}"


def _operand(item: ast.FromItem, of: Texts) -> str:
    return f"({of(item)})" if isinstance(item, ast.Joined) else of(item)


@renders(ast.Joined)
def _joined(node: ast.Joined, of: Texts) -> str:
    return f"{of(node.left)} {_join(node, of)}"


def _join(node: ast.Joined | ast.Join, of: Texts) -> str:
    words = ["NATURAL"] if node.natural else []
    words += [] if node.kind == "INNER" else [node.kind]
    words += ["JOIN"]
    if node.hints:
        words.append(_hints(node.hints, of))
    words.append(_operand(node.right, of))
    if node.on is not None:
        words.append(f"ON {of(node.on)}")
    if node.using:
        words.append(f"USING {_names(node.using)}")
    return " ".join(words)


def _hints(hints: tuple[ast.Option, ...], of: Texts) -> str:
    return f"@{{{of.list(hints)}}}"


@renders(ast.Option)
def _option(node: ast.Option, of: Texts) -> str:
    name = ".".join([identifier_text(part, any_word=True) for part in node.name.split(".")])
    return f"{name} = {of(node.value)}"


@renders(ast.Identifier)
def _identifier(node: ast.Identifier, _: Texts) -> str:
    return identifier_text(node.text)


# ---- operators ---------------------------------------------------------------------------------


@renders(ast.Where)
def _where(node: ast.Where, of: Texts) -> str:
    return f"WHERE {of(node.predicate)}{_on_error(node.on_error)}"


@renders(ast.Select)
def _select(node: ast.Select, of: Texts) -> str:
    words = "SELECT DISTINCT" if node.distinct else "SELECT"
    return f"{words} {of.list(node.items)}{_windows(node.windows, of)}{_on_error(node.on_error)}"


@renders(ast.Extend)
def _extend(node: ast.Extend, of: Texts) -> str:
    return f"EXTEND {of.list(node.items)}{_windows(node.windows, of)}{_on_error(node.on_error)}"


@renders(ast.SelectItem)
def _select_item(node: ast.SelectItem, of: Texts) -> str:
    return of(node.expr) + _as(node.alias)


def _windows(windows: tuple[ast.NamedWindow, ...], of: Texts) -> str:
    return f" WINDOW {of.list(windows)}" if windows else ""


@renders(ast.NamedWindow)
def _named_window(node: ast.NamedWindow, of: Texts) -> str:
    return f"{identifier_text(node.name.text)} AS ({of(node.window)})"


@renders(ast.OnError)
def _on_error_node(node: ast.OnError, _: Texts) -> str:
    return _on_error(node).lstrip()


def _on_error(node: ast.OnError | None) -> str:
    if node is None:
        return ""
    into = f" INTO {string_text(node.into)}" if node.into is not None else ""
    limit = f" LIMIT {node.limit}" if node.limit else ""
    return f" ON ERROR {node.action}{into}{limit}"


@renders(ast.Set)
def _set(node: ast.Set, of: Texts) -> str:
    return f"SET {of.list(node.assignments)}{_on_error(node.on_error)}"


@renders(ast.Assignment)
def _assignment(node: ast.Assignment, of: Texts) -> str:
    return f"{column_text(node.target)} = {of(node.expr)}"


@renders(ast.Drop)
def _drop(node: ast.Drop, _: Texts) -> str:
    words = "DROP IF EXISTS" if node.if_exists else "DROP"
    return f"{words} {', '.join([column_text(column) for column in node.columns])}"


@renders(ast.Rename)
def _rename(node: ast.Rename, of: Texts) -> str:
    return f"RENAME {of.list(node.renamings)}"


@renders(ast.Renaming)
def _renaming(node: ast.Renaming, _: Texts) -> str:
    return f"{column_text(node.old)} AS {_any(node.new)}"


@renders(ast.As)
def _as_operator(node: ast.As, _: Texts) -> str:
    return f"AS {_any(node.alias)}"


@renders(ast.Aggregate)
def _aggregate(node: ast.Aggregate, of: Texts) -> str:
    parts = ["AGGREGATE"]
    if node.items:
        parts.append(of.list(node.items))
    if node.keys:
        parts.append("GROUP AND ORDER BY" if node.ordered else "GROUP BY")
        parts.append(of.list(node.keys))
    return " ".join(parts)


@renders(ast.AggregateItem)
def _aggregate_item(node: ast.AggregateItem, of: Texts) -> str:
    order = f" {node.order}" if node.order else ""
    return of(node.expr) + _as(node.alias) + order + nulls_text(node.nulls_first)


@renders(ast.Distinct)
def _distinct(node: ast.Distinct, of: Texts) -> str:
    if not node.on:
        return "DISTINCT"
    order = f" ORDER BY {of.list(node.order)}" if node.order else ""
    return f"DISTINCT ON ({of.list(node.on)}){order}"


@renders(ast.OrderBy)
def _order_by(node: ast.OrderBy, of: Texts) -> str:
    return f"ORDER BY {of.list(node.keys)}"


@renders(ast.Limit)
def _limit(node: ast.Limit, of: Texts) -> str:
    parts = [] if node.count is None else [f"LIMIT {of(node.count)}"]
    if node.offset is not None:
        parts.append(f"OFFSET {of(node.offset)}")
    return " ".join(parts)


@renders(ast.Join)
def _join_operator(node: ast.Join, of: Texts) -> str:
    return _join(node, of)


@renders(ast.SetOperation)
def _set_operation(node: ast.SetOperation, of: Texts) -> str:
    words = [node.kind]
    if node.all is not None:
        words.append("ALL" if node.all else "DISTINCT")
    if node.by_name:
        words.append("BY NAME")
    return " ".join([*words, ", ".join([f"({of(query)})" for query in node.queries])])


@renders(ast.Unnest)
def _unnest(node: ast.Unnest, of: Texts) -> str:
    text = f"{'LEFT ' if node.outer else ''}UNNEST {of(node.list)}{_as(node.alias)}"
    if node.position is None:
        return text
    return f"{text} WITH {'ORDINALITY' if node.one_based else 'OFFSET'}{_as(node.position)}"


@renders(ast.MapRows)
def _map_rows(node: ast.MapRows, of: Texts) -> str:
    words = [node.kind]
    if node.hints:
        words.append(_hints(node.hints, of))
    first, *rest = node.function
    name = f'"{first}"' if first.upper() in ("BATCHES", "SHARDS") else identifier_text(first)
    name = ".".join([name, *(identifier_text(part, any_word=True) for part in rest)])
    words.append(name + (f"({of.list(node.args)})" if node.args else ""))
    if node.returns:
        words.append(f"RETURNS ({of.list(node.returns)})")
    return " ".join(words) + _on_error(node.on_error)


@renders(ast.ReturnColumn)
def _return_column(node: ast.ReturnColumn, _: Texts) -> str:
    return f"{identifier_text(node.name, any_word=True)} {node.type}"


@renders(ast.Write)
def _write(node: ast.Write, of: Texts) -> str:
    options = f" OPTIONS ({of.list(node.options)})" if node.options else ""
    return f"WRITE {of(node.uri)}{options}"
