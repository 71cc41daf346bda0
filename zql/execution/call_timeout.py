"""Calls that take too long: noted while they last, and ended by the process that watches.

A worker writes into a few bytes of shared memory when its call began and how long it may take. The
coordinator looks there several times a second. It sends a signal to a worker whose call is overdue:
its handler raises `TimeLimit` in the main thread, where Python, `time.sleep`, locks and regular
expressions can be interrupted. What does not end by that, a loop in C, is ended with its process.

So a call costs two notes of the time, and nothing but the call runs in the worker. This needs a
worker: functions with a time limit are never called in the process of the caller.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from zlib import crc32

from zql.execution.refused import RefusedCallError, took_too_long

SIGNAL, DUMP = signal.SIGUSR2, signal.SIGUSR1
"""What ends a call, and what lets a process write down where it is."""
_BEGAN, _LIMIT, _INTERRUPTED, _FUNCTION, _FIRST, _LAST, _JOB, _TOP, _END = range(9)
_NUMBERS = 9
_NO_ROW = -1
_AGAIN_SECONDS = 1.0
_KILL_SECONDS = 2.0
"""How long after its limit a call is told again, and how long after it its process is ended."""


class TimeLimit(BaseException):
    """Raised inside of a call that is overdue; no `except Exception` keeps it from ending."""


class _Cells:
    """The notes of this process; until `share` in memory of its own, which nobody watches."""

    def __init__(self) -> None:
        self.numbers = memoryview(bytearray(8 * _NUMBERS)).cast("q")
        self.owner: object = None
        """Whose limit and name stand there."""


_cells = _Cells()


def begin_job() -> None:
    """The process begins with a job, of which it is at no row yet."""
    numbers = _cells.numbers
    numbers[_TOP] = numbers[_END] = _NO_ROW
    numbers[_JOB] = time.monotonic_ns()


def end_job() -> None:
    """The job is done."""
    _cells.numbers[_JOB] = 0


def note_rows(first: int, last: int) -> None:
    """From now on the process is at these rows of its task's input."""
    numbers = _cells.numbers
    numbers[_TOP], numbers[_END] = first, last


