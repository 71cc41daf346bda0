"""A small part of the language, interpreted: what a pipeline means, without an engine.

Rows are dicts of `a` (int or None) and `b` (str or None); every clause takes and gives such rows,
so that clauses can follow each other in any order. `Rows.ordered` says whether the language fixes
the order of the rows; where it is open, a result is a bag.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Row = dict[str, object]
COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Rows:
    """A table on its way through a pipeline."""

    rows: list[Row]
    ordered: bool = True

    def over(self, rows: Iterable[Row], *, ordered: bool | None = None) -> Rows:
        return Rows(list(rows), self.ordered if ordered is None else ordered)


class Undefined(Exception):  # noqa: N818 - not an error: the language leaves it open
    """Which rows come out is open: LIMIT, say, over rows in no order."""


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def place(value: object) -> tuple[bool, object]:
    """A sort key: NULL comes last."""
    return (value is None, 0 if value is None else value)


def compare(left: object, sign: str, right: object) -> bool | None:
    """Three-valued comparison."""
    return None if left is None or right is None else COMPARISONS[sign](left, right)


@dataclass(frozen=True)
class Where:
    column: str
    sign: str
    value: object
    negated: bool = False

    @property
    def text(self) -> str:
        test = f"{self.column} {self.sign} {literal(self.value)}"
        return f"WHERE NOT ({test})" if self.negated else f"WHERE {test}"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        wanted = not self.negated
        return table.over(
            r for r in table.rows if compare(r[self.column], self.sign, self.value) is wanted
        )


@dataclass(frozen=True)
class WhereNull:
    column: str
    negated: bool = False

    @property
    def text(self) -> str:
        return f"WHERE {self.column} IS {'NOT ' if self.negated else ''}NULL"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over(r for r in table.rows if (r[self.column] is None) is not self.negated)


@dataclass(frozen=True)
class WhereRank:
    """A window function in a condition: the first row of each `b`, by `a`."""

    text = "WHERE rank() OVER (PARTITION BY b ORDER BY a) = 1"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        least: dict[object, tuple[bool, object]] = {}
        for row in table.rows:
            least[row["b"]] = min(least.get(row["b"], place(row["a"])), place(row["a"]))
        return table.over(r for r in table.rows if place(r["a"]) == least[r["b"]])


@dataclass(frozen=True)
class SetSum:
    amount: int

    @property
    def text(self) -> str:
        return f"SET a = a + {self.amount}"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over({**r, "a": plus(r["a"], self.amount)} for r in table.rows)


def plus(value: object, amount: int) -> int | None:
    return None if value is None else value + amount  # type: ignore[operator]


@dataclass(frozen=True)
class Swap:
    """A projection in another order, one column computed from both."""

    text = "SELECT coalesce(b, '?') AS b, a * 2 AS a"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over(
            {"a": None if r["a"] is None else r["a"] * 2, "b": "?" if r["b"] is None else r["b"]}  # type: ignore[operator]
            for r in table.rows
        )


@dataclass(frozen=True)
class Switch:
    """Each row to the first branch that is true, the branches one behind the other."""

    text = (
        "SWITCH WHEN a > 1 THEN (|> SET a = a - 1) WHEN a = 1 THEN ()"
        " ELSE (|> WHERE b IS NULL |> SET b = 'none')"
    )

    def run(self, table: Rows, source: list[Row]) -> Rows:
        large = [{**r, "a": plus(r["a"], -1)} for r in table.rows if compare(r["a"], ">", 1)]
        one = [r for r in table.rows if compare(r["a"], "=", 1)]
        rest = [r for r in table.rows if not (compare(r["a"], ">=", 1))]
        return table.over([*large, *one, *({**r, "b": "none"} for r in rest if r["b"] is None)])


@dataclass(frozen=True)
class Check:
    """A condition that always holds: the rows pass, and the optimizer must not mind."""

    text = "ASSERT a IS NULL OR a < 1000000, 'a is', a"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table


@dataclass(frozen=True)
class Count:
    """A window over all rows: each gets their number."""

    text = "SET a = count(*) OVER ()"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over({**r, "a": len(table.rows)} for r in table.rows)


@dataclass(frozen=True)
class Limit:
    count: int
    offset: int = 0

    @property
    def text(self) -> str:
        return f"LIMIT {self.count}" + (f" OFFSET {self.offset}" if self.offset else "")

    def run(self, table: Rows, source: list[Row]) -> Rows:
        if not table.ordered and self.offset < len(table.rows) and self.count:
            same = all(r == table.rows[0] for r in table.rows)
            if not same and not (self.offset == 0 and self.count >= len(table.rows)):
                raise Undefined
        return table.over(table.rows[self.offset :][: self.count])


@dataclass(frozen=True)
class Sort:
    descending: bool = False

    @property
    def text(self) -> str:
        return f"ORDER BY a{' DESC' if self.descending else ''}, b"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        rows = sorted(table.rows, key=lambda r: place(r["b"]))
        nulls = [r for r in rows if r["a"] is None]
        others = [r for r in rows if r["a"] is not None]
        others.sort(key=lambda r: r["a"], reverse=self.descending)  # type: ignore[arg-type,return-value]
        if self.descending:  # `reverse` keeps equal ones in their order: `b` is still ascending
            pass
        return table.over([*others, *nulls], ordered=True)


@dataclass(frozen=True)
class Distinct:
    text = "DISTINCT"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over(unique(table.rows), ordered=False)


def unique(rows: Iterable[Row]) -> list[Row]:
    return [dict(items) for items in dict.fromkeys(tuple(sorted(r.items())) for r in rows)]


@dataclass(frozen=True)
class DistinctOn:
    """One row for each `b`: the one with the greatest `a`."""

    text = "DISTINCT ON (b) ORDER BY a DESC"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        found: dict[object, Row] = {}
        for row in Sort(descending=True).run(table, source).rows:
            found.setdefault(row["b"], row)
        return table.over(found.values(), ordered=False)


@dataclass(frozen=True)
class UnionAll:
    """The rows, then some of the source's."""

    text = "UNION ALL BY NAME (FROM t |> WHERE a >= 2)"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        more = [r for r in source if compare(r["a"], ">=", 2)]
        return table.over([*table.rows, *more])


