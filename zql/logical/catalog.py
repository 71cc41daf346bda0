"""What binding asks of the world: files, functions, types. A port; execution has the adapter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from zql.expr.expression import Column, Expr, SharedObject, TaskContext
from zql.expr.functions import PythonFormat, PythonFunction
from zql.logical.plan import LogicalPlan
from zql.schema import DataType, InputFile, Schema
from zql.tree import node

NOTHING = Column("zql nothing", "BOOLEAN")
"""The column of a plan whose rows are counted only: a call for each takes no argument of them."""

Shared = tuple[tuple[int | str, SharedObject | TaskContext], ...]
"""Arguments of a call that are no values of rows: by place, or by name."""


@node
class FileTable:
    """Files of one format and their common columns; `hive` names those that come from folders.

    The types of a provisional table were seen on some rows: a scan must check them on all. `own` is
    the format when it is the user's.
    """

    name: str
    format: str
    files: tuple[InputFile, ...] = field(repr=False)
    schema: Schema
    hive: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    provisional: bool = False
    own: PythonFormat | None = None


@node
class ObjectTable:
    """A Python object that the session holds under `key`; `size` are its bytes, if known."""

    key: str
    schema: Schema
    size: int | None = None


@node
class FunctionFacts:
    """A DuckDB function: its kinds (scalar, aggregate, table, macro, window) and stability."""

    kinds: frozenset[str]
    volatile: bool = False


@node
class WriteTarget:
    """A checked WRITE: the format found (`own` when it is the user's), options under one name."""

    format: str
    mode: str
    options: tuple[tuple[str, Any], ...]
    own: PythonFormat | None = None


@node
class DeclaredFunction:
    """A CREATE FUNCTION .. LANGUAGE python: where its Python function is, and its options.

    `source` is its text, which begins on the line `source_line` of `source_name`; else `library` is
    a file or a module. `init` and `shared` are the arguments that a class is made with, `calls` the
    options about how calls are made.
    """

    name: str
    source: str = ""
    source_name: str = ""
    source_line: int = 1
    library: str = ""
    entry_point: str = ""
    returns: DataType | None = None
    volatile: bool | None = None
    init: Mapping[str, Any] | None = None
    shared: Mapping[str, SharedObject] = field(default_factory=dict)
    calls: Mapping[str, Any] = field(default_factory=dict)


@node
class ProbeWay:
    """How a function that is tried is called: as the operator `kind` does.

    For REDUCE so many columns behind the record are the `keys` of groups; `shard` is the parameter
    of MAP SHARDS that takes the shard.
    """

    kind: str = ""
    keys: int = 0
    shard: str = ""


IN_EXPRESSION = ProbeWay()
"""A call for each row, with the row's columns as arguments."""


class TypeProblem(Exception):  # noqa: N818 - no error of its own: the binder makes one of it
    """DuckDB refuses an expression; `message` is its own text without decoration."""

    def __init__(self, message: str, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.candidates = candidates


class QueryProblem(Exception):  # noqa: N818 - no error of its own: the binder makes one of it
    """DuckDB refuses a query of the script; `position` is an offset in its characters."""

    def __init__(self, message: str, position: int | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.hint = hint


class SourceProblem(Exception):  # noqa: N818 - no error of its own: the binder makes one of it
    """Python source of a script that cannot be used; `line` is one of the script, or not known.

    `column` counts from 1 in the line of the source.
    """

    def __init__(
        self,
        message: str,
        code: str,
        line: int | None,
        column: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.line = line
        self.column = column
        self.notes = notes


class Catalog(Protocol):
    """Answers about the world. Every method may raise a `ZqlError` without a span."""

    def files(
        self,
        patterns: Sequence[str],
        reader: str | None,
        options: Mapping[str, Any],
        columns: frozenset[str] | None,
    ) -> FileTable:
        """Finds the files, their format (of `reader` or of their names) and their columns.

        With `columns` others than these may be left out.
        """

    def own_readers(self) -> Sequence[str]:
        """The readers of formats that are the user's own, as `read_warc`."""

    def reader_of(self, function: PythonFunction) -> str | None:
        """The reader of the format that a function is decorated to be; None for any other."""

    def object(self, name: str) -> ObjectTable | None:
        """A Python object handed in under this name."""

    def object_names(self) -> Iterable[str]:
        """Names of the objects handed in."""

    def module(self, target: str, is_path: bool) -> Mapping[str, PythonFunction]:
        """The public functions of a Python file (relative to the script) or module."""

    def declared_function(self, wanted: DeclaredFunction) -> PythonFunction:
        """The Python function of a CREATE FUNCTION, its parameters as Python has them.

        Raises `SourceProblem` for what is wrong in its source.
        """

    def missing_package(self, packages: Sequence[str]) -> str | None:
        """The first of these Python packages that is not installed."""

    def function(self, name: str) -> FunctionFacts | None:
        """What DuckDB knows of a function; None when it has none of that name."""

    def function_names(self) -> Iterable[str]:
        """Names of all functions of DuckDB."""

    def types(self, exprs: Sequence[Expr]) -> tuple[DataType, ...]:
        """The types of bound expressions; their columns know theirs. Raises `TypeProblem`."""

    def common_type(self, types: Sequence[DataType]) -> DataType:
        """The type that holds values of all these. Raises `TypeProblem`."""

    def fields(self, type: DataType) -> Schema:
        """The fields of a STRUCT type; empty for others."""

    def evaluate(self, expr: Expr) -> Any:
        """The value of a constant expression. Raises `TypeProblem`."""

    def table_function(self, name: str, args: Sequence[Expr]) -> Schema:
        """The columns of a table function of DuckDB. Raises `TypeProblem`."""

    def query(self, sql: str) -> tuple[str, Schema]:
        """A query in DuckDB's words as one SELECT without its `;`, and its columns.

        Raises `QueryProblem` for what DuckDB refuses, and for all that is no single SELECT.
        """

    def probe(
        self,
        function: PythonFunction,
        plan: LogicalPlan,
        record: Sequence[str],
        keywords: Sequence[str],
        tolerant: bool = False,
        shared: Shared = (),
        way: ProbeWay = IN_EXPRESSION,
    ) -> PythonFunction:
        """The function with its result type, seen on the first rows of `plan`.

        The first columns of the plan form the record when `record` names them, else they are
        positional arguments; the last ones are the named arguments `keywords`. Calls that fail tell
        nothing when it is `tolerant`; `shared` objects are handed in at their places. `way` says
        how the operator makes the calls.
        """

    def write_target(self, uri: str, options: Mapping[str, Any]) -> WriteTarget:
        """Checks a WRITE's URI and options."""
