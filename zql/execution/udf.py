"""Calls of Python functions over batches: columns in, calls, typed columns out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from zql.execution import kinds
from zql.execution.binding import AsText, Bound, CallError, Catch, Constants, bind, failed
from zql.execution.calls_ahead import Ahead, Stuck, is_special, tried
from zql.execution.kinds import Kind
from zql.execution.list_calls import with_lists
from zql.execution.misfit import Misfit, show
from zql.execution.observed import wider
from zql.execution.rejects import Failed
from zql.execution.results import records_to_arrow, to_arrow
from zql.expr.functions import ErrorPolicy
from zql.expr.sql import quote_identifier
from zql.logical.plan import Apply, MapRows, PythonColumn, Reduce

if TYPE_CHECKING:
    import pyarrow as pa


ORDINAL = "zql row"
"""A hidden column: which row of the task's input a row came from, from 0."""


class Caller:
    """Makes the calls of one `Apply` or `MapRows`; one for each task and step."""

    def __init__(
        self,
        call: Apply | MapRows,
        constants: Constants,
        as_text: AsText,
        *,
        catch: Catch = BaseException,
        most_rows: int = 8192,
        stuck: Stuck | None = None,
    ) -> None:
        """Loads the functions; raises `CallError`.

        `catch` is what counts as a failure of the function; `most_rows` bounds the batches that
        FLATMAP gives; calls that are `stuck` are not made, and fail.
        """
        self.calls = 0
        self.failures: list[Failed] = []
        """Those that a policy lets go, by row; whoever takes them clears the list."""
        self._call = call
        self._as_text = as_text
        self._catch = catch
        self._most_rows = most_rows
        targets: list[PythonColumn | MapRows] = (
            list(call.calls) if isinstance(call, Apply) else [call]
        )
        self._bound = [bind(target, constants, catch) for target in targets]
        for i, target in enumerate(targets):
            safe = isinstance(target, PythonColumn) and target.safe
            if is_special(target.function):
                self._bound[i] = _with_ahead(self._bound[i], safe, stuck or {})
            elif safe:
                self._bound[i] = self._bound[i]._replace(call=tried(self._bound[i].call))
        self._seen = 0

    def run(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batches that come of one batch. Raises `CallError`."""
        if isinstance(self._call, Apply):
            yield self._apply(self._call, batch)
        elif self._call.kind == "MAP":
            yield self._map(self._call, batch)
        else:
            yield from self._flat_map(self._call, batch)
        self._seen += batch.num_rows

    def _apply(self, call: Apply, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        result = batch
        gone: set[int] = set()
        failed: dict[int, Failed] = {}
        for target, bound in zip(call.calls, self._bound, strict=True):
            guard = None
            if target.guard is not None:
                guard = [v is True for v in batch.column(target.guard.name).to_pylist()]
            rows = bound.callable_rows(batch, guard)
            if gone:
                rows = [r not in gone and (rows is None or rows[r]) for r in range(batch.num_rows)]
            catching = _Catching(target.on_error)
            values = self._values(bound, batch, rows, catching)
            column = self._fitting(bound, values, batch, kinds.parse(target.column.type), catching)
            result = result.append_column(target.column.name, column)
            if target.failed is not None:
                flags = [row in catching.failed for row in range(batch.num_rows)]
                result = result.append_column(target.failed.name, pa.array(flags, pa.bool_()))
            failed = {**catching.failed, **failed}
            gone.update(catching.gone())
        self.failures += [failed[row] for row in sorted(failed)]
        if gone:
            result = result.filter(pa.array([r not in gone for r in range(batch.num_rows)]))
        return result

    def _map(self, call: MapRows, batch: pa.RecordBatch) -> pa.RecordBatch:
        (bound,) = self._bound
        rows = bound.callable_rows(batch, None)
        catching = _Catching(call.on_error)
        values = self._values(bound, batch, rows, catching)
        if rows is not None or catching.failed:
            # A NULL for a parameter that takes none gives NULLs, as in a scalar call.
            made = [True] * len(values) if rows is None else rows
            values = [
                v if called and row not in catching.failed else {}
                for row, (v, called) in enumerate(zip(values, made, strict=True))
            ]
        result = self._passing(call, values, batch, range(batch.num_rows), catching)
        self.failures += catching.in_order()
        return result

    def _flat_map(self, call: MapRows, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        (bound,) = self._bound
        rows = bound.callable_rows(batch, None) or [True] * batch.num_rows
        found: list[Any] = []
        parents: list[int] = []
        catching = _Catching(call.on_error)
        arguments = bound.argument_rows(batch, self._as_text)
        if bound.ahead is not None:
            given = list(arguments)
            chosen = compress(given, rows)
            _, call_made = self._ahead(bound, batch, rows, chosen, catching)
            bound, arguments = bound._replace(call=call_made), iter(given)
        for row, (called, args) in enumerate(zip(rows, arguments, strict=True)):
            items = self._items(bound, row, args) if called else iter(())
            for item in items if call.on_error is None else catching.whole(items, row, args):
                found.append(item)
                parents.append(row)
                if call.on_error is None and len(found) >= self._most_rows:
                    yield self._records(call, found, batch, parents)
                    found, parents = [], []
            if len(found) >= self._most_rows:
                yield self._passing(call, found, batch, parents, catching)
                found, parents = [], []
        if found:
            yield self._passing(call, found, batch, parents, catching)
        self.failures += catching.in_order()

    def _passing(
        self,
        call: MapRows,
        values: Sequence[Any],
        batch: pa.RecordBatch,
        parents: Sequence[int],
        catching: _Catching,
    ) -> pa.RecordBatch:
        """Records as a batch, as `_records`; rows with one that does not fit are let go too."""
        pairs = list(zip(values, parents, strict=True))
        gone = catching.gone()
        if gone:
            pairs = [(v, p) for v, p in pairs if p not in gone]
        try:
            return self._records(call, [v for v, _ in pairs], batch, [p for _, p in pairs])
        except CallError as error:
            if not catching.lets_go(error):
                raise
        for value, row in pairs:
            if row not in catching.failed:
                self._check(call, value, batch, row, catching)
        gone = catching.gone()
        pairs = [({} if p in catching.failed else v, p) for v, p in pairs if p not in gone]
        return self._records(call, [v for v, _ in pairs], batch, [p for _, p in pairs])

    def _check(
        self, call: MapRows, value: Any, batch: pa.RecordBatch, row: int, catching: _Catching
    ) -> None:
        try:
            self._records(call, [value], batch, [row])
        except CallError as error:
            catching.add(row, error, self._given(self._bound[0], batch, row))

    def _given(self, bound: Bound, batch: pa.RecordBatch, row: int) -> tuple[Any, ...]:
        """The arguments of one call."""
        return next(iter(bound.argument_rows(batch.slice(row, 1), self._as_text)))

    def _items(self, bound: Bound, row: int, args: tuple[Any, ...]) -> Iterator[Any]:
        """What one call of FLATMAP's function gives, one by one; nothing when it gives None."""
        self.calls += 1
        try:
            found = bound.call(*args)
            items = iter(()) if found is None else iterator_of(found)
        except self._catch as error:
            raise failed(bound.function, row, error) from None
        if items is None:
            message = f"gave {show(found)}, where FLATMAP takes an iterable of records"
            raise CallError("R711", bound.function.name, row, message, hint="or use MAP")
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except self._catch as error:
                raise failed(bound.function, row, error) from None
            yield item

    def _records(
        self,
        call: MapRows,
        values: Sequence[Any],
        batch: pa.RecordBatch,
        parents: Sequence[int],
    ) -> pa.RecordBatch:
        """Records as a batch of the call's columns; `parents` are the rows they came from."""
        import pyarrow as pa

        if call.kind != "MAP" and len(call.names) == 1:
            values = [v if is_record(v) else {call.names[0]: v} for v in values]
        types = [kinds.parse(c.type) for c in call.made]
        try:
            columns = records_to_arrow(values, call.names, types)
        except Misfit as misfit:
            raise record_misfit(call, misfit, values[misfit.row], parents[misfit.row]) from None
        names = [c.name for c in call.made]
        beside = [c.name for c in call.carried]
        beside += [ORDINAL] if ORDINAL in batch.schema.names else []
        if beside:
            rows = pa.array(parents, pa.int64())
            columns += [batch.column(name).take(rows) for name in beside]
            names += beside
        return pa.RecordBatch.from_arrays(columns, names)

    def _fitting(
        self,
        bound: Bound,
        values: list[Any],
        batch: pa.RecordBatch,
        kind: Kind,
        catching: _Catching,
    ) -> pa.Array:
        """Values as a column; NULL for those that do not fit, if they are let go."""
        try:
            return to_arrow(values, kind)
        except Misfit as misfit:
            error = _scalar_misfit(bound, misfit, values[misfit.row], kind)
            if not catching.lets_go(error):
                raise error from None
            first = misfit.row
        for row in range(first, len(values)):
            try:
                to_arrow([values[row]], kind)
            except Misfit as misfit:
                alone = Misfit(row, misfit.value, misfit.why)
                error = _scalar_misfit(bound, alone, values[row], kind)
                catching.add(row, error, self._given(bound, batch, row))
                values[row] = None
        return to_arrow(values, kind)

    def _values(
        self,
        bound: Bound,
        batch: pa.RecordBatch,
        rows: list[bool] | None,
        catching: _Catching,
    ) -> list[Any]:
        """What the function gives for each row; None where it is not called, or fails."""
        arguments = iter(bound.argument_rows(batch, self._as_text))
        chosen = arguments if rows is None else iter(compress(arguments, rows))
        call = bound.call
        if bound.ahead is not None:
            chosen, call = self._ahead(bound, batch, rows, chosen, catching)
        found: list[Any] = []
        append = found.append
        try:
            while True:
                args: tuple[Any, ...] = ()
                try:
                    for args in chosen:
                        append(call(*args))
                    break
                except CallError:
                    raise
                except self._catch as error:
                    at = len(found) if rows is None else _nth_true(rows, len(found))
                    failure = failed(bound.function, at, error)
                    if bound.ahead is not None and bound.ahead.width > 1:
                        end = len(found) + bound.ahead.width - 1
                        failure.last = end if rows is None else _nth_true(rows, end)
                    if not catching.lets_go(failure):
                        raise _with_values(failure, args) from None
                    catching.add(at, failure, args)
                    append(None)
        finally:
            self.calls += len(found) if bound.ahead is None else bound.ahead.calls(len(found))
        if rows is None:
            return found
        results = iter(found)
        return [next(results) if called else None for called in rows]

    def _ahead(
        self,
        bound: Bound,
        batch: pa.RecordBatch,
        rows: list[bool] | None,
        chosen: Iterator[tuple[Any, ...]],
        catching: _Catching,
    ) -> tuple[Iterator[tuple[Any, ...]], Callable[..., Any]]:
        """The arguments and the function of calls that are not made one by one."""
        if bound.ahead is None:
            return chosen, bound.call
        numbers: Sequence[int] = range(self._seen, self._seen + batch.num_rows)
        if ORDINAL in batch.schema.names:
            numbers = batch.column(ORDINAL).to_pylist()
        if rows is not None:
            numbers = list(compress(numbers, rows))
        return bound.ahead.begun(chosen, numbers, catching.tolerant)


class _Catching:
    """The failures of one call on one batch, by row; only those that its policy lets go."""

    def __init__(self, policy: ErrorPolicy | None) -> None:
        self.failed: dict[int, Failed] = {}
        self._policy = policy

    @property
    def tolerant(self) -> bool:
        """Whether a failure may be let go."""
        return self._policy is not None

    def lets_go(self, error: CallError) -> bool:
        return self._policy is not None and not error.fatal

    def add(self, row: int, error: CallError, args: tuple[Any, ...]) -> None:
        """Notes the failure of a row, unless it has one. Raises it when no policy lets it go."""
        if self._policy is None or error.fatal:
            raise _with_values(error, args)
        given = show(args[0]) if len(args) == 1 else show(args)
        self.failed.setdefault(row, Failed(self._policy, row, error, given))

    def whole(self, items: Iterator[Any], row: int, args: tuple[Any, ...]) -> list[Any]:
        """All that a call of FLATMAP gives; nothing when it fails on the way."""
        try:
            return list(items)
        except CallError as error:
            self.add(row, error, args)
            return []

    def gone(self) -> set[int]:
        """The rows that are not passed on."""
        return set(self.failed) if self._policy and self._policy.action == "SKIP" else set()

    def in_order(self) -> list[Failed]:
        """The failures by row."""
        return [self.failed[row] for row in sorted(self.failed)]


def _with_ahead(bound: Bound, safe: bool, stuck: Stuck) -> Bound:
    """A call that is not simply made for each row; the exceptions of a `safe` one are NULL."""
    function, call = bound.function, bound.call
    if function.batch_size is not None:
        call = with_lists(call, [argument.kind for argument in bound.arguments], bound.forms)
    return bound._replace(ahead=Ahead(function, call, safe=safe, stuck=stuck))


def iterator_of(found: Any) -> Iterator[Any] | None:
    """An iterator over records; None for what is one record, one text, or no iterable at all."""
    if isinstance(found, Mapping | str | bytes) or not hasattr(found, "__iter__"):
        return None
    items: Iterator[Any] = iter(found)
    return items


def _with_values(error: CallError, args: tuple[Any, ...]) -> CallError:
    """The error of a call of one row, with what it was given."""
    return error.given(args) if error.code == "R710" and error.last is None and args else error


def _nth_true(rows: Sequence[bool], number: int) -> int:
    return [row for row, called in enumerate(rows) if called][number]


def is_record(value: Any) -> bool:
    """Whether it is a record: a dict, a dataclass, a NamedTuple."""
    return (
        isinstance(value, Mapping)
        or dataclasses.is_dataclass(value)
        or (isinstance(value, tuple) and hasattr(value, "_asdict"))
    )


def _scalar_misfit(bound: Bound, misfit: Misfit, value: Any, kind: Kind) -> CallError:
    message = f"gave {show(misfit.value)}, which does not fit {kind}: {misfit.why}"
    found = wider(kind, value)
    hint = "return None or a value of that type"
    if found is not None:
        hint = f"RETURNS {found}, or @zql.udf(returns={str(found)!r}) on the function, takes both"
    return CallError("R711", bound.function.name, misfit.row, message, hint=hint)


def record_misfit(call: MapRows | Reduce, misfit: Misfit, record: Any, row: int) -> CallError:
    """What is told of a record that does not fit the columns of the call."""
    message = f"gave {show(misfit.value)}, which does not fit: {misfit.why}"
    if record is None:
        wanted = "one record" if call.kind == "MAP" else "records"
        message = f"gave None, where {call.kind} takes {wanted}"
        return CallError("R711", call.function.name, row, message)
    fields = tuple((n, kinds.parse(c.type)) for n, c in zip(call.names, call.made, strict=True))
    found = wider(Kind("STRUCT", fields), record)
    hint = "return None or values of the columns' types"
    if found is not None:
        columns = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in found.parts)
        hint = f"RETURNS ({columns}) takes it"
    return CallError("R711", call.function.name, row, message, hint=hint)
