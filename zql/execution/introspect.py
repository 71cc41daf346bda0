"""The Python functions that a script may call: those of a file, of a module, of the caller."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

from zql.errors import BindError, did_you_mean, nearest
from zql.execution import loader, traces
from zql.execution.decorator import UdfOptions, options_of
from zql.execution.printed import aside
from zql.execution.signature import described
from zql.expr.functions import PythonFunction


def module_functions(
    target: str, is_path: bool, base_dir: str | None = None
) -> dict[str, PythonFunction]:
    """The public functions of a Python file or of an importable module, by name.

    A path is relative to `base_dir`, the script's folder (the current one when None), where
    modules are looked for last.
    Public is what `__all__` lists, else every function defined there whose name has no leading
    underscore. Raises `BindError` with the user's frames when the import fails.
    """
    base_dir = os.path.abspath(base_dir or ".")
    if is_path:
        path = os.path.normpath(os.path.join(base_dir, os.path.expanduser(target)))
        _check_file(target, path)
        module = _imported(target, lambda: loader.import_file(path))
        base = PythonFunction("", "", path=path, digest=loader.digest(path))
        alias = os.path.splitext(os.path.basename(path))[0]
    else:
        loader.search(base_dir)
        module = _imported(target, lambda: _import_module(target))
        file = getattr(module, "__file__", None)
        digest = loader.digest(file) if file and file.endswith(".py") else ""
        base = PythonFunction("", "", module=target, digest=digest)
        alias = target
    return {
        name: described(function, replace(base, name=f"{alias}.{name}", qualname=name))
        for name, function in _public(module).items()
    }


def python_function(
    function: Callable[..., Any],
    name: str | None = None,
    *,
    returns: Any = None,
    volatile: bool | None = None,
) -> PythonFunction:
    """A function of the caller's process, pickled for workers. Raises `BindError` if that fails.

    `returns` and `volatile` are those of `@zql.udf`, and win over it.
    """
    from zql.execution.pool import pickled

    shown = name or str(getattr(function, "__name__", type(function).__name__))
    try:
        blob = pickled(function)
    except Exception as error:  # noqa: BLE001 - whatever the objects it refers to raise
        raise BindError(
            f"{shown} cannot be sent to a worker process: {traces.told(error)}",
            code="P441",
            hint="define it in a file, and IMPORT PYTHON that file",
        ) from None
    digest = hashlib.sha256(_source(function) or blob).hexdigest()[:32]
    named = PythonFunction(shown, shown, blob=blob, digest=digest)
    options = options_of(function)
    return described(
        function,
        named,
        UdfOptions(
            options.returns if returns is None else returns,
            options.volatile if volatile is None else volatile,
        ),
    )


def _source(function: Callable[..., Any]) -> bytes | None:
    """The function's text with the plain values that it depends on; None if it needs others."""
    if getattr(function, "__closure__", None):
        return None
    try:
        values = [function.__defaults__, function.__kwdefaults__, *_globals_of(function)]
        text = inspect.getsource(function)
    except (OSError, TypeError, AttributeError):
        return None
    return f"{text}{values!r}".encode() if all(map(_is_plain, values)) else None


def _globals_of(function: Callable[..., Any]) -> list[Any]:
    """The global variables that a function names, or one inside it, but modules."""
    around, codes = function.__globals__, [function.__code__]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [part for part in code.co_consts if inspect.iscode(part)]
    found = [(name, around[name]) for name in sorted(names & around.keys())]
    return [(name, value) for name, value in found if not inspect.ismodule(value)]


def _is_plain(value: Any) -> bool:
    """Whether the value's `repr` says all of it."""
    if isinstance(value, dict):
        return all(_is_plain(item) for item in value.items())
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str, bytes)


def _check_file(target: str, path: str) -> None:
    if not os.path.isfile(path):
        near: tuple[str, ...] = ()
        with suppress(OSError):
            names = [n for n in os.listdir(os.path.dirname(path)) if n.endswith(".py")]
            near = nearest(os.path.basename(path), names)
        found = tuple(os.path.join(os.path.dirname(target), n) for n in near)
        raise BindError(
            f'there is no Python file "{target}"',
            code="N240",
            hint=did_you_mean(found) or f"looked for {path}; paths are relative to the script",
        )


def _import_module(name: str) -> ModuleType:
    with loader.no_bytecode(), aside(name):
        return importlib.import_module(name)


def _imported(target: str, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise SystemExit too
        raise BindError(
            f'cannot import "{target}": {traces.told(error)}',
            code="N241",
            notes=traces.frames(error),
        ) from None


def _public(module: ModuleType) -> dict[str, Callable[..., Any]]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        found = ((str(name), getattr(module, str(name), None)) for name in listed)
        return {name: value for name, value in found if value is not None and _is_function(value)}
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and _is_function(value)
        and getattr(value, "__module__", None) == module.__name__
    }


def _is_function(value: Any) -> bool:
    return callable(value) and not inspect.isclass(value) and not inspect.ismodule(value)
