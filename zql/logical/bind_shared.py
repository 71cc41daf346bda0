"""DECLARE .. SHARED: an object that a Python function makes, for other Python functions."""

from __future__ import annotations

import hashlib
from typing import Any

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import PythonFunction
from zql.logical.bind_expression import ExpressionBinder, bind_arguments
from zql.logical.constants import constant_value
from zql.logical.context import Context, unknown
from zql.logical.plan import Values
from zql.logical.scope import Scope
from zql.syntax import ast


def shared_object(context: Context, statement: ast.DeclareShared) -> ex.SharedObject:
    """The object that a DECLARE .. SHARED stands for; nothing is made yet. Raises `BindError`.

    The same call of the same function is the same object, as long as the session lives.
    """
    call = statement.factory
    if not isinstance(call, ex.Call):
        raise BindError(
            "SHARED takes one call of a Python function, which makes the object",
            code="T341",
            span=call.span or statement.span,
            hint=f"DECLARE {statement.name.text} SHARED DEFAULT module.load('path')",
        )
    factory = _factory(context, call)
    if factory.context:
        raise BindError(
            f"{factory.name} takes ctx, and a shared object is made before there are tasks",
            code="T341",
            span=call.name_span or call.span,
            hint="let another function make it, without the parameter ctx",
        )
    if factory.is_async:
        raise BindError(
            f"{factory.name} is async, and a shared object is made by a plain function",
            code="T341",
            span=call.name_span or call.span,
            hint="asyncio.run(..) in a plain function calls it",
        )
    binder = ExpressionBinder(context, (Scope(Values((), ()), ()),))
    bind_arguments(binder, call.args, factory, call.span)
    args = tuple(_value(context, a) for a in call.args if not isinstance(a, ex.NamedArgument))
    keywords = tuple(
        (a.name, _value(context, a.value)) for a in call.args if isinstance(a, ex.NamedArgument)
    )
    made = (factory.path, factory.module, factory.qualname, factory.digest, args, keywords)
    key = hashlib.sha256(repr(made).encode()).hexdigest()[:32]
    place = statement.factory.span or statement.span
    return ex.SharedObject(statement.name.text, key, factory, args, keywords, place)


def _factory(context: Context, call: ex.Call) -> PythonFunction:
    """The Python function that the call names. Raises `BindError`."""
    modules, functions = context.declarations.modules, context.declarations.functions
    span = call.name_span or call.span
    if len(call.name) == 1:
        found = functions.get(call.name[0])
        known = [*functions, *(f"{alias}.{name}" for alias, fs in modules.items() for name in fs)]
        if found is None:
            raise unknown("Python function", call.name[0], known, span, "N203")
        return found
    module = modules.get(call.name[0])
    if module is None:
        error = unknown("module", call.name[0], list(modules), span, "N205")
        error.hint = error.hint or "import a file first: IMPORT PYTHON 'file.py' AS name;"
        raise error
    found = module.get(call.name[1])
    if found is None:
        raise unknown("function", call.name[1], list(module), span, "N203")
    return found


def _value(context: Context, expr: ex.Expr) -> Any:
    """The Python value of a constant; lists are lists, as in a call for a row."""
    return _listed(constant_value(context, expr))


def _listed(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_listed(item) for item in value]
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return value
