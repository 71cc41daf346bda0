"""Calls that are made several at a time: on an event loop, or in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Arguments = tuple[Any, ...]

DEFAULT_CONCURRENCY = 16
"""How many calls of an async function are under way at a time in a process."""


class Raised(NamedTuple):
    """In the place of a result: what the call raised."""

    error: BaseException


Ends = Callable[[BaseException], bool]
"""Whether an exception ends the calls, or only its own."""


class Results:
    """The results of calls that begin in order and end in any; known up to the first that ends all.

    Its methods are called by one thread at a time.
    """

    def __init__(
        self, calls: Iterator[Arguments], ends: Ends, refused: Mapping[int, Raised] | None = None
    ) -> None:
        """Calls that are `refused` are not made: by their numbers what stands for their results."""
        self.found: list[Any] = []
        self.open: set[int] = set()
        self.end: int | None = None
        """The first call whose exception ends the calls, so far."""
        self._refused = refused or {}
        self._calls = calls
        self._ends = ends

    def begin(self) -> tuple[int, Arguments] | None:
        """The next call and its number; None when there is none to be made any more."""
        while self.end is None:
            arguments = next(self._calls, None)
            if arguments is None:
                return None
            at = len(self.found)
            self.found.append(None)
            if at in self._refused:
                self.put(at, self._refused[at])
                continue
            self.open.add(at)
            return at, arguments
        return None

    def put(self, at: int, result: Any) -> None:
        """The result of a call, or what it has `Raised`."""
        self.open.discard(at)
        self.found[at] = result
        if isinstance(result, Raised) and self._ends(result.error):
            self.end = at if self.end is None else min(self.end, at)

    def needless(self, at: int) -> bool:
        """Whether a call stands behind one that has ended all."""
        return self.end is not None and at > self.end

    def taken(self) -> list[Any]:
        """The results in order, to the first that ended the calls."""
        return self.found if self.end is None else self.found[: self.end + 1]
