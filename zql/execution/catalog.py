"""The binder's questions answered by DuckDB, the file system, and the session's objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zql.errors import BindError, StorageError
from zql.execution.engine import Engine, EngineError
from zql.execution.handed import HandedTables
from zql.execution.own_formats import OwnFormats
from zql.execution.remote_files import add_filesystems
from zql.expr import expression as ex
from zql.expr.functions import PythonFormat, PythonFunction
from zql.expr.sql import expression_sql, quote_identifier
from zql.logical import plan as lp
from zql.logical.catalog import (
    IN_EXPRESSION,
    DeclaredFunction,
    FileTable,
    FunctionFacts,
    ObjectTable,
    ProbeWay,
    QueryProblem,
    Shared,
    TypeProblem,
    WriteTarget,
)
from zql.logical.plan import example_path
from zql.physical.sql import render
from zql.schema import DataType, Field, Schema
from zql.tree import Node, map_children, walk
from zql.user_cache import read_cached, write_cached

if TYPE_CHECKING:
    from zql.storage.dataset import Dataset
    from zql.storage.format import Format

Finder = Callable[[str], object | None]
Prober = Callable[
    [PythonFunction, lp.LogicalPlan, Sequence[str], Sequence[str], bool, Shared, ProbeWay],
    PythonFunction,
]


Columns = tuple[tuple[str, DataType], ...]
"""Names and types of columns."""

_MOST_DESCRIBED = 10_000
_LEAVES = lp.Scan | lp.MemoryScan | lp.StageResult | lp.BatchInput | lp.CommonRows | lp.RoundRows


class EngineCatalog:
    """Implements `logical.catalog.Catalog`.

    `objects` are registered under their names; `tables` are handed in with this text, and `find`
    gives a Python object for another name. `handed` gives keys to those that plans refer to, and
    `held` has them, as long as the catalog is there. `pending`
    are the outputs of earlier statements that were checked, not run. While `provisional` is set the
    types of files may come from a look at some rows; `sampled` then collects those tables.
    `described` keeps answers of DuckDB, for the catalogs of a session together, and `formats` are
    those of the user's own that it knows.
    """

    def __init__(  # noqa: PLR0913 - a session's catalog has all of its session
        self,
        engine: Callable[[], Engine],
        objects: dict[str, object],
        *,
        find: Finder = lambda _name: None,
        probe: Prober | None = None,
        base_dir: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        described: dict[str, Columns] | None = None,
        tables: Mapping[str, object] | None = None,
        handed: HandedTables | None = None,
        formats: OwnFormats | None = None,
    ) -> None:
        self._engine = engine
        self._objects = objects
        self._find = find
        self._given = dict(tables or {})
        self._handed = handed or HandedTables()
        self.held: dict[str, object] = {}
        self.formats = formats or OwnFormats()
        self._probe = probe
        self._base_dir = base_dir
        self._storage_options = dict(storage_options or {})
        self._described = described if described is not None else {}
        self._functions: Mapping[str, FunctionFacts] | None = None
        self.pending: list[lp.Write] = []
        self.provisional = False
        self.sampled: list[Dataset] = []

    # ---- tables --------------------------------------------------------------------------------

    def files(
        self,
        patterns: Sequence[str],
        reader: str | None,
        options: Mapping[str, Any],
        columns: frozenset[str] | None,
    ) -> FileTable:
        from zql.storage.dataset import open_dataset

        name = patterns[0] if len(patterns) == 1 else f"{patterns[0]}, ..."
        try:
            add_filesystems(self._engine(), patterns, self._storage_options)
            found = open_dataset(
                patterns,
                options,
                self._engine(),
                reader=reader,
                columns=None if columns is None else sorted(columns),
                provisional=self.provisional,
                storage_options=self._storage_options,
                own=self.formats,
            )
        except StorageError:
            table = self._written_before(patterns)
            if table is None:
                raise
            return table
        if found.provisional:
            self.sampled.append(found)
        return FileTable(
            name,
            found.format.name,
            found.files,
            found.schema,
            found.folder_columns,
            tuple(found.options.items()),
            found.provisional,
            _own(found.format),
        )

    def own_readers(self) -> Sequence[str]:
        return [f"read_{name}" for name in self.formats.names()]

    def reader_of(self, function: PythonFunction) -> str | None:
        name = self.formats.name_of(function)
        return None if name is None else f"read_{name}"

    def _written_before(self, patterns: Sequence[str]) -> FileTable | None:
        """Files that an earlier statement of a script under `check` would have written."""
        import fnmatch

        for output in reversed(self.pending):
            schema, hive = _read_back(output)
            example = example_path(output.uri, output.format, output.folders)
            if all(
                p == output.uri or fnmatch.fnmatch(example, f"{p}*" if p.endswith("/") else p)
                for p in patterns
            ):
                from zql.storage import registry

                own = _own(registry.by_name(output.format, self.formats))
                return FileTable(patterns[0], output.format, (), schema, hive, own=own)
        return None

    def object(self, name: str) -> ObjectTable | None:
        if name in self._objects and name not in self._given:
            key, value = name, self._objects[name]
        else:
            found = self._given[name] if name in self._given else self._find(name)
            if found is None:
                return None
            if name not in self.held:
                self.held[name] = arrow_table(name, found)
            value = self.held[name]
            key = self._handed.key(name, value, self._objects)
        engine = self._engine()
        engine.register("zql_object", value)
        try:
            columns = engine.describe("SELECT * FROM zql_object")
        finally:
            engine.unregister("zql_object")
        schema = Schema(tuple(Field(n, t) for n, t in columns))
        return ObjectTable(key, schema, getattr(value, "nbytes", None))

    def object_names(self) -> Iterable[str]:
        return list({**self._objects, **self._given})

    def module(self, target: str, is_path: bool) -> Mapping[str, PythonFunction]:
        from zql.execution.introspect import public_functions, user_module

        module = user_module(target, is_path=is_path, base_dir=self._base_dir)
        self.formats.add_module(module)
        return public_functions(module)

    def declared_function(self, wanted: DeclaredFunction) -> PythonFunction:
        from zql.execution.declared_functions import declared_function

        return declared_function(wanted, self._base_dir)

    def missing_package(self, packages: Sequence[str]) -> str | None:
        from zql.execution.declared_functions import missing_package

        return missing_package(packages)

    # ---- functions and types ---------------------------------------------------------------------

    def function(self, name: str) -> FunctionFacts | None:
        return self._all_functions().get(name)

    def function_names(self) -> Iterable[str]:
        return [n for n in self._all_functions() if n[:1].isalpha()]

    def _all_functions(self) -> Mapping[str, FunctionFacts]:
        if self._functions is None:
            self._functions = function_table(self._engine())
        return self._functions

    def types(self, exprs: Sequence[ex.Expr]) -> tuple[DataType, ...]:
        exprs = [_without_python(e) for e in exprs]
        columns = {n.name: n for e in exprs for n in _columns(e)}
        items = ", ".join(f"{expression_sql(e, _plan_sql)} AS c{i}" for i, e in enumerate(exprs))
        sql = f"SELECT {items}"
        if columns:
            sql += f" FROM {typed_rows(columns.values())}"
        return tuple(t for _, t in self._columns_of(sql))

    def common_type(self, types: Sequence[DataType]) -> DataType:
        if len(set(types)) == 1:
            return types[0]
        branches = " UNION ALL ".join(f"SELECT CAST(NULL AS {t}) AS c" for t in types)
        return self._columns_of(f"SELECT * FROM ({branches})")[0][1]

    def fields(self, type: DataType) -> Schema:
        if not type.startswith("STRUCT("):
            return Schema()
        columns = self._columns_of(f"SELECT unnest(CAST(NULL AS {type}))")
        return Schema(tuple(Field(n, t) for n, t in columns))

    def table_function(self, name: str, args: Sequence[ex.Expr]) -> Schema:
        inner = ", ".join(expression_sql(a) for a in args)
        used = {n.name: n for a in args for n in _columns(a)}
        sql = f"SELECT * FROM {name}({inner})"
        if used:  # columns of the left side of LATERAL
            sql = (
                f"SELECT _made.* FROM {typed_rows(used.values())} AS _row, LATERAL ({sql}) AS _made"
            )
        columns = self._columns_of(sql)
        # DuckDB gives no row for a file that is not there: a slip would go unseen.
        looks = name in ("read_text", "read_blob") and not used
        if looks and not self._engine().rows(f"SELECT count(*) FROM glob({inner})")[0][0]:
            from zql.storage.listing import not_found

            raise not_found(inner.strip("'"))
        return Schema(tuple(Field(n, t) for n, t in columns))

    def query(self, sql: str) -> tuple[str, Schema]:
        text = sql.rstrip().rstrip(";").rstrip()
        with self._engine().cursor() as engine:  # where nothing of a run has a name
            _check_query(engine, sql, text)
            # What shows things (SUMMARIZE) is no SELECT behind DESCRIBE, but in parentheses.
            for head, tail in (("", ""), _AS_TABLE):
                try:
                    columns = engine.describe(head + text + tail)
                except EngineError as error:
                    if error.kind != "Parser" or head:
                        raise _query_problem(error, "DESCRIBE " + head, text) from None
                else:
                    return text, Schema(tuple(Field(n, t) for n, t in columns))
        raise TypeError(sql)

    def evaluate(self, expr: ex.Expr) -> Any:
        try:
            return self._engine().rows(f"SELECT {expression_sql(expr, _plan_sql)}")[0][0]
        except EngineError as error:
            raise TypeProblem(error.message, error.candidates) from None

    def _columns_of(self, sql: str) -> Columns:
        """The columns of a SELECT that reads nothing: they are always the same."""
        found = self._described.get(sql)
        if found is None:
            found = tuple(self._describe(sql))
            if len(self._described) >= _MOST_DESCRIBED:
                self._described.clear()
            self._described[sql] = found
        return found

    def _describe(self, sql: str) -> list[tuple[str, DataType]]:
        try:
            return self._engine().describe(sql)
        except EngineError as error:
            raise TypeProblem(error.message, error.candidates) from None

    # ---- Python and outputs ---------------------------------------------------------------------

    def probe(
        self,
        function: PythonFunction,
        plan: lp.LogicalPlan,
        record: Sequence[str],
        keywords: Sequence[str],
        tolerant: bool = False,
        shared: Shared = (),
        way: ProbeWay = IN_EXPRESSION,
    ) -> PythonFunction:
        if self._probe is None:
            raise BindError(
                f"the type of what {function.name} returns is not known",
                code="T319",
                hint="annotate the function, or write RETURNS",
            )
        return self._probe(function, plan, record, keywords, tolerant, shared, way)

    def write_target(self, uri: str, options: Mapping[str, Any]) -> WriteTarget:
        from zql.execution.sink import check_target

        found = check_target(uri, options, self.formats)
        return WriteTarget(found.format, found.mode, found.options, found.own)


def _read_back(output: lp.Write) -> tuple[Schema, tuple[str, ...]]:
    """The columns of the files of an output, as a scan has them, and those that folders name."""
    both = dict(output.options).get("write_partition_columns")
    apart = () if both else output.folders
    pairs = zip(output.names, output.columns, strict=True)
    fields = tuple(Field(name, column.type) for name, column in pairs if name not in apart)
    return Schema((*fields, *(Field(name, "VARCHAR") for name in apart))), apart


def _own(format_: Format) -> PythonFormat | None:
    """What a plan keeps of a format that is the user's."""
    return getattr(format_, "own", None)


