"""Quoting, and bound expressions as DuckDB SQL text. The only door from data to SQL.

Every operator is printed in parentheses, so that precedence never depends on the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import singledispatch

from zql.errors import InternalError
from zql.expr import expression as ex
from zql.tree import Node, walk

PlanSql = Callable[[Node], str]
"""Prints the plan inside a `Subquery` as a SELECT."""

_PLAIN_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def quote_identifier(name: str) -> str:
    """A name as a quoted SQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text as a SQL string; NUL, which SQL text cannot hold, is put in by `chr(0)`."""
    quoted = "'" + text.replace("'", "''") + "'"
    if "\0" in text:
        return "(" + quoted.replace("\0", "' || chr(0) || '") + ")"
    return quoted


def _no_plans(_plan: Node) -> str:
    raise InternalError("a subquery where none can be printed")


Mark = Callable[[ex.Expr, str], str]
"""Puts marks around the SQL of an expression, for those who look for its place in a text."""


def expression_sql(expr: ex.Expr, plan_sql: PlanSql = _no_plans, mark: Mark | None = None) -> str:
    """The SQL of a bound expression; `plan_sql` prints the plans of its subqueries."""
    return _Printer(plan_sql, mark).print(expr)


def sort_keys_sql(
    keys: tuple[ex.SortKey, ...], plan_sql: PlanSql = _no_plans, mark: Mark | None = None
) -> str:
    """The items of an ORDER BY; NULLs last unless the key says otherwise."""
    return _Printer(plan_sql, mark).sort_keys(keys)


def literal_sql(literal: ex.Literal) -> str:
    """The SQL of a constant, cast when it has a type of its own."""
    text = _constant_sql(literal)
    return f"CAST({text} AS {literal.type})" if literal.type else text


def _constant_sql(literal: ex.Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return quote_literal(value)
    if isinstance(value, bytes):
        return "CAST(" + quote_literal("".join(f"\\x{b:02X}" for b in value)) + " AS BLOB)"
    if isinstance(value, float):
        return f"CAST({quote_literal(repr(value))} AS DOUBLE)"
    if isinstance(value, int | Decimal):
        text = literal.text.replace("_", "") or str(value)
        return f"({text})" if text.startswith("-") else text
    raise InternalError(f"no SQL for a constant of type {type(value).__name__}")


class _Printer:
    """Prints one expression tree; a method for each kind of node."""

    def __init__(self, plan_sql: PlanSql, mark: Mark | None) -> None:
        self.plan_sql = plan_sql
        self.mark = mark

    def print(self, expr: ex.Expr) -> str:
        text = _sql(expr, self)
        return text if self.mark is None else self.mark(expr, text)

    def list(self, exprs: tuple[ex.Expr, ...]) -> str:
        return ", ".join(self.print(e) for e in exprs)

    def sort_keys(self, keys: tuple[ex.SortKey, ...]) -> str:
        return ", ".join(
            f"{self.print(k.expr)} {'DESC' if k.descending else 'ASC'}"
            f" NULLS {'FIRST' if k.nulls_first else 'LAST'}"
            for k in keys
        )

    def argument(self, arg: ex.Expr | ex.NamedArgument) -> str:
        if isinstance(arg, ex.NamedArgument):
            return f"{quote_identifier(arg.name)} := {self.print(arg.value)}"
        return self.print(arg)

    def window(self, window: ex.Window) -> str:
        parts = []
        if window.partition:
            parts.append(f"PARTITION BY {self.list(window.partition)}")
        if window.order:
            parts.append(f"ORDER BY {self.sort_keys(window.order)}")
        if window.frame:
            parts.append(window.frame)
        return f"OVER ({' '.join(parts)})"


@singledispatch
def _sql(expr: ex.Expr, _p: _Printer) -> str:
    raise InternalError(f"no SQL for {type(expr).__name__}: {expr!r}")


@_sql.register
def _(e: ex.Column, _p: _Printer) -> str:
    return quote_identifier(e.name)


@_sql.register
def _(_e: ex.TaskContext, _p: _Printer) -> str:
    return "ctx"


@_sql.register
def _(e: ex.SharedObject, _p: _Printer) -> str:
    return f"${e.name}"


@_sql.register
def _(e: ex.Variable, _p: _Printer) -> str:
    return quote_identifier(e.name)


@_sql.register
def _(e: ex.Literal, _p: _Printer) -> str:
    return literal_sql(e)


@_sql.register
def _(e: ex.Unary, p: _Printer) -> str:
    return f"({e.op} {p.print(e.operand)})"


@_sql.register
def _(e: ex.Binary, p: _Printer) -> str:
    # Chains like a || b || c lean left and may be thousands long: no recursion along them.
    operands, node = [], e
    while True:
        operands.append((node.op, p.print(node.right)))
        if not isinstance(node.left, ex.Binary):
            break
        node = node.left
    text = p.print(node.left)
    for op, right in reversed(operands):
        text = f"({text} {op} {right})"
    return text


@_sql.register
def _(e: ex.Logical, p: _Printer) -> str:
    return "(" + f" {e.op} ".join(p.print(o) for o in e.operands) + ")"


@_sql.register
def _(e: ex.Is, p: _Printer) -> str:
    negated = "NOT " if e.negated else ""
    if e.test == "DISTINCT" and e.other is not None:
        return f"({p.print(e.operand)} IS {negated}DISTINCT FROM {p.print(e.other)})"
    return f"({p.print(e.operand)} IS {negated}{e.test})"


@_sql.register
def _(e: ex.Like, p: _Printer) -> str:
    negated = "NOT " if e.negated else ""
    escape = f" ESCAPE {p.print(e.escape)}" if e.escape else ""
    if e.op in ("GLOB", "~"):
        return f"({negated}({p.print(e.operand)} {e.op} {p.print(e.pattern)}))"
    return f"({p.print(e.operand)} {negated}{e.op} {p.print(e.pattern)}{escape})"


@_sql.register
def _(e: ex.Between, p: _Printer) -> str:
    negated = "NOT " if e.negated else ""
    return f"({p.print(e.operand)} {negated}BETWEEN {p.print(e.low)} AND {p.print(e.high)})"


@_sql.register
def _(e: ex.In, p: _Printer) -> str:
    negated = "NOT " if e.negated else ""
    return f"({p.print(e.operand)} {negated}IN ({p.list(e.items)}))"


@_sql.register
def _(e: ex.Case, p: _Printer) -> str:
    operand = f" {p.print(e.operand)}" if e.operand else ""
    whens = "".join(f" WHEN {p.print(c)} THEN {p.print(r)}" for c, r in e.whens)
    otherwise = f" ELSE {p.print(e.otherwise)}" if e.otherwise else ""
    return f"(CASE{operand}{whens}{otherwise} END)"


@_sql.register
def _(e: ex.Cast, p: _Printer) -> str:
    return f"{'TRY_CAST' if e.safe else 'CAST'}({p.print(e.operand)} AS {e.type})"


@_sql.register
def _(e: ex.Call, p: _Printer) -> str:
    name = e.name[-1]
    if not _PLAIN_FUNCTION.match(name):
        name = quote_identifier(name)
    inner = "*" if e.star else ", ".join(p.argument(_guarded(a, e.filter)) for a in e.args)
    if e.distinct:
        inner = f"DISTINCT {inner}"
    if e.order:
        inner += f" ORDER BY {p.sort_keys(e.order)}"
    if e.ignore_nulls is not None:
        inner += " IGNORE NULLS" if e.ignore_nulls else " RESPECT NULLS"
    text = f"{name}({inner})"
    if e.within_group:
        text += f" WITHIN GROUP (ORDER BY {p.sort_keys(e.within_group)})"
    if e.filter is not None:
        text += f" FILTER (WHERE {p.print(e.filter)})"
    if e.window is not None:
        text += f" {p.window(e.window)}"
    return text


def _guarded(
    arg: ex.Expr | ex.NamedArgument, condition: ex.Expr | None
) -> ex.Expr | ex.NamedArgument:
    """An aggregate's argument, computed only where FILTER lets it count.

    DuckDB computes it for every row, and fails on one that the condition was to keep away.
    """
    if condition is None or not isinstance(arg, ex.Expr) or isinstance(arg, ex.Column):
        return arg
    if not any(isinstance(n, ex.Column) for n in walk(arg)):
        return arg  # a constant must stay one
    if any(isinstance(n, ex.Call) and n.volatile for n in walk(condition)):
        return arg
    return ex.Case(None, ((condition, arg),), None)


@_sql.register
def _(e: ex.Lambda, p: _Printer) -> str:
    names = ", ".join(quote_identifier(n) for n in e.parameters)
    return f"(lambda {names}: {p.print(e.body)})"


@_sql.register
def _(e: ex.Comprehension, p: _Printer) -> str:
    name = quote_identifier(e.variable)
    items = p.print(e.items)
    if e.condition is not None:
        items = f"list_filter({items}, lambda {name}: {p.print(e.condition)})"
    return f"list_transform({items}, lambda {name}: {p.print(e.element)})"


@_sql.register
def _(e: ex.Array, p: _Printer) -> str:
    return f"[{p.list(e.items)}]"


@_sql.register
def _(e: ex.Struct, p: _Printer) -> str:
    entries = ", ".join(f"{quote_literal(k)}: {p.print(v)}" for k, v in e.entries)
    return "{" + entries + "}"


@_sql.register
def _(e: ex.Map, p: _Printer) -> str:
    entries = ", ".join(f"{p.print(k)}: {p.print(v)}" for k, v in e.entries)
    return "MAP {" + entries + "}"


@_sql.register
def _(e: ex.Row, p: _Printer) -> str:
    return f"row({p.list(e.items)})"


@_sql.register
def _(e: ex.FieldAccess, p: _Printer) -> str:
    return f"struct_extract({p.print(e.operand)}, {quote_literal(e.field_name)})"


@_sql.register
def _(e: ex.Index, p: _Printer) -> str:
    return f"({p.print(e.operand)})[{p.print(e.index)}]"


@_sql.register
def _(e: ex.Slice, p: _Printer) -> str:
    start = p.print(e.start) if e.start else ""
    stop = p.print(e.stop) if e.stop else ("-" if e.step else "")
    step = f":{p.print(e.step)}" if e.step else ""
    return f"({p.print(e.operand)})[{start}:{stop}{step}]"


@_sql.register
def _(e: ex.Interval, p: _Printer) -> str:
    if not e.unit:
        return f"CAST({p.print(e.value)} AS INTERVAL)"
    return f"(INTERVAL ({p.print(e.value)}) {e.unit})"


@_sql.register
def _(e: ex.Extract, p: _Printer) -> str:
    return f"date_part({quote_literal(e.part)}, {p.print(e.operand)})"


@_sql.register
def _(e: ex.AtTimeZone, p: _Printer) -> str:
    return f"({p.print(e.operand)} AT TIME ZONE {p.print(e.zone)})"


@_sql.register
def _(e: ex.Collate, p: _Printer) -> str:
    return f"({p.print(e.operand)} COLLATE {e.collation})"


@_sql.register
def _(e: ex.Try, p: _Printer) -> str:
    return f"TRY({p.print(e.operand)})"


@_sql.register
def _(e: ex.Subquery, p: _Printer) -> str:
    query = p.plan_sql(e.query)
    if e.kind == "EXISTS":
        return f"({'NOT ' if e.negated else ''}EXISTS ({query}))"
    if e.kind == "IN" and e.operand is not None:
        return f"({p.print(e.operand)} {'NOT ' if e.negated else ''}IN ({query}))"
    return f"({query})"
