"""Arguments of the classes that parameters are annotated with: records, enumerations, paths.

A function whose annotations name a dataclass or a NamedTuple gets one, where SQL has a row or a
STRUCT; at any depth, and each element of a list or of an iterator.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any

from zql.execution.hints import hints_of, stripped
from zql.execution.kinds import Kind

Convert = Callable[[Any], Any]

_ITERATORS = (collections.abc.Iterator, collections.abc.Iterable)
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def adapted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which makes its arguments of what SQL gives; itself when none needs that."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # some functions of C do not say
        return function
    hints = hints_of(function)
    found = [(p, _converter(hints.get(p.name, p.annotation))) for p in parameters]
    if not any(convert for _, convert in found):
        return function
    by_place = [c for p, c in found if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    by_name = {p.name: c for p, c in found if c is not None and p.kind is not p.VAR_POSITIONAL}
    rest = next((c for p, c in found if p.kind is p.VAR_POSITIONAL), None)

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        converts = by_place + [rest] * (len(args) - len(by_place))
        given = [a if c is None else c(a) for a, c in zip(args, converts, strict=False)]
        named = {n: by_name[n](v) if n in by_name else v for n, v in keywords.items()}
        return function(*given, **named)

    return call


def names_read(annotation: Any) -> tuple[str, ...] | None:
    """The fields of the record class that a parameter wants, or each of its elements."""
    annotation = stripped(annotation)
    if typing.get_origin(annotation) in (*_ITERATORS, *_LISTS):
        annotation = stripped(typing.get_args(annotation)[0])
    return tuple(_fields(annotation)) if _is_record_class(annotation) else None


def kind_of_class(annotation: Any) -> Kind | None:
    """The type of an enumeration's values, or of paths; None for anything else."""
    if not isinstance(annotation, type):
        return None
    import pathlib

    if issubclass(annotation, pathlib.PurePath):
        return Kind("VARCHAR")
    if not issubclass(annotation, enum.Enum):
        return None
    kinds = {type(member.value) for member in annotation}
    return _ENUM_KINDS.get(kinds.pop()) if len(kinds) == 1 else None


_ENUM_KINDS = {str: Kind("VARCHAR"), int: Kind("BIGINT"), float: Kind("DOUBLE")}


def _converter(annotation: Any) -> Convert | None:
    """What makes a value of an annotated type; None when it is that already."""
    annotation = stripped(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [a for a in args if a is not type(None)]
        return _converter(members[0]) if len(members) == 1 else None
    if origin in _LISTS or origin in _ITERATORS or (origin is tuple and args[1:] == (...,)):
        return _of_elements(origin, _converter(args[0]))
    if origin in _DICTS:
        return _of_values(_converter(args[1]))
    if typing.is_typeddict(annotation):
        return _of_keys(annotation)
    if not isinstance(annotation, type):
        return None
    import pathlib

    if issubclass(annotation, enum.Enum | pathlib.PurePath):
        return lambda value: None if value is None else annotation(value)
    return _record_maker(annotation) if _is_record_class(annotation) else None


def _is_record_class(annotation: Any) -> bool:
    if not isinstance(annotation, type):
        return False
    is_named_tuple = issubclass(annotation, tuple) and hasattr(annotation, "_fields")
    return is_named_tuple or dataclasses.is_dataclass(annotation)


def _fields(record: Any) -> dict[str, bool]:
    """The names that make a record, and whether each is needed."""
    if not dataclasses.is_dataclass(record):
        return {name: name not in record._field_defaults for name in record._fields}
    missing = dataclasses.MISSING
    return {
        field.name: field.default is missing and field.default_factory is missing
        for field in dataclasses.fields(record)
        if field.init
    }


def _record_maker(record: type) -> Convert:
    fields = _fields(record)
    needed = [name for name, wanted in fields.items() if wanted]

    @cache
    def converts() -> list[tuple[str, Convert]]:
        hints = hints_of(record)  # asked for late: a record may hold others of its class
        return [(n, c) for n in fields if (c := _converter(hints.get(n))) is not None]

    def make(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        given = {name: value[name] for name in fields if name in value}
        if not given.keys() >= set(needed):
            lacks = next(name for name in needed if name not in given)
            raise TypeError(f'{record.__name__} needs "{lacks}", and there is no such column')
        for name, convert in converts():
            if name in given:
                given[name] = convert(given[name])
        return record(**given)

    return make


def _of_keys(record: Any) -> Convert | None:
    """A TypedDict is a dict, but for what is in it."""
    hints = hints_of(record)
    converts = {n: c for n in hints if (c := _converter(hints[n])) is not None}

    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {n: converts[n](v) if n in converts else v for n, v in value.items()}

    return convert if converts else None


def _of_elements(origin: Any, convert: Convert | None) -> Convert | None:
    if origin is tuple:
        make = convert or (lambda item: item)
        return lambda items: None if items is None else tuple(map(make, items))
    if convert is None:
        return None

    def all_of(items: Any) -> Any:
        if origin in _ITERATORS and hasattr(items, "__next__"):
            return map(convert, items)
        return [convert(item) for item in items] if isinstance(items, list | tuple) else items

    return all_of


def _of_values(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None

    def all_of(entries: Any) -> Any:
        if not isinstance(entries, Mapping):
            return entries
        return {key: convert(value) for key, value in entries.items()}

    return all_of