_AS_TABLE = ("SELECT * FROM (\n", "\n)")


def _check_query(engine: Engine, sql: str, text: str) -> None:
    """Raises `QueryProblem` for all but one SELECT that can stand in parentheses."""
    try:
        kinds = engine.kinds(sql)
    except EngineError as error:
        raise _query_problem(error, "", sql) from None
    if len(kinds) != 1 or kinds[0][0] != "SELECT":
        raise QueryProblem("duckdb(..) takes one SELECT, and nothing else")
    if kinds[0][1]:
        raise QueryProblem("a query in duckdb(..) has no parameters", hint="|> WHERE behind it has")
    try:
        engine.kinds(text.join(_AS_TABLE))
    except EngineError:
        hint = "leave out the ; and what stands behind it"
        raise QueryProblem("the query has something behind its end", hint=hint) from None


def _query_problem(error: EngineError, head: str, sql: str) -> QueryProblem:
    """DuckDB's refusal of a query, its place in bytes of all that it got made one in the query."""
    position = None
    if error.position is not None:
        before = (head + sql).encode()[: error.position].decode(errors="ignore")
        position = len(before) - len(head)
    message, _, more = error.message.partition("\n")
    hint = more.strip().replace("Candidate bindings:", "columns there:") or None
    if message.startswith("Table with name"):
        hint = "it sees files and what DuckDB has: join tables of the script behind it"
    inside = position is not None and 0 <= position <= len(sql)
    return QueryProblem(f"DuckDB: {message}", position if inside else None, hint)


