"""Stages with Python: cut into tasks, given to workers or done here, their results put in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from zql.errors import InternalError, Interrupted, UdfError, ZqlError
from zql.execution import gpus, kept, loader, worker
from zql.execution.called import functions_of
from zql.execution.engine import MEMORY, Engine
from zql.execution.executor import Executor, InProcess, Job
from zql.execution.halving import done_in_halves
from zql.execution.kept import KeptFile
from zql.execution.locate import input_place
from zql.execution.own_formats import format_of
from zql.execution.rejects import RejectWatch
from zql.execution.settings import MIB, Settings
from zql.execution.sizes import split_of_tasks
from zql.execution.sources import Input
from zql.execution.stuck import late_error, place_of, without_stuck
from zql.execution.task import Failure, TaskResult, TaskSpec, run_task
from zql.execution.writing import FileOutput, KeptOutput
from zql.failpoints import hit
from zql.logical.plan import Scan, StageResult
from zql.physical.plan import Stage

if TYPE_CHECKING:
    from zql.execution.executor import Death
    from zql.execution.reuse import Finished
    from zql.execution.shared import Objects


def inputs_of(
    stage: Stage, engine: Engine, settings: Settings, results: Mapping[int, Sequence[KeptFile]]
) -> list[Input]:
    """The parts of a stage's source, in its rows' order; they depend on the data alone."""
    total = input_bytes(stage, results)
    match stage.source:
        case Scan() as scan:
            format_, options = format_of(scan.format, scan.own), dict(scan.options)
            if scan.own is not None and any(c.kind == "row" for c in scan.columns_read):
                options["file_row_number"] = True
            size = split_of_tasks(total, settings.split_size, settings.tasks).size
            return list(format_.splits(scan.files, options, size, engine))
        case StageResult(number) if stage.by_file:
            return [kept.Part(file, 0, file.rows) for file in results[number]]
        case StageResult(number):
            size = split_of_tasks(total, settings.split_size, settings.tasks).size
            return list(kept.parts(results[number], size, settings.batch_rows))
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
    executor: InProcess,
    watch: RejectWatch,
    engine: Engine,
    shared: Objects,
    finished: Finished,
) -> list[TaskResult]:
    """Does tasks in this process, in order; otherwise as `run_tasks`.

    `shared` objects are handed to the functions as they are. Ctrl-C reaches the functions
    themselves.
    """
    catch = (Exception, SystemExit, GeneratorExit)

    def do(engine: Engine, spec: TaskSpec) -> TaskResult:
        return run_task(spec, engine, catch, shared)

    with loader.no_bytecode():
        return run_tasks(specs, executor, watch, engine, finished, do)


def run_tasks(
    specs: Sequence[TaskSpec],
    executor: Executor,
    watch: RejectWatch,
    engine: Engine,
    finished: Finished,
    do: Callable[[Engine, TaskSpec], TaskResult] | None = None,
) -> list[TaskResult]:
    """Does tasks on an executor; their results in order, as far as rows are wanted.

    Raises the error of the first that fails, and of one whose worker died of it; `engine` finds
    the row at which it was. Those that are `finished` are not done again. `do` is what is done
    for each, if not `run_task` alone.
    """
    found = dict(finished.ready)
    for result in found.values():
        watch.add(result.rejected)
    ordered = _prefix(specs, found)
    if len(ordered) == len(specs) or _enough(ordered, specs[0].limit):
        return ordered
    too_big: dict[int, Failure] = {}
    todo = [spec for spec in specs if spec.id not in found]
    outcomes = _outcomes(todo, executor, engine, do or _do)
    try:
        for result in outcomes:
            if result.id in found:
                continue  # an executor may start a slow task twice, and both may come to their end
            if result.failure is not None and result.failure.code in MEMORY:
                too_big[result.id] = result.failure
                continue
            if result.failure is not None:
                raise result.failure.error()
            watch.add(result.rejected)
            finished.note(result)
            found[result.id] = result
            hit("task_acked")
            ordered = _prefix(specs, found)
            if _enough(ordered, specs[0].limit):
                break
        for spec in specs:
            if spec.id in too_big and not _enough(ordered, spec.limit):
                alone = partial(_alone, executor=executor, engine=engine, do=do or _do)
                result = done_in_halves(spec, too_big[spec.id], engine, alone)
                if result.failure is not None:
                    raise result.failure.error()
                watch.add(result.rejected)
                finished.note(result)
                found[spec.id] = result
                ordered = _prefix(specs, found)
    except KeyboardInterrupt:
        raise Interrupted("interrupted", code="R799") from None
    finally:
        outcomes.close()
    return ordered


def _alone(
    spec: TaskSpec,
    executor: Executor,
    engine: Engine,
    do: Callable[[Engine, TaskSpec], TaskResult],
) -> TaskResult:
    """The result of a task that has the workers to itself."""
    outcomes = _outcomes([spec], executor, engine, do)
    try:
        return next(outcomes)
    finally:
        outcomes.close()


def _outcomes(
    specs: Sequence[TaskSpec],
    executor: Executor,
    engine: Engine,
    do: Callable[[Engine, TaskSpec], TaskResult],
) -> Generator[TaskResult]:
    """The results of tasks as they come; a task whose call was stuck is done again without it."""
    waiting = list(specs)
    while waiting:
        jobs = [_job(spec, do) for spec in waiting]
        by_id = {spec.id: spec for spec in waiting}
        waiting = []
        outcomes = executor.run(jobs)
        try:
            for outcome in outcomes:
                spec, death = by_id[outcome.job.id], outcome.death
                if death is None:
                    yield outcome.value
                    continue
                if death.overdue is None:
                    names = [f.name for f in functions_of(spec.stage)]
                    place = place_of(spec, engine, death.rows)
                    asked = spec.stage.resources
                    own = spec.settings if asked is not None and asked.budget else None
                    error = death_error(death, place, names, own or executor.settings, own=own)
                    if not death.memory:
                        raise error
                    told = Failure("UdfError", error.code, error.message, error.hint, error.notes)
                    yield TaskResult(spec.id, None, failure=told)
                    continue
                waiting.append(without_stuck(spec, death, engine))
                executor.retries += 1
        finally:
            close = getattr(outcomes, "close", None)
            if close is not None:
                close()


def _job(spec: TaskSpec, do: Callable[[Engine, TaskSpec], TaskResult]) -> Job:
    place, asked = input_place(spec.input), spec.stage.resources
    if asked is None:
        return Job(spec.id, do, spec, place)
    most = spec.settings.worker_count()
    return Job(spec.id, do, spec, place, spec.stage.id, most, asked.budget)


def _do(engine: Engine, spec: TaskSpec) -> TaskResult:
    asked = spec.stage.resources
    if asked is None:
        return run_task(spec, engine)
    if asked.gpus:
        gpus.choose(worker.rank(), asked.gpus)
    memory = None if asked.budget is None else spec.settings.worker_memory()
    threads = None if spec.settings.worker_threads == 1 else spec.settings.worker_threads
    with engine.limited(threads, memory):
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


def death_error(
    death: Death,
    place: str,
    functions: Sequence[str],
    settings: Settings,
    own: Settings | None = None,
) -> ZqlError:
    """The error for a job that killed its worker while it called functions.

    `own` are settings of its stage, when that has a budget of its own.
    """
    if death.overdue is not None:
        return late_error(functions[0], place, death.overdue, death.notes)
    calling = f", while it called {', '.join(dict.fromkeys(functions))}" if functions else ""
    if death.memory:
        return UdfError(
            f"out of memory: the worker on {place} was ended at the budget of "
            f"{settings.budget() // MIB:,} MiB{calling}",
            code="R716",
            hint=(
                "raise the budget "
                + ("(--memory, SET memory)" if own is None else "of its stage (@{memory = ..})")
                + ", run fewer workers, or lower split_size"
            ),
        )
    if death.seconds is not None:
        return UdfError(
            f"the task on {place} took more than {death.seconds:g} seconds, and was ended with its "
            f"worker, {death.tries} times{calling}",
            code="R735",
            notes=death.notes,
            hint="SET task_timeout to more, or lower split_size: then tasks are smaller",
        )
    return UdfError(
        f"the worker on {place} died {death.tries} times ({death.reason}){calling}",
        code="R715",
        notes=death.notes,
        hint="the function may crash the process, call exit, or use too much memory; ON ERROR lets"
        " exceptions go, not this",
    )
