"""What the user wrote: statements, queries, FROM items and pipe operators, each with its span.

Class names are the language's own words. Expressions are `expr.expression` with unbound nodes.
"""

from __future__ import annotations

from dataclasses import field

from zql.expr.expression import Call, Expr, Name, NamedArgument, SortKey, Window
from zql.schema import DataType
from zql.source import Span
from zql.tree import Node, node


@node
class Syntax(Node):
    """Base: where the words stand."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@node
class Identifier(Syntax):
    """A name being declared: an alias, a parameter, a view; `quoted` as the user wrote it."""

    text: str
    quoted: bool = field(default=False, compare=False)


@node
class Option(Syntax):
    """`name = value` in OPTIONS or a hint; the value is an expression of constants."""

    name: str
    value: Expr


# ---- FROM ------------------------------------------------------------------------------------


@node
class PathSource(Syntax):
    """`'docs/*.jsonl'` or `['a.jsonl', 'b.jsonl']`."""

    paths: tuple[str, ...]


@node
class NameSource(Syntax):
    """A view, a Python object, or an earlier result, by name; of a ZQL module: `c.view`."""

    name: str
    module: str = ""


@node
class ParameterSource(Syntax):
    """`$name`: a path, a list of paths, or a Python object handed in."""

    name: str


@node
class CallSource(Syntax):
    """`read_csv('x.csv', header => true)`, `range(10)`: a table function."""

    call: Call


@node
class QuerySource(Syntax):
    """`(query)`."""

    query: Query


@node
class LateralSource(Syntax):
    """`LATERAL (query)`: a query that sees the columns of the items before it."""

    query: Query


@node
class SelectSource(Syntax):
    """`SELECT .. FROM .. WHERE ..` in SQL's own order: the start of a query, not of FROM.

    `distinct` is True, False, or the keys of DISTINCT ON. `keys` is None without GROUP BY, and
    empty for GROUP BY ALL.
    """

    items: tuple[SelectItem, ...]
    sources: tuple[FromItem, ...] = ()
    distinct: bool | tuple[Expr, ...] = False
    where: Expr | None = None
    keys: tuple[AggregateItem, ...] | None = None
    ordered: bool = False
    having: Expr | None = None
    windows: tuple[NamedWindow, ...] = ()
    qualify: Expr | None = None
    order: tuple[SortKey, ...] = ()
    limit: Limit | None = None


@node
class UnnestSource(Syntax):
    """`UNNEST(list) [WITH OFFSET|ORDINALITY AS i]` as a FROM item; an alias stands between."""

    list: Expr
    position: Identifier | None = None
    one_based: bool = False


@node
class ValuesSource(Syntax):
    """`VALUES (1, 'a'), (2, 'b')`."""

    rows: tuple[tuple[Expr, ...], ...]


@node
class Aliased(Syntax):
    """A FROM item with its alias and column names; both may be missing."""

    item: FromItem
    alias: Identifier | None = None
    columns: tuple[Identifier, ...] = ()


@node
class Sample(Syntax):
    """`BERNOULLI (p PERCENT)`, `RESERVOIR (n ROWS [PARTITION BY k])`, `[REPEATABLE (seed)]`."""

    method: str
    size: Expr
    partition: tuple[Expr, ...] = ()
    seed: Expr | None = None


@node
class Sampled(Syntax):
    """A FROM item with TABLESAMPLE."""

    item: FromItem
    sample: Sample


@node
class Joined(Syntax):
    """`left kind JOIN right` inside FROM; `on` and `using` as in `Join`."""

    left: FromItem
    right: FromItem
    kind: str = "INNER"
    on: Expr | None = None
    using: tuple[Identifier, ...] = ()
    natural: bool = False
    hints: tuple[Option, ...] = ()


FromItem = (
    PathSource
    | NameSource
    | ParameterSource
    | CallSource
    | QuerySource
    | LateralSource
    | SelectSource
    | UnnestSource
    | ValuesSource
    | Aliased
    | Sampled
    | Joined
)


# ---- queries ---------------------------------------------------------------------------------


@node
class CommonQuery(Syntax):
    """`name [(columns)] AS (query)` in WITH."""

    name: Identifier
    query: Query
    columns: tuple[Identifier, ...] = ()


@node
class Query(Syntax):
    """`[WITH ..] FROM items |> op |> op`; no `items` for one that begins with `|>`.

    `items` holds more than one for `FROM a, b`. A `VALUES` query has one `ValuesSource`, one that
    begins with SELECT one `SelectSource`; a query in parentheses followed by operators has one
    `QuerySource`. `on_error` is about the rows of the one item that cannot be read.
    """

    items: tuple[FromItem, ...]
    operators: tuple[Operator, ...] = ()
    common: tuple[CommonQuery, ...] = ()
    on_error: OnError | None = None


Subpipe = tuple["Operator", ...]
"""`(|> op |> op)`: operators over the input of the operator that holds them; may be empty."""


# ---- pipe operators ----------------------------------------------------------------------------


@node
class PipeOperator(Syntax):
    """Base: `@{name = value}` behind the operator's word."""

    hints: tuple[Option, ...] = field(default=(), kw_only=True)


