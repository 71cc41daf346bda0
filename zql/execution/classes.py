"""Classes that stand for functions: which ones do, what they are called with, how they are made."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MethodType
from typing import Any

from zql.errors import BindError, did_you_mean, nearest
from zql.execution import traces
from zql.execution.decorator import UdfOptions
from zql.execution.signature import described, is_aggregate
from zql.expr.expression import SharedObject
from zql.expr.functions import PythonFunction


def is_callable_class(value: Any) -> bool:
    """Whether it is a class whose objects can be called, and of which objects can be made."""
    if not inspect.isclass(value) or inspect.isabstract(value):
        return False
    return _call_of(value) is not None and not getattr(value, "_is_protocol", False)


def target_of(value: Any) -> Callable[..., Any]:
    """What says how a function, a class or an object is called; `self` is no parameter of it."""
    if not inspect.isclass(value):
        call = _call_of(type(value))
        return value.__call__ if inspect.isfunction(call) else value  # type: ignore[no-any-return]
    call = _call_of(value)
    # Nothing is called: the method is bound so that its first parameter is taken.
    return MethodType(call, value) if inspect.isfunction(call) else value.__call__


def described_call(
    value: Any,
    named: PythonFunction,
    options: UdfOptions,
    shared: Mapping[str, SharedObject] | None = None,
) -> PythonFunction:
    """`named` with what there is to know of a function, of an object that is called, or of a class.

    `shared` are arguments of a class beside those of the options. Raises `BindError` for arguments
    that it does not take; those that it lacks are noted.
    """
    given = {**(options.init or {}), **(shared or {})}
    if is_aggregate(value):
        if given:
            raise BindError(
                f"{named.name} is an aggregate class: the call has its arguments, not init",
                code="P447",
                hint=f"|> AGGREGATE {named.name}(.., {next(iter(given))} => ..) AS name",
            )
        return described(value, named, options)
    found = described(target_of(value), named, options)
    if not inspect.isclass(value):
        if given:
            raise BindError(
                f"{named.name} is no class: it takes no init",
                code="P447",
                hint="init are the arguments that an object of a class is made with",
            )
        return found
    parameters = _constructor(value)
    if parameters is None:
        return replace(found, built=True, init=_pickled(named.name, options.init or {}))
    names = [p.name for p in parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    if len(names) == len(parameters):
        _check_known(named.name, names, given)
    hints = _hints(value)
    init = {name: _plain(v, hints.get(name)) for name, v in (options.init or {}).items()}
    needs = tuple(
        p.name
        for p in parameters.values()
        if p.default is inspect.Parameter.empty
        and p.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        and p.name not in given
    )
    return replace(
        found,
        built=True,
        init=_pickled(named.name, init),
        init_shared=tuple((shared or {}).items()),
        needs=needs,
    )


def _call_of(kind: type) -> Any:
    """What a class has as `__call__`, its own or one that it inherits; None when it has none."""
    return next((vars(c)["__call__"] for c in kind.__mro__ if "__call__" in vars(c)), None)


def _constructor(kind: type) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of a class; None for one of C that does not say."""
    try:
        return inspect.signature(kind).parameters
    except (ValueError, TypeError):
        return None


def _check_known(name: str, names: list[str], given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in names:
            raise BindError(
                f'{name} is made without an argument "{key}"',
                code="N206",
                hint=did_you_mean(nearest(key, names)),
                notes=(f"arguments of {name}: {', '.join(names) or 'none'}",),
            )


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind.__init__)  # type: ignore[misc]
    except Exception:  # noqa: BLE001 - evaluating annotations runs code of the user
        return {}


def _plain(value: Any, annotation: Any) -> Any:
    """A value of the script as Python has it: 0.5 is a float, unless it is to be a Decimal."""
    if isinstance(value, Decimal) and annotation is not Decimal:
        return float(value)
    if isinstance(value, list):
        return [_plain(item, None) for item in value]
    if type(value) is dict:
        return {key: _plain(item, None) for key, item in value.items()}
    return value


def _pickled(name: str, init: Mapping[str, Any]) -> bytes:
    if not init:
        return b""
    import cloudpickle

    try:
        return cloudpickle.dumps(dict(init), protocol=5)  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - whatever the objects raise
        raise BindError(
            f"init of {name} cannot be sent to a worker process: {traces.told(error)}",
            code="P441",
            hint="hand over what it is made of, a path say, and let the class open it",
        ) from None
