"""The process around the command line: streams, signals, and what no one else has caught."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

GRACE = 3.0
"""Seconds that an interrupted run has for tidying up before the process ends by force."""


def _open_missing_streams() -> None:
    """Gives the process a sink for a stream that its parent has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _handle_signals() -> None:
    """Ctrl-C ends in time even when something does not listen; SIGTERM and SIGHUP tidy up."""
    import signal
    import threading

    def stop_soon(code: int) -> None:
        timer = threading.Timer(GRACE, os._exit, (code,))
        timer.daemon = True
        timer.start()

    def interrupt(number: int, frame: Any) -> None:
        stop_soon(130)
        signal.default_int_handler(number, frame)

    def terminate(number: int, _: Any) -> None:
        stop_soon(128 + number)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGINT, interrupt)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
            signal.signal(getattr(signal, name), terminate)


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
    _handle_signals()
    try:
        code = call()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except Exception as error:  # noqa: BLE001 - the last place that can say something about it
        return _last_word(error, verbose=verbose)
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
    return code
