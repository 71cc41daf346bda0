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
    """A view, a Python object, or an earlier result, by name."""

    name: str


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
class UnnestSource(Syntax):
    """`UNNEST(list)` as a FROM item."""

    list: Expr


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
    | UnnestSource
    | ValuesSource
    | Aliased
    | Joined
)


# ---- queries ---------------------------------------------------------------------------------


@node
class Query(Syntax):
    """`FROM items |> op |> op`; `source` is None for a REPL statement that begins with `|>`.

    `items` holds more than one for `FROM a, b`. A `VALUES` query has one `ValuesSource`; a query
    in parentheses followed by operators has one `QuerySource`.
    """

    items: tuple[FromItem, ...]
    operators: tuple[Operator, ...] = ()


# ---- pipe operators ----------------------------------------------------------------------------


@node
class SelectItem(Syntax):
    """An expression (or `Star`, `Columns`) with its alias."""

    expr: Expr
    alias: Identifier | None = None


@node
class OnError(Syntax):
    """`ON ERROR SKIP INTO 'uri' LIMIT 1 PERCENT`; action FAIL, SKIP or NULL."""

    action: str
    into: str | None = None
    limit: str = ""


@node
class NamedWindow(Syntax):
    """`w AS (spec)`."""

    name: Identifier
    window: Window


@node
class Where(Syntax):
    """`|> WHERE predicate`."""

    predicate: Expr
    on_error: OnError | None = None


@node
class Select(Syntax):
    """`|> SELECT [DISTINCT] items [WINDOW ..]`."""

    items: tuple[SelectItem, ...]
    distinct: bool = False
    windows: tuple[NamedWindow, ...] = ()
    on_error: OnError | None = None


@node
class Extend(Syntax):
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
class Set(Syntax):
    """`|> SET assignments`."""

    assignments: tuple[Assignment, ...]
    on_error: OnError | None = None


@node
class Drop(Syntax):
    """`|> DROP [IF EXISTS] columns`."""

    columns: tuple[Name, ...]
    if_exists: bool = False


@node
class Renaming(Syntax):
    """`old AS new`."""

    old: Name
    new: Identifier


@node
class Rename(Syntax):
    """`|> RENAME renamings`."""

    renamings: tuple[Renaming, ...]


@node
class As(Syntax):
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
class Aggregate(Syntax):
    """`|> AGGREGATE items [GROUP [AND ORDER] BY keys]`."""

    items: tuple[AggregateItem, ...]
    keys: tuple[AggregateItem, ...] = ()
    ordered: bool = False


@node
class Distinct(Syntax):
    """`|> DISTINCT`, `|> DISTINCT ON (keys) [ORDER BY ..]`."""

    on: tuple[Expr, ...] = ()
    order: tuple[SortKey, ...] = ()


@node
class OrderBy(Syntax):
    """`|> ORDER BY keys`."""

    keys: tuple[SortKey, ...]


@node
class Limit(Syntax):
    """`|> LIMIT n [OFFSET m]`, `|> OFFSET m`."""

    count: Expr | None
    offset: Expr | None = None


@node
class Join(Syntax):
    """`|> kind JOIN item ON .. | USING (..)`.

    `kind` is INNER, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI, ASOF or ASOF LEFT.
    """

    right: FromItem
    kind: str = "INNER"
    on: Expr | None = None
    using: tuple[Identifier, ...] = ()
    natural: bool = False
    hints: tuple[Option, ...] = ()


@node
class SetOperation(Syntax):
    """`|> UNION [ALL|DISTINCT] [BY NAME] (q), (q)`; kind UNION, INTERSECT or EXCEPT.

    `all` is None when neither ALL nor DISTINCT is written.
    """

    kind: str
    queries: tuple[Query, ...]
    all: bool | None = None
    by_name: bool = False


@node
class Unnest(Syntax):
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
class MapRows(Syntax):
    """`|> MAP|FLATMAP|MAP BATCHES|MAP SHARDS f[(args)] [RETURNS (..)] [ON ERROR ..]`.

    `kind` is MAP, FLATMAP, MAP BATCHES or MAP SHARDS; positional arguments are expressions that
    the function gets in place of the record.
    """

    kind: str
    function: tuple[str, ...]
    args: tuple[Expr | NamedArgument, ...] = ()
    returns: tuple[ReturnColumn, ...] = ()
    on_error: OnError | None = None
    hints: tuple[Option, ...] = ()
    function_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@node
class Write(Syntax):
    """`|> WRITE 'uri' [OPTIONS (..)]`; the uri may be a `Parameter`."""

    uri: Expr
    options: tuple[Option, ...] = ()


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
    | Write
)


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
class CreateView(Syntax):
    """`CREATE [OR REPLACE] TEMP VIEW name AS query`."""

    name: Identifier
    query: Query
    replace: bool = False


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
    """`EXPLAIN [SYNTAX|LOGICAL|TRACE|ANALYZE] query`; level STAGES when none is written."""

    query: Query
    level: str = "STAGES"


@node
class Describe(Syntax):
    """`DESCRIBE query`."""

    query: Query


Statement = QueryStatement | Declare | CreateView | ImportPython | SetOption | Explain | Describe


@node
class Script(Syntax):
    """Statements in order."""

    statements: tuple[Statement, ...]