def share(folder: str) -> None:
    """Lets the process that made `folder` watch the calls of this one, a new worker."""
    path = _path(folder, os.getpid())
    with open(path, "w+b") as file:
        file.write(bytes(8 * _NUMBERS))
        file.flush()
        _cells.numbers = memoryview(mmap.mmap(file.fileno(), 8 * _NUMBERS)).cast("q")
    signal.signal(SIGNAL, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    numbers = _cells.numbers
    if numbers[_INTERRUPTED] and overdue(numbers[_BEGAN], numbers[_LIMIT]):
        raise TimeLimit


def overdue(began: int, limit: int, grace: float = 0.0) -> bool:
    """Whether a call that began then (0: there is none) has used up its nanoseconds."""
    return began != 0 and time.monotonic_ns() - began >= limit + grace * 1e9


Span = tuple[int, int]
"""The first and the last row of the task's input that a call is about."""
_NOWHERE = (_NO_ROW, _NO_ROW)
ONE_BY_ONE: Span = _NOWHERE
"""Among the calls that are stuck: it is not known which is, so they are made one by one."""


class Timed:
    """A function whose calls may take so many seconds, made one by one in the main thread.

    Calls that are `stuck` are those at which an earlier worker had to be ended: they fail at once.
    """

    def __init__(
        self, call: Callable[..., Any], name: str, seconds: float, stuck: Iterable[Span] = ()
    ) -> None:
        self._seconds = seconds
        self._limit = round(seconds * 1e9)
        self._function = crc32(name.encode())
        self._stuck = frozenset(stuck)
        self._spans: Iterator[Span] = iter(())
        self.call = self._limited(call)

    def begin(self, spans: Iterable[Span]) -> None:
        """Says which rows of the task's input the next calls are about."""
        self._spans = iter(spans)

    def _limited(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its limit. What stands here is done for each row: it is kept short."""
        cells, numbers, clock = _cells, _cells.numbers, time.monotonic_ns
        stuck, seconds, nanoseconds = self._stuck, self._seconds, self._limit

        def limited(*args: Any, **keywords: Any) -> Any:
            span = next(self._spans, _NOWHERE)
            if stuck and span in stuck:
                raise took_too_long(seconds)
            if cells.owner is not self:
                self._own()
            try:
                try:
                    numbers[_FIRST], numbers[_LAST] = span
                    numbers[_BEGAN] = clock()
                    found = call(*args, **keywords)
                finally:
                    spent = clock() - numbers[_BEGAN]
                    numbers[_BEGAN] = 0
            except TimeLimit as limit:
                numbers[_BEGAN] = 0
                raise too_late(seconds, limit) from None
            if spent >= nanoseconds:  # before anybody looked
                raise took_too_long(seconds)
            return self._items(found, span, spent) if hasattr(found, "__next__") else found

        return limited

    def _own(self) -> None:
        """Makes the notes those of this function."""
        numbers = _cells.numbers
        numbers[_LIMIT], numbers[_FUNCTION], numbers[_INTERRUPTED] = self._limit, self._function, 1
        _cells.owner = self

    def _items(self, items: Iterator[Any], span: Span, spent: int) -> Iterator[Any]:
        """An iterator with the time for each of its steps added to that of the call."""
        numbers = _cells.numbers
        while True:
            self._own()
            try:
                try:
                    numbers[_FIRST], numbers[_LAST] = span
                    numbers[_BEGAN] = time.monotonic_ns() - spent
                    item = next(items)
                finally:
                    spent = time.monotonic_ns() - numbers[_BEGAN]
                    numbers[_BEGAN] = 0
            except StopIteration:
                return
            except TimeLimit as limit:
                numbers[_BEGAN] = 0
                raise too_late(self._seconds, limit) from None
            if spent >= self._limit:
                raise took_too_long(self._seconds)
            yield item


def too_late(seconds: float, limit: BaseException | None = None) -> RefusedCallError:
    """The failure of a call, with the frames in which it was."""
    from zql.execution import traces

    return took_too_long(seconds, traces.frames(limit) if limit is not None else ())


@contextmanager
def waiting() -> Iterator[None]:
    """A time that does not count: a call waits for its rows."""
    numbers = _cells.numbers
    began, numbers[_BEGAN] = numbers[_BEGAN], 0
    paused = time.monotonic_ns()
    try:
        yield
    finally:
        if began:
            numbers[_BEGAN] = began + time.monotonic_ns() - paused


class Pulse:
    """Calls in other threads than the main one, which look after their limits themselves.

    As long as `beat` is called the process is left alone; a call that stops everything else, or
    that cannot be ended, keeps it from being called.
    """

    def __init__(self, name: str, seconds: float, spans: Sequence[Span]) -> None:
        """A limit for each of several calls, and what rows each is about."""
        self.seconds = seconds
        self._limit = round(seconds * 1e9)
        self._function = crc32(name.encode())
        self._spans = spans

    def beat(self, calls: Collection[int]) -> None:
        """All is well; these are the numbers of the calls that are under way."""
        numbers = _cells.numbers
        self.note(calls)
        _cells.owner = None
        numbers[_INTERRUPTED] = 0
        numbers[_LIMIT], numbers[_FUNCTION] = self._limit, self._function
        numbers[_BEGAN] = time.monotonic_ns()

    def note(self, calls: Collection[int]) -> None:
        """These calls are under way, whether all is well or not."""
        numbers = _cells.numbers
        numbers[_FIRST], numbers[_LAST] = _NOWHERE
        if calls:
            numbers[_FIRST], numbers[_LAST] = self._spans[min(calls)][0], self._spans[max(calls)][1]

    def end(self) -> None:
        """No call is under way."""
        _cells.numbers[_BEGAN] = 0


class Overdue(NamedTuple):
    """A call at which a process had to be ended: of which function, and on what rows of the task.

    The rows are `first` to `last`; None when it is not known. They are those of one call when it is
    `exact`, else of all that were under way.
    """

    function: int
    seconds: float
    first: int | None
    last: int | None
    exact: bool = False

    @property
    def span(self) -> Span | None:
        """The rows, when they are known."""
        return None if self.first is None or self.last is None else (self.first, self.last)

    def is_of(self, name: str) -> bool:
        """Whether it was a call of the function of that name."""
        return crc32(name.encode()) == self.function


class Watch:
    """Looks after the calls of the workers of a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._cells: dict[int, memoryview] = {}
        self._told: dict[int, tuple[int, float]] = {}

    def look(self, pids: Iterable[int]) -> list[tuple[int, Overdue]]:
        """Signals to those with a call that is overdue; gives those that must be ended."""
        found = []
        for pid in pids:
            numbers = self._of(pid)
            began = numbers[_BEGAN] if numbers is not None else 0
            if numbers is None or not overdue(began, numbers[_LIMIT]):
                continue
            if overdue(began, numbers[_LIMIT], _KILL_SECONDS):
                found.append((pid, _overdue(numbers)))
            elif numbers[_INTERRUPTED]:
                self._tell(pid, began)
        return found

    def late(self, pids: Iterable[int], seconds: float) -> list[int]:
        """Those whose job has taken longer than that."""
        cells = [(pid, self._of(pid)) for pid in pids]
        return [
            pid
            for pid, numbers in cells
            if numbers is not None and overdue(numbers[_JOB], round(seconds * 1e9))
        ]

    def rows(self, pid: int) -> Span | None:
        """The rows of its task's input that a process, which may have died, is or was at."""
        numbers = self._of(pid)
        if numbers is None or not numbers[_JOB] or numbers[_TOP] == _NO_ROW:
            return None
        return numbers[_TOP], numbers[_END]

    def _tell(self, pid: int, began: int) -> None:
        call, when = self._told.get(pid, (0, 0.0))
        if call == began and time.monotonic() - when < _AGAIN_SECONDS:
            return
        self._told[pid] = (began, time.monotonic())
        with suppress(ProcessLookupError):
            os.kill(pid, SIGNAL)

    def _of(self, pid: int) -> memoryview | None:
        if pid not in self._cells:
            try:
                with open(_path(self._folder, pid), "rb") as file:
                    size = 8 * _NUMBERS
                    if os.fstat(file.fileno()).st_size < size:
                        return None
                    mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            except OSError:
                return None  # it is only about to begin
            self._cells[pid] = memoryview(mapped).cast("q")
        return self._cells[pid]


def _overdue(numbers: memoryview) -> Overdue:
    first, last = (None if numbers[at] == _NO_ROW else numbers[at] for at in (_FIRST, _LAST))
    exact = bool(numbers[_INTERRUPTED])
    return Overdue(numbers[_FUNCTION], numbers[_LIMIT] / 1e9, first, last, exact)


def _path(folder: str, pid: int) -> str:
    return os.path.join(folder, f"calls-{pid}")
