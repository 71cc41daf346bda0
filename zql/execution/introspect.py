"""The Python functions that a script may call: those of a file, of a module, of the caller."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

from zql.errors import BindError, UsageError, did_you_mean, nearest
from zql.execution import loader, traces
from zql.execution.classes import described_call, is_callable_class
from zql.execution.decorator import options_of, with_options
from zql.execution.printed import aside
from zql.execution.signature import is_aggregate
from zql.expr.functions import PythonFunction


class UserModule(NamedTuple):
    """A module of the user's; `base` tells where a worker finds what is in it, called `alias.x`."""

    module: ModuleType
    base: PythonFunction
    alias: str

    def named(self, name: str) -> PythonFunction:
        """What stands in it under a name."""
        return replace(self.base, name=f"{self.alias}.{name}", qualname=name)


def module_functions(
    target: str, is_path: bool, base_dir: str | None = None
) -> dict[str, PythonFunction]:
    """The public functions of a Python file or of an importable module; see `user_module`."""
    return public_functions(user_module(target, is_path, base_dir))


def public_functions(module: UserModule) -> dict[str, PythonFunction]:
    """The public functions of a module by name.

    Public is what `__all__` lists, else every function and aggregate class defined there whose name
    has no leading underscore; a class whose objects can be called is a function.
    """
    return {
        name: described_call(function, module.named(name), options_of(function))
        for name, function in public_callables(module.module).items()
    }


def user_module(target: str, is_path: bool, base_dir: str | None = None) -> UserModule:
    """Imports a Python file or an importable module.

    A path is relative to `base_dir`, the script's folder (the current one when None), where
    modules are looked for last. Raises `BindError` with the user's frames when the import fails.
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
    return UserModule(module, base, alias)


def python_function(
    function: Callable[..., Any],
    name: str | None = None,
    **options: Any,
) -> PythonFunction:
    """A function of the caller's process, pickled for workers. Raises `BindError` if that fails.

    The options are those of `@zql.udf`, and win over it. Raises `UsageError` for others, and for
    what cannot be called.
    """
    if not callable(function):
        raise UsageError(
            f"a {type(function).__name__} is no function: it cannot be called",
            code="U607",
            hint="Session.share(name, value) hands it to functions as $name",
        )
    named = sent(function, name)
    found = described_call(function, named, with_options(options_of(function), options))
    check_needs(found)
    return found


def sent(function: Any, name: str | None = None) -> PythonFunction:
    """Any object of the caller's process, pickled for workers. Raises `BindError` if that fails."""
    from zql.execution.pickling import pickled

    shown = name or str(getattr(function, "__name__", type(function).__name__))
    try:
        blob = pickled(function)
    except Exception as error:  # noqa: BLE001 - whatever the objects it refers to raise
        raise BindError(
            f"{shown} cannot be sent to a worker process: {traces.told(error)}",
            code="P441",
            hint="define it in a file, and IMPORT PYTHON that file",
        ) from None
    found = hashlib.sha256(_source(function) or blob)
    for digest in _digests_of_modules(function):
        found.update(digest.encode())
    digest = found.hexdigest()[:32]
    return PythonFunction(shown, shown, blob=blob, digest=digest)


def check_needs(function: PythonFunction, hint: str = "init={{'{}': ..}}") -> None:
    """Raises `BindError` for a class that lacks arguments; the hint is about the first of them."""
    if function.needs:
        lacks = ", ".join(function.needs)
        raise BindError(
            f"{function.name} is a class, and is made with {lacks}",
            code="P448",
            hint=f"give it: {hint.format(function.needs[0])}",
        )


def _source(function: Any) -> bytes | None:
    """The function's text with the plain values that it depends on; None if it needs others."""
    methods = vars(function).values() if inspect.isclass(function) else (function,)
    functions = [m for m in methods if not inspect.isclass(function) or inspect.isfunction(m)]
    if any(getattr(each, "__closure__", None) for each in functions):
        return None
    try:
        values = [
            value
            for each in functions
            for value in (each.__defaults__, each.__kwdefaults__, *_globals_of(each))
        ]
        text = inspect.getsource(function)
    except (OSError, TypeError, AttributeError):
        return None
    return f"{text}{values!r}".encode() if all(map(_is_plain, values)) else None


def _digests_of_modules(function: Any) -> list[str]:
    """Hashes of the user's modules to which a function, or a method of a class, refers."""
    methods = vars(function).values() if inspect.isclass(function) else (function,)
    modules: set[str] = set()
    for method in filter(inspect.isfunction, methods):
        for name in _names_in(method):
            value = method.__globals__.get(name)
            module = value if inspect.ismodule(value) else inspect.getmodule(value)
            file = getattr(module, "__file__", None) or ""
            # What the main program defines is a part of the pickle.
            if file.endswith(".py") and module is not sys.modules.get("__main__"):
                modules.add(file)
    return [loader.digest(file) for file in sorted(modules) if loader.is_users(file)]


def _names_in(function: Callable[..., Any]) -> set[str]:
    """The names that a function, or one inside it, looks up."""
    codes, names = [function.__code__], set[str]()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [part for part in code.co_consts if inspect.iscode(part)]
    return names


def _globals_of(function: Callable[..., Any]) -> list[Any]:
    """The global variables that a function names, or one inside it, but modules."""
    around = function.__globals__
    found = [(name, around[name]) for name in sorted(_names_in(function) & around.keys())]
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
    with aside(name):
        return loader.import_named(name)


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


def public_callables(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions that a module shows, and the classes that stand for some, by name."""
    return {name: value for name, value in public(module).items() if _is_function(value)}


def public(module: ModuleType) -> dict[str, Any]:
    """What a module shows: the names in `__all__`, else what is defined in it without a `_`."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        found = ((str(name), getattr(module, str(name), None)) for name in listed)
        return {name: value for name, value in found if value is not None}
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


def _is_function(value: Any) -> bool:
    if inspect.isclass(value):
        return is_callable_class(value) or is_aggregate(value)
    return callable(value) and not inspect.ismodule(value)
