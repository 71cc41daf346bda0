"""DECLARE .. SHARED: an object that a Python function makes, for other Python functions."""

from __future__ import annotations

import hashlib
from typing import Any

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_function_of_rows import python_function
from zql.logical.constants import constant_value
from zql.logical.context import Context
from zql.logical.plan import Values
from zql.logical.python_arguments import bind_arguments
from zql.logical.python_options import as_python
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
    factory = python_function(context, call.name, call.name_span or call.span)
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
    bound, named = bind_arguments(binder, call.args, factory, call.span)
    if factory.declared:
        bound, named = binder.as_declared(factory, *binder.typed_arguments(bound, named))
        args = tuple(_value(context, a) for a in bound)
        keywords = tuple((name, _value(context, a)) for name, a in named)
    else:
        args = tuple(_value(context, a) for a in call.args if not isinstance(a, ex.NamedArgument))
        keywords = tuple(
            (a.name, _value(context, a.value)) for a in call.args if isinstance(a, ex.NamedArgument)
        )
    made: tuple[Any, ...] = (
        factory.path,
        factory.module,
        factory.qualname,
        factory.digest,
        args,
        keywords,
    )
    if factory.source or factory.built:
        made += (factory.source_name, factory.source_line, factory.init, factory.init_shared)
    key = hashlib.sha256(repr(made).encode()).hexdigest()[:32]
    place = statement.factory.span or statement.span
    return ex.SharedObject(statement.name.text, key, factory, args, keywords, place)


def _value(context: Context, expr: ex.Expr) -> Any:
    """The Python value of a constant; lists are lists, as in a call for a row."""
    return as_python(constant_value(context, expr))