def arrow_table(name: str, value: object) -> object:
    """A Python object as an Arrow table: Arrow, pandas, polars, anything with an Arrow stream,
    a list of dicts, or a dict of lists. Raises `BindError` for others.
    """
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if isinstance(value, list) and all(isinstance(r, dict) for r in value):
        keys = list(dict.fromkeys(k for r in value for k in r))
        return pa.table({k: [r.get(k) for r in value] for k in keys})
    if isinstance(value, dict):
        return pa.table(value)
    if hasattr(value, "__arrow_c_stream__"):
        return pa.table(value)
    if hasattr(value, "to_arrow"):
        return value.to_arrow()
    kind = type(value).__name__
    raise BindError(
        f'"{name}" is a {kind}, which is no table',
        code="T320",
        hint="hand in Arrow, pandas, polars, a list of dicts or a dict of lists",
    )


def typed_rows(columns: Iterable[ex.Column]) -> str:
    """A relation without rows that has these columns: enough to ask DuckDB for types."""
    items = ", ".join(
        f"CAST(NULL AS {c.type or 'VARCHAR'}) AS {quote_identifier(c.name)}" for c in columns
    )
    return f"(SELECT {items})" if items else "(SELECT 1)"


def _plan_sql(plan: Node) -> str:
    leaves: dict[Node, str] = {}

    def visit(node: Node) -> Node:
        if isinstance(node, lp.PythonOperator):
            node = lp.BatchInput(node.columns)
        if isinstance(node, _LEAVES):
            leaves[node] = typed_rows(node.columns)
            return node
        return map_children(node, visit)

    plan = visit(plan)
    return render(plan, leaves)


