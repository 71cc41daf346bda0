"""Stages with Python: cut into tasks, given to workers or done here, their results put in order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from zql.errors import InternalError, Interrupted, UdfError, ZqlError
from zql.execution import kept, loader
from zql.execution.called import functions_of
from zql.execution.engine import Engine
from zql.execution.kept import KeptFile
from zql.execution.locate import input_place
from zql.execution.own_formats import format_of
from zql.execution.rejects import RejectWatch
from zql.execution.settings import MIB, Settings
from zql.execution.sources import Input
from zql.execution.stuck import late_error, without_stuck
from zql.execution.task import TaskResult, TaskSpec, run_task
from zql.execution.worker import Job
from zql.execution.writing import FileOutput, KeptOutput
from zql.logical.plan import Scan, StageResult
from zql.physical.plan import Stage

if TYPE_CHECKING:
    from zql.execution.pool import Death, Pool
    from zql.execution.reuse import Finished
    from zql.execution.shared import Objects


def inputs_of(
    stage: Stage, engine: Engine, settings: Settings, results: Mapping[int, Sequence[KeptFile]]
) -> list[Input]:
    """The parts of a stage's source, in its rows' order; they depend on the data alone."""
    match stage.source:
        case Scan() as scan:
            format_, options = format_of(scan.format, scan.own), dict(scan.options)
            if scan.own is not None and any(c.kind == "row" for c in scan.columns_read):
                options["file_row_number"] = True
            return list(format_.splits(scan.files, options, settings.split_size, engine))
        case StageResult(number) if stage.by_file:
            return [kept.Part(file, 0, file.rows) for file in results[number]]
        case StageResult(number):
            return list(kept.parts(results[number], settings.split_size, settings.batch_rows))
        case _:
            raise InternalError("tasks need a source")


def input_bytes(stage: Stage, results: Mapping[int, Sequence[KeptFile]]) -> int:
    """How much a stage has to read."""
    if isinstance(stage.source, Scan):
        return sum(file.size for file in stage.source.files)
    if isinstance(stage.source, StageResult):
        return sum(file.bytes for file in results[stage.source.stage])
    return 0


def specs(
    stage: Stage,
    inputs: Sequence[Input],
    outputs: Sequence[FileOutput | KeptOutput],
    settings: Settings,
    results: Mapping[int, tuple[KeptFile, ...]],
    numbers: Sequence[int] | None = None,
    rejects: str = "",
    count: int | None = None,
) -> list[TaskSpec]:
    """One task for each input and its output; they have the numbers given, or count from 0.

    `rejects` is a folder for rows that ON ERROR keeps; `count` is how many tasks there are together
    with those that need not be done.
    """
    read = {number: files for number, files in results.items() if number in stage.inputs}
    search, cwd = loader.searched(), os.getcwd()
    total = len(inputs) if count is None else count
    return [
        TaskSpec(
            number,
            stage,
            part,
            output,
            settings,
            read,
            search,
            cwd,
            stage.limit,
            rejects,
            tasks=total,
        )
        for number, part, output in zip(
            range(len(inputs)) if numbers is None else numbers, inputs, outputs, strict=True
        )
    ]


def run_here(
    specs: Sequence[TaskSpec],
    engine: Engine,
    watch: RejectWatch,
    shared: Objects,
    finished: Finished,
) -> list[TaskResult]:
    """Does tasks in this process, one after the other, until enough rows are there.

    `shared` objects are handed to the functions as they are. Raises the error of the first that
    fails. Ctrl-C reaches the functions themselves. Those that are `finished` are not done again.
    """
    found: list[TaskResult] = []
    with loader.no_bytecode():
        for spec in specs:
            catch = (Exception, SystemExit, GeneratorExit)
            result = finished.ready.get(spec.id) or run_task(spec, engine, catch, shared)
            if result.failure is not None:
                raise result.failure.error()
            if spec.id not in finished.ready:
                finished.note(result)
            watch.add(result.rejected)
            found.append(result)
            if _enough(found, spec.limit):
                break
    return found


def run_in_workers(
    specs: Sequence[TaskSpec],
    pool: Pool,
    watch: RejectWatch,
    engine: Engine,
    finished: Finished,
) -> list[TaskResult]:
    """Does tasks in the workers; their results in order, as far as rows are wanted.

    Raises the error of the first that fails, and of one whose worker died of it; `engine` finds
    the row at which it was. Those that are `finished` are not done again.
    """
    found = dict(finished.ready)
    for result in found.values():
        watch.add(result.rejected)
    ordered = _prefix(specs, found)
    if len(ordered) == len(specs) or _enough(ordered, specs[0].limit):
        return ordered
    outcomes = _outcomes([spec for spec in specs if spec.id not in found], pool, engine)
    try:
        for result in outcomes:
            if result.failure is not None:
                raise result.failure.error()
            watch.add(result.rejected)
            finished.note(result)
            found[result.id] = result
            ordered = _prefix(specs, found)
            if _enough(ordered, specs[0].limit):
                break
    except KeyboardInterrupt:
        raise Interrupted("interrupted", code="R799") from None
    finally:
        outcomes.close()  # type: ignore[attr-defined]
    return ordered


def _outcomes(specs: Sequence[TaskSpec], pool: Pool, engine: Engine) -> Iterator[TaskResult]:
    """The results of tasks as they come; a task whose call was stuck is done again without it."""
    waiting = list(specs)
    while waiting:
        jobs = [Job(spec.id, _do, spec, input_place(spec.input)) for spec in waiting]
        by_id = {spec.id: spec for spec in waiting}
        waiting = []
        outcomes = pool.run(jobs)
        try:
            for outcome in outcomes:
                spec, death = by_id[outcome.job.id], outcome.death
                if death is None:
                    yield outcome.value
                    continue
                if death.overdue is None:
                    names = [f.name for f in functions_of(spec.stage)]
                    raise death_error(death, outcome.job.place, names, pool.settings)
                waiting.append(without_stuck(spec, death, engine))
                pool.retries += 1
        finally:
            outcomes.close()  # type: ignore[attr-defined]


def _do(engine: Engine, spec: TaskSpec) -> TaskResult:
    return run_task(spec, engine)


def _prefix(specs: Sequence[TaskSpec], found: Mapping[int, TaskResult]) -> list[TaskResult]:
    """The results of the first tasks, up to the first that is not done, and as far as rows are
    wanted: which others are done is chance.
    """
    ordered: list[TaskResult] = []
    for spec in specs:
        if spec.id not in found or _enough(ordered, spec.limit):
            break
        ordered.append(found[spec.id])
    return ordered


def _enough(results: Sequence[TaskResult], limit: int | None) -> bool:
    if limit is None:
        return False
    return sum(r.file.rows for r in results if r.file is not None) >= limit


def death_error(death: Death, place: str, functions: Sequence[str], settings: Settings) -> ZqlError:
    """The error for a job that killed its worker while it called functions."""
    if death.overdue is not None:
        return late_error(functions[0], place, death.overdue, death.notes)
    calling = f", while it called {', '.join(dict.fromkeys(functions))}" if functions else ""
    if death.memory:
        return UdfError(
            f"out of memory: the worker on {place} was ended at the budget of "
            f"{settings.budget() // MIB:,} MiB{calling}",
            code="R716",
            hint="raise the budget (--memory, SET memory), run fewer workers, or lower split_size",
        )
    return UdfError(
        f"the worker on {place} died {death.tries} times ({death.reason}){calling}",
        code="R715",
        notes=death.notes,
        hint="the function may crash the process, call exit, or use too much memory",
    )
