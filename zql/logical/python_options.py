"""OPTIONS of CREATE TEMP FUNCTION .. LANGUAGE python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from zql.errors import BindError, UsageError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.logical.constants import constant_value
from zql.logical.context import Context
from zql.settings_text import parse_seconds
from zql.source import Span
from zql.syntax import ast
from zql.tree import record

OPTIONS = (
    "library",
    "entry_point",
    "init",
    "batch_size",
    "concurrency",
    "timeout",
    "packages",
)
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@record
class Options:
    """What the options say, and where each of them stands."""

    library: str = ""
    entry_point: str = ""
    init: dict[str, Any] | None = None
    shared: dict[str, ex.SharedObject] = field(default_factory=dict)
    calls: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, Span | None] = field(default_factory=dict)


def read_options(context: Context, statement: ast.CreatePythonFunction) -> Options:
    """The options of a function. Raises or reports `BindError`."""
    found = Options()
    for option in statement.options:
        context.attempt(lambda o=option: _take(context, found, o))  # type: ignore[misc]
    library = found.spans.get("library")
    if "library" in found.spans and statement.source is not None:
        raise BindError(
            "a function has its source in a library or behind AS, not both",
            code="P445",
            span=library or statement.source_span,
            hint="leave one of them out",
        )
    if "library" not in found.spans and statement.source is None and not context.errors:
        raise BindError(
            f"{statement.name.text} has no source",
            code="P445",
            span=statement.name.span,
            hint="write AS $$ .. $$ with its text, or OPTIONS (library = 'file.py')",
        )
    return found


def _take(context: Context, found: Options, option: ast.Option) -> None:
    name = option.name.lower()
    if name not in OPTIONS:
        near = nearest(name, OPTIONS)
        raise BindError(
            f'a Python function has no option "{option.name}"',
            code="N219",
            span=option.span,
            hint=did_you_mean(near) or f"options: {', '.join(OPTIONS)}",
            candidates=near,
        )
    if name in found.spans:
        raise BindError(f'the option "{name}" is given twice', code="N208", span=option.span)
    place = found.spans[name] = option.value.span or option.span
    if name == "init":
        _take_init(context, found, option)
        return
    value = constant_value(context, option.value)
    match name:
        case "library" | "entry_point":
            if not isinstance(value, str) or not value:
                raise _wrong(name, "a text", place)
            setattr(found, name, value)
        case "packages":
            _check_packages(context, value, place)
        case "timeout":
            found.calls[name] = _seconds(value, place)
        case _:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise _wrong(name, "a number from 1", place)
            found.calls[name] = value


def _take_init(context: Context, found: Options, option: ast.Option) -> None:
    """Arguments by name; a shared object is one by itself."""
    if not isinstance(option.value, ex.Struct):
        raise _wrong("init", "arguments by name: {model: 'small'}", option.value.span)
    found.init = {}
    for name, value in option.value.entries:
        if isinstance(value, ex.Parameter):
            known = context.declarations.parameters.get(value.name)
            if isinstance(known, ex.SharedObject):
                found.shared[name] = known
                continue
        found.init[name] = as_python(constant_value(context, value))


def as_python(value: Any) -> Any:
    """A constant as calls have it: lists are lists."""
    if isinstance(value, tuple):
        return [as_python(item) for item in value]
    if isinstance(value, Mapping):
        return {key: as_python(item) for key, item in value.items()}
    return value


def _check_packages(context: Context, value: Any, place: Span | None) -> None:
    names = value if isinstance(value, tuple) else (value,)
    for name in names:
        if not isinstance(name, str) or not _PACKAGE.fullmatch(name):
            raise _wrong("packages", "names of packages, without versions: ['regex']", place)
    missing = context.catalog.missing_package(names)
    if missing is not None:
        raise BindError(
            f'the Python package "{missing}" is not installed',
            code="N242",
            span=place,
            hint=f"python -m pip install {missing}",
        )


def _seconds(value: Any, place: Span | None) -> float:
    try:
        return parse_seconds(value)
    except UsageError as error:
        raise _wrong("timeout", "a time ('10s', or a number of seconds)", place) from error


def _wrong(name: str, wanted: str, place: Span | None) -> BindError:
    return BindError(f"{name} takes {wanted}", code="T331", span=place)
