"""Keys of rows from all over the files that a stage of SQL reads, before it is done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from zql.execution.engine import Engine
from zql.execution.own_formats import format_of
from zql.execution.ranges import Sample
from zql.execution.sources import Sources
from zql.expr.expression import Column
from zql.logical.plan import LogicalPlan, Project, Scan
from zql.physical.split import is_row_local
from zql.physical.sql import render
from zql.tree import walk

_SPLITS = 16
"""So many places of the files are read."""
_SHARE = 64
"""Of all splits one in so many is read, about."""
_LEAST_BYTES = 1 << 20
_BATCH_ROWS = 1 << 16


def sampled(
    plan: LogicalPlan,
    ticket: Column,
    connection: Callable[[ExitStack], tuple[Engine, Sources]],
) -> Sample:
    """The values of a column for some of the rows; none where files cannot be read in part."""
    sample = Sample()
    scans = list(dict.fromkeys(node for node in walk(plan) if isinstance(node, Scan)))
    if not isinstance(plan, Project) or not is_row_local(plan) or len(scans) != 1:
        return sample
    (scan,) = scans
    format_, options = format_of(scan.format, scan.own), dict(scan.options)
    size = max(_LEAST_BYTES, sum(file.size for file in scan.files) // (_SPLITS * _SHARE))
    with ExitStack() as stack:
        engine, _ = connection(stack)
        splits = list(format_.splits(scan.files, options, size, engine))
    if len(splits) < 2 * _SPLITS:
        return sample
    keys = Project(plan.input, tuple(a for a in plan.assigns if a.column == ticket))
    for split in splits[:: len(splits) // _SPLITS]:
        with ExitStack() as stack:
            engine, sources = connection(stack)
            sql = render(keys, sources.of(keys, {scan: sources.relation(scan, split)}))
            stream = stack.enter_context(engine.batches(sql, _BATCH_ROWS, lossless=True))
            for batch in stream:
                sample.add(batch.column(0))
    return sample
