"""Logical operators as one DuckDB SELECT.

An operator joins the SELECT below it only when its clause comes later in SQL's own order (FROM,
WHERE, SELECT or GROUP BY, ORDER BY, LIMIT); else that SELECT becomes a subquery. So each operator
sees its input and nothing else, and the text stays short enough to read in EXPLAIN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatch

from zql.errors import InternalError
from zql.expr import expression as ex
from zql.expr.expression import Column, SortKey
from zql.expr.sql import Mark, expression_sql, quote_identifier, sort_keys_sql
from zql.logical import plan as lp
from zql.optimizer.facts import has_window
from zql.physical.volatile_values import volatile_values_first
from zql.tree import Node, node

ASSERT_MARK = "zql assertion "
"""How DuckDB's message of a failed `Check` begins; its number and values follow."""

_FROM, _WHERE, _SELECT, _DISTINCT, _ORDER, _LIMIT = range(6)


def render(plan: Node, sources: Mapping[Node, str], mark: Mark | None = None) -> str:
    """The plan as one SELECT; `sources` has a relation for each leaf that reads something.

    A relation stands in parentheses and has the leaf's columns by their names in the plan. The
    columns come out in the plan's order under those names. `mark` may add to each expression.
    """
    renderer = _Renderer(sources, mark)
    if not isinstance(plan, lp.Shared):
        return renderer.select(plan).text()
    tables = (f"{name} AS (\n{renderer.select(table).text()}\n)" for name, table in plan.tables)
    return "WITH " + ",\n".join(tables) + "\n" + renderer.select(plan.input).text()


@node
class _Select:
    """A SELECT being built; `level` is the last clause that is taken."""

    source: str
    columns: tuple[Column, ...]
    items: tuple[str, ...] = ()
    where: str = ""
    tail: str = ""
    distinct: str = ""
    order: str = ""
    limit: str = ""
    level: int = _FROM

    def text(self) -> str:
        items = self.items or tuple(quote_identifier(c.name) for c in self.columns)
        parts = [f"SELECT {self.distinct}{', '.join(items)}", f"FROM {self.source}"]
        parts += [part for part in (self.where, self.tail, self.order, self.limit) if part]
        return "\n".join(parts)


