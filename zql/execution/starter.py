"""A thread that starts things in the background and then stays.

Workers must be started on a thread that lives as long as they: Linux ends a process that asked for
it together with the thread that started it. And on one that Ctrl-C does not reach: processes take
over which signals are blocked, and the workers' end is their coordinator's business.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_POLL_SECONDS = 0.05


class Starter:
    """Makes calls of one function on a thread of its own, one at a time."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._requests: SimpleQueue[_Start | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending: _Start | None = None

    def start(self) -> None:
        """Begins a call, unless one has begun whose result nobody took."""
        if self._pending is not None:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="zql-pool", daemon=True)
            thread.start()  # Ctrl-C may come before it has: nobody can wait for it then
            self._thread = thread
        self._pending = _Start()
        self._requests.put(self._pending)

    def result(self) -> Any:
        """The result of the call that was begun; begins one if there is none. May raise."""
        self.start()
        pending = self._pending
        if pending is None:  # pragma: no cover - start() made it
            raise RuntimeError
        while not pending.done.wait(_POLL_SECONDS):
            pass
        self._pending = None
        if pending.error is not None:
            raise pending.error
        return pending.value

    @property
    def pending(self) -> bool:
        """Whether a call has begun whose result nobody took."""
        return self._pending is not None

    def close(self) -> None:
        """Lets the thread end."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread = None

    def _serve(self) -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while (request := self._requests.get()) is not None:
            try:
                request.value = self._function()
            except BaseException as error:  # noqa: BLE001 - raised again by `result`
                request.error = error
            request.done.set()


class _Start:
    __slots__ = ("done", "error", "value")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
