"""Logical operators: the nouns of algebra, frozen and printable.

Every column of a plan has a name that is unique in it, whatever its case; the names that the user
sees stand in `Write.names` and `Query.names`, so that `id` and `Id`, joins of tables with the same
columns, and `t.a` after SET need no renaming tricks. Rows keep their order unless a node says not.
`resources` are what a hint asks for: they take no part in comparisons, and change no result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from zql.expr.expression import Column, Expr, SortKey
from zql.expr.functions import ErrorPolicy, PythonFormat, PythonFunction
from zql.resources import Resources
from zql.schema import InputFile
from zql.source import Span
from zql.tree import Node, node, walk


@node
class Assign(Node):
    """A computed column: `column` gets the value of `expr`."""

    column: Column
    expr: Expr


@node
class ScanColumn(Node):
    """A column read from files: `source` is its exact name there; `kind` is data, filename, row
    (`file_row_number`, from 0), hive (from a `key=value` folder) or place (it grows along the rows
    of all files).
    """

    column: Column
    source: str
    kind: str = "data"


@node
class Scan(Node):
    """Files of one format. `options` are the reader's, as (name, value) pairs of plain values.

    `verify` says that the types were seen on some rows only: reading must fail where they do not
    hold. With `on_error` rows that cannot be read are passed over; the options say so too. `own` is
    the format when it is the user's.
    """

    name: str
    format: str
    files: tuple[InputFile, ...] = field(repr=False)
    columns_read: tuple[ScanColumn, ...]
    options: tuple[tuple[str, object], ...] = field(default=(), hash=False)
    verify: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    on_error: ErrorPolicy | None = None
    own: PythonFormat | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c.column for c in self.columns_read)


@node
class MemoryScan(Node):
    """A Python object handed in by name; the session holds it under `key`. `sources` are its own
    column names, one for each of `columns`; `size` are its bytes, if they are known.
    """

    key: str
    columns: tuple[Column, ...]
    sources: tuple[str, ...]
    size: int | None = field(default=None, compare=False, repr=False)


@node
class StageResult(Node):
    """The rows that another stage left, in its order. Only after splitting into stages."""

    stage: int
    columns: tuple[Column, ...]


@node
class BatchInput(Node):
    """The rows that the step before hands over. Only inside a stage's steps."""

    columns: tuple[Column, ...]


@node
class SharedRows(Node):
    """The rows of a table that `Shared` names; `sources` are the names that it has for the columns.

    Their order is open.
    """

    table: str
    columns: tuple[Column, ...]
    sources: tuple[str, ...]


