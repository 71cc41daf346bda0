"""A sort of rows that are too wide for DuckDB's: it holds parts of all runs in memory at once.

The rows are kept as they come. Their keys are sorted without them, which needs little; then the
rows are fetched range by range of the sorted order, each range small enough for memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zql.execution.kept import KeptFile, mapped
from zql.execution.settings import MIB
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.tree import walk

if TYPE_CHECKING:
    import pyarrow as pa

UNSORTED = 0
"""The number under which the rows that are to be sorted are read: no stage has it."""
_INDEX = ex.Column("zql index", "BIGINT")
_MOST_BYTES = 256 * MIB


def sorted_rows(plan: lp.LogicalPlan) -> tuple[lp.Project, lp.Sort] | None:
    """A plan's sort and what it keeps of the rows, if that is all that it does."""
    if not isinstance(plan, lp.Project) or not isinstance(plan.input, lp.Sort):
        return None
    keys = {key.expr for key in plan.input.keys}
    computed = [a.expr for a in plan.assigns if not isinstance(a.expr, ex.Column)]
    used = {n for expr in computed for n in walk(expr) if isinstance(n, ex.Column)}
    known = all(isinstance(key, ex.Column) for key in keys) and used <= keys
    return (plan, plan.input) if known else None


def order_of(project: lp.Project, sort: lp.Sort) -> lp.LogicalPlan:
    """The keys alone, sorted: where each row stood, and what is computed of the keys."""
    rows = lp.StageResult(UNSORTED, sort.input.columns)
    keys = tuple(dict.fromkeys(key.expr for key in sort.keys if isinstance(key.expr, ex.Column)))
    number = ex.Call(("row_number",), window=ex.Window())
    narrow = lp.Project(rows, (lp.Assign(_INDEX, number), *(lp.Assign(k, k) for k in keys)))
    computed = (a for a in project.assigns if not isinstance(a.expr, ex.Column))
    return lp.Project(lp.Sort(narrow, sort.keys), (lp.Assign(_INDEX, _INDEX), *computed))


def schema_of(project: lp.Project, rows: pa.Schema, order: pa.Schema) -> pa.Schema:
    """The columns that come out."""
    import pyarrow as pa

    return pa.schema(
        pa.field(a.column.name, rows.field(a.expr.name).type)
        if isinstance(a.expr, ex.Column)
        else order.field(a.column.name)
        for a in project.assigns
    )


def fetched(
    project: lp.Project,
    files: Sequence[KeptFile],
    order: Sequence[KeptFile],
    memory: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of `files` in the `order`, in batches of a fraction of `memory` bytes."""
    total, size = sum(f.rows for f in files), sum(f.bytes for f in files)
    rows = max(1, min(memory // 8, _MOST_BYTES) * total // max(size, 1))
    pieces = [(start, batch) for start, batch in _numbered(files)]
    for file in order:
        for start in range(0, file.rows, rows):
            yield _range(project, pieces, mapped(file).slice(start, rows))


def _numbered(files: Sequence[KeptFile]) -> Iterator[tuple[int, pa.RecordBatch]]:
    start = 0
    for file in files:
        for batch in mapped(file).to_batches():
            yield start, batch
            start += batch.num_rows


def _range(
    project: lp.Project, pieces: Sequence[tuple[int, pa.RecordBatch]], order: pa.Table
) -> pa.RecordBatch:
    """The rows that a part of the order names: read in the order in which they lie."""
    import pyarrow as pa
    import pyarrow.compute as pc

    order = order.combine_chunks()
    index = pc.subtract(order.column(0).combine_chunks(), 1)
    by_place = pc.sort_indices(index)
    places = index.take(by_place)
    at = memoryview(places.buffers()[1]).cast("q")[: len(places)]
    taken = (a.expr.name for a in project.assigns if isinstance(a.expr, ex.Column))
    names = list(dict.fromkeys(taken))
    found = []
    for start, batch in pieces:
        low, high = bisect_left(at, start), bisect_left(at, start + batch.num_rows)
        if low < high:
            here = pc.subtract(places.slice(low, high - low), start)
            found.append(batch.select(names).take(here))
    rows = pa.concat_batches(found).take(pc.sort_indices(by_place))
    arrays = [
        rows.column(a.expr.name)
        if isinstance(a.expr, ex.Column)
        else order.column(a.column.name).combine_chunks()
        for a in project.assigns
    ]
    return pa.record_batch(arrays, names=[a.column.name for a in project.assigns])
