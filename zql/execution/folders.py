"""One Python aggregate over groups that come one after the other: its state, and its results."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import compress
from operator import length_hint
from typing import TYPE_CHECKING, Any

from zql.execution import kinds, loader
from zql.execution.binding import AsText, CallError, Catch, Constants, bind, failed
from zql.execution.misfit import Misfit, show
from zql.execution.results import to_arrow
from zql.execution.states import packed, unpacked
from zql.expr.expression import Column
from zql.logical.plan import PythonAggregate

if TYPE_CHECKING:
    import pyarrow as pa


class Folder:
    """What stepping through rows and merging states have in common.

    A group without a row that counts has no state: one is made when it must have a result.
    """

    def __init__(
        self,
        aggregate: PythonAggregate,
        constants: Constants,
        as_text: AsText,
        catch: Catch,
        partial: bool,
    ) -> None:
        """Loads the class; raises `CallError`. A `partial` one gives states and no results."""
        self.calls = 0
        self.bytes = 0
        self.done: list[Any] = []
        self._aggregate = aggregate
        self._as_text = as_text
        self._catch = catch
        self._partial = partial
        self._bound = bind(aggregate, constants, catch)
        self._class: Any = loader.load(aggregate.function)
        self._made_with = {name: constants(value)[0] for name, value in aggregate.made_with}
        self._state: Any = None

    def open(self, batch: pa.RecordBatch) -> None:
        """Takes a batch, whose rows are then fed. Raises `CallError` with a row of the batch."""
        raise NotImplementedError

    def feed(self, start: int, stop: int) -> None:
        """These rows of the batch belong to the group. Raises `CallError` with one of them."""
        raise NotImplementedError

    def end(self) -> None:
        """The group has no more rows, and another may begin. Raises `CallError`."""
        state, self._state = self._state, None
        if self._partial:
            blob = None if state is None else self._packed(state)
            self.bytes += len(blob or b"")
            self.done.append(blob)
        else:
            self.done.append(self._finished(self._made() if state is None else state))

    def results(self) -> pa.Array:
        """What came of the groups since the last time. Raises `CallError` with one of them."""
        import pyarrow as pa

        values, self.done, self.bytes = self.done, [], 0
        if self._partial:
            return pa.array(values, pa.binary())
        kind = kinds.parse(self._aggregate.column.type)
        try:
            return to_arrow(values, kind)
        except Misfit as misfit:
            message = f"gave {show(misfit.value)}, which does not fit {kind}: {misfit.why}"
            hint = "annotate finish with the type, or write @zql.udf(returns='..') on the class"
            raise self._error("R711", "finish", message, hint, misfit.row) from None

    def _made(self) -> Any:
        try:
            return self._class(**self._made_with)
        except self._catch as error:
            raise self._failed("__init__", error) from None

    def _finished(self, state: Any) -> Any:
        try:
            value = state.finish()
            iterates = self._aggregate.function.iterates and value is not None
            return list(value) if iterates else value
        except self._catch as error:
            raise self._failed("finish", error) from None

    def _packed(self, state: Any) -> bytes:
        try:
            return packed(state, self._class)
        except self._catch as error:
            message = f"has a state that cannot be pickled: {type(error).__name__}: {error}"
            hint = "leave that out in __getstate__; without merge, no state is pickled"
            raise self._error("R741", "", message, hint) from None

    def _failed(self, method: str, error: BaseException, row: int = 0) -> CallError:
        found = failed(self._aggregate.function, row, error, hint=None)  # they have no ON ERROR
        found.function = f"{self._aggregate.function.name}.{method}"
        return found

    def _error(self, code: str, method: str, message: str, hint: str, row: int = 0) -> CallError:
        name = self._aggregate.function.name
        named = f"{name}.{method}" if method else name
        return CallError(code, named, row, message, hint=hint)


class Stepper(Folder):
    """Hands each row to `step`, but those that FILTER or a NULL leaves out."""

    _rows: list[tuple[Any, ...]]
    _places: Sequence[int]

    def open(self, batch: pa.RecordBatch) -> None:
        guard = None
        if self._aggregate.guard is not None:
            guard = [v is True for v in batch.column(self._aggregate.guard.name).to_pylist()]
        counted = self._bound.callable_rows(batch, guard)
        rows = self._bound.argument_rows(batch, self._as_text)
        self._places = range(batch.num_rows)
        if counted is not None:
            self._places = list(compress(self._places, counted))
            rows = compress(rows, counted)
        self._rows = list(rows)

    def feed(self, start: int, stop: int) -> None:
        first, last = bisect_left(self._places, start), bisect_left(self._places, stop)
        if first == last:
            return
        if self._state is None:
            self._state = self._made()
        step, state = self._bound.call, self._state
        rows = self._rows[first:last]
        todo = iter(rows)
        try:
            for args in todo:
                step(state, *args)
        except self._catch as error:
            at = len(rows) - length_hint(todo) - 1
            found = self._failed("step", error, self._places[first + at])
            raise found.given(rows[at]) from None
        finally:
            self.calls += len(rows) - length_hint(todo)


class Merger(Folder):
    """Makes one state of those that tasks have left, in the order of the tasks."""

    _states: pa.Array

    def open(self, batch: pa.RecordBatch) -> None:
        (column,) = self._aggregate.args
        if not isinstance(column, Column):
            raise TypeError(column)
        self._states = batch.column(column.name)

    def feed(self, start: int, stop: int) -> None:
        for row in range(start, stop):
            blob = self._states[row].as_py()
            if blob is None:
                continue
            other = self._unpacked(blob)
            if self._state is None:
                self._state = other
            else:
                self._merge(other)

    def _merge(self, other: Any) -> None:
        try:
            found = self._state.merge(other)
        except self._catch as error:
            raise self._failed("merge", error) from None
        if found is not None and found is not self._state:
            kind = type(found).__name__
            message = f"gave a {kind}, and only what it changes in its own object counts"
            hint = "take the other state into self, and return nothing"
            raise self._error("R711", "merge", message, hint)

    def _unpacked(self, blob: bytes) -> Any:
        try:
            return unpacked(blob, self._class)
        except self._catch as error:
            message = f"has a state that cannot be unpickled: {type(error).__name__}: {error}"
            hint = "see to it in __setstate__; without merge, no state is pickled"
            raise self._error("R741", "", message, hint) from None
