"""The result type of a function that does not tell it: seen on its first calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from zql.errors import BindError, UdfError, ZqlError
from zql.execution import loader, locate, worker
from zql.execution.arguments import to_python
from zql.execution.binding import load_verb
from zql.execution.engine import Engine, EngineError
from zql.execution.executor import Executor, Job
from zql.execution.kinds import Kind, parse, travels_as_text, wire_type
from zql.execution.misfit import Misfit
from zql.execution.observed import NULL, NoType, kind_of, merged, settled
from zql.execution.printed import Printer
from zql.execution.records import alone
from zql.execution.results import to_arrow
from zql.execution.run import Run
from zql.execution.seen import (
    MOST_ELEMENTS,
    Calls,
    Seen,
    failed_call,
    lets_go,
    loaded,
    with_shared,
)
from zql.execution.shared import Objects, Stored, objects_of
from zql.execution.signature import fields_of
from zql.execution.stages import explained, is_python, reading
from zql.execution.tasks import death_error
from zql.expr.expression import TaskContext
from zql.expr.functions import FIRST_ROWS, PythonFunction
from zql.expr.sql import quote_identifier
from zql.logical.catalog import IN_EXPRESSION, NOTHING, ProbeWay, Shared
from zql.logical.plan import Scan
from zql.physical.plan import PhysicalPlan
from zql.storage.files import shown
from zql.tree import walk

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.execution.native import NativeStage

_MOST_NAMES = 3
PROBED_ROWS = 100
"""So many rows of the input are looked at, at most."""


class Probe:
    """Finds the result type of one function."""

    def __init__(
        self,
        function: PythonFunction,
        record: Sequence[str],
        keywords: Sequence[str],
        tolerant: bool = False,
        shared: Shared = (),
        way: ProbeWay = IN_EXPRESSION,
    ) -> None:
        self._function = function
        self._record = tuple(record)
        self._keywords = tuple(keywords)
        self._tolerant = tolerant
        self._shared = shared
        self._way = way
        self._label = f"first rows, {function.name}"

    def typed(self, run: Run, pool: Executor | None) -> PythonFunction:
        """The function with its type, from calls on the rows of a run's plan.

        The calls are made in a worker of the pool; without one, here.
        """
        for stage in run.plan.stages[:-1]:
            run.keep(stage)
        last = run.plan.stages[-1]
        if is_python(last):
            run.keep(last)
            last = reading(last)
        with run.native(last) as native:
            try:
                types = [c.type for c in native.columns]
                calls = Calls(
                    self._function,
                    self._rows(native),
                    self._keywords,
                    self._tolerant,
                    self._shared,
                    way=self._way,
                    record=tuple(zip(self._record, types, strict=False)),
                    path=next(_paths(run.plan), None),
                    types=tuple(types),
                    search=loader.searched(),
                )
            except EngineError as error:
                raise explained(error, last) from None
            objects = [o for _, shared in self._shared for o in objects_of(shared)]
            objects += objects_of(self._function)
            if any(isinstance(shared, TaskContext) for _, shared in self._shared):
                calls = replace(calls, scratch=run.folder("scratch"))
            if pool is None:
                given = run.host.shared.here(objects)
                with Printer(self._label) as printer:
                    seen = _observer(calls)(run.host.engine, calls, given)
                printer.flush_rest()
            else:
                calls = replace(calls, folders=run.host.shared_folders(objects))
                seen = self._in_worker(calls, pool, native, run.plan)
            if seen.code:
                raise UdfError(self._told(seen, native, run.plan), code=seen.code, notes=seen.notes)
            if not seen.returns and seen.let_go is not None:
                self._check_seen(seen.let_go, len(calls.rows), native, run.plan)
        if not seen.returns and self._record:
            raise BindError(
                f"there is no row to see what columns {self._function.name} gives",
                code="T321",
                hint="write RETURNS (name TYPE, ..) behind it",
            )
        kind = parse(seen.returns or "VARCHAR")
        return replace(
            self._function,
            returns=str(kind),
            fields=fields_of(kind),
            iterates=seen.iterates,
            told_by=FIRST_ROWS,
        )

    def _told(self, failed: Seen, native: NativeStage, plan: PhysicalPlan) -> str:
        """A failure with its place."""
        place = failed.place
        if "{}" in place:
            place = place.replace("{}", _place(native, plan, failed.row, failed.last))
        where = "" if failed.code == "R713" else f" on {place}"  # there was no call yet
        name = f"{self._function.name}.{failed.method}".rstrip(".")
        return f"{name}{where} {failed.message}"

    def _check_seen(self, failed: Seen, rows: int, native: NativeStage, plan: PhysicalPlan) -> None:
        """Raises `BindError` when all calls fail and a later one may give what is not known.

        With a type that is only guessed, ON ERROR would let all rows go whose calls do not fail.
        """
        way = self._way.kind
        if not way and rows < PROBED_ROWS:
            return  # these are all the rows
        name = self._function.name
        hint = "annotate its result, or write @zql.udf(returns='..') on it"
        raise BindError(
            f"{name} fails for all of the first rows, so that nobody can see "
            + ("what columns it gives" if way else "the type of its result"),
            code="T321",
            notes=(f"the first: {self._told(failed, native, plan)}", *failed.notes),
            hint="write RETURNS (name TYPE, ..) behind it" if way else hint,
        )

    def _rows(self, native: NativeStage) -> list[tuple[Any, ...]]:
        """The arguments of each call."""
        engine, select = native.select()
        columns = [(c.name, parse(c.type)) for c in native.columns if c != NOTHING]
        items = ", ".join(
            f"CAST({quote_identifier(n)} AS {wire_type(k) if travels_as_text(k) else k}) AS c{i}"
            for i, (n, k) in enumerate(columns)
        )
        rows: list[tuple[Any, ...]] = []
        with engine.batches(f"SELECT {items or '1'} FROM (\n{select}\n)", 1024) as stream:
            for batch in stream:
                values = [self._column(batch.column(i), k) for i, (_, k) in enumerate(columns)]
                rows += zip(*values, strict=True) if values else [()] * batch.num_rows
        if not self._record:
            return rows
        count = len(self._record)
        return [(dict(zip(self._record, row[:count], strict=True)), *row[count:]) for row in rows]

    def _column(self, array: pa.Array, kind: Kind) -> Sequence[Any]:
        try:
            return to_python(array, kind)
        except Misfit as misfit:
            raise UdfError(
                f"{self._function.name} cannot be handed {misfit.value}: {misfit.why}",
                code="R712",
                hint="CAST the argument to VARCHAR",
            ) from None

    def _in_worker(
        self, calls: Calls, pool: Executor, native: NativeStage, plan: PhysicalPlan
    ) -> Seen:
        names = [self._function.name]
        seconds = pool.settings.probe_seconds
        job = Job(0, _observer(calls), calls, self._label)
        outcomes = pool.run([job], seconds)
        try:
            outcome = next(outcomes)
        except TimeoutError:
            raise UdfError(
                f"{names[0]} took more than {seconds:g} seconds on the first rows of "
                f"{_inputs(plan)}, when its type was looked for",
                code="R718",
                hint="annotate the function, or write RETURNS: then it is not tried first",
            ) from None
        if outcome.death is not None:
            row = outcome.death.detail
            place = _place(native, plan, row) if row is not None else _inputs(plan)
            raise death_error(outcome.death, place, names, pool.settings)
        seen: Seen = outcome.value
        return seen


def _observer(calls: Calls) -> Callable[..., Seen]:
    if not calls.way.kind and calls.function.batch_size is not None:
        from zql.execution.probe_lists import observe_lists

        return observe_lists
    if calls.way.kind in ("", "MAP", "FLATMAP"):
        return observe
    if calls.way.kind == "AGGREGATE":
        from zql.execution.probe_aggregate import observe_aggregate

        return observe_aggregate
    from zql.execution.probe_many import observe_many

    return observe_many


def observe(_engine: Engine, calls: Calls, objects: Objects | None = None) -> Seen:
    """Makes the calls; never raises what a function raises. `objects` are the shared ones."""
    function = calls.function
    strict = [not p.passes_null for p in function.parameters]
    objects = Stored(calls.folders) if objects is None else objects
    try:
        call = alone(function, loaded(calls, objects))
    except BaseException as error:  # noqa: BLE001 - user code
        return failed_call(0, error, "R713", load_verb(function))
    kind, iterates = NULL, False
    let_go: Seen | None = None
    values: list[Any] = []
    for row, given in enumerate(calls.rows):
        worker.note_detail(row)
        try:
            arguments, extra = with_shared(calls, given, objects)
        except UdfError as error:
            return Seen(code=error.code, message=error.message, notes=error.notes)
        if any(s and a is None for s, a in zip(strict, arguments, strict=False)):
            continue
        count = len(arguments) - len(calls.keywords)
        named = {**dict(zip(calls.keywords, arguments[count:], strict=True)), **extra}
        try:
            value = call(*arguments[:count], **named)
            if isinstance(value, Iterator):
                iterates, value = True, list(islice(value, MOST_ELEMENTS))
        except BaseException as error:  # noqa: BLE001 - user code
            failure = failed_call(row, error, "R710", "raised")
            if not lets_go(calls, error):
                return failure
            let_go = let_go or failure
            continue
        try:
            kind = merged(kind, kind_of(value))
        except NoType as error:
            return Seen(row=row, code="R711", message=f"has no one type for its results: {error}")
        values.append(value)
    if not values:
        return Seen(iterates=iterates, let_go=let_go)
    kind = settled(kind)
    try:
        to_arrow(values, kind)
    except Misfit as misfit:
        return Seen(
            row=misfit.row, code="R711", message=f"gave values of no one type: {misfit.why}"
        )
    return Seen(str(kind), iterates)


def _place(native: NativeStage, plan: PhysicalPlan, row: int, last: int | None = None) -> str:
    engine, sources = native.connection()
    try:
        found = locate.scan_places(
            engine, sources, native.plan, (row, row if last is None else last)
        )
    except (ZqlError, ValueError):
        found = None
    some = "one of" if last is None or last == row else "some of"
    return found or f"{some} the first rows of {_inputs(plan)}"


def _paths(plan: PhysicalPlan) -> Iterator[str]:
    """The files that a plan reads."""
    return (f.path for n in walk(plan) if isinstance(n, Scan) for f in n.files)


def _inputs(plan: PhysicalPlan) -> str:
    names = [shown(path) for path in dict.fromkeys(_paths(plan))]
    more = ["..."] if names[_MOST_NAMES:] else []
    return ", ".join(names[:_MOST_NAMES] + more) or "its input"
