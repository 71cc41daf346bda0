"""What a function that has a parameter `ctx` is told of the task that calls it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any


class Counter:
    """A sum over all calls of a run, whatever the number of workers."""

    def __init__(self, sums: dict[str, int], name: str) -> None:
        self._sums = sums
        self._name = name

    def add(self, number: int = 1) -> None:
        """Adds a number."""
        self._sums[self._name] += number


class Context:
    """The argument `ctx` of a Python function; the same one for all calls of a task.

    `task` is the number of the task in its stage, `path` the file that it reads, or None.
    """

    def __init__(
        self,
        task: int = 0,
        path: str | None = None,
        keys: Mapping[str, str] | None = None,
        objects: Mapping[str, Any] | None = None,
    ) -> None:
        """`keys` are those of the shared `objects` by their names."""
        self.task = task
        self.path = path
        self.logger = logging.getLogger("zql.task")
        self.sums: dict[str, int] = {}
        self._keys = keys or {}
        self._objects = objects or {}

    def counter(self, name: str) -> Counter:
        """A counter of the run's report, under a name of the script's own."""
        if name in RESERVED:
            raise ValueError(f"{name!r} is a counter of every run: take another name")
        self.sums.setdefault(name, 0)
        return Counter(self.sums, name)

    def shared(self, name: str) -> Any:
        """The shared object that the script knows as `$name`."""
        if name not in self._keys:
            known = ", ".join(f"${n}" for n in self._keys) or "none"
            raise LookupError(f"there is no shared object ${name} (there are: {known})")
        return self._objects[self._keys[name]]


RESERVED = frozenset(
    [
        "records_in",
        "records_out",
        "records_written",
        "bytes_written",
        "records_kept",
        "tasks",
        "retries",
        "python_calls",
        "rows_rejected",
        "rows_dropped",
    ]
)
"""Names of counters that runs have by themselves."""
