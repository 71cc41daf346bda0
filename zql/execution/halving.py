"""Tasks that do not fit into memory, done in halves; what comes of them is put together again.

The rows are those of the whole task, in their order, and so are the bytes of a file: the halves
keep their rows, and one writer takes them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zql.execution import checksums, kept
from zql.execution.engine import MEMORY, Engine
from zql.execution.kept import KeptFile, Part
from zql.execution.own_formats import format_of
from zql.execution.report import summed
from zql.execution.sources import Input, Sources
from zql.execution.stages import columns_of
from zql.execution.tallies import added_up
from zql.execution.task import Failure, TaskResult, TaskSpec
from zql.execution.temporary_folders import make_folder, remove_folder
from zql.execution.writing import FileOutput, KeptOutput, write_file
from zql.logical.plan import Apply, Fold, MapRows, Reduce, Scan
from zql.physical.exchange import STARTS
from zql.physical.plan import CallPython

if TYPE_CHECKING:
    import pyarrow as pa

_SMALLER = re.compile(r",(?: (run fewer workers),)? or lower split_size$")
_MOST_DEPTH = 5
"""A task is done in no more than so many halvings: 32 parts."""


def _without(hint: re.Match[str]) -> str:
    """What else helps than smaller parts, which did not."""
    return f" or {hint[1]}" if hint[1] else ""


def done_in_halves(
    spec: TaskSpec,
    failure: Failure,
    engine: Engine,
    do: Callable[[TaskSpec], TaskResult],
    depth: int = 0,
) -> TaskResult:
    """What a task gives that failed for its memory; `do` runs a task alone.

    Its failure is a part of the result when it cannot be halved, or a part fails otherwise.
    """
    parts = _halves(spec) if depth < _MOST_DEPTH else None
    if parts is None:
        tried = f"it was halved {depth} times" if depth > 1 else "it was halved once"
        if depth:
            hint = _SMALLER.sub(_without, failure.hint or "")
            failure = replace(failure, notes=(*failure.notes, tried), hint=hint or None)
        return TaskResult(spec.id, None, failure=failure)
    folder = make_folder(spec.settings.temp_root())
    try:
        results = []
        for part in parts:
            half = replace(spec, input=part, output=KeptOutput(folder))
            result = do(half)
            if result.failure is not None and result.failure.code in MEMORY:
                result = done_in_halves(half, result.failure, engine, do, depth + 1)
            if result.failure is not None:
                return result
            results.append(result)
        return _together(spec, results, engine)
    finally:
        remove_folder(folder)


def _together(spec: TaskSpec, results: Sequence[TaskResult], engine: Engine) -> TaskResult:
    files = [r.file for r in results if r.file is not None and r.file.rows]
    return TaskResult(
        spec.id,
        _file(spec, files, engine),
        sum(result.records_in for result in results),
        summed([result.steps for result in results]),
        sum(result.seconds for result in results),
        sum(result.bytes_spilled for result in results),
        tuple(rejected for result in results for rejected in result.rejected),
        added_up(result.tallies for result in results),
    )


def _file(spec: TaskSpec, files: Sequence[KeptFile], engine: Engine) -> KeptFile:
    if isinstance(spec.output, FileOutput):
        columns = columns_of(spec.stage)
        with engine.cursor() as cursor, Sources(cursor, {}, {}, {}) as sources:
            relation = sources.registered(kept.table(files), columns)
            path = spec.output.path(spec.id)
            return write_file(cursor, f"FROM {relation}", columns, spec.output, path)
    if not files:
        return KeptFile("", 0, 0)
    writer: kept.KeptWriter | None = None
    batch: pa.RecordBatch
    for file in files:
        for batch in kept.mapped(file).to_batches():
            if writer is None:
                writer = kept.KeptWriter(kept.new_path(spec.output.folder, spec.id), batch.schema)
            writer.write(batch)
    if writer is None:
        return KeptFile("", 0, 0)
    return checksums.summed(writer.close()) if spec.output.summed else writer.close()


def _halves(spec: TaskSpec) -> tuple[Input, Input] | None:
    """The two halves of what a task reads; None when its rows, or groups, belong together."""
    calls = [step.call for step in spec.stage.steps if isinstance(step, CallPython)]
    if spec.limit is not None:
        return None
    if isinstance(spec.input, Part):
        if all(map(_is_row_wise, calls)):
            return _parts(spec.input, (spec.input.start + spec.input.stop) // 2)
        grouped = len(calls) == 1 and isinstance(calls[0], Reduce | Fold) and calls[0].keys
        middle = _start_of_group(spec.input) if grouped and spec.stage.by_file else None
        return None if middle is None else _parts(spec.input, middle)
    source = spec.stage.source
    if not isinstance(source, Scan) or not all(map(_is_row_wise, calls)):
        return None
    return format_of(source.format, source.own).halves(spec.input, dict(source.options))


def _is_row_wise(call: object) -> bool:
    return isinstance(call, Apply) or (isinstance(call, MapRows) and not call.is_of_many)


def _parts(part: Part, middle: int) -> tuple[Part, Part] | None:
    if not part.start < middle < part.stop:
        return None
    return Part(part.file, part.start, middle), Part(part.file, middle, part.stop)


def _start_of_group(part: Part) -> int | None:
    """The row nearest to the middle with which a group begins; None when there is one group."""
    import pyarrow.compute as pc

    rows = kept.part_table(part)
    if STARTS not in rows.column_names:
        return None
    begins: list[int] = [n for n in pc.indices_nonzero(rows.column(STARTS)).to_pylist() if n > 0]
    if not begins:
        return None
    return part.start + min(begins, key=lambda n: abs(n - rows.num_rows // 2))
