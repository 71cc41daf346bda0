"""How a run is done: processors, memory, folders. Values only; nothing here starts anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from zql.execution import machine
from zql.resources import Resources
from zql.tree import node

MIB = 1 << 20


class Secret:
    """Values that must never be printed: its repr is `***`, `reveal` gives them."""

    __slots__ = ("_value",)

    def __init__(self, value: Mapping[str, Any] | None = None) -> None:
        self._value = dict(value or {})

    def reveal(self) -> dict[str, Any]:
        """The values themselves, for the library that needs them."""
        return dict(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> tuple[type[Secret], tuple[dict[str, Any]]]:
        return (Secret, (self._value,))


@node
class Settings:
    """Settings of a run. None means: as the machine allows.

    `memory` is the budget in bytes of the coordinator and all workers together; `split_size` the
    bytes of input for one task, `file_size` those that an output file should have at least
    (`zql/execution/sizes.py` chooses what is not set); `partitions` in how many parts groups are
    made that may be; `inline_bytes` how much input a query
    without WRITE may have and still call Python in this process; `batch_rows` and
    `batch_bytes` bound what a task holds. `tries` is how often a task is started whose worker dies,
    `task_timeout` how many seconds one may take before its worker is ended. What stages ask for,
    and no setting says, is how many `tasks` they want and the `worker_threads` of DuckDB in each.
    With `resume` a run goes on from what runs before have finished, and leaves what it has when it
    ends early; `cache` is a folder in which results of stages stay between runs, up to
    `cache_size` bytes. An output with
    `partition_by` makes `max_partitions` folders at most.
    """

    workers: int | None = None
    threads: int | None = None
    memory: int | None = None
    temp_dir: str | None = None
    split_size: int | None = None
    file_size: int | None = None
    partitions: int | None = None
    tasks: int | None = None
    worker_threads: int = 1
    inline_bytes: int = 16 * MIB
    batch_rows: int = 2048
    batch_bytes: int = 4 * MIB
    tries: int = 3
    task_timeout: float | None = None
    probe_seconds: float = 60.0
    resume: bool = False
    cache: str | None = None
    cache_size: int | None = None
    max_partitions: int = 10_000
    storage_options: Secret = field(default_factory=Secret)

    def for_stage(self, resources: Resources | None, *, python: bool) -> Settings:
        """The settings for a stage that asks for something."""
        if resources is None:
            return self
        changed: dict[str, Any] = {
            "memory": resources.budget,
            "split_size": resources.split_bytes,
            "tasks": resources.tasks,
        }
        if python:
            threads = resources.threads or 1
            shared = resources.cpu and max(1, resources.cpu // threads)
            changed |= {"workers": resources.workers or shared, "worker_threads": threads}
        else:
            changed["threads"] = resources.threads or resources.cpu
        return replace(self, **{name: value for name, value in changed.items() if value})

    def worker_count(self) -> int:
        """Worker processes: as many as processors are allowed when not set."""
        return self.workers or machine.allowed_cpus()

    def thread_count(self) -> int:
        """Threads of the coordinator's DuckDB."""
        return self.threads or machine.allowed_cpus()

    def budget(self) -> int:
        """Bytes for everything: 60 % of what is allowed when not set."""
        return self.memory or machine.allowed_memory() * 6 // 10

    def native_memory(self) -> int:
        """DuckDB's limit in the coordinator when no worker runs; it overshoots by a quarter."""
        return max(64 * MIB, self.budget() * 3 // 4)

    def beside_memory(self) -> int:
        """DuckDB's limit in the coordinator while workers run: what their shares leave."""
        return max(64 * MIB, self.budget() * 2 // 10 * 100 // 125)

    def worker_memory(self) -> int:
        """DuckDB's limit in each worker: half of its share, the rest is for Python and Arrow."""
        share = self.budget() * 8 // 10 // self.worker_count()
        return max(64 * MIB, share * 100 // 125 // 2)

    def temp_root(self) -> str:
        """The folder in which a run makes its own folder."""
        return self.temp_dir or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - a 0700 folder is made in it
