"""Runs physical plans: stages in order, natively or as tasks, and their outputs at the end."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from weakref import WeakSet

from zql.errors import Interrupted
from zql.execution.engine import Engine
from zql.execution.kept import unkept
from zql.execution.run import Run, most_workers
from zql.execution.settings import Settings
from zql.execution.shared import SharedObjects
from zql.execution.stages import is_python
from zql.execution.stored import StoredTables
from zql.execution.stream import RowStream
from zql.execution.temporary_folders import make_folder, removed_with
from zql.execution.work import remove_old
from zql.expr.expression import SharedObject
from zql.expr.functions import PythonFunction
from zql.logical.catalog import IN_EXPRESSION, ProbeWay, Shared
from zql.physical.plan import Collect, PhysicalPlan

if TYPE_CHECKING:
    from zql.execution.executor import Executor
    from zql.execution.history import RunNotes
    from zql.execution.report import RunReport


class Runner:
    """Runs plans one after the other; keeps its workers between them."""

    def __init__(
        self,
        settings: Settings,
        objects: MutableMapping[str, object],
        engine: Engine,
        tables: StoredTables,
        shared: SharedObjects,
    ) -> None:
        """`objects` and `tables` are what plans may read by key, `shared` what functions get.

        Starts nothing yet.
        """
        self._shared = shared
        self._settings = settings
        self._objects = ChainMap(cast("dict[str, object]", tables.tables), objects)
        self._tables = tables
        self._engine = engine
        self.notes: RunNotes | None = None
        """Where the script that runs notes what it does."""
        self._folder: str | None = None
        self._remove_folder: Callable[[], object]
        self._pool: Executor | None = None
        self._streams: WeakSet[RowStream] = WeakSet()
        """Rows that may be read to their end still."""
        self._retries = 0
        """Of pools that are closed."""

    def run(self, plan: PhysicalPlan, *, measured: bool = False) -> RunReport:
        """Runs a plan for what it leaves behind; rows that nobody takes are dropped.

        The report of a `measured` run has DuckDB's own operators too.
        """
        report, streams = self.outputs(plan, measured=measured)
        for stream in streams:
            stream.close()
        return report

    def outputs(
        self, plan: PhysicalPlan, *, measured: bool = False
    ) -> tuple[RunReport, list[RowStream]]:
        """Runs a plan with any outputs: what it did, and the rows of those that give rows.

        Each stream must be closed. Raises `ZqlError`.
        """
        if plan.writes and any(is_python(stage) for stage in plan.stages):
            self.pool(most_workers(plan, self._settings)).warm()
        from zql.execution.write_run import write

        run = Run(self, plan, measured=measured)
        asked = [stage for stage in plan.outputs if isinstance(stage.sink, Collect)]
        open_streams = len(asked)

        def closed() -> None:
            nonlocal open_streams
            open_streams -= 1
            if open_streams <= 0:
                run.close()

        try:
            report = write(run)
            streams = [run.rows(stage, closed) for stage in asked]
        except KeyboardInterrupt:
            run.close()
            raise Interrupted("interrupted", code="R799") from None
        except OSError as error:
            run.close()
            raise unkept(str(error.filename or self.folder()), error) from None
        except BaseException:
            run.close()
            raise
        if not asked:
            run.close()
        self._streams.update(streams)
        return report, streams

    def collect(self, plan: PhysicalPlan) -> RowStream:
        """Runs a query up to its last stage, whose rows come as they are asked for.

        The stream must be closed. Raises `ZqlError`.
        """
        run = Run(self, plan)
        try:
            stream = run.stream()
        except KeyboardInterrupt:
            run.close()
            raise Interrupted("interrupted", code="R799") from None
        except OSError as error:
            run.close()
            raise unkept(str(error.filename or self.folder()), error) from None
        except BaseException:
            run.close()
            raise
        self._streams.add(stream)
        return stream

    def probe(
        self,
        function: PythonFunction,
        plan: PhysicalPlan,
        record: Sequence[str],
        keywords: Sequence[str],
        way: ProbeWay = IN_EXPRESSION,
        *,
        isolated: bool = True,
        tolerant: bool = False,
        shared: Shared = (),
    ) -> PythonFunction:
        """The function with the type of its result, seen on the rows of a plan (100 or so).

        The plan's first columns form the record when `record` names them, else they are positional
        arguments; the last ones are the named arguments `keywords`. `way` says how the operator
        makes the calls: in a worker, with a limit in time, unless not `isolated`; those that fail
        tell nothing when it is `tolerant`; `shared` objects are handed in at their places. Raises
        `UdfError`, as the run would.
        """
        from zql.execution.probe import Probe

        pool = self.pool() if isolated else None
        if pool is not None:
            pool.warm()
        with Run(self, plan, cached=False) as run:
            probe = Probe(function, record, keywords, tolerant, shared, way)
            return probe.typed(run, pool)

    def warm(self) -> None:
        """Starts the workers in the background; for a caller who knows that they will be needed."""
        self.pool().warm()

    def interrupt(self) -> None:
        """Stops what runs; from any thread."""
        self._engine.interrupt()
        if self._pool is not None:
            self._pool.interrupt()

    def close(self) -> None:
        """Ends the workers and what rows are still read of, and removes the temporary files."""
        for stream in list(self._streams):
            stream.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            self._remove_folder()
        self._shared.forget_stored()

    def shared_folders(self, objects: Sequence[SharedObject]) -> Mapping[str, str]:
        """By key from where workers load shared objects. Raises `UdfError`."""
        return self._shared.stored(objects, self.folder()) if objects else {}

    def pool(self, workers: int | None = None) -> Executor:
        """The workers, `workers` at least, not started before they are needed."""
        pool = self._pool
        wanted = max(workers or 1, self._settings.worker_count())
        if pool is not None and wanted > pool.settings.worker_count():
            self._retries += pool.retries
            pool.close()
            pool = None
        if pool is None:
            from zql.execution.pool import Pool

            folder = os.path.join(self.folder(), "pool")
            os.makedirs(folder, 0o700, exist_ok=True)
            settings = self._settings
            if wanted > settings.worker_count():
                settings = replace(settings, workers=wanted)
            pool = self._pool = Pool(settings, folder)
        return pool

    def folder(self) -> str:
        """The folder of this runner, which only this user can enter."""
        if self._folder is None:
            self._folder = make_folder(self._settings.temp_root())
            self._remove_folder = removed_with(self, self._folder)
            remove_old(self._settings.temp_root())
        return self._folder

    def take_retries(self) -> int:
        """How many jobs were begun again because a worker died, since this was last asked.

        Calls that were made to find the type of a function are among them.
        """
        count, self._retries = self._retries, 0
        if self._pool is not None:
            count, self._pool.retries = count + self._pool.retries, 0
        return count

    @property
    def settings(self) -> Settings:
        """How plans are run."""
        return self._settings

    @property
    def shared(self) -> SharedObjects:
        """The objects that functions are handed."""
        return self._shared

    @property
    def engine(self) -> Engine:
        """The connection that statements are run on cursors of."""
        return self._engine

    @property
    def tables(self) -> StoredTables:
        """The tables of the session, which plans read and make."""
        return self._tables

    @property
    def objects(self) -> Mapping[str, object]:
        """The Python objects that plans may read."""
        return self._objects
