"""Long calls off the main thread, so that Ctrl-C is heard while C code runs.

A signal reaches Python only between two of its own instructions, and only on the main thread: a
statement that runs there for a minute cannot be stopped for a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.05
_STOP_SECONDS = 5.0


class Helper:
    """One thread that makes calls for the main thread. Calls from other threads run in place."""

    def __init__(self, active: bool = True) -> None:
        """Not `active`, it makes every call in place."""
        self.active = active
        self._queue: SimpleQueue[tuple[Callable[[], Any], _Outcome] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[[], T], interrupt: Callable[[], None]) -> T:
        """The result of `function()`; on Ctrl-C calls `interrupt` and raises KeyboardInterrupt."""
        if not self.active or threading.current_thread() is not threading.main_thread():
            return function()
        self._start()
        outcome = _Outcome()
        try:
            self._queue.put((function, outcome))
            while not outcome.done.wait(_POLL_SECONDS):
                pass
        except KeyboardInterrupt:
            # The call may not run on while its connection is taken down. One that is only about
            # to begin does not hear the first word: it is told until it ends.
            for _ in range(round(_STOP_SECONDS / _POLL_SECONDS)):
                interrupt()
                if outcome.done.wait(_POLL_SECONDS):
                    break
            raise
        if outcome.error is not None:
            raise outcome.error
        return outcome.value  # type: ignore[no-any-return]

    def begin(self, function: Callable[[], Any]) -> None:
        """Makes a call that nobody waits for, before those to come; what it raises is dropped."""
        if self.active and threading.current_thread() is threading.main_thread():
            self._start()
            self._queue.put((function, _Outcome()))

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="zql-engine", daemon=True)
            thread.start()  # Ctrl-C may come before it has: nobody can wait for it then
            self._thread = thread

    def close(self) -> None:
        """Ends the thread after the calls that it has; one that is stuck is not waited for."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            if thread is not threading.current_thread():
                thread.join(_STOP_SECONDS)

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            function, outcome = item
            try:
                outcome.value = function()
            except BaseException as error:  # noqa: BLE001 - it is raised again by the caller
                outcome.error = error
            outcome.done.set()
            # Nothing of a finished call may be kept alive until the next one comes.
            del item, function, outcome


class _Outcome:
    __slots__ = ("done", "error", "value")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
