"""What DuckDB measured while it ran a statement: its operators, bytes read and bytes spilled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from zql.tree import node

_DETAILS = ("Expression", "Groups", "Aggregates", "Order By", "Join Type", "Conditions", "Limit")
"""What DuckDB tells about an operator that says which part of the script it is."""


@node
class OperatorCount:
    """An operator of DuckDB: rows that came out, rows and bytes that a reader read, its own time.

    `detail` are DuckDB's words for what it does; `inputs` are the operators below.
    """

    name: str
    detail: str = ""
    rows: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    inputs: tuple[OperatorCount, ...] = ()


@node
class Profile:
    """One statement, or several of the same form added up."""

    operators: tuple[OperatorCount, ...] = ()
    bytes_read: int = 0
    bytes_spilled: int = 0


def profile_of(found: Mapping[str, Any]) -> Profile:
    """The profile that DuckDB gives as JSON."""
    io, system = found.get("io", {}), found.get("system", {})
    roots = found.get("operator", ())
    spilled = int(system.get("total_bytes_spilled", 0))
    scanned = sum(int(o.get("bytes_scanned", 0)) for o in _walk(roots))
    return Profile(
        tuple(o for root in roots for o in _operators(root)),
        scanned or int(io.get("total_bytes_read", 0)),
        spilled,
    )


def rows_scanned(found: Mapping[str, Any], functions: Collection[str]) -> int:
    """Rows that the statement read by these table functions (`READ_CSV`, ...).

    Rows that a reader drops itself, as Parquet's does, are not among them.
    """
    return sum(
        int(operator.get("rows_scanned", 0))
        for operator in _walk(found.get("operator", ()))
        if operator.get("extra_info", {}).get("Function") in functions
    )


def summed(profiles: Sequence[Profile]) -> Profile:
    """Profiles of statements that ran for the same stage, as one.

    Operators are added up when all have the same form, else those of the first are not shown.
    """
    if not profiles:
        return Profile()
    trees = {tuple(map(_form, p.operators)) for p in profiles}
    operators: tuple[OperatorCount, ...] = ()
    if len(trees) == 1:
        operators = tuple(map(_added, zip(*(p.operators for p in profiles), strict=True)))
    return Profile(
        operators,
        sum(p.bytes_read for p in profiles),
        sum(p.bytes_spilled for p in profiles),
    )


def _walk(operators: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    todo, found = list(operators), []
    while todo:
        operator = todo.pop()
        found.append(operator)
        todo += operator.get("children", ())
    return found


def _operators(found: Mapping[str, Any]) -> list[OperatorCount]:
    """The operator; those that only collect or pass rows on are left out."""
    below = tuple(o for child in found.get("children", ()) for o in _operators(child))
    name = str(found.get("name", "")).strip()
    if name in ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE"):
        return list(below)
    return [
        OperatorCount(
            name,
            _detail(found.get("extra_info", {})),
            int(found.get("intermediate_rows", 0)),
            int(found.get("rows_scanned", 0)),
            int(found.get("bytes_scanned", 0)),
            float(found.get("timing", 0.0)),
            below,
        )
    ]


def _detail(facts: Mapping[str, Any]) -> str:
    words = []
    for key in _DETAILS:
        value = facts.get(key)
        if value:
            words.append(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return " ".join("; ".join(words).split())


def _form(operator: OperatorCount) -> tuple[Any, ...]:
    return (operator.name, tuple(map(_form, operator.inputs)))


def _added(same: Sequence[OperatorCount]) -> OperatorCount:
    first = same[0]
    return OperatorCount(
        first.name,
        first.detail,
        sum(o.rows for o in same),
        sum(o.rows_read for o in same),
        sum(o.bytes_read for o in same),
        sum(o.seconds for o in same),
        tuple(map(_added, zip(*(o.inputs for o in same), strict=True))),
    )
