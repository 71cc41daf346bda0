"""The one expression family. `Name`, `Parameter` and `Query` are unbound; binding replaces them.

Spans never count for equality. `Column.name` is the plan's own unique name of a column, never
what the user wrote: two columns of one plan differ even when case is ignored.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from zql.schema import DataType
from zql.source import Span
from zql.tree import Node, node


@node
class Expr(Node):
    """Base of all expressions; `span` is where the user wrote it, `parenthesized` how."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)
    parenthesized: bool = field(default=False, compare=False, repr=False, kw_only=True)


@node
class Name(Expr):
    """Unbound: `a`, `t.a`, `s.f.g`; the binder decides which part is table, column or field."""

    parts: tuple[str, ...]
    quoted: tuple[bool, ...] = field(default=(), compare=False)


@node
class Column(Expr):
    """Bound: a column of the input (or of an outer query) by its unique name in the plan."""

    name: str
    type: DataType


@node
class Literal(Expr):
    """A constant. `value` is exact: str, bytes, int, Decimal, bool or None.

    `type` names the type for typed literals (`DATE '2024-01-31'`) and parameters; empty when the
    value says it (`1`, `'a'`, `TRUE`, `NULL`). `text` keeps how a number was written (`1e3`).
    """

    value: Any
    type: DataType = ""
    text: str = field(default="", compare=False)


@node
class Parameter(Expr):
    """Unbound: `$name`."""

    name: str


@node
class Unary(Expr):
    """`-x`, `+x`, `~x`, `NOT x`; `op` in upper case."""

    op: str
    operand: Expr


@node
class Binary(Expr):
    """Two operands: arithmetic, comparison, `||`, bits, `->`, `->>`, `**`."""

    op: str
    left: Expr
    right: Expr


@node
class Logical(Expr):
    """`AND` or `OR` over two or more operands, flat."""

    op: str
    operands: tuple[Expr, ...]


@node
class Is(Expr):
    """`x IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM y`; `test` is NULL, TRUE, FALSE, DISTINCT."""

    operand: Expr
    test: str
    negated: bool = False
    other: Expr | None = None


@node
class Like(Expr):
    """`op` is LIKE, ILIKE, GLOB, SIMILAR TO or ~."""

    op: str
    operand: Expr
    pattern: Expr
    negated: bool = False
    escape: Expr | None = None


@node
class Between(Expr):
    """`x [NOT] BETWEEN low AND high`."""

    operand: Expr
    low: Expr
    high: Expr
    negated: bool = False


@node
class In(Expr):
    """`x [NOT] IN (a, b)`; with one `Subquery` of kind IN instead when it is a query."""

    operand: Expr
    items: tuple[Expr, ...]
    negated: bool = False


@node
class Case(Expr):
    """`CASE [operand] WHEN .. THEN .. [ELSE ..] END`; `whens` are (condition, result) pairs."""

    operand: Expr | None
    whens: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None


@node
class Cast(Expr):
    """`CAST(x AS type)`, `x::type` (`sign`), `TRY_CAST(x AS type)`; type in DuckDB's words."""

    operand: Expr
    type: DataType
    safe: bool = False
    sign: bool = field(default=False, compare=False, repr=False, kw_only=True)


@node
class SortKey(Node):
    """One item of an ORDER BY; `nulls_first` is None when not written (then NULLs come last).

    The `type` of the expression is known when it is bound.
    """

    expr: Expr
    descending: bool = False
    nulls_first: bool | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    type: DataType = field(default="", compare=False, repr=False)


