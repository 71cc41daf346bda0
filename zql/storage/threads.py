"""How many threads a writer packs and encodes with: as many as are allowed, one in a worker."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

_limit: list[int] = []


def limit(count: int) -> None:
    """Lets writers of this process use no more threads than this."""
    _limit[:] = [max(1, count)]


@contextmanager
def limited(count: int) -> Iterator[None]:
    """The same for writers that are made while it lasts."""
    before = list(_limit)
    limit(count)
    try:
        yield
    finally:
        _limit[:] = before


def count() -> int:
    """The number of threads for one writer."""
    if _limit:
        return _limit[0]
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


class Threads:
    """Makes calls in the background; with one thread at once, which holds the least in memory."""

    def __init__(self) -> None:
        self.count = count()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, function: Callable[..., T], *args: object) -> Future[T]:
        """The call's result, perhaps later."""
        if self.count == 1:
            done: Future[T] = Future()
            done.set_result(function(*args))
            return done
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        return self._pool.submit(function, *args)

    def waiting(self, futures: int) -> bool:
        """Whether so many results are more than should be held."""
        return futures > (0 if self.count == 1 else self.count)

    def in_order(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """The results for all items, in their order; some are made ahead in the background."""
        ahead: deque[Future[T]] = deque()
        for item in items:
            ahead.append(self.submit(function, item))
            if self.waiting(len(ahead)):
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def close(self) -> None:
        """Ends the threads; what has not begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
