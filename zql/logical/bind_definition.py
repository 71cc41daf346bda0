"""CREATE FUNCTION and CREATE TABLE FUNCTION: what can be said of a function before it is called."""

from __future__ import annotations

from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_function import body_place
from zql.logical.bind_source import READERS
from zql.logical.bind_table_function import EXPR, TABLE, table_of, value_names
from zql.logical.context import Argument, Context, Frame, Given
from zql.logical.conversion import as_parameter
from zql.logical.scope import Scope
from zql.syntax import ast

Function = ast.CreateFunction | ast.CreateTableFunction | ast.CreatePythonFunction


def check_function(context: Context, function: ast.CreateFunction) -> None:
    """Binds the body over parameters of the declared types. Raises or reports `BindError`."""
    check_name(context, function)
    check_parameters(context, function)
    if context.errors:
        return
    place = body_place(context, function, context.declarations, function)
    columns = tuple(ex.Column(p.name.text, p.type) for p in function.parameters)
    for column in columns:
        context.names.fresh(column.name)
    arguments: dict[str, Argument] = {c.name: Given(c) for c in columns}
    rows = Scope(lp.Values(columns, ()), ())
    inside = Frame(arguments=arguments, function=function.name.text)
    with context.within(replace(place, frame=inside)):
        binder = ExpressionBinder(context, (rows,), depth=1)
        body = binder.bind(function.body)
        if function.returns is not None:
            if not binder.is_type(function.returns):
                raise no_type(function.returns, function)
            body = ex.Cast(body, function.returns, span=function.body.span)
        binder.types((body,))


def check_table_function(context: Context, function: ast.CreateTableFunction) -> None:
    """Checks the parameters; the body waits for its tables. Raises or reports `BindError`."""
    check_name(context, function)
    check_parameters(context, function)
    for parameter in function.parameters:
        if parameter.type == EXPR:
            context.attempt(lambda p=parameter: table_of(function, p))  # type: ignore[misc]
    last = function.query.operators[-1] if function.query.operators else None
    if isinstance(last, ast.TERMINAL):
        raise BindError("a table function cannot write", code="P406", span=last.span)
    if not function.query.items:
        raise BindError(
            "the body of a table function begins with FROM",
            code="P405",
            span=function.query.span,
            hint="FROM its table parameter",
        )
    columns = value_names(function.query.operators)
    for parameter in function.parameters:
        name = parameter.name.text
        span = columns.get(name)
        if parameter.type != TABLE and span is not None:
            context.doubts.add(
                f'{function.name.text}: "{name}" is a parameter and a column made here: '
                "the name means the parameter",
                span,
            )


def check_name(context: Context, function: Function) -> None:
    """The name is free; OR REPLACE takes one that is not, DuckDB's functions included."""
    name, declarations = function.name.text, context.declarations
    if function.replace:
        return
    is_table = isinstance(function, ast.CreateTableFunction)
    declared = declarations.table_functions if is_table else declarations.sql_functions
    # The function itself is among them while it is checked.
    taken = [n for n, f in declared.items() if f is not function]
    taken += [] if is_table else list(declarations.functions)
    if any(n.casefold() == name.casefold() for n in taken):
        raise BindError(
            f'the function "{name}" is there already',
            code="N217",
            span=function.name.span,
            hint=f"CREATE OR REPLACE TEMP {'TABLE ' if is_table else ''}FUNCTION",
        )
    facts = context.catalog.function(name.lower())
    kinds = facts.kinds if facts else frozenset()
    tables = kinds & {"table", "table_macro"}
    special = not is_table and ExpressionBinder.is_special(name)
    if special or (tables or name.lower() in READERS if is_table else kinds - tables):
        raise BindError(
            f'"{name}" is a function of DuckDB',
            code="N217",
            span=function.name.span,
            hint="take another name; CREATE OR REPLACE hides DuckDB's function",
        )


def check_parameters(context: Context, function: Function) -> None:
    """The parameters have names of their own, types that are there, and defaults that fit."""
    binder = ExpressionBinder(context, (Scope(lp.Values((), ()), ()),))
    is_table = isinstance(function, ast.CreateTableFunction)
    seen: set[str] = set()
    for parameter in function.parameters:
        name, type_ = parameter.name.text, parameter.type
        if name.casefold() in seen:
            raise BindError(f'two parameters are called "{name}"', code="N208", span=parameter.span)
        seen.add(name.casefold())
        if type_ == "ANY" and isinstance(function, ast.CreatePythonFunction):
            continue
        if type_ == "ANY":
            raise BindError(
                f"{name} needs a type: ANY TYPE is for Python functions",
                code="T332",
                span=parameter.span,
            )
        if type_ in (TABLE, EXPR):
            if not is_table:
                raise BindError(
                    f"a parameter of a SQL function is a value: {name} cannot be {type_}",
                    code="T332",
                    span=parameter.span,
                    hint="CREATE TEMP TABLE FUNCTION takes tables and expressions over them",
                )
            continue
        if not binder.is_type(type_):
            raise no_type(type_, parameter)
        if parameter.default is not None:
            default = parameter.default
            bound = binder.bind(default)
            have = binder.types((bound,))[0]
            as_parameter(context, bound, have, type_, function.name.text, name)


def no_type(type: str, node: ast.Syntax) -> BindError:
    """The error of a type that DuckDB does not know."""
    return BindError(f"{type} is no type", code="T323", span=node.span)
