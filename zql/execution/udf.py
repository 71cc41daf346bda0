"""Calls of Python functions over batches: columns in, calls, typed columns out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from zql.execution import kinds
from zql.execution.binding import AsText, Bound, CallError, Catch, Constants, bind, failed
from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit, show
from zql.execution.observed import wider
from zql.execution.results import records_to_arrow, to_arrow
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
    ) -> None:
        """Loads the functions; raises `CallError`.

        `catch` is what counts as a failure of the function; `most_rows` bounds the batches that
        FLATMAP gives.
        """
        self.calls = 0
        self._call = call
        self._as_text = as_text
        self._catch = catch
        self._most_rows = most_rows
        targets = call.calls if isinstance(call, Apply) else (call,)
        self._bound = [bind(target, constants, catch) for target in targets]
        for i, target in enumerate(targets):
            if isinstance(target, PythonColumn) and target.safe:
                self._bound[i] = self._bound[i]._replace(call=_tried(self._bound[i].call))

    def run(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batches that come of one batch. Raises `CallError`."""
        if isinstance(self._call, Apply):
            yield self._apply(self._call, batch)
        elif self._call.kind == "MAP":
            yield self._map(self._call, batch)
        else:
            yield from self._flat_map(self._call, batch)

    def _apply(self, call: Apply, batch: pa.RecordBatch) -> pa.RecordBatch:
        result = batch
        for target, bound in zip(call.calls, self._bound, strict=True):
            guard = None
            if target.guard is not None:
                guard = [v is True for v in batch.column(target.guard.name).to_pylist()]
            values = self._values(bound, batch, bound.callable_rows(batch, guard))
            kind = kinds.parse(target.column.type)
            try:
                column = to_arrow(values, kind)
            except Misfit as misfit:
                raise _scalar_misfit(bound, misfit, values[misfit.row], kind) from None
            result = result.append_column(target.column.name, column)
        return result

    def _map(self, call: MapRows, batch: pa.RecordBatch) -> pa.RecordBatch:
        (bound,) = self._bound
        rows = bound.callable_rows(batch, None)
        values = self._values(bound, batch, rows)
        if rows is not None:
            # A NULL for a parameter that takes none gives NULLs, as in a scalar call.
            values = [v if called else {} for v, called in zip(values, rows, strict=True)]
        return self._records(call, values, batch, range(batch.num_rows))

    def _flat_map(self, call: MapRows, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        (bound,) = self._bound
        rows = bound.callable_rows(batch, None) or [True] * batch.num_rows
        found: list[Any] = []
        parents: list[int] = []
        arguments = bound.argument_rows(batch, self._as_text)
        for row, (called, args) in enumerate(zip(rows, arguments, strict=True)):
            for item in self._items(bound, row, args) if called else ():
                found.append(item)
                parents.append(row)
                if len(found) >= self._most_rows:
                    yield self._records(call, found, batch, parents)
                    found, parents = [], []
        if found:
            yield self._records(call, found, batch, parents)

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

    def _values(self, bound: Bound, batch: pa.RecordBatch, rows: list[bool] | None) -> list[Any]:
        """What the function gives for each row; None where it is not called."""
        arguments = bound.argument_rows(batch, self._as_text)
        call = bound.call
        found: list[Any] = []
        append = found.append
        try:
            for args in arguments if rows is None else compress(arguments, rows):
                append(call(*args))
        except CallError:
            raise
        except self._catch as error:
            at = len(found) if rows is None else _nth_true(rows, len(found))
            raise failed(bound.function, at, error) from None
        finally:
            self.calls += len(found)
        if rows is None:
            return found
        results = iter(found)
        return [next(results) if called else None for called in rows]


def _tried(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function as TRY calls it: None in place of an exception."""

    def attempt(*args: Any) -> Any:
        try:
            return call(*args)
        except Exception:  # noqa: BLE001 - TRY asks for that
            return None

    return attempt


def iterator_of(found: Any) -> Iterator[Any] | None:
    """An iterator over records; None for what is one record, one text, or no iterable at all."""
    if isinstance(found, Mapping | str | bytes) or not hasattr(found, "__iter__"):
        return None
    items: Iterator[Any] = iter(found)
    return items


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
