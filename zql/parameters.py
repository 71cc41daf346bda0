"""Values for `$name`: typed by DECLARE, read from the command line, checked against the script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from zql.errors import ErrorList, ParameterError, ZqlError, did_you_mean, nearest
from zql.execution.wording import with_type_names
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.catalog import Catalog, TypeProblem
from zql.logical.constants import no_python
from zql.logical.context import Context, Declarations, constant
from zql.logical.conversion import kind_of
from zql.logical.scope import Scope
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk


class CommandLineValue(str):
    """A value as typed on the command line: DECLARE gives its type, else it is read as JSON when
    it is JSON, else as text.
    """

    __slots__ = ()


def check_names(script: ast.Script, params: Mapping[str, Any], declared: Declarations) -> None:
    """A value for a name that is never used, or a name without a value, is an error.

    Raises `ParameterError`, or `ErrorList` with all of them.
    """
    uses: dict[str, Span | None] = {}
    own: dict[str, ast.Declare] = {}
    shared: set[str] = set()
    for node in walk(script):
        if isinstance(node, ex.Parameter | ast.ParameterSource):
            uses.setdefault(node.name, node.span)
        elif isinstance(node, ast.Declare):
            own.setdefault(node.name.text, node)
        elif isinstance(node, ast.DeclareShared):
            shared.add(node.name.text)
    errors: list[ZqlError] = []
    known = [*own, *(use for use in uses if use not in shared)]
    for name in params:
        if name in shared:
            errors.append(
                ParameterError(
                    f"${name} is a shared object, which the script makes itself",
                    code="A504",
                    hint="leave the value away, or make it one of what its factory takes",
                )
            )
            continue
        if name not in own and name not in uses:
            near = nearest(name, known)
            errors.append(
                ParameterError(
                    f'the script has no parameter "{name}"',
                    code="A502",
                    hint=did_you_mean(near)
                    or (f"it has: {', '.join(dict.fromkeys(known))}" if known else None),
                )
            )
    missing = [
        ParameterError(
            f"the parameter ${name} has no value",
            code="A501",
            span=declare.name.span,
            hint=f"give one: -p {name}=.. or params={{'{name}': ..}}, or write DEFAULT",
        )
        for name, declare in own.items()
        if declare.default is None and name not in params and name not in declared.parameters
    ]
    given = dict.fromkeys((*own, *shared, *params, *declared.parameters))
    missing += [
        ParameterError(
            f"the parameter ${name} has no value",
            code="A501",
            span=span,
            hint=did_you_mean(tuple(f"${n}" for n in nearest(name, list(given))))
            or f"give one: -p {name}=.. or params={{'{name}': ..}}",
        )
        for name, span in uses.items()
        if name not in given
    ]
    errors += missing
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ErrorList(errors)


def undeclared(params: Mapping[str, Any], script: ast.Script) -> dict[str, ex.Expr]:
    """The values of parameters without a DECLARE: they bring their own types."""
    own = {s.name.text for s in script.statements if isinstance(s, ast.Declare)}
    return {n: _plain(v) for n, v in params.items() if n not in own and is_constant(v)}


def is_constant(value: Any) -> bool:
    """Whether a value is no table: those are handed in by name instead."""
    return not hasattr(value, "__arrow_c_stream__") and not hasattr(value, "to_arrow")


def _plain(value: Any) -> ex.Expr:
    if isinstance(value, CommandLineValue):
        return constant(from_text(value))
    return constant(value)


def from_text(value: str) -> Any:
    """A command line's text as the value that it means: JSON, else the text itself."""
    try:
        return json.loads(value, parse_float=_number)
    except ValueError:
        return str(value)


def _number(text: str) -> float | Decimal:
    """As SQL reads it: a number with an exponent is a DOUBLE, one with a point a DECIMAL."""
    return float(text) if "e" in text.lower() else Decimal(text)


def declare(
    statement: ast.Declare, params: Mapping[str, Any], catalog: Catalog, context: Context
) -> ex.Expr:
    """The constant that a DECLARE stands for, checked against its type. Raises `ParameterError`."""
    name, type_ = statement.name.text, statement.type
    if name in params:
        given = params[name]
        is_text = isinstance(given, CommandLineValue)
        nested = type_.endswith("]") or type_.startswith(("STRUCT", "MAP"))
        value = constant(
            from_text(given) if is_text and nested else str(given) if is_text else given
        )
        shown = f"{given!r}" if not is_text else f'"{given}"'
    elif statement.default is not None:
        scope = Scope(lp.Values((), ()), ())
        value = ExpressionBinder(context, (scope,)).bind(statement.default)
        no_python(value, "DEFAULT")
        shown = statement.default.span.text if statement.default.span else "the default"
    else:
        value, shown = ex.Literal(None), "NULL"
    cast = ex.Cast(value, type_, span=statement.span)
    try:
        catalog.evaluate(cast)
    except TypeProblem as problem:
        raise ParameterError(
            f"${name} is {type_}: {shown} does not fit",
            code="A503",
            span=statement.name.span,
            notes=(with_type_names(problem.message.split("\n")[0]),),
        ) from None
    if not isinstance(value, ex.Literal) or value.type:
        return cast
    # In one spelling, however it was given: the plan of a run is the same for the same value.
    text = catalog.evaluate(ex.Cast(cast, "VARCHAR"))
    if _is_changed(value.value, text, type_):
        raise ParameterError(
            f"${name} is {type_}: {shown} does not fit",
            code="A503",
            span=statement.name.span,
            notes=(f"it would become {text}",),
        )
    return ex.Literal(text, type_)


def _is_changed(given: Any, text: str | None, type: str) -> bool:
    """Whether a cast to whole or exact numbers made another value of what was given."""
    if given is None or text is None or kind_of(type) not in ("integer", "float"):
        return False
    if isinstance(given, bool):
        return True
    if type in ("DOUBLE", "FLOAT"):
        return False
    try:
        return Decimal(str(given)) != Decimal(text)
    except InvalidOperation:
        return False
