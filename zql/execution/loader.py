"""User code: importing it, and finding a function again in another process."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from operator import attrgetter
from types import ModuleType
from typing import Any

from zql.errors import InternalError
from zql.execution.printed import aside
from zql.execution.traces import SOURCE
from zql.execution.typed_arguments import adapted
from zql.expr.functions import PythonFunction

_PREFIX = "_zql_user_"
_SOURCE_PREFIX = "_zql_source_"
_loaded: dict[tuple[Any, ...], Any] = {}
_adapted: dict[tuple[Any, ...], Callable[..., Any]] = {}
_folders: list[str] = []
_imported_here: dict[str, tuple[str, tuple[int, int]]] = {}
"""Files and versions of the user's modules that user code has imported, by their names."""


def load(function: PythonFunction) -> Callable[..., Any]:
    """The function itself, loaded once in a process. Raises whatever the user's module raises.

    For a class that stands for a function, the class: `instances` makes its objects.
    """
    loaded = load_object(function)
    if not callable(loaded):
        raise InternalError(f"{function.name} is no function")
    if inspect.isclass(loaded):
        return loaded
    key = key_of(function)
    if key not in _adapted:
        _adapted[key] = adapted(loaded)
    return _adapted[key]


def load_object(function: PythonFunction) -> Any:
    """What stands at the place of a function: it may be a class, or any object."""
    key = key_of(function)
    if key not in _loaded:
        _loaded[key] = _load(function)
    return _loaded[key]


def key_of(function: PythonFunction) -> tuple[Any, ...]:
    """What functions have in common that are the same for a process.

    The digest of one that is sent says nothing of what it refers to.
    """
    place = f"{function.source_name}:{function.source_line}" if function.source else ""
    own = function.blob or function.digest
    return (function.path, function.module, place, function.qualname, own)


def _load(function: PythonFunction) -> Any:
    if function.blob:
        import pickle

        # Made by this program for its own workers, and sent over their pipe: never from a file.
        return pickle.loads(function.blob)  # noqa: S301
    if function.source:
        module = import_source(function.source, function.source_name, function.source_line)
        return getattr(module, function.qualname)
    if function.path:
        return getattr(import_file(function.path), function.qualname)
    module = import_named(function.module)
    return attrgetter(function.qualname)(module)


def import_file(path: str) -> ModuleType:
    """A user's file as a module under a private name, so that it hides no other module.

    Its folder is searched last for what it imports. A file that changed is imported anew, and so is
    one that imports a changed one.
    """
    path = os.path.abspath(path)
    search(os.path.dirname(path))
    with open(path, "rb") as file:
        source = file.read()
    name = f"{_PREFIX}{_hash(path.encode())[:12]}_{digest(path)[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # before it runs: its dataclasses look themselves up there
    try:
        with no_bytecode(), aside(os.path.basename(path)), _fresh():
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def import_source(source: str, name: str, line: int) -> ModuleType:
    """Python text of a script as a module; it begins on a `line` of the script called `name`.

    Lines in tracebacks are those of the script. Raises what compiling or running it raises.
    """
    hidden = (
        f"{_SOURCE_PREFIX}{_hash(f'{name}:{line}'.encode())[:12]}_{_hash(source.encode())[:12]}"
    )
    if hidden in sys.modules:
        return sys.modules[hidden]
    module = ModuleType(hidden)
    text = "\n" * (line - 1) + source
    module.__dict__[SOURCE] = text
    sys.modules[hidden] = module
    try:
        with no_bytecode(), _fresh():
            exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException:
        sys.modules.pop(hidden, None)
        raise
    return module


def import_named(name: str) -> ModuleType:
    """A module by its name, anew when its file has changed. Raises what importing it raises."""
    with no_bytecode(), _fresh():
        return importlib.import_module(name)


@contextmanager
def _fresh() -> Iterator[None]:
    """Imports meanwhile find modules as their files are now.

    Python itself keeps a module for as long as the process lives. That goes for modules that were
    first imported here: others are the program's own affair.
    """
    for name, (path, version) in list(_imported_here.items()):
        if _version(path) != version:
            sys.modules.pop(name, None)
            del _imported_here[name]
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in sys.modules.keys() - before:
            file = str(getattr(sys.modules[name], "__file__", None) or "")
            if file and not is_private(name) and is_users(file):
                _imported_here[name] = (file, _version(file))