@node
class SelectItem(Syntax):
    """An expression (or `Star`, `Columns`) with its alias."""

    expr: Expr
    alias: Identifier | None = None


@node
class OnError(Syntax):
    """`ON ERROR SKIP INTO 'uri' OPTIONS (..) LIMIT 1 PERCENT`; action FAIL, SKIP or NULL."""

    action: str
    into: str | None = None
    limit: str = ""
    options: tuple[Option, ...] = ()


@node
class NamedWindow(Syntax):
    """`w AS (spec)`."""

    name: Identifier
    window: Window


@node
class Where(PipeOperator):
    """`|> WHERE predicate`."""

    predicate: Expr
    on_error: OnError | None = None


@node
class Select(PipeOperator):
    """`|> SELECT [DISTINCT] items [WINDOW ..]`."""

    items: tuple[SelectItem, ...]
    distinct: bool = False
    windows: tuple[NamedWindow, ...] = ()
    on_error: OnError | None = None


@node
class Extend(PipeOperator):
    """`|> EXTEND items [WINDOW ..]`."""

    items: tuple[SelectItem, ...]
    windows: tuple[NamedWindow, ...] = ()
    on_error: OnError | None = None


@node
class Assignment(Syntax):
    """`column = expr`, `struct.field = expr`."""

    target: Name
    expr: Expr


@node
class Set(PipeOperator):
    """`|> SET assignments`."""

    assignments: tuple[Assignment, ...]
    on_error: OnError | None = None


@node
class Drop(PipeOperator):
    """`|> DROP [IF EXISTS] columns`."""

    columns: tuple[Name, ...]
    if_exists: bool = False


@node
class Renaming(Syntax):
    """`old AS new`."""

    old: Name
    new: Identifier


@node
class Rename(PipeOperator):
    """`|> RENAME renamings`."""

    renamings: tuple[Renaming, ...]


@node
class As(PipeOperator):
    """`|> AS alias`."""

    alias: Identifier


@node
class AggregateItem(Syntax):
    """An aggregate or a grouping key, with alias and the order suffix of GROUP AND ORDER BY."""

    expr: Expr
    alias: Identifier | None = None
    order: str = ""
    nulls_first: bool | None = None


@node
class Aggregate(PipeOperator):
    """`|> AGGREGATE items [GROUP [AND ORDER] BY keys]`."""

    items: tuple[AggregateItem, ...]
    keys: tuple[AggregateItem, ...] = ()
    ordered: bool = False


@node
class Distinct(PipeOperator):
    """`|> DISTINCT`, `|> DISTINCT ON (keys) [ORDER BY ..]`."""

    on: tuple[Expr, ...] = ()
    order: tuple[SortKey, ...] = ()


@node
class OrderBy(PipeOperator):
    """`|> ORDER BY keys`."""

    keys: tuple[SortKey, ...]


@node
class Limit(PipeOperator):
    """`|> LIMIT n [OFFSET m]`, `|> OFFSET m`."""

    count: Expr | None
    offset: Expr | None = None


@node
class Join(PipeOperator):
    """`|> kind JOIN item ON .. | USING (..)`.

    `kind` is INNER, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI, ASOF or ASOF LEFT.
    """

    right: FromItem
    kind: str = "INNER"
    on: Expr | None = None
    using: tuple[Identifier, ...] = ()
    natural: bool = False


@node
class SetOperation(PipeOperator):
    """`|> UNION [ALL|DISTINCT] [BY NAME] (q), (q)`; kind UNION, INTERSECT or EXCEPT.

    `all` is None when neither ALL nor DISTINCT is written.
    """

    kind: str
    queries: tuple[Query, ...]
    all: bool | None = None
    by_name: bool = False


@node
class Unnest(PipeOperator):
    """`|> [LEFT] UNNEST list AS c [WITH OFFSET|ORDINALITY AS i]`."""

    list: Expr
    alias: Identifier | None = None
    outer: bool = False
    position: Identifier | None = None
    one_based: bool = False


@node
class ReturnColumn(Syntax):
    """`name type` in RETURNS."""

    name: str
    type: DataType


@node
class MapRows(PipeOperator):
    """`|> MAP|FLATMAP|MAP BATCHES|MAP SHARDS f[(args)] [RETURNS (..)] [ON ERROR ..]`.

    `kind` is MAP, FLATMAP, MAP BATCHES or MAP SHARDS; positional arguments are expressions that
    the function gets in place of the record. In FROM (`is_source`) there is no record.
    """

    kind: str
    function: tuple[str, ...]
    args: tuple[Expr | NamedArgument, ...] = ()
    returns: tuple[ReturnColumn, ...] = ()
    on_error: OnError | None = None
    is_source: bool = False
    function_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@node
