"""Stages that are SQL alone: one DuckDB statement with all threads, or one for each output file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from zql.errors import InternalError, Interrupted
from zql.execution import kept, wide_sort
from zql.execution.engine import OUT_OF_MEMORY, READERS, ArrowStream, Engine, EngineError
from zql.execution.kept import KeptFile
from zql.execution.locate import scan_place
from zql.execution.picks import picks_of
from zql.execution.places import place, placing, rows_that_fail
from zql.execution.profile import Profile, profile_of, rows_scanned
from zql.execution.settings import MIB, Settings
from zql.execution.sizes import KEPT_FILE, file_of_rows, group_file
from zql.execution.sources import Input, Sources, casts, new_name
from zql.execution.temporary_folders import remove_folder
from zql.execution.writing import Fed, FileOutput, write_file, write_shares
from zql.expr.expression import Column, Expr
from zql.failpoints import hit
from zql.logical.plan import Join, Limit, LogicalPlan, Project, Scan, Sort, StageResult
from zql.optimizer.facts import has_subquery, has_window
from zql.physical.plan import RunSql, Spread, Stage
from zql.physical.sql import render
from zql.storage import threads as packing
from zql.storage.format import Split
from zql.tree import Node, walk

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.execution.dealt_folders import Dealt, PartitionColumns
    from zql.execution.exchange import Exchange
    from zql.execution.ranges import Sample

T = TypeVar("T")

_POLL_SECONDS = 0.05
_WRITER_BYTES = 192 * MIB
"""What a file that is being written may take of the budget: row groups, and rows in order."""
_ORDER_ROWS = 1 << 16


class NativeStage:
    """One such stage. A context manager: leaving it forgets what it read."""

    def __init__(
        self,
        stage: Stage,
        engine: Engine,
        settings: Settings,
        results: Mapping[int, Sequence[KeptFile]],
        objects: Mapping[str, object],
    ) -> None:
        self.records_in = 0
        self.profiles: list[Profile] = []
        self.statements = 0
        """How many statements were run, each for a part of the rows."""
        self._engine = engine
        self._settings = settings
        self._results = results
        self._objects = objects
        self._plan = plan_of(stage)
        self._asked = stage.resources
        self._stack = ExitStack()
        self._running: set[Engine] = set()
        self._counting = threading.Lock()
        self._selected: Mapping[Node, str] = {}

    def __enter__(self) -> NativeStage:
        asked = self._asked
        if asked is not None:
            threads = asked.threads or asked.cpu
            memory = None if asked.budget is None else self._settings.native_memory()
            self._stack.enter_context(self._engine.limited(threads, memory))
        if any(isinstance(n, Join) and n.strategy == "broadcast" for n in walk(self._plan)):
            self._stack.enter_context(self._engine.joins_as_written())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the rows."""
        return self._plan.columns

    def select(
        self, stack: ExitStack | None = None, input: Input | None = None
    ) -> tuple[Engine, str]:
        """The stage as a SELECT, and the connection on which it can be run while `stack` is open.

        With `input` it reads that part of its one scan.
        """
        engine, relations = self._relations(stack or self._stack, input)
        self._selected = relations
        return engine, render(self._plan, relations)

    def placed(self, error: EngineError) -> EngineError:
        """The error of a SELECT that `select` gave, with its place in the script."""
        place(error, self._plan, self._selected)
        return error

    def row_of(self, cause: Expr) -> str:
        """Where the first row is for which an expression of the stage fails; empty if unknown."""
        wrong = rows_that_fail(cause, self._plan)
        if wrong is None:
            return ""
        engine, sources = self.connection()
        return scan_place(engine, sources, wrong, 0) or ""

    def _relations(
        self, stack: ExitStack, input: Input | None
    ) -> tuple[Engine, Mapping[Node, str]]:
        engine, sources = self.connection(stack)
        given: dict[Node, str] = {}
        if input is not None:
            (scan,) = self.scans
            given[scan] = sources.relation(scan, input)
        return engine, sources.of(self._plan, given)

    def connection(
        self,
        stack: ExitStack | None = None,
        results: Mapping[int, Sequence[KeptFile]] | None = None,
    ) -> tuple[Engine, Sources]:
        """A connection of its own, and its relations."""
        stack = stack or self._stack
        engine = stack.enter_context(self._engine.cursor())
        options = self._settings.storage_options.reveal()
        sources = Sources(engine, results or self._results, self._objects, options)
        return engine, stack.enter_context(sources)

    @property
    def plan(self) -> LogicalPlan:
        """What the stage computes."""
        return self._plan

    @property
    def scans(self) -> list[Scan]:
        """The scans in the plan."""
        return list(dict.fromkeys(n for n in walk(self._plan) if isinstance(n, Scan)))

    def keep(
        self, folder: str, starts: str | None = None, *, sparing: bool = True
    ) -> list[KeptFile]:
        """Leaves the rows in a folder; groups that begin where `starts` is 1 are not torn apart.

        `sparing`: where that needs too much memory, it is tried with one thread.
        """
        if starts is None:
            size = self._settings.split_size or KEPT_FILE
            if not sparing:
                return self._kept(self._plan, folder, size)
            return self._sparingly(lambda: self._kept(self._plan, folder, size))
        try:
            with self._stream(self._plan) as (stream, _):
                return self._groups(stream, stream.schema, folder, starts)
        except EngineError as error:
            found = wide_sort.sorted_rows(self._plan)
            if error.kind != OUT_OF_MEMORY or found is None:
                raise
        return self._keep_wide(*found, folder, starts)

    def _keep_wide(self, project: Project, sort: Sort, folder: str, starts: str) -> list[KeptFile]:
        """Rows that DuckDB cannot sort within its memory, sorted by their keys alone."""
        beside = [os.path.join(folder, name) for name in ("unsorted", "order")]
        for path in beside:
            os.mkdir(path)
        try:
            rows = self._sparingly(lambda: self._kept(sort.input, beside[0], KEPT_FILE))
            results = {**self._results, wide_sort.UNSORTED: rows}
            with self._stream(wide_sort.order_of(project, sort), results) as (stream, _):
                schema = stream.schema
                order = kept.write_all(stream, beside[1], _ORDER_ROWS, KEPT_FILE)
            if not rows:
                return self._groups((), schema, folder, starts)
            schema = wide_sort.schema_of(project, kept.mapped(rows[0]).schema, schema)
            batches = wide_sort.fetched(project, rows, order, self._settings.native_memory())
            return self._groups(batches, schema, folder, starts)
        finally:
            for path in beside:
                remove_folder(path)

    def _sparingly(self, call: Callable[[], T]) -> T:
        """What a call gives; where it needs too much memory, with one thread alone."""
        try:
            return call()
        except EngineError as error:
            if error.kind != OUT_OF_MEMORY:
                raise
        with self._engine.limited(threads=1):
            return call()

    @contextmanager
    def _stream(
        self, plan: LogicalPlan, results: Mapping[int, Sequence[KeptFile]] | None = None
    ) -> Iterator[tuple[ArrowStream, Engine]]:
        """The rows of a plan as batches for later stages; what was read is counted at the end."""
        with ExitStack() as stack:
            engine, sources = self.connection(stack, results)
            relations = sources.of(plan)
            sql = render(plan, relations)
            stack.enter_context(placing(plan, relations))
            engine.profile()
            rows = self._settings.batch_rows
            yield stack.enter_context(engine.batches(sql, rows, lossless=True)), engine
            if results is None:
                self._add(self._count(engine, None))

    def _kept(self, plan: LogicalPlan, folder: str, size: int) -> list[KeptFile]:
        with self._stream(plan) as (stream, _):
            return kept.write_all(stream, folder, self._settings.batch_rows, size)

    def _groups(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: str, starts: str
    ) -> list[KeptFile]:
        size = partial(group_file, split_size=self._settings.split_size)
        rows = self._settings.batch_rows
        return kept.write_groups(batches, schema, folder, starts, rows, size)

    def exchange(self, path: str, spread: Spread, size: int) -> Exchange:
        """Deals the rows, of about `size` bytes, to the partitions of an exchange."""
        from zql.execution.exchange import BATCH_ROWS, MOST_PARTITIONS, deal, held_bytes

        budget, ranges = self._settings.budget(), None
        held = held_bytes(budget)
        if not spread.keys and self._settings.partitions is None:
            # The order does not depend on them: so many that each can be held, and read once.
            parts = min(MOST_PARTITIONS, max(spread.parts, -(-size // held)))
            spread = replace(spread, parts=parts)
        with ExitStack() as stack:
            engine, relations = self._relations(stack, None)
            sql = render(self._plan, relations)
            stack.enter_context(placing(self._plan, relations))
            sample = self._sampled(spread.ticket) if spread.order else None
            engine.profile()
            stream = stack.enter_context(engine.batches(sql, BATCH_ROWS, lossless=True))
            batches: Iterator[pa.RecordBatch] = iter(stream)
            if sample is not None:
                batches = sample.from_first(batches, spread.ticket.name, spread.parts, held)
                ranges = sample.ranges(spread.parts)
            found = deal(batches, stream.schema, spread, path, budget, ranges)
            self._add(self._count(engine, None))
            return found

    def _sampled(self, ticket: Column) -> Sample:
        from zql.execution.sampled import sampled

        return sampled(self._plan, ticket, self.connection)

    def keep_groups(self, folder: str, exchange: Exchange) -> list[KeptFile]:
        """Leaves the groups of rows that were dealt out, which it reads, in a folder."""
        from zql.execution import partitions

        def select(rows: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
            (source,) = (n for n in walk(self._plan) if isinstance(n, StageResult))
            with ExitStack() as stack:
                engine, sources = self.connection(stack)
                reader = pa.RecordBatchReader.from_batches(schema, rows)
                relations: dict[Node, str] = {source: sources.registered(reader, source.columns)}
                stack.enter_context(placing(self._plan, relations))
                engine.profile()
                self._running.add(engine)
                stack.callback(self._running.discard, engine)
                sql, most = render(self._plan, relations), self._settings.batch_rows
                found = list(stack.enter_context(engine.batches(sql, most, lossless=True)))
                self._add(self._count(engine, None))
                with self._counting:
                    self.statements += 1
                with kept.on_disk(folder):
                    hit("partitions_read")
                return found

        import pyarrow as pa

        schema = exchange.schema
        ways = partitions.Ways.of(exchange, self._settings)
        size = self._settings.split_size or KEPT_FILE
        with self._engine.limited(ways.threads):
            groups = partitions.groups(exchange, ways, select, self.interrupt)
            return kept.write_all(groups, folder, self._settings.batch_rows, size)

    def deal(self, path: str, columns: PartitionColumns, most: int) -> Dealt:
        """Deals the rows to the `most` partitions that they may have, by columns of texts."""
        from zql.execution.dealt_folders import deal

        with self._stream(self._plan) as (stream, _):
            batches = kept.rechunked(stream, self._settings.batch_rows)
            return deal(batches, stream.schema, columns, path, most, self._settings.budget())

    def drop(self) -> int:
        """Computes every row and column, and leaves nothing; the number of rows."""
        with ExitStack() as stack:
            engine, sql = self.select(stack)
            engine.profile()
            stream = stack.enter_context(engine.batches(sql, self._settings.batch_rows))
            rows = sum(int(batch.num_rows) for batch in stream)
            self._add(self._count(engine, None))
            return rows

    def write(self, output: FileOutput, number: int = 0, input: Input | None = None) -> KeptFile:
        """Writes the rows, or those of a part of its scan, into one file."""
        with ExitStack() as stack:
            engine, relations = self._relations(stack, input)
            sql = render(self._plan, relations)
            stack.enter_context(placing(self._plan, relations))
            engine.profile()
            self._running.add(engine)
            try:
                file = write_file(engine, sql, self.columns, output, output.path(number))
            finally:
                self._running.discard(engine)
            self._add(self._count(engine, input))
            return file

    def write_shares(self, output: FileOutput, exchange: Exchange | None = None) -> list[KeptFile]:
        """Writes the rows, as they come, into files of about a size each.

        Those of an `exchange`, which the stage reads, as they are put in order.
        """
        split_size = self._settings.split_size

        def size(written: int) -> int:
            return file_of_rows(written, split_size).size

        with ExitStack() as stack:
            engine, sources = self.connection(stack)
            given: dict[Node, str] = {}
            if exchange is not None:
                (source,) = (n for n in walk(self._plan) if isinstance(n, StageResult))
                given[source] = sources.registered(exchange.reader(), source.columns)
            relations = sources.of(self._plan, given)
            sql = render(self._plan, relations)
            stack.enter_context(placing(self._plan, relations))
            engine.profile()
            files = write_shares(engine, sql, self.columns, output, size)
            self._add(self._count(engine, None))
            return files

    def write_parts(
        self,
        outputs: Sequence[tuple[FileOutput, int, Input]],
        note: Callable[[int, KeptFile], None] = lambda *_: None,
    ) -> list[KeptFile]:
        """One file for each part of the scan, several at a time; each is noted when it is done."""
        noting = threading.Lock()

        def write(place: int) -> KeptFile:
            file = self.write(*outputs[place])
            with noting:
                note(place, file)
            return file

        calls = [partial(write, place) for place in range(len(outputs))]
        threads = self._settings.thread_count()
        # Statements that run side by side are faster when none has helpers of its own.
        with self._engine.limited(1 if len(calls) >= threads else threads):
            return concurrently(calls, threads, self.interrupt)

    def write_cuts(
        self,
        outputs: Sequence[FileOutput],
        files: Sequence[KeptFile],
        shard: Column | None = None,
        bounds: Sequence[int] | None = None,
    ) -> list[KeptFile]:
        """Kept rows in files, several at a time: by their `shard`, by `bounds`, or of equal numbers
        of rows.
        """
        whole = kept.table(files)
        if bounds is None:
            bounds = kept.bounds(whole, len(outputs), None if shard is None else shard.name)
        cuts = list(pairwise(bounds))

        def part(number: int) -> pa.Table | None:
            start, stop = cuts[number]
            return None if whole is None else whole.slice(start, stop - start)

        return self.write_tables(outputs, part, tuple(c for c in self.columns if c != shard))

    def write_tables(
        self,
        outputs: Sequence[FileOutput],
        table: Callable[[int], pa.Table | None],
        columns: Sequence[Column],
    ) -> list[KeptFile]:
        """These columns of a table in each file, several at a time; None is one without rows."""

        def write(number: int) -> KeptFile:
            with ExitStack() as stack:
                engine, sources = self.connection(stack)
                relation = sources.registered(table(number), columns)
                output = outputs[number]
                self._running.add(engine)
                try:
                    return write_file(
                        engine, f"FROM {relation}", columns, output, output.path(number)
                    )
                finally:
                    self._running.discard(engine)

        calls = [partial(write, number) for number in range(len(outputs))]
        return concurrently(calls, self._writers(outputs), self.interrupt)

    def _writers(self, outputs: Sequence[FileOutput]) -> int:
        """How many files are written side by side: code of the user's is called by one thread."""
        if any(output.own for output in outputs):
            return 1
        most = self._settings.budget() // _WRITER_BYTES
        return max(1, min(self._settings.thread_count(), most))

    def write_exchange(
        self, outputs: Sequence[FileOutput], exchange: Exchange, source: StageResult
    ) -> list[KeptFile]:
        """The stage over an exchange, in files of equal numbers of its rows; several at a time."""
        from zql.execution.exchange import InTurn

        count, schema = len(outputs), exchange.schema
        bounds = [exchange.rows * number // count for number in range(count + 1)]
        picks = picks_of(self._plan, source)

        def write(number: int, stream: InTurn) -> KeptFile:
            rows = stream.take(bounds[number + 1] - bounds[number])
            fed = Fed(new_name(), schema, rows, picks)
            sql = render(self._plan, {source: f"(SELECT {casts(source.columns)} FROM {fed.name})"})
            with ExitStack() as stack:
                engine, _ = self.connection(stack)
                output = outputs[number]
                self._running.add(engine)
                try:
                    return write_file(engine, sql, self.columns, output, output.path(number), fed)
                finally:
                    self._running.discard(engine)

        def write_some(first: int, last: int) -> list[KeptFile]:
            stream = InTurn(exchange.batches(bounds[first], bounds[last]))
            return [write(number, stream) for number in range(first, last)]

        writers, threads = self._writers(outputs), self._settings.thread_count()
        most = min(writers, count)
        starts = [count * number // most for number in range(most + 1)]
        calls = [partial(write_some, *ends) for ends in pairwise(starts)]
        # Writers that work side by side are faster when none has helpers of its own.
        with packing.limited(threads if most < writers == threads else 1):
            done = concurrently(calls, threads, self.interrupt)
        return [file for files in done for file in files]

    def interrupt(self) -> None:
        """Stops the statements that run."""
        for engine in list(self._running):
            engine.interrupt()

    def _add(self, records: int) -> None:
        """Adds to `records_in`; parts of a stage are written by several threads."""
        with self._counting:
            self.records_in += records

    def _count(self, engine: Engine, input: Input | None) -> int:
        """Rows that the readers handed over; the statement's profile is noted."""
        profile = engine.profiled()
        self.profiles.append(profile_of(profile))
        scans = self.scans
        readers = {name for scan in scans for name in READERS.get(scan.format, ())}
        count = rows_scanned(profile, readers)
        parquet = [scan for scan in scans if scan.format not in READERS]
        if not parquet:
            return count
        if isinstance(input, Split) and input.start is not None and input.stop is not None:
            return count + input.stop - input.start
        if any(isinstance(node, Limit) for node in walk(self._plan)):
            return count + rows_scanned(profile, {"READ_PARQUET"})
        return count + sum(_rows_of(self._engine, scan) for scan in parquet)


def _rows_of(engine: Engine, scan: Scan) -> int:
    """The rows of Parquet files, by their footers."""
    from zql.storage.scan import path_list

    if not scan.files:
        return 0
    rows = engine.rows(f"SELECT sum(num_rows) FROM parquet_file_metadata({path_list(scan.files)})")
    return int(rows[0][0] or 0)


def exchanged(stage: Stage) -> StageResult | None:
    """The result of which each row of a stage of SQL is one row, in its order."""
    plan = plan_of(stage)
    while isinstance(plan, Project):
        if any(has_window(a.expr) or has_subquery(a.expr) for a in plan.assigns):
            return None
        plan = plan.input
    return plan if isinstance(plan, StageResult) else None


def plan_of(stage: Stage) -> LogicalPlan:
    """The plan of a stage that is SQL alone."""
    (step,) = stage.steps
    if not isinstance(step, RunSql):
        raise InternalError("a native stage is one SQL step")
    return step.plan


def concurrently(
    calls: Sequence[Callable[[], T]], threads: int, interrupt: Callable[[], None]
) -> list[T]:
    """The results of calls, made by up to `threads` threads; `interrupt` stops those that run.

    The first error ends the others. Ctrl-C raises `Interrupted`.
    """
    todo: SimpleQueue[int] = SimpleQueue()
    for number in range(len(calls)):
        todo.put(number)
    results: list[T | None] = [None] * len(calls)
    errors: list[BaseException] = []
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set() and not todo.empty():
            try:
                number = todo.get_nowait()
            except Exception:  # noqa: BLE001 - another thread took the last one
                return
            try:
                results[number] = calls[number]()
            except BaseException as error:  # noqa: BLE001 - raised again below
                errors.append(error)
                stop.set()

    workers = [threading.Thread(target=serve, daemon=True) for _ in range(min(threads, len(calls)))]
    for worker in workers:
        worker.start()
    interrupted = False
    while alive := [worker for worker in workers if worker.is_alive()]:
        try:
            alive[0].join(_POLL_SECONDS)
            if stop.is_set():
                interrupt()
        except KeyboardInterrupt:
            interrupted = True
            stop.set()
    if interrupted:
        raise Interrupted("interrupted", code="R799")
    if errors:
        raise errors[0]
    return [result for result in results if result is not None]
