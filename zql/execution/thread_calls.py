"""Plain functions called in several threads: for those that wait, for a server say."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from zql.execution.call_timeout import Pulse, TimeLimit
from zql.execution.refused import took_too_long
from zql.execution.together import Raised, Results

_POLL_SECONDS = 0.05


class _Threads:
    """Threads that live as long as the process, so that what they keep for themselves does too."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def start(self, work: Callable[[], None]) -> None:
        """Lets a thread that has nothing to do, or a new one, do it."""
        with self._lock:
            self._idle -= 1
            if self._idle < 0:
                self._idle += 1
                threading.Thread(target=self._serve, name="zql-call", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        with suppress(TimeLimit):
            while True:
                work = self._work.get()
                work()
                del work
                with self._lock:
                    self._idle += 1


_threads = _Threads()


def call_all(
    call: Callable[..., Any], results: Results, at_a_time: int, pulse: Pulse | None = None
) -> None:
    """Makes the calls of which the results are wanted; `pulse` has their time limit.

    At most so many are under way at a time. After the first that ends them all no other begins, and
    those under way are waited for.
    """
    _Lanes(call, results, pulse).run(at_a_time)


class _Lanes:
    """Threads that make one call after the other."""

    def __init__(self, call: Callable[..., Any], results: Results, pulse: Pulse | None) -> None:
        self._call = call
        self._results = results
        self._pulse = pulse
        self._seconds = pulse.seconds if pulse is not None else None
        self._lock = threading.Lock()
        self._began: dict[int, tuple[int, float]] = {}
        """By call the thread that makes it, and since when."""
        self._running = 0
        self._done = threading.Event()
        self._stopped = False

    def run(self, count: int) -> None:
        self._running = count
        if self._pulse is not None:
            self._pulse.beat(())
        for _ in range(count):
            _threads.start(self._lane)
        try:
            while not self._done.wait(_POLL_SECONDS if self._seconds else None):
                self._look()
        finally:
            self._stopped = True
            if self._pulse is not None:
                self._pulse.end()

    def _lane(self) -> None:
        me = threading.get_ident()
        while True:
            with self._lock:
                begun = None if self._stopped else self._results.begin()
                if begun is None:
                    self._running -= 1
                    if not self._running:
                        self._done.set()
                    return
                at, arguments = begun
                self._began[at] = me, time.monotonic()
                if self._pulse is not None:
                    self._pulse.note(self._began)
            try:
                result = self._call(*arguments)
            except BaseException as error:  # noqa: BLE001 - user code; the caller tells them apart
                result = Raised(error)
            with self._lock:
                _, began = self._began.get(at, (0, 0.0))
                if self._seconds is not None and time.monotonic() - began >= self._seconds:
                    result = Raised(took_too_long(self._seconds))
                if self._began.pop(at, None) is None:
                    raise TimeLimit  # it was given up, and another thread is in its place
                self._results.put(at, result)

    def _look(self) -> None:
        """Gives up the calls that take too long, and says that all is well."""
        if self._seconds is None:
            return
        with self._lock:
            now = time.monotonic()
            late = [at for at, (_, began) in self._began.items() if now - began >= self._seconds]
            for at in late:
                thread, _ = self._began.pop(at)
                refused = took_too_long(self._seconds, _frames_of(thread))
                self._results.put(at, Raised(refused))
                # It ends at its next step in Python; a call that waits goes on waiting, unheard.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(TimeLimit)
                )
            if self._pulse is not None:
                self._pulse.beat(self._began)
        for _ in late:
            _threads.start(self._lane)


def _frames_of(thread: int) -> tuple[str, ...]:
    """The user's frames of a thread, as a traceback has them."""
    from zql.execution import traces

    frame = sys._current_frames().get(thread)  # noqa: SLF001 - its one way
    if frame is None:
        return ()
    return traces.stack_frames(frame)
