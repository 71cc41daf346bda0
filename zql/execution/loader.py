"""User code: importing it, and finding a function again in another process."""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from zql.errors import InternalError
from zql.execution.printed import aside
from zql.execution.typed_arguments import adapted
from zql.expr.functions import PythonFunction

_PREFIX = "_zql_user_"
_loaded: dict[tuple[str | bytes, ...], Callable[..., Any]] = {}
_folders: list[str] = []


def load(function: PythonFunction) -> Callable[..., Any]:
    """The function itself, loaded once in a process. Raises whatever the user's module raises."""
    key = (function.path, function.module, function.qualname, function.digest, function.blob)
    if key not in _loaded:
        _loaded[key] = _load(function)
    return _loaded[key]


def _load(function: PythonFunction) -> Callable[..., Any]:
    if function.blob:
        import pickle

        # Made by this program for its own workers, and sent over their pipe: never from a file.
        loaded = pickle.loads(function.blob)  # noqa: S301
    elif function.path:
        loaded = getattr(import_file(function.path), function.qualname)
    else:
        with no_bytecode():
            loaded = getattr(importlib.import_module(function.module), function.qualname)
    if not callable(loaded):
        raise InternalError(f"{function.name} is no function")
    return adapted(loaded)


def import_file(path: str) -> ModuleType:
    """A user's file as a module under a private name, so that it hides no other module.

    Its folder is searched last for what it imports. A file that changed is imported anew.
    """
    path = os.path.abspath(path)
    with open(path, "rb") as file:
        source = file.read()
    name = f"{_PREFIX}{_hash(path.encode())[:12]}_{_hash(source)[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    search(os.path.dirname(path))
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # before it runs: its dataclasses look themselves up there
    try:
        with no_bytecode(), aside(os.path.basename(path)):
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def search(folder: str) -> None:
    """Lets imports of user code find modules in a folder, after everything else."""
    if folder not in _folders:
        _folders.append(folder)
    if folder not in sys.path:
        sys.path.append(folder)


def searched() -> tuple[str, ...]:
    """The folders added by `search`, for a worker to do the same."""
    return tuple(_folders)


@contextmanager
def no_bytecode() -> Iterator[None]:
    """No `__pycache__` appears beside the user's files meanwhile."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def digest(path: str) -> str:
    """A hash of a Python file and of the files in its folder that it imports, at any depth."""
    found = hashlib.sha256()
    for part in sorted(_with_imports(os.path.abspath(path), set())):
        with open(part, "rb") as file:
            found.update(_hash(file.read()).encode())
    return found.hexdigest()[:32]


def _with_imports(path: str, seen: set[str]) -> set[str]:
    if path in seen or not path.endswith(".py"):
        return seen
    seen.add(path)
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return seen
    folder = os.path.dirname(path)
    for name in _imported(tree):
        base = os.path.join(folder, *name.split("."))
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(candidate):
                _with_imports(candidate, seen)
    return seen


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_private(module_name: str) -> bool:
    """Whether a module name is one that `import_file` gave."""
    return module_name.startswith(_PREFIX)
