"""What code of the user's prints: it is no part of the results."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_lock = threading.Lock()
_inside = 0
_stdout: TextIO | None = None


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Sends what is printed meanwhile to the standard error.

    A reader is at work in a thread of DuckDB's while functions are called in another: the first to
    come changes `sys.stdout`, the last to go puts it back.
    """
    global _inside, _stdout  # noqa: PLW0603 - as `sys.stdout` is
    with _lock:
        if not _inside:
            _stdout, sys.stdout = sys.stdout, sys.stderr
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _stdout is not None:
                sys.stdout, _stdout = _stdout, None