def _version(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def source_modules() -> list[ModuleType]:
    """The modules that `import_source` gave: no other process can import them by name."""
    return [m for n, m in list(sys.modules.items()) if n.startswith(_SOURCE_PREFIX)]


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
    """A hash of a Python file and of the user's files that it imports, at any depth."""
    first = os.path.abspath(path)
    seen: set[str] = set()
    _with_imports(first, seen, _roots(first))
    return _digest(seen)


def source_digest(source: str, folder: str) -> str:
    """A hash of Python text in a script, and of the files in the script's folder that it needs."""
    files: set[str] = set()
    folder = os.path.abspath(folder)
    _add_imports(_imported(ast.parse(source)), folder, files, (folder, *_folders))
    return _digest(files, source.encode())


def is_users(path: str) -> bool:
    """Whether a file is none of Python's own, and none that was installed."""
    return not os.path.abspath(path).startswith(_not_users())


@cache
def _not_users() -> tuple[str, ...]:
    import sysconfig

    places = sysconfig.get_paths()
    own = {places[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return tuple(place + os.sep for place in (*own, ours))


def _roots(path: str) -> tuple[str, ...]:
    """Folders from which a file's imports may go: its own, that of its package, the scripts'."""
    own = os.path.dirname(path)
    top = own
    while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    return tuple(dict.fromkeys((own, top, *_folders)))


def _digest(files: set[str], first: bytes = b"") -> str:
    import hashlib

    found = hashlib.sha256(first)
    for part in sorted(files):
        with open(part, "rb") as file:
            found.update(_hash(file.read()).encode())
    return found.hexdigest()[:32]


def _with_imports(path: str, seen: set[str], roots: Sequence[str]) -> None:
    if path in seen or not path.endswith(".py") or not is_users(path):
        return
    seen.add(path)
    try:
        facts = os.stat(path)
        names = _imported_by(path, facts.st_mtime_ns, facts.st_size)
    except (OSError, SyntaxError, ValueError):
        return
    _add_imports(names, os.path.dirname(path), seen, roots)


@lru_cache(1024)
def _imported_by(path: str, _changed: int, _size: int) -> tuple[tuple[int, str], ...]:
    """What a file imports; it is read again when it has changed."""
    with open(path, "rb") as file:
        return tuple(_imported(ast.parse(file.read())))


def _add_imports(
    names: Iterable[tuple[int, str]], folder: str, seen: set[str], roots: Sequence[str]
) -> None:
    for level, name in names:
        above = os.path.join(folder, *[os.pardir] * (level - 1)) if level else folder
        found = _modules(above, name)
        first = name.partition(".")[0]
        if not level and first not in sys.stdlib_module_names:
            # Of several folders that have it, Python takes the first; its own may not be searched.
            having = (root for root in roots if _may_have(root, first))
            found += next(filter(None, (_modules(root, name) for root in having)), [])
        for path in found:
            _with_imports(path, seen, roots)


def _may_have(folder: str, name: str) -> bool:
    """Whether there is anything in a folder that a module of this name could be."""
    try:
        names = _names_in(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return False
    return name in names or f"{name}.py" in names


@lru_cache(4096)
def _names_in(folder: str, _changed: int) -> frozenset[str]:
    return frozenset(os.listdir(folder))


def _modules(folder: str, name: str) -> list[str]:
    """The files in a folder that a name may stand for."""
    base = os.path.normpath(os.path.join(folder, *name.split(".")))
    return [p for p in (base + ".py", os.path.join(base, "__init__.py")) if os.path.isfile(p)]


def _imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names of imported modules, each with the number of dots before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            parts = base.split(".") if base else []
            yield from ((node.level, ".".join(parts[: i + 1])) for i in range(len(parts)))
            yield from ((node.level, f"{base}.{alias.name}".strip(".")) for alias in node.names)


def _hash(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def is_private(module_name: str) -> bool:
    """Whether a module name is one that `import_file` gave."""
    return module_name.startswith(_PREFIX)
