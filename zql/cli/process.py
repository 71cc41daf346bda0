"""The process around the command line: streams, signals, and what no one else has caught."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType, ModuleType

_SIGINT = 2
_AGAIN = 0.02

GRACE = 3.0
"""Seconds that an interrupted run has for tidying up before the process ends by force."""


def _open_missing_streams() -> None:
    """Gives the process a sink for a stream that its parent has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


class Stopped(KeyboardInterrupt):
    """SIGTERM or SIGHUP: everything that heeds Ctrl-C heeds it too."""


class _Signals:
    """Ctrl-C, SIGTERM and SIGHUP end a run, tidy it up, and give the exit code that shells expect.

    A run that does not end within `GRACE` seconds is ended by force.
    """

    def __init__(self) -> None:
        self.received: int | None = None

    def listen(self) -> None:
        """Takes the signals over, except those that the parent wants ignored (`nohup`)."""
        import signal

        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
        told = sys.unraisablehook

        def hear(lost: sys.UnraisableHookArgs) -> None:
            # Python drops an exception that it meets while it tidies up after an object.
            if isinstance(lost.exc_value, KeyboardInterrupt) and self.received is not None:
                self._again(self.received)
            else:
                told(lost)

        sys.unraisablehook = hear

    def _again(self, number: int) -> None:
        import threading

        _later(threading, _AGAIN, lambda: os.kill(os.getpid(), number))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        import threading

        if _is_importing(frame):
            # Python swallows exceptions in the midst of an import: come again in a moment.
            self._again(number)
            return
        if self.received is None:
            self.received = number
            _later(threading, GRACE, lambda: os._exit(128 + number))
        raise KeyboardInterrupt if number == _SIGINT else Stopped

    def exit_code(self, code: int) -> int:
        """The code of the signal for a run that it ended."""
        interrupted = code == 128 + _SIGINT and self.received is not None
        return 128 + (self.received or 0) if interrupted else code


def _later(threading: ModuleType, seconds: float, action: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _discard_stdout() -> None:
    """What is still buffered goes nowhere, so that the interpreter's last flush cannot fail."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
    except (OSError, ValueError):
        pass


def _last_word(error: Exception, *, verbose: bool) -> int:
    from zql.display.screen import OutputClosed, complain, explain_exception

    if isinstance(error, OutputClosed):
        _discard_stdout()
        return 0
    complain(explain_exception(error, verbose=verbose))
    return 1


def guarded(call: Callable[[], int], *, verbose: bool = False) -> int:
    """Calls, and turns whatever comes out into an exit code."""
    _open_missing_streams()
    signals = _Signals()
    signals.listen()
    try:
        code = signals.exit_code(call())
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return signals.exit_code(130)
    except Exception as error:  # noqa: BLE001 - the last place that can say something about it
        return _last_word(error, verbose=verbose)
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
    return code
