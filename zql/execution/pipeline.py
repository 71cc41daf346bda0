"""The steps of a stage on one part of its source: batches of rows through SQL and Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from zql.errors import InternalError, ZqlError
from zql.execution import locate
from zql.execution.arguments import to_python
from zql.execution.batch_calls import BatchCaller
from zql.execution.binding import CallError, Catch
from zql.execution.call_timeout import note_rows
from zql.execution.calls_ahead import Stuck, is_special
from zql.execution.carry import carried, numbered_below
from zql.execution.context import Context
from zql.execution.engine import READERS, Engine
from zql.execution.fold_calls import FoldCaller
from zql.execution.group_calls import GroupCaller
from zql.execution.held import Attempt
from zql.execution.kept import KeptFile, Part, part_reader, rechunked
from zql.execution.kinds import Kind, parse, travels_as_text, wire_type
from zql.execution.picks import picks_of
from zql.execution.places import placing
from zql.execution.printed import Printer
from zql.execution.profile import profile_of, rows_scanned
from zql.execution.rejects import FailedGroup, Rejected, Rejections
from zql.execution.report import StepCount
from zql.execution.settings import Settings
from zql.execution.shard import Shard, task_name
from zql.execution.shard_calls import ShardCaller
from zql.execution.shared import Objects, Stored
from zql.execution.sources import Input, Remembering, Sources, casts, registered_stream
from zql.execution.tallies import Tallies
from zql.execution.udf import ORDINAL, Caller
from zql.expr.expression import Column, Expr, SharedObject, TaskContext
from zql.expr.functions import ErrorPolicy, PythonFunction
from zql.expr.sql import expression_sql, quote_identifier
from zql.failpoints import hit
from zql.logical.plan import (
    Apply,
    BatchInput,
    Fold,
    LogicalPlan,
    MapRows,
    PythonOperator,
    Reduce,
    Scan,
    StageResult,
    called_functions,
)
from zql.physical.broadcast import has_join
from zql.physical.exchange import exchange
from zql.physical.folds import grouped
from zql.physical.plan import CallPython, RunSql, Stage, Step, policies_in
from zql.physical.sql import render
from zql.storage.format import Split
from zql.tree import Node, walk

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = Column(ORDINAL, "BIGINT")
_BATCH = "zql_batch"


class Pipeline:
    """One task's steps. A context manager: leaving it ends what runs and forgets what it read."""

    def __init__(  # noqa: PLR0913 - what a task is made of
        self,
        stage: Stage,
        input: Input | None,
        engine: Engine,
        settings: Settings,
        *,
        results: Mapping[int, Sequence[KeptFile]] | None = None,
        objects: Mapping[str, object] | None = None,
        catch: Catch = BaseException,
        count_input: bool = False,
        tasks: tuple[int, int] = (0, 1),
        stuck: Stuck | None = None,
    ) -> None:
        """Takes a part of the stage's source, or all of it when `input` is None.

        `tasks` are the number of this task and how many there are; `catch` is what counts as a
        failure of a Python function; with `count_input` the rows that the readers hand over are
        counted; calls that are `stuck` are not made, and fail.
        """
        self.steps = _with_source(stage)
        self.counts = [StepCount(describe(step)) for step in self.steps]
        self.records_in = 0
        self.bytes_spilled = 0
        self.shared: Objects = Stored({})
        self.scratch = ""
        self._context: Context | None = None
        self._stage = stage
        self._input = input
        self._engine = engine
        self._settings = settings
        self._results = results or {}
        self._objects = objects or {}
        self._catch = catch
        self._stuck = stuck or {}
        self._count_input = count_input
        path = input.file.path if isinstance(input, Split) else None
        self._shard = Shard(*tasks, path)
        self._printer = Printer(task_name(self._shard))
        self._reduced_by = ""
        # Rows are counted as they come; past a second call, or SQL before a call that is not the
        # first step (a join), that count needs a column of its own.
        # Where groups are put together in the task, each row must keep its number.
        called = {i: s.call for i, s in enumerate(self.steps) if isinstance(s, CallPython)}
        self._numbered = max(called, default=0) > 1 or any(
            isinstance(call, Fold) and call.kind == "PARTIAL" for call in called.values()
        )
        # The first step, and its rows, which have numbers before a join mixes and multiplies them.
        self._first, self._rows = plan_of(self.steps[0]), self.steps[0]
        if called and has_join(self._first):
            self._first, rows = numbered_below(self._first, _NUMBER)
            self._numbered, self._rows = True, RunSql(rows)
        self._relations: Mapping[Node, str] = {}
        self._rejections = Rejections(self._places, self._place)
        self._reaching = _first_steps(self.steps)
        self._stack = ExitStack()
        self._stack.callback(self._printer.flush_rest)

    def __enter__(self) -> Pipeline:
        if any(isinstance(step, RunSql) and has_join(step.plan) for step in self.steps):
            # The rows of a task are a stream: of those it is joined to, a hash table is made.
            self._stack.enter_context(self._engine.joins_as_written())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def columns(self, steps: int | None = None) -> tuple[Column, ...]:
        """The columns of the rows after the first `steps` steps, or after all."""
        count = len(self.steps) if steps is None else steps
        return plan_of(self.steps[count - 1]).columns

    def batches(self, steps: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows after the first `steps` steps, or after all.

        They are in exchange form: types that Arrow lacks are DuckDB's own, or text when they come
        from Python. There may be a column more, the row's number. Raises `UdfError` and others.
        """
        count = len(self.steps) if steps is None else steps
        stream = self._read()
        for i in range(1, count):
            step = self.steps[i]
            if isinstance(step, CallPython):
                stream = self._call(step.call, stream, self.counts[i], self._reaching.get(i, ()))
                if isinstance(step.call, Reduce | Fold) and i + 1 < count:
                    self._reduced_by = called_functions(step.call)[0].name
            else:
                stream = self._select(step.plan, stream, self.counts[i])
        return stream

    def connection(self) -> tuple[Engine, Sources]:
        """A connection of its own for one statement of this task, and its relations."""
        cursor = self._stack.enter_context(self._engine.cursor())
        options = self._settings.storage_options.reveal()
        sources = Sources(cursor, self._results, self._objects, options)
        return cursor, self._stack.enter_context(sources)

    def keep_rejects(self, folder: str) -> None:
        """Says where the rows go that ON ERROR keeps."""
        self._rejections.folder = folder

    def rejected(self) -> tuple[Rejected, ...]:
        """What ON ERROR let go, once all batches have been read."""
        return self._rejections.finished()

    # ---- steps ---------------------------------------------------------------------------------

    def first_sql(self, sources: Sources) -> str:
        """The SELECT that reads the source."""
        source = self._stage.source
        given: dict[Node, str] = {}
        if source is not None:
            given[source] = sources.relation(source, self._input)
        self._relations = sources.of(self._first, given)
        return render(self._first, self._relations)

    def _read(self) -> Iterator[pa.RecordBatch]:
        """The rows of the first step, in pieces that are not too big for Python."""
        import pyarrow as pa

        plan, count = plan_of(self.steps[0]), self.counts[0]
        numbered = 0
        part = self._input if isinstance(plan, StageResult) else None
        for batch in self._kept(part) if isinstance(part, Part) else self._selected():
            count.rows_out += batch.num_rows
            hit("batch_read")
            for piece in self._bounded(batch):
                if self._numbered and ORDINAL not in piece.schema.names:
                    numbers = pa.array(range(numbered, numbered + piece.num_rows), pa.int64())
                    numbered += piece.num_rows
                    piece = piece.append_column(ORDINAL, numbers)  # noqa: PLW2901
                yield piece
        count.rows_in = count.rows_out if isinstance(part, Part) else self.records_in

    def _kept(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Rows that another stage left, as they are: DuckDB would only copy them."""
        names = [column.name for column in plan_of(self.steps[0]).columns]
        count = self.counts[0]
        batches = iter(part_reader(part))
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            count.seconds += time.perf_counter() - began
            if batch is None:
                break
            yield batch.select(names)
        self.records_in = 0 if self._count_input else count.rows_out

    def _selected(self) -> Iterator[pa.RecordBatch]:
        """What the SELECT of the first step gives."""
        engine, sources = self.connection()
        if self._count_input:
            engine.profile()
        sql = self.first_sql(sources)
        count = self.counts[0]
        # On the stack, not in a `with`: when a later step fails nobody comes back here, and the
        # sources cannot be let go while the query still runs.
        plan = self._first
        with placing(plan, self._relations), _reading(sources):
            stream = self._stack.enter_context(
                engine.batches(sql, self._settings.batch_rows, lossless=True)
            )
        batches = iter(stream)
        while True:
            began = time.perf_counter()
            with placing(plan, self._relations), _reading(sources):
                batch = next(batches, None)
            count.seconds += time.perf_counter() - began
            if batch is None:
                break
            yield batch
        profile = engine.profiled() if self._count_input else {}
        self.records_in = self._rows_read(profile, sources) if self._count_input else count.rows_out
        self.bytes_spilled = profile_of(profile).bytes_spilled

    def _rows_read(self, profile: Mapping[str, Any], sources: Sources) -> int:
        if sources.streamed is not None:
            return sources.streamed.rows
        if not isinstance(self._stage.source, Scan):
            return 0
        readers = READERS.get(self._stage.source.format)
        if readers is not None:
            return rows_scanned(profile, readers)
        split = self._input
        if isinstance(split, Split) and split.start is not None and split.stop is not None:
            return split.stop - split.start
        return self.counts[0].rows_out

    def _select(
        self, plan: LogicalPlan, stream: Iterator[pa.RecordBatch], count: StepCount
    ) -> Iterator[pa.RecordBatch]:
        """Row-wise SQL over each batch; joins over all of them."""
        if self._numbered:
            plan = carried(plan, _NUMBER) or plan
        (leaf,) = leaves(plan)
        if has_join(plan):
            yield from self._join(plan, leaf, stream, count)
            return
        engine, sources = self.connection()
        relation = f"(SELECT {casts(leaf.columns)} FROM {_BATCH})"
        relations = sources.of(plan, {leaf: relation})
        sql = render(plan, relations)
        picks = picks_of(plan, leaf)
        known: pa.Schema | None = None
        for batch in stream:
            began = time.perf_counter()
            count.rows_in += batch.num_rows
            if picks is not None and known is not None and picks.fit(batch.schema, known):
                found = [picks.of(batch)]
            else:
                engine.register(_BATCH, batch)
                with (
                    placing(plan, relations),
                    engine.batches(sql, self._settings.batch_rows, lossless=True) as selected,
                ):
                    found, known = list(selected), selected.schema
                engine.unregister(_BATCH)
            count.seconds += time.perf_counter() - began
            for piece in found:
                count.rows_out += piece.num_rows
                yield piece

    def _join(
        self,
        plan: LogicalPlan,
        leaf: BatchInput,
        stream: Iterator[pa.RecordBatch],
        count: StepCount,
    ) -> Iterator[pa.RecordBatch]:
        """SQL that joins the rows to others: one statement, whose hash table is made once."""
        first = next(stream, None)
        if first is None:
            return
        rows = Remembering(chain((first,), stream))
        joined = self._over_all(plan, leaf, first.schema, rows)
        while True:
            began, waited = time.perf_counter(), rows.seconds
            batch = next(joined, None)
            count.seconds += time.perf_counter() - began - rows.seconds + waited
            count.rows_in = rows.rows
            if batch is None:
                return
            count.rows_out += batch.num_rows
            yield from self._bounded(batch)

    def _over_all(
        self, plan: LogicalPlan, leaf: BatchInput, schema: pa.Schema, rows: Remembering
    ) -> Iterator[pa.RecordBatch]:
        """A statement that takes batches as they are made. Raises what is raised in them."""
        engine, sources = self.connection()
        name = self._stack.enter_context(registered_stream(engine, schema, rows))
        relations = sources.of(plan, {leaf: f"(SELECT {casts(leaf.columns)} FROM {name})"})
        try:
            with placing(plan, relations):
                yield from self._stack.enter_context(
                    engine.batches(
                        render(plan, relations), self._settings.batch_rows, lossless=True
                    )
                )
        except ZqlError:
            if rows.error is not None:
                raise rows.error from None
            raise

    def _call(
        self,
        call: PythonOperator,
        stream: Iterator[pa.RecordBatch],
        count: StepCount,
        policies: Sequence[ErrorPolicy],
    ) -> Iterator[pa.RecordBatch]:
        """Python over the rows; it is the first step of these policies."""
        if any(f.built for f in called_functions(call)) and not _calls_for_nothing(call):
            # What a class makes may be large: not where there is nothing to call it for.
            first = next((batch for batch in stream if batch.num_rows), None)
            if first is None:
                return iter(())
            stream = chain((first,), stream)
        try:
            caller = self._caller(call, count)
        except CallError as error:
            raise locate.load_error(error) from None
        if isinstance(caller, ShardCaller | GroupCaller | FoldCaller):
            if isinstance(call, Reduce) and call.kind == "COMBINE":
                stream = self._together(call, stream)
            if isinstance(call, Fold) and call.kind == "PARTIAL":
                stream = self._together(call, stream)
            keeps = isinstance(call, MapRows | Reduce) and call.on_error is not None
            stream = self._counted(stream, count, policies, keeps=keeps)
            return self._call_once(caller, stream, count)
        if isinstance(caller, BatchCaller) and isinstance(call, MapRows):
            stream = self._batched(stream, call.batch_rows)
        elif any(is_special(function) for function in called_functions(call)):
            stream = self._batched(stream, None)  # the more rows, the more calls at a time
        return self._call_each(caller, stream, count, policies)

    def _caller(
        self, call: PythonOperator, count: StepCount
    ) -> Caller | BatchCaller | ShardCaller | GroupCaller | FoldCaller:
        find, rows = (_Constants(self), self._as_text), self._settings.batch_rows
        match call:
            case Reduce():
                attempt = self._attempt(call.on_error, count)
                return GroupCaller(call, *find, catch=self._catch, most_rows=rows, attempt=attempt)
            case Fold():
                return FoldCaller(call, *find, catch=self._catch, most_rows=rows)
            case MapRows(kind="MAP BATCHES"):
                return BatchCaller(call, *find, catch=self._catch, most_rows=rows)
            case MapRows(kind="MAP SHARDS"):
                attempt = self._attempt(call.on_error, count)
                return ShardCaller(
                    call,
                    self._shard,
                    *find,
                    catch=self._catch,
                    most_rows=rows,
                    attempt=attempt,
                    place=f"the shard of {locate.input_place(self._input)}",
                )
            case _:
                kept = self._stuck
                return Caller(call, *find, catch=self._catch, most_rows=rows, stuck=kept)

    def _attempt(self, policy: ErrorPolicy | None, count: StepCount) -> Attempt | None:
        """How calls for many rows are made whose failures are let go."""
        if policy is None:
            return None

        def reject(failed: FailedGroup) -> None:
            count.rejected += failed.rows
            self._rejections.take_group(failed)

        return Attempt(policy, reject, self._rejections.folder, self._settings.batch_bytes)

    def _together(
        self, call: Reduce | Fold, stream: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a part with those of each group together; a Fold has their numbers too."""
        first = next(stream, None)
        if first is None:
            return
        leaf = call.input
        if not isinstance(leaf, BatchInput):
            raise InternalError("parts of groups are made of batches")
        if isinstance(call, Fold):
            leaf = replace(leaf, columns=(*leaf.columns, _NUMBER))
            plan: LogicalPlan = grouped(call, leaf, (_NUMBER,))
        else:
            plan = exchange(call, leaf)
        yield from self._over_all(plan, leaf, first.schema, Remembering(chain((first,), stream)))

    def _call_each(
        self,
        caller: Caller | BatchCaller,
        stream: Iterator[pa.RecordBatch],
        count: StepCount,
        policies: Sequence[ErrorPolicy],
    ) -> Iterator[pa.RecordBatch]:
        """Python over each batch."""
        for batch in stream:
            self._rejections.reached(policies, batch.num_rows)
            self._note_rows(batch, count)
            results = caller.run(batch)
            while True:
                began = time.perf_counter()
                try:
                    # What a function prints is no part of the results.
                    with self._printer:
                        result = next(results, None)
                except CallError as error:
                    last = error.row if error.last is None else error.last
                    last = batch.num_rows - 1 if isinstance(caller, BatchCaller) else last
                    rows = self._numbers(batch, count).slice(error.row, last + 1 - error.row)
                    raise locate.call_error(error, self._place(*_ends(rows))) from None
                count.seconds += time.perf_counter() - began
                count.calls = caller.calls
                if result is None:
                    break
                count.rows_out += result.num_rows
                hit("batch_called")
                yield result
            if caller.failures:
                count.rejected += len(caller.failures)
                self._rejections.take(caller.failures, batch, self._numbers(batch, count))
                caller.failures.clear()
            count.rows_in += batch.num_rows

    def _call_once(
        self,
        caller: ShardCaller | GroupCaller | FoldCaller,
        stream: Iterator[pa.RecordBatch],
        count: StepCount,
    ) -> Iterator[pa.RecordBatch]:
        """Python over all rows of the task."""
        results = caller.run(stream)
        while True:
            began, waited = time.perf_counter(), caller.seconds_waited
            try:
                with self._printer:
                    result = next(results, None)
            except CallError as error:
                if isinstance(caller, ShardCaller):
                    place = self._shard_place(caller)
                elif isinstance(caller, FoldCaller):
                    place = self._fold_place(caller)
                else:
                    place = caller.place(error)
                raise locate.call_error(error, place) from None
            count.seconds += time.perf_counter() - began - caller.seconds_waited + waited
            count.calls = caller.calls
            if result is None:
                return
            count.rows_out += result.num_rows
            hit("batch_called")
            yield result

    def _batched(
        self, stream: Iterator[pa.RecordBatch], rows: int | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows in batches of so many; by default as many as the engine takes at a time."""
        if rows is not None:
            return rechunked(stream, rows)
        whole = rechunked(stream, self._settings.batch_rows)
        return (piece for batch in whole for piece in self._bounded(batch))

    def _counted(
        self,
        stream: Iterator[pa.RecordBatch],
        count: StepCount,
        policies: Sequence[ErrorPolicy],
        *,
        keeps: bool,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a call for many; with their numbers, if it `keeps` those that fail."""
        for batch in stream:
            numbered = batch
            if keeps and ORDINAL not in batch.schema.names:
                numbered = batch.append_column(ORDINAL, self._numbers(batch, count))
            self._rejections.reached(policies, batch.num_rows)
            self._note_rows(batch, count)
            count.rows_in += batch.num_rows
            yield numbered

    # ---- help for calls --------------------------------------------------------------------------

    def _numbers(self, batch: pa.RecordBatch, count: StepCount) -> pa.Array:
        """Which rows of the first step's those of a batch came from."""
        import pyarrow as pa

        if ORDINAL in batch.schema.names:
            return batch.column(ORDINAL)
        return pa.array(range(count.rows_in, count.rows_in + batch.num_rows), pa.int64())

    def _note_rows(self, batch: pa.RecordBatch, count: StepCount) -> None:
        """Puts down at which rows the task is now, for when its worker dies of them."""
        if not batch.num_rows:
            return
        first, last = count.rows_in, count.rows_in + batch.num_rows - 1
        if ORDINAL in batch.schema.names:
            first, last = _ends(batch.column(ORDINAL))
        note_rows(first, last)

    def place(self, first: int | None, last: int | None) -> str:
        """Where calls were, on these rows of the input; not known, the input itself."""
        if first is None:
            return locate.input_place(self._input)
        return self._place(first, last)

    def _place(self, first: int, last: int | None = None) -> str:
        """Where rows were, from the first to the last of them."""
        if self._reduced_by:
            return f"a record that {self._reduced_by} gave"
        ends = [first, first if last is None else last]
        return locate.rows_place(self._input, self._rows, ends, self.connection)

    def _shard_place(self, caller: ShardCaller) -> str:
        row = caller.last_row
        if self._reduced_by:
            return f"records that {self._reduced_by} gave"
        if row is None:
            return locate.input_place(self._input)
        return f"{self._place(row)}, the last that it took,"

    def _fold_place(self, caller: FoldCaller) -> str:
        row, group = caller.failed_at()
        if row is None:
            return group or "all the rows"
        return f"{self._place(row)} ({group})" if group else self._place(row)

    def _places(self, numbers: Sequence[int]) -> list[tuple[str | None, int | None]]:
        return locate.row_places(self._input, self._rows, numbers, self.connection)

    def _bounded(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in pieces that are not too big for Python."""
        pieces = max(1, -(-batch.nbytes // self._settings.batch_bytes))
        rows = max(1, -(-batch.num_rows // pieces))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)

    def constant(self, expr: Expr) -> tuple[Any, Kind]:
        """The value of a constant argument, and its type; a shared object has none that counts."""
        if isinstance(expr, SharedObject):
            return self.shared[expr.key], Kind("VARCHAR")
        if isinstance(expr, TaskContext):
            return self._told(expr), Kind("VARCHAR")
        with self._engine.cursor() as cursor:
            sql = f"SELECT {expression_sql(expr)} AS x"
            kind = parse(cursor.describe(sql)[0][1])
            wire = wire_type(kind) if travels_as_text(kind) else kind
            sql = f"SELECT CAST(x AS {wire}) AS x FROM ({sql})"
            with cursor.batches(sql, 1, lossless=True) as stream:
                (batch,) = stream
            return to_python(batch.column(0), kind)[0], kind

    def _told(self, expr: TaskContext) -> Context:
        """The context of the task: one for all functions, so that their counters add up."""
        if self._context is None:
            keys = {shared.name: shared.key for shared in expr.shared}
            self._context = Context(self._shard, keys, self.shared, self.scratch)
            self._stack.callback(self._context.close)
        return self._context

    @property
    def tallies(self) -> Tallies:
        """The counters of the functions."""
        return self._context.tallies if self._context is not None else {}

    def _as_text(self, batch: pa.RecordBatch, name: str, kind: Kind) -> pa.Array:
        """A column in its wire type, by way of DuckDB."""
        quoted = quote_identifier(name)
        with self._engine.cursor() as cursor:
            cursor.register(_BATCH, batch.select([name]))
            sql = f"SELECT CAST({quoted} AS {wire_type(kind)}) AS x FROM {_BATCH}"
            with cursor.batches(sql, batch.num_rows, lossless=True) as stream:
                (result,) = stream
            return result.column(0)


class _Constants:
    """What is the same for all calls of a task."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __call__(self, expr: Expr, /) -> tuple[Any, Kind]:
        return self._pipeline.constant(expr)

    def load(self, function: PythonFunction, /) -> Callable[..., Any]:
        objects = self._pipeline.shared
        return objects.instances.load(function, objects)


def _ends(numbers: pa.Array) -> tuple[int, int]:
    """The first and the last of rows, which a join may have put in another order."""
    import pyarrow.compute as pc

    ends = pc.min_max(numbers).as_py()
    return ends["min"], ends["max"]


def _calls_for_nothing(call: PythonOperator) -> bool:
    """Whether a call is made where there are no rows."""
    if isinstance(call, Reduce):
        return not call.keys
    return isinstance(call, MapRows) and call.kind == "MAP SHARDS"


@contextmanager
def _reading(sources: Sources) -> Iterator[None]:
    """What a reader of the user's own raised is raised, not what DuckDB makes of it."""
    try:
        yield
    except ZqlError:
        if sources.streamed is not None and sources.streamed.error is not None:
            raise sources.streamed.error from None
        raise


def _first_steps(steps: Sequence[Step]) -> dict[int, tuple[ErrorPolicy, ...]]:
    """By step the policies whose first call it makes."""
    found: dict[int, tuple[ErrorPolicy, ...]] = {}
    seen: set[ErrorPolicy] = set()
    for i, step in enumerate(steps):
        new = tuple(p for p in policies_in(step) if p not in seen)
        seen.update(new)
        if new:
            found[i] = new
    return found


def _with_source(stage: Stage) -> tuple[Step, ...]:
    """The steps; when Python comes first, a SELECT of the source before it."""
    if isinstance(stage.steps[0], RunSql):
        return stage.steps
    if stage.source is None:
        raise InternalError("a stage of Python calls has no source")
    return (RunSql(stage.source), *stage.steps)


def plan_of(step: Step) -> LogicalPlan:
    """The plan of a step, SQL or Python."""
    return step.plan if isinstance(step, RunSql) else step.call


def leaves(plan: LogicalPlan) -> list[BatchInput]:
    """The batch inputs of a plan: one, or none when it reads nothing of the step before."""
    return list(dict.fromkeys(n for n in walk(plan) if isinstance(n, BatchInput)))


def describe(step: Step) -> str:
    """A short name for a step: its operators, or the functions it calls."""
    if isinstance(step, CallPython):
        call = step.call
        names = ", ".join(dict.fromkeys(f.name for f in called_functions(call)))
        return f"CALL {names}" if isinstance(call, Apply) else f"{call.kind} {names}"
    return "SQL"
