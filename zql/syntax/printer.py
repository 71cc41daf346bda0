"""AST to canonical text: names of unnamed columns, EXPLAIN SYNTAX, and whatever shows ZQL.

`document` is what `zql fmt` lays out as well: there is one printer.
"""

from __future__ import annotations

from zql.expr import expression as ex
from zql.syntax import ast
from zql.syntax.expression_printer import (
    Texts,
    brackets,
    clause,
    column_text,
    names_in_brackets,
    nulls_text,
    renders,
    string_text,
)
from zql.syntax.layout import LINE, Doc, block, group, indent, items_of, join, lay_out, one_line
from zql.syntax.names import identifier_text
from zql.tree import Node, walk

PIPE_COLUMNS = 3
"""The clauses of an operator stand below its name, behind the width of `|> `."""


def document(node: Node, *, as_written: bool = False) -> Doc:
    """A statement (without its `;`), an expression or any other node but a bound plan.

    `as_written` keeps the author's parentheses around operands, and `::`.
    """
    texts = Texts(as_written=as_written)
    for each in reversed(list(walk(node))):
        texts.add(each)
    return texts(node)


def expression_text(expr: Node) -> str:
    """An expression (or any other node but a bound plan) on one line."""
    return one_line(document(expr))


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
    """A query with one operator on each line, or on several when it is long."""
    return lay_out(items_of(document(query)))


def print_statement(statement: ast.Statement) -> str:
    """A statement without its `;`."""
    return lay_out(items_of(document(statement)))


def print_script(script: ast.Script) -> str:
    """A script: each statement with its `;`, an empty line between."""
    return "\n\n".join([print_statement(s) + ";" for s in script.statements]) + "\n"


def _any(name: ast.Identifier) -> str:
    return identifier_text(name.text, any_word=True)


def _as(alias: ast.Identifier | None) -> str:
    return f" AS {_any(alias)}" if alias else ""


def _names(names: tuple[ast.Identifier, ...]) -> Doc:
    return names_in_brackets([_any(name) for name in names])


# ---- statements --------------------------------------------------------------------------------


@renders(ast.QueryStatement)
def _query_statement(node: ast.QueryStatement, of: Texts) -> Doc:
    return of(node.query)


@renders(ast.CreateView)
def _create_view(node: ast.CreateView, of: Texts) -> Doc:
    words = "CREATE OR REPLACE TEMP VIEW" if node.replace else "CREATE TEMP VIEW"
    return (f"{words} {identifier_text(node.name.text)} AS", LINE, of(node.query))


@renders(ast.Explain)
def _explain(node: ast.Explain, of: Texts) -> Doc:
    return ("EXPLAIN" if node.level == "STAGES" else f"EXPLAIN {node.level}", LINE, of(node.query))


@renders(ast.Describe)
def _describe(node: ast.Describe, of: Texts) -> Doc:
    return ("DESCRIBE", LINE, of(node.query))


@renders(ast.Declare)
def _declare(node: ast.Declare, of: Texts) -> Doc:
    head = f"DECLARE {identifier_text(node.name.text)} {node.type}"
    return head if node.default is None else (head, " DEFAULT ", of(node.default))


@renders(ast.ImportPython)
def _import_python(node: ast.ImportPython, _: Texts) -> Doc:
    what = string_text(node.target) if node.is_path else node.target
    return f"IMPORT PYTHON {what}{_as(node.alias)}"


@renders(ast.SetOption)
def _set_option(node: ast.SetOption, of: Texts) -> Doc:
    return (f"SET {_any(node.name)} = ", of(node.value))


# ---- queries and FROM --------------------------------------------------------------------------


@renders(ast.Query)
def _query(node: ast.Query, of: Texts) -> Doc:
    parts: list[Doc] = []
    if len(node.items) == 1:
        values = isinstance(node.items[0], ast.ValuesSource)
        parts.append(("" if values else "FROM ", of(node.items[0])))
    elif node.items:
        parts.append(clause("FROM", of.list(node.items)))
    parts += [
        group("|> ", indent(of(operator), columns=PIPE_COLUMNS)) for operator in node.operators
    ]
    return join(LINE, parts)