@node
class Window(Node):
    """`OVER (PARTITION BY .. ORDER BY .. frame)`; `name` for `OVER w` until it is bound.

    `frame` is the frame's text in canonical words (`ROWS BETWEEN 1 PRECEDING AND CURRENT ROW`),
    whose bounds are literals; `exclude` as `EXCLUDE TIES`.
    """

    partition: tuple[Expr, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: str = ""
    name: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@node
class NamedArgument(Node):
    """`name => value` in a call."""

    name: str
    value: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@node
class Call(Expr):
    """A function call; `name` has one part, or two for `module.function` before binding.

    `star` marks `count(*)`. A dotted call on something that is no module is the method form and is
    bound to `Call(name, (receiver, ...))`. `volatile` and `aggregate` are set
    by the binder.
    """

    name: tuple[str, ...]
    args: tuple[Expr | NamedArgument, ...] = ()
    distinct: bool = False
    order: tuple[SortKey, ...] = ()
    filter: Expr | None = None
    window: Window | None = None
    star: bool = False
    ignore_nulls: bool | None = None
    within_group: tuple[SortKey, ...] = ()
    volatile: bool = False
    aggregate: bool = False
    name_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@node
class Method(Expr):
    """`receiver.name(args)` where the receiver is not a plain dotted name."""

    receiver: Expr
    name: str
    args: tuple[Expr | NamedArgument, ...] = ()


@node
class Lambda(Expr):
    """`lambda x, y: body`, only as an argument; its parameters are bound to `Variable`s."""

    parameters: tuple[str, ...]
    body: Expr


@node
class Variable(Expr):
    """Bound: a lambda's or comprehension's own variable."""

    name: str


@node
class Comprehension(Expr):
    """`[element FOR variable IN items IF condition]`."""

    element: Expr
    variable: str
    items: Expr
    condition: Expr | None = None


@node
class Array(Expr):
    """`[a, b]`."""

    items: tuple[Expr, ...]


@node
class Struct(Expr):
    """`{a: 1, 'b c': 2}`."""

    entries: tuple[tuple[str, Expr], ...]


@node
class Map(Expr):
    """`MAP {'k': 1}`."""

    entries: tuple[tuple[Expr, Expr], ...]


@node
class Row(Expr):
    """`(a, b)`."""

    items: tuple[Expr, ...]


@node
class FieldAccess(Expr):
    """`x.field` on a struct."""

    operand: Expr
    field_name: str


@node
class Index(Expr):
    """`x[i]`, from 1, negative from the end."""

    operand: Expr
    index: Expr


@node
class Slice(Expr):
    """`x[a:b]`, `x[a:b:step]`; None where nothing is written."""

    operand: Expr
    start: Expr | None
    stop: Expr | None
    step: Expr | None = None


@node
class Interval(Expr):
    """`INTERVAL '30 minutes'` (unit empty), `INTERVAL 1 DAY`, `INTERVAL (n) DAY`."""

    value: Expr
    unit: str = ""


@node
class Extract(Expr):
    """`EXTRACT(part FROM x)`."""

    part: str
    operand: Expr


@node
class AtTimeZone(Expr):
    """`x AT TIME ZONE zone`."""

    operand: Expr
    zone: Expr


@node
class Collate(Expr):
    """`x COLLATE name`."""

    operand: Expr
    collation: str


@node
class Try(Expr):
    """`TRY(x)`: NULL when evaluating x fails."""

    operand: Expr


@node
class Subquery(Expr):
    """`(query)`, `EXISTS (query)`, `x [NOT] IN (query)`; kind SCALAR, EXISTS or IN.

    `query` is an `ast.Query` before binding and a logical plan (`LogicalPlan`) after it.
    """

    kind: str
    query: Node
    operand: Expr | None = None
    negated: bool = False
    type: DataType = ""


@node
class Star(Expr):
    """`*`, `t.*`, `expr.*` with its modifiers; only in select lists, never bound."""

    qualifier: Expr | None = None
    exclude: tuple[Name, ...] = ()
    replace: tuple[tuple[Expr, Name], ...] = ()
    rename: tuple[tuple[Name, Name], ...] = ()


@node
class Columns(Expr):
    """`COLUMNS('regex')`; only as a whole select item, never bound."""

    pattern: str


@node
class GroupingSets(Expr):
    """`GROUPING SETS ((a, b), (a), ())`; only as an item of GROUP BY, never bound."""

    sets: tuple[tuple[Expr, ...], ...]


@node
class SharedObject(Expr):
    """Bound: `$name` of a DECLARE .. SHARED, as an argument of a Python call.

    `key` stands for the object itself; `factory` (a `functions.PythonFunction`) makes it from plain
    Python values, or it is None and the session has it. `place` is that of the DECLARE.
    """

    name: str
    key: str
    factory: Node | None = None
    args: tuple[Any, ...] = field(default=(), hash=False)
    keywords: tuple[tuple[str, Any], ...] = field(default=(), hash=False)
    place: Span | None = field(default=None, compare=False, repr=False)


@node
class TaskContext(Expr):
    """Bound: the argument `ctx` of a Python call; `shared` are the objects that it can ask for."""

    shared: tuple[SharedObject, ...] = ()


@node
class PythonCall(Expr):
    """Bound: a call of a Python function (`functions.PythonFunction`); keywords as in Python.

    `safe` calls stand in a TRY: an exception gives NULL. `on_error` is a `functions.ErrorPolicy`.
    """

    function: Node
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...] = ()
    type: DataType = ""
    safe: bool = False
    on_error: Node | None = None


@node
class PythonAggregateCall(Call):
    """Bound: an aggregate that a Python class computes (`functions.PythonFunction`).

    Named arguments of its `step` stand among `args`; `made_with` are those of its `__init__`.
    """

    function: Node | None = None
    made_with: tuple[tuple[str, Expr], ...] = ()

    @property
    def type(self) -> DataType:
        """The type of what `finish` gives."""
        return str(getattr(self.function, "returns", ""))
