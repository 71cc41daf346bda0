"""One plan on its way: stages in order, what they leave for each other, and the outputs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from zql.errors import InternalError, ZqlError
from zql.execution.called import has_time_limit
from zql.execution.engine import OUT_OF_MEMORY, Engine, EngineError
from zql.execution.exchanges import Exchanges
from zql.execution.executor import Executor, InProcess
from zql.execution.kept import brought
from zql.execution.machine import give_memory_back
from zql.execution.native import NativeStage, plan_of
from zql.execution.settings import Settings
from zql.execution.sorts import Sorts
from zql.execution.stages import (
    columns_of,
    explained,
    hint_of_parts,
    is_python,
    reading,
)
from zql.execution.stored import StoredTable
from zql.execution.stream import RowStream
from zql.execution.temporary_folders import make_folder, remove_folder
from zql.failpoints import hit
from zql.physical.dealt import undealt
from zql.physical.plan import (
    Collect,
    Keep,
    PhysicalPlan,
    Stage,
    StoreTable,
    policed_scans,
    policies_of,
    rejects_of,
)

if TYPE_CHECKING:
    from zql.execution.history import RunNotes
    from zql.execution.kept import KeptFile
    from zql.execution.mixing import Mixer
    from zql.execution.report import RunReport, StageReport
    from zql.execution.reuse import Reuse
    from zql.execution.shared import SharedObjects
    from zql.execution.sources import Input
    from zql.execution.stored import StoredTables
    from zql.execution.tallies import Number, Tallies
    from zql.execution.task import TaskResult
    from zql.execution.writing import FileOutput, KeptOutput
    from zql.expr.expression import SharedObject
    from zql.expr.functions import ErrorPolicy
    from zql.logical.plan import Scan
    from zql.storage.format import WrittenFile


def _reading(stage: Stage) -> list[ErrorPolicy]:
    """The policies of a stage's readers."""
    return [scan.on_error for scan in policed_scans(stage) if scan.on_error is not None]


class Host(Protocol):
    """What a run needs of its runner."""

    @property
    def settings(self) -> Settings: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def objects(self) -> Mapping[str, object]: ...

    @property
    def tables(self) -> StoredTables: ...

    @property
    def shared(self) -> SharedObjects: ...

    def shared_folders(self, objects: Sequence[SharedObject]) -> Mapping[str, str]: ...

    def take_retries(self) -> int: ...

    def pool(self, workers: int | None = None) -> Executor: ...

    def folder(self) -> str: ...

    @property
    def notes(self) -> RunNotes | None: ...


def most_workers(plan: PhysicalPlan, settings: Settings) -> int:
    """The workers of the stage with Python that asks for most of them."""
    asked = [stage.resources for stage in plan.stages if is_python(stage)]
    return max(settings.for_stage(each, python=True).worker_count() for each in asked)


