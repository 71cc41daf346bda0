"""SQL functions: a call is replaced by the body, whose names are its parameters only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical.context import Argument, Context, Declarations, Frame, Given, Place
from zql.logical.conversion import as_parameter
from zql.logical.declared import called, matched
from zql.syntax import ast
from zql.tree import walk


class Binder(Protocol):
    """What expanding a call needs of the binder of the expression that it stands in."""

    @property
    def context(self) -> Context: ...

    @property
    def depth(self) -> int: ...

    def bind(self, expr: ex.Expr) -> ex.Expr: ...

    def types(self, exprs: Sequence[ex.Expr]) -> tuple[str, ...]: ...

    def for_body(self) -> Binder: ...


def expand(
    binder: Binder, call: ex.Call, function: ast.CreateFunction, home: Declarations
) -> ex.Expr:
    """The bound body in place of a call. Raises `BindError`."""
    context, name = binder.context, ".".join(call.name)
    if call.window or call.distinct or call.order or call.filter or call.star or call.within_group:
        raise BindError(
            f"{name} is a SQL function: OVER, DISTINCT, FILTER and * belong inside its body",
            code="T305",
            span=call.span,
        )
    place = body_place(context, function, home, call)
    given = matched(name, function.parameters, call.args, call.span)
    values = arguments(binder, function, given, home)
    shared = [p for p, value in values.items() if _once_only(function.body, p, value)]
    if shared:
        return _with_shared(binder, call, function, place, values, shared)
    return _body(binder, call, function, place, values)


def body_place(
    context: Context,
    function: ast.CreateFunction | ast.CreateTableFunction,
    home: Declarations,
    call: ex.Call | ast.CreateFunction | ast.CallTable,
) -> Place:
    """Where the body of a function is bound. Raises `BindError` when it is being bound already."""
    key = (id(home), f"{function.name.text}()")
    context.grow(function.name.text, 1, call.span)
    if key in context.opened:
        raise BindError(
            f"the function {function.name.text} calls itself",
            code="P401",
            span=call.span,
            hint="|> RECURSIVE UNION repeats a query until nothing is new",
        )
    return Place(Frame(function=function.name.text), home, (*context.opened, key))


def arguments(
    binder: Binder,
    function: ast.CreateFunction,
    given: dict[str, ex.Expr],
    home: Declarations,
) -> dict[str, ex.Expr]:
    """A bound expression of the declared type for each parameter."""
    context = binder.context
    bound: list[ex.Expr] = []
    for parameter in function.parameters:
        value = given.get(parameter.name.text)
        if value is not None:
            bound.append(binder.bind(value))
        elif parameter.default is not None:
            with context.within(Place(Frame(function=function.name.text), home, context.opened)):
                bound.append(binder.for_body().bind(parameter.default))
    free = [_has_variable(value) for value in bound]
    types = iter(binder.types([v for v, f in zip(bound, free, strict=True) if not f]))
    values: dict[str, ex.Expr] = {}
    for parameter, value, is_free in zip(function.parameters, bound, free, strict=True):
        name = parameter.name.text
        if is_free:  # a lambda's variable has no type to be asked for
            values[name] = ex.Cast(value, parameter.type, span=value.span)
            continue
        values[name] = as_parameter(
            context, value, next(types), parameter.type, function.name.text, name
        )
    return values


def _body(
    binder: Binder,
    call: ex.Call,
    function: ast.CreateFunction,
    place: Place,
    values: dict[str, ex.Expr],
) -> ex.Expr:
    named: dict[str, Argument] = {name: Given(value) for name, value in values.items()}
    inside = Place(
        Frame(arguments=named, function=place.frame.function), place.declarations, place.opened
    )
    with called(binder.context, function, ".".join(call.name), call.span):
        with binder.context.within(inside):
            body = binder.for_body().bind(function.body)
        if function.returns is not None:
            body = ex.Cast(body, function.returns, span=call.span)
        if not _has_variable(body):
            binder.types((body,))
    return body


def _with_shared(
    binder: Binder,
    call: ex.Call,
    function: ast.CreateFunction,
    place: Place,
    values: dict[str, ex.Expr],
    shared: Sequence[str],
) -> ex.Expr:
    """The body over values that are computed once: a lambda over lists of one element."""
    marks = {p: ex.Variable(f"{p}:{binder.depth}") for p in shared}
    try:
        body = _body(binder, call, function, place, {**values, **marks})
    except BindError as error:
        if error.code != "P407":
            raise
        raise _not_once(call, shared) from None
    if any(isinstance(n, ex.Subquery) or _is_grouped(n) for n in walk(body)):
        raise _not_once(call, shared)
    for parameter in shared:
        lambda_ = ex.Lambda((marks[parameter].name,), body, span=call.span)
        once = ex.Array((values[parameter],), span=values[parameter].span)
        mapped = ex.Call(("list_transform",), (once, lambda_), span=call.span)
        body = ex.Index(mapped, ex.Literal(1), span=call.span)
    return body


def _not_once(call: ex.Call, shared: Sequence[str]) -> BindError:
    return BindError(
        f"{'.'.join(call.name)} uses {shared[0]} in a way that would compute it several times, and "
        "it differs each time",
        code="P407",
        span=call.span,
        hint=f"|> EXTEND .. AS {shared[0]} computes it once: call the function with that column",
    )


def _once_only(body: ex.Expr, parameter: str, value: ex.Expr) -> bool:
    """Whether replacing a parameter by its value would change how often that is computed."""
    if not _differs(value):
        return False
    repeated = {id(n) for loop in walk(body) if _repeats(loop) for n in walk(loop)}
    uses = [n for n in walk(body) if isinstance(n, ex.Name) and n.parts[0] == parameter]
    return len(uses) != 1 or id(uses[0]) in repeated


def _repeats(node: object) -> bool:
    return isinstance(node, ex.Lambda | ex.Comprehension | ex.Subquery)


def _differs(value: ex.Expr) -> bool:
    return any(
        (isinstance(n, ex.Call) and n.volatile)
        or (isinstance(n, ex.PythonCall) and getattr(n.function, "volatile", False))
        for n in walk(value)
    )


def _is_grouped(node: object) -> bool:
    return isinstance(node, ex.Call) and (node.aggregate or node.window is not None)


def _has_variable(expr: ex.Expr) -> bool:
    """Whether an expression uses a variable of a lambda outside of that lambda."""
    made = {
        v
        for n in walk(expr)
        if isinstance(n, ex.Lambda | ex.Comprehension)
        for v in (n.parameters if isinstance(n, ex.Lambda) else (n.variable,))
    }
    return any(isinstance(n, ex.Variable) and n.name not in made for n in walk(expr))
