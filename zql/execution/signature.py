"""Python signatures as DuckDB types: parameters, result, and where NULL goes."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import functools
import inspect
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

from zql.execution import kinds
from zql.execution.context import Context
from zql.execution.decorator import UdfOptions, options_of
from zql.execution.frames import array_form_of, form_of
from zql.execution.hints import hints_of, stripped
from zql.execution.keys_read import keys_of_record, keys_of_rows, names_asked
from zql.execution.kinds import Kind
from zql.execution.shard import Shard
from zql.execution.typed_arguments import kind_of_class, names_read
from zql.expr.functions import AggregateClass, FunctionParameter, PythonFunction
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
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
)
_AWAITED = (collections.abc.Awaitable, collections.abc.Coroutine)
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
CONTEXT = "ctx"
"""The parameter that gets a `Context`."""
_ANYTHING = (Any, object, inspect.Parameter.empty)


def described(
    function: Callable[..., Any], named: PythonFunction, options: UdfOptions | None = None
) -> PythonFunction:
    """`named` with the parameters, the result type and the volatility of the function itself.

    A result that is an iterator has the type of a list of its elements. A class that aggregates is
    described by its methods.
    """
    options = options or options_of(function)
    if is_aggregate(function):
        return _described_aggregate(function, named, options)
    hints = hints_of(_signed(function))
    parameter = _parameter if options.batch_size is None else listed_parameter
    wanted = _names_read(function, hints)
    if isinstance(options.returns, str):
        kind: Kind | None = kinds.parse(options.returns)
        iterates = _result(hints.get("return"))[1] or inspect.isgeneratorfunction(function)
    else:
        annotation = hints.get("return") if options.returns is None else options.returns
        if options.batch_size is not None and options.returns is None:
            annotation = element_of(_awaited(annotation))[1]
        kind, iterates = _result(_awaited(annotation))
    return dataclasses.replace(
        named,
        parameters=_parameters(function, hints, parameter),
        returns=str(kind) if kind is not None else "",
        fields=fields_of(kind),
        iterates=iterates and options.batch_size is None,
        volatile=options.volatile,
        reads=wanted[0] or keys_of_record(function),
        reads_rows=(
            wanted[0] or keys_of_rows(function, 0),
            wanted[1] or keys_of_rows(function, 1),
        ),
        form=_form(function, hints),
        context=_takes_context(function, hints),
        batch_size=options.batch_size,
        concurrency=options.concurrency,
        timeout=options.seconds,
        is_async=is_async(function) or _awaited(hints.get("return")) is not hints.get("return"),
        asks=names_asked(function, CONTEXT),
        told_by="@zql.udf" if options.returns is not None else "its annotation",
    )


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calls give a coroutine or an async generator; of an object, those of its class."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - it is looked into, not called
    made = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(of(function) or of(call) for of in made)


def is_aggregate(value: Any) -> bool:
    """Whether it is a class whose objects take rows by `step`, and are done by `finish`."""
    if not inspect.isclass(value) or any("__call__" in vars(c) for c in value.__mro__):
        return False
    return callable(getattr(value, "step", None)) and callable(getattr(value, "finish", None))


def _described_aggregate(kind: Any, named: PythonFunction, options: UdfOptions) -> PythonFunction:
    """`named` with the parameters of `step`, and the type of what `finish` gives."""
    hints = hints_of(kind.step)
    told_by = "@zql.udf"
    annotation = options.returns
    if annotation is None:
        annotation, told_by = hints_of(kind.finish).get("return"), "the annotation of finish"
    if isinstance(annotation, str) and options.returns is not None:
        result: Kind | None = kinds.parse(annotation)
        iterates = False
    else:
        result, iterates = _result(annotation)
    return dataclasses.replace(
        named,
        parameters=_parameters(kind.step, hints, _parameter)[1:],
        returns=str(result) if result is not None else "",
        iterates=iterates,
        volatile=options.volatile,
        context=_takes_context(kind.step, hints),
        timeout=options.seconds,
        aggregate=_aggregate_class(kind),
        told_by=told_by,
    )


def _aggregate_class(kind: Any) -> AggregateClass:
    merges = callable(getattr(kind, "merge", None))
    made = kind.__init__
    if made is object.__init__:
        return AggregateClass(merges=merges)
    hints = hints_of(made)
    given = tuple(p for p in _parameters(made, hints, _parameter)[1:] if not p.variadic)
    return AggregateClass(given, _takes_context(made, hints), merges)


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
    function: Callable[..., Any],
    hints: dict[str, Any],
    parameter: Callable[[inspect.Parameter, Any], FunctionParameter],
) -> tuple[FunctionParameter, ...]:
    try:
        found = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # some functions of C do not say
        return (FunctionParameter("args", required=False, variadic=True),)
    return tuple(
        parameter(p, hints.get(p.name, p.annotation))
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
        annotated=annotation is not inspect.Parameter.empty,
        keyword_only=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
    )


def listed_parameter(parameter: inspect.Parameter, annotation: Any) -> FunctionParameter:
    """A parameter of a function with `batch_size`: a list or an array, unless it is a plain one."""
    form, element = element_of(annotation)
    described = _parameter(parameter, element if form else annotation)
    # Arrays have NULL in their own way; those of numpy have none.
    takes_none = form not in ("", "list", "numpy") or described.passes_null
    passes = takes_none and form != "numpy"
    return dataclasses.replace(described, form=form, passes_null=passes, shard=False)


def element_of(annotation: Any) -> tuple[str, Any]:
    """What a list or an array is handed over as, and the annotation of its elements.

    Without an annotation it is a list of anything; the form of what is no list is empty.
    """
    annotation = stripped(annotation)
    if annotation in (*_ANYTHING, None) or annotation in _LISTS:
        return "list", inspect.Parameter.empty
    form = array_form_of(annotation)
    if form:
        return form, inspect.Parameter.empty
    origin = typing.get_origin(annotation)
    if origin in _LISTS or origin in _ITERATORS:
        return "list", typing.get_args(annotation)[0]
    return "", inspect.Parameter.empty


def _awaited(annotation: Any) -> Any:
    """What an awaitable gives."""
    origin = typing.get_origin(stripped(annotation))
    return typing.get_args(stripped(annotation))[-1] if origin in _AWAITED else annotation


def _signed(function: Callable[..., Any]) -> Any:
    """What has the annotations: of an object that can be called, its class's method."""
    if inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__wrapped__"):
        return function
    if isinstance(function, functools.partial):
        return function.func
    return getattr(type(function), "__call__", function)  # noqa: B004 - it is looked into


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