def _without_python(expr: ex.Expr) -> ex.Expr:
    """Python calls replaced by NULLs of their types, which DuckDB can look at; objects by NULLs."""

    def visit(node: Node) -> Node:
        if isinstance(node, ex.PythonCall):
            return ex.Cast(ex.Literal(None), node.type)
        if isinstance(node, ex.PythonAggregateCall):
            null = ex.Cast(ex.Literal(None), node.type)
            return ex.Call(("any_value",), (null,), aggregate=True)
        if isinstance(node, ex.SharedObject | ex.TaskContext):
            return ex.Literal(None)
        return map_children(node, visit)

    return visit(expr)  # type: ignore[return-value]


def _columns(expr: ex.Expr) -> list[ex.Column]:
    """Columns that an expression takes from its input or from outer queries."""
    made: set[str] = set()
    used: list[ex.Column] = []
    for node in walk(expr):
        if isinstance(node, lp.LogicalPlan):
            made.update(c.name for c in node.columns)
        elif isinstance(node, ex.Column):
            used.append(node)
    return [c for c in used if c.name not in made]


_FUNCTIONS: dict[str, dict[str, FunctionFacts]] = {}


def function_table(engine: Engine) -> dict[str, FunctionFacts]:
    """DuckDB's functions by name; kept in the user's cache, since asking takes tens of ms."""
    version = engine.version()
    if version not in _FUNCTIONS:
        _FUNCTIONS[version] = _function_table(engine, f"functions-{version}.json")
    return _FUNCTIONS[version]


def _function_table(engine: Engine, name: str) -> dict[str, FunctionFacts]:
    stored = read_cached(name)
    if stored is not None:
        try:
            return {n: FunctionFacts(frozenset(k), v) for n, k, v in json.loads(stored)}
        except (ValueError, TypeError):
            pass
    found = engine.functions()
    rows = [[n, sorted(k), v] for n, (k, v) in sorted(found.items())]
    write_cached(name, json.dumps(rows).encode())
    return {n: FunctionFacts(k, v) for n, (k, v) in found.items()}
