"""Files of declarations: those of IMPORT MODULE, and the functions that ZQL brings along."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NoReturn

from zql.declaring import Declaring
from zql.errors import BindError, ErrorList, Interrupted, ZqlError
from zql.logical.catalog import Catalog
from zql.logical.context import Declarations
from zql.logical.doubts import Doubts
from zql.source import Source, Span
from zql.syntax import ast
from zql.syntax.parser import parse_script

LIBRARY = os.path.join(os.path.dirname(__file__), "library")
"""The functions that ZQL brings along: a file has the name of the one that others may call."""

_DECLARES = (
    ast.Declare,
    ast.DeclareShared,
    ast.CreateView,
    ast.CreateFunction,
    ast.CreatePythonFunction,
    ast.CreateTableFunction,
    ast.ImportPython,
    ast.ImportScript,
)


class Modules:
    """The ZQL files that one script imports, each parsed and declared once.

    `catalog_in` gives a catalog for the files of a folder: Python is imported relative to it.
    `doubts` are the warnings of the files.
    """

    def __init__(self, catalog_in: Callable[[str], Catalog]) -> None:
        self.catalog_in = catalog_in
        self.library = Library(self)
        self.doubts = Doubts()
        self._loaded: dict[str, Declarations] = {}
        self._opened: list[str] = []

    def load(self, statement: ast.ImportScript, base_dir: str | None) -> Declarations:
        """The declarations of the file that an IMPORT MODULE names. Raises `ZqlError`."""
        written = os.path.join(base_dir or os.getcwd(), statement.path)
        path = os.path.realpath(written)
        if path in self._opened:
            chain = [*self._opened[self._opened.index(path) :], path]
            raise BindError(
                f"{statement.path} imports itself",
                code="P401",
                span=statement.span,
                notes=(" imports ".join(os.path.basename(p) for p in chain),),
            )
        if path not in self._loaded:
            try:
                self._loaded[path] = self.declared(_read(written, statement.span), path)
            except Interrupted:
                raise
            except ZqlError as error:
                _note(error, statement.span)
                raise
        return self._loaded[path]

    def declared(self, source: Source, path: str) -> Declarations:
        """What a file declares. Raises its errors, all of them."""
        folder = os.path.dirname(path)
        found = Declarations(library=self.library)
        declaring = Declaring(
            found, self.catalog_in(folder), {}, lambda s: self.load(s, folder), _no_setting
        )
        errors: list[ZqlError] = []
        self._opened.append(path)
        try:
            for statement in parse_script(source).statements:
                try:
                    _check(statement)
                    declaring.declare(statement)
                except Interrupted:
                    raise
                except ZqlError as error:
                    errors += error.errors if isinstance(error, ErrorList) else [error]
        finally:
            self._opened.pop()
        if errors:
            raise errors[0] if len(errors) == 1 else ErrorList(errors)
        if folder != LIBRARY:
            self.doubts.take(declaring.doubts)
        return found


class Library(Mapping[str, Declarations]):
    """The functions that ZQL brings along, by name; a file is read when its function is called."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._read: dict[str, Declarations] = {}

    def __getitem__(self, name: str) -> Declarations:
        if name not in self._read:
            path = os.path.join(LIBRARY, f"{name}.zql")
            if name not in _library_names():
                raise KeyError(name)
            # The files of a library call each other: what is being read is known already.
            self._read[name] = Declarations()
            try:
                self._read[name] = self._modules.declared(_read(path, None), path)
            except BaseException:
                del self._read[name]
                raise
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in _library_names()

    def __iter__(self) -> Iterator[str]:
        return iter(_library_names())

    def __len__(self) -> int:
        return len(_library_names())


@cache
def _library_names() -> tuple[str, ...]:
    try:
        files = sorted(os.listdir(LIBRARY))
    except OSError:
        return ()
    return tuple(f.removesuffix(".zql") for f in files if f.endswith(".zql"))


def _check(statement: ast.Statement) -> None:
    if not isinstance(statement, _DECLARES):
        raise BindError(
            "a module holds declarations only",
            code="P416",
            span=statement.span,
            hint="CREATE TEMP VIEW gives a query a name",
        )
    if isinstance(statement, ast.Declare) and statement.default is None:
        raise BindError(
            f"${statement.name.text} of a module needs a DEFAULT: nobody gives it a value",
            code="P416",
            span=statement.span,
        )


def _read(path: str, span: Span | None) -> Source:
    """The text of a module, under the name that messages show."""
    name = os.path.relpath(path)
    if name.startswith(os.pardir):
        name = os.path.normpath(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return Source(name, file.read())
    except OSError as error:
        raise BindError(
            f"cannot read {name}: {error.strerror}",
            code="N220",
            span=span,
            hint="the path is relative to the script",
        ) from None
    except UnicodeDecodeError as error:
        raise BindError(
            f"{name} is not UTF-8: byte {error.start}", code="N220", span=span
        ) from None


def _note(error: ZqlError, span: Span | None) -> None:
    """Says where the module with the error is imported."""
    if span is None:
        return
    note = f"imported at {span.source.name}:{span.line}"
    for each in error.errors if isinstance(error, ErrorList) else [error]:
        if each.span is not None and each.span.source is not span.source:
            each.notes = (*each.notes, note)


def _no_setting(name: str, _value: Any) -> NoReturn:
    raise BindError(f"a module cannot set {name}", code="P416")
