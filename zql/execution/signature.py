"""Python signatures as DuckDB types: parameters, result, and where NULL goes."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import inspect
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

from zql.execution import kinds
from zql.execution.context import Context
from zql.execution.decorator import UdfOptions, options_of
from zql.execution.frames import form_of
from zql.execution.hints import hints_of, stripped
from zql.execution.keys_read import keys_of_record, keys_of_rows, names_asked
from zql.execution.kinds import Kind
from zql.execution.shard import Shard
from zql.execution.typed_arguments import kind_of_class, names_read
from zql.expr.functions import FunctionParameter, PythonFunction
from zql.schema import Field, Schema

_SCALARS: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BLOB",
    bytearray: "BLOB",
    dt.date: "DATE",
    dt.datetime: "TIMESTAMP",
    dt.time: "TIME",
    dt.timedelta: "INTERVAL",
    uuid.UUID: "UUID",
}
_ITERATORS = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
)
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
CONTEXT = "ctx"
"""The parameter that gets a `Context`."""
_ANYTHING = (Any, object, inspect.Parameter.empty)


def described(
    function: Callable[..., Any], named: PythonFunction, options: UdfOptions | None = None
) -> PythonFunction:
    """`named` with the parameters, the result type and the volatility of the function itself.

    A result that is an iterator has the type of a list of its elements.
    """
    hints = hints_of(function)
    options = options or options_of(function)
    wanted = _names_read(function, hints)
    if isinstance(options.returns, str):
        kind: Kind | None = kinds.parse(options.returns)
        iterates = False
    else:
        annotation = hints.get("return") if options.returns is None else options.returns
        kind, iterates = _result(annotation)
    return dataclasses.replace(
        named,
        parameters=_parameters(function, hints),
        returns=str(kind) if kind is not None else "",
        fields=fields_of(kind),
        iterates=iterates,
        volatile=options.volatile,
        reads=wanted[0] or keys_of_record(function),
        reads_rows=(
            wanted[0] or keys_of_rows(function, 0),
            wanted[1] or keys_of_rows(function, 1),
        ),
        form=_form(function, hints),
        context=_takes_context(function, hints),
        asks=names_asked(function, CONTEXT),
    )


def fields_of(kind: Kind | None) -> Schema | None:
    """The columns of a record type, or of the records in a list of them."""
    if kind is not None and kind.name == "LIST":
        kind = kind.element
    if kind is None or kind.name != "STRUCT":
        return None
    return Schema(tuple(Field(name, str(part)) for name, part in kind.parts))


def kind_of(annotation: Any) -> Kind | None:
    """The type that an annotation means; None when it does not say (Any, Decimal, int | str)."""
    annotation = stripped(annotation)
    try:
        if annotation in _SCALARS:
            return Kind(_SCALARS[annotation])
    except TypeError:  # unhashable
        return None
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union_kind(args)
    if origin is typing.Literal:
        return kind_of(type(args[0])) if len({type(a) for a in args}) == 1 else None
    if origin in _LISTS or origin in _ITERATORS:
        return _list_kind(args[0])
    if origin is tuple and args[1:] == (...,):
        return _list_kind(args[0])
    if origin in _MAPS:
        key, value = kind_of(args[0]), kind_of(args[1])
        return Kind("MAP", (("key", key), ("value", value))) if key and value else None
    return kind_of_class(annotation) or _record_kind(annotation)


def _list_kind(element: Any) -> Kind | None:
    kind = kind_of(element)
    return None if kind is None else Kind("LIST", (("", kind),))


def _union_kind(args: tuple[Any, ...]) -> Kind | None:
    members = {kind_of(a) for a in args if a is not type(None)}
    if members == {Kind("BIGINT"), Kind("DOUBLE")}:
        return Kind("DOUBLE")
    return members.pop() if len(members) == 1 else None


def _record_kind(annotation: Any) -> Kind | None:
    """A TypedDict, a dataclass or a NamedTuple as STRUCT."""
    if not isinstance(annotation, type):
        return None
    is_record = (
        typing.is_typeddict(annotation)
        or dataclasses.is_dataclass(annotation)
        or (issubclass(annotation, tuple) and hasattr(annotation, "_fields"))
    )
    if not is_record:
        return None
    try:
        parts = [(name, kind_of(hint)) for name, hint in hints_of(annotation).items()]
    except RecursionError:  # a record that holds others of its class
        return None
    if not parts or any(kind is None for _, kind in parts):
        return None
    return Kind("STRUCT", tuple((name, kind) for name, kind in parts if kind is not None))


def _result(annotation: Any) -> tuple[Kind | None, bool]:
    """The result's type, and whether it is an iterator."""
    if annotation in (None, type(None)) or isinstance(annotation, str):
        return None, False
    return kind_of(annotation), typing.get_origin(stripped(annotation)) in _ITERATORS


def _parameters(
    function: Callable[..., Any], hints: dict[str, Any]
) -> tuple[FunctionParameter, ...]:
    try:
        found = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # some functions of C do not say
        return (FunctionParameter("args", required=False, variadic=True),)
    return tuple(
        _parameter(p, hints.get(p.name, p.annotation))
        for p in found
        if p.kind is not inspect.Parameter.VAR_KEYWORD and not _is_context(p, hints)
    )


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    """Whether it is `ctx`, without an annotation or with that of a Context."""
    if parameter.name != CONTEXT or parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        return False
    annotation = hints.get(parameter.name, parameter.annotation)
    return annotation in _ANYTHING or annotation is Context


def _takes_context(function: Callable[..., Any], hints: dict[str, Any]) -> bool:
    try:
        found = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return False
    return any(_is_context(p, hints) for p in found)


def _parameter(parameter: inspect.Parameter, annotation: Any) -> FunctionParameter:
    variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    kind = None if annotation in _ANYTHING else kind_of(annotation)
    return FunctionParameter(
        parameter.name,
        type=str(kind) if kind is not None else "",
        passes_null=_takes_none(annotation),
        required=not variadic and parameter.default is inspect.Parameter.empty,
        variadic=variadic,
        shard=annotation is Shard or (parameter.name == "shard" and annotation in _ANYTHING),
    )


def _form(function: Callable[..., Any], hints: dict[str, Any]) -> str:
    """The kind of table that the first parameter is annotated with; empty for any other."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (ValueError, TypeError):
        return ""
    return "" if first is None else form_of(hints.get(first.name, first.annotation))


def _names_read(
    function: Callable[..., Any], hints: dict[str, Any]
) -> tuple[tuple[str, ...] | None, ...]:
    """The fields of the record classes that the first two parameters are annotated with."""
    try:
        names = list(inspect.signature(function).parameters)[:2]
    except (ValueError, TypeError):
        return None, None
    found = [names_read(hints.get(name)) for name in names]
    return (*found, None, None)[:2]


def _takes_none(annotation: Any) -> bool:
    annotation = stripped(annotation)
    if isinstance(annotation, str):
        return "None" in annotation or "Optional" in annotation
    if annotation in (*_ANYTHING, None, type(None)):
        return True
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_takes_none(a) for a in typing.get_args(annotation))
    return False