class Reduce(PipeOperator):
    """`|> REDUCE f[(args)] [GROUP BY keys] [ORDER BY ..] [COMBINE g] [RETURNS (..)]`."""

    function: tuple[str, ...]
    args: tuple[Expr | NamedArgument, ...] = ()
    keys: tuple[SelectItem, ...] = ()
    order: tuple[SortKey, ...] = ()
    combine: tuple[str, ...] = ()
    returns: tuple[ReturnColumn, ...] = ()
    on_error: OnError | None = None
    function_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@node
class Write(PipeOperator):
    """`|> WRITE 'uri' [OPTIONS (..)]`; the uri may be a `Parameter`."""

    uri: Expr
    options: tuple[Option, ...] = ()


@node
class RecursiveUnion(PipeOperator):
    """`|> RECURSIVE UNION [ALL|DISTINCT] [BY NAME] (step) [AS name]`.

    The step is run on the rows that the last round added, until none is new; a query without items
    is a subpipe over them, `alias` names them in a query. `all` is None when nothing is written.
    """

    step: Query
    all: bool | None = None
    by_name: bool = False
    alias: Identifier | None = None


@node
class Pivot(PipeOperator):
    """`|> PIVOT (aggregates FOR input IN (values)) [AS alias]`."""

    aggregates: tuple[SelectItem, ...]
    input: Expr
    values: tuple[SelectItem, ...]
    alias: Identifier | None = None


@node
class UnpivotColumn(Syntax):
    """A column of UNPIVOT and the text it is called by in the name column."""

    column: Name
    label: str | None = None


@node
class Unpivot(PipeOperator):
    """`|> UNPIVOT [INCLUDE NULLS] (value FOR name IN (columns)) [AS alias]`."""

    value: Identifier
    name: Identifier
    columns: tuple[UnpivotColumn, ...]
    include_nulls: bool = False
    alias: Identifier | None = None


@node
class TableSample(PipeOperator):
    """`|> TABLESAMPLE sample`."""

    sample: Sample


@node
class Shuffle(PipeOperator):
    """`|> SHUFFLE [SEED n] [INTO n SHARDS]`."""

    seed: Expr | None = None
    shards: Expr | None = None


@node
class Distribute(PipeOperator):
    """`|> DISTRIBUTE [BY keys] [INTO n SHARDS]`."""

    keys: tuple[Expr, ...] = ()
    shards: Expr | None = None


@node
class PartitionBy(PipeOperator):
    """`|> PARTITION BY keys THEN (subpipe)`."""

    keys: tuple[SelectItem, ...]
    pipe: Subpipe


@node
class Switch(PipeOperator):
    """`|> SWITCH WHEN condition THEN (subpipe) .. [ELSE (subpipe)]`."""

    branches: tuple[tuple[Expr, Subpipe], ...]
    otherwise: Subpipe | None = None


@node
class If(PipeOperator):
    """`|> IF condition THEN (subpipe) [ELSEIF ..] [ELSE (subpipe)]`, decided when bound."""

    branches: tuple[tuple[Expr, Subpipe], ...]
    otherwise: Subpipe | None = None


@node
class Tee(PipeOperator):
    """`|> TEE [(subpipe), ..]`: outputs on the side; without a subpipe the rows themselves."""

    pipes: tuple[Subpipe, ...] = ()


@node
class Fork(PipeOperator):
    """`|> FORK (subpipe), ..`: ends a pipeline in several outputs."""

    pipes: tuple[Subpipe, ...]


@node
class With(PipeOperator):
    """`|> WITH name AS (query), ..`: names for the operators behind it."""

    common: tuple[CommonQuery, ...]


@node
class CallTable(PipeOperator):
    """`|> CALL table_function(arguments) [AS alias]`: the input is its first table."""

    function: Name
    args: tuple[Expr | NamedArgument, ...] = ()
    alias: Identifier | None = None


@node
class Assert(PipeOperator):
    """`|> ASSERT condition [, payload ..]`."""

    condition: Expr
    payload: tuple[Expr, ...] = ()


@node
class DescribeRows(PipeOperator):
    """`|> DESCRIBE`: the columns in place of the rows."""


@node
class Finish(PipeOperator):
    """`|> FINISH`: runs the pipeline and drops its rows."""


@node
class StoreTable(PipeOperator):
    """`|> CREATE [OR REPLACE] TEMP TABLE name`."""

    name: Identifier
    replace: bool = False


