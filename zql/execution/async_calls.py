"""Async functions: called on one event loop, which lives as long as the process.

So clients that a function makes once stay connected from call to call. The loop has a thread of its
own, beside the one that the calls are waited for in: it may run where another loop does (a
notebook), and goes on between the calls.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from zql.execution.call_timeout import Pulse, too_late
from zql.execution.together import Arguments, Raised, Results

T = TypeVar("T")

_BEAT_SECONDS = 0.2
_STOP_SECONDS = 5.0
_CANCEL_SECONDS = 1.0
_MOST_AHEAD = 256


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="zql-async", daemon=True)
        self._thread.start()

    def run(self, made: Coroutine[Any, Any, T]) -> T:
        """Waits for a coroutine; when that is interrupted, it is cancelled first."""
        ended = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_ending(made, ended), self.loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait(_CANCEL_SECONDS)
            raise

    def close(self) -> None:
        """Cancels what is still under way and ends the thread."""
        if self.pid == os.getpid() and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_STOP_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.wait(left, timeout=1.0))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()


async def _ending(made: Coroutine[Any, Any, T], ended: threading.Event) -> T:
    try:
        return await made
    finally:
        ended.set()


_loops: list[_Loop] = []


def _loop() -> _Loop:
    """The loop of this process."""
    if not _loops or _loops[-1].pid != os.getpid():
        made = _Loop()
        atexit.register(made.close)
        _loops[:] = [made]
    return _loops[-1]


async def awaited(found: Any) -> Any:
    """What a call of an async function gives in the end; a list of what an async iterator does."""
    if inspect.isawaitable(found):
        found = await found
    if hasattr(found, "__aiter__"):
        return [item async for item in found]
    return found


def call_all(
    call: Callable[..., Any], results: Results, at_a_time: int, pulse: Pulse | None = None
) -> None:
    """Makes the calls of which the results are wanted; `pulse` has their time limit.

    At most so many are under way at a time. With the first that ends them all, those behind it are
    cancelled and those before it waited for.
    """
    _loop().run(_Lanes(call, results, pulse).run(at_a_time))


class _Lanes:
    """Tasks that make one call after the other."""

    def __init__(self, call: Callable[..., Any], results: Results, pulse: Pulse | None) -> None:
        self._call = call
        self._results = results
        self._pulse = pulse
        self._seconds = pulse.seconds if pulse is not None else None
        self._began: dict[int, float] = {}
        self._at: dict[asyncio.Task[None], int] = {}
        self._dropped: set[asyncio.Task[None]] = set()

    async def run(self, count: int) -> None:
        if self._pulse is not None:
            self._pulse.beat(())
        lanes = {asyncio.create_task(self._lane())}
        beats = asyncio.create_task(self._beat()) if self._pulse is not None else None
        try:
            await self._run(lanes, count)
        finally:
            rest = [task for task in (*lanes, beats) if task is not None and not task.done()]
            for task in rest:
                task.cancel()
            if rest:
                await asyncio.wait(rest, timeout=_STOP_SECONDS)
            if self._pulse is not None:
                self._pulse.end()

    async def _run(self, lanes: set[asyncio.Task[None]], count: int) -> None:
        while len(lanes) < count:
            lanes.add(asyncio.create_task(self._lane()))
        results, pending = self._results, set(lanes)
        while pending:
            needless = all(map(results.needless, results.open))
            done, pending = await asyncio.wait(
                pending,
                timeout=_STOP_SECONDS if needless else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if needless and not done:
                return  # what does not let itself be cancelled

    async def _lane(self) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        while (begun := self._results.begin()) is not None:
            at, arguments = begun
            self._at[task] = at
            self._began[at] = asyncio.get_running_loop().time()
            if self._pulse is not None:
                self._pulse.note(self._began)
            try:
                result = await self._one(arguments)
            except BaseException as error:
                if task in self._dropped:
                    self._results.put(at, None)
                    return
                if isinstance(error, asyncio.CancelledError) and task.cancelling():
                    raise
                result = Raised(error)
            finally:
                del self._began[at]
            self._results.put(at, result)
            if self._results.end is not None:
                self._drop()

    async def _one(self, arguments: Arguments) -> Any:
        if self._seconds is None:
            return await awaited(self._call(*arguments))
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await awaited(self._call(*arguments))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise too_late(self._seconds, error.__cause__) from None

    def _drop(self) -> None:
        """Cancels the calls behind the one that has ended all."""
        for task, at in self._at.items():
            if self._results.needless(at) and at in self._results.open:
                self._dropped.add(task)
                task.cancel()

    async def _beat(self) -> None:
        """Says that all is well, unless a call goes on that has been told to end."""
        while self._pulse is not None and self._seconds is not None:
            now = asyncio.get_running_loop().time()
            if all(now - began < self._seconds + _BEAT_SECONDS for began in self._began.values()):
                self._pulse.beat(self._began)
            await asyncio.sleep(min(_BEAT_SECONDS, self._seconds / 4))


def waited(call: Callable[..., Any]) -> Callable[..., Any]:
    """An async function as a plain one; an async iterator as a plain one."""

    def make(*args: Any, **keywords: Any) -> Any:
        found = call(*args, **keywords)
        if inspect.isawaitable(found):
            found = _loop().run(_result(found))
        return _items(found) if hasattr(found, "__aiter__") else found

    return make


async def _result(found: Any) -> Any:
    return await found


def _items(found: Any) -> Iterator[Any]:
    """What an async iterator gives; it runs ahead a little, as its items are fetched together."""
    items = found.__aiter__()
    try:
        while True:
            some, error = _loop().run(_some(items))
            yield from some
            if isinstance(error, StopAsyncIteration):
                return
            if error is not None:
                raise error
    finally:
        if hasattr(items, "aclose"):
            _loop().run(items.aclose())


async def _some(items: Any) -> tuple[list[Any], BaseException | None]:
    found: list[Any] = []
    began = asyncio.get_running_loop().time()
    while len(found) < _MOST_AHEAD and asyncio.get_running_loop().time() - began < 0.01:
        try:
            found.append(await items.__anext__())
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised behind the items before it
            return found, error
    return found, None
