"""AST to canonical text: names of unnamed columns, EXPLAIN SYNTAX, and whatever shows ZQL.

`document` is what `zql fmt` lays out as well: there is one printer.
"""

from __future__ import annotations

from zql.expr import expression as ex
from zql.syntax import (
    ast,
    expression_printer,  # noqa: F401 - says how expressions are printed
    operator_printer,  # noqa: F401 - says how operators are printed
)
from zql.syntax.layout import (
    LINE,
    Doc,
    block,
    group,
    indent,
    items_of,
    join,
    lay_out,
    one_line,
)
from zql.syntax.names import identifier_text
from zql.syntax.query_printer import pipes
from zql.syntax.texts import (
    Texts,
    any_name,
    as_alias,
    brackets,
    renders,
    source_text,
    string_text,
)
from zql.tree import Node, walk


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
    return _with_semicolon(query)[:-1]


def print_statement(statement: ast.Statement) -> str:
    """A statement without its `;`."""
    return _with_semicolon(statement)[:-1]


def print_script(script: ast.Script) -> str:
    """A script: each statement with its `;`, an empty line between."""
    return "\n\n".join([_with_semicolon(statement) for statement in script.statements]) + "\n"


def _with_semicolon(node: Node) -> str:
    return lay_out((*items_of(document(node)), ";"))


# ---- statements --------------------------------------------------------------------------------


@renders(ast.QueryStatement)
def _query_statement(node: ast.QueryStatement, of: Texts) -> Doc:
    return of(node.query)


def _create(what: str, name: ast.Identifier, *, replaces: bool) -> str:
    words = "CREATE OR REPLACE TEMP" if replaces else "CREATE TEMP"
    return f"{words} {what} {identifier_text(name.text)}"


@renders(ast.CreateView)
def _create_view(node: ast.CreateView, of: Texts) -> Doc:
    head = _create("VIEW", node.name, replaces=node.replace)
    return (f"{head} AS", LINE, of(node.query))


@renders(ast.CreateTable)
def _create_table(node: ast.CreateTable, of: Texts) -> Doc:
    head = _create("TABLE", node.name, replaces=node.replace)
    return (f"{head} AS", LINE, of(node.query))


@renders(ast.CreateFunction)
def _create_function(node: ast.CreateFunction, of: Texts) -> Doc:
    head = _create("FUNCTION", node.name, replaces=node.replace)
    doc: Doc = brackets(f"{head}(", of.list(node.parameters), ")")
    if node.returns:
        doc = (doc, f" RETURNS {node.returns}")
    return (doc, " AS ", block("(", of(node.body), ")"))


@renders(ast.CreatePythonFunction)
def _create_python_function(node: ast.CreatePythonFunction, of: Texts) -> Doc:
    head = _create("FUNCTION", node.name, replaces=node.replace)
    doc: Doc = brackets(f"{head}(", of.list(node.parameters), ")")
    if node.returns:
        doc = (doc, f" RETURNS {node.returns}")
    clauses: list[Doc] = ["LANGUAGE python"]
    clauses += [node.volatility] if node.volatility else []
    clauses += ["CALLED ON NULL INPUT"] if node.called_on_null else []
    clauses += [brackets("OPTIONS (", of.list(node.options), ")")] if node.options else []
    clauses += [f"AS {source_text(node.source)}"] if node.source is not None else []
    return group(doc, indent(LINE, join(LINE, clauses)))


@renders(ast.CreateTableFunction)
def _create_table_function(node: ast.CreateTableFunction, of: Texts) -> Doc:
    head = _create("TABLE FUNCTION", node.name, replaces=node.replace)
    return (brackets(f"{head}(", of.list(node.parameters), ")"), " AS", LINE, of(node.query))


@renders(ast.FunctionParameter)
def _function_parameter(node: ast.FunctionParameter, of: Texts) -> Doc:
    head = f"{any_name(node.name)} {'ANY TYPE' if node.type == 'ANY' else node.type}"
    return head if node.default is None else (head, " DEFAULT ", of(node.default))


@renders(ast.Explain)
def _explain(node: ast.Explain, of: Texts) -> Doc:
    chosen = [] if node.level == "STAGES" else [node.level]
    head = " ".join(["EXPLAIN", *chosen])
    if node.format != "TEXT":
        head = f"EXPLAIN ({', '.join([*chosen, f'FORMAT {node.format}'])})"
    return (head, LINE, of(node.query))


@renders(ast.Describe)
def _describe(node: ast.Describe, of: Texts) -> Doc:
    return ("DESCRIBE", *_described(node.query, of))


@renders(ast.Summarize)
def _summarize(node: ast.Summarize, of: Texts) -> Doc:
    return ("SUMMARIZE", *_described(node.query, of))


def _described(query: ast.Query, of: Texts) -> tuple[Doc, ...]:
    """A query, or just the name or the path that all of it is."""
    match query:
        case ast.Query((ast.NameSource() | ast.PathSource((_,)) as item,), (), (), None):
            return (" ", of(item))
        case _:
            return (LINE, of(query))


@renders(ast.Show)
def _show(node: ast.Show, of: Texts) -> Doc:
    return join(LINE, [f"SHOW {node.what}", *pipes(node.operators, of)])


@renders(ast.AssertStatement)
def _assert_statement(node: ast.AssertStatement, of: Texts) -> Doc:
    message = f" AS {string_text(node.message)}" if node.message is not None else ""
    return ("ASSERT ", of(node.condition), message)


@renders(ast.Declare)
def _declare(node: ast.Declare, of: Texts) -> Doc:
    head = f"DECLARE {identifier_text(node.name.text)} {node.type}"
    return head if node.default is None else (head, " DEFAULT ", of(node.default))


@renders(ast.DeclareShared)
def _declare_shared(node: ast.DeclareShared, of: Texts) -> Doc:
    return (f"DECLARE {identifier_text(node.name.text)} SHARED DEFAULT ", of(node.factory))


@renders(ast.ImportPython)
def _import_python(node: ast.ImportPython, _: Texts) -> Doc:
    what = string_text(node.target) if node.is_path else node.target
    return f"IMPORT PYTHON {what}{as_alias(node.alias)}"


@renders(ast.ImportScript)
def _import_script(node: ast.ImportScript, _: Texts) -> Doc:
    return f"IMPORT MODULE {string_text(node.path)}{as_alias(node.alias)}"


@renders(ast.SetOption)
def _set_option(node: ast.SetOption, of: Texts) -> Doc:
    return (f"SET {any_name(node.name)} = ", of(node.value))
