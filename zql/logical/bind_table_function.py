"""Table functions: the body is bound over the tables, expressions and values of the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_function import body_place
from zql.logical.catalog import TypeProblem
from zql.logical.context import (
    Argument,
    Context,
    Declarations,
    Frame,
    Given,
    LocalTable,
    Open,
    Place,
    type_error,
)
from zql.logical.conversion import as_parameter, kind_of
from zql.logical.declared import called, matched
from zql.logical.scope import Scope
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk

BindItem = Callable[[Context, ast.FromItem, tuple[Scope, ...]], Scope]

TABLE, EXPR = "TABLE", "EXPR"
"""The types of parameters that are no values."""


def call_table_function(
    context: Context,
    function: ast.CreateTableFunction,
    home: Declarations,
    call: ex.Call | ast.CallTable,
    outer: tuple[Scope, ...],
    bind_item: BindItem,
    piped: Scope | None = None,
) -> Scope:
    """The scope behind the body's last operator; `piped` is the first table of `|> CALL`.

    Raises `BindError`.
    """
    name = ".".join(call.name if isinstance(call, ex.Call) else call.function.parts)
    place = body_place(context, function, home, call)
    parameters = list(function.parameters)
    tables: dict[str, LocalTable] = {}
    if piped is not None:
        first = next((p for p in parameters if p.type == TABLE), None)
        if first is None:
            raise BindError(
                f"{name} takes no table: it cannot go on from a pipe",
                code="T307",
                span=call.span,
                hint=f"FROM {name}(..)",
            )
        parameters.remove(first)
        tables[first.name.text] = LocalTable(piped)
    given = matched(name, parameters, call.args, call.span)
    for parameter in parameters:
        if parameter.type == TABLE:
            value = given[parameter.name.text]
            item = _table_item(value, name, parameter.name.text)
            with context.within(context.place):
                tables[parameter.name.text] = LocalTable(bind_item(context, item, outer))
    arguments = _arguments(context, function, given, tables, outer, home)
    frame = Frame(tables, arguments, frozenset(tables), function=function.name.text)
    with (
        called(context, function, name, call.span),
        context.within(Place(frame, place.declarations, place.opened)),
    ):
        return context.bind_query(function.query, ())


def _arguments(
    context: Context,
    function: ast.CreateTableFunction,
    given: dict[str, ex.Expr],
    tables: dict[str, LocalTable],
    outer: tuple[Scope, ...],
    home: Declarations,
) -> dict[str, Argument]:
    """What the names of parameters that are no tables stand for."""
    there = Place(Frame(), home, context.opened)
    arguments: dict[str, Argument] = {}
    for parameter in function.parameters:
        name, value, place = parameter.name.text, given.get(parameter.name.text), context.place
        if parameter.type == TABLE:
            continue
        if value is None and parameter.default is not None:
            value, place = parameter.default, there
        if value is None:
            raise TypeError(parameter)
        if parameter.type == EXPR:
            table = tables[table_of(function, parameter).name.text]
            if _is_built_in(context, function, home):
                value = _named_column(value, table.scope)
            arguments[name] = Open(value, table, outer, place)
        else:
            with context.within(place):
                arguments[name] = Given(_constant(context, value, function, parameter))
    return arguments


def _is_built_in(context: Context, function: ast.CreateTableFunction, home: Declarations) -> bool:
    """Whether ZQL brings the function along."""
    library, name = context.declarations.library, function.name.text
    return name in library and library[name] is home


def _named_column(value: ex.Expr, scope: Scope) -> ex.Expr:
    """`src => 'a'` is the column a: what ZQL brings along takes names as text too."""
    text = value.value if isinstance(value, ex.Literal) and not value.type else None
    if isinstance(text, str) and text in scope.names:
        return ex.Name((text,), span=value.span)
    return value


def table_of(
    function: ast.CreateTableFunction, parameter: ast.FunctionParameter
) -> ast.FunctionParameter:
    """The table whose columns an EXPR parameter uses: the last one before it, else the first."""
    tables = [p for p in function.parameters if p.type == TABLE]
    if not tables:
        raise BindError(
            f"{parameter.name.text} is an expression over a table, and there is none",
            code="P415",
            span=parameter.span,
            hint="add a parameter: t TABLE",
        )
    place = function.parameters.index(parameter)
    before = [t for t in tables if function.parameters.index(t) < place]
    return before[-1] if before else tables[0]


def _constant(
    context: Context,
    value: ex.Expr,
    function: ast.CreateTableFunction,
    parameter: ast.FunctionParameter,
) -> ex.Expr:
    """A value parameter: a constant of its type. Raises `BindError`."""
    name = parameter.name.text
    binder = ExpressionBinder(context, (Scope(lp.Values((), ()), ()),))
    try:
        bound = binder.bind(value)
    except BindError as error:
        if error.code == "N201":
            error.notes = (f"{name} is a value: {parameter.type} takes no column, EXPR does",)
            error.hint = None
        raise
    if any(isinstance(n, ex.PythonCall | ex.Subquery) for n in walk(bound)):
        raise BindError(
            f"{name} of {function.name.text} is a value: it takes a constant",
            code="T331",
            span=value.span,
        )
    have = binder.types((bound,))[0]
    cast = as_parameter(context, bound, have, parameter.type, function.name.text, name)
    try:
        result = context.catalog.evaluate(ex.Cast(cast, "VARCHAR"))
    except TypeProblem as problem:
        raise type_error(problem, value.span) from None
    if kind_of(parameter.type) == "integer" and result is not None:
        return ex.Literal(int(result), parameter.type, span=value.span)
    nested = parameter.type.endswith("]") or parameter.type.startswith(("STRUCT", "MAP", "UNION"))
    return cast if nested else ex.Literal(result, parameter.type, span=value.span)


def _table_item(value: ex.Expr, function: str, parameter: str) -> ast.FromItem:
    """A table's argument as FROM would have it. Raises `BindError`."""
    span: Span | None = value.span
    match value:
        case ex.Name(parts=(name,)):
            return ast.NameSource(name, span=span)
        case ex.Name(parts=(module, name)):
            return ast.NameSource(name, module, span=span)
        case ex.Subquery(kind="SCALAR", query=ast.Query() as query):
            return ast.QuerySource(query, span=span)
        case ex.Literal(value=str(path), type=""):
            return ast.PathSource((path,), span=span)
        case ex.Parameter(name=name):
            return ast.ParameterSource(name, span=span)
        case ex.Call():
            return ast.CallSource(value, span=span)
        case _:
            raise BindError(
                f"{parameter} of {function} is a table: a query in parentheses, or a table's name",
                code="T331",
                span=span,
                hint="(FROM ..)",
            )


def value_names(operators: Sequence[ast.Syntax]) -> dict[str, Span | None]:
    """Names that operators give to columns, and where."""
    names: dict[str, Span | None] = {}
    for operator in operators:
        for node in walk(operator):
            match node:
                case ast.SelectItem(alias=ast.Identifier() as alias):
                    names.setdefault(alias.text, alias.span)
                case ast.AggregateItem(alias=ast.Identifier() as alias):
                    names.setdefault(alias.text, alias.span)
                case ast.Unnest(alias=ast.Identifier() as alias):
                    names.setdefault(alias.text, alias.span)
                case ast.Renaming():
                    names.setdefault(node.new.text, node.new.span)
                case _:
                    pass
    return names