@renders(ast.PathSource)
def _path_source(node: ast.PathSource, _: Texts) -> Doc:
    paths = [string_text(path) for path in node.paths]
    return paths[0] if len(paths) == 1 else block("[", join((",", LINE), paths), "]")


@renders(ast.NameSource)
def _name_source(node: ast.NameSource, _: Texts) -> Doc:
    return identifier_text(node.name)


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
    return block("UNNEST(", of(node.list), ")")


@renders(ast.ValuesSource)
def _values_source(node: ast.ValuesSource, of: Texts) -> Doc:
    rows = [block("(", of.list(row), ")") for row in node.rows]
    return clause("VALUES", join((",", LINE), rows))


@renders(ast.Aliased)
def _aliased(node: ast.Aliased, of: Texts) -> Doc:
    columns = _names(node.columns) if node.columns else ""
    return (_operand(node.item, of), _as(node.alias), columns)


def _operand(item: ast.FromItem, of: Texts) -> Doc:
    return block("(", of(item), ")") if isinstance(item, ast.Joined) else of(item)


@renders(ast.Joined)
def _joined(node: ast.Joined, of: Texts) -> Doc:
    first, rest = of.links(node.left)
    return of.chain(node, first, (rest, LINE, group(indent(_join(node, of)))))


def _join(node: ast.Joined | ast.Join, of: Texts) -> Doc:
    words = "NATURAL " if node.natural else ""
    words += "JOIN " if node.kind == "INNER" else f"{node.kind} JOIN "
    doc: Doc = (words, _hints(node.hints, of), _operand(node.right, of))
    if node.on is not None:
        doc = (doc, LINE, "ON ", of(node.on))
    if node.using:
        doc = (doc, LINE, "USING ", _names(node.using))
    return doc


def _hints(hints: tuple[ast.Option, ...], of: Texts) -> Doc:
    return (block("@{", of.list(hints), "}"), " ") if hints else ""


@renders(ast.Option)
def _option(node: ast.Option, of: Texts) -> Doc:
    name = ".".join([identifier_text(part, any_word=True) for part in node.name.split(".")])
    return (f"{name} = ", of(node.value))


@renders(ast.Identifier)
def _identifier(node: ast.Identifier, _: Texts) -> Doc:
    return identifier_text(node.text)


# ---- operators ---------------------------------------------------------------------------------


@renders(ast.Where)
def _where(node: ast.Where, of: Texts) -> Doc:
    return ("WHERE ", of(node.predicate), _on_error(node.on_error, of))


@renders(ast.Select)
def _select(node: ast.Select, of: Texts) -> Doc:
    items = clause("SELECT DISTINCT" if node.distinct else "SELECT", of.list(node.items))
    return (items, _windows(node.windows, of), _on_error(node.on_error, of))


@renders(ast.Extend)
def _extend(node: ast.Extend, of: Texts) -> Doc:
    items = clause("EXTEND", of.list(node.items))
    return (items, _windows(node.windows, of), _on_error(node.on_error, of))


@renders(ast.SelectItem)
def _select_item(node: ast.SelectItem, of: Texts) -> Doc:
    return (of(node.expr), _as(node.alias))


def _windows(windows: tuple[ast.NamedWindow, ...], of: Texts) -> Doc:
    return (LINE, clause("WINDOW", of.list(windows))) if windows else ""


@renders(ast.NamedWindow)
def _named_window(node: ast.NamedWindow, of: Texts) -> Doc:
    return (f"{identifier_text(node.name.text)} AS ", brackets("(", of(node.window), ")"))


@renders(ast.OnError)
def _on_error_node(node: ast.OnError, _: Texts) -> Doc:
    into = f" INTO {string_text(node.into)}" if node.into is not None else ""
    limit = f" LIMIT {node.limit}" if node.limit else ""
    return f"ON ERROR {node.action}{into}{limit}"


def _on_error(node: ast.OnError | None, of: Texts) -> Doc:
    return (LINE, of(node)) if node is not None else ""


@renders(ast.Set)
def _set(node: ast.Set, of: Texts) -> Doc:
    return (clause("SET", of.list(node.assignments)), _on_error(node.on_error, of))


@renders(ast.Assignment)
def _assignment(node: ast.Assignment, of: Texts) -> Doc:
    return (f"{column_text(node.target)} = ", of(node.expr))