Operator = (
    Where
    | Select
    | Extend
    | Set
    | Drop
    | Rename
    | As
    | Aggregate
    | Distinct
    | OrderBy
    | Limit
    | Join
    | SetOperation
    | Unnest
    | MapRows
    | Reduce
    | RecursiveUnion
    | Pivot
    | Unpivot
    | TableSample
    | Shuffle
    | Distribute
    | PartitionBy
    | Switch
    | If
    | Tee
    | Fork
    | With
    | CallTable
    | Assert
    | DescribeRows
    | Finish
    | StoreTable
    | Write
)

TERMINAL = (Write, Fork, Finish, StoreTable)
"""Operators that end a pipeline; SWITCH does when its branches do."""


# ---- statements --------------------------------------------------------------------------------


@node
class QueryStatement(Syntax):
    """A query by itself."""

    query: Query


@node
class Declare(Syntax):
    """`DECLARE name type [DEFAULT expr]`."""

    name: Identifier
    type: DataType
    default: Expr | None = None


@node
class DeclareShared(Syntax):
    """`DECLARE name SHARED DEFAULT module.factory(..)`: an object made once for all workers."""

    name: Identifier
    factory: Expr


@node
class CreateView(Syntax):
    """`CREATE [OR REPLACE] TEMP VIEW name AS query`."""

    name: Identifier
    query: Query
    replace: bool = False


@node
class CreateTable(Syntax):
    """`CREATE [OR REPLACE] TEMP TABLE name AS query`."""

    name: Identifier
    query: Query
    replace: bool = False


@node
class FunctionParameter(Syntax):
    """`name type [DEFAULT value]` of a function; type TABLE and EXPR only of table functions."""

    name: Identifier
    type: DataType
    default: Expr | None = None


@node
class CreateFunction(Syntax):
    """`CREATE [OR REPLACE] TEMP FUNCTION name(parameters) [RETURNS type] AS (body)`."""

    name: Identifier
    parameters: tuple[FunctionParameter, ...]
    body: Expr
    returns: DataType | None = None
    replace: bool = False


@node
class CreatePythonFunction(Syntax):
    """`CREATE [OR REPLACE] TEMP FUNCTION name(parameters) [RETURNS type] LANGUAGE python ..`.

    `volatility` is IMMUTABLE, VOLATILE or nothing; `source` is the text of AS, as it stands there.
    A parameter of the type ANY takes values of every type, and shared objects.
    """

    name: Identifier
    parameters: tuple[FunctionParameter, ...]
    returns: DataType | None = None
    volatility: str = ""
    called_on_null: bool = False
    options: tuple[Option, ...] = ()
    source: str | None = None
    replace: bool = False
    source_span: Span | None = field(default=None, compare=False, repr=False)


@node
class CreateTableFunction(Syntax):
    """`CREATE [OR REPLACE] TEMP TABLE FUNCTION name(parameters) AS query`."""

    name: Identifier
    parameters: tuple[FunctionParameter, ...]
    query: Query
    replace: bool = False


@node
class ImportScript(Syntax):
    """`IMPORT MODULE 'lib/common.zql' [AS c]`."""

    path: str
    alias: Identifier | None = None


@node
class ImportPython(Syntax):
    """`IMPORT PYTHON 'udfs/q.py' [AS q]`, `IMPORT PYTHON pkg.mod [AS m]`.

    `target` is the path (`is_path`) or the dotted module.
    """

    target: str
    is_path: bool
    alias: Identifier | None = None


@node
class SetOption(Syntax):
    """`SET name = value`."""

    name: Identifier
    value: Expr


@node
class Explain(Syntax):
    """`EXPLAIN [SYNTAX|LOGICAL|TRACE|STAGES|ANALYZE] [FORMAT TEXT|JSON|MERMAID] query`, with the
    options in parentheses too; STAGES as TEXT when none is written.
    """

    query: Query
    level: str = "STAGES"
    format: str = "TEXT"


@node
class Describe(Syntax):
    """`DESCRIBE query`."""

    query: Query


@node
class Summarize(Syntax):
    """`SUMMARIZE query`: a line of statistics for each column."""

    query: Query


@node
class Show(Syntax):
    """`SHOW TABLES|FUNCTIONS|SETTINGS [|> operators]`; `what` in capitals."""

    what: str
    operators: tuple[Operator, ...] = ()


@node
class AssertStatement(Syntax):
    """`ASSERT condition [AS 'message']`."""

    condition: Expr
    message: str | None = None


Statement = (
    QueryStatement
    | Declare
    | DeclareShared
    | CreateView
    | CreateTable
    | CreateFunction
    | CreatePythonFunction
    | CreateTableFunction
    | ImportPython
    | ImportScript
    | SetOption
    | Explain
    | Describe
    | Summarize
    | Show
    | AssertStatement
)


@node
class Script(Syntax):
    """Statements in order."""

    statements: tuple[Statement, ...]
