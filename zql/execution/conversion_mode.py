"""How a database makes Arrow of its types: one setting for all statements that are starting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ConversionMode:
    """Lets statements start together that want the setting alike; others wait for their turn.

    One that sorts a stream is starting until it has all of its rows. If these come from Python, and
    that from statements of their own, they start meanwhile: a lock would never be free for them.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._lossless: bool | None = None
        self._starting = 0

    @contextmanager
    def held(self, lossless: bool, change: Callable[[], object]) -> Iterator[None]:
        """While a statement starts; `change` makes the setting what it wants."""
        with self._turn:
            self._turn.wait_for(lambda: not self._starting or self._lossless is lossless)
            if self._lossless is not lossless:
                self._lossless = None  # as long as it is not known to be changed
                change()
                self._lossless = lossless
            self._starting += 1
        try:
            yield
        finally:
            with self._turn:
                self._starting -= 1
                self._turn.notify_all()
