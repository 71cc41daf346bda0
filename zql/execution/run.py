"""One plan on its way: stages in order, what they leave for each other, and the outputs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from zql.errors import InternalError, ZqlError
from zql.execution.called import has_time_limit
from zql.execution.engine import Engine, EngineError, make_folder, remove_folder
from zql.execution.native import NativeStage
from zql.execution.settings import Settings
from zql.execution.stages import columns_of, explained, is_python, reading
from zql.execution.stream import RowStream
from zql.physical.plan import (
    Collect,
    Keep,
    PhysicalPlan,
    Spread,
    Stage,
    StoreTable,
    policed_scans,
    policies_of,
    rejects_of,
)

if TYPE_CHECKING:
    from zql.execution.exchange import Exchange
    from zql.execution.kept import KeptFile
    from zql.execution.pool import Pool
    from zql.execution.report import RunReport, StageReport
    from zql.execution.shared import SharedObjects
    from zql.execution.sources import Input
    from zql.execution.stored import StoredTables
    from zql.execution.tallies import Number, Tallies
    from zql.execution.task import TaskResult
    from zql.execution.writing import FileOutput, KeptOutput
    from zql.expr.expression import SharedObject
    from zql.expr.functions import ErrorPolicy
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

    def pool(self) -> Pool: ...

    def folder(self) -> str: ...


class Run:
    """One plan being run. A context manager: leaving it removes what it kept."""

    def __init__(self, host: Host, plan: PhysicalPlan, *, measured: bool = False) -> None:
        """A `measured` run reports DuckDB's own operators too."""
        self.host = host
        self.plan = plan
        self.measured = measured
        self.results: dict[int, tuple[KeptFile, ...]] = {
            # Nobody rejects anything where there is nothing to be done.
            rejects_of(policy.number): ()
            for stage in plan.stages
            for policy in (*policies_of(stage), *_reading(stage))
        }
        self.exchanges: dict[int, Exchange] = {}
        """What stages left as an exchange, until somebody wants files of their rows in order."""
        self._looked: dict[int, int] = {}
        self.reports: list[StageReport] = []
        self.tallies: Tallies = {}
        self._stack = ExitStack()
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

    def stream(self) -> RowStream:
        """The rows of a plan that ends in `Collect`; all stages but the last are done now."""
        *before, last = self.plan.stages
        sink = last.sink
        if any(not isinstance(stage.sink, Keep) for stage in before):
            raise InternalError("the plan has more than one output")
        if not isinstance(sink, Collect):
            raise InternalError("the plan does not end in rows")
        for stage in before:
            self.keep(stage)
        return self.rows(last, self.close)

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

    # ---- stages ----------------------------------------------------------------------------------

    def store(self, stage: Stage, sink: StoreTable) -> None:
        """Does a stage and makes its rows a table of the session."""
        tables = self.host.tables
        files = self.keep(stage, tables.folder(self.host.settings))
        tables.put(sink.table, files, columns_of(stage), sink.names)

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
        folder = folder or self.folder(f"stage-{stage.id}")
        if isinstance(stage.sink, Keep) and stage.sink.spread is not None:
            return self.exchange(stage, stage.sink.spread, folder)
        if is_python(stage):
            from zql.execution.writing import KeptOutput

            inputs = self.inputs(stage)
            done = self.tasks(stage, inputs, [KeptOutput(folder)] * len(inputs))
            files = tuple(result.file for result in done if result.file is not None)
        else:
            began = time.perf_counter()
            with self.native(stage) as native:
                try:
                    starts = stage.sink.starts if isinstance(stage.sink, Keep) else None
                    files = tuple(native.keep(folder, starts))
                except EngineError as error:
                    raise self.explained(error, stage) from None
            rows = sum(file.rows for file in files)
            self.report(stage, 1, rows, began, native, sum(file.bytes for file in files))
        self.results[stage.id] = files
        return files

    def exchange(self, stage: Stage, spread: Spread, folder: str) -> tuple[KeptFile, ...]:
        """Does a stage and leaves its rows as an exchange; there are no files of them yet."""
        began = time.perf_counter()
        with self.native(stage) as native:
            try:
                found = native.exchange(os.path.join(folder, "exchange.arrow"), spread)
            except EngineError as error:
                raise self.explained(error, stage) from None
        self.exchanges[stage.id] = found
        self.report(stage, 1, found.rows, began, native, found.bytes)
        return ()

    def settle(self, stage: Stage) -> None:
        """Files, in order, of the rows of exchanges that a stage reads."""
        from zql.execution.kept import write_all

        settings = self.host.settings
        for number in stage.inputs:
            found = self.exchanges.pop(number, None)
            if found is not None:
                folder = self.folder(f"stage-{number}")
                rows = found.batches(0, found.rows)
                files = write_all(rows, folder, settings.batch_rows, settings.split_size)
                self.results[number] = tuple(files)
                os.unlink(found.path)

    def explained(self, error: EngineError, stage: Stage) -> ZqlError:
        """What DuckDB's failure in a native stage means, with the row of a failed assertion."""
        found = explained(error, stage)
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
        self.settle(stage)
        return self.unsettled(stage)

    def unsettled(self, stage: Stage) -> NativeStage:
        """The same, for one that reads an exchange as it is."""
        host = self.host
        self.look_for_rejects(stage)
        return NativeStage(stage, host.engine, host.settings, self.results, host.objects)

    def inputs(self, stage: Stage) -> list[Input]:
        """The parts of a stage's source."""
        from zql.execution.tasks import inputs_of

        self.settle(stage)
        self.look_for_rejects(stage)
        return inputs_of(stage, self.host.engine, self.host.settings, self.results)

    def look_for_rejects(self, stage: Stage) -> None:
        """Counts and keeps the rows that the readers of a stage pass over, before it is done.

        Once for each policy. Raises `UdfError` when there are too many.
        """
        for scan in policed_scans(stage):
            policy = scan.on_error
            if policy is None or policy.number in self._looked:
                continue
            from zql.execution.read_rejects import look_for_rejects

            folder = self.folder("rejects") if policy.facts else ""
            found = look_for_rejects(scan, policy, self.host.engine, self.host.settings, folder)
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
        from zql.execution.shared import objects_of
        from zql.execution.tallies import added_up
        from zql.expr.expression import TaskContext
        from zql.tree import walk

        began = time.perf_counter()
        shared = objects_of(stage)
        watch = RejectWatch(policies_of(stage))
        rejects = self.folder("rejects") if policies_of(stage) else ""
        specs = tasks.specs(
            stage, inputs, outputs, self.host.settings, self.results, numbers, rejects, count
        )
        if any(isinstance(node, TaskContext) for node in walk(stage)):
            scratch = self.folder("scratch")
            specs = [replace(spec, scratch=scratch) for spec in specs]
        small = tasks.input_bytes(stage, self.results) <= self.host.settings.inline_bytes
        if small and not self.plan.writes and not has_time_limit(stage):
            given = self.host.shared.here(shared)
            done = tasks.run_here(specs, self.host.engine, watch, given)
        else:
            folders = self.host.shared_folders(shared)
            specs = [replace(spec, shared=folders) for spec in specs]
            done = tasks.run_in_workers(specs, self.host.pool(), watch, self.host.engine)
        for number, files in watch.finished([result.rejected for result in done]).items():
            self.results[rejects_of(number)] = files
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
            )
        )
        return done

    def report(
        self,
        stage: Stage,
        tasks: int,
        rows: int,
        began: float,
        native: NativeStage,
        written: int = 0,
    ) -> None:
        """Notes what a stage of SQL did since `began`; `written` are the bytes that it left."""
        from zql.execution.profile import summed
        from zql.execution.report import StageReport, StepCount

        seconds = time.perf_counter() - began
        records_in = native.records_in
        profile = summed(native.profiles)
        kept = sum(file.bytes for number in stage.inputs for file in self.results.get(number, ()))
        self.reports.append(
            StageReport(
                stage.id,
                "native",
                tasks,
                rows,
                seconds,
                records_in,
                (StepCount("SQL", records_in, rows, seconds),),
                profile.bytes_read + kept,
                written,
                profile.bytes_spilled,
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
            "retries": self.host.take_retries() + sum(r.retries for r in self.reports),
            "python_calls": sum(s.calls for report in self.reports for s in report.steps),
        }
        if any(policies_of(stage) or _reading(stage) for stage in self.plan.stages):
            rejected = sum(s.rejected for report in self.reports for s in report.steps)
            counters["rows_rejected"] = rejected + sum(self._looked.values())
        elapsed = time.perf_counter() - began
        return RunReport(
            (*outputs, *kept), counters, tuple(self.reports), elapsed, tallies=self.tallies
        )

    def folder(self, name: str) -> str:
        """A folder inside the run's own, which is made when it is first needed."""
        if self._folder is None:
            self._folder = make_folder(self.host.folder(), "run")
        path = os.path.join(self._folder, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path
