"""Statements that declare something: what they add to the names that later statements know."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from zql.errors import BindError
from zql.logical.bind_shared import shared_object
from zql.logical.binder import bind, check_declaration, declared_function
from zql.logical.catalog import Catalog
from zql.logical.constants import constant_value
from zql.logical.context import Context, Declarations
from zql.logical.doubts import Doubts
from zql.parameters import declare
from zql.syntax import ast

Import = ast.ImportPython | ast.ImportScript
Setter = Callable[[str, Any], None]
Loader = Callable[[ast.ImportScript], Declarations]


class Declaring:
    """Takes in the declarations of one script, or of one module.

    `load` gives the declarations of a ZQL module; `change` changes a setting.
    """

    def __init__(
        self,
        declarations: Declarations,
        catalog: Catalog,
        params: Mapping[str, Any],
        load: Loader,
        change: Setter,
    ) -> None:
        self.declarations = declarations
        self.catalog = catalog
        self.params = params
        self.load = load
        self.change = change
        self.imported: set[str] = set()
        self.doubts = Doubts()

    def declare(self, statement: ast.Statement) -> None:
        """Takes one statement in. Raises `ZqlError`; then nothing has changed."""
        declarations = self.declarations
        context = Context(self.catalog, declarations, _no_query)
        match statement:
            case ast.Declare():
                value = declare(statement, self.params, self.catalog, context)
                declarations.parameters[statement.name.text] = value
            case ast.DeclareShared():
                declarations.parameters[statement.name.text] = shared_object(context, statement)
            case ast.CreateView():
                self.create_view(statement)
            case ast.CreateFunction():
                self.create_function(statement, declarations.sql_functions)
            case ast.CreatePythonFunction():
                self.create_python_function(statement)
            case ast.CreateTableFunction():
                self.create_function(statement, declarations.table_functions)
            case ast.ImportPython() | ast.ImportScript():
                self.take_in(statement, context)
            case ast.SetOption():
                setting = constant_value(context, statement.value)
                context.at(statement.name.span, lambda: self.change(statement.name.text, setting))
            case _:
                raise BindError(
                    "this statement is not supported yet", code="P404", span=statement.span
                )

    def create_view(self, statement: ast.CreateView) -> None:
        """CREATE VIEW: its query is bound once to see that it can be."""
        name = statement.name.text
        known = self.declarations
        if name in known.tables or (name in known.views and not statement.replace):
            kind = "view" if name in known.views else "table"
            raise BindError(
                f'the {kind} "{name}" is there already',
                code="N217",
                span=statement.name.span,
                hint="write CREATE OR REPLACE TEMP VIEW, or give it another name"
                if kind == "view"
                else "take another name",
            )
        # Bound as it will be where it is read: inside another query.
        inner = ast.QuerySource(statement.query, span=statement.query.span)
        whole = ast.Query((inner,), span=inner.span)
        bind(whole, self.catalog, self.declarations, self.doubts)
        self.declarations.views[name] = statement

    def create_function(
        self,
        statement: ast.CreateFunction | ast.CreateTableFunction,
        functions: dict[str, Any],
    ) -> None:
        """A function; while it is checked it is known, so that a call of itself is seen as one."""
        name = statement.name.text
        before = dict(functions)
        if statement.replace:
            _forget(functions, name)
        functions.setdefault(name, statement)
        try:
            found = check_declaration(statement, self.catalog, self.declarations)
            self.doubts.take(found)
        except BaseException:
            functions.clear()
            functions.update(before)
            raise

        if isinstance(statement, ast.CreateFunction):
            _forget(self.declarations.functions, name)

    def create_python_function(self, statement: ast.CreatePythonFunction) -> None:
        """A Python function: it takes the place of one of its name, if that is to be replaced."""
        function = declared_function(statement, self.catalog, self.declarations)
        name = statement.name.text
        _forget(self.declarations.functions, name)
        _forget(self.declarations.sql_functions, name)
        self.declarations.functions[name] = function

    def take_in(self, statement: Import, context: Context) -> None:
        """IMPORT: the alias is free among the imports of this text."""
        alias = alias_of(statement)
        if alias in self.imported:
            words = "PYTHON" if isinstance(statement, ast.ImportPython) else "MODULE"
            raise BindError(
                f'two imports are called "{alias}"',
                code="N217",
                span=statement.span,
                hint=f"say how this one is to be called: IMPORT {words} .. AS name",
            )
        self.imported.add(alias)
        declarations = self.declarations
        if isinstance(statement, ast.ImportScript):
            declarations.scripts[alias] = self.load(statement)
            declarations.modules.pop(alias, None)
            return
        declarations.modules[alias] = context.at(
            statement.span, lambda: self.catalog.module(statement.target, statement.is_path)
        )
        declarations.scripts.pop(alias, None)


def _forget(functions: dict[str, Any], name: str) -> None:
    """Removes what has a name in any case."""
    for other in [n for n in functions if n.casefold() == name.casefold()]:
        del functions[other]


def alias_of(statement: Import) -> str:
    """The name that an import gives its module."""
    if statement.alias:
        return statement.alias.text
    if isinstance(statement, ast.ImportScript):
        return os.path.splitext(os.path.basename(statement.path))[0]
    if statement.is_path:
        return os.path.splitext(os.path.basename(statement.target))[0]
    return statement.target.rsplit(".", 1)[-1]


def declared_name(statement: ast.Statement) -> str | None:
    """The name that a statement would declare."""
    match statement:
        case (
            ast.Declare()
            | ast.DeclareShared()
            | ast.CreateView()
            | ast.CreateTable()
            | ast.CreateFunction()
            | ast.CreatePythonFunction()
            | ast.CreateTableFunction()
        ):
            return statement.name.text
        case ast.ImportPython() | ast.ImportScript():
            return alias_of(statement)
        case _:
            return None


def _no_query(query: ast.Query, _outer: object) -> Any:
    raise BindError(
        "a subquery cannot stand here: nothing has been read yet",
        code="P409",
        span=query.span,
        hint="use the subquery where the value is needed, or hand the value in as a parameter",
    )
