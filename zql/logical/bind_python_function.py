"""CREATE TEMP FUNCTION .. LANGUAGE python: a Python function with the types that SQL declares."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import FunctionParameter, PythonFunction
from zql.logical import plan as lp
from zql.logical.bind_definition import check_name, check_parameters, no_type
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.catalog import DeclaredFunction, SourceProblem
from zql.logical.context import Context
from zql.logical.conversion import as_parameter
from zql.logical.python_options import Options, read_options
from zql.logical.scope import Scope
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk

ANY = "ANY"
"""The type of a parameter that takes values of every type, and shared objects."""


def bind_python_function(
    context: Context, statement: ast.CreatePythonFunction
) -> PythonFunction | None:
    """The function that a statement declares. Raises or reports `BindError`."""
    check_name(context, statement)
    check_parameters(context, statement)
    binder = ExpressionBinder(context, (Scope(lp.Values((), ()), ()),))
    returns = statement.returns
    if returns is not None:
        if not binder.is_type(returns):
            raise no_type(returns, statement)
        returns = _settled(binder, returns)
    options = read_options(context, statement)
    if context.errors:
        return None
    source = statement.source or ""
    wanted = DeclaredFunction(
        statement.name.text,
        textwrap.dedent(source.replace("\r\n", "\n")),
        statement.source_span.source.name if statement.source_span else "",
        statement.source_span.line if statement.source_span else 1,
        options.library,
        options.entry_point,
        returns,
        {"VOLATILE": True, "IMMUTABLE": False}.get(statement.volatility),
        options.init,
        options.shared,
        options.calls,
    )
    function = _found(context, statement, wanted, options)
    return _declared(context, binder, statement, function)


_PLACES = {
    "N203": ("entry_point", "library"),
    "N206": ("init",),
    "N240": ("library",),
    "N241": ("library",),
    "P441": ("init",),
    "P447": ("init",),
    "P448": ("init", "entry_point", "library"),
}
"""By the code of an error the options that it may be about."""


def _found(
    context: Context,
    statement: ast.CreatePythonFunction,
    wanted: DeclaredFunction,
    options: Options,
) -> PythonFunction:
    """The function as Python has it. Raises `BindError` at its place in the script."""
    try:
        return context.catalog.declared_function(wanted)
    except SourceProblem as problem:
        raise BindError(
            problem.message,
            code=problem.code,
            span=_place(statement.source_span, problem, wanted.source),
            notes=problem.notes,
        ) from None
    except BindError as error:
        spans = [options.spans.get(name) for name in _PLACES.get(error.code, ())]
        place = next((s for s in spans if s is not None), statement.name.span)
        error.span = error.span or place
        raise


def _place(span: Span | None, problem: SourceProblem, dedented: str) -> Span | None:
    """A line of the script inside of the source, from a column on; else all of the source."""
    if span is None or problem.line is None:
        return span
    source = span.source
    last = source.position(span.end)[0]
    line = min(problem.line, last)
    text = source.line(line)
    start = source.line_starts[line - 1]
    first = max(len(text) - len(text.lstrip()), span.start - start if line == span.line else 0)
    if problem.column is not None and problem.line == line:
        lines = dedented.split("\n")
        own = lines[line - span.line] if line - span.line < len(lines) else ""
        # What dedenting, or a word before the source, has moved.
        moved = text.find(own.strip()) - (len(own) - len(own.lstrip())) if own.strip() else 0
        first = max(0, min(problem.column - 1 + max(moved, 0), len(text)))
    end = min(len(text.rstrip()), span.end - start) if line == last else len(text.rstrip())
    if problem.column is not None:
        end = min(end, first + 1)
    return Span(source, start + first, start + max(first + 1, end))


def _declared(
    context: Context,
    binder: ExpressionBinder,
    statement: ast.CreatePythonFunction,
    function: PythonFunction,
) -> PythonFunction:
    """The function with the parameters of the statement in place of its own."""
    named = {p.name.text for p in statement.parameters}
    own = [p for p in function.parameters if not p.shard or p.name in named]
    _check_order(statement, own)
    fixed = [p for p in own if not p.variadic]
    extra = statement.parameters[len(fixed) :]
    variadic = any(p.variadic for p in own)
    if extra and not variadic:
        raise BindError(
            f"the Python function takes {len(fixed)} argument{'s' * (len(fixed) != 1)}, "
            f"{statement.name.text} has {len(statement.parameters)}",
            code="T342",
            span=extra[0].span,
            hint=f"parameters in Python: {', '.join(p.name for p in fixed) or 'none'}",
        )
    lacking = [p.name for p in fixed[len(statement.parameters) :] if p.required]
    if lacking:
        raise BindError(
            f"the Python function needs {', '.join(lacking)}, which {statement.name.text} does not "
            "declare",
            code="T342",
            span=statement.name.span,
            hint="declare a parameter for it, or give it a default in Python",
        )
    if function.iterates and statement.returns and not function.returns.endswith("]"):
        raise BindError(
            f"{function.name} yields many values: it returns a list of them",
            code="T343",
            span=statement.name.span,
            hint=f"RETURNS {function.returns}[]",
        )
    parameters = tuple(
        _parameter(context, binder, statement, p, fixed[i] if i < len(fixed) else None)
        for i, p in enumerate(statement.parameters)
    )
    renamed = tuple(
        (p.name, known.name)
        for p, known in zip(parameters, fixed, strict=False)
        if p.name != known.name
    )
    rest = tuple(p for p in function.parameters if p.shard and p.name not in named)
    told_by = "RETURNS" if statement.returns else function.told_by
    return replace(
        function,
        parameters=(*parameters, *rest),
        declared=True,
        renamed=renamed,
        told_by=told_by,
    )


def _check_order(statement: ast.CreatePythonFunction, own: Sequence[FunctionParameter]) -> None:
    """Arguments go by place: a name must not stand at another one in Python."""
    places = {p.name: i for i, p in enumerate(own)}
    for i, parameter in enumerate(statement.parameters):
        place = places.get(parameter.name.text, i)
        if place != i:
            raise BindError(
                f'"{parameter.name.text}" is parameter {i + 1} here and {place + 1} in Python',
                code="T342",
                span=parameter.span,
                hint=f"the order in Python: {', '.join(p.name for p in own)}",
            )


def _parameter(
    context: Context,
    binder: ExpressionBinder,
    statement: ast.CreatePythonFunction,
    parameter: ast.FunctionParameter,
    own: FunctionParameter | None,
) -> FunctionParameter:
    """A parameter of the statement for the one that Python has in its place, if it has one."""
    name = parameter.name.text
    type_ = own.type if own else ""
    if parameter.type != ANY:
        type_ = _settled(binder, parameter.type)
    passes_null = own is not None and own.annotated and own.passes_null
    default = None
    if parameter.default is not None:
        value = binder.bind(parameter.default)
        if any(isinstance(n, ex.Subquery | ex.PythonCall) for n in walk(value)):
            raise BindError(
                f"the DEFAULT of {name} is a value: no query and no Python function stands in it",
                code="P409",
                span=parameter.default.span,
            )
        (have,) = binder.types((value,))
        default = (
            ex.Cast(value, have, span=value.span)
            if parameter.type == ANY
            else as_parameter(context, value, have, type_, statement.name.text, name)
        )
    return FunctionParameter(
        name,
        type=type_,
        passes_null=statement.called_on_null or passes_null,
        required=parameter.default is None,
        keyword_only=own is not None and own.keyword_only,
        default=default,
    )


def _settled(binder: ExpressionBinder, type: str) -> str:
    """A type as DuckDB has it: DECIMAL is DECIMAL(18,3)."""
    return binder.types((ex.Cast(ex.Literal(None), type),))[0]