@node
class Shared(Node):
    """A statement, and tables that are computed once for all their uses in it. Only in stages.

    A table may use those before it.
    """

    input: LogicalPlan
    tables: tuple[tuple[str, LogicalPlan], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class TableFunction(Node):
    """`range(10)`, `unnest(..)`: a table function of DuckDB that reads no file. `sources` are the
    names DuckDB gives.
    """

    name: str
    args: tuple[Expr, ...]
    columns: tuple[Column, ...]
    sources: tuple[str, ...]


@node
class DuckdbQuery(Node):
    """`duckdb($$ SELECT .. $$)`: one SELECT in DuckDB's own words, checked by it when bound.

    `sources` are the names DuckDB gives its columns.
    """

    sql: str
    columns: tuple[Column, ...]
    sources: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@node
class Values(Node):
    """Literal rows."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]


@node
class Filter(Node):
    """Rows for which the predicate is TRUE."""

    input: LogicalPlan
    predicate: Expr
    resources: Resources | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Project(Node):
    """Exactly these columns; window functions allowed, aggregates not."""

    input: LogicalPlan
    assigns: tuple[Assign, ...]
    resources: Resources | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(a.column for a in self.assigns)


@node
class Aggregate(Node):
    """Groups; keys first. No key: one row. Order is open.

    With `sets` the rows are grouped once for each, by the keys of these numbers; the other keys are
    NULL then. The keys are columns of the input in that case. The rows may be dealt to so many
    `parts` by their keys, and grouped in each.
    """

    input: LogicalPlan
    keys: tuple[Assign, ...]
    aggregates: tuple[Assign, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    parts: int = 1
    resources: Resources | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(a.column for a in self.keys + self.aggregates)


@node
class Distinct(Node):
    """Whole-row duplicates removed. Order is open."""

    input: LogicalPlan
    resources: Resources | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class DistinctOn(Node):
    """The first row for each key, by `order`, then by input order. Order is open.

    `place` is a column of the input that grows along its rows, when there is one.
    """

    input: LogicalPlan
    on: tuple[Expr, ...]
    order: tuple[SortKey, ...] = ()
    place: Column | None = None
    resources: Resources | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Sort(Node):
    """Rows sorted by the keys; those that are equal in all keys come in any order.

    `shuffles` says that the first key is a ticket by chance, the second the place in the input.
    Rows may be dealt to so many `parts`, by ranges of tickets or of the keys, before they are
    sorted.
    """

    input: LogicalPlan
    keys: tuple[SortKey, ...]
    shuffles: bool = False
    parts: int = 1
    resources: Resources | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Limit(Node):
    """`count` rows (all when None) after the first `offset`; both are numbers of rows."""

    input: LogicalPlan
    count: int | None
    offset: int = 0

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Join(Node):
    """Kind INNER, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI, ASOF, ASOF LEFT. Order is open.

    `strategy` is what a hint asks for: broadcast, hash or merge. With `broadcast`
    tasks that make the rows of the left side join them themselves, each to all of the right one.
    """

    left: LogicalPlan
    right: LogicalPlan
    kind: str
    condition: Expr | None = None
    strategy: str = field(default="", compare=False, repr=False)
    resources: Resources | None = field(default=None, compare=False, repr=False)
    broadcast: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.kind in ("SEMI", "ANTI"):
            return self.left.columns
        return self.left.columns + self.right.columns


@node
class Lateral(Node):
    """The right side computed for each row of the left, whose columns it sees.

    Kind INNER, LEFT or CROSS, the condition as in `Join`. Order is open.
    """

    left: LogicalPlan
    right: LogicalPlan
    kind: str
    condition: Expr | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns + self.right.columns


@node
class SetOperation(Node):
    """UNION, INTERSECT, EXCEPT by position; UNION ALL appends and so keeps order."""

    kind: str
    inputs: tuple[LogicalPlan, ...]
    columns: tuple[Column, ...]
    all: bool = True


@node
class RecursiveUnion(Node):
    """The rows of `input`, then those that `step` makes of the last ones, until it makes none.

    Inside of the step `RoundRows` of the same `name` are the rows that the last round added.
    Without `all` a row that has been there is not added again. Order is open.
    """

    name: str
    input: LogicalPlan
    step: LogicalPlan
    columns: tuple[Column, ...]
    all: bool = True


@node
class RoundRows(Node):
    """The rows that the last round of the `RecursiveUnion` of this name added; `sources` are its
    columns there, one for each of `columns`.
    """

    name: str
    columns: tuple[Column, ...]
    sources: tuple[str, ...]


@node
class Unnest(Node):
    """One row for each element; `position` counts from `base`; `outer` keeps rows without any."""

    input: LogicalPlan
    list: Expr
    column: Column
    position: Column | None = None
    base: int = 0
    outer: bool = False
    resources: Resources | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        extra = (self.column,) if self.position is None else (self.column, self.position)
        return self.input.columns + extra


@node
class PythonColumn(Node):
    """One Python call made for each row by `Apply`.

    `args` and `keywords` are columns of the input or literals; `guard` is a BOOLEAN column of the
    input: the call is made only where it is TRUE, else the result is NULL. An exception of a `safe`
    call gives NULL; with `on_error` its rows go, or get NULL and TRUE in the column `failed`.
    """

    column: Column
    function: PythonFunction
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...] = ()
    guard: Column | None = None
    safe: bool = False
    on_error: ErrorPolicy | None = None
    failed: Column | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.column,) if self.failed is None else (self.column, self.failed)

    @property
    def on_every_row(self) -> bool:
        """Whether it must be made for each row that comes: it is volatile, or failures count."""
        return self.function.volatile or self.on_error is not None


@node
class Apply(Node):
    """Adds the results of Python calls at the right; made by `isolate_python_calls`."""

    input: LogicalPlan
    calls: tuple[PythonColumn, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(c for call in self.calls for c in call.columns)


@node
class MapRows(Node):
    """`MAP` and its kinds: records in, records out; the result replaces the row.

    The function gets a dict of `record` (user's name, column) pairs, or `args` in its place. The
    records it gives have the keys `names`, one for each of `made`; `kind` is MAP, FLATMAP,
    MAP BATCHES or MAP SHARDS. A batch has `batch_rows` rows, as many as the engine takes when None;
    the parameter `shard` of a function of shards takes what is known of the shard. `carried` are
    columns of the input that go beside, with the value of the row that each record came from: of
    MAP and FLATMAP only.
    """

    input: LogicalPlan
    kind: str
    function: PythonFunction
    record: tuple[tuple[str, Column], ...]
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...]
    made: tuple[Column, ...]
    names: tuple[str, ...]
    on_error: ErrorPolicy | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    carried: tuple[Column, ...] = ()
    batch_rows: int | None = None
    shard: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.made + self.carried

    @property
    def is_of_many(self) -> bool:
        """Whether a call is about many rows: of which one a record came cannot be told."""
        return self.kind in ("MAP BATCHES", "MAP SHARDS")

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The keys of the record that the function looks at; None when they are not known."""
        if not self.is_of_many:
            return self.function.reads
        return None if self.function.form else self.function.reads_rows[0]

    @property
    def on_every_row(self) -> bool:
        """Whether it must be called for each row that comes: it is volatile, or failures count."""
        return self.function.volatile or self.on_error is not None


@node
class Reduce(Node):
    """`REDUCE` and its `COMBINE`, by `kind`: a call for each group of equal `keys`.

    The function gets the key and the group's rows, in the order of `order`, then in that of the
    input: dicts of `record` pairs, or values of `args` in their place. Without keys all rows are
    one group, even if there are none. REDUCE gives `columns` under the keys `names` of records.
    COMBINE works on a part of the rows: its `columns` are the keys, then those of `names`; there
    may be several records of a key. Order is open; groups come out sorted by their keys. With
    `on_error` a group whose call fails gives nothing.
    """

    input: LogicalPlan
    kind: str
    function: PythonFunction
    keys: tuple[Column, ...]
    record: tuple[tuple[str, Column], ...]
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...]
    order: tuple[SortKey, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    on_error: ErrorPolicy | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The keys of the record that the function looks at; None when they are not known."""
        return self.function.reads_rows[1] if self.kind == "REDUCE" else None

    @property
    def made(self) -> tuple[Column, ...]:
        """The columns that hold the function's records, one for each of `names`."""
        return self.columns[len(self.columns) - len(self.names) :]


@node
class PythonAggregate(Node):
    """One aggregate of `Fold`: the rows of a group go into an object of a Python class.

    `args` and `keywords` go to `step`, `made_with` to `__init__`: columns of the input or
    constants, the latter only constants. Rows count where the BOOLEAN column `guard` is TRUE. With
    `distinct` a row counts when its arguments have not been there; `order` is that of the rows,
    before that of the input.
    """

    column: Column
    function: PythonFunction
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...] = ()
    made_with: tuple[tuple[str, Expr], ...] = ()
    guard: Column | None = None
    distinct: bool = False
    order: tuple[SortKey, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def taken(self) -> tuple[Column, ...]:
        """The columns that it takes of a row, those of its order aside."""
        given = (*self.args, *(value for _, value in self.keywords))
        guard = () if self.guard is None else (self.guard,)
        return (*(g for g in given if isinstance(g, Column)), *guard)


@node
class Fold(Node):
    """Groups with aggregates of Python classes; made by `fold_python_aggregates`.

    The columns are the `keys`, those of the `natives`, which DuckDB aggregates, and those of the
    `aggregates`. Without keys all rows are one group, even if there are none. Order is open. A
    plan has the `kind` AGGREGATE. In stages there are no natives, and rows of a group come
    together: PARTIAL gives states, as BLOBs, of the groups in a part of the rows; MERGE takes such
    states as its only arguments.
    """

    input: LogicalPlan
    keys: tuple[Column, ...]
    aggregates: tuple[PythonAggregate, ...]
    natives: tuple[Assign, ...] = ()
    kind: str = "AGGREGATE"

    @property
    def columns(self) -> tuple[Column, ...]:
        natives = (assign.column for assign in self.natives)
        return (*self.keys, *natives, *(a.column for a in self.aggregates))


@node
class Rejects(Node):
    """The rows that the `ErrorPolicy` of this number kept, those of an earlier output."""

    number: int
    columns: tuple[Column, ...]


@node
class Write(Node):
    """Rows to files. `names` are the users' names of the columns, in order.

    `shard` is one more column of the input, which is not written: the number of the file that the
    row goes to, by which the input is sorted. Then `options` have the number of `shards`. `own` is
    the format when it is the user's.
    """

    input: LogicalPlan
    uri: str
    format: str
    names: tuple[str, ...]
    mode: str = "error"
    options: tuple[tuple[str, object], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    shard: Column | None = None
    own: PythonFormat | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.input.columns if c != self.shard)

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of the columns whose values name folders."""
        found = dict(self.options).get("partition_by", ())
        return found if isinstance(found, tuple) else ()


@node
class Query(Node):
    """The root of a query that gives rows: `names` are the users' names of its columns."""

    input: LogicalPlan
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Check(Node):
    """Every row passes for which `condition`, a column of the input, is TRUE; any other fails.

    The error says the `text` of the condition and the values of `payload`. `number` tells apart
    the checks of a statement. A `kept` one is computed on all rows before any of them goes on.
    """

    input: LogicalPlan
    condition: Column
    payload: tuple[Column, ...]
    text: str
    number: int
    kept: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Finish(Node):
    """Rows computed and dropped; with a `counter` their number goes into the run's report."""

    input: LogicalPlan
    counter: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Store(Node):
    """Rows kept as a table of the session; `names` are the users' names of its columns."""

    input: LogicalPlan
    table: str
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class Common(Node):
    """Rows that several pipelines of a statement read, computed once; `name` is for people."""

    number: int
    name: str
    input: LogicalPlan

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@node
class CommonRows(Node):
    """The rows of the `Common` of this number, or some columns of them."""

    number: int
    name: str
    columns: tuple[Column, ...]


@node
class Program(Node):
    """A statement with several outputs, or with parts that are computed once.

    A `Common` reads those before it only. The outputs come in the order of the script.
    """

    commons: tuple[Common, ...]
    outputs: tuple[Output, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return ()


Output = Write | Query | Finish | Store
"""What a pipeline ends in."""

Root = Output | Program
"""The plan of a statement."""

ASKING = Filter | Project | Aggregate | Distinct | DistinctOn | Sort | Join | Unnest
"""Operators of SQL that may say what their stage may use."""

LogicalPlan = (
    Scan
    | MemoryScan
    | StageResult
    | BatchInput
    | SharedRows
    | Shared
    | TableFunction
    | DuckdbQuery
    | Values
    | Filter
    | Project
    | Aggregate
    | Distinct
    | DistinctOn
    | Sort
    | Limit
    | Join
    | Lateral
    | SetOperation
    | RecursiveUnion
    | RoundRows
    | Unnest
    | Apply
    | MapRows
    | Reduce
    | Fold
    | Rejects
    | Check
    | Write
    | Query
    | Finish
    | Store
    | Common
    | CommonRows
    | Program
)


PythonOperator = Apply | MapRows | Reduce | Fold
"""What calls Python functions."""


def called_functions(call: PythonOperator) -> tuple[PythonFunction, ...]:
    """The functions that an operator calls, each once."""
    match call:
        case Apply():
            found = [column.function for column in call.calls]
        case Fold():
            found = [aggregate.function for aggregate in call.aggregates]
        case _:
            found = [call.function]
    return tuple(dict.fromkeys(found))


def outputs_of(plan: Root) -> tuple[Output, ...]:
    """What a statement gives, in order."""
    return plan.outputs if isinstance(plan, Program) else (plan,)


def rows_of(plan: Root) -> Query | None:
    """The one output of a statement, when that is rows for the one who asked; else None."""
    shown = main_outputs(plan)
    return shown[0] if len(shown) == 1 and isinstance(shown[0], Query) else None


def main_outputs(plan: Root) -> tuple[Output, ...]:
    """The outputs without those that only come along: rows that are counted, rejects."""
    return tuple(
        output
        for output in outputs_of(plan)
        if not isinstance(output.input, Rejects)
        and not (isinstance(output, Finish) and output.counter)
    )


def with_rows(plan: Query | Program, change: Callable[[Query], Output]) -> Any:
    """A statement that gives rows, with its `Query` changed to something else."""
    if isinstance(plan, Query):
        return change(plan)
    outputs = tuple(change(o) if isinstance(o, Query) else o for o in plan.outputs)
    return replace(plan, outputs=outputs)


def limited(plan: Query | Program, count: int) -> Any:
    """A statement that gives rows, and no more than `count` of them."""
    return with_rows(plan, lambda rows: Query(Limit(rows.input, count), rows.names))


def open_rounds(plan: Node) -> frozenset[str]:
    """Names of recursive unions whose last round a plan reads from outside of them."""
    read = {n.name for n in walk(plan) if isinstance(n, RoundRows)}
    return frozenset(read - {n.name for n in walk(plan) if isinstance(n, RecursiveUnion)})


def example_path(uri: str, format: str, partition_by: Sequence[str] = ()) -> str:
    """A path that WRITE would make of a URI: its first shard, in the folder of a first value."""
    folder, slash, name = re.sub(r"\{[^}]*\}", "0", uri).rpartition("/")
    below = "".join(f"{key}=0/" for key in partition_by)
    return f"{folder}{slash}{below}{name or f'part-0.{format}'}"


def with_input(plan: Any, input: LogicalPlan) -> LogicalPlan:
    """An operator of one input over another input."""
    changed: LogicalPlan = replace(plan, input=input)
    return changed