@renders(ast.Drop)
def _drop(node: ast.Drop, _: Texts) -> Doc:
    columns = join((",", LINE), [column_text(column) for column in node.columns])
    return clause("DROP IF EXISTS" if node.if_exists else "DROP", columns)


@renders(ast.Rename)
def _rename(node: ast.Rename, of: Texts) -> Doc:
    return clause("RENAME", of.list(node.renamings))


@renders(ast.Renaming)
def _renaming(node: ast.Renaming, _: Texts) -> Doc:
    return f"{column_text(node.old)} AS {_any(node.new)}"


@renders(ast.As)
def _as_operator(node: ast.As, _: Texts) -> Doc:
    return f"AS {_any(node.alias)}"


@renders(ast.Aggregate)
def _aggregate(node: ast.Aggregate, of: Texts) -> Doc:
    parts: list[Doc] = ["AGGREGATE"]
    if node.items:
        parts = [clause("AGGREGATE", of.list(node.items))]
    if node.keys:
        words = "GROUP AND ORDER BY" if node.ordered else "GROUP BY"
        parts.append(clause(words, of.list(node.keys)))
    return join(LINE, parts)


@renders(ast.AggregateItem)
def _aggregate_item(node: ast.AggregateItem, of: Texts) -> Doc:
    order = f" {node.order}" if node.order else ""
    return (of(node.expr), _as(node.alias) + order + nulls_text(node.nulls_first))


@renders(ast.Distinct)
def _distinct(node: ast.Distinct, of: Texts) -> Doc:
    if not node.on:
        return "DISTINCT"
    keys = ("DISTINCT ON ", block("(", of.list(node.on), ")"))
    return (keys, LINE, clause("ORDER BY", of.list(node.order))) if node.order else keys


@renders(ast.OrderBy)
def _order_by(node: ast.OrderBy, of: Texts) -> Doc:
    return clause("ORDER BY", of.list(node.keys))


@renders(ast.Limit)
def _limit(node: ast.Limit, of: Texts) -> Doc:
    parts: list[Doc] = [] if node.count is None else [("LIMIT ", of(node.count))]
    if node.offset is not None:
        parts.append(("OFFSET ", of(node.offset)))
    return join(LINE, parts)


@renders(ast.Join)
def _join_operator(node: ast.Join, of: Texts) -> Doc:
    return _join(node, of)


@renders(ast.SetOperation)
def _set_operation(node: ast.SetOperation, of: Texts) -> Doc:
    words = node.kind
    if node.all is not None:
        words += " ALL" if node.all else " DISTINCT"
    if node.by_name:
        words += " BY NAME"
    queries = [block("(", of(query), ")") for query in node.queries]
    if len(queries) == 1:
        return (words, " ", *queries)
    return clause(words, join((",", LINE), queries))


@renders(ast.Unnest)
def _unnest(node: ast.Unnest, of: Texts) -> Doc:
    doc: Doc = ("LEFT UNNEST " if node.outer else "UNNEST ", of(node.list), _as(node.alias))
    if node.position is None:
        return doc
    return (doc, f" WITH {'ORDINALITY' if node.one_based else 'OFFSET'}{_as(node.position)}")


@renders(ast.MapRows)
def _map_rows(node: ast.MapRows, of: Texts) -> Doc:
    first, *rest = node.function
    name = f'"{first}"' if first.upper() in ("BATCHES", "SHARDS") else identifier_text(first)
    name = ".".join([name, *(identifier_text(part, any_word=True) for part in rest)])
    call = block(f"{name}(", of.list(node.args), ")") if node.args else name
    doc: Doc = (f"{node.kind} ", _hints(node.hints, of), call)
    if node.returns:
        doc = (doc, LINE, "RETURNS ", block("(", of.list(node.returns), ")"))
    return (doc, _on_error(node.on_error, of))


@renders(ast.ReturnColumn)
def _return_column(node: ast.ReturnColumn, _: Texts) -> Doc:
    return f"{identifier_text(node.name, any_word=True)} {node.type}"


@renders(ast.Write)
def _write(node: ast.Write, of: Texts) -> Doc:
    doc: Doc = ("WRITE ", of(node.uri))
    return (doc, LINE, "OPTIONS ", block("(", of.list(node.options), ")")) if node.options else doc
