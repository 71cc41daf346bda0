"""SQL that only picks: columns, fields of records, rows where something is NULL or is not.

Batches that Python gave need no DuckDB for that, which would copy every value in and out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from zql.execution.kinds import Kind, parse, wire_type
from zql.expr.expression import Column, Expr, FieldAccess, Is, Logical
from zql.logical.plan import Filter, LogicalPlan, Project
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

Path = tuple[str, ...]
"""The name of a column, then of a field in it, of a field in that, and so on."""
_CHANGED = frozenset({"INTERVAL", "UNION", "NULL"})
"""Types of Arrow whose values DuckDB may give back in another form."""


@node
class Picks:
    """What a SELECT takes of each batch: its columns, of rows that pass all tests.

    A test is whether a value is NULL (True) or is not (False).
    """

    items: tuple[Path, ...]
    names: tuple[str, ...]
    tests: tuple[tuple[Path, bool], ...] = ()

    def fit(self, batches: pa.Schema, result: pa.Schema) -> bool:
        """Whether batches have all that is picked, in the types that the SELECT gives."""
        types = [_type(batches, path) for path in self.items]
        return types == result.types and all(_type(batches, path) for path, _ in self.tests)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known: dict[Path, pa.Array] = {}
        mask = None
        for path, is_null in self.tests:
            value = _value(batch, path, known)
            passed = pc.is_null(value) if is_null else pc.is_valid(value)
            mask = passed if mask is None else pc.and_(mask, passed)
        columns = [_value(batch, path, known) for path in self.items]
        rows = pa.RecordBatch.from_arrays(columns, names=list(self.names))
        return rows if mask is None or pc.all(mask).as_py() else rows.filter(mask)


def picks_of(plan: LogicalPlan, leaf: LogicalPlan) -> Picks | None:
    """What a plan picks of the rows of its leaf; None when it does anything else.

    So it does with types whose values DuckDB casts, when they come from Python.
    """
    paths: Mapping[str, Path] | None
    paths, tests = _picked(plan, leaf)
    if paths is None or not all(_passes(parse(column.type)) for column in plan.columns):
        return None
    return Picks(tuple(paths.values()), tuple(paths), tuple(tests))


def _picked(
    plan: LogicalPlan, leaf: LogicalPlan
) -> tuple[dict[str, Path] | None, list[tuple[Path, bool]]]:
    """Where the columns are found in the leaf, and the tests."""
    if plan is leaf:
        return {column.name: (column.name,) for column in leaf.columns}, []
    if not isinstance(plan, Filter | Project):
        return None, []
    below, tests = _picked(plan.input, leaf)
    if below is None:
        return None, []
    if isinstance(plan, Filter):
        found = list(_tests(plan.predicate, below))
        if None in found:
            return None, []
        return below, tests + [test for test in found if test is not None]
    items = {a.column.name: _path(a.expr, below) for a in plan.assigns}
    named = {name: path for name, path in items.items() if path is not None}
    return (named if len(named) == len(plan.assigns) else None), tests


def _tests(predicate: Expr, paths: Mapping[str, Path]) -> Iterator[tuple[Path, bool] | None]:
    """The tests that a predicate is made of; None for one that is no such test."""
    if isinstance(predicate, Logical) and predicate.op == "AND":
        for operand in predicate.operands:
            yield from _tests(operand, paths)
        return
    path = None
    if isinstance(predicate, Is) and predicate.test == "NULL":
        path = _path(predicate.operand, paths)
        if path is not None:
            yield path, not predicate.negated
            return
    yield None


def _path(expr: Expr, paths: Mapping[str, Path]) -> Path | None:
    if isinstance(expr, Column):
        return paths.get(expr.name)
    if isinstance(expr, FieldAccess):
        below = _path(expr.operand, paths)
        return None if below is None else (*below, expr.field_name)
    return None


def _passes(kind: Kind) -> bool:
    return (
        wire_type(kind) == kind
        and kind.name not in _CHANGED
        and all(_passes(part) for _, part in kind.parts)
    )


def _type(schema: pa.Schema, path: Path) -> pa.DataType | None:
    import pyarrow as pa

    index = schema.get_field_index(path[0])
    type_ = schema.field(index).type if index >= 0 else None
    for name in path[1:]:
        if type_ is None or not pa.types.is_struct(type_):
            return None
        index = type_.get_field_index(name)
        type_ = type_.field(index).type if index >= 0 else None
    return type_


def _value(batch: pa.RecordBatch, path: Path, known: dict[Path, pa.Array]) -> pa.Array:
    """A field of a record that is NULL is NULL."""
    import pyarrow.compute as pc

    if path not in known:
        known[path] = (
            pc.struct_field(_value(batch, path[:-1], known), path[-1])
            if path[1:]
            else batch.column(path[0])
        )
    return known[path]
