"""Calls made in a thread, a few behind who asks: rows are made while others are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Behind:
    """Makes calls one after the other, in their order. A context manager: leaving it waits for all.

    What a call raises comes at a later one, or at the end; those behind it are dropped.
    """

    def __init__(self, most: int = 4) -> None:
        """So many calls wait at `most`."""
        self._most = most
        self._thread = ThreadPoolExecutor(1, "zql-behind")
        self._waiting: deque[Future[None]] = deque()

    def do(self, function: Callable[..., None], *args: object) -> None:
        """Lets the thread make a call."""
        self._waiting.append(self._thread.submit(function, *args))
        if len(self._waiting) > self._most:
            self._waiting.popleft().result()

    def __enter__(self) -> Behind:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            while self._waiting and kind is None:
                self._waiting.popleft().result()
        finally:
            self._thread.shutdown(wait=True, cancel_futures=True)
