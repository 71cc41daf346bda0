"""Tasks: one stage on one part of its source. `run_task` is a pure function of picklable data.

What a task gives are files; only paths, numbers and texts come back. It never raises: a failure is
a part of its result, since an exception may be one that cannot be sent to another process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from zql.errors import Interrupted, RunError, StorageError, UdfError, ZqlError
from zql.execution import call_timeout, loader, traces
from zql.execution.asserts import assert_failure
from zql.execution.binding import Catch
from zql.execution.checksums import summed
from zql.execution.engine import OUT_OF_MEMORY, Engine, EngineError
from zql.execution.kept import KeptFile, KeptWriter, new_path
from zql.execution.locate import input_place
from zql.execution.own_formats import format_of
from zql.execution.picks import picks_of
from zql.execution.pipeline import Pipeline, leaves
from zql.execution.places import placing
from zql.execution.rejects import Rejected
from zql.execution.report import StepCount
from zql.execution.settings import Settings
from zql.execution.shared import Objects, Stored
from zql.execution.sources import Input, Remembering, casts, new_name
from zql.execution.tallies import Tallies
from zql.execution.wording import worded
from zql.execution.writing import Fed, FileOutput, KeptOutput, write_file
from zql.failpoints import hit
from zql.logical.plan import BatchInput, LogicalPlan, Scan
from zql.physical.broadcast import has_join
from zql.physical.plan import RunSql, Stage
from zql.physical.sql import render
from zql.source import Span
from zql.storage.format import Split

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """All that a worker must know for one task.

    `search` are folders for imports of user code, `cwd` is what paths are relative to; more than
    `limit` rows are not wanted. Rows that ON ERROR keeps, and those that wait for the end of a
    call, go into the folder `rejects`. `shared` has the folders of shared objects by key; the stage
    has so many `tasks`, whose scratch folders are made in `scratch`. Calls that are `stuck` are not
    made again: they ended the workers that made them.
    """

    id: int
    stage: Stage
    input: Input
    output: FileOutput | KeptOutput
    settings: Settings
    results: Mapping[int, tuple[KeptFile, ...]]
    search: tuple[str, ...] = ()
    cwd: str = "."
    limit: int | None = None
    rejects: str = ""
    shared: Mapping[str, str] = field(default_factory=dict)
    tasks: int = 1
    stuck: Mapping[int, frozenset[call_timeout.Span]] = field(default_factory=dict)
    scratch: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as data; `kind` is the name of a class in `zql.errors`."""

    kind: str
    code: str
    message: str
    hint: str | None = None
    notes: tuple[str, ...] = ()
    span: Span | None = None
    suspects: tuple[Span, ...] = ()

    def error(self) -> ZqlError:
        """The error itself."""
        kinds: tuple[type[ZqlError], ...] = (UdfError, StorageError, Interrupted, RunError)
        found = {kind.__name__: kind for kind in kinds}.get(self.kind, RunError)
        error = found(
            self.message, code=self.code, hint=self.hint, notes=self.notes, span=self.span
        )
        error.suspects = self.suspects
        return error


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task did: its file, and how much went through; or why it failed.

    `tallies` are the counters of its functions.
    """

    id: int
    file: KeptFile | None
    records_in: int = 0
    steps: tuple[StepCount, ...] = ()
    seconds: float = 0.0
    bytes_spilled: int = 0
    rejected: tuple[Rejected, ...] = ()
    tallies: Tallies = field(default_factory=dict)
    failure: Failure | None = None


def run_task(
    spec: TaskSpec,
    engine: Engine,
    catch: Catch = BaseException,
    shared: Objects | None = None,
) -> TaskResult:
    """Does one task on an engine; never raises.

    `shared` are the objects themselves, when this is the process that made them.
    """
    began = time.perf_counter()
    try:
        hit("task_begun")
        os.chdir(spec.cwd)
        for folder in spec.search:
            loader.search(folder)
        pipeline = Pipeline(
            spec.stage,
            spec.input,
            engine,
            spec.settings,
            results=spec.results,
            catch=catch,
            count_input=True,
            tasks=(spec.id, spec.tasks),
            stuck=spec.stuck,
        )
        pipeline.keep_rejects(spec.rejects)
        pipeline.scratch = spec.scratch
        pipeline.shared = Stored(spec.shared) if shared is None else shared
        with pipeline:
            file = _written(pipeline, spec)
            rejected = pipeline.rejected()
        hit("task_ended")
        return TaskResult(
            spec.id,
            file,
            pipeline.records_in,
            tuple(pipeline.counts),
            time.perf_counter() - began,
            pipeline.bytes_spilled,
            rejected,
            dict(pipeline.tallies),
        )
    except BaseException as error:  # noqa: BLE001 - see above
        return TaskResult(spec.id, None, failure=failure(error, spec.stage, spec.input))


def failure(error: BaseException, stage: Stage, input: Input | None) -> Failure:
    """Any exception of a task as data."""
    place = input_place(input)
    if isinstance(error, KeyboardInterrupt):
        return Failure("Interrupted", "R799", "interrupted")
    if isinstance(error, MemoryError):
        hint = "raise the memory budget, or lower split_size"
        return Failure("RunError", "R731", f"out of memory on {place}", hint)
    if isinstance(error, OSError):
        where = f"{error.filename} " if error.filename else ""
        message = f"{where}failed on {place}: {error.strerror or error}"
        return Failure("StorageError", "R737", message, notes=traces.all_frames(error))
    if isinstance(error, EngineError):
        asserted = assert_failure(error.message, stage, place)
        if asserted is not None:
            return Failure("RunError", "R760", str(asserted.message), None, asserted.notes)
        found = read_failure(error, stage, input)
        if found is not None:
            return Failure("StorageError", found.code, found.message, found.hint, found.notes)
        if error.kind == OUT_OF_MEMORY:
            hint = "raise the memory budget (--memory, SET memory), or lower split_size"
            first = error.message.partition("\n")[0]
            return Failure("RunError", "R731", f"out of memory on {place}: {first}", hint)
        error = worded(error)
        notes = (*error.notes, f"while working on {place}")
        return Failure(
            "RunError", error.code, error.message, error.hint, notes, error.span, error.suspects
        )
    if isinstance(error, ZqlError):
        told = (error.code, error.message, error.hint, error.notes)
        return Failure(type(error).__name__, *told, error.span)
    message = f"internal error on {place}: {traces.told(error)}"
    return Failure("RunError", "X901", message, notes=traces.all_frames(error))


def read_failure(error: EngineError, stage: Stage, input: Input | None) -> StorageError | None:
    """The place in a file behind an error of DuckDB's readers, when the format can find it."""
    scans = [stage.source] if isinstance(stage.source, Scan) else list(scans_of(stage))
    for scan in scans:
        files = [input.file] if isinstance(input, Split) else list(scan.files)
        format_ = format_of(scan.format, scan.own)
        found = format_.explain_failure(files, dict(scan.options), error.message)
        if isinstance(found, StorageError):
            return found
    return None


