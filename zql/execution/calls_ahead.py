"""Calls that are not simply made one after the other, each for a row.

Those of async functions and of functions in threads are made before their results are asked for;
those with `batch_size` for many rows at once. The loop over the rows then takes the results, or the
exceptions, at the places where it would have made the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from zql.execution.call_timeout import ONE_BY_ONE, Pulse, Span, Timed
from zql.execution.list_calls import listed
from zql.execution.refused import took_too_long
from zql.execution.together import DEFAULT_CONCURRENCY, Arguments, Ends, Raised, Results
from zql.expr.functions import PythonFunction

Stuck = Mapping[int, Collection[Span]]
"""By function, as `Overdue` names it, the rows at which an earlier worker had to be ended."""


def is_special(function: PythonFunction) -> bool:
    """Whether the calls of a function are not simply made one by one."""
    return (
        function.is_async
        or (function.concurrency or 1) > 1
        or function.timeout is not None
        or function.batch_size is not None
    )


class _Call(NamedTuple):
    """A call to be made, and the places of its rows among those that results are wanted for."""

    arguments: Arguments
    first: int
    rows: int


class Ahead:
    """Makes the calls of one function for the rows of a batch."""

    def __init__(
        self,
        function: PythonFunction,
        call: Callable[..., Any],
        *,
        safe: bool = False,
        stuck: Stuck,
    ) -> None:
        """`call` takes rows when the function has a `batch_size`."""
        self.width = 1
        """On how many rows the call was whose exception was raised last."""
        self._function = function
        self._safe = safe
        self._made = 0
        self._size = function.batch_size
        if self._size is not None:
            call = _checked(call, function.is_async)
        self._timed: Timed | None = None
        self._stuck = frozenset(stuck.get(crc32(function.name.encode()), ()))
        self._in_threads = not function.is_async and (function.concurrency or 1) > 1
        if function.timeout is not None and not (function.is_async or self._in_threads):
            self._timed = Timed(call, function.name, function.timeout, self._stuck)
            call = self._timed.call
        self._call = _read(call) if self._in_threads else call

    def begun(
        self, rows: Iterator[Arguments], numbers: Sequence[int], tolerant: bool
    ) -> tuple[Iterator[Arguments], Callable[..., Any]]:
        """The arguments of the rows, and what gives the result for each, asked in order.

        `numbers` are the rows' in the task's input. Not `tolerant`, the first exception in the
        order of the rows ends the calls.
        """
        self.width = 1
        if self._size is None and not self._function.is_async and not self._in_threads:
            if self._timed is not None:
                self._timed.begin(zip(numbers, numbers, strict=True))
            return rows, tried(self._call) if self._safe else self._call
        given = list(rows)
        results = iter(self._results(given, numbers, tolerant or self._safe))

        def result(*_: Any) -> Any:
            found = next(results)
            if isinstance(found, _Failed):
                self.width = found.rows
                raise found.error
            return found

        return iter(given), tried(result) if self._safe else result

    def calls(self, results: int) -> int:
        """How many calls were made for so many results since this was last asked."""
        made, self._made = self._made, 0
        return made or results

    def _results(
        self, given: Sequence[Arguments], numbers: Sequence[int], tolerant: bool
    ) -> list[Any]:
        """The results by row, a `_Failed` where there is none; they may end with the first."""

        def ends(error: BaseException) -> bool:
            return (
                not tolerant or not isinstance(error, Exception) or isinstance(error, MemoryError)
            )

        size = self._size
        if size is None:
            calls = [_Call(arguments, at, 1) for at, arguments in enumerate(given)]
            found = self._make(calls, numbers, ends)
            return [_Failed(r.error, 1) if isinstance(r, Raised) else r for r in found]
        calls = [
            _Call((given[at : at + size],), at, len(given[at : at + size]))
            for at in range(0, len(given), size)
        ]
        by_row: list[Any] = []
        for call, result in zip(calls, self._make(calls, numbers, ends), strict=False):
            if not isinstance(result, Raised):
                by_row += result
            elif ends(result.error):
                by_row.append(_Failed(result.error, call.rows))
            elif call.rows == 1 or self._function.volatile:
                by_row += [_Failed(result.error, 1)] * call.rows
            else:
                by_row += self._alone(call, numbers, ends)
        return by_row

    def _alone(self, failed: _Call, numbers: Sequence[int], ends: Ends) -> list[Any]:
        """The rows of a call that failed, each in a call of its own: only the bad ones fail."""
        (rows,) = failed.arguments
        calls = [_Call(([row],), failed.first + i, 1) for i, row in enumerate(rows)]
        found = self._make(calls, numbers, ends)
        return [_Failed(r.error, 1) if isinstance(r, Raised) else r[0] for r in found]

    def _make(self, calls: Sequence[_Call], numbers: Sequence[int], ends: Ends) -> list[Any]:
        function = self._function
        spans = [(numbers[c.first], numbers[c.first + c.rows - 1]) for c in calls]
        pulse = None
        refused = {}
        if self._timed is not None:
            self._timed.begin(spans)
        elif function.timeout is not None:
            pulse = Pulse(function.name, function.timeout, spans)
            late = Raised(took_too_long(function.timeout))
            refused = {at: late for at, span in enumerate(spans) if span in self._stuck}
        results = Results((c.arguments for c in calls), ends, refused)
        self._run(results, pulse)
        self._made += len(results.found)
        return results.taken()

    def _run(self, results: Results, pulse: Pulse | None) -> None:
        function = self._function
        if function.is_async:
            from zql.execution import async_calls

            most = function.concurrency or DEFAULT_CONCURRENCY
            most = 1 if ONE_BY_ONE in self._stuck else most
            async_calls.call_all(self._call, results, most, pulse)
        elif self._in_threads:
            from zql.execution import thread_calls

            most = 1 if ONE_BY_ONE in self._stuck else function.concurrency or 1
            thread_calls.call_all(self._call, results, most, pulse)
        else:
            _one_by_one(self._call, results)


class _Failed(NamedTuple):
    """What a call on so many rows raised."""

    error: BaseException
    rows: int


def _one_by_one(call: Callable[..., Any], results: Results) -> None:
    while (begun := results.begin()) is not None:
        at, arguments = begun
        try:
            result = call(*arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised when the row's turn comes
            result = Raised(error)
        results.put(at, result)


def tried(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function as TRY calls it: None in place of an exception."""

    def attempt(*args: Any) -> Any:
        try:
            return call(*args)
        except Exception:  # noqa: BLE001 - TRY asks for that
            return None

    return attempt


def _checked(call: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """A function of rows whose results are lists of the right length."""

    def make(rows: Sequence[Arguments]) -> list[Any]:
        return listed(call(rows), len(rows))

    async def make_async(rows: Sequence[Arguments]) -> list[Any]:
        from zql.execution.async_calls import awaited

        return listed(await awaited(call(rows)), len(rows))

    return make_async if is_async else make


def _read(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose iterators are read where it is called."""

    def make(*args: Any) -> Any:
        found = call(*args)
        return list(found) if hasattr(found, "__next__") else found

    return make