@dataclass(frozen=True)
class UnionDistinct:
    text = "UNION DISTINCT BY NAME (FROM t |> SELECT b, a)"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over(unique([*table.rows, *source]), ordered=False)


@dataclass(frozen=True)
class Unnest:
    """Two rows for one, or none where `a` is NULL."""

    text = "UNNEST CASE WHEN a IS NULL THEN [] ELSE [a, 7] END AS c |> SET a = c |> DROP c"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over(
            {**r, "a": e} for r in table.rows if r["a"] is not None for e in (r["a"], 7)
        )


@dataclass(frozen=True)
class Aggregate:
    text = "AGGREGATE sum(a)::BIGINT AS a GROUP BY b |> SELECT a, b"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        groups: dict[object, list[int]] = {}
        for row in table.rows:
            groups.setdefault(row["b"], [])
            if row["a"] is not None:
                groups[row["b"]].append(row["a"])  # type: ignore[arg-type]
        return table.over(
            ({"a": sum(g) if g else None, "b": b} for b, g in groups.items()), ordered=False
        )


@dataclass(frozen=True)
class Join:
    """Left join with the source on `a`; the right `b` comes in where there is one."""

    text = (
        "AS l |> LEFT JOIN (FROM t |> SELECT a, b) AS r ON l.a = r.a"
        " |> SELECT l.a, coalesce(r.b, l.b) AS b"
    )

    def run(self, table: Rows, source: list[Row]) -> Rows:
        rows = []
        for left in table.rows:
            matches = [r for r in source if compare(left["a"], "=", r["a"])]
            rows += [
                {"a": left["a"], "b": left["b"] if r["b"] is None else r["b"]} for r in matches
            ]
            if not matches:
                rows.append(left)
        return table.over(rows, ordered=False)


@dataclass(frozen=True)
class Rollup:
    """Sums for each `b`, and one of all rows."""

    text = "AGGREGATE sum(a)::BIGINT AS a GROUP BY ROLLUP(b) |> SELECT a, b"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        total = [r["a"] for r in table.rows if r["a"] is not None]
        whole = {"a": sum(total) if total else None, "b": None}  # type: ignore[arg-type]
        return table.over([*Aggregate().run(table, source).rows, whole], ordered=False)


@dataclass(frozen=True)
class Pivot:
    """Sums for two values of `b` as columns, and these as rows again."""

    text = "PIVOT (sum(a)::BIGINT FOR b IN ('x', 'y')) |> UNPIVOT (a FOR b IN (x, y))"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        rows = Aggregate().run(table, source).rows
        return table.over(
            (r for r in rows if r["b"] in ("x", "y") and r["a"] is not None), ordered=False
        )