class Run:
    """One plan being run. A context manager: leaving it removes what it kept."""

    def __init__(
        self, host: Host, plan: PhysicalPlan, *, measured: bool = False, cached: bool = True
    ) -> None:
        """A `measured` run reports DuckDB's own operators too.

        A query uses the cache, if there is one, unless it is not to be `cached`.
        """
        self.host = host
        self.plan = plan
        self.measured = measured
        self.results: dict[int, tuple[KeptFile, ...]] = {
            # Nobody rejects anything where there is nothing to be done.
            rejects_of(policy.number): ()
            for stage in plan.stages
            for policy in (*policies_of(stage), *_reading(stage))
        }
        self.exchanges = Exchanges(self)
        self.sorts = Sorts(
            self.exchanges.choose_ranges,
            self.keep,
            self.exchanges.deal,
            may_cut=host.settings.partitions is None,
        )
        self._looked: dict[int, int] = {}
        self.reports: list[StageReport] = []
        self.tallies: Tallies = {}
        self.reuse: Reuse | None = None
        if plan.writes or (cached and host.settings.cache is not None):
            from zql.execution.reuse import reuse_of

            tables = host.tables.tables
            self.reuse = reuse_of(plan, host.settings, host.engine.version(), tables)
        self._stack = ExitStack()
        self._lock = threading.RLock()
        """Held where stages that run side by side change what is common to them."""
        self._looking = threading.RLock()
        self._own = threading.local()
        self._mixer: Mixer | None = None
        self._folder: str | None = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what still runs and removes the folder of the run; twice does no harm."""
        self._stack.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            remove_folder(folder)
        reuse, self.reuse = self.reuse, None
        if reuse is not None:
            reuse.leave_cache()
            makes_tables = any(isinstance(stage.sink, StoreTable) for stage in self.plan.stages)
            if makes_tables and reuse.work.published:
                self.host.tables.take(reuse.work)
            else:
                reuse.work.close()

    def stream(self) -> RowStream:
        """The rows of a plan that ends in `Collect`; all stages but the last are done now."""
        *before, last = self.plan.stages
        sink = last.sink
        if any(not isinstance(stage.sink, Keep) for stage in before):
            raise InternalError("the plan has more than one output")
        if not isinstance(sink, Collect):
            raise InternalError("the plan does not end in rows")
        if self.reuse is not None:
            self.reuse.open()
        for stage in before:
            self.sorts.done(stage, self.keep)
        return self.rows(self.sorts.whole(last), self.close)

    def rows(self, last: Stage, closed: Callable[[], None]) -> RowStream:
        """The rows of a stage that ends in `Collect`; `closed` is called when they are done."""
        sink = last.sink
        if not isinstance(sink, Collect):
            raise InternalError("the stage does not end in rows")
        if is_python(last):
            self.keep(last)
        if last.id in self.results:
            last = reading(last)
        stack = ExitStack()
        stack.callback(closed)
        native = stack.enter_context(self.native(last))
        try:
            engine, select = native.select()
        except EngineError as error:
            raise self.explained(native.placed(error), last) from None
        columns = [(c.name, n, c.type) for c, n in zip(native.columns, sink.names, strict=True)]

        def told(error: EngineError) -> ZqlError:
            return self.explained(native.placed(error), last)

        return RowStream(engine, select, columns, stack, told)

    def do_all(self, do: Callable[[Stage], None]) -> None:
        """Does all stages, those that read nothing of each other side by side, if that is worth it.

        Raises the error of the first that fails, and `Interrupted`.
        """
        from zql.execution import schedule

        if not self.plan.writes or not schedule.is_worth_threads(self.plan):
            for stage in self.plan.stages:
                do(stage)
            return
        from zql.execution.mixing import Mixer

        self._mixer = Mixer(self.host.pool(most_workers(self.plan, self.host.settings)))

        def begin(stage: Stage) -> Callable[[], None]:
            engine = self.host.engine.cursor()

            def work() -> None:
                self._own.engine = engine
                with engine:
                    do(stage)

            return work

        schedule.Schedule(self.plan, begin, self._stop).run()

    def _stop(self) -> None:
        self.host.engine.interrupt()
        if self._mixer is not None:
            self._mixer.interrupt()

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.host.settings

    @property
    def objects(self) -> Mapping[str, object]:
        """Frames of the program that the plan reads, by their keys."""
        return self.host.objects

    @property
    def engine(self) -> Engine:
        """The connection of this thread."""
        own: Engine | None = getattr(self._own, "engine", None)
        return self.host.engine if own is None else own

    # ---- stages ----------------------------------------------------------------------------------

    def store(self, stage: Stage, sink: StoreTable) -> None:
        """Does a stage and makes its rows a table of the session."""
        if self.reuse is None:
            raise InternalError("a plan that makes a table has no folder for its work")
        folder = self.folder(f"table-{stage.id}")
        files = tuple(brought(file, folder) for file in self.keep(stage, folder))
        key = self.reuse.key_of_rows(self.results[stage.id])
        table = StoredTable(files, columns_of(stage), sink.names, key)
        self.host.tables.put(sink.table, table)

    def drop(self, stage: Stage) -> int:
        """Does a stage and leaves nothing; the number of its rows."""
        if is_python(stage):
            return sum(file.rows for file in self.keep(stage))
        began = time.perf_counter()
        with self.native(stage) as native:
            try:
                rows = native.drop()
            except EngineError as error:
                raise self.explained(native.placed(error), stage) from None
        self.report(stage, 1, rows, began, native)
        return rows

    def keep(self, stage: Stage, folder: str | None = None) -> tuple[KeptFile, ...]:
        """Does a stage and leaves its rows in a folder (the run's own) for later ones."""
        from zql.execution.writing import KeptOutput

        folder = folder or self.folder(f"stage-{stage.id}")
        spread = stage.spread
        if spread is not None:
            if spread.order:
                self.sorts.reached(stage)
            elif not spread.keys:  # else the stage that groups them says whether
                self.exchanges.deal(stage)
            return ()
        if stage.by_partition:
            return self.keep_groups(stage, folder)
        if is_python(stage):
            inputs = self.inputs(stage)
            output = KeptOutput(folder, summed=self.reuse is not None)
            done = self.tasks(stage, inputs, [output] * len(inputs))
            files = tuple(result.file for result in done if result.file is not None)
        elif (known := self.finished_work(stage, KeptOutput(folder))) is not None:
            files = known
        else:
            began = time.perf_counter()
            with self.native(stage) as native:
                try:
                    starts = stage.sink.starts if isinstance(stage.sink, Keep) else None
                    files = tuple(native.keep(folder, starts))
                except EngineError as error:
                    raise self.explained(error, stage) from None
                files = self.noted(stage, native, began, files, folder)
        self.results[stage.id] = files
        return files

    def noted(
        self,
        stage: Stage,
        native: NativeStage,
        began: float,
        files: tuple[KeptFile, ...],
        folder: str,
    ) -> tuple[KeptFile, ...]:
        """The files that a stage of SQL has left, put down for other runs and for the report."""
        from zql.execution.writing import KeptOutput

        if self.reuse is not None:
            key = self.reuse.key_of(stage, self.results, KeptOutput(folder))
            files = self.reuse.add(key, files, native.records_in)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        self.report(stage, max(1, native.statements), rows, began, native, size)
        return files

    def finished_work(
        self, stage: Stage, output: FileOutput | KeptOutput
    ) -> tuple[KeptFile, ...] | None:
        """What an earlier run has finished of a stage of SQL, in that form."""
        if self.reuse is None:
            return None
        self.exchanges.settle(stage)
        self.look_for_rejects(stage)
        key = self.reuse.key_of(stage, self.results, output)
        return self.known_work(stage, key, output.folder)

    def known_work(self, stage: Stage, key: str | None, folder: str) -> tuple[KeptFile, ...] | None:
        """What is there under the key of a stage of SQL."""
        from zql.execution.report import StageReport

        entry = None if self.reuse is None else self.reuse.find(key, folder)
        if entry is None:
            return None
        rows = sum(file.rows for file in entry.files)
        told = StageReport(stage.id, "native", 1, rows, 0.0, entry.records_in, reused=1)
        self.reports.append(told)
        return entry.files

    def keep_groups(self, stage: Stage, folder: str) -> tuple[KeptFile, ...]:
        """Does a stage that may group partition by partition, and the one that deals its rows out.

        In one statement where that is good enough. Either way it is the same result.
        """
        from zql.execution import partitions
        from zql.execution.writing import KeptOutput

        rows = self.sorts.whole(partitions.dealing(self.plan, stage))
        whole = undealt(stage, rows)
        self.exchanges.settle(rows)
        files = self.finished_work(whole, KeptOutput(folder))
        if files is None:
            settings = self.host.settings.for_stage(stage.resources, python=False)
            size = partitions.bytes_of_rows(plan_of(rows), self.results, self.host.objects)
            if not partitions.choice(size, settings).deals:
                files = self._undealt(whole, folder)
        if files is None:
            dealt = self.exchanges.made(rows)
            began = time.perf_counter()
            with self.native(stage) as native:
                try:
                    files = tuple(native.keep_groups(folder, dealt))
                except EngineError as error:
                    raise self.explained(error, stage) from None
                files = self.noted(whole, native, began, files, folder)
            dealt.remove()
        self.results[stage.id] = files
        return files

    def _undealt(self, whole: Stage, folder: str) -> tuple[KeptFile, ...] | None:
        """The groups of all rows in one statement; None where memory is not enough for that."""
        began = time.perf_counter()
        with self.native(whole) as native:
            try:
                files = tuple(native.keep(folder, sparing=False))
            except EngineError as error:
                if error.kind != OUT_OF_MEMORY:
                    raise self.explained(error, whole) from None
                return None
            return self.noted(whole, native, began, files, folder)

    def explained(self, error: EngineError, stage: Stage) -> ZqlError:
        """What DuckDB's failure in a native stage means, with the row of a failed assertion."""
        found = explained(error, stage)
        if error.kind == OUT_OF_MEMORY:
            found.hint = hint_of_parts(stage) or found.hint
        if found.code == "R760":
            from zql.execution.asserts import row_of_failure

            with self.native(stage) as native:
                place = row_of_failure(error.message, stage, native)
            found.notes += (f"on {place}",) if place else ()
        if found is error and error.cause is not None:
            with self.native(stage) as native:
                place = native.row_of(error.cause)
            found.notes += (f"on {place}",) if place else ()
        return found

    def native(self, stage: Stage) -> NativeStage:
        """A stage of SQL alone, ready to be run."""
        self.exchanges.settle(stage)
        return self.unsettled(stage)

    def unsettled(self, stage: Stage) -> NativeStage:
        """The same, for one that reads an exchange as it is."""
        host = self.host
        self.look_for_rejects(stage)
        settings = host.settings.for_stage(stage.resources, python=False)
        return NativeStage(stage, self.engine, settings, self.results, host.objects)

    def inputs(self, stage: Stage) -> list[Input]:
        """The parts of a stage's source."""
        from zql.execution.tasks import inputs_of

        self.exchanges.settle(stage)
        self.look_for_rejects(stage)
        return inputs_of(stage, self.engine, self.settings_of(stage), self.results)

    def settings_of(self, stage: Stage) -> Settings:
        """The settings of a stage of Python, with what it asks for. Raises `RunError`."""
        from zql.execution.gpus import most_at_a_time

        settings = self.host.settings.for_stage(stage.resources, python=True)
        if stage.resources is None or not stage.resources.gpus:
            return settings
        most = most_at_a_time(stage.resources.gpus, f"stage {stage.id}")
        return replace(settings, workers=min(most, settings.worker_count()))

    def look_for_rejects(self, stage: Stage) -> None:
        """Counts and keeps the rows that the readers of a stage pass over, before it is done.

        Once for each policy. Raises `UdfError` when there are too many.
        """
        for scan in policed_scans(stage):
            if scan.on_error is not None:
                with self._looking:
                    self._look_at(scan, scan.on_error)

    def _look_at(self, scan: Scan, policy: ErrorPolicy) -> None:
        if policy.number in self._looked:
            return
        from zql.execution.read_rejects import look_for_rejects

        folder = self.folder("rejects") if policy.facts else ""
        found = look_for_rejects(scan, policy, self.engine, self.host.settings, folder)
        self._looked[policy.number] = found.rows
        if found.file is not None:
            self.results[rejects_of(policy.number)] = (found.file,)

    def tasks(
        self,
        stage: Stage,
        inputs: Sequence[Input],
        outputs: Sequence[FileOutput | KeptOutput],
        numbers: Sequence[int] | None = None,
        count: int | None = None,
    ) -> list[TaskResult]:
        """Does a stage of Python as tasks, one for each input; their results in order.

        The tasks have these `numbers` of `count`, when some need not be done.
        """
        from zql.execution import tasks
        from zql.execution.rejects import RejectWatch
        from zql.execution.report import StageReport, summed
        from zql.execution.reuse import Finished
        from zql.execution.shared import objects_of
        from zql.execution.tallies import added_up
        from zql.expr.expression import TaskContext
        from zql.tree import walk

        began = time.perf_counter()
        shared = objects_of(stage)
        watch = RejectWatch(policies_of(stage))
        rejects = self.folder("rejects") if policies_of(stage) else ""
        settings, engine = self.settings_of(stage), self.engine
        specs = tasks.specs(stage, inputs, outputs, settings, self.results, numbers, rejects, count)
        if any(isinstance(node, TaskContext) for node in walk(stage)):
            scratch = self.folder("scratch")
            specs = [replace(spec, scratch=scratch) for spec in specs]
        finished = Finished()
        if self.reuse is not None:
            finished = self.reuse.of_tasks(stage, specs, self.results)
        limited = has_time_limit(stage) or settings.task_timeout is not None
        small = tasks.input_bytes(stage, self.results) <= settings.inline_bytes
        if small and not self.plan.writes and not limited:
            given = self.host.shared.here(shared)
            here = InProcess(engine, settings)
            done = tasks.run_here(specs, here, watch, engine, given, finished)
        else:
            with self._lock:
                folders = self.host.shared_folders(shared)
            specs = [replace(spec, shared=folders) for spec in specs]
            with self.host.engine.limited(memory=settings.beside_memory()):
                give_memory_back()
                executor = self.executor(stage, settings)
                done = tasks.run_tasks(specs, executor, watch, engine, finished)
        for number, files in watch.finished([result.rejected for result in done]).items():
            self.results[rejects_of(number)] = files
        with self._lock:
            self.tallies = added_up([self.tallies, *(result.tallies for result in done)])
        rows = sum(result.file.rows for result in done if result.file is not None)
        self.reports.append(
            StageReport(
                stage.id,
                "tasks",
                len(done),
                rows,
                time.perf_counter() - began,
                sum(result.records_in for result in done),
                summed([result.steps for result in done]),
                tasks.input_bytes(stage, self.results),
                sum(result.file.bytes for result in done if result.file is not None),
                sum(result.bytes_spilled for result in done),
                self.host.take_retries(),
                sum(result.id in finished.ready for result in done),
            )
        )
        return done

    def executor(self, stage: Stage, settings: Settings) -> Executor:
        """Who does the tasks of a stage."""
        if self._mixer is not None:
            return self._mixer
        if stage.resources is None:
            return self.host.pool()
        return self.host.pool(settings.worker_count())

    def report(
        self,
        stage: Stage,
        tasks: int,
        rows: int,
        began: float,
        native: NativeStage,
        written: int = 0,
        reused: int = 0,
    ) -> None:
        """Notes what a stage of SQL did since `began`; `written` are the bytes that it left.

        So many of its tasks are `reused`.
        """
        from zql.execution.profile import summed
        from zql.execution.report import StageReport, StepCount

        seconds = time.perf_counter() - began
        records_in = native.records_in
        profile = summed(native.profiles)
        files = [file for number in stage.inputs for file in self.results.get(number, ())]
        kept, rows_read = sum(file.bytes for file in files), sum(file.rows for file in files)
        self.reports.append(
            StageReport(
                stage.id,
                "native",
                tasks,
                rows,
                seconds,
                records_in,
                (StepCount("SQL", records_in + rows_read, rows, seconds),),
                profile.bytes_read + kept,
                written,
                profile.bytes_spilled,
                reused=reused,
                operators=profile.operators if self.measured else (),
            )
        )

    def finished(
        self,
        began: float,
        outputs: Sequence[WrittenFile],
        kept: Sequence[WrittenFile],
        counters: Mapping[str, Number],
    ) -> RunReport:
        """What the run did since `began`; `kept` are outputs that were there already.

        `counters` are others than those that every run has.
        """
        from zql.execution.report import RunReport

        counters = {
            **{name: tally.value for name, tally in self.tallies.items()},
            **counters,
            "records_in": sum(report.records_in for report in self.reports),
            "records_out": sum(file.rows for file in [*outputs, *kept]),
            "records_written": sum(file.rows for file in outputs),
            "bytes_written": sum(file.bytes for file in outputs),
            "records_kept": sum(file.rows for file in kept),
            "tasks": sum(report.tasks for report in self.reports),
            "tasks_reused": sum(report.reused for report in self.reports),
            "retries": self.host.take_retries() + sum(r.retries for r in self.reports),
            "python_calls": sum(s.calls for report in self.reports for s in report.steps),
        }
        if any(policies_of(stage) or _reading(stage) for stage in self.plan.stages):
            rejected = sum(s.rejected for report in self.reports for s in report.steps)
            counters["rows_rejected"] = rejected + sum(self._looked.values())
        elapsed = time.perf_counter() - began
        reports = tuple(sorted(self.reports, key=lambda report: report.id))
        return RunReport((*outputs, *kept), counters, reports, elapsed, tallies=self.tallies)

    def folder(self, name: str) -> str:
        """A folder inside the run's own, which is made when it is first needed."""
        with self._lock:
            if self.reuse is not None:
                return self.reuse.work.kept(name)
            if self._folder is None:
                self._folder = make_folder(self.host.folder(), "run")
                hit("folder_made")
        path = os.path.join(self._folder, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path
