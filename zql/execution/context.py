"""What a function that has a parameter `ctx` is told of the task that calls it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from zql.execution.printouts import TaskLogger
from zql.execution.shard import Shard, task_name
from zql.execution.tallies import SUFFIXES, Number, Tally, checked

if TYPE_CHECKING:
    from pathlib import Path


class Counter:
    """Figures over all calls of a run, whatever the number of workers; one for each method used.

    Each takes an int or a float, and raises `TypeError` or `ValueError` for what is no finite one.
    """

    __slots__ = ("_lock", "_name", "_tallies")

    def __init__(self, tallies: dict[str, Tally], name: str) -> None:
        self._tallies = tallies
        self._name = name
        self._lock = Lock()  # a function may start threads of its own

    def add(self, number: Number = 1) -> None:
        """Adds to the sum, which the report has under the counter's name."""
        self._take("sum", number)

    def min(self, number: Number) -> None:
        """Notes a number of which the report has the least, as `name.min`."""
        self._take("min", number)

    def max(self, number: Number) -> None:
        """Notes a number of which the report has the greatest, as `name.max`."""
        self._take("max", number)

    def mean(self, number: Number) -> None:
        """Notes a number of which the report has the mean over all calls, as `name.mean`."""
        self._take("mean", number)

    def _take(self, kind: str, number: Number) -> None:
        number = checked(number)
        name = self._name + SUFFIXES[kind]
        with self._lock:
            tally = self._tallies.get(name)
            if tally is None:
                self._tallies[name] = Tally(kind, number)
            else:
                tally.take(number)


class Context:
    """The argument `ctx` of a Python function; the same one for all calls of a task.

    `shard` says which part of the rows the task works on; `task` is its number, `path` the file
    that it reads, or None. `logger` is a logger of `logging`, whose records come out in the process
    that runs the script.
    """

    def __init__(
        self,
        shard: Shard | None = None,
        keys: Mapping[str, str] | None = None,
        objects: Mapping[str, Any] | None = None,
        folder: str = "",
        label: str = "",
    ) -> None:
        """`keys` are those of the shared `objects` by their names; scratch goes into `folder`.

        `label` names the task when it is no ordinary one.
        """
        self.shard = shard or Shard()
        self.logger = TaskLogger(label or task_name(self.shard))
        self.tallies: dict[str, Tally] = {}
        self._counters: dict[str, Counter] = {}
        self._keys = keys or {}
        self._objects = objects or {}
        self._folder = folder
        self._scratch: Path | None = None

    @property
    def task(self) -> int:
        """The number of the task in its stage, from 0."""
        return self.shard.index

    @property
    def path(self) -> str | None:
        """The file that the task reads; None when it reads what an earlier stage left."""
        return self.shard.path

    def counter(self, name: str) -> Counter:
        """A counter of the run's report, under a name of the script's own.

        Raises `ValueError` for a name that another figure has, or might have.
        """
        found = self._counters.get(name)
        if found is None:
            if not isinstance(name, str):
                raise TypeError(f"a counter has a name of text, not {name!r}")
            if name in RESERVED:
                raise ValueError(f"{name!r} is a counter of every run: take another name")
            if name.endswith(_ENDS):
                raise ValueError(
                    f"{name!r} ends as figures of other counters do: take another name"
                )
            found = self._counters.setdefault(name, Counter(self.tallies, name))
        return found

    def shared(self, name: str) -> Any:
        """The shared object that the script knows as `$name`. Raises `LookupError`."""
        if name not in self._keys:
            raise LookupError(f"there is no shared object ${name}: DECLARE {name} SHARED makes one")
        return self._objects[self._keys[name]]

    @property
    def scratch(self) -> Path:
        """An empty folder of this task alone, made now; it is gone when the task has ended."""
        if self._scratch is None:
            import tempfile
            from pathlib import Path

            name = tempfile.mkdtemp(prefix=f"task-{self.task}-", dir=self._folder or None)
            self._scratch = Path(os.path.abspath(name))
        return self._scratch

    def close(self) -> None:
        """Removes the scratch folder."""
        folder, self._scratch = self._scratch, None
        if folder is not None:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


_ENDS = tuple(suffix for suffix in SUFFIXES.values() if suffix)

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