_LINE_END = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\n""")


def indented(sql: str) -> str:
    """What `render` gives, for people: subqueries indented. To be read, not to be run."""
    marked = _LINE_END.sub(lambda m: "\0" if m.group() == "\n" else m.group(), sql)
    lines, depth = [], 0
    for line in marked.split("\0"):
        depth -= line.startswith(")")
        lines.append("  " * depth + line)
        depth += line.endswith("(")
    return "\n".join(lines)


class _Renderer:
    def __init__(self, sources: Mapping[Node, str], mark: Mark | None = None) -> None:
        self.sources = sources
        self.mark = mark

    def select(self, plan: Node) -> _Select:
        return _select(plan, self)

    def plan_sql(self, plan: Node) -> str:
        return f"\n{self.select(plan).text()}\n"

    def sql(self, expr: Node) -> str:
        return expression_sql(expr, self.plan_sql, self.mark)  # type: ignore[arg-type]

    def sort_keys(self, keys: tuple[SortKey, ...]) -> str:
        return sort_keys_sql(keys, self.plan_sql, self.mark)

    def below(self, plan: Node, level: int) -> _Select:
        """The SELECT of an input, made a subquery when its clauses reach `level`."""
        select = self.select(plan)
        return select if select.level < level else self.wrapped(select)

    def wrapped(self, select: _Select) -> _Select:
        return _Select(source=f"(\n{select.text()}\n)", columns=select.columns)

    def relation(self, plan: Node) -> str:
        """A plan as something that can stand in FROM."""
        select = self.select(plan)
        return select.source if _is_bare(select) else self.wrapped(select).source

    def in_order(self, plan: lp.LogicalPlan) -> str:
        """A plan as a branch of a UNION, which has no ORDER BY or LIMIT of its own."""
        names = ", ".join(quote_identifier(c.name) for c in plan.columns)
        return f"SELECT {names}\nFROM {self.relation(plan)}"

    def assigns(self, assigns: tuple[lp.Assign, ...]) -> tuple[str, ...]:
        return tuple(self.assign(a) for a in assigns)

    def assign(self, assign: lp.Assign) -> str:
        name = quote_identifier(assign.column.name)
        value = self.sql(assign.expr)
        passed = isinstance(assign.expr, Column) and assign.expr.name == assign.column.name
        return value if passed else f"{value} AS {name}"


def _is_bare(select: _Select) -> bool:
    return select.level == _FROM and not select.items


@singledispatch
def _select(plan: Node, _r: _Renderer) -> _Select:
    raise InternalError(f"no SQL for the operator {type(plan).__name__}")


@_select.register(lp.Scan)
@_select.register(lp.MemoryScan)
@_select.register(lp.StageResult)
@_select.register(lp.BatchInput)
def _(p: lp.Scan, r: _Renderer) -> _Select:
    source = r.sources.get(p)
    if source is None:
        raise InternalError(f"no source for {p!r}")
    return _Select(source=source, columns=p.columns)


@_select.register
def _(p: lp.SharedRows, _r: _Renderer) -> _Select:
    names = ((quote_identifier(s), c) for s, c in zip(p.sources, p.columns, strict=True))
    items = tuple(
        s if s == (own := quote_identifier(c.name)) else f"{s} AS {own}" for s, c in names
    )
    return _Select(p.table, p.columns, items, level=_SELECT)


@_select.register
def _(p: lp.TableFunction, r: _Renderer) -> _Select:
    args = ", ".join(r.sql(a) for a in p.args)
    items = tuple(
        f"{quote_identifier(s)} AS {quote_identifier(c.name)}"
        for s, c in zip(p.sources, p.columns, strict=True)
    )
    return _Select(f"{p.name}({args})", p.columns, items, level=_SELECT)


@_select.register
def _(p: lp.DuckdbQuery, _r: _Renderer) -> _Select:
    items = tuple(
        f"{quote_identifier(s)} AS {quote_identifier(c.name)}"
        for s, c in zip(p.sources, p.columns, strict=True)
    )
    # The line break ends a comment in its last line.
    return _Select(f"(\n{p.sql}\n)", p.columns, items, level=_SELECT)


@_select.register
def _(p: lp.Values, r: _Renderer) -> _Select:
    rows = ", ".join("(" + ", ".join(r.sql(e) for e in row) + ")" for row in p.rows)
    names = ", ".join(quote_identifier(c.name) for c in p.columns)
    items = tuple(
        f"CAST({quote_identifier(c.name)} AS {c.type}) AS {quote_identifier(c.name)}"
        for c in p.columns
    )
    return _Select(f"(VALUES {rows}) AS _values({names})", p.columns, items, level=_SELECT)


@_select.register
def _(p: lp.Filter, r: _Renderer) -> _Select:
    if has_window(p.predicate):
        below = r.below(p.input, _SELECT)
        return replace(below, tail=f"QUALIFY {r.sql(p.predicate)}", level=_LIMIT)
    below = r.below(p.input, _WHERE)
    return replace(below, where=f"WHERE {r.sql(p.predicate)}", level=_WHERE)


@_select.register
def _(p: lp.Project, r: _Renderer) -> _Select:
    below = r.below(p.input, _SELECT)
    return replace(below, items=r.assigns(p.assigns), columns=p.columns, level=_SELECT)


@_select.register
def _(p: lp.Aggregate, r: _Renderer) -> _Select:
    p = volatile_values_first(p)
    below = r.below(p.input, _SELECT)
    items = r.assigns(p.keys + p.aggregates)
    # Keys are grouped by position: a key's text may not be repeated (it could be volatile).
    tail = f"GROUP BY {_places(range(len(p.keys)))}" if p.keys else ""
    if p.sets:
        tail = f"GROUP BY GROUPING SETS ({', '.join(f'({_places(s)})' for s in p.sets)})"
    return replace(below, items=items, columns=p.columns, tail=tail, level=_DISTINCT)


def _places(numbers: Iterable[int]) -> str:
    return ", ".join(str(i + 1) for i in numbers)


@_select.register
def _(p: lp.Distinct, r: _Renderer) -> _Select:
    below = r.below(p.input, _DISTINCT)
    return replace(below, distinct="DISTINCT ", level=_DISTINCT)


@_select.register
def _(p: lp.DistinctOn, r: _Renderer) -> _Select:
    # DuckDB's DISTINCT ON leaves ties to its threads: the place in the input decides them here.
    names = ", ".join(quote_identifier(c.name) for c in p.columns)
    if p.place is None:
        place = quote_identifier(_free_name("place", p.columns))
        numbered = f"SELECT {names}, row_number() OVER () AS {place}\nFROM {r.relation(p.input)}"
        source, back = f"(\n{numbered}\n)", f"\nORDER BY {place}"
    else:
        place, source, back = quote_identifier(p.place.name), r.relation(p.input), ""
    on = ", ".join(r.sql(e) for e in p.on)
    order = f"{r.sort_keys(p.order)}, " if p.order else ""
    first = f"row_number() OVER (PARTITION BY {on} ORDER BY {order}{place}) = 1"
    text = f"SELECT {names}\nFROM {source}\nQUALIFY {first}{back}"
    return _Select(source=f"(\n{text}\n)", columns=p.columns)


def _free_name(wanted: str, columns: tuple[Column, ...]) -> str:
    taken = {c.name.casefold() for c in columns}
    while wanted.casefold() in taken:
        wanted += "_"
    return wanted


@_select.register
def _(p: lp.Sort, r: _Renderer) -> _Select:
    below = r.below(p.input, _ORDER)
    if below.distinct or below.tail:
        below = r.wrapped(below)
    return replace(below, order=f"ORDER BY {r.sort_keys(p.keys)}", level=_ORDER)


@_select.register
def _(p: lp.Limit, r: _Renderer) -> _Select:
    below = r.below(p.input, _LIMIT)
    parts = [f"LIMIT {p.count}"] if p.count is not None else []
    parts += [f"OFFSET {p.offset}"] if p.offset else []
    return replace(below, limit=" ".join(parts), level=_LIMIT)


_JOINS = {
    "INNER": "INNER JOIN",
    "LEFT": "LEFT JOIN",
    "RIGHT": "RIGHT JOIN",
    "FULL": "FULL JOIN",
    "CROSS": "CROSS JOIN",
    "SEMI": "SEMI JOIN",
    "ANTI": "ANTI JOIN",
    "ASOF": "ASOF JOIN",
    "ASOF LEFT": "ASOF LEFT JOIN",
}


@_select.register
def _(p: lp.Join, r: _Renderer) -> _Select:
    source = f"{r.relation(p.left)}\n{_JOINS[p.kind]} {r.relation(p.right)}"
    if p.condition is not None:
        source += f"\nON {r.sql(p.condition)}"
    items = tuple(quote_identifier(c.name) for c in p.columns)
    return _Select(source=source, columns=p.columns, items=items, level=_FROM)


@_select.register
def _(p: lp.Lateral, r: _Renderer) -> _Select:
    source = f"{r.relation(p.left)}\n{_JOINS[p.kind]} LATERAL {r.wrapped(r.select(p.right)).source}"
    if p.condition is not None:
        source += f"\nON {r.sql(p.condition)}"
    items = tuple(quote_identifier(c.name) for c in p.columns)
    return _Select(source=source, columns=p.columns, items=items, level=_FROM)


@_select.register
def _(p: lp.RecursiveUnion, r: _Renderer) -> _Select:
    name = quote_identifier(p.name)
    names = ", ".join(quote_identifier(c.name) for c in p.columns)
    word = "UNION ALL" if p.all else "UNION"
    text = (
        f"WITH RECURSIVE {name}({names}) AS (\n{r.in_order(p.input)}\n{word}\n{r.in_order(p.step)}"
        f"\n)\nSELECT {names}\nFROM {name}"
    )
    return _Select(source=f"(\n{text}\n)", columns=p.columns)


@_select.register
def _(p: lp.RoundRows, r: _Renderer) -> _Select:
    if p in r.sources:
        return _Select(source=r.sources[p], columns=p.columns)
    items = tuple(
        f"{quote_identifier(s)} AS {quote_identifier(c.name)}"
        for s, c in zip(p.sources, p.columns, strict=True)
    )
    return _Select(quote_identifier(p.name), p.columns, items, level=_SELECT)


@_select.register
def _(p: lp.SetOperation, r: _Renderer) -> _Select:
    word = p.kind + (" ALL" if p.all else "")
    branches = []
    for branch in p.inputs:
        below = r.relation(branch)
        items = ", ".join(
            f"CAST({quote_identifier(b.name)} AS {c.type}) AS {quote_identifier(c.name)}"
            if b.type != c.type
            else f"{quote_identifier(b.name)} AS {quote_identifier(c.name)}"
            for b, c in zip(branch.columns, p.columns, strict=True)
        )
        branches.append(f"SELECT {items}\nFROM {below}")
    text = f"\n{word}\n".join(branches)
    return _Select(source=f"(\n{text}\n)", columns=p.columns)


@_select.register
def _(p: lp.Unnest, r: _Renderer) -> _Select:
    below = r.relation(p.input)
    kept = ", ".join(quote_identifier(c.name) for c in p.input.columns)
    name = quote_identifier(p.column.name)
    items = r.sql(p.list)
    if p.outer:
        items = f"CASE WHEN len({items}) > 0 THEN {items} ELSE [NULL] END"
    extra = f"unnest({items}) AS {name}"
    if p.position is not None:
        extra += _position_sql(p, r.sql(p.list))
    prefix = f"{kept}, " if kept else ""
    text = f"SELECT {prefix}{extra}\nFROM {below}"
    return _Select(source=f"(\n{text}\n)", columns=p.columns)


def _position_sql(p: lp.Unnest, items: str) -> str:
    if p.position is None:
        return ""
    numbers = f"range({p.base}, len({items}) + {p.base})"
    if p.outer:
        numbers = f"CASE WHEN len({items}) > 0 THEN {numbers} ELSE [NULL] END"
    return f", unnest({numbers}) AS {quote_identifier(p.position.name)}"


@_select.register
def _(p: lp.Check, r: _Renderer) -> _Select:
    values = [ex.Cast(column, "VARCHAR") for column in p.payload]
    said: ex.Expr = ex.Literal(f"{ASSERT_MARK}{p.number} ")
    for i, value in enumerate(values):
        known = ex.Call(("coalesce",), (value, ex.Literal("NULL")))
        said = ex.Binary("||", said, known)
        said = ex.Binary("||", said, ex.Literal(" ")) if i + 1 < len(values) else said
    failed = ex.Call(("error",), (said,))
    passes = ex.Case(None, ((p.condition, ex.Literal(True)),), failed)
    return _select(lp.Filter(p.input, passes), r)


@_select.register
def _(p: lp.Query, r: _Renderer) -> _Select:
    return r.select(p.input)


def named(sql: str, columns: tuple[Column, ...], names: tuple[str, ...]) -> str:
    """A SELECT of the plan's columns under the users' names."""
    items = ", ".join(
        f"{quote_identifier(c.name)} AS {quote_identifier(n)}"
        for c, n in zip(columns, names, strict=True)
    )
    return f"SELECT {items}\nFROM (\n{sql}\n)"