def scans_of(stage: Stage) -> Iterator[Scan]:
    """The scans in a stage's SQL."""
    from zql.tree import walk

    for step in stage.steps:
        yield from (node for node in walk(step) if isinstance(node, Scan))


def _written(pipeline: Pipeline, spec: TaskSpec) -> KeptFile:
    if isinstance(spec.output, KeptOutput):
        return _keep(pipeline, spec.output, spec.id, spec.limit)
    return _write(pipeline, spec.output, spec.id)


def _keep(pipeline: Pipeline, output: KeptOutput, number: int, limit: int | None) -> KeptFile:
    names = [column.name for column in pipeline.columns()]
    path = new_path(output.folder, number)
    writer: KeptWriter | None = None
    rows = 0
    for batch in pipeline.batches():
        chosen = batch.select(names)
        if writer is None:
            writer = KeptWriter(path, chosen.schema)
        writer.write(chosen)
        rows += batch.num_rows
        if limit is not None and rows >= limit:
            break
    if writer is None:
        return KeptFile("", 0, 0)
    return summed(writer.close()) if output.summed else writer.close()


def _write(pipeline: Pipeline, output: FileOutput, number: int) -> KeptFile:
    """One COPY that takes the batches as they are made, with the last SQL step in it."""
    last = len(pipeline.steps) - 1
    step = pipeline.steps[last]
    if isinstance(step, RunSql) and last > 0 and not has_join(step.plan):
        plan: LogicalPlan = step.plan
        stream = Remembering(pipeline.batches(last))
        (leaf,) = leaves(plan)
    else:
        plan = leaf = BatchInput(pipeline.columns())
        stream = Remembering(pipeline.batches())
    engine, sources = pipeline.connection()
    began = time.perf_counter()
    first = next(stream, None)
    fed = None
    if first is None:
        relation = sources.registered(None, leaf.columns)
    else:
        fed = Fed(new_name(), first.schema, chain((first,), stream), picks_of(plan, leaf))
        relation = f"(SELECT {casts(leaf.columns)} FROM {fed.name})"
    relations = sources.of(plan, {leaf: relation})
    select = render(plan, relations)
    path = output.path(number)
    try:
        with placing(plan, relations):
            file = write_file(engine, select, plan.columns, output, path, fed)
    except ZqlError:
        if stream.error is not None:
            raise stream.error from None
        raise
    count = pipeline.counts[last]
    if plan is not leaf:
        count.rows_in, count.rows_out = stream.rows, file.rows
        count.seconds = time.perf_counter() - began - stream.seconds
    return file