@dataclass(frozen=True)
class Lateral:
    """For each row the next greater `a` of the source, where there is one."""

    text = (
        "AS l |> LEFT JOIN LATERAL (FROM t |> WHERE a > l.a |> ORDER BY a |> LIMIT 1"
        " |> SELECT a) AS r |> SELECT coalesce(r.a, l.a) AS a, l.b"
    )

    def run(self, table: Rows, source: list[Row]) -> Rows:
        def following(row: Row) -> object:
            greater = [r["a"] for r in source if compare(r["a"], ">", row["a"])]
            return min(greater, default=row["a"])  # type: ignore[type-var]

        return table.over(({**r, "a": following(r)} for r in table.rows), ordered=False)


@dataclass(frozen=True)
class Recursion:
    """Each row, and those with greater `a`, up to 3."""

    text = "RECURSIVE UNION ALL (|> WHERE a < 3 |> SET a = a + 1)"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        rows, last = list(table.rows), table.rows
        while last:
            last = [{**r, "a": plus(r["a"], 1)} for r in last if compare(r["a"], "<", 3)]
            rows += last
        return table.over(rows, ordered=False)


@dataclass(frozen=True)
class SemiJoin:
    anti: bool = False

    @property
    def text(self) -> str:
        kind = "ANTI" if self.anti else "SEMI"
        return f"{kind} JOIN (FROM t |> WHERE a > 1 |> SELECT a) USING (a)"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        keys = {r["a"] for r in source if compare(r["a"], ">", 1)}
        return table.over(
            (r for r in table.rows if (r["a"] in keys) is not self.anti), ordered=False
        )


@dataclass(frozen=True)
class InQuery:
    """A subquery in a condition."""

    text = "WHERE a IN (FROM t |> WHERE a IS NOT NULL |> ORDER BY a |> LIMIT 1 |> SELECT a)"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        known = [r["a"] for r in source if r["a"] is not None]
        least = min(known, default=None)  # type: ignore[type-var]
        return table.over(r for r in table.rows if least is not None and r["a"] == least)


@dataclass(frozen=True)
class PythonSet:
    """A Python function of a column; NULL gives NULL without a call."""

    text = "SET a = py.next_number(a)"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over({**r, "a": plus(r["a"], 1)} for r in table.rows)


@dataclass(frozen=True)
class PythonWhere:
    """A Python function as a condition beside a native one."""

    text = "WHERE py.is_odd(a) AND b IS NOT NULL"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over(
            r
            for r in table.rows
            if r["a"] is not None and r["a"] % 2 == 1 and r["b"] is not None  # type: ignore[operator]
        )


@dataclass(frozen=True)
class FlatMap:
    """As many rows as `a` says, three at most."""

    text = "FLATMAP py.repeat"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over(
            {"a": i, "b": r["b"]}
            for r in table.rows
            for i in range(max(0, min(3, r["a"] or 0)))  # type: ignore[type-var]
        )


@dataclass(frozen=True)
class Map:
    text = "MAP py.tidy"

    def run(self, table: Rows, source: list[Row]) -> Rows:
        return table.over({"a": r["a"] or 0, "b": str(r["b"])} for r in table.rows)


Clause = (
    Where
    | WhereNull
    | WhereRank
    | SetSum
    | Swap
    | Count
    | Limit
    | Sort
    | Distinct
    | DistinctOn
    | UnionAll
    | UnionDistinct
    | Unnest
    | Aggregate
    | Join
    | Rollup
    | Pivot
    | Lateral
    | Recursion
    | SemiJoin
    | InQuery
    | PythonSet
    | PythonWhere
    | FlatMap
    | Map
)


def script(clauses: Iterable[Clause]) -> str:
    """The pipeline as ZQL over the table `t`."""
    return " |> ".join(["FROM t", *(c.text for c in clauses), "SELECT a, b"])


def interpret(clauses: Iterable[Clause], source: list[Row]) -> Rows:
    """What the pipeline gives. Raises `Undefined` where the language leaves the rows open."""
    table = Rows(list(source))
    for clause in clauses:
        table = clause.run(table, source)
    return table


# ---- the Python functions of the scripts ---------------------------------------------------------

FUNCTIONS = """
from collections.abc import Iterator
from typing import TypedDict


class Pair(TypedDict):
    a: int | None
    b: str | None


def next_number(a: int) -> int:
    return a + 1


def is_odd(a: int) -> bool:
    return a % 2 == 1


def repeat(row: dict) -> Iterator[Pair]:
    for i in range(max(0, min(3, row["a"] or 0))):
        yield {"a": i, "b": row["b"]}


def tidy(row: dict) -> Pair:
    return {"a": row["a"] or 0, "b": str(row["b"])}
"""
